"""Oracles: state that follows rejected tokens is reported, by `checked` at the first pass or by the law."""

from __future__ import annotations

import pytest

from speculative import ImpureProgramError, autoregress, checked, draft, generate, law, sample, speculate

from . import checks
from .oracles import BRACKETED, BRACKETS, ORACLES, RIGHT, grammatical

wrong_ones = pytest.mark.parametrize("wrong", ORACLES, ids=str)
right_ones = pytest.mark.parametrize("right", RIGHT, ids=str)
OPTIONS = {"max_new_tokens": 8, "num_draft_tokens": 3}


def generate_checked(entry):
    """Decode with an oracle that is tested at every call, several texts after one prompt."""
    oracle = checked(entry.make(entry.plain))
    for seed in range(40):
        sample(generate, oracle, draft.model(checks.SMALL), (0,), rng=seed, **OPTIONS)


def same_law(entry):
    """Whether decoding has the law of plain decoding with the right oracle.

    It has not where the oracle answers otherwise in a replay, nor where the grammar refuses its own text.
    """
    options = {"max_new_tokens": 3}
    plain = law(autoregress, entry.right(entry.plain), (0,), **options)
    try:
        ours = law(
            generate, entry.make(entry.plain), draft.model(checks.SMALL), (0,), num_draft_tokens=2, **options
        )
    except (ImpureProgramError, ValueError):
        return False
    return ours.map(lambda made: made.tokens) == plain.map(lambda made: made.tokens)


@wrong_ones
def test_the_law_reports_a_wrong_oracle(wrong):
    assert not same_law(wrong)


@pytest.mark.parametrize("wrong", [wrong for wrong in ORACLES if wrong.name != "a penalty left out"], ids=str)
def test_checked_reports_a_wrong_oracle_while_it_decodes(wrong):
    with pytest.raises(ValueError, match=r"two laws|is not the law after"):
        generate_checked(wrong)


@right_ones
def test_right_oracles_pass_both(right):
    generate_checked(right)
    assert same_law(right)


def test_texts_of_a_wrong_grammar_are_not_accepted_and_those_of_a_right_one_are():
    def texts(entry):
        drafter = draft.model(entry.plain)
        return law(speculate, entry.make(entry.plain), drafter, (), num_draft_tokens=3)

    def parsed(one):
        try:
            return BRACKETS.state(one.tokens) is not None
        except ValueError:
            return False

    grammars = {
        entry.name: texts(entry).map(parsed) for entry in (*ORACLES, *RIGHT) if "grammar" in entry.name
    }
    assert grammars.pop("the library's grammar") == {True: 1}
    assert grammars
    for name, parses in grammars.items():
        assert parses.get(False, 0) > 0, name


def test_the_draft_needs_no_grammar_for_the_text_to_have_one():
    plain = law(autoregress, grammatical(BRACKETED), (), max_new_tokens=3)
    for small in (BRACKETED, grammatical(BRACKETED), checks.SMALL):
        ours = law(
            generate, grammatical(BRACKETED), draft.model(small), (), max_new_tokens=3, num_draft_tokens=2
        )
        assert ours.map(lambda made: made.tokens) == plain.map(lambda made: made.tokens)
