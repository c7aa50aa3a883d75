"""The stand-in for numpy's generator against numpy's own, run on every combination of its draws."""

import copy
import pickle
from collections import deque
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted import ScriptedBits, grid, numpy_law, uniforms
from speculative import (
    CannotEnumerateError,
    as_generator,
    law,
    rational,
    sample,
    table,
    verify,
    with_generator,
)
from speculative import generator as generator_module
from speculative.draft import Draft, model
from speculative.generator import _StandIn

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
TWELFTHS = [int((i + 0.5) * 2**32 / 12) for i in range(12)]
"""Words that fall evenly on the integers below 2, 3, 4 and 6, as numpy (Lemire's method) draws those."""


def listed(value):
    """Return an array as nested tuples, to be an outcome."""
    return tuple(map(listed, value)) if isinstance(value, (list, np.ndarray)) else value


def stand_in_law(function):
    return law(with_generator(lambda rng: listed(function(rng))))


def same_law(function, *choices, bits=53):
    """Assert that the law with the stand-in is the one with numpy's own generator and every draw."""
    expected = numpy_law(lambda rng: listed(function(rng)), *choices, bits=bits)
    with grid(bits):
        found = stand_in_law(function)
    assert found == expected
    assert found.exact
    return found


def points(bits, draws=1):
    return [range(1 << bits)] * draws


def shuffled(things, **options):
    def function(rng):
        copied = things.copy()
        rng.shuffle(copied, **options)
        return copied

    return function


# ---------------------------------------------------------------- uniforms


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: rng.random() < 0.3,
        lambda rng: rng.random(2) < [0.3, 0.5],
        lambda rng: rng.random((2, 1)) < [0.3, 0.5],
        lambda rng: rng.uniform() < 0.3,
        lambda rng: rng.uniform(-1, 2) < 0.3,
        lambda rng: rng.uniform(0.1, high=0.7) < 0.3,
        lambda rng: rng.uniform(2, 2) == 2,
        lambda rng: rng.uniform(-1, 2, size=2) < 0.3,
        lambda rng: rng.uniform([0, 1], [1, 3]) < [0.5, 1.5],
        lambda rng: rng.uniform(0, [1, 3]) < 0.5,
        lambda rng: rng.uniform([[0], [1]], 3, size=(2, 1)) < 1.3,
        lambda rng: rng.uniform(np.float32(0.1), 1) < 0.3,
    ],
)
def test_uniforms(function):
    same_law(function, *points(5, 2), bits=5)


def test_uniforms_of_float32_have_24_bits():
    words = [range(0, 2**32, 2**27)]
    with grid(5):
        for function in (
            lambda rng: rng.random(dtype=np.float32) < 0.3,
            lambda rng: rng.random(1, dtype=np.float32) < 0.3,
            lambda rng: rng.random(1, np.float32) < np.array([0.3]),
            lambda rng: rng.random(1, dtype="f4") * 3 < 1,
        ):
            assert stand_in_law(function) == numpy_law(lambda rng, f=function: listed(f(rng)), *words)


@pytest.mark.parametrize(("dtype", "bits"), [(np.float64, 53), (np.float32, 24), (np.float16, 11)])
def test_the_grids_are_numpys(dtype, bits):
    for size in (None, 1):
        found = stand_in_law(lambda rng, size=size: rng.random(size, dtype=dtype) * 1.0 == 0)
        assert found[True if size is None else (True,)] == Fraction(1, 2**bits)
        found = stand_in_law(lambda rng, size=size: rng.random(size, dtype=dtype) < 2.0 ** -(bits + 5))
        assert found[True if size is None else (True,)] == Fraction(1, 2**bits)


def test_a_single_uniform_between_bounds_is_a_python_float():
    """Weak beside a float32, as the plain one is: its 53 bits are rounded before they are compared."""
    plain = stand_in_law(lambda rng: rng.random() < np.float32(0.3))
    assert stand_in_law(lambda rng: rng.uniform() < np.float32(0.3)) == plain
    assert stand_in_law(lambda rng: rng.uniform(np.float64(0), 1) < np.float32(0.3)) == plain
    assert stand_in_law(lambda rng: bool(rng.uniform(size=1)[0] < np.float32(0.3))) != plain


