"""Undecided numbers against numpy itself, run on every point of a small grid: the laws are equal."""

import copy
import math
import operator
import pickle
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scripted import GridGenerator, brute_force, grid, refusal_of, same_law
from speculative import CannotEnumerateError, as_generator, law, undecided, with_generator
from speculative.undecided import Undecided

HALF = Fraction(1, 2)
BITS = 8
DTYPES = [np.float64, np.float32, np.float16]


# ---------------------------------------------------------------- expressions

numbers = st.one_of(
    st.sampled_from([0, 1, -1, 2, 0.5, 0.25, -0.5, 3.0, 0.1, 1e-30, 1e30, math.inf, -math.inf]),
    st.floats(-4, 4),
    st.integers(-5, 5),
)
constants = st.one_of(numbers, *[numbers.map(kind) for kind in (np.float64, np.float32)])
small_constants = st.one_of(constants, st.floats(-4, 4, width=16).map(np.float16))
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]
BINARY = [*OPERATORS, np.add, np.subtract, np.multiply, np.true_divide, np.minimum, np.maximum]
UNARY = [
    operator.neg, operator.pos, np.negative, np.positive, np.log, np.log1p, np.log2, np.log10, np.exp,
    np.expm1, np.sqrt, np.floor, np.ceil, np.rint, np.trunc,
]  # fmt: skip
COMPARISONS = [
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
    np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
]  # fmt: skip

steps = st.one_of(
    st.tuples(st.sampled_from(UNARY)), st.tuples(st.sampled_from(BINARY), small_constants, st.booleans())
)
draws = st.one_of(st.just((None, np.float64)), st.tuples(st.just(1), st.sampled_from(DTYPES)))
comparisons = st.tuples(
    st.sampled_from(COMPARISONS),
    small_constants | st.integers(0, 2**BITS - 1).map(str),
    st.booleans(),
)


def stepped(number, step):
    operation, *rest = step
    if not rest:
        return operation(number)
    constant, on_the_left = rest
    return operation(constant, number) if on_the_left else operation(number, constant)


def drawn(rng, draw, chain):
    size, dtype = draw
    number = rng.random(size, dtype=dtype)
    if size:
        number = number[0]
    for step in chain:
        number = stepped(number, step)
    return number


def expression(draw, chain, questions):
    """Return a function that compares one expression of one uniform with several numbers."""

    def function(rng):
        number = drawn(rng, draw, chain)
        return tuple(bool(stepped(number, question)) for question in answered)

    def hit(constant):
        """Return a constant, or the value of the expression at a grid point: an edge that is met exactly."""
        if not isinstance(constant, str):
            return constant
        with np.errstate(all="ignore"):
            return drawn(GridGenerator([int(constant)], BITS), draw, chain)

    try:
        answered = [(compare, hit(constant), on_the_left) for compare, constant, on_the_left in questions]
    except ZeroDivisionError:
        answered = [(operator.lt, 0.5, False)]
    return function


@settings(max_examples=400)
@given(draws, st.lists(steps, max_size=4), st.lists(comparisons, min_size=1, max_size=3))
@example((1, np.float64), [(np.multiply, math.inf, False)], [(np.less_equal, math.inf, False)])
@example((None, float), [(np.subtract, 0.5, False), (np.true_divide, 1, True)], [(np.less, 2, False)])
def test_expressions_have_the_law_that_numpy_gives_them(draw, chain, questions):
    same_law(expression(draw, chain, questions))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_expression_on_the_whole_grid_of_float16(dtype):
    found = same_law(lambda rng: tuple((-np.log(rng.random(1, dtype=dtype)) * 3 < [2.0]).tolist()), bits=11)
    assert found[(False,)] == Fraction(math.ceil(math.exp(-2 / 3) * 2**11), 2**11)


@pytest.mark.parametrize("fault", [-1, 1])
def test_an_edge_off_by_one_point_is_reported(fault):
    count_below = undecided._count_below
    with mock.patch.object(undecided, "_count_below", lambda *args: count_below(*args) + fault):
        with pytest.raises(AssertionError):
            same_law(lambda rng: rng.random() < 0.3)
        with pytest.raises(AssertionError):
            same_law(lambda rng: np.searchsorted([0.2, 0.3], rng.random()))
    first_change = Undecided._first_change
    with (
        mock.patch.object(Undecided, "_first_change", lambda *args: first_change(*args) + fault),
        pytest.raises(AssertionError),
    ):
        same_law(lambda rng: rng.random() * 3 < 0.7)


