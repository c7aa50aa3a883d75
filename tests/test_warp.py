"""Warps against their definitions, on exact rows with ==; ties, limits and refusals."""

import itertools
import pickle
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative.distribution import check_row, is_exact, point_mass, rational
from speculative.oracle import from_logits, from_probs, softmax, table
from speculative.testing import rows
from speculative.warp import Warp, compose, min_p, temperature, top_k, top_p

any_row = st.integers(3, 5).flatmap(rows)
fractions = st.fractions(0, 1, max_denominator=12)
ROW = rational(["3/10", "1/10", "3/10", "1/10", "2/10"])
SMALL = rational(["1/2", "1/3", "1/6"])


def kept(row, tokens):
    """The row conditioned on some tokens, as a list, by the definition."""
    mass = sum(row[token] for token in tokens)
    return [row[token] / mass if token in tokens else 0 for token in range(len(row))]


def ranked(row):
    """Tokens by falling probability; ties by rising index."""
    return sorted(range(len(row)), key=lambda token: (-row[token], token))


# each warp is its definition


@given(any_row, st.integers(1, 6))
def test_top_k_keeps_the_k_most_probable_and_of_ties_the_lower_index(row, k):
    assert top_k(k).row(row).tolist() == kept(row, ranked(row)[:k])


@given(any_row, fractions.filter(bool))
def test_top_p_keeps_the_shortest_prefix_that_reaches_the_mass(row, p):
    order = ranked(row)
    lengths = [n for n in range(1, len(row) + 1) if sum(row[token] for token in order[:n]) >= p]
    assert top_p(p).row(row).tolist() == kept(row, order[: lengths[0]])


@given(any_row, fractions)
def test_min_p_keeps_what_is_at_least_a_share_of_the_largest(row, p):
    tokens = [token for token in range(len(row)) if row[token] >= p * max(row)]
    assert min_p(p).row(row).tolist() == kept(row, tokens)


@given(any_row, st.integers(1, 5))
def test_temperature_one_over_n_is_the_nth_power_and_exact(row, n):
    powers = [value**n for value in row]
    expected = [power / sum(powers) for power in powers]
    assert temperature(Fraction(1, n)).row(row).tolist() == expected
    assert is_exact(temperature(Fraction(1, n)).row(row))


@given(any_row)
def test_temperature_zero_is_greedy_at_the_lowest_index(row):
    greedy = temperature(0).row(row)
    assert greedy.tolist() == [int(token == ranked(row)[0]) for token in range(len(row))]
    assert all(isinstance(value, Fraction) for value in greedy)
    assert temperature(0).row(row.astype(float)).dtype == np.float64
    assert temperature(0).row(row.astype(float)).tolist() == greedy.tolist()


ALL = [temperature(0), temperature(0.5), temperature(1), top_k(2), top_p(0.7), min_p(0.4)]


@given(any_row, st.permutations(ALL))
def test_exact_rows_stay_exact_and_the_order_is_from_left_to_right(row, warps):
    step_by_step = row
    for warp in warps:
        step_by_step = warp.row(step_by_step)
    warped = compose(*warps).row(row)
    assert warped.tolist() == step_by_step.tolist()
    assert is_exact(warped)
    assert check_row(warped, ()) is warped


@given(any_row, st.sampled_from([*ALL, temperature(0.7), temperature(3), top_k(1), top_p(1), min_p(1)]))
def test_float_rows_give_the_same_law_but_for_rounding(row, warp):
    """Weights 0 to 5 are far from a threshold unless they are on it, so rows on it are left out."""
    if warp.name == "top_p(0.7)" and Fraction(7, 10) in np.cumsum(sorted(row)[::-1]):
        return
    if warp.name == "min_p(0.4)" and Fraction(4, 10) in row / max(row):
        return
    warped = warp.row(row.astype(float))
    assert warped == pytest.approx(warp.row(row).astype(float), abs=1e-15)
    assert check_row(warped, ()) is not None
    assert not is_exact(warped)


