"""The cost model, claims C17 to C20, against brute force, published tables and worked examples."""

import doctest
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import speculative.cost
from speculative.cost import (
    accepted_per_round,
    best_num_draft_tokens,
    break_even_cost,
    ceiling,
    operations_factor,
    pays,
    rules_of_thumb,
    speedup,
    speedup_from_tokens,
    survival_from_conditionals,
    tokens_from_conditionals,
    tokens_from_survival,
    tokens_per_round,
)

probabilities = st.fractions(0, 1, max_denominator=40)
costs = st.fractions(0, 2, max_denominator=40)
lengths = st.integers(1, 12)
GRID = [Fraction(numerator, 20) for numerator in range(21)]


def round_by_round(acceptance, num_draft_tokens):
    """Expected tokens and accepted drafts by the law of a round: every pattern of flips, with its weight."""
    tokens = accepted = total = Fraction(0)
    for flips in product([True, False], repeat=num_draft_tokens):
        weight = math.prod(acceptance if flip else 1 - acceptance for flip in flips)
        kept = [*flips, False].index(False)
        total += weight
        accepted += weight * kept
        tokens += weight * (kept + 1)
    assert total == 1
    return tokens, accepted


# ---------------------------------------------------------------- C17


@given(probabilities, st.integers(1, 6))
def test_c17_tokens_and_accepted_drafts_are_the_means_of_the_law_of_a_round(acceptance, num_draft_tokens):
    assert (
        tokens_per_round(acceptance, num_draft_tokens),
        accepted_per_round(acceptance, num_draft_tokens),
    ) == round_by_round(acceptance, num_draft_tokens)


@given(probabilities, lengths)
def test_c17_closed_form(acceptance, num_draft_tokens):
    tokens = tokens_per_round(acceptance, num_draft_tokens)
    assert isinstance(tokens, Fraction)
    assert tokens * (1 - acceptance) == 1 - acceptance ** (num_draft_tokens + 1)
    assert accepted_per_round(acceptance, num_draft_tokens) == tokens - 1


def test_c17_metric_golden_value():
    exact = Fraction(368928, 100000)
    assert tokens_per_round(Fraction(4, 5), 5) == exact
    assert tokens_per_round(0.8, 5) == pytest.approx(3.68928, abs=1e-15)
    assert accepted_per_round(Fraction(4, 5), 5) == exact - 1


@pytest.mark.parametrize(
    ("fault", "formula"),
    [
        ("accepted drafts for tokens", lambda a, k: (1 - a ** (k + 1)) / (1 - a) - 1),
        ("no token from the target", lambda a, k: (1 - a**k) / (1 - a)),
        ("bonus only when all are accepted", lambda a, k: a * (1 - a**k) / (1 - a) + a**k),
        ("one acceptance too many", lambda a, k: (1 - a ** (k + 2)) / (1 - a)),
    ],
)
def test_c17_confused_formulas_differ_from_the_law_of_a_round(fault, formula):
    for acceptance in GRID[1:-1]:
        tokens, accepted = round_by_round(acceptance, 3)
        assert formula(acceptance, 3) != tokens, fault
        assert tokens != accepted


def test_acceptance_one_is_exact_and_so_is_what_lies_just_below_it():
    assert tokens_per_round(1, 5) == accepted_per_round(1, 5) + 1 == 6
    assert isinstance(tokens_per_round(1, 5), Fraction)
    assert tokens_per_round(1.0, 5) == 6.0
    near = 1 - 2.0**-40  # (1 - a**6) / (1 - a) in floats is off by 2e-6 of its distance from 6
    assert 6 - tokens_per_round(near, 5) == pytest.approx(15 * 2.0**-40, rel=1e-3)
    assert tokens_per_round(0, 3) == 1
    assert accepted_per_round(0.0, 3) == 0.0


@given(st.floats(0, 1), lengths)
def test_float_formula_is_the_rational_one_rounded(acceptance, num_draft_tokens):
    exact = tokens_per_round(Fraction(acceptance), num_draft_tokens)
    rounded = tokens_per_round(acceptance, num_draft_tokens)
    assert isinstance(rounded, float)
    assert rounded == pytest.approx(float(exact), rel=1e-14)


