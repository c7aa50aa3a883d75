"""The joint law of the drafted and the target's token under the two couplings, exactly.

Letters: p is the draft's row, q the target's. `joint(...)[x, y]` is the probability of drafting x and
emitting y, which is p[x] times the law that the verifier draws y from.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative import Draft, law, point_mass, prove, rational, table, total_variation, verify
from speculative.draft import model
from speculative.testing import near_rows, rows
from speculative.verify.gumbel import winner_given_draft
from speculative.verify.minhash import taken_given_draft

COUPLINGS = {"gumbel": winner_given_draft, "minhash": taken_given_draft}

TARGET, DRAFT = rational([".5", ".3", ".2"]), rational([".2", ".3", ".5"])
FOUR_TARGET, FOUR_DRAFT = rational([".1", ".6", ".3", "0"]), rational([".5", ".05", ".25", ".2"])

both_couplings = pytest.mark.parametrize("coupling", COUPLINGS)


@st.composite
def row_pairs(draw):
    vocab_size = draw(st.integers(3, 6))
    target = draw(rows(vocab_size))
    return target, draw(st.one_of(rows(vocab_size), near_rows(target)))


def joint(coupling, target, draft):
    table_of_both = np.zeros((len(target), len(target)), dtype=object)  # [x, y]
    for drafted in np.flatnonzero(draft):
        weights = COUPLINGS[coupling](int(drafted), draft, target)
        table_of_both[drafted] = draft[drafted] * weights / weights.sum()
    return table_of_both


def matches(coupling, target, draft):
    """The probability of drafting and emitting each token, (V,)."""
    return np.diagonal(joint(coupling, target, draft))


@both_couplings
@given(row_pairs())
def test_both_tokens_have_their_own_law(coupling, pair):
    target, draft = pair
    both = joint(coupling, target, draft)
    assert both.sum(axis=1).tolist() == draft.tolist()
    assert both.sum(axis=0).tolist() == target.tolist()
    assert (both >= 0).all()


@both_couplings
@given(row_pairs())
def test_the_draft_and_the_target_may_change_places(coupling, pair):
    """Neither construction knows which row is the target's; only the conditional law is written one way."""
    target, draft = pair
    assert joint(coupling, target, draft).tolist() == joint(coupling, draft, target).T.tolist()


@given(row_pairs())
def test_in_a_race_a_token_wins_twice_with_the_published_probability(pair):
    target, draft = pair
    expected = [
        1 / sum(max(p / draft[j], q / target[j]) for p, q in zip(draft, target, strict=True))
        if draft[j] and target[j]
        else 0
        for j in range(len(target))
    ]
    assert matches("gumbel", target, draft).tolist() == expected


@given(row_pairs())
def test_a_token_is_hit_twice_by_one_dart_or_by_two(pair):
    """By one dart: min(p, q) / (1 + TV) a token, together (1 - TV) / (1 + TV)."""
    target, draft = pair
    distance = total_variation(target, draft)
    one_dart = np.minimum(draft, target) / (1 + distance)
    assert one_dart.sum() == (1 - distance) / (1 + distance)
    two_darts = one_dart * abs(draft - target)
    assert matches("minhash", target, draft).tolist() == (one_dart + two_darts).tolist()


@given(row_pairs())
def test_a_race_never_matches_less_than_darts_at_any_token_nor_more_than_is_possible(pair):
    """Let r = p[j] / q[j] <= 1, d = q[j] - p[j], G(u) = sum(max(p, u q)), T = TV.

    The race matches p[j] / G(r). G is convex and its j-th term is p[j] up to r, so G(r) <= 1 + r (T - d). And
    (1 + r (T - d)) (1 + d) <= 1 + T, since r (1 + d) <= r (2 - r) <= 1. So p[j] / G(r) >= p[j] (1 + d) /
    (1 + T), which is what darts match. For p[j] > q[j] the two rows change places.
    """
    target, draft = pair
    race, darts = matches("gumbel", target, draft), matches("minhash", target, draft)
    distance = total_variation(target, draft)
    assert (race >= darts).all()
    assert 1 - distance >= race.sum() >= darts.sum() >= (1 - distance) / (1 + distance)


def test_on_three_tokens_both_match_alike_and_the_quoted_number_is_that_of_one_dart():
    """Gumbel: 1/5 + 3/13 + 1/5 = 41/65 = .630769. One dart: (1 - .3) / (1 + .3) = 7/13 = .538462."""
    assert matches("gumbel", TARGET, DRAFT).tolist() == [Fraction(1, 5), Fraction(3, 13), Fraction(1, 5)]
    assert joint("minhash", TARGET, DRAFT).tolist() == joint("gumbel", TARGET, DRAFT).tolist()
    assert (1 - total_variation(TARGET, DRAFT)) / (1 + total_variation(TARGET, DRAFT)) == Fraction(7, 13)


