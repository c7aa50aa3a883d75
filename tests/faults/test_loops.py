"""Loops: every wrong one fails the check that is named beside it, and the right ones pass all of them."""

from __future__ import annotations

import pytest

from speculative import autoregress, draft, generate, law

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