def test_numpys_own_grids_end_there():
    assert np.random.Generator(ScriptedBits([1])).random() == 2.0**-53
    assert np.random.Generator(ScriptedBits([1 << 8])).random(dtype=np.float32) == 2.0**-24


# ---------------------------------------------------------------- choice


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: rng.choice(3, p=[0.3, 0.1, 0.6]),
        lambda rng: rng.choice(4, p=[0, 0.5, 0, 0.5]),
        lambda rng: rng.choice(3, p=np.array([0.3, 0.1, 0.6], dtype=np.float32)),
        lambda rng: rng.choice(2, p=[THIRD, 1 - THIRD]),
        lambda rng: rng.choice(1, p=[1]),
        lambda rng: rng.choice(["a", "b", "c"], p=[0.3, 0.1, 0.6]),
        lambda rng: rng.choice([10, 20, 30], size=2, p=[0.3, 0.1, 0.6]),
        lambda rng: rng.choice(3, size=(2, 1), p=[0.3, 0.1, 0.6]),
        lambda rng: rng.choice([[1, 2], [3, 4]], p=[0.3, 0.7]),
        lambda rng: rng.choice([[1, 2], [3, 4]], p=[0.3, 0.7], axis=1),
        lambda rng: rng.choice([[1, 2], [3, 4], [5, 6]], 2, p=[0.3, 0.1, 0.6]),
        lambda rng: rng.choice([[1, 2, 3], [4, 5, 6]], 2, True, [0.3, 0.1, 0.6], 1),
        lambda rng: rng.choice(3, 0, p=[0.3, 0.1, 0.6]),
    ],
)
def test_choice_by_probabilities(function):
    same_law(function, *points(5, 2), bits=5)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any))
def test_choice_has_its_edges_where_numpy_has_them(weights):
    p = np.array(weights) / sum(weights)
    same_law(lambda rng: rng.choice(len(p), p=p), *points(8), bits=8)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=5).filter(any))
def test_choice_changes_at_the_same_of_all_the_grid_points(weights):
    """At 53 bits: with the uniforms on either side of each edge numpy itself chooses what the law says."""
    p = np.array(weights) / sum(weights)
    found = stand_in_law(lambda rng: rng.choice(len(p), p=p))
    edge = 0
    for index in sorted(found):
        for point in (edge, edge + int(found[index] * 2**53) - 1):
            assert uniforms(point).choice(len(p), p=p) == index
        edge += int(found[index] * 2**53)
    assert edge == 2**53


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: rng.choice(3, 2, replace=False, p=[0.5, 0.25, 0.25]),
        lambda rng: rng.choice(3, 2, replace=False, p=[0.3, 0, 0.7]),
        lambda rng: rng.choice(3, replace=False, p=[0.3, 0.1, 0.6]),
        lambda rng: rng.choice([[1, 2], [3, 4], [5, 6]], (2, 1), replace=False, p=[0.5, 0.25, 0.25]),
    ],
)
def test_choice_by_probabilities_without_replacement(function):
    same_law(function, *points(3, 4), bits=3)


def test_choice_of_everything_by_probabilities():
    same_law(lambda rng: rng.choice([5, 6, 7], 3, False, [0.25, 0.25, 0.5]), *points(2, 6), bits=2)


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: rng.choice(3),
        lambda rng: rng.choice(np.int8(3), 2),
        lambda rng: rng.choice(["a", "b"], (2, 1)),
        lambda rng: rng.choice([[1, 2, 3], [4, 5, 6]], axis=1),
        lambda rng: rng.choice([[1, 2], [3, 4], [5, 6]], 2),
        lambda rng: rng.choice(3, 2, replace=False),
        lambda rng: rng.choice(4, 2, replace=False),
        lambda rng: rng.choice(3, replace=False),
        lambda rng: rng.choice([[1, 2, 3], [4, 5, 6]], 2, replace=False, axis=1),
        lambda rng: rng.choice(4, 2, replace=False, shuffle=False),
        lambda rng: rng.choice(4, 3, replace=False, shuffle=False),
        lambda rng: rng.choice(3, 3, replace=False, shuffle=False),
        lambda rng: rng.choice([7, 8, 9], (2, 1), replace=False, shuffle=False),
        lambda rng: rng.choice(3, 0, replace=False),
    ],
)
def test_choice_without_probabilities(function):
    same_law(function, *[TWELFTHS] * 3)


