"""What the loop takes beside the models: microseconds, and functions called, for each emitted token.

`pytest tests/benchmarks -n0 --benchmark-enable` measures, with models that take no time, and
`multiple_of_plain` compares with `autoregress`, measured in the same run. Without the option each runs once.
Calls are counted always: they do not depend on the machine.
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from speculative import VERIFIERS, generate, sample

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "docs"))
import speed  # the script that measures

ALONE = "the target alone"
MOST_CALLS = {"rows": 70, "certain": 60, "logits": 90, "warped": 120}
"""Calls of functions for each emitted token, by the kind of models."""


@pytest.mark.parametrize("case", speed.LOOPS)
def test_a_decode(benchmark, case):
    jobs = [(prompt, 0) for prompt in speed.PROMPTS]

    def decode_all():
        return [speed.decoded(case, *job) for job in jobs]

    times = benchmark.pedantic(decode_all, rounds=1 if benchmark.disabled else 50, warmup_rounds=1)
    tokens = sum(time.tokens for time in times)
    assert tokens == len(jobs) * speed.NEW_TOKENS
    if benchmark.stats:
        alone = speed.loop_time(ALONE)
        each = 1e6 * benchmark.stats.stats.min / tokens
        benchmark.extra_info["microseconds_a_token"] = round(each, 1)
        benchmark.extra_info["multiple_of_plain"] = round(each * alone.tokens / (1e6 * alone.seconds), 2)


def calls(program):
    """Return how many functions were called, of Python's and of C's, and what the program returned."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in {"call", "c_call"}

    program()  # what is looked up once is not counted
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        returned = program()
    finally:
        sys.setprofile(before)
    return count, returned


def calls_a_token(case, models):
    name, num_draft_tokens, _ = speed.LOOPS[case]
    called = emitted = 0
    for seed, prompt in enumerate(speed.PROMPTS):
        count, done = calls(
            partial(
                sample,
                generate,
                *models,
                (0,) * prompt,
                max_new_tokens=speed.NEW_TOKENS,
                num_draft_tokens=num_draft_tokens,
                verify=VERIFIERS[name].function,
                rng=seed,
            )
        )
        called, emitted = called + count, emitted + len(done.tokens)
    return called / emitted


@pytest.mark.parametrize("case", [case for case in speed.LOOPS if case != ALONE])
def test_a_token_takes_few_calls(case):
    kind = speed.LOOPS[case][-1]
    assert MOST_CALLS[kind] / 2 < calls_a_token(case, speed.instant(kind)) < MOST_CALLS[kind]


@pytest.mark.parametrize("kind", ["logits", "warped"])
def test_a_pass_that_is_made_row_by_row_is_noticed(kind):
    """The planted fault: the target's rows come one by one, so that nothing is done with all of them."""
    models = speed.instant(kind)
    slow = models._replace(target=replace(models.target, score_rows=None))
    case = next(case for case, made_of in speed.LOOPS.items() if made_of[-1] == kind)
    assert calls_a_token(case, slow) > MOST_CALLS[kind]