def test_a_second_draw_in_place_of_the_first_is_reported():
    def forgetful(rng):
        return rng.random() < 0.5, rng.random() < 0.25

    with grid(BITS):
        assert law(with_generator(forgetful)) != brute_force(lambda rng: (rng.random() < 0.25,) * 2, BITS)


# ---------------------------------------------------------------- signs, domains, infinities


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: 1 / (rng.random(1) - 0.5) < 3,
        lambda rng: 1 / (0.5 - rng.random(1)) <= -3,
        lambda rng: -2 / (rng.random(1) * 4 - 1) > [1],
        lambda rng: np.true_divide(1, np.negative(rng.random(1))) < -2,
        lambda rng: np.minimum(1 / (rng.random(1) - 0.5), 3) == 3,
        lambda rng: 1 / ((rng.random(1) - 0.5) * 1e-310 * 1e-15) == -math.inf,
        lambda rng: 1 / ((rng.random(1) - 0.5) * 1e-310 * 1e-15) == math.inf,
        lambda rng: (rng.random(1) - 0.5) / 0.0 <= math.inf,
        lambda rng: (rng.random(1) - 0.5) * math.inf <= math.inf,
        lambda rng: math.inf * (rng.random(1) - 0.5) <= math.inf,
        lambda rng: (rng.random(1) - 0.5) * 1e308 * 1e308 * 0.0 == 0,
        lambda rng: (rng.random(1) - 0.5) * 1e308 * 1e308 / math.inf == 0,
        lambda rng: (rng.random(1, dtype=np.float16) - 0.5) * 1e9 <= math.inf,
        lambda rng: (rng.random(1, dtype=np.float32) - 0.5) * 1e60 <= math.inf,
        lambda rng: (rng.random(1) - 0.5) * math.nan <= math.inf,
    ],
)
def test_an_expression_that_jumps_at_zero(function):
    found = same_law(lambda rng: tuple(np.ravel(function(rng)).tolist()))
    assert found


@pytest.mark.parametrize("logarithm", [np.log, np.log2, np.log10, np.sqrt])
def test_beyond_its_domain_a_function_is_not_a_number(logarithm):
    found = same_law(lambda rng: bool(logarithm(rng.random() - 0.25) >= -20))
    inside = 0.75 if logarithm is np.sqrt else 0.75 - 2**-BITS  # at its start the logarithm is -inf
    assert found[True] == inside
    assert same_law(lambda rng: logarithm(rng.random() - 2) < 0) == {False: 1}
    assert same_law(lambda rng: np.log1p(rng.random() * 4 - 2) > -9)[True] == Fraction(3, 4) - Fraction(
        1, 256
    )


def test_a_number_beside_itself():
    def compared(rng):
        number = np.log(rng.random(1) - 0.5)[0]
        return tuple(bool(compare(number, number)) for compare in COMPARISONS)

    found = same_law(compared)
    assert found == {
        (False, True, False, True, True, False) * 2: HALF,
        (False,) * 5 + (True, *[False] * 5, True): HALF,
    }


def test_not_a_number_at_one_point_alone():
    def infinite_at_zero(rng):
        number = np.true_divide(0, rng.random(1))[0]
        return bool(number == number), bool(number != number)  # noqa: PLR0124  # not a number is not itself

    assert same_law(infinite_at_zero) == {
        (True, False): 1 - Fraction(1, 256),
        (False, True): Fraction(1, 256),
    }


def test_dividing_by_a_scalar_that_can_be_zero_raises_as_python_does():
    with grid(BITS), pytest.raises(ZeroDivisionError):
        law(with_generator(lambda rng: 1 / rng.random() < 2))
    assert same_law(lambda rng: 1 / (rng.random() + 0.5) < 1) == {
        True: HALF - Fraction(1, 256),
        False: HALF + Fraction(1, 256),
    }
    assert same_law(lambda rng: bool(1 / np.float64(1) / rng.random(1)[0] < 2))[True] == HALF - Fraction(
        1, 256
    )