def test_choice_of_everything_without_probabilities():
    found = same_law(lambda rng: rng.choice(3, 3, replace=False), *[TWELFTHS] * 4)
    assert set(found.values()) == {Fraction(1, 6)}


def test_choice_from_uniforms():
    with grid(4):
        for function in (
            lambda rng: rng.choice(rng.random(2)) < 0.3,
            lambda rng: rng.permutation(rng.random(2)) < 0.3,
        ):
            found = stand_in_law(function)
            assert sum(found.values()) == 1
            assert found.get(True, found.get((True, True))) in (Fraction(5, 16), Fraction(25, 256))


def test_choice_on_another_side_is_reported():
    class Left(_StandIn):
        def _index(self, count, p=None):
            return int(np.searchsorted(p.cumsum() / p.sum(), self.random()))

    with mock.patch.object(generator_module, "_StandIn", Left), pytest.raises(AssertionError):
        same_law(lambda rng: rng.choice(2, p=[0.25, 0.75]), *points(5), bits=5)


def test_an_order_that_is_not_numpys_is_reported():
    with mock.patch.object(_StandIn, "_combination", _StandIn._arrangement), pytest.raises(AssertionError):
        same_law(lambda rng: rng.choice(3, 2, replace=False, shuffle=False), *[TWELFTHS] * 2)


# ---------------------------------------------------------------- integers, orders, counts


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: rng.integers(3),
        lambda rng: rng.integers(-1, 3),
        lambda rng: rng.integers(1, 3, endpoint=True),
        lambda rng: rng.integers(2, endpoint=True),
        lambda rng: rng.integers(low=2, high=4, size=2),
        lambda rng: rng.integers(2, size=(1, 3)),
        lambda rng: rng.integers(5, 6),
        lambda rng: rng.integers(np.int64(1), np.int32(4)),
    ],
)
def test_integers(function):
    same_law(function, *[TWELFTHS] * 3)


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: rng.permutation(3),
        lambda rng: rng.permutation([5, 6, 7]),
        lambda rng: rng.permutation(np.arange(6).reshape(3, 2)),
        lambda rng: rng.permutation(np.arange(6).reshape(2, 3), axis=1),
        lambda rng: rng.permutation(0),
        shuffled([5, 6, 7]),
        shuffled(["a"]),
        shuffled(np.array([5, 5, 6])),
        shuffled(np.arange(6).reshape(3, 2)),
        shuffled(np.arange(6).reshape(2, 3), axis=1),
    ],
)
def test_orders(function):
    same_law(function, range(3), range(2))  # numpy draws the last place first, among all that are left


@pytest.mark.filterwarnings("ignore:you are shuffling a 'dict'")
@pytest.mark.parametrize(
    ("things", "read"),
    [(deque([5, 6, 7]), tuple), ({0: "a", 1: "b", 2: "c"}, lambda shuffled: (*shuffled.values(),))],
)
def test_what_has_numbered_items_can_be_shuffled(things, read):
    same_law(lambda rng: read(shuffled(things)(rng)), range(3), range(2))


def test_shuffle_swaps_items_as_numpy_does():
    """A view of an item that is overwritten is a duplicate, there as here."""

    class Rows:
        def __init__(self):
            self.rows = np.array([[1], [2], [3]])

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return self.rows[i]

        def __setitem__(self, i, row):
            self.rows[i] = row

    def function(rng):
        rows = Rows()
        rng.shuffle(rows)
        return rows.rows

    with pytest.warns(UserWarning, match="you are shuffling a 'Rows' object"):
        expected = numpy_law(lambda rng: listed(function(rng)), range(3), range(2))
    assert stand_in_law(function) == expected
    assert any(len({*map(str, outcome)}) < 3 for outcome in expected)