def test_conditionals_and_survival():
    conditionals = [Fraction(2, 3), Fraction(1, 2), Fraction(1)]
    survival = (Fraction(2, 3), Fraction(1, 3), Fraction(1, 3))
    assert survival_from_conditionals(conditionals) == survival
    assert tokens_from_survival(survival) == tokens_from_conditionals(conditionals) == Fraction(7, 3)
    assert tokens_from_conditionals(iter(conditionals)) == Fraction(7, 3)
    assert tokens_from_survival(np.array([0.5, 0.25])) == 1.75


@given(probabilities, lengths)
def test_equal_conditionals_are_the_iid_model(acceptance, num_draft_tokens):
    conditionals = [acceptance] * num_draft_tokens
    assert tokens_from_conditionals(conditionals) == tokens_per_round(acceptance, num_draft_tokens)


@given(st.lists(probabilities, min_size=1, max_size=5))
def test_survival_is_what_flips_one_after_another_give(conditionals):
    tokens = Fraction(0)
    for flips in product([True, False], repeat=len(conditionals)):
        weight = math.prod(c if flip else 1 - c for c, flip in zip(conditionals, flips, strict=True))
        tokens += weight * ([*flips, False].index(False) + 1)
    assert tokens_from_conditionals(conditionals) == tokens


def test_rounds_of_three_one_and_no_accepted_drafts():
    """Accepts 3, 1, 0 of 3: conditionals 2/3, 1/2, 1; 4/9 of the drafts accepted; 7/3 tokens per round."""
    assert tokens_from_conditionals([Fraction(2, 3), Fraction(1, 2), 1]) == Fraction(7, 3)
    assert (tokens_from_conditionals([Fraction(2, 3), Fraction(1, 2), 1]) - 1) / 3 == Fraction(4, 9)


# ---------------------------------------------------------------- C18, C19


@pytest.mark.parametrize(
    ("acceptance", "num_draft_tokens", "cost", "tokens", "expected"),
    [(Fraction(3, 4), 5, Fraction(1, 9), 3.29, 2.11), (Fraction(7, 10), 4, Fraction(1, 10), 2.77, 1.98)],
)
def test_c18_worked_examples(acceptance, num_draft_tokens, cost, tokens, expected):
    assert round(float(tokens_per_round(acceptance, num_draft_tokens)), 2) == tokens
    assert round(float(speedup(acceptance, num_draft_tokens, cost)), 2) == expected


def test_c18_worked_example_exactly():
    assert tokens_per_round(Fraction(3, 4), 5) == Fraction(3367, 1024)
    assert speedup(Fraction(3, 4), 5, Fraction(1, 9)) == Fraction(3367, 1024) / Fraction(14, 9)
    assert ceiling(5, Fraction(1, 9)) == Fraction(27, 7)
    assert round(float(Fraction(27, 7)), 2) == 3.86


@pytest.mark.parametrize(
    ("acceptance", "num_draft_tokens", "operations", "speed"),
    [
        (Fraction(6, 10), 2, 1.53, 1.96),
        (Fraction(7, 10), 3, 1.58, 2.53),
        (Fraction(8, 10), 2, 1.23, 2.44),
        (Fraction(8, 10), 5, 1.63, 3.69),
        (Fraction(9, 10), 2, 1.11, 2.71),
        (Fraction(9, 10), 10, 1.60, 6.86),
    ],
)
def test_c18_leviathan_table_1(acceptance, num_draft_tokens, operations, speed):
    assert round(float(speedup(acceptance, num_draft_tokens, 0)), 2) == speed
    assert round(float(operations_factor(acceptance, num_draft_tokens)), 2) == operations


def test_operations_of_the_draft_count():
    assert operations_factor(Fraction(1, 2), 1, Fraction(1, 4)) == Fraction(1 + 8, 4) / Fraction(3, 2)


@given(probabilities, lengths, st.fractions(0, 2, max_denominator=40))
def test_operations_factor_is_never_below_one(acceptance, num_draft_tokens, draft_operations):
    assert operations_factor(acceptance, num_draft_tokens, draft_operations) >= 1