# ---------------------------------------------------------------- types

NUMBERS = [
    lambda rng: rng.random(),
    lambda rng: rng.random() * 2 - 0.5,
    lambda rng: rng.random() - np.float64(0.1),
    lambda rng: rng.random() + np.float16(0.5),
    lambda rng: np.exp(rng.random()),
    lambda rng: rng.random(1)[0],
    lambda rng: rng.random(1, dtype=np.float16)[0],
    lambda rng: rng.random(1, dtype=np.float32)[0] * 0.7,
    lambda rng: rng.random(1)[0].as_type(float) if hasattr(rng, "_chance") else float(rng.random(1)[0]),
]
OTHERS = [
    0.3, 1, 0, True, -1.0, math.nan, math.inf, Fraction(3, 10), Decimal("0.3"), 0.25 + 0j, 0.25 + 1j, 10**400,
    np.float64(0.3), np.float32(0.3), np.float16(0.25), np.int8(1), np.complex128(0.25), np.bool_(True),
    np.array(0.3), None, "0.3", [0.3], (0.1, 0.3), [0.1, 0.3],
]  # fmt: skip


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: f"{type(other).__name__} {str(other)[:9]}")
@pytest.mark.parametrize("compare", COMPARISONS)
def test_an_answer_has_the_type_that_numpy_gives_it(compare, other):
    """Python's bool or numpy's, an array, or an error: `~` and `+` tell them apart."""

    def described(answer):
        return type(answer), np.ravel(answer).tolist()

    for number in NUMBERS:
        for on_the_left in (False, True) if type(other) is not complex else (False,):
            same_law(
                lambda rng, number=number, left=on_the_left: repr(
                    described(stepped(number(rng), (compare, other, left)))
                ),
                errors=(TypeError, OverflowError),
            )


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: bool(~(rng.random() < np.float64(0.3))),
        lambda rng: bool(~(rng.random(1)[0] < 0.3)),
        lambda rng: (rng.random() < np.float64(0.3)) is True,
        lambda rng: (rng.random() < 0.3) is True,
        lambda rng: int((rng.random(1)[0] < 0.3).item()),
        lambda rng: int((rng.random(1)[0] < 0.3).astype(np.int8)) + 1,
        lambda rng: bool((rng.random() < np.float64(0.3)).any()),
        lambda rng: int(sum((rng.random() < 0.5, True))),
        lambda rng: rng.random() < 10**400,
        lambda rng: rng.random() != None,  # noqa: E711
    ],
)
def test_an_answer_is_used_as_numpys_is(function):
    same_law(function, bits=11)


def test_answers_are_added_as_numpy_adds_them():
    def added(rng):
        u = rng.random(2)
        return int((u[0] < 0.5) + (u[1] < 0.5)), int((rng.random() < 0.5) + (u[0] < 0.25))

    found = same_law(added, 3, 3)
    assert {both for both, _ in found} == {0, 1}


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda u: copy.deepcopy({"u": [u]})["u"][0]])
def test_a_copy_of_a_uniform_is_the_same_uniform(duplicate):
    def compared(rng):
        u = rng.random()
        return bool(duplicate(u) < 0.3), bool(u < 0.5), bool(3 * duplicate(u) < 0.7), u == duplicate(u)

    assert len(same_law(compared)) == 4


