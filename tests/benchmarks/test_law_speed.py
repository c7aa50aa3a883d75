"""Paths per second of the enumerator: `pytest tests/benchmarks --benchmark-enable`.

Each result carries `paths_per_second` and `microseconds_per_path`; the cost of a path must not grow with
their number, here from a hundred to sixty thousand.
"""

from functools import partial

import numpy as np
import pytest

from speculative import cached, from_probs, law, law_of_process, paths, rational, speculate
from speculative.draft import model


def dense_oracle(seed, vocab_size, exact):
    """Another positive row after every context, so that every path has mass."""

    def row(context):
        weights = np.random.default_rng((seed, *(token + 1 for token in context))).integers(1, 20, vocab_size)
        fractions = rational([f"{weight}/{weights.sum()}" for weight in weights])
        return fractions if exact else fractions.astype(float)

    return cached(from_probs(row, vocab_size))


def tokens_of_a_round(chance, target, drafter, k):
    return speculate(chance, target, drafter, num_draft_tokens=k).tokens


@pytest.mark.parametrize("exact", [True, False], ids=["fractions", "floats"])
@pytest.mark.parametrize(("vocab_size", "k"), [(3, 3), (4, 4), (5, 4), (8, 4)])
def test_paths_per_second_of_token_verification(benchmark, vocab_size, k, exact):
    target, drafter = dense_oracle(1, vocab_size, exact), model(dense_oracle(2, vocab_size, exact))
    if benchmark.disabled and vocab_size > 4:
        pytest.skip("takes long and shows nothing that the small ones do not: use --benchmark-enable")
    program = partial(law, tokens_of_a_round, target, drafter, k)
    count = sum(1 for _ in paths(tokens_of_a_round, target, drafter, k))
    assert benchmark.pedantic(program, rounds=1 if count > 10_000 else 5, warmup_rounds=0).exact == exact
    if benchmark.stats:
        seconds = benchmark.stats.stats.min
        benchmark.extra_info["paths"] = count
        benchmark.extra_info["paths_per_second"] = round(count / seconds)
        benchmark.extra_info["microseconds_per_path"] = round(seconds / count * 1e6, 1)


def test_a_process_of_six_tokens(benchmark):
    target, drafter = dense_oracle(1, 4, True), model(dense_oracle(2, 4, True))

    def step(chance, context):
        return (
            context
            + speculate(chance, target, drafter, context, num_draft_tokens=min(3, 5 - len(context))).tokens
        )

    made = benchmark.pedantic(law_of_process, (step, (), lambda context: len(context) == 6), rounds=1)
    assert made.exact
    assert len(made) == 4**6
