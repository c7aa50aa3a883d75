"""Hierarchical verification, algorithm 2 of its paper, is block verification, law for law."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings

from speculative import Draft, law, prove, rational, verify
from speculative.distribution import excess
from speculative.testing import pairs


def algorithm_2(chance, draft, target_probs):
    """Zhou et al. 2026, algorithm 2, from its formulas, in joint probabilities and without a weight.

    The capped joint law of the target after t drafts is r*(t) times the draft's, where r*(t) is the ratio of
    the joint laws of the drafts behind m alone, and m the last place before t at which the ratio from the
    start was the largest, if that is above 1. Going backwards, a beginning is kept with min(1, r*) if it is
    the whole draft, else with D+ / D-, the joint masses that the target has more and less than the draft in
    the next token. The next token is drawn from what D+ sums up.
    """
    small, ratios = [Fraction(1)], [Fraction(1)]  # joint, of the beginnings of 0 to k drafts
    for token, row, target in zip(draft.tokens, draft.probs, target_probs, strict=False):
        small.append(small[-1] * row[token])
        ratios.append(ratios[-1] * target[token] / row[token])
    capped = [ratio / max([1, *ratios[:t]]) for t, ratio in enumerate(ratios)]
    if chance.flip(min(1, capped[-1])):
        return (*draft.tokens, chance.pick(target_probs[-1]))
    t = len(draft)
    kept = False
    while not kept:
        t -= 1
        wanted, drafted = min(1, capped[t]) * small[t] * target_probs[t], small[t] * draft.probs[t]
        more, less = excess(wanted, drafted), excess(drafted, wanted)
        kept = t == 0 or not less.any() or chance.flip(more.sum() / less.sum())
    return (*draft.tokens[:t], chance.pick(more if more.any() else target_probs[t]))


def verdicts(function, one, rows):
    return law(function, one, rows).map(lambda verdict: tuple(getattr(verdict, "tokens", verdict)))


@settings(max_examples=60)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 4)))
def test_given_any_draft_both_have_one_law(pair):
    one = law(lambda chance: pair.drafter(chance, (), pair.num_draft_tokens).tokens)
    for tokens in list(one)[:12]:
        rows = pair.target.score((), tokens)
        drafted = Draft(tokens, [pair.draft(tokens[:i]) for i in range(len(tokens))])
        assert verdicts(algorithm_2, drafted, rows) == verdicts(verify.block, drafted, rows)
        assert verdicts(verify.hsd, drafted, rows) == verdicts(verify.block, drafted, rows)


@settings(max_examples=15)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)))
def test_so_neither_accepts_more(pair):
    options = {"num_draft_tokens": pair.num_draft_tokens}
    proofs = [prove(rule, pair.target, pair.drafter, **options) for rule in (algorithm_2, verify.block)]
    assert proofs[0].lossless
    assert proofs[0] == proofs[1]


def test_the_uncapped_rule_differs_from_it():
    """Ratios 2 and 1/2: together 1, so uncapped the draft always passes; capped it passes with 1/2."""
    target = [rational(["1/2", "1/2", "0"]), rational(["1/4", "3/4", "0"]), rational(["1", "0", "0"])]
    drafted = Draft((0, 0), [rational(["1/4", "3/4", "0"]), rational(["1/2", "1/2", "0"])])
    both = verdicts(verify.block, drafted, target)
    assert (
        both == verdicts(algorithm_2, drafted, target) == {(0, 0, 0): Fraction(1, 2), (0, 1): Fraction(1, 2)}
    )