@pytest.mark.parametrize("bits", [53, 24, 11])
def test_a_single_uniform_is_weak_beside_a_float32(bits):
    """Python floats are rounded to the type they meet, so that the edge lies half a float32 ulp lower."""
    threshold = np.float32(0.3)
    with grid(bits):
        found = law(with_generator(lambda rng: rng.random() < threshold))
        array = law(with_generator(lambda rng: bool(rng.random(1)[0] < threshold)))
    points = int(found[True] * 2**bits)
    assert (points - 1) * 2.0**-bits < threshold
    assert not points * 2.0**-bits < threshold
    assert array[True] == Fraction(math.ceil(Fraction(float(threshold)) * 2**bits), 2**bits)
    assert (found != array) == (bits == 53)


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: rng.random() + 1 < np.float32(1.3),
        lambda rng: np.add(rng.random(), 1) < np.float32(1.3),
        lambda rng: 2 * rng.random() * np.float32(0.1) < 0.1,
        lambda rng: np.float32(0.1) - rng.random() < 0.1,
        lambda rng: -rng.random() < np.float32(-0.3),
        lambda rng: +rng.random() / 3 < np.float16(0.1),
        lambda rng: rng.random(1, dtype=np.float32)[0] * 0.1 < 0.03,
        lambda rng: rng.random(1, dtype=np.float32)[0] * np.float64(0.1) < 0.03,
    ],
)
def test_operators_keep_numpys_types(function):
    """At 53 bits, where types decide the last bits: both ends of the edge found are numpy's own."""

    def answer(point):
        def random(size=None, dtype=np.float64):
            return math.ldexp(point, -53) if size is None else np.array([math.ldexp(point, -53)], dtype=dtype)

        return bool(function(mock.Mock(random=random)))

    with grid(53):
        found = law(with_generator(lambda rng: bool(function(rng))))
    below = answer(0)
    points = int(found[below] * 2**53)
    assert 0 < points < 2**53
    assert [answer(point) for point in (points - 2, points - 1)] == [below] * 2
    assert [answer(point) for point in (points, points + 1)] == [not below] * 2


def test_a_comparison_without_dimensions_is_a_single_answer():
    for function in (
        lambda rng: rng.random() < np.asarray(0.5),
        lambda rng: np.asarray(0.5) > rng.random(),
        lambda rng: rng.random(()) < 0.5,
    ):
        assert same_law(function) == {True: HALF, False: HALF}


def test_whole_numbers():
    for function in (
        lambda rng: int(rng.random() * 5),
        lambda rng: int(rng.random() * -5 + 2),
        lambda rng: round(rng.random() * 5),
        lambda rng: math.floor(rng.random() * 5 - 2),
        lambda rng: math.ceil(rng.random() * 5 - 2),
        lambda rng: math.trunc(rng.random() * 5 - 2),
        lambda rng: int(rng.random(1, dtype=np.float16)[0] * 3),
        lambda rng: [*"abc"][int(3 * rng.random())],
        lambda rng: bool(rng.random()),
        lambda rng: bool(rng.random() - 0.25),
        lambda rng: rng.random() in (0.25, 0.5),
    ):
        same_law(function)


def test_a_whole_number_is_decided_among_so_many_and_no_more():
    with pytest.raises(
        CannotEnumerateError, match=r"^an integer with 4097 values has no law.*stay within 4096$"
    ):
        law(with_generator(lambda rng: int(rng.random() * 4097)))
    with mock.patch.object(undecided, "MAX_VALUES", 50):
        found = law(with_generator(lambda rng: int(rng.random() * 50)))
        assert list(found) == list(range(50))
        assert found.distance(dict.fromkeys(range(50), Fraction(1, 50))) < Fraction(50, 2**53)
        for far in (lambda u: int(u * 51), lambda u: int(u * -51)):
            with pytest.raises(CannotEnumerateError, match=r"^an integer with 51 values"):
                law(with_generator(lambda rng, far=far: far(rng.random())))


def test_a_uniform_used_twice_is_one_uniform():
    def compared(rng):
        u = rng.random()
        return u < 0.5, u < 0.25, u >= 0.5

    def mixed(rng):
        u = rng.random()
        return int(u * 2), bool(np.exp(u) < 2), u == 0.25

    def elements(rng):
        u = rng.random(2)
        return bool(u[0] < 0.5), bool(u[1] < 0.5), bool(u[0] > 0.25)

    assert same_law(compared) == {
        (True, True, False): Fraction(1, 4),
        (True, False, False): Fraction(1, 4),
        (False, False, True): HALF,
    }
    assert len(same_law(mixed)) == 4
    assert len(same_law(elements, 5, 2)) == 6


def test_a_decided_interval_asks_nothing_more():
    asked = []

    class Recorder:
        def flip(self, probability):
            asked.append(probability)
            return True

    uniform = as_generator(Recorder()).random()
    assert [uniform < 0.5, uniform < 0.75, uniform < 0.5, uniform >= 0, uniform < 1] == [True] * 5
    assert uniform < 0.125
    assert asked == [HALF, Fraction(1, 4)]
    assert repr(uniform) == f"<undecided: {2**50} candidates>"