@pytest.mark.filterwarnings("ignore:you are shuffling a 'dict'")
@pytest.mark.parametrize(
    ("error", "function"),
    [
        (NotImplementedError, lambda rng: rng.shuffle([1, 2], axis=1)),
        (TypeError, lambda rng: rng.shuffle((1, 2))),
        (TypeError, lambda rng: rng.shuffle("ab")),
        (TypeError, lambda rng: rng.shuffle(3)),
        (KeyError, lambda rng: rng.shuffle({"a": 1, "b": 2})),
        (IndexError, lambda rng: rng.shuffle(np.zeros((3, 2)), axis=2)),
        (TypeError, lambda rng: rng.integers(2, dtype=float)),
        (TypeError, lambda rng: rng.integers(2, dtype=str)),
        (TypeError, lambda rng: rng.integers(2, size=2, dtype=float)),
        (ValueError, lambda rng: rng.integers(5, dtype=bool)),
        (ValueError, lambda rng: rng.integers(5, size=2, dtype=bool)),
        (ValueError, lambda rng: rng.integers(129, dtype=np.int8)),
        (ValueError, lambda rng: rng.integers(-1, 1, dtype=np.uint8)),
        (ValueError, lambda rng: rng.integers(2, size=-1)),
    ],
)
def test_what_numpy_refuses_with_its_own_error(error, function):
    with pytest.raises(error):
        function(np.random.default_rng(0))
    with pytest.raises(error):
        law(with_generator(function))


def test_shuffle_returns_nothing():
    assert stand_in_law(lambda rng: rng.shuffle([1, 2])) == {None: 1}


def test_multinomial_of_one():
    """numpy draws it from rounded uniforms; the stand-in's law is the ideal one, within their rounding."""
    p = [Fraction(1, 4), HALF / 4, HALF, HALF / 4]
    found = stand_in_law(lambda rng: rng.multinomial(1, p))
    assert found == {tuple(int(i == j) for j in range(4)): share for i, share in enumerate(p)}
    assert found.exact
    numpys = numpy_law(lambda rng: listed(rng.multinomial(1, np.array(p, float))), *points(4, 3), bits=4)
    assert found.distance(numpys) <= 3 * Fraction(1, 16)
    assert found.map(lambda counts: counts[::-1]).distance(numpys) > 3 * Fraction(1, 16)
    floats = stand_in_law(lambda rng: rng.multinomial(1, [0.1, 0.2, 0.7]))
    assert floats == {(1, 0, 0): 0.1, (0, 1, 0): 0.2, (0, 0, 1): 0.7}
    counts = stand_in_law(lambda rng: rng.multinomial(np.int64(1), np.array([0.5, 0.5])))
    assert counts == {(1, 0): 0.5, (0, 1): 0.5}


def test_uniforms_meet_a_whole_number():
    same_law(lambda rng: int(rng.random() * 3), *points(5), bits=5)
    same_law(lambda rng: (rng.random(2) * 3).astype(int), *points(5, 2), bits=5)


# ---------------------------------------------------------------- types, and what is refused


@pytest.mark.parametrize(
    "function",
    [
        lambda rng: rng.integers(3),
        lambda rng: rng.integers(3, dtype=np.int8),
        lambda rng: rng.integers(3, dtype="uint16"),
        lambda rng: rng.integers(3, dtype=int),
        lambda rng: rng.integers(2, dtype=bool),
        lambda rng: rng.integers(2, dtype=np.bool_),
        lambda rng: rng.integers(3, size=2),
        lambda rng: rng.integers(3, size=(2, 1), dtype=np.int8),
        lambda rng: rng.integers(3, size=()),
        lambda rng: rng.integers(2, size=2, dtype=bool),
        lambda rng: rng.choice(3),
        lambda rng: rng.choice(3, p=[0.2, 0.3, 0.5]),
        lambda rng: rng.choice([1.5, 2.5]),
        lambda rng: rng.choice(["a", "b"]),
        lambda rng: rng.choice(3, 2),
        lambda rng: rng.choice(3, (2, 1), replace=False),
        lambda rng: rng.choice(3, ()),
        lambda rng: rng.choice([1.5, 2], (), p=[0.5, 0.5]),
        lambda rng: rng.choice([[1, 2]]),
        lambda rng: rng.permutation(3),
        lambda rng: rng.permutation([1.5, 2]),
        lambda rng: rng.multinomial(1, [0.5, 0.5]),
        lambda rng: rng.integers(0, 2, size=3).sum(),
        lambda rng: rng.choice(3, 2) + 0.5,
    ],
)
def test_results_have_numpys_types(function):
    def described(rng):
        result = function(rng)
        return type(result), getattr(result, "dtype", None), np.shape(result)

    assert law(with_generator(described)) == {described(np.random.default_rng(0)): 1}