@given(st.integers(0, 3), st.sampled_from([*ALL, temperature(2), compose(*ALL)]))
def test_a_certain_token_stays_certain_under_every_warp(token, warp):
    certain = point_mass(token, 4)
    assert warp.row(certain).tolist() == certain.tolist()
    assert is_exact(warp.row(certain))


# ties and thresholds, spelled out


def test_ties_are_broken_by_index_where_a_number_or_a_mass_is_kept_and_not_at_all_by_min_p():
    assert top_k(1).row(ROW).tolist() == [1, 0, 0, 0, 0]
    assert top_k(4).row(ROW).tolist() == rational(["1/3", "1/9", "1/3", 0, "2/9"]).tolist()
    assert top_p(Fraction(1, 10)).row(ROW).tolist() == [1, 0, 0, 0, 0]
    assert min_p(1).row(ROW).tolist() == rational(["1/2", 0, "1/2", 0, 0]).tolist()


def test_the_token_that_crosses_top_p_is_kept_and_none_after_one_that_meets_it():
    assert top_p(Fraction(6, 10)).row(ROW).tolist() == rational(["1/2", 0, "1/2", 0, 0]).tolist()
    assert top_p(Fraction(61, 100)).row(ROW).tolist() == rational(["3/8", 0, "3/8", 0, "2/8"]).tolist()


def test_a_token_at_the_threshold_of_min_p_is_kept():
    assert min_p(Fraction(1, 3)).row(ROW) is ROW
    assert min_p(Fraction(334, 1000)).row(ROW).tolist() == rational(["3/8", 0, "3/8", 0, "2/8"]).tolist()


def test_float_parameters_mean_what_is_written():
    """0.9 is a little over 9/10 as a binary number, and 0.2 is not a fifth."""
    row = rational(["6/10", "3/10", "1/10"])
    assert top_p(0.9).row(row).tolist() == rational(["2/3", "1/3", 0]).tolist()
    assert top_p(np.float64(0.9)).row(row).tolist() == top_p(0.9).row(row).tolist()
    assert min_p(0.3).row(rational(["10/13", "3/13", 0])).tolist() == rational(["10/13", "3/13", 0]).tolist()
    assert temperature(0.2).row(SMALL).tolist() == temperature(Fraction(1, 5)).row(SMALL).tolist()
    assert is_exact(temperature(0.2).row(SMALL))


def test_float_rows_are_compared_with_the_float():
    tenths = np.array([0.7, 0.2, 0.1])
    assert top_p(0.9).row(tenths).tolist() == top_k(3 if 0.7 + 0.2 < 0.9 else 2).row(tenths).tolist()
    assert min_p(0.1).row(np.array([0.5, 0.05, 0.45])).tolist() == [0.5, 0.05, 0.45]


def test_top_p_keeps_all_where_rounding_leaves_the_sum_below_the_mass():
    row = np.full(10, 0.1)
    assert np.cumsum(row)[-1] < 1
    assert top_p(1).row(row) is row


def test_a_warp_that_drops_nothing_returns_the_row_itself():
    floats = np.array([0.1 + 0.2, 0.7, 0.0])
    for row in (ROW, floats):
        for warp in (temperature(1), top_k(len(row)), top_k(99), top_p(1), min_p(0), compose()):
            assert warp.row(row) is row
    assert top_k(2).row(floats) is floats


# temperature


def test_temperatures_that_are_no_unit_fraction_give_floats():
    assert temperature(2).row(rational(["4/5", "1/5", 0])).tolist() == pytest.approx([2 / 3, 1 / 3, 0])
    for value in (2, 0.7, 1.5, Fraction(2, 3), Fraction(1, 65)):
        row = temperature(value).row(SMALL)
        powers = [float(p) ** (1 / float(value)) for p in SMALL]
        assert row.dtype == np.float64
        assert row == pytest.approx([power / sum(powers) for power in powers], rel=1e-12)
    assert is_exact(temperature(Fraction(1, 64)).row(SMALL))


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=5), st.floats(0.05, 20))
def test_temperature_divides_the_logits(logits, value):
    expected = softmax(np.array(logits) / value)
    assert temperature(value).row(softmax(logits)) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("tiny", [1e-3, 1e-300, 5e-324, Fraction(1, 10**400)])