# ---------------------------------------------------------------- searching


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "values",
    [
        [0.25, 0.5, 0.5, 0.75, 1.0],
        [0.0, 0.1, 0.3, 1.0],
        [-1.0, 0.3, 2.0],
        [0, 1],
        [],
        [Fraction(0), Fraction(1, 3), HALF, Fraction(1)],
        np.array([0.1, 0.3, 0.3], dtype=np.float32),
        np.array([0.1, 0.25], dtype=np.float16),
        np.array([0, 1], dtype=np.int8),
        np.array([False, True]),
        [0.5, math.nan],
        [-math.inf, 0.5, math.inf],
    ],
    ids=str,
)
def test_searchsorted(values, side):
    def found(number):
        return int(np.searchsorted(values, number, side))

    def found_after_others(rng):
        u = rng.random()
        return u < 0.3, found(u), found(1 - u)

    same_law(lambda rng: found(rng.random()))
    same_law(lambda rng: found(rng.random(1)[0]))
    same_law(lambda rng: found(rng.random(1, dtype=np.float32)[0]))
    same_law(lambda rng: found(3 * rng.random() - 1))
    same_law(lambda rng: found(np.float32(0.1) * rng.random()))
    same_law(lambda rng: found(rng.random(1, dtype=np.float16)[0] / 3))
    same_law(lambda rng: found(-np.log(rng.random())))
    same_law(lambda rng: found(np.log(rng.random() - 0.5)))
    same_law(found_after_others)
    same_law(lambda rng: tuple(np.searchsorted(values, rng.random(2), side=side).tolist()), 5, 2)
    same_law(lambda rng: np.searchsorted(values, rng.random((2, 1)), side=side).shape, 2, 2)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_as_a_method(side):
    values = np.array([0.25, 0.3, 0.5, 0.5, 0.75])
    same_law(lambda rng: int(values.searchsorted(rng.random(), side)))
    same_law(lambda rng: tuple(values.searchsorted(rng.random(1), side).tolist()))
    same_law(lambda rng: tuple(np.searchsorted(v=rng.random(2), a=values, side=side).tolist()), 5, 2)


def test_the_place_found_is_an_index():
    with grid(BITS):
        single = law(with_generator(lambda rng: type(np.searchsorted([0.5], rng.random()))))
        several = law(with_generator(lambda rng: np.searchsorted([0.5], rng.random(3)).dtype))
    assert single == {np.intp: 1}
    assert several == {np.dtype(np.intp): 1}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("chain", [lambda u: u, lambda u: 2 * u / 2])
def test_a_search_compares_in_the_type_that_holds_both(kind, chain):
    """At 53 bits a float32 edge is met as the float64 it is: a single uniform is not rounded to meet it."""
    edges = np.array([0.2, 0.3], dtype=kind)
    found = law(with_generator(lambda rng: int(np.searchsorted(edges, chain(rng.random()), "right"))))
    assert found[0] == Fraction(math.ceil(Fraction(float(edges[0])) * 2**53), 2**53)
    assert found[2] == 1 - Fraction(math.ceil(Fraction(float(edges[1])) * 2**53), 2**53)


# ---------------------------------------------------------------- what cannot be enumerated

