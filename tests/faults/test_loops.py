"""Loops: every wrong one fails the check that is named beside it, and the right ones pass all of them."""

from __future__ import annotations

import pytest

from speculative import Draft, autoregress, draft, generate, law, min_p, rational, temperature, top_k, top_p
from speculative.draft import low_confidence

from . import checks
from .loops import LOOPS, Loop, with_numpy

RIGHT = {"generate": generate, "the loop in steps": Loop()}
BY_NAME = {wrong.name: wrong for wrong in LOOPS}
SLOW_OR_MUTE = (
    "no bonus",
    "drafts beyond the limit, cut off later",
    "the draft one token behind",
    "the draft without the bonus",
    "log-probabilities of the residual",
    "discarded drafts counted",
)
every_check = pytest.mark.parametrize("check", checks.ALL, ids=lambda check: check.__name__)


@every_check
@pytest.mark.parametrize("name", RIGHT)
def test_right_loops_pass(name, check):
    check(RIGHT[name])


def test_a_generator_seeded_once_passes_what_one_seeded_in_every_round_does_not():
    checks.same_law_as_the_target(with_numpy(rewind=False))


@pytest.mark.parametrize("wrong", LOOPS, ids=str)
def test_a_wrong_loop_is_reported(wrong):
    with pytest.raises(AssertionError):
        wrong.check(wrong.decode)


@pytest.mark.parametrize("name", SLOW_OR_MUTE)
def test_the_law_alone_does_not_see_it(name):
    checks.same_law_as_the_target(BY_NAME[name].decode)


@every_check
def test_every_check_reports_some_wrong_loop(check):
    assert any(wrong.check is check for wrong in LOOPS)


def test_the_law_of_generate_is_the_targets_without_any_tolerance():
    for stop_tokens in ((), (1,), (0, 2)):
        options = {"max_new_tokens": 3, "stop_tokens": stop_tokens}
        ours = law(generate, checks.TARGET, draft.model(checks.SMALL), (2,), num_draft_tokens=2, **options)
        plain = law(autoregress, checks.TARGET, (2,), **options)
        assert ours.exact
        assert ours.map(lambda made: made.tokens) == plain.map(lambda made: made.tokens)


@pytest.mark.parametrize(
    "warp",
    [temperature(0), temperature(0.5), top_k(2), top_p(0.7), min_p(0.5)],
    ids=lambda warp: warp.name,
)
def test_a_warp_reaches_the_text_through_generate(warp):
    """ohdearquant/lattice#388: laws had been tested at temperature 1 alone, and below generate."""
    options = {"max_new_tokens": 3}
    drafter = draft.model(checks.SMALL)
    warped = law(generate, warp(checks.TARGET), drafter, (2,), num_draft_tokens=2, **options)
    raw = law(generate, checks.TARGET, drafter, (2,), num_draft_tokens=2, **options)
    plain = law(autoregress, warp(checks.TARGET), (2,), **options).map(lambda made: made.tokens)
    assert warped.map(lambda made: made.tokens) == plain
    assert raw.map(lambda made: made.tokens).distance(plain) > 0


REPEATING = (0, 1, 2, 0, 1)


def copied_with_a_soft_law(chance, context, num_draft_tokens):
    """What was looked up in the text, declared as if it had been sampled."""
    tokens = draft.lookup(3)(chance, context, num_draft_tokens).tokens
    return Draft(tokens, (rational(["1/3", "1/3", "1/3"]),) * len(tokens))


@pytest.mark.parametrize(
    ("drafter", "right"),
    [
        (draft.model(checks.SMALL), True),
        (draft.model(checks.SMALL, stop=low_confidence(0.55)), True),
        (draft.lookup(3), True),
        (copied_with_a_soft_law, False),
    ],
    ids=["model", "model that stops", "lookup", "lookup with a soft law"],
)
def test_the_law_is_asked_of_every_drafter(drafter, right):
    """local-inference-lab/vllm#211: one drafter was mended and another kept the fault."""
    plain = law(autoregress, checks.TARGET, REPEATING, max_new_tokens=3).map(lambda made: made.tokens)
    ours = law(generate, checks.TARGET, drafter, REPEATING, max_new_tokens=3, num_draft_tokens=2)
    assert any(one.drafted for made in ours for one in made.rounds)
    assert (ours.map(lambda made: made.tokens) == plain) == right