CANNOT = [
    ("random(out=)", lambda rng: rng.random(out=np.zeros(2))),
    ("integers() with 4097 values", lambda rng: rng.integers(4097)),
    ("integers() with 4097 values", lambda rng: rng.integers(-1, 4095, endpoint=True)),
    ("integers() between arrays", lambda rng: rng.integers([1, 2])),
    ("integers() between arrays", lambda rng: rng.integers(0, [1, 2])),
    ("multinomial() but for multinomial(1, p)", lambda rng: rng.multinomial(2, [0.5, 0.5])),
    ("multinomial() but for multinomial(1, p)", lambda rng: rng.multinomial([1, 1], [0.5, 0.5])),
    ("multinomial() but for multinomial(1, p)", lambda rng: rng.multinomial(1, [0.5, 0.5], size=2)),
    ("multinomial() but for multinomial(1, p)", lambda rng: rng.multinomial(1, [[0.5, 0.5]])),
]


@pytest.mark.parametrize(("operation", "function"), CANNOT)
def test_what_cannot_be_enumerated_is_named(operation, function):
    with pytest.raises(CannotEnumerateError) as refusal:
        law(with_generator(function))
    assert str(refusal.value).startswith(f"{operation} has no law that can be enumerated: ")


def test_integers_are_enumerated_up_to_a_number_of_values():
    with mock.patch.object(generator_module, "MAX_VALUES", 3):
        assert stand_in_law(lambda rng: rng.integers(3)) == dict.fromkeys(range(3), THIRD)
        with pytest.raises(CannotEnumerateError, match=r"^integers\(\) with 4 values .* stay within 3, or"):
            stand_in_law(lambda rng: rng.integers(4))


UNDERSTOOD = {"random", "uniform", "integers", "choice", "permutation", "shuffle", "multinomial"}


@pytest.mark.parametrize("name", [name for name in dir(np.random.Generator) if not name.startswith("_")])
def test_every_method_of_a_generator_is_understood_or_refused(name):
    if name in UNDERSTOOD:
        assert name in vars(_StandIn)
        return
    with pytest.raises(
        CannotEnumerateError, match=rf"^Generator\.{name}\(\) has no law.*draw from random\(\)"
    ):
        law(with_generator(lambda rng: getattr(rng, name)(1)))


BAD = [
    (TypeError, r"random\(dtype=int64\): uniforms are float64", lambda rng: rng.random(dtype=np.int64)),
    (ValueError, "size=-1: an array has no negative lengths", lambda rng: rng.random(-1)),
    (ValueError, r"size=\(2, -1\): an array", lambda rng: rng.choice(3, (2, -1))),
    (ValueError, r"integers\(0, 0\): no integers in that range", lambda rng: rng.integers(0)),
    (ValueError, r"integers\(3, 2\): no integers", lambda rng: rng.integers(3, 2, endpoint=False)),
    (ValueError, r"uniform\(low=1.0, high=0.0\): high - low", lambda rng: rng.uniform(1, 0)),
    (ValueError, "high - low must be finite and not negative", lambda rng: rng.uniform(0, np.inf)),
    (ValueError, "high - low must be finite", lambda rng: rng.uniform([0, 1], [1, 0])),
    (ValueError, r"choice\(p=\[1.\]\): give one probability for each of 3", lambda rng: rng.choice(3, p=[1])),
    (ValueError, "with a sum of 1$", lambda rng: rng.choice(2, p=[0.5, 0.5 + 2e-8])),
    (ValueError, "with a sum of 1$", lambda rng: rng.choice(2, p=np.array([0.5, 0.501], dtype=np.float32))),
    (ValueError, "with a sum of 1$", lambda rng: rng.choice(2, p=[1.5, -0.5])),
    (ValueError, "with a sum of 1$", lambda rng: rng.choice(2, p=[np.nan, 0.5])),
    (ValueError, "3 without replacement is more than", lambda rng: rng.choice(2, 3, replace=False)),
    (ValueError, "2 without replacement is more", lambda rng: rng.choice(3, 2, False, p=[0, 1, 0])),
    (ValueError, "^pick", lambda rng: rng.choice(0)),
    (TypeError, "integer", lambda rng: rng.choice(2.5)),
    (TypeError, "integer", lambda rng: rng.permutation(2.5)),
    (ValueError, r"pvals=\[0.5, 0.4\]\): the sum must be 1", lambda rng: rng.multinomial(1, [0.5, 0.4])),
    (ValueError, "none negative", lambda rng: rng.multinomial(1, [1.5, -0.5])),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "function"), BAD)
