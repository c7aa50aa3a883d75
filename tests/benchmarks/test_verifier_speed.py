"""Microseconds per verification: `pytest tests/benchmarks -n0 --benchmark-enable`.

Each verifier of the table is measured on drafts of its own kind; `multiple_of_token` compares it with token
verification over the same vocabulary, measured in the same run. Without the option each runs once.
"""

import sys
from pathlib import Path

import pytest

from speculative.bound import whole
from speculative.chance import Sampler
from speculative.draft import paths
from speculative.verify import VERIFIERS

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "docs"))
import speed  # the script that measures

CASES = [
    (name, vocab_size, nodes)
    for name, entry in VERIFIERS.items()
    for vocab_size in speed.VOCAB_SIZES
    for nodes in (speed.NODES if speed.is_of_trees(entry) else (speed.DEPTH,))
]
PROGRAMS = [(2, 2, 2), (3, 1, 2), (3, 2, 2), (4, 2, 2), (6, 2, 2)]
"""Vocabulary, depth and paths of the linear programs."""


@pytest.fixture(scope="module", autouse=True)
def warm():
    speed.keep_freed_memory()


def verify_each(function, rounds):
    return [function(*one) for one in rounds]


@pytest.mark.parametrize(("name", "vocab_size", "nodes"), CASES)
def test_a_verification(benchmark, name, vocab_size, nodes):
    if name == "canonical" and vocab_size > 32:
        pytest.skip("it refuses more than about a hundred tokens")
    if benchmark.disabled and name == "canonical" and nodes > 16:
        pytest.skip("half a second: use --benchmark-enable")
    drafted = speed.drafted(name, vocab_size, nodes, rounds=1 if benchmark.disabled else speed.ROUNDS)

    def fresh():
        speed.forget()
        chances = [Sampler(speed.Uniforms(seed)) for seed in range(len(drafted))]
        return (
            VERIFIERS[name].function,
            [(chance, *one) for chance, one in zip(chances, drafted, strict=True)],
        ), {}

    verdicts = benchmark.pedantic(verify_each, setup=fresh, rounds=1 if benchmark.disabled else 20)
    assert all(0 <= verdict.accepted == len(verdict.tokens) - 1 for verdict in verdicts)
    if benchmark.stats:
        each = 1e6 * benchmark.stats.stats.min / len(drafted)
        once = speed.microseconds("token", speed.drafted("token", vocab_size, speed.DEPTH))
        benchmark.extra_info["microseconds"] = round(each, 1)
        benchmark.extra_info["multiple_of_token"] = round(each / once, 2)


@pytest.mark.parametrize("case", speed.PROVED)
def test_an_exact_law_of_trees(benchmark, case):
    if benchmark.disabled and "3" in case:
        pytest.skip("shows nothing that the small ones do not: use --benchmark-enable")
    enumerate_round, count = speed.proved(case)
    assert benchmark.pedantic(enumerate_round, rounds=1 if benchmark.disabled else 3).exact
    if benchmark.stats:
        seconds = benchmark.stats.stats.min
        benchmark.extra_info["paths"] = count
        benchmark.extra_info["paths_per_second"] = round(count / seconds)


@pytest.mark.parametrize(("vocab_size", "depth", "num_paths"), PROGRAMS)
def test_the_whole_rounds_program(benchmark, vocab_size, depth, num_paths):
    if benchmark.disabled and vocab_size > 3:
        pytest.skip("shows nothing that the small ones do not: use --benchmark-enable")
    target, small = (speed.dense_oracle(seed, vocab_size) for seed in (1, 2))
    optimum = benchmark.pedantic(
        whole, (target, paths(small, num_paths=num_paths)), {"num_draft_tokens": depth}, rounds=1
    )
    assert 0 < optimum.expected_accepted < depth
    benchmark.extra_info["variables"] = optimum.variables