@given(probabilities, lengths, costs)
def test_c18_speedup_is_tokens_over_passes(acceptance, num_draft_tokens, cost):
    value = speedup(acceptance, num_draft_tokens, cost)
    assert isinstance(value, Fraction)
    assert value * (1 + num_draft_tokens * cost) == tokens_per_round(acceptance, num_draft_tokens)
    assert value <= ceiling(num_draft_tokens, cost)


@given(lengths, costs)
def test_c19_limits(num_draft_tokens, cost):
    assert speedup(1, num_draft_tokens, cost) == ceiling(num_draft_tokens, cost)
    assert ceiling(num_draft_tokens, cost) == Fraction(num_draft_tokens + 1) / (1 + num_draft_tokens * cost)
    assert speedup(0, num_draft_tokens, cost) == 1 / (1 + num_draft_tokens * cost) <= 1
    just_below, just_above = Fraction(10**9 - 1, 10**9), Fraction(1, 10**9)
    assert 0 <= ceiling(num_draft_tokens, cost) - speedup(just_below, num_draft_tokens, cost) < 1e-7
    assert 0 <= speedup(just_above, num_draft_tokens, cost) - 1 / (1 + num_draft_tokens * cost) < 1e-7


@given(probabilities)
def test_c19_one_draft_gives_one_plus_acceptance(acceptance):
    assert tokens_per_round(acceptance, 1) == 1 + acceptance


def test_accepted_drafts_passed_for_tokens_are_refused_where_they_show():
    with pytest.raises(ValueError, match=r"^tokens = 0\.8 is out of range: give a number from 1 to 2$"):
        speedup_from_tokens(accepted_per_round(0.8, 1), 1, 0.1)
    with pytest.raises(ValueError, match=r"^tokens = 2\.5 is out of range"):
        speedup_from_tokens(2.5, 1, 0.1)
    assert speedup_from_tokens(2, 1, 1) == 1


# ---------------------------------------------------------------- C20


@pytest.mark.parametrize("acceptance", GRID)
def test_c20_some_length_pays_iff_acceptance_exceeds_cost(acceptance):
    for cost in [*GRID, Fraction(3, 2)]:
        some_length_pays = any(speedup(acceptance, length, cost) > 1 for length in range(1, 30))
        assert some_length_pays == pays(acceptance, cost) == (acceptance > cost)
        assert pays(acceptance, cost) == (speedup(acceptance, 1, cost) > 1)


@given(probabilities, lengths, costs)
def test_c20_break_even_cost_separates_gain_from_loss(acceptance, num_draft_tokens, cost):
    limit = break_even_cost(acceptance, num_draft_tokens)
    assert speedup(acceptance, num_draft_tokens, limit) == 1
    assert (speedup(acceptance, num_draft_tokens, cost) > 1) == (cost < limit)
    assert limit <= break_even_cost(acceptance, 1) == acceptance


def brute_force_best(acceptance, cost, longest):
    speedups = [Fraction(1), *(speedup(acceptance, length, cost) for length in range(1, longest + 1))]
    return max(range(longest + 1), key=speedups.__getitem__), max(speedups)


@pytest.mark.parametrize("acceptance", GRID[:-1])
def test_c20_best_whole_length_is_that_of_brute_force(acceptance):
    for cost in [Fraction(1, 100), Fraction(1, 50), *GRID[1:], Fraction(3, 2)]:
        best = best_num_draft_tokens(acceptance, cost)
        assert (best.num_draft_tokens, best.speedup) == brute_force_best(acceptance, cost, 60)
        assert isinstance(best.speedup, Fraction)
        assert (best.num_draft_tokens > 0) == pays(acceptance, cost)


@given(st.floats(0.01, 0.97), st.floats(0.005, 1.5))
def test_c20_best_whole_length_in_floats_is_as_good_as_brute_force(acceptance, cost):
    best = best_num_draft_tokens(acceptance, cost)
    assert best.speedup == pytest.approx(brute_force_best(acceptance, cost, 150)[1], rel=1e-14)
    assert abs(best.num_draft_tokens - best.real) <= 1


@pytest.mark.parametrize(
    ("acceptance", "cost", "real", "whole"), [(0.8, 0.05, 7.857, 8), (0.9, 0.02, 19.058, 19)]
)
def test_c20_best_length_golden_values(acceptance, cost, real, whole):
    best = best_num_draft_tokens(acceptance, cost)
    assert round(best.real, 3) == real
    assert best.num_draft_tokens == whole