def test_what_numpy_refuses_is_refused_in_one_line(error, message, function):
    with pytest.raises(error, match=message) as refusal:
        law(with_generator(function))
    assert "\n" not in str(refusal.value)


def test_what_numpy_accepts_is_accepted():
    """Its tolerance for a sum of probabilities is that of their type."""
    for p in ([0.5, 0.5 + 1e-8], np.array([0.5, 0.5003], dtype=np.float32)):
        np.random.default_rng(0).choice(2, p=p)
        assert len(stand_in_law(lambda rng, p=p: rng.choice(2, p=p))) == 2


# ---------------------------------------------------------------- standing in


def test_it_stands_in_for_a_generator():
    class Coin:
        def flip(self, probability):
            return True

        def __repr__(self):
            return "<coin>"

    rng = as_generator(Coin())
    assert isinstance(rng, np.random.Generator)
    assert np.random.default_rng(rng) is rng
    assert repr(rng) == str(rng) == "<stand-in for numpy.random.Generator on <coin>>"
    assert rng.random() < 0.5


ARGUMENTS = {
    "beta": (1, 1), "binomial": (3, 0.5), "bytes": (3,), "chisquare": (2,), "choice": (3,),
    "dirichlet": ([1, 1],), "f": (2, 3), "gamma": (1,), "geometric": (0.5,), "hypergeometric": (5, 5, 3),
    "integers": (3,), "logseries": (0.5,), "multinomial": (3, [0.5, 0.5]),
    "multivariate_hypergeometric": ([3, 3], 2), "multivariate_normal": ([0], [[1]]),
    "negative_binomial": (3, 0.5), "noncentral_chisquare": (2, 1), "noncentral_f": (2, 2, 1), "pareto": (1,),
    "permutation": ([1, 2],), "permuted": ([1, 2],), "power": (1,), "shuffle": ([1, 2],),
    "standard_gamma": (1,), "standard_t": (3,), "triangular": (0, 0.5, 1), "vonmises": (1, 1), "wald": (1, 1),
    "weibull": (1,), "zipf": (2,),
}  # fmt: skip
METHODS = {*filter(lambda name: not name.startswith("_"), dir(np.random.Generator))} - {
    "bit_generator",
    "spawn",
}
ASK_OTHERS = {"choice": 3, "permutation": 2, "permuted": 2}
"""Methods that draw by other methods, which are the stand-in's: with these arguments so many outcomes."""


@pytest.mark.parametrize("name", sorted(METHODS))
def test_no_method_of_the_base_class_draws(name):
    """Each of them draws, with the same arguments, from a generator of numpy's own."""
    method, arguments = getattr(np.random.Generator, name), ARGUMENTS.get(name, ())
    numpys = np.random.default_rng(0)
    before = numpys.bit_generator.state
    method(numpys, *arguments)
    assert numpys.bit_generator.state != before
    if name in ASK_OTHERS:
        found = stand_in_law(lambda rng: method(rng, *arguments))
        assert list(found.values()) == [Fraction(1, ASK_OTHERS[name])] * ASK_OTHERS[name]
        return
    with pytest.raises(CannotEnumerateError) as refusal:
        law(with_generator(lambda rng: method(rng, *arguments)))
    asks_others = name in ("bytes", "multivariate_normal")
    assert asks_others != str(refusal.value).startswith(
        "a method of numpy.random.Generator itself has no law"
    )


