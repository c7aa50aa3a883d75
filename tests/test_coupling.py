"""Shared noise: one text a seed whatever the drafter, and over seeds the laws that are worked out elsewhere.

Seeds 0 to SEEDS - 1 stand for independent ones. Of each the times of 16 tokens are taken, four races of
four tokens. A count of n draws is compared with its exact probability by the binomial tails: each
comparison raises a false alarm with probability FALSE_ALARM. Faults are planted beside them, with laws of
their own, that pass with probability FALSE_ALARM at most where nothing else is said: `power` asserts it.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from speculative import autoregress, checked, draft, generate, law, prove, rational, sample, table, verify
from speculative.coupling import _uniforms, darts, exponentials, race, race_paths
from speculative.draft import model
from speculative.testing import pairs
from speculative.verify.gumbel import winner_given_draft
from speculative.verify.minhash import taken_given_draft
from speculative.warp import temperature

FALSE_ALARM = 1e-10
SEEDS = 10_000
DRAWS = 4 * SEEDS

TARGET, DRAFT = rational([".5", ".3", ".2"]), rational([".2", ".3", ".5"])
FOUR_TARGET, FOUR_DRAFT = rational([".1", ".6", ".3", "0"]), rational([".5", ".05", ".25", ".2"])

ends_of_the_word = np.array([0, 2**64 - 1], dtype=np.uint64)
seeds = st.integers(0, 2**64 - 1)
both_couplings = pytest.mark.parametrize("couple", [race, darts])


# ---- one text a seed ----


@both_couplings
@settings(max_examples=20)
@given(pairs(), pairs(), seeds, st.integers(0, 4))
def test_the_text_is_a_function_of_the_seed_whatever_the_drafter(couple, pair, other, seed, num_draft_tokens):
    target = couple(seed)(pair.target)
    alone = sample(autoregress, target, (0, 1, 0), max_new_tokens=6).tokens
    drafters = [model(couple(seed)(pair.draft)), draft.lookup(pair.target.vocab_size), model(pair.draft)]
    if other.draft.vocab_size == pair.target.vocab_size:
        drafters.append(model(couple(seed)(other.draft)))
    for drafter in drafters:
        made = sample(
            generate,
            target,
            drafter,
            (0, 1, 0),
            max_new_tokens=6,
            num_draft_tokens=num_draft_tokens,
            verify=verify.greedy,
        )
        assert made.tokens == alone


@both_couplings
def test_no_randomness_is_left_not_even_with_a_drafter_that_draws(couple):
    target = couple(3)(table(TARGET))
    output = law(
        generate, target, model(table(DRAFT)), max_new_tokens=3, num_draft_tokens=2, verify=verify.greedy
    )
    text = sample(autoregress, target, max_new_tokens=3).tokens
    assert output.map(lambda made: made.tokens) == {text: 1}
    assert len(output) > 1, "what is drawn changes the rounds"


@pytest.mark.parametrize("verifier", [verify.greedy, verify.recursive])
@settings(max_examples=20)
@given(pairs(), seeds, st.integers(1, 3), st.integers(1, 3))
def test_with_several_chains_the_text_is_a_function_of_the_seed_and_their_number(
    verifier, pair, seed, num_chains, num_draft_tokens
):
    target = race(seed, lanes=range(num_chains))(pair.target)
    alone = sample(autoregress, target, max_new_tokens=6).tokens
    for drafts in ([pair.draft] * num_chains, [pair.target, *[pair.draft] * (num_chains - 1)]):
        made = sample(
            generate,
            target,
            race_paths(seed, drafts),
            max_new_tokens=6,
            num_draft_tokens=num_draft_tokens,
            verify=verifier,
        )
        assert made.tokens == alone


def test_another_seed_position_or_lane_is_another_noise():
    noises = [
        exponentials(1, 0, 8),
        exponentials(2, 0, 8),
        exponentials(1, 1, 8),
        exponentials(1, 0, 8, lane=1),
    ]
    assert len({tuple(noise) for noise in noises}) == 4
    assert exponentials(2**64 - 1, 5, 8, lane=2**64 - 1).shape == (8,)


def test_a_token_has_the_same_time_in_any_vocabulary():
    assert exponentials(7, 3, 9)[:4].tolist() == exponentials(7, 3, 4).tolist()


def test_the_noise_of_a_seed_is_that_of_every_version():
    """Philox 4x64-10, key (7, 3), counter (1, 0, 0, 2): the words that numpy documents as the raw stream."""
    key, counter = np.array([7, 3], dtype=np.uint64), np.array([0, 0, 0, 2], dtype=np.uint64)
    words = np.random.Philox(key=key, counter=counter).random_raw(3)
    u = ((words >> np.uint64(12)).astype(float) + 0.5) / 2**52
    assert exponentials(7, 3, 3, lane=2).tolist() == (-np.log(u)).tolist()


@given(seeds, st.integers(0, 5), st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
def test_the_least_time_over_probability_wins_the_best_lane_counting(seed, position, lanes):
    row = FOUR_TARGET
    times = np.min([exponentials(seed, position, 4, lane) for lane in lanes], axis=0)
    winner = min((0, 1, 2), key=lambda token: times[token] / float(row[token]))
    raced = race(seed, lanes)(table(row))((0,) * position)
    assert raced.tolist() == [int(token == winner) for token in range(4)]
    assert all(isinstance(value, Fraction) for value in raced)


@both_couplings
@given(pairs(), seeds)
def test_scored_at_once_rows_are_those_of_their_own_positions(couple, pair, seed):
    oracle = couple(seed)(pair.target)
    rows = checked(oracle).score((0, 1), (2, 0, 1))
    for i, row in enumerate(rows):
        assert row.tolist() == oracle((0, 1, 2, 0, 1)[: 2 + i]).tolist()
    tree = oracle.score_tree((0,), (1, 2, 0), (0, 0, 1))
    assert tree[3].tolist() == oracle((0, 1, 0)).tolist()


@both_couplings
def test_greedy_decoding_needs_no_noise(couple):
    greedy = temperature(0)(table(FOUR_TARGET.astype(np.float64)))
    assert all(couple(seed)(greedy)(()).tolist() == [0, 1, 0, 0] for seed in range(50))


# ---- chains that are merged ----


def test_chains_that_begin_alike_share_their_nodes():
    oracle = table(TARGET)
    alike = parted = 0
    for seed in range(200):
        chains = [
            sample(autoregress, race(seed, (lane,))(oracle), (2,), max_new_tokens=2).tokens
            for lane in range(3)
        ]
        tree = sample(race_paths(seed, [oracle] * 3), (2,), 2)
        beginnings = list(dict.fromkeys(chain[:depth] for chain in chains for depth in (1, 2)))
        assert tree.tokens == tuple(path[-1] for path in beginnings)
        nodes = {(): 0, **{path: node for node, path in enumerate(beginnings, start=1)}}
        assert tree.parents == tuple(nodes[path[:-1]] for path in beginnings)
        alike += len(beginnings) == 2
        parted += len(beginnings) == 6
    assert alike
    assert parted


@settings(max_examples=25)
@given(pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)), seeds)
def test_merged_chains_are_declared_as_certain(pair, seed):
    """Otherwise a verifier that looks at the draws would not reproduce a target that is not raced."""
    drafter = race_paths(seed, [pair.draft, pair.draft, pair.target])
    assert prove(verify.recursive, pair.target, drafter, num_draft_tokens=pair.num_draft_tokens).lossless
    siblings = sample(drafter, (), 1).siblings(0)
    assert all(row[token] == 1 for row, token in zip(siblings.laws(), siblings.tokens, strict=True))
    assert siblings.scheme(siblings.row, siblings.tokens, 9) is None


def test_chains_end_at_the_limit_of_their_own_model():
    short = table(TARGET, context_limit=2)
    tree = sample(race_paths(0, [short, table(TARGET)]), (0, 1), 3)
    assert tree.depth == 3
    assert sample(race_paths(0, [short]), (0, 1), 3).depth == 1
    assert len(sample(race_paths(0, [short]), (0, 1, 2), 3)) == 0


# ---- laws over seeds ----


def plausible(hits, probability, draws=DRAWS):
    """Whether so many hits of so many draws are none that happen by chance once in 1 / FALSE_ALARM."""
    probability = float(probability)
    tail = min(binom.cdf(hits, draws, probability), binom.sf(hits - 1, draws, probability))
    return tail > FALSE_ALARM / 2


def power(actual, probability, draws=DRAWS):
    """The probability that draws with the actual probability are not plausible."""
    low, high = (
        binom.isf(1 - FALSE_ALARM / 2, draws, probability),
        binom.isf(FALSE_ALARM / 2, draws, probability),
    )
    return binom.cdf(low - 1, draws, actual) + binom.sf(high + 1, draws, actual)


def tokens_have_law(tokens, row):
    counts = np.bincount(tokens, minlength=len(row))
    return all(plausible(hits, q, len(tokens)) for hits, q in zip(counts, row, strict=True))


@pytest.fixture(scope="module")
def times():
    """Times of four tokens at two positions in two lanes, [DRAWS, position, lane, token]."""
    noise = [
        [[exponentials(seed, position, 16, lane) for lane in (0, 1)] for position in (0, 1)]
        for seed in range(SEEDS)
    ]
    return np.reshape(noise, (SEEDS, 2, 2, 4, 4)).transpose(0, 3, 1, 2, 4).reshape(DRAWS, 2, 2, 4)


@pytest.fixture(scope="module")
def dart_tokens():
    """The tokens that darts choose for the target and for the draft, [SEEDS, 2]."""
    oracles = [table(row.astype(np.float64)) for row in (TARGET, DRAFT)]
    return np.array([[darts(seed)(oracle)(()).argmax() for oracle in oracles] for seed in range(SEEDS)])


def winners(times, row):
    with np.errstate(divide="ignore"):
        return (times / row.astype(np.float64)).argmin(axis=-1)


def test_times_are_exponential(times):
    for least in (0.01, 0.5, 1, 3):
        assert plausible((times[:, 0, 0, 0] > least).sum(), np.exp(-least))


def test_the_winner_has_the_law_of_the_row_in_one_lane_and_in_the_best_of_two(times):
    assert tokens_have_law(winners(times[:, 0, 0], FOUR_TARGET), FOUR_TARGET)
    assert tokens_have_law(winners(times[:, 0].min(axis=1), FOUR_TARGET), FOUR_TARGET)


def test_so_has_the_token_of_the_first_dart(dart_tokens):
    assert tokens_have_law(dart_tokens[:, 0], TARGET)
    assert tokens_have_law(dart_tokens[:, 1], DRAFT)


def test_positions_and_lanes_are_independent_and_noise_shared_by_two_is_noticed(times):
    at_first = winners(times[:, 0, 0], FOUR_TARGET)
    square = np.outer(FOUR_TARGET, FOUR_TARGET).ravel()
    for second in (times[:, 1, 0], times[:, 0, 1]):
        assert tokens_have_law(4 * at_first + winners(second, FOUR_TARGET), square)
    shared = 4 * at_first + winners(times[:, 0, 0], FOUR_TARGET)
    assert not tokens_have_law(shared, square)
    assert power(0.6, 0.6**2) > 1 - FALSE_ALARM  # the token of probability .6, twice


def test_a_race_couples_as_the_verifier_has_it(times):
    draft_tokens, target_tokens = winners(times[:, 0, 0], FOUR_DRAFT), winners(times[:, 0, 0], FOUR_TARGET)
    joint = [p * winner_given_draft(x, FOUR_DRAFT, FOUR_TARGET) for x, p in enumerate(FOUR_DRAFT)]
    assert tokens_have_law(4 * draft_tokens + target_tokens, np.concatenate(joint))


def test_darts_couple_as_the_verifier_has_it_and_not_as_the_quoted_number(dart_tokens):
    """On these rows tokens are the same with probability 41/65; the same dart has 7/13."""
    joint = [p * taken_given_draft(x, DRAFT, TARGET) / Fraction(13, 10) for x, p in enumerate(DRAFT)]
    assert tokens_have_law(3 * dart_tokens[:, 1] + dart_tokens[:, 0], np.concatenate(joint))
    same = (dart_tokens[:, 0] == dart_tokens[:, 1]).sum()
    assert plausible(same, Fraction(41, 65), SEEDS)
    assert not plausible(same, Fraction(7, 13), SEEDS)
    assert power(41 / 65, 7 / 13, SEEDS) > 1 - FALSE_ALARM


def list_match_of_two(target, draft):
    """The probability that one of two drafts has the target's token, and the lemma's bound on it.

    Let the target's token j win in lane 1, at time t; the other lane doubles the result. Lane 1 drafts j,
    too, if its times exceed t max(q, p q[j] / p[j]), with probability exp(-t C), C = q[j] sum(max(q / q[j],
    p / p[j])); those of lane 2 exceed t q with probability exp(-t). Lane 2 drafts j at time s if its times
    exceed max(s p, t q), with probability exp(-s G(u)), u = t / s < p[j] / q[j], G(u) = sum(max(p, u q));
    lane 1 then has exp(-t), or exp(-t C) where it drafts j as well. The integral of s exp(-s h) over s is 1
    / h^2, that of 1 / h^2 over u between a and b, where h is linear, (b - a) / (h(a) h(b)).
    """
    ratios = {p / q for p, q in zip(draft, target, strict=True)}
    match = bound = Fraction(0)

    def height(u):
        return np.maximum(draft, u * target).sum()

    def integral(top, rate):
        ends = sorted({Fraction(0), top, *(ratio for ratio in ratios if ratio < top)})
        return sum((b - a) / ((rate * a + height(a)) * (rate * b + height(b))) for a, b in pairwise(ends))

    for p, q in zip(draft, target, strict=True):
        both_rate = np.maximum(target / q, draft / p).sum()  # C / q[j]
        first = 1 / (both_rate + 1 / q)
        second = p * q * (integral(p / q, 1) - integral(p / q, q * both_rate))
        match, bound = match + 2 * (first + second), bound + 2 * first
    return match, bound


def test_two_drafts_meet_the_target_as_often_as_worked_out_above_the_lemma_and_below_the_optimum(times):
    """The lemma: 601/805 = .746584. No rule for two independent drafts of these rows exceeds .86."""
    match, bound = list_match_of_two(TARGET, DRAFT)
    assert (match, bound) == (Fraction(439709, 568100), Fraction(601, 805))
    assert bound < match < Fraction(86, 100)
    lanes = times[:, 0, :, :3]
    target_tokens, draft_tokens = winners(lanes.min(axis=1), TARGET), winners(lanes, DRAFT)
    met = (draft_tokens == target_tokens[:, None]).any(axis=1).sum()
    assert plausible(met, match)
    assert not plausible(met, bound)
    assert power(float(match), float(bound)) > 1 - 1e-9


def test_noise_that_a_draft_and_its_residual_share_is_noticed(times):
    """Token verification with the race's draft, a coin of its own, and a residual from the draft's noise.

    Drafted x and residual j then come together as in a race between the draft and the residual, so token 1
    has .05 + sum over x of P(x refused) P(x and 1) = 471/740, not 3/5.
    """
    left = np.maximum(FOUR_TARGET - FOUR_DRAFT, 0)
    refused = 1 - np.minimum(1, FOUR_TARGET / FOUR_DRAFT)
    residual = left / left.sum()
    joint = np.array([p * winner_given_draft(x, FOUR_DRAFT, residual) for x, p in enumerate(FOUR_DRAFT)])
    faulty = np.minimum(FOUR_TARGET, FOUR_DRAFT) + (refused[:, None] * joint).sum(axis=0)
    assert faulty.tolist() == [Fraction(1, 10), Fraction(471, 740), Fraction(39, 148), 0]

    drafted = winners(times[:, 0, 0], FOUR_DRAFT)
    coin = np.random.default_rng(0).random(DRAWS) < refused.astype(float)[drafted]
    assert tokens_have_law(np.where(coin, winners(times[:, 0, 1], left), drafted), FOUR_TARGET)
    shared = np.where(coin, winners(times[:, 0, 0], left), drafted)
    assert tokens_have_law(shared, faulty)
    assert not tokens_have_law(shared, FOUR_TARGET)
    assert power(float(faulty[1]), 0.6) > 1 - FALSE_ALARM


def test_a_temperature_that_divides_the_noise_is_noticed(times):
    """At temperature 1/2 the law is q^2, normalised. Times over 1/2 give q; Gumbel noise over 1/2 sqrt(q)."""
    warped = temperature(0.5).row(FOUR_TARGET)
    noise = times[:, 0, 0]
    assert tokens_have_law(winners(noise, warped), warped)
    roots = np.sqrt(FOUR_TARGET.astype(np.float64))
    for faulty, actual in (
        (noise / 0.5, FOUR_TARGET.astype(np.float64)),
        (noise**2, roots / roots.sum()),  # Gumbel noise is -log(time)
    ):
        tokens = winners(faulty, FOUR_TARGET)
        assert tokens_have_law(tokens, actual)
        assert not tokens_have_law(tokens, warped)
        assert power(actual[1], float(warped[1])) > 1 - FALSE_ALARM


def test_no_time_is_zero_or_infinite_or_an_impossible_token_could_win():
    least, most = _uniforms(ends_of_the_word)
    assert 0 < least < most < 1
    assert 0 < -np.log(most) < -np.log(least) < 40
    with np.errstate(invalid="ignore"):
        assert (np.array([1.0, 0.0]) / np.array([1.0, 0.0])).argmin() == 1  # what a time of zero would do


@both_couplings
def test_tokens_without_probability_never_win_and_next_to_none_do_no_harm(couple):
    row = np.array([0, 5e-324, 1 - 1e-12, 1e-12, 0])
    assert {couple(seed)(table(row))(()).argmax() for seed in range(300)} == {2}


def test_darts_go_on_until_one_falls_below_the_row():
    """With one token of 500 possible, four throws a token all miss with probability (499/500)^2000 = .018."""
    row = np.zeros(500)
    row[77] = 1
    assert {int(darts(seed)(table(row))(()).argmax()) for seed in range(300)} == {77}


# ---- what is refused ----


@both_couplings
@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "1", None])
def test_what_is_no_seed_is_refused(couple, seed):
    with pytest.raises(ValueError, match=r"^seed = "):
        couple(seed)


@pytest.mark.parametrize(
    ("lanes", "message"), [((), "no lanes"), ((-1,), "^lane = "), ((0, 2**64), "^lane = ")]
)
def test_what_are_no_lanes_is_refused(lanes, message):
    with pytest.raises(ValueError, match=message):
        race(0, lanes)


def test_what_is_no_position_is_refused():
    with pytest.raises(ValueError, match=r"^position = -1"):
        exponentials(0, -1, 3)


@pytest.mark.parametrize("rows", [[], [TARGET, FOUR_TARGET]])
def test_oracles_of_several_vocabularies_or_none_are_refused(rows):
    with pytest.raises(ValueError, match="race_paths got oracles of"):
        race_paths(0, [table(row) for row in rows])
