"""Rows: what passes unchanged, what is refused and in which words, and the arithmetic of verification."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative.distribution import (
    as_written,
    check_row,
    check_rows,
    conditioned,
    describe_context,
    is_exact,
    normalised,
    point_mass,
    rational,
    residual,
    total_variation,
)
from speculative.testing import rows

two_rows = st.integers(3, 5).flatmap(lambda size: st.tuples(rows(size), rows(size)))
third = Fraction(1, 3)


# check_row


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ([0.25, 0.5, 0.25], "float64"),
        (np.array([0.25, 0.5, 0.25], dtype=np.float32), "float64"),
        ((0, 1, 0), "object"),
        (np.array([0, 1, 0], dtype=np.uint8), "object"),
        ([third, third, third], "object"),
        (np.array([0, 1, Fraction(0)], dtype=object), "object"),
    ],
)
def test_a_law_passes_with_its_values_read_only(row, kind):
    passed = check_row(row, (), 3)
    assert passed.dtype == kind
    assert passed.tolist() == list(row)
    with pytest.raises(ValueError, match="read-only"):
        passed[0] = 1


def test_integers_in_an_object_row_become_fractions_because_their_quotients_are_floats():
    passed = check_row(np.array([0, 1, 0], dtype=object), ())
    assert [type(value) for value in passed] == [Fraction] * 3
    assert type(passed[1] / passed[1]) is Fraction


def test_a_read_only_row_that_owns_its_memory_passes_as_it_is():
    row = rational(["1/2", "1/3", "1/6"])
    assert check_row(row, ()) is row


@pytest.mark.parametrize("lock", [False, True])
def test_a_buffer_that_is_used_again_changes_nothing(lock):
    buffer = np.array([0.5, 0.25, 0.25, 9.0])
    view = buffer[:3]
    view.setflags(write=not lock)
    passed = check_row(view, ())
    buffer[:] = 0
    assert passed.tolist() == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([[0.5, 0.5]], r"has shape \(1, 2\): give one probability a token"),
        (1.0, r"has shape \(\)"),
        ([], r"has shape \(0,\)"),
        ([[0.5], [0.25, 0.25]], r"is ragged: give one probability a token"),
        ([0.5, 0.5], r"has 2 probabilities for a vocabulary of 3"),
        ([0.25, 0.25, 0.25, 0.25], r"has 4 probabilities for a vocabulary of 3"),
        ([0.5, np.nan, 0.5], r"has nan for token 1: give finite probabilities"),
        ([0.5, 0.5, np.inf], r"has inf for token 2: give finite probabilities"),
        ([0.0, 1.2, -0.2], r"has the negative -0.2 for token 2: give probabilities, not logits"),
        ([Fraction(3, 2), -third, -Fraction(1, 6)], r"has the negative -1/3 for token 1"),
        ([2, -1, 0], r"has the negative -1 for token 1"),
        ([0.5, 0.25, 0.2], r"sums to 0.95, not to 1: divide it by its sum where it is made"),
        ([0.5, 0.25, 0.25 + 2e-9], r"sums to 1.000000002, not to 1"),
        (
            [1 / 3, 1 / 3, Fraction(1, 3)],
            r"is an object array with 0.33\d* for token 0: give rational",
        ),
        ([third, third, third + Fraction(1, 10**30)], r"sums to 10+1/10+, not to 1"),
        ([0, 0, 0], r"sums to 0, not to 1"),
        ([1, 1, 0], r"sums to 2, not to 1"),
        (["1/2", "1/4", "1/4"], r"holds <U3: give float64, float32, or rational\(values\)"),
        ([True, False, False], r"holds bool"),
        (np.array([0.5, 0.25, 0.25], dtype=np.float16), r"holds float16"),
        (np.array([0.5, 0.25, 0.25j]), r"holds complex128"),
    ],
)
def test_what_is_no_law_is_refused_by_context_and_reason(row, message):
    with pytest.raises(ValueError, match=r"^the row at context \(4, 2\) " + message) as refusal:
        check_row(row, (4, 2), 3)
    assert "\n" not in str(refusal.value)


def test_a_float32_softmax_over_a_large_vocabulary_passes_and_stays_as_it_is():
    logits = np.random.default_rng(0).normal(size=100_000, scale=4).astype(np.float32)
    weights = np.exp(logits - logits.max())
    probs = weights / weights.sum()
    assert abs(probs.astype(np.float64).sum() - 1) > 1e-9
    assert np.array_equal(check_row(probs, ()), probs)
    with pytest.raises(ValueError, match="sums to"):
        check_row(probs * np.float32(1.0001), ())


def test_the_tolerance_of_float32_is_not_that_of_float64():
    probs = np.array([0.5, 0.25, 0.250001])
    assert check_row(probs.astype(np.float32), ()).size == 3
    with pytest.raises(ValueError, match=r"sums to 1\.000001"):
        check_row(probs, ())


def test_contexts_are_named_as_tuples_and_long_ones_by_their_end():
    assert [describe_context(()), describe_context((7,)), describe_context([1, 2])] == [
        "()",
        "(7,)",
        "(1, 2)",
    ]
    assert describe_context(range(8)) == "(0, 1, 2, 3, 4, 5, 6, 7)"
    assert describe_context(range(9)) == "(..., 5, 6, 7, 8) of 9 tokens"


# residual and total variation


@given(two_rows)
def test_c4_the_residual_has_the_mass_of_the_total_variation_and_of_rejection(pair):
    target, draft = pair
    left = [max(Fraction(0), q - p) for q, p in zip(target, draft, strict=True)]
    overlap = sum(min(q, p) for q, p in zip(target, draft, strict=True))
    assert total_variation(target, draft) == sum(left) == 1 - overlap
    if target.tolist() == draft.tolist():
        assert residual(target, draft) is target
    else:
        assert residual(target, draft).tolist() == left
        assert is_exact(residual(target, draft))


@given(two_rows)
def test_float_rows_give_the_same_numbers_but_for_rounding(pair):
    target, draft = pair
    floats = target.astype(float), draft.astype(float)
    distance = total_variation(*floats)
    assert type(distance) is float
    assert distance == pytest.approx(float(total_variation(target, draft)), abs=1e-15)
    if distance > 0:
        expected = residual(target, draft).astype(float)
        assert residual(*floats) == pytest.approx(expected, abs=1e-15)
        assert residual(*floats).dtype == float


@given(rows(4), st.integers(0, 3))
def test_a_point_mass_mixes_exactly_with_fractions_on_either_side(row, token):
    certain = point_mass(token, 4)
    others = [value if i != token else 0 for i, value in enumerate(row)]
    assert total_variation(row, certain) == total_variation(certain, row) == sum(others)
    if any(others):
        assert residual(row, certain).tolist() == others
        assert residual(certain, row).tolist() == [sum(others) if i == token else 0 for i in range(4)]
        assert is_exact(residual(row, certain))
        assert is_exact(residual(certain, row))


def test_point_masses_are_at_an_exact_distance():
    distance = total_variation(point_mass(0, 3), point_mass(1, 3))
    assert distance == 1
    assert type(distance) is Fraction
    assert type(distance.numerator) is int  # and not a number that overflows
    assert residual(point_mass(0, 3), point_mass(1, 3)).tolist() == [1, 0, 0]


def test_a_residual_that_rounding_left_without_mass_is_the_target_and_not_uniform():
    target = np.array([0.1 + 0.2, 0.7, 0.0])
    draft = np.array([np.nextafter(0.1 + 0.2, 1), 0.7, 0.0])
    assert residual(target, draft) is target
    assert residual(target, target) is target


def test_exact_beside_floats_is_a_float():
    distance = total_variation(rational(["1/2", "1/4", "1/4"]), np.array([0.25, 0.5, 0.25]))
    assert distance == 0.25
    assert type(distance) is float
    assert residual(rational(["1/2", "1/4", "1/4"]), np.array([0.25, 0.5, 0.25])).tolist() == [0.25, 0, 0]


@pytest.mark.parametrize("kind", [float, object])
def test_rows_of_two_sizes_have_no_residual(kind):
    three, four = (np.array(row, dtype=kind) for row in ([1, 0, 0], [0, 1, 0, 0]))
    with pytest.raises(ValueError, match=r"no residual of shapes \(3,\) and \(4,\)"):
        residual(three, four)


def test_rows_of_two_sizes_have_no_distance():
    with pytest.raises(ValueError, match=r"no distance between shapes \(3,\) and \(1,\)"):
        total_variation(point_mass(0, 3), point_mass(0, 1))


# making rows


def test_point_mass_is_read_only_and_within_the_vocabulary():
    row = point_mass(2, 3)
    assert row.tolist() == [0, 0, 1]
    assert not row.flags.writeable
    for token in (-1, 3):
        with pytest.raises(ValueError, match=f"^token {token} is outside .*: give one from 0 to 2$"):
            point_mass(token, 3)


def test_rational_takes_numbers_as_they_are_and_strings_as_they_are_written():
    given_values = ["1/3", "0.1", 0.1, 2, Fraction(5, 7), Decimal("0.3"), np.float32(0.5), np.int64(4)]
    values = rational(given_values)
    assert values.tolist() == [
        third,
        Fraction(1, 10),
        Fraction(0.1),
        2,
        Fraction(5, 7),
        Fraction(3, 10),
        0.5,
        4,
    ]
    assert {type(value) for value in values} == {Fraction}
    assert {type(value.numerator) for value in values} == {int}
    assert values[1] != values[2] == Fraction(3602879701896397, 36028797018963968)
    assert not values.flags.writeable


def test_rational_keeps_shapes_and_leaves_its_argument_alone():
    floats = np.array([[0.5, 0.25], [0.0, 1.0]])
    assert rational(floats).tolist() == [[Fraction(1, 2), Fraction(1, 4)], [0, 1]]
    objects = np.array(["1/2"], dtype=object)
    rational(objects)
    assert objects.tolist() == ["1/2"]


@pytest.mark.parametrize("value", ["half", "1/0", np.nan, np.inf, None, 1j])
def test_rational_refuses_what_is_no_number(value):
    with pytest.raises(ValueError, match=r"^rational got .*: give finite numbers, or strings such as '1/3'"):
        rational([1, value])


def test_exact_rows_are_told_from_floats():
    assert is_exact(rational([1, 0]))
    assert is_exact(point_mass(0, 2))
    assert is_exact(np.array([Fraction(1, 2), 0], dtype=object))
    assert not is_exact(np.array([Fraction(1, 2), 0.5], dtype=object))
    assert not is_exact(np.array([1.0, 0.0]))


@given(rows(4), st.sets(st.integers(0, 3)))
def test_conditioning_divides_by_the_mass_that_is_kept(row, tokens):
    mask = np.isin(range(4), list(tokens))
    mass = row[mask].sum()
    if mass:
        law = conditioned(row, mask)
        assert law.tolist() == [value / mass if i in tokens else 0 for i, value in enumerate(row)]
        assert check_row(law, ()) is law
        assert law.tolist() == conditioned(row, np.array(sorted(tokens))).tolist()
        assert (law is row) == (mass == 1)


def test_normalised_weights_are_a_row_of_their_own_kind():
    assert normalised(rational([1, 2, 3])).tolist() == rational(["1/6", "1/3", "1/2"]).tolist()
    assert normalised(np.array([1.0, 1.0, 2.0])).tolist() == [0.25, 0.25, 0.5]


def test_a_float_parameter_is_the_decimal_that_is_written():
    assert as_written("p", 0.9) == as_written("p", np.float64(0.9)) == Fraction(9, 10)
    assert as_written("p", Fraction(1, 3)) == third
    assert as_written("p", 3) == 3
    for value in (0.1, 1 / 3, 1e-300, 5e-324):
        assert float(as_written("p", value)) == value
    for value in (np.nan, np.inf, -np.inf, "p", None, 10**400):
        with pytest.raises(ValueError, match=r"^top got .*: give a finite number$"):
            as_written("top", value)


def test_a_point_mass_takes_any_integer_and_nothing_else():
    assert point_mass(np.int32(1), 3).tolist() == point_mass(True, 3).tolist() == [0, 1, 0]
    with pytest.raises(TypeError):
        point_mass(1.0, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_checked_at_once_are_those_checked_one_by_one(dtype, order):
    given = np.array(np.random.default_rng(0).dirichlet(np.ones(65), 5), dtype=dtype, order=order)
    at_once = check_rows(given)
    assert at_once.flags.c_contiguous
    assert at_once.tolist() == [check_row(row, ()).tolist() for row in given]
    given[:] = 0
    assert at_once.sum() == pytest.approx(5)
    with pytest.raises(ValueError, match="read-only"):
        at_once[0, 0] = 1


@pytest.mark.parametrize(
    "wrong", [[0.5, 0.6], [1.5, -0.5], [math.nan, 1], [math.inf, 0], [-math.inf, math.inf]]
)
@pytest.mark.parametrize("place", range(3))
def test_one_row_that_is_no_law_among_others_is_noticed(wrong, place):
    rows = np.full((3, 2), 0.5)
    assert check_rows(rows) is not None
    rows[place] = wrong
    assert check_rows(rows) is None
    with pytest.raises(ValueError, match="the row at context"):
        check_row(rows[place], ())