def test_the_bits_are_out_of_reach():
    for name in ("bit_generator", "_bit_generator"):
        with pytest.raises(CannotEnumerateError, match=rf"^Generator\.{name}\(\) has no law"):
            law(with_generator(lambda rng, name=name: np.random.Generator(getattr(rng, name)).random() < 0.5))
    bits = np.random.Generator.bit_generator.__get__(as_generator(None))
    with pytest.raises(CannotEnumerateError, match="itself"):
        np.random.Generator(bits).random()
    with pytest.raises(CannotEnumerateError, match="itself"):
        np.random.RandomState(bits)


def test_copies_of_a_generator():
    """A shallow copy shares its bits, as numpy's does; a deep one would repeat them."""

    def repeated(duplicate):
        def function(rng):
            first = rng.random() < 0.5
            return bool(first), bool(duplicate(rng).random() < 0.5)

        return function

    numpys = np.random.default_rng(0)
    assert copy.copy(numpys).bit_generator is numpys.bit_generator
    assert law(with_generator(repeated(copy.copy))) == {
        (a, b): Fraction(1, 4) for a in (True, False) for b in (True, False)
    }
    for duplicate, operation in (
        (copy.deepcopy, r"copy\.deepcopy\(\) of a generator"),
        (lambda rng: copy.deepcopy([rng])[0], r"copy\.deepcopy\(\) of a generator"),
        (lambda rng: pickle.loads(pickle.dumps(rng)), "pickling a generator"),
    ):
        with pytest.raises(CannotEnumerateError, match=f"^{operation} has no law"):
            law(with_generator(repeated(duplicate)))


def ask(rng, threshold, *, times=1):
    return [bool(rng.random() < threshold) for _ in range(times)].count(True)


def test_a_numpy_function_is_a_program():
    program = with_generator(ask)
    assert law(program, 0.25, times=2) == {2: Fraction(1, 16), 1: Fraction(3, 8), 0: Fraction(9, 16)}
    assert law(pickle.loads(pickle.dumps(program)), 0.25) == {1: Fraction(1, 4), 0: Fraction(3, 4)}


def numpy_token(rng, draft, target_probs):
    """Verify one draft token as one writes it for numpy: accept if u q < p, else draw from the residual."""
    token, (draft_probs,) = draft.tokens[0], draft.probs
    if rng.random() * draft_probs[token] < target_probs[0][token]:
        return int(token), int(rng.choice(len(target_probs[1]), p=target_probs[1]))
    residual = np.maximum(target_probs[0] - draft_probs, 0)
    return (int(rng.choice(len(residual), p=residual / residual.sum())),)


def test_a_verifier_written_for_numpy_has_the_law_of_its_own_floats():
    target_probs = [np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])]
    draft = Draft([0], [np.array([0.75, 0.0625, 0.1875])])
    found = law(with_generator(numpy_token), draft, target_probs)
    assert found.exact
    edge = int(found.map(len)[2] * 2**53)
    assert (edge - 1) * 2.0**-53 * 0.75 < 0.5 <= edge * 2.0**-53 * 0.75
    assert edge == 2**54 // 3, "one point short of 2/3: its product rounds to 0.5"
    program = law(lambda chance: verify.token(chance, draft, target_probs).tokens, arithmetic="float64")
    assert 0 <= found.distance(program) <= Fraction(8, 2**53)
    assert set(found) == set(program) == {(0, 0), (0, 1), (0, 2), (1,), (2,)}


def test_a_decode_by_numpy_is_sampled_and_enumerated_by_one_code():
    """`sample` given the stand-in is the float sampler whose law `arithmetic="float64"` gives."""
    target = table({(): rational(["1/2", "3/10", "1/5"])})
    drafter = model(table({(): rational(["1/5", "3/10", "1/2"])}))

    def decode(chance):
        draft = drafter(chance, (), 1)
        return tuple(verify.token(chance, draft, target.score((), draft.tokens)).tokens)

    inside_out = law(lambda chance: sample(decode, rng=as_generator(chance)))
    assert inside_out == law(decode, arithmetic="float64")
    assert inside_out.exact
    assert 0 < inside_out.distance(law(decode)) < Fraction(10, 2**53)
