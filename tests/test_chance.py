"""The two samplers: what they answer at every edge, what they refuse, what they cost, and their laws."""

import math
from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted import ScriptedBits, uniforms
from speculative import law, paths, sample, sample_exactly
from speculative.chance import ROUNDING_SLACK, ExactSampler, Sampler, check_probability

LAST = 2**53 - 1  # the last grid point: the uniform 1 - 2**-53
HALF = Fraction(1, 2)

whole_weights = st.lists(st.integers(0, 9), min_size=1, max_size=7).filter(any)
float_weights = st.lists(
    st.just(0.0) | st.floats(1e-12, 1e12, allow_subnormal=False), min_size=1, max_size=7
).filter(any)
points = st.integers(0, LAST)


def flip(chance, probability):
    return chance.flip(probability)


def pick(chance, weights):
    return chance.pick(weights)


# ---------------------------------------------------------------- sample: edges


def massless_picks(sampler, weights):
    """Return the points at 0, at the last, and around each edge at which an answer without mass is picked."""
    shares = [edge / math.fsum(weights) for edge in accumulate(weights)]
    near = {min(max(round(share * 2**53) + shift, 0), LAST) for share in shares for shift in (-2, -1, 0, 1)}
    return [
        point for point in sorted({0, LAST, *near}) if not weights[sampler(uniforms(point)).pick(weights)]
    ]


class LeftSampler(Sampler):
    """The planted fault: searchsorted's default side, by which the uniform 0 picks the first, mass or not."""

    def pick(self, weights):
        shares = np.cumsum(weights) / np.sum(weights)
        return int(np.searchsorted(shares, self._rng.random()))


@given(float_weights)
def test_no_answer_without_mass_is_picked_at_any_edge(weights):
    assert massless_picks(Sampler, weights) == []


def test_a_pick_without_mass_is_reported():
    assert massless_picks(LeftSampler, [0.0, 1.0]) == [0]
    assert massless_picks(LeftSampler, [1.0, 1.0]) == []