def log_speedup(acceptance, length, cost):
    return math.log(-math.expm1((length + 1) * math.log(acceptance))) - math.log1p(length * cost)


@pytest.mark.parametrize("acceptance", [0.3, 0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("cost", [1e-6, 1e-4, 0.01, 0.1, 0.29])
def test_c20_closed_form_is_where_the_slope_changes_sign(acceptance, cost):
    """Up to a cost so small that the exponential in the closed form underflows (1e-6)."""
    real = best_num_draft_tokens(acceptance, cost).real
    decay = -math.log(acceptance)

    def slope(length):  # of the logarithm, times a positive factor
        return (length + 1 / cost) * decay + 1 - math.exp(min(700, decay * (length + 1)))

    assert real > 0
    assert slope(real * 0.9999) > 0 > slope(real * 1.0001)
    for other in (real * 0.99, real * 1.01):
        assert log_speedup(acceptance, other, cost) <= log_speedup(acceptance, real, cost)


def test_c20_a_tie_goes_to_the_shorter_draft():
    half, fifth = Fraction(1, 2), Fraction(1, 5)
    assert speedup(half, 1, fifth) == speedup(half, 2, fifth) == Fraction(5, 4)
    assert best_num_draft_tokens(half, fifth)[1:] == (1, Fraction(5, 4))
    assert best_num_draft_tokens(half, half)[1:] == (0, 1)  # one draft merely breaks even


def test_c20_not_speculating_is_a_possible_answer():
    assert best_num_draft_tokens(0.1, 0.9) == (0.0, 0, 1)
    assert best_num_draft_tokens(0, 0) == (0.0, 0, 1)
    assert best_num_draft_tokens(1, 1) == (0.0, 0, 1)
    assert best_num_draft_tokens(1, 2).num_draft_tokens == 0
    assert best_num_draft_tokens(0.5, 1 - 2**-53).num_draft_tokens == 0


@pytest.mark.parametrize(("acceptance", "cost"), [(1, Fraction(1, 2)), (Fraction(1, 2), 0), (1, 0)])
def test_c20_without_a_best_length_a_limit_must_be_given(acceptance, cost):
    with pytest.raises(ValueError, match=r"every further draft pays.*give limit") as error:
        best_num_draft_tokens(acceptance, cost)
    assert "\n" not in str(error.value)
    best = best_num_draft_tokens(acceptance, cost, limit=7)
    assert best == (math.inf, 7, speedup(acceptance, 7, cost))


def test_c20_a_limit_below_the_best_length_is_taken_and_one_above_it_is_not():
    assert best_num_draft_tokens(0.8, 0.05, limit=3) == (
        pytest.approx(7.857, abs=1e-3),
        3,
        speedup(0.8, 3, 0.05),
    )
    assert best_num_draft_tokens(0.8, 0.05, limit=100) == best_num_draft_tokens(0.8, 0.05)
    with pytest.raises(ValueError, match=r"^limit = 0 is too small: give an int of at least 1$"):
        best_num_draft_tokens(0.8, 0.05, limit=0)


def test_c20_rules_of_thumb_have_exact_counterexamples():
    dear, rare = rules_of_thumb()
    assert dear == ("a cost above 0.3 never pays", Fraction(9, 10), Fraction(2, 5), 4, Fraction(40951, 26000))
    assert rare == ("an acceptance below 0.4 loses", Fraction(3, 10), Fraction(1, 20), 2, Fraction(139, 110))
    assert dear.cost > Fraction(3, 10)
    assert rare.acceptance < Fraction(2, 5)
    for rule in (dear, rare):
        assert rule.speedup == speedup(rule.acceptance, rule.num_draft_tokens, rule.cost) > 1


def test_c20_where_the_rules_of_thumb_are_safe():
    for acceptance, cost in product(GRID, GRID):
        if cost > Fraction(3, 10) >= acceptance or acceptance < Fraction(2, 5) <= cost:
            assert not pays(acceptance, cost)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("bad", [-0.1, 1.5, Fraction(-1, 3), 2, math.nan, math.inf, True, "0.5", None, 1j])
@pytest.mark.parametrize(
    "function",
    [
        lambda a: tokens_per_round(a, 3),
        lambda a: accepted_per_round(a, 3),
        lambda a: speedup(a, 3, 0.1),
        lambda a: operations_factor(a, 3),
        lambda a: pays(a, 0.1),
        lambda a: break_even_cost(a, 3),
        lambda a: best_num_draft_tokens(a, 0.1),
        lambda a: survival_from_conditionals([0.5, a]),
        lambda a: tokens_from_conditionals([0.5, a]),
        lambda a: tokens_from_survival([0.5, a]),
    ],
)
def test_a_bad_acceptance_is_refused_in_one_line(function, bad):
    with pytest.raises(ValueError, match=r"^[a-z0-9 ]+ = .*: give a") as error:
        function(bad)
    assert repr(bad) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [0, -1, 2.0, 2.5, math.nan, True, "3", None, Fraction(3)])
@pytest.mark.parametrize(
    "function",
    [
        lambda k: tokens_per_round(0.5, k),
        lambda k: accepted_per_round(0.5, k),
        lambda k: speedup(0.5, k, 0.1),
        lambda k: speedup_from_tokens(1.5, k, 0.1),
        lambda k: ceiling(k, 0.1),
        lambda k: operations_factor(0.5, k),
        lambda k: break_even_cost(0.5, k),
    ],
)
def test_a_bad_draft_length_is_refused_in_one_line(function, bad):
    with pytest.raises(ValueError, match=r"^num_draft_tokens = .*give an int of at least 1$") as error:
        function(bad)
    assert repr(bad) in str(error.value)


@pytest.mark.parametrize("bad", [-0.1, Fraction(-1, 9), math.nan, math.inf, False, "0.1", None])
@pytest.mark.parametrize(
    "function",
    [
        lambda c: speedup(0.5, 3, c),
        lambda c: speedup_from_tokens(1.5, 3, c),
        lambda c: ceiling(3, c),
        lambda c: pays(0.5, c),
        lambda c: best_num_draft_tokens(0.5, c),
    ],
)
def test_a_bad_cost_is_refused_in_one_line(function, bad):
    with pytest.raises(ValueError, match=r"^cost = .*: give a"):
        function(bad)


@given(probabilities, lengths, costs, st.fractions(Fraction(1, 2), 4, max_denominator=12))
def test_a_verification_that_takes_longer_than_a_pass_is_paid_once_a_round(
    acceptance, num_draft_tokens, cost, verification
):
    tokens = tokens_per_round(acceptance, num_draft_tokens)
    seconds = verification + num_draft_tokens * cost  # of a round, in plain passes
    found = speedup(acceptance, num_draft_tokens, cost, verification=verification)
    assert found == tokens / seconds
    assert found == speedup_from_tokens(tokens, num_draft_tokens, cost, verification=verification)
    assert speedup(acceptance, num_draft_tokens, cost, verification=1) == speedup(
        acceptance, num_draft_tokens, cost
    )


@pytest.mark.parametrize("verification", [0, -1])
def test_a_verification_that_takes_no_time_is_refused(verification):
    with pytest.raises(ValueError, match=rf"^verification = {verification} is not positive"):
        speedup(0.5, 2, 0.1, verification=verification)


def test_bad_sequences_are_refused():
    with pytest.raises(ValueError, match=r"^conditionals is empty: give"):
        survival_from_conditionals([])
    with pytest.raises(ValueError, match=r"^conditional acceptance at position 2 = 3 is out of range"):
        survival_from_conditionals([0.5, 3, 0.5])
    with pytest.raises(ValueError, match=r"^survival is empty: give"):
        tokens_from_survival([])
    with pytest.raises(ValueError, match=r"position 2 = 0\.6 is more than the 0\.5 before it.*conditionals"):
        tokens_from_survival([0.5, 0.6])


def test_examples_print_what_they_say():
    tried = doctest.testmod(speculative.cost)
    assert (tried.failed, tried.attempted) == (0, 6)


def test_numpy_numbers_are_what_their_python_counterparts_are():
    tokens = tokens_per_round(np.int64(1), np.int64(3))
    assert (tokens, type(tokens)) == (4, Fraction)
    assert type(tokens.numerator) is int
    assert tokens_per_round(np.float32(0.5), np.int8(2)) == 1.75