def test_a_tiny_temperature_overflows_nothing_and_shares_between_ties_unlike_zero(tiny):
    row = np.array([0.4, 0.2, 0.4, 0.0])
    assert temperature(tiny).row(row) == pytest.approx([0.5, 0, 0.5, 0], abs=1e-300)
    assert temperature(0).row(row).tolist() == [1, 0, 0, 0]
    near = np.array([0.5, np.nextafter(0.5, 0), 0.0])
    assert temperature(tiny).row(near)[1] == pytest.approx(0.5 if tiny == 1e-3 else 0, abs=1e-12)
    assert temperature(tiny).row(np.array([1e-320, 1.0, 0.0])).tolist() == [0, 1, 0]


def test_a_huge_temperature_is_uniform_over_what_is_possible():
    assert temperature(1e300).row(np.array([0.9, 0.1, 0.0])).tolist() == [0.5, 0.5, 0]


# parameters


@pytest.mark.parametrize(
    ("make", "value", "message"),
    [
        (temperature, -0.5, "temperature is -0.5: give 0 for greedy, or a positive number"),
        (temperature, np.nan, "temperature got nan: give a finite number"),
        (temperature, np.inf, "temperature got inf: give a finite number"),
        (temperature, "warm", "temperature got 'warm': give a finite number"),
        (top_k, 0, "top_k got 0: give 1 or more, or leave the warp out to keep every token"),
        (top_k, -1, "top_k got -1: give 1 or more"),
        (top_k, 2.0, r"top_k got 2\.0: give a positive integer"),
        (top_k, None, "top_k got None: give a positive integer"),
        (top_p, 0, "top_p got 0: give a mass above 0 and at most 1"),
        (top_p, 1.01, r"top_p got 1\.01: give a mass"),
        (top_p, np.nan, "top_p got nan: give a finite number"),
        (min_p, -0.01, r"min_p got -0\.01: give a fraction from 0 to 1 of the largest probability"),
        (min_p, 1.01, r"min_p got 1\.01: give a fraction"),
        (min_p, np.nan, "min_p got nan: give a finite number"),
    ],
)
def test_a_parameter_without_meaning_is_refused(make, value, message):
    with pytest.raises(ValueError, match="^" + message):
        make(value)


# warps of oracles


LAWS = {(): SMALL, (0,): rational(["1/7", "4/7", "2/7"]), (1,): rational(["0", "1/5", "4/5"])}


def score(context, drafted):
    return [table(LAWS)(context + drafted[:i]) for i in range(len(drafted) + 1)]


@pytest.mark.parametrize("warp", [*ALL, compose(temperature(0.5), top_k(2))])
def test_c8_one_warp_object_warps_any_oracle_row_by_row(warp):
    target = table(LAWS, vocabulary="abc", context_limit=9)
    draft = from_probs(table(LAWS), 3, score=score)
    for oracle in (target, draft):
        warped = warp(oracle)
        expected = [warp.row(row).tolist() for row in oracle.score((1,), (0, 2))]
        assert [row.tolist() for row in warped.score((1,), (0, 2))] == expected
        assert warped((1,)).tolist() == expected[0]
        assert (warped.vocabulary, warped.context_limit) == (oracle.vocabulary, oracle.context_limit)


def test_warps_of_logits_are_warps_of_their_law():
    logits = {(): [0.0, 1.0, 2.0], (2,): [1.0, -np.inf, 1.0]}
    oracle = temperature(0.5)(from_logits(logits.__getitem__, 3))
    assert oracle(()) == pytest.approx(softmax([0.0, 2.0, 4.0]), rel=1e-14)
    assert oracle((2,)).tolist() == [0.5, 0, 0.5]