@given(st.lists(st.integers(0, 8), min_size=1, max_size=6), st.integers(1, 8), points)
def test_pick_is_the_first_cumulative_share_above_the_uniform(weights, last, point):
    weights = [*weights, last]
    weights[-1] += -sum(weights) % 64  # shares in 64ths are floats without rounding
    total = sum(weights)
    if total & (total - 1):
        return
    for edge in (0, LAST, point, *(max(sum_ * (2**53 // total) - 1, 0) for sum_ in accumulate(weights))):
        for at in (edge, min(edge + 1, LAST)):
            expected = bisect_right([Fraction(s, total) for s in accumulate(weights)], Fraction(at, 2**53))
            assert sample(pick, weights, rng=uniforms(at)) == expected


def test_pick_at_exact_edges():
    weights = [0, 1, 0, 2, 1, 0]  # shares 0, 1/4, 1/4, 3/4, 1, 1
    answers = {
        0: 1,
        2**51 - 1: 1,
        2**51: 3,
        3 * 2**51 - 1: 3,
        3 * 2**51: 4,
        LAST: 4,
    }
    assert {point: sample(pick, weights, rng=uniforms(point)) for point in answers} == answers


@given(points)
def test_flip_is_strict(point):
    probability = point * 2.0**-53
    assert sample(flip, probability, rng=uniforms(point)) is False, "u < u is False"
    assert sample(flip, math.nextafter(probability, 1), rng=uniforms(point)) is True


def test_flip_at_the_ends():
    assert sample(flip, 0, rng=uniforms(0)) is False
    assert sample(flip, 1, rng=uniforms(LAST)) is True
    assert sample(flip, Fraction(1, 2), rng=uniforms(2**52 - 1)) is True
    assert sample(flip, Fraction(1, 2), rng=uniforms(2**52)) is False


@pytest.mark.parametrize(
    ("question", "asked"),
    [(flip, 0), (flip, 0.3), (flip, 1), (pick, [1]), (pick, [0, 1]), (pick, [0.25] * 4)],
)
def test_each_question_draws_one_uniform_whatever_is_asked(question, asked):
    bits = ScriptedBits([7, 8, 9])
    sample(lambda chance: [question(chance, asked) for _ in range(3)], rng=np.random.Generator(bits))
    assert bits.drawn == 3


def test_sample_passes_rng_and_arguments_on():
    def program(chance, *args, **kwargs):
        return [chance.pick([1] * 9) for _ in range(20)], args, kwargs

    drawn = sample(program, 1, rng=5, x=2)
    assert drawn[1:] == ((1,), {"x": 2})
    assert drawn == sample(program, 1, rng=np.random.default_rng(5), x=2)
    assert drawn[0] != sample(program, rng=6)[0]
    assert drawn[0] == [int(u * 9) for u in np.random.default_rng(5).random(20)]


def test_the_sampler_draws_uniforms_of_its_dtype():
    bits = ScriptedBits([(2**23) << 8, (2**23 - 1) << 8])  # the grid of float32: 2**24 points, 8 bits unused
    sampler = Sampler(np.random.Generator(bits), np.float32)
    assert [sampler.flip(0.5), sampler.flip(0.5)] == [False, True]
    sampler = Sampler(np.random.Generator(ScriptedBits([(2**23) << 8, (2**23 - 1) << 8])), np.float32)
    assert [sampler.pick([1, 1]), sampler.pick([1, 1])] == [1, 0]


# ---------------------------------------------------------------- what is refused


READINGS = {
    "sample": lambda program, asked: sample(program, asked, rng=0),
    "sample_exactly": lambda program, asked: sample_exactly(program, asked, rng=0),
    "law": law,
    "law, float64": lambda program, asked: law(program, asked, arithmetic="float64"),
    "paths": lambda program, asked: list(paths(program, asked)),
}
NAN = float("nan")
BAD_WEIGHTS = [
    [],
    [0, 0],
    [1, -1, 2],
    [Fraction(3, 2), Fraction(-1, 2)],
    np.array([], dtype=object),
    np.array([2, -1]),
    [-1] * 20,
    [Fraction(-1, 3)] * 20,
]
BAD_FLOAT_WEIGHTS = [
    [NAN, 1.0],
    [1.0, NAN],
    [1.0, math.inf],
    [0.0, 0.0],
    [0.5, -1e-18],
    np.array([NAN, 0.5]),
    np.array([-0.25, 1.25], dtype=np.float32),
]
BAD_PROBABILITIES = [-1, 2, Fraction(-1, 10**9), Fraction(10**9 + 1, 10**9)]
BAD_FLOAT_PROBABILITIES = [
    NAN,
    math.inf,
    -math.inf,
    -5e-324,
    1 + 5 * 2.0**-52,
    np.float64(1.5),
    np.float32(2),
]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("weights", BAD_WEIGHTS, ids=str)
def test_weights_that_give_no_law_are_refused_in_one_line(reading, weights):
    with pytest.raises(ValueError, match=r"^pick\([^\n]*weight[^\n]*$") as refusal:
        READINGS[reading](pick, weights)
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("weights", BAD_FLOAT_WEIGHTS, ids=str)
def test_float_weights_that_give_no_law_are_refused_in_one_line(reading, weights):
    error = TypeError if reading == "sample_exactly" else ValueError
    with pytest.raises(error, match=r"^(pick\(|sample_exactly)[^\n]*$"):
        READINGS[reading](pick, weights)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("probability", BAD_PROBABILITIES + BAD_FLOAT_PROBABILITIES, ids=str)
def test_what_is_no_probability_is_refused_in_one_line(reading, probability):
    with pytest.raises(ValueError, match=r"^flip\([^\n]*\): not a probability; give [^\n]*$") as refusal:
        READINGS[reading](flip, probability)
    assert repr(probability) in str(refusal.value)


def test_a_refusal_names_the_sum():
    for reading in READINGS.values():
        with pytest.raises(ValueError, match=r"none negative.*; their sum is (1/2|0\.5)$"):
            reading(pick, [1, Fraction(-1, 2)])


def test_a_refusal_shows_a_short_row_and_the_ends_of_a_long_one():
    with pytest.raises(ValueError, match=r"^pick\(\[-1  2  3  4  5  6  7  8\]\): weights"):
        law(pick, [-1, *range(2, 9)])
    with pytest.raises(ValueError, match=r"^pick\(\[-1  2  3 \.\.\.  7  8  9\]\): weights"):
        law(pick, [-1, *range(2, 10)])


def test_only_a_float_may_stand_a_few_ulps_above_one():
    assert 4 * np.finfo(float).eps == ROUNDING_SLACK
    for ulps in range(5):
        probability = 1 + ulps * np.finfo(float).eps
        assert check_probability(probability) == check_probability(np.float64(probability)) == 1
        assert sample(flip, probability, rng=uniforms(LAST)) is True
        assert law(flip, probability) == {True: 1}
    for refused in (1 + 5 * 2.0**-52, Fraction(1 + 2.0**-52), -(2.0**-60)):
        with pytest.raises(ValueError, match="not a probability"):
            check_probability(refused)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (flip, 0.5),
        (flip, 1.0),
        (flip, 1 + 2.0**-52),
        (flip, np.float64(0.25)),
        (flip, np.float32(0.25)),
        (pick, [0.5, 0.5]),
        (pick, [Fraction(1, 2), 0.5]),
        (pick, np.array([0.25, 0.75])),
    ],
)
def test_exact_sampling_refuses_floats(question, asked):
    with pytest.raises(TypeError, match=r"^sample_exactly\(\) met [^\n]*float[^\n]*give ints and Fractions"):
        sample_exactly(question, asked, rng=0)


@pytest.mark.parametrize(
    ("question", "asked", "answer"),
    [
        (flip, np.int64(1), True),
        (flip, False, False),
        (pick, [0, 3], 1),
        (pick, np.array([0, 0, 1], dtype=np.uint8), 2),
        (pick, np.array([Fraction(1), 0], dtype=object), 0),
        (pick, [False, True], 1),
    ],
)
def test_every_integer_is_rational_and_a_certain_answer_costs_no_bit(question, asked, answer):
    def no_bit():
        raise AssertionError("a bit was drawn")

    assert question(ExactSampler(no_bit), asked) == answer
    assert sample_exactly(question, asked, rng=0) == answer


# ---------------------------------------------------------------- sample_exactly: its law


class OutOfBitsError(Exception):
    pass


def on_coins(chance, sampler, question, asked, depth):
    """Answer on at most `depth` fair coins; None where they do not decide."""
    left = [depth]

    def bit():
        if not left[0]:
            raise OutOfBitsError
        left[0] -= 1
        return int(chance.flip(HALF))

    try:
        return question(sampler(bit), asked)
    except OutOfBitsError:
        return None


def error_of_coins(sampler, question, asked, ideal, edges, depth):
    """Return what is wrong with the law on `depth` coins: more undecided, or more decided, than can be."""
    found = law(on_coins, sampler, question, asked, depth)
    assert found.exact
    undecided = found.get(None, 0)
    if undecided > Fraction(edges, 2**depth):
        return f"undecided: {undecided}"
    return [
        answer
        for answer in {*found, *ideal} - {None}
        if not 0 <= ideal.get(answer, 0) - found.get(answer, 0) <= undecided
    ]


def ideal_pick(weights):
    return {i: Fraction(weight) / sum(weights) for i, weight in enumerate(weights) if weight}


class RoundingSampler(ExactSampler):
    """The planted fault: eight bits and a remainder, so that the first answers get more than their share."""

    def flip(self, probability):
        return self.pick([probability, 1 - probability]) == 0

    def pick(self, weights):
        scale = math.lcm(*(Fraction(weight).denominator for weight in weights))
        ends = list(accumulate(int(weight * scale) for weight in weights))
        return bisect_right(ends, sum(self._bit() << i for i in range(8)) % ends[-1])


@given(st.fractions(0, 1, max_denominator=1000))
def test_flip_on_coins_has_the_law_asked_for(probability):
    ideal = {True: probability, False: 1 - probability}
    for depth in (0, 1, 5, 12):
        assert error_of_coins(ExactSampler, flip, probability, ideal, 1, depth) == []


@given(whole_weights)
def test_pick_on_coins_has_the_law_asked_for(weights):
    for depth in (0, 3, 10):
        assert error_of_coins(ExactSampler, pick, weights, ideal_pick(weights), len(weights) - 1, depth) == []


@pytest.mark.parametrize(
    "weights", [[1], [1, 1], [3, 1, 4], [0, 1, 0, 6, 1], [Fraction(1, 4), Fraction(3, 4)], [5, 0, 3, 7, 1]]
)
def test_dyadic_shares_end_and_give_the_law_itself(weights):
    """Shares in powers of two are decided by as many coins, so nothing is left undecided."""
    assert law(on_coins, ExactSampler, pick, weights, 4) == ideal_pick(weights)
    for probability in ideal_pick(weights).values():
        wanted = law(flip, probability)
        assert law(on_coins, ExactSampler, flip, probability, 4) == wanted


def test_a_wrong_law_on_coins_is_reported():
    assert error_of_coins(RoundingSampler, pick, [1, 1, 1], ideal_pick([1, 1, 1]), 2, 10) == [0, 1, 2]
    ideal = {True: Fraction(1, 3), False: Fraction(2, 3)}
    assert error_of_coins(RoundingSampler, flip, Fraction(1, 3), ideal, 1, 10) == [False, True]
    assert error_of_coins(RoundingSampler, pick, [1, 1], {0: HALF, 1: HALF}, 1, 7) == "undecided: 1"
    assert error_of_coins(RoundingSampler, pick, [1, 1], {0: HALF, 1: HALF}, 1, 8) == []


# ---------------------------------------------------------------- sample_exactly: its price


def expected_bits(sampler, question, asked, edges):
    """Return an upper bound on the expected number of coins: enumerated to a depth, and what can follow.

    Beyond d coins only the 2**-d wide cells that hold one of the edges are undecided.
    """
    depth = 24
    first = sum(
        path.probability * len(path.answers) for path in paths(on_coins, sampler, question, asked, depth)
    )
    return first + edges * Fraction(2, 2**depth)


@given(st.fractions(0, 1, max_denominator=10**6))
def test_a_flip_costs_two_bits_at_most(probability):
    assert expected_bits(ExactSampler, flip, probability, 0 < probability < 1) <= 2


def test_a_flip_of_an_endless_fraction_costs_two_bits():
    assert expected_bits(ExactSampler, flip, Fraction(1, 3), 1) == 2


@given(st.lists(st.integers(0, 50) | st.integers(0, 10**6), min_size=1, max_size=6).filter(any))
def test_a_pick_costs_three_bits_more_than_the_entropy_at_most(weights):
    shares = [weight / sum(weights) for weight in weights if weight]
    entropy = -sum(share * math.log2(share) for share in shares)
    assert expected_bits(ExactSampler, pick, weights, len(shares) - 1) <= entropy + 3


def test_a_wasteful_sampler_is_over_the_price():
    assert expected_bits(RoundingSampler, flip, HALF, 1) > 2
    assert expected_bits(RoundingSampler, pick, [1, 1], 1) > 1 + 3


# ---------------------------------------------------------------- sample_exactly: where bits come from


def test_the_bits_are_those_of_the_generator_in_order():
    def coins(chance):
        return [chance.flip(HALF) for _ in range(600)]

    rng = np.random.default_rng(3)
    words = b"".join(rng.bytes(32) for _ in range(3))
    bits = np.unpackbits(np.frombuffer(words, dtype=np.uint8), bitorder="little")
    assert sample_exactly(coins, rng=3) == [bit == 0 for bit in bits[:600]]
    used = np.random.default_rng(3)
    sample_exactly(coins, rng=used)
    assert used.bytes(8) == rng.bytes(8), "no more words were drawn than needed"


def test_exact_sampling_passes_arguments_on():
    def program(chance, *args, **kwargs):
        return [chance.pick([1, 2, 3]) for _ in range(20)], args, kwargs

    drawn = sample_exactly(program, 1, rng=5, x=2)
    assert drawn[1:] == ((1,), {"x": 2})
    assert drawn == sample_exactly(program, 1, rng=np.random.default_rng(5), x=2)
    assert drawn[0] != sample_exactly(program, rng=6)[0]


# ---------------------------------------------------------------- frequencies


DRAWS = 10_000
FALSE_ALARM = 1e-10
"""Of each test below, for any seed: P(TV(frequencies, law) >= t) <= 2**m exp(-2 n t**2) for n draws among m
outcomes (Weissman et al. 2003). A law at a distance of 2 t or more is reported with the same confidence."""


def threshold(outcomes):
    return math.sqrt((outcomes * math.log(2) - math.log(FALSE_ALARM)) / (2 * DRAWS))


def far_from(exact, draws):
    counts = Counter(draws)
    return exact.distance({outcome: count / len(draws) for outcome, count in counts.items()}) >= threshold(
        len(exact)
    )


def two_questions(chance):
    if chance.flip(Fraction(2, 7)):
        return "tail"
    return chance.pick([Fraction(1, 3), 0, Fraction(1, 2), Fraction(1, 6)])


def two_skewed_questions(chance):
    if chance.flip(Fraction(1, 7)):  # the planted fault
        return "tail"
    return chance.pick([Fraction(1, 3), 0, Fraction(1, 2), Fraction(1, 6)])


def draw(how, program):
    rng = np.random.default_rng(20240229)
    return [how(program, rng=rng) for _ in range(DRAWS)]


@pytest.mark.parametrize("how", [sample, sample_exactly])
def test_frequencies_are_those_of_the_law(how):
    assert not far_from(law(two_questions), draw(how, two_questions))


@pytest.mark.parametrize("how", [sample, sample_exactly])
def test_frequencies_of_another_law_are_reported(how):
    exact = law(two_questions)
    assert law(two_skewed_questions).distance(exact) == Fraction(1, 7) > 2 * threshold(len(exact))
    assert far_from(exact, draw(how, two_skewed_questions))


def test_shares_finer_than_a_float_are_told_apart():
    weights = [2**60 - 1, 1]

    def picked(chance):
        return ExactSampler(lambda: chance.flip(Fraction(1, 2))).pick(weights)

    assert law(picked) == {0: Fraction(2**60 - 1, 2**60), 1: Fraction(1, 2**60)}


@pytest.mark.parametrize("read", [law, sample, sample_exactly])
def test_refused_weights_are_shown(read):
    with pytest.raises(ValueError, match=r"^pick\(\[ *0\.? +0\.? +-1\.?\]\)"):
        read(lambda chance: chance.pick([0, 0, -1]))


@pytest.mark.parametrize("read", [law, sample, sample_exactly])
@pytest.mark.parametrize("weights", [[], np.ones((2, 2), dtype=int), {0: 1, 1: 2}, 3, "11", None], ids=repr)
def test_weights_are_a_list_of_numbers(read, weights):
    with pytest.raises(ValueError, match=r"give a list or a one-dimensional array of at least one weight$"):
        read(lambda chance: chance.pick(weights))


def test_what_to_write_instead_of_a_float_is_said():
    with pytest.raises(
        TypeError, match=r"already changed the law; give ints and Fractions \(speculative\.rational "
    ):
        sample_exactly(lambda chance: chance.flip(0.5))