def test_on_four_tokens_the_race_matches_more():
    """Both rows have TV = 3/5, so darts match at (.1 (1.4) + .05 (1.55) + .25 (1.05)) / 1.6 = .3.

    The race: at token 0 the larger ones of (.5, .05, .25, .2) / .5 and (.1, .6, .3, 0) / .1 sum to 10.4 =
    1 + 6 + 3 + .4; at token 1, over .05 and .6, to 20 = 10 + 1 + 5 + 4; at token 2, over .25 and .3, to 5.8.
    """
    assert matches("minhash", FOUR_TARGET, FOUR_DRAFT).sum() == Fraction(3, 10)
    expected = 1 / Fraction("10.4") + Fraction(1, 20) + 1 / Fraction("5.8")
    assert matches("gumbel", FOUR_TARGET, FOUR_DRAFT).sum() == expected > Fraction(318, 1000)


@both_couplings
def test_each_position_is_coupled_on_its_own(coupling):
    proof = prove(getattr(verify, coupling), table(TARGET), model(table(DRAFT)), num_draft_tokens=2)
    assert proof.lossless
    assert proof.survival == (Fraction(41, 65), Fraction(41, 65) ** 2)


@both_couplings
def test_an_accepted_draft_is_followed_by_the_next_row_and_a_refused_one_by_nothing(coupling):
    first, second, last = rational([0, ".5", ".5"]), rational([1, 0, 0]), rational([0, 0, 1])
    proposal = Draft((1, 0), (first, point_mass(0, 3)))
    output = law(getattr(verify, coupling), proposal, [first, second, last])
    assert output == {verify.Verdict((1, 0, 2), accepted=2): 1}
    output = law(getattr(verify, coupling), proposal, [rational([".5", 0, ".5"]), second, last])
    assert {verdict.tokens for verdict in output} == {(0,), (2,)}


@both_couplings
@given(row_pairs())
def test_on_floats_nothing_breaks_and_the_law_is_that_of_the_fractions(coupling, pair):
    target, draft = (table(row.astype(np.float64)) for row in pair)
    proof = prove(getattr(verify, coupling), target, model(draft), num_draft_tokens=1)
    assert not proof.exact
    assert proof.distance < 1e-12


@both_couplings
@pytest.mark.parametrize("noise", [0, 1e-16, 3e-16, 1e-13])
def test_near_equal_floats_leave_no_gap(coupling, noise):
    draft = np.array([0.1, 0.2, 0.3, 0.4])
    target = draft * (1 + noise * np.array([1, -1, 1, -1]))
    proof = prove(getattr(verify, coupling), table(target), model(table(draft)), num_draft_tokens=2)
    assert proof.distance < 1e-12
    assert proof.survival[0] == pytest.approx(1, abs=1e-11)


@both_couplings
def test_probabilities_far_below_rounding_neither_overflow_nor_count(coupling):
    target, draft = np.array([1e-300, 0.5, 0.5, 0]), np.array([0.5, 1e-300, 0.5, 0])
    expected = joint(coupling, rational([0, ".5", ".5", 0]), rational([".5", 0, ".5", 0]))
    for drafted in (0, 2):
        weights = COUPLINGS[coupling](drafted, draft, target)
        exact = expected[drafted] / draft[drafted]
        assert weights / weights.sum() == pytest.approx(exact.astype(np.float64), abs=1e-15)


@both_couplings
def test_a_large_vocabulary_has_the_law_of_the_target(coupling):
    """The drafted tokens are few, so that every conditional law can be added up."""
    rng = np.random.default_rng(0)
    target, draft = rng.exponential(size=32_000), np.zeros(32_000)
    draft[:40] = rng.exponential(size=40)
    target[:40] *= 200
    target, draft = target / target.sum(), draft / draft.sum()
    emitted = np.zeros(32_000)
    for drafted in range(40):
        weights = COUPLINGS[coupling](drafted, draft, target)
        emitted += draft[drafted] * weights / weights.sum()
    assert abs(emitted - target).sum() < 1e-12


def race_and_residual(chance, draft, target_probs):
    """Accept as the race does, then draw what token verification draws: two rules that do not fit."""
    weights = winner_given_draft(draft.tokens[0], draft.probs[0], target_probs[0])
    if chance.flip(weights[draft.tokens[0]]):
        return (draft.tokens[0], chance.pick(target_probs[1]))
    left = np.maximum(target_probs[0] - draft.probs[0], 0)
    return (chance.pick(left if left.any() else target_probs[0]),)


def one_dart_and_residual(chance, draft, target_probs):
    """Accept with the quoted probability of one dart, then draw from the excess: other darts forgotten."""
    drafted, draft_row, target_row = draft.tokens[0], draft.probs[0], target_probs[0]
    same = min(1, target_row[drafted] / draft_row[drafted]) / (1 + total_variation(target_row, draft_row))
    if chance.flip(same):
        return (drafted, chance.pick(target_probs[1]))
    left = np.maximum(target_row - draft_row, 0)
    return (chance.pick(left if left.any() else target_row),)


@pytest.mark.parametrize("fault", [race_and_residual, one_dart_and_residual])
def test_a_residual_of_another_rule_is_noticed(fault):
    proof = prove(fault, table(FOUR_TARGET), model(table(FOUR_DRAFT)), num_draft_tokens=1)
    assert proof.exact
    assert proof.distance > Fraction(1, 100)