def test_the_order_of_a_composition_matters():
    sharp_first = compose(temperature(0.5), top_p(0.6)).row(SMALL)
    nucleus_first = compose(top_p(0.6), temperature(0.5)).row(SMALL)
    assert sharp_first.tolist() == [1, 0, 0]  # 9/14 is reached at once
    assert nucleus_first.tolist() == rational(["9/13", "4/13", 0]).tolist()


def test_warps_are_known_by_their_names():
    warp = compose(temperature(0.5), top_k(3), top_p(0.9), min_p(Fraction(1, 20)))
    assert repr(warp) == "Warp(name='compose(temperature(0.5), top_k(3), top_p(0.9), min_p(1/20))')"
    assert compose().name == "compose()"
    with pytest.raises(AttributeError, match="name"):
        warp.name = "another"


def test_a_warp_of_ones_own_is_checked_by_the_oracle_it_is_applied_to():
    forgets_to_normalise = Warp("half", lambda row: row / 2)
    with pytest.raises(ValueError, match=r"the row at context \(1,\) sums to 1/2, not to 1"):
        forgets_to_normalise(table(LAWS))((1,))


@pytest.mark.parametrize("warp", [*ALL, compose(*ALL)])
def test_warps_and_warped_oracles_can_be_sent_to_other_processes(warp):
    copy = pickle.loads(pickle.dumps(warp))
    assert copy.row(ROW).tolist() == warp.row(ROW).tolist()
    oracle = pickle.loads(pickle.dumps(warp(table(LAWS))))
    for context in itertools.product(range(3), repeat=2):
        assert oracle(context).tolist() == warp(table(LAWS))(context).tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "warp", [temperature(0), temperature(0.8), temperature(1e-320), compose(temperature(0.5), temperature(0))]
)
def test_the_rows_of_a_pass_are_warped_at_once_to_the_last_bit(warp, dtype):
    for vocab_size in (1, 2, 3, 8, 9, 65, 130, 1025):
        rows = np.random.default_rng(vocab_size).dirichlet(np.full(vocab_size, 0.1), 5).astype(dtype)
        oracle = from_probs(
            lambda context, rows=rows: rows[len(context)], vocab_size, score=partial(pass_of, rows)
        )
        warped = warp(oracle).score((), (0,) * 4)
        assert [row.tolist() for row in warped] == [warp(oracle)((0,) * i).tolist() for i in range(5)]
        assert not any(row.flags.writeable for row in warped)


def row_of(rows, context):
    return rows[len(context)]


def pass_of(rows, context, drafted):
    return rows[len(context) : len(context) + len(drafted) + 1]


def test_a_warp_is_given_the_rows_of_a_pass_together_where_all_are_floats_and_it_takes_them():
    asked = []

    def together(rows):
        asked.append(rows.shape)
        return rows

    warp = Warp("as it is", lambda row: row, together)
    floats = from_probs(table(LAWS), 3, score=lambda context, drafted: np.full((len(drafted) + 1, 3), 1 / 3))
    warp(floats).score((1,), (0, 2))
    assert asked == [(3, 3)]
    warp(table(LAWS)).score((1,), (0, 2))  # exact rows go one by one
    assert asked == [(3, 3)]
    assert compose(warp, warp).rows(np.ones((2, 3))).shape == (2, 3)
    assert compose(warp, top_k(2)).rows is None


def test_a_row_of_a_pass_that_a_warp_spoils_is_named():
    halves = Warp("half", lambda row: row / 2, lambda rows: rows / 2)
    floats = from_probs(table(LAWS), 3, score=lambda context, drafted: np.full((len(drafted) + 1, 3), 1 / 3))
    with pytest.raises(ValueError, match=r"the row at context \(1,\) sums to 0\.5, not to 1"):
        halves(floats).score((1,), (0, 2))