REFUSED = [
    ("numpy.less of two undecided numbers", lambda u, v: u < v),
    ("numpy.greater of two", max),
    ("numpy.equal of two", lambda u, v: u == v),
    ("numpy.less_equal of two", lambda u, v: u <= u + 0),
    ("numpy.add of two", lambda u, v: u + v),
    ("numpy.subtract of two", lambda u, v: v - u),
    ("numpy.multiply of two", lambda u, v: u * u),
    ("numpy.divide of two", lambda u, v: u / v),
    ("numpy.power of an undecided number", lambda u, v: u**2),
    ("numpy.remainder of an", lambda u, v: u % 0.5),
    ("numpy.floor_divide of an", lambda u, v: u // 0.5),
    ("numpy.absolute of an", lambda u, v: abs(u)),
    ("numpy.sin of an", lambda u, v: np.sin(u)),
    ("numpy.isnan of an", lambda u, v: np.isnan(u)),
    ("numpy.logical_not of an", lambda u, v: np.logical_not(u)),
    ("numpy.sum() of undecided numbers", lambda u, v: np.sum(np.stack([u, v]))),
    ("float() of an undecided number", lambda u, v: float(u)),
    ("float() of an undecided number", lambda u, v: math.log(u)),
    ("an undecided number as an outcome or a key", lambda u, v: {u: 1}),
    ("attribute 'item' of an undecided number", lambda u, v: u.item()),
    ("attribute 'dtype' of an", lambda u, v: u.dtype),
    ("round() to digits", lambda u, v: round(u, 2)),
    ("str() of an undecided number", lambda u, v: str(u)),
    ("str() of an undecided number", lambda u, v: f"{u}"),
    ("str() of an undecided number", lambda u, v: f"{u:.3f}"),
    ("str() of an undecided number", lambda u, v: "%s" % u),  # noqa: UP031  # what logging does
    ("pickling an undecided number", lambda u, v: pickle.loads(pickle.dumps(u)) < 0.5),
    ("pickling an undecided number", lambda u, v: pickle.dumps({"u": [u]}, protocol=0)),
    ("numpy.less of two", lambda u, v: u < copy.copy(v)),
    ("numpy.digitize() of undecided numbers", lambda u, v: np.digitize(u, np.array([0.2, 0.5]))),
    ("numpy.interp() of", lambda u, v: np.interp(u, [0, 1], [0, 2])),
    ("numpy.geomspace() of", lambda u, v: np.geomspace(u, 2)),
    ("numpy.linspace() of", lambda u, v: np.linspace(0, u)),
    ("numpy.clip() of", lambda u, v: np.clip(u, 0.1, 0.9)),
    ("numpy.round() to decimals", lambda u, v: np.round(u, 2)),
    ("numpy.searchsorted() in values without order", lambda u, v: np.searchsorted([0.5, 0.2], u)),
    ("numpy.searchsorted() in values without order", lambda u, v: np.searchsorted([0.5, 0.2], 3 * u)),
    ("numpy.searchsorted() in values without order", lambda u, v: np.searchsorted([math.nan, 0.2], u)),
    ("numpy.add(out=) of undecided numbers", lambda u, v: np.add(u, 1, out=np.zeros(1))),
    ("numpy.less(where=)", lambda u, v: np.less(u, [0.5], where=[True])),
    ("numpy.add(dtype=)", lambda u, v: np.add(u, 1, dtype=np.float32)),
    ("numpy.searchsorted(sorter=)", lambda u, v: np.searchsorted([0.2, 0.1], u, sorter=[1, 0])),
    ("numpy.searchsorted(sorter=) or among undecided values", lambda u, v: np.searchsorted([u, v], v)),
    ("numpy.less of two", lambda u, v: np.array([0.5]).searchsorted([u, v])),
]


@pytest.mark.parametrize(("operation", "function"), REFUSED)
def test_an_operation_that_cannot_be_enumerated_is_named(operation, function):
    assert refusal_of(lambda rng: function(rng.random(), rng.random())).startswith(operation)


def test_an_outcome_that_holds_an_undecided_number_is_named():
    with pytest.raises(
        CannotEnumerateError, match=r"as an outcome or a key .*: return what was decided with it"
    ):
        law(with_generator(lambda rng: (1, rng.random())))


def test_a_question_about_an_undecided_number_is_refused():
    def program(chance):
        return chance.flip(as_generator(chance).random())

    for arithmetic in (None, "float64"):
        with pytest.raises(CannotEnumerateError, match=r"^float\(\) of an undecided number"):
            law(program, arithmetic=arithmetic)


def test_numbers_that_are_no_numbers_are_the_programs_own_errors():
    with pytest.raises(TypeError, match="'<' not supported between instances of 'float' and 'str'"):
        law(with_generator(lambda rng: rng.random() < "0.5"))
    with pytest.raises(TypeError, match="did not contain a loop"):
        law(with_generator(lambda rng: rng.random(1)[0] < "0.5"))
    with pytest.raises(TypeError, match="unsupported operand type"):
        law(with_generator(lambda rng: rng.random() + "0.5"))
    with pytest.raises(OverflowError, match="int too large"):
        law(with_generator(lambda rng: rng.random() - 10**400))
    with pytest.raises(AttributeError, match="__array__"):
        law(with_generator(lambda rng: rng.random().__array__()))
