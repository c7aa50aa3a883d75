"""Arrays of undecided numbers against numpy itself, run on every point of a small grid."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from scripted import grid, refusal_of, same_law
from speculative import law, with_generator

HALF = Fraction(1, 2)
BITS = 8
DTYPES = [np.float64, np.float32, np.float16]


# ---------------------------------------------------------------- element by element


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "function",
    [
        lambda u: u * np.array([0.1, 3.0]) < 0.05,
        lambda u: u < np.array([0.3, 0.7], dtype=np.float32),
        lambda u: np.array([0.3, 0.7]) >= u,
        lambda u: u + np.array([1, 2], dtype=np.int8) < np.float32(1.7),
        lambda u: u - np.float64(0.3) < [0.1, 0.2],
        lambda u: u - np.float32(0.3) >= [0.1, 0.2],
        lambda u: np.exp(u * 0.1) * np.array([1.0, 1.1], dtype=np.float16) < 1.1,
        lambda u: u.astype(np.float32) * np.array([0.1, 0.7]) < 0.03,
        lambda u: u.astype(np.float16) + 2048 < 2049,
        lambda u: (u * 5).astype(int) == [1, 2],
        lambda u: (u - 0.5).astype(bool),
        lambda u: np.log(np.array(u)) > [-1, -2],
        lambda u: np.floor(u * 3)[::-1] == [1, 2],
        lambda u: u.reshape(2, 1) < np.array([0.25, 0.5, 0.5]),
        lambda u: np.minimum(u, np.array([0.3, 0.6])) == [0.3, 0.6],
        lambda u: np.less(u, [0.1, 0.2]) | np.greater(u, (0.6, 0.7)),
    ],
)
def test_arrays_of_uniforms_meet_arrays(function, dtype):
    same_law(lambda rng: tuple(function(rng.random(2, dtype=dtype)).ravel().tolist()), bits=5, draws=2)


@pytest.mark.parametrize(
    "function",
    [
        lambda u: u < np.array([0.2, 0.7]),
        lambda u: np.array([0.2, 0.7]) < u,
        lambda u: u * np.array([1, 3], dtype=np.float32) < 0.6,
        lambda u: np.array([0.2, 0.7]) / (u + 1) >= 0.3,
        lambda u: np.less(u, [0.2, 0.7]),
        lambda u: np.add(u, [[0], [1]]) < [0.5, 1.5],
        lambda u: np.array([[0.5]]) > u,
        lambda u: np.stack([u, 1 - u]) < 0.25,
        lambda u: np.concatenate([[u], np.array([0.5])]) < 0.4,
        lambda u: np.full(2, u) < 0.25,
    ],
)
def test_one_uniform_meets_arrays(function):
    """A uniform that is broadcast stays one uniform."""
    same_law(lambda rng: tuple(np.ravel(function(rng.random())).tolist()))


def test_searching_decided_and_undecided_keys_together():
    values = np.array([0.25, 0.5])
    same_law(
        lambda rng: tuple(np.searchsorted(values, np.where([True, False], rng.random(2), 0.3)).tolist()), 4, 2
    )


# ---------------------------------------------------------------- functions of arrays


@pytest.mark.parametrize(
    "function",
    [
        lambda u: int(np.argmax(u < [0.2, 0.6])),
        lambda u: int(np.argmin(u > 0.5)),
        lambda u: int((u < 0.25).sum()),
        lambda u: bool((u < 0.25).any()),
        lambda u: tuple(np.where(u < 0.5, 1, 2).tolist()),
        lambda u: tuple((np.where(u < 0.5, u, 1 - u) < 0.25).tolist()),
        lambda u: tuple((np.log(np.where(u < 0.5, u, 0.3)) < -1).tolist()),
        lambda u: tuple((np.where([True, False], u, 0.3) * 3 < 1).tolist()),
        lambda u: tuple((np.concatenate([u, np.array([0.1])]) < 0.2).tolist()),
        lambda u: tuple((np.stack([u[0], u[1]]) < 0.2).tolist()),
        lambda u: tuple((np.array([u[0], 2 * u[1]]) < 0.2).tolist()),
        lambda u: tuple((np.exp(np.array([u[0], u[1]])) < 1.5).tolist()),
        lambda u: bool(np.take(u, 1) < 0.5),
        lambda u: tuple((u[u < 0.5] < 0.25).tolist()),
        lambda u: tuple(bool(number < 0.5) for number in u),
        lambda u: int((u * 4).astype(int).sum()),
        lambda u: tuple((np.round(u * 2) == 1).tolist()),
        lambda u: int(np.nonzero(u < 0.75)[0].sum()),
        lambda u: (np.shape(u), np.ndim(u)),
        lambda u: tuple((np.expand_dims(u, 0) < 0.5).ravel().tolist()),
    ],
)
def test_functions_of_arrays(function):
    same_law(lambda rng: function(rng.random(2)), bits=4, draws=2)


def test_float32_arrays_keep_their_type_in_functions():
    other = np.array([0.1, 0.7], dtype=np.float32)

    def array_beside(rng):
        return tuple((np.where([True, False], rng.random(2, dtype=np.float32), other) * 3 < 2.1).tolist())

    def number_beside(rng):
        return tuple((np.where([True, False], rng.random(), other) * 3 < 2.1).tolist())

    assert float(np.float32(0.7)) * 3 < 2.1 <= np.float32(0.7) * 3, "in float64 the answer is another"
    same_law(array_beside, 4, 2)
    same_law(number_beside)


def test_what_is_decided_is_ordinary():
    """Arrays without undecided numbers add up, whatever they were made from."""
    with grid(BITS):
        integers = law(with_generator(lambda rng: int((rng.random(3) * 2).astype(np.int8).sum())))
        decided = law(with_generator(lambda rng: float(np.where([False, False], rng.random(2), 0.25).sum())))
        empty = law(
            with_generator(lambda rng: (np.log(rng.random(0)).shape, (rng.random((0, 2)) + 1).dtype.kind))
        )
        like = law(with_generator(lambda rng: int((np.ones_like(rng.random(2), dtype=int) * 2).sum())))
        part = law(
            with_generator(lambda rng: float(np.log(np.where([True, False], rng.random(2), 0.5)[1:])[0]))
        )
    assert integers == {0: Fraction(1, 8), 1: Fraction(3, 8), 2: Fraction(3, 8), 3: Fraction(1, 8)}
    assert decided == {0.5: 1}
    assert empty == {((0,), "f"): 1}
    assert like == {4: 1}
    assert part == {math.log(0.5): 1}


def described(result):
    """Return what tells an array of floats from another: its answers, type and shape."""
    below = np.ravel(result < np.float32(0.3)).tolist()
    return (*below, result.dtype.name, type(result[(0,) * result.ndim] < 0.5), result.shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "function",
    [
        lambda u: u,
        lambda u: u * 2 - 1,
        lambda u: u * np.float32(0.7),
        np.log,
        lambda u: np.round(u * 3),
        lambda u: np.around(u * 3),
        lambda u: u.round(),
        lambda u: np.where([True, False], u, 0.3),
        lambda u: np.where([True, False], np.float64(0.3), u),
        lambda u: np.where([True, False], u, np.array([0.3, 0.3], dtype=np.float32)),
        lambda u: np.where([True, False], u, [1, 0]),
        lambda u: np.where([True, True], 0, u),
        lambda u: np.where(True, u[0], u[1])[None],
        np.zeros_like,
        lambda u: np.ones_like(u, shape=(3, 1)),
        lambda u: np.full_like(u, 0),
        lambda u: np.full_like(u, 0.3),
        lambda u: np.concatenate([u, np.array([0.3, 1])]),
        lambda u: np.concatenate([u, np.array([0.3, 1], dtype=np.float32)], axis=0),
        lambda u: np.concatenate((u, [1, 0])),
        lambda u: np.append(u, 0.3),
        lambda u: np.stack([u, u], axis=1),
        lambda u: np.stack([u[0], u[1], np.float64(0.3)]),
        lambda u: np.vstack([u, u]),
        lambda u: np.hstack([u[1:], u]),
        lambda u: np.dstack([u, u]),
        lambda u: np.column_stack([u, [1, 2]]),
        lambda u: np.concatenate([u, np.array([u[0], 0.3])]),
        lambda u: np.where([True, False], np.array([u[0], u[1]]), u * np.float32(0.7)),
        lambda u: np.take(u, [1, 0, 1]),
        lambda u: np.take_along_axis(u, np.array([1, 0]), axis=0),
        lambda u: u.take([1, 0]),
        lambda u: np.repeat(u, 2),
        lambda u: np.repeat(u, [2, 1]),
        lambda u: np.tile(u, (2, 1)),
        lambda u: np.roll(u, 1),
        lambda u: np.broadcast_to(u, (2, 2)),
        np.copy,
        lambda u: np.reshape(u, (2, 1)),
        lambda u: np.expand_dims(u, 1).T,
        np.flip,
        lambda u: np.diagonal(u * np.ones((2, 1))),
        lambda u: u.astype(np.float32) * 0.7,
        lambda u: u.astype(np.float16),
        lambda u: u.astype(np.float64),
        lambda u: u.astype(u.dtype, copy=False),
        lambda u: u.copy(),
        copy.copy,
        lambda u: copy.deepcopy({"u": u})["u"],
        lambda u: u[::-1],
        lambda u: u[None, :, None],
        lambda u: u[[True, True]],
    ],
)
def test_arrays_keep_numpys_types_and_shapes(function, dtype):
    same_law(lambda rng: described(function(rng.random(2, dtype=dtype))), bits=4, draws=2)


@pytest.mark.parametrize(
    "function",
    [
        lambda u: np.where([True, False], u, 0.3),
        lambda u: np.where([True, False], u, np.array([0.3, 0.3], dtype=np.float32)),
        lambda u: np.stack([u, u]),
        lambda u: np.append(u, np.float32(0.3)),
        lambda u: np.tile(u, 2),
        lambda u: np.zeros_like(u)[None],
        lambda u: np.round(np.stack([u, u]) * 3),
    ],
)
def test_single_uniforms_in_arrays_have_numpys_types(function):
    same_law(lambda rng: described(function(rng.random())))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_taken_from_an_array_have_numpys_types(dtype):
    def taken(rng):
        u = rng.random(2, dtype=dtype)
        numbers = (u[0], u.item(1), u.tolist()[0], np.take(u, 1), u.astype(object)[0], [*u][1], u[()][0])
        return tuple((type(number < 0.5), bool(number < np.float16(0.3))) for number in numbers)

    same_law(taken, 4, 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda u, v: v.__setitem__(0, 0.7),
        lambda u, v: v.__setitem__(0, u[1]),
        lambda u, v: v.__setitem__(slice(None), 0.3),
        lambda u, v: v.__setitem__(slice(None), [0.3, 1]),
        lambda u, v: v.__setitem__(..., u[::-1] * 2),
        lambda u, v: v.__setitem__([True, False], u[1:]),
        lambda u, v: v.__setitem__(u < 0.5, 1),
        lambda u, v: v.__setitem__(slice(1), u[1] * np.float64(0.1)),
        lambda u, v: np.reshape(v, (2, 1)).__setitem__((0, 0), 0.1),
        lambda u, v: np.flip(v).__setitem__(0, u[0]),
        lambda u, v: v[1:].__setitem__(0, 0.1),
        lambda u, v: v.astype(v.dtype, copy=False).__setitem__(0, 0.1),
        lambda u, v: v.astype(v.dtype).__setitem__(0, 0.1),
        lambda u, v: copy.deepcopy(v).__setitem__(0, 0.1),
        lambda u, v: np.copy(v).__setitem__(0, 0.1),
        lambda u, v: v.__setitem__(2, 0.1),
        lambda u, v: v.__setitem__(slice(None), [1, 2, 3]),
        lambda u, v: v.__setitem__(0, np.array([1, 2])),
        lambda u, v: v.__setitem__(0, "a"),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_writing_into_an_array_of_uniforms(function, dtype):
    """What is written has the array's type, and is seen through its views, as numpy's is."""

    def written(rng):
        u = rng.random(2, dtype=dtype)
        v = u * np.float32(1) if dtype is np.float16 else u + 0
        function(u, v)
        return described(v), described(u)

    same_law(written, bits=4, draws=2, errors=(IndexError, ValueError))


def test_decided_numbers_taken_from_an_array_have_numpys_types():
    def taken(rng):
        v = np.where([True, False], rng.random(2), 0.3)
        return tuple(map(type, (v[1], v.item(1), v.tolist()[1], np.take(v, 1), v.astype(object)[1], [*v][1])))

    same_law(taken, 2, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_uniform_that_is_only_moved_is_the_same_uniform(dtype):
    def compared(rng):
        u = rng.random(2, dtype=dtype)
        moved = (np.stack([u[0], u[1]])[0], np.flip(u)[1], np.take(u, 0), u.astype(dtype)[0], u.copy()[0])
        return tuple(bool(u[0] == number) for number in moved)

    assert same_law(compared, 2, 2) == {(True,) * 5: 1}


def test_ordinary_arrays_made_like_undecided_ones_hold_floats():
    def filled(rng):
        u = rng.random(2)
        zeros, ones, chosen = np.zeros_like(u), np.ones_like(u), np.where([True, True], 0, u)
        for array in (zeros, ones, chosen):
            array[0] = 0.7
        return float(zeros[0]), float(ones[0]), float(chosen[0])

    assert same_law(filled, 2, 2) == {(0.7, 0.7, 0.7): 1}


def test_an_undecided_condition_is_decided():
    same_law(lambda rng: tuple(np.where(np.trunc(rng.random(2) * 2), 1, 2).tolist()), 4, 2)
    same_law(lambda rng: tuple(np.where(np.trunc(rng.random(2) * 2))[0].tolist()), 4, 2)
    same_law(
        lambda rng: tuple((np.where(np.trunc(rng.random(2) * 2), rng.random(2), 1) < 0.3).tolist()), 2, 4
    )


def test_fractions_beside_uniforms_stay_objects():
    thirds = np.array([Fraction(1, 3), Fraction(2, 3)])
    for function in (
        lambda u: u * thirds < 0.2,
        lambda u: u < thirds,
        lambda u: np.where([True, False], u, thirds) < 0.2,
    ):
        same_law(lambda rng, function=function: repr(function(rng.random(2)).tolist()), 4, 2)
    same_law(lambda rng: type((rng.random(2) * thirds)[0] < 0.2), 1, 2)
    same_law(lambda rng: type(np.where([True, False], rng.random(2), thirds)[0] < 0.2), 1, 2)
    same_law(lambda rng: type(np.where([False, False], rng.random(2), thirds)[0]), 1, 2)


def test_a_copy_of_an_array_holds_the_same_uniforms():
    def compared(rng):
        u = rng.random(2)
        return tuple(
            (bool(v[0] < 0.3), bool(v[1] < 0.5)) for v in (u, copy.copy(u), copy.deepcopy([u])[0], u.copy())
        )

    assert len(same_law(compared, 4, 2)) == 4


def test_an_array_shows_how_much_is_in_it():
    with grid(4):
        found = law(with_generator(lambda rng: repr(rng.random((2, 1), dtype=np.float32))))
    assert found == {"<undecided: 2 numbers of float32>": 1}


# ---------------------------------------------------------------- what cannot be enumerated

ARRAYS_REFUSED = [
    ("attribute 'sum' of undecided numbers", lambda u: u.sum()),
    ("attribute 'max' of", lambda u: u.max()),
    ("attribute 'tobytes' of", lambda u: u.tobytes()),
    ("attribute 'fill' of", lambda u: u.fill(0.5)),
    ("attribute 'view' of", lambda u: u.view(np.ndarray)),
    ("numpy.mean() of undecided numbers", np.mean),
    ("numpy.linalg.norm() of", np.linalg.norm),
    ("numpy.all() of", np.all),
    ("numpy.add.reduce(", np.add.reduce),
    ("numpy.add.accumulate(", np.add.accumulate),
    ("numpy.subtract.outer()", lambda u: np.subtract.outer(u, [1, 2])),
    ("numpy.sort() of", np.sort),
    ("numpy.argmax() of", np.argmax),
    ("numpy.digitize() of", lambda u: np.digitize(u, [0.2, 0.5])),
    ("numpy.copyto() of", lambda u: np.copyto(np.zeros(2), u)),
    ("numpy.copyto() of", lambda u: np.copyto(u, np.zeros(2))),
    ("numpy.copyto() of", lambda u: np.copyto(dst=np.zeros(2), src=u)),
    ("numpy.copyto() of", lambda u: np.full(2, u[0], dtype=float)),
    ("numpy.copyto() of", lambda u: np.full_like(np.zeros(2), u[0])),
    ("numpy.full_like() of", lambda u: np.full_like(u, u[0])),
    ("numpy.putmask() of", lambda u: np.putmask(np.zeros(2), [True, False], u)),
    ("numpy.place() of", lambda u: np.place(np.zeros(2), [True, True], u)),
    ("numpy.put() of", lambda u: np.put(np.zeros(2), [0, 1], u)),
    ("numpy.put() of", lambda u: np.put(u, [0, 1], 0.5)),
    ("numpy.put_along_axis() of", lambda u: np.put_along_axis(np.zeros(2), np.array([0, 1]), u, 0)),
    ("numpy.concatenate(out=) of", lambda u: np.concatenate([u, u], out=np.zeros(4))),
    ("numpy.concatenate(out=) of", lambda u: np.concatenate([u, u], 0, np.zeros(4))),
    ("numpy.stack(out=) of", lambda u: np.stack([u, u], out=np.zeros((2, 2)))),
    ("numpy.stack(out=) of", lambda u: np.stack([u, u], 0, np.zeros((2, 2)))),
    ("numpy.take(out=) of", lambda u: np.take(u, [0, 1], out=np.zeros(2))),
    ("numpy.take(out=) of", lambda u: np.take(u, [0, 1], 0, np.zeros(2))),
    ("numpy.compress(out=) of", lambda u: np.compress([True, True], u, out=np.zeros(2))),
    ("numpy.choose(out=) of", lambda u: np.choose([0, 0], [u, u], out=np.zeros(2))),
    ("numpy.round() to decimals", lambda u: np.round(u, out=np.zeros(2))),
    ("numpy.add.at() of", lambda u: np.add.at(u, 0, 1)),
    ("numpy.add.at() of", lambda u: np.add.at(np.where([True, False], u, 0.25)[1:], 0, 1)),
    ("float() of an", lambda u: u.take([0], out=np.zeros(1))),
    ("float() of an", lambda u: np.zeros(2).put([0], u)),
    ("float() of an", lambda u: np.zeros(2).__setitem__(slice(None), u)),
    ("float() of an", lambda u: np.zeros(2).__setitem__(0, u[0])),
    ("float() of an", lambda u: np.zeros(2).__setitem__([True, False], u[:1])),
    ("float() of an", lambda u: np.array([u[0], 0.5], dtype=float)),
    ("float() of an", lambda u: np.asarray(u, dtype=np.float32)),
    ("an array of <U32 that holds undecided numbers", lambda u: np.concatenate([u, ["a"]])),
    ("an array of complex128 that holds", lambda u: np.where([True, False], u, 1j)),
    ("str() of undecided numbers", str),
    ("str() of undecided numbers", lambda u: f"{u}"),
    ("str() of an undecided number", lambda u: u.astype(str)),
    ("pickling undecided numbers", lambda u: pickle.loads(pickle.dumps(u)) < 0.5),
    ("pickling undecided numbers", lambda u: pickle.dumps([u], protocol=2)),
    ("numpy.less of two", lambda u: u < u[::-1]),
    ("numpy.add of two", lambda u: u + u[::-1]),
    ("numpy.power of an", lambda u: u**2),
    ("numpy.multiply(out=)", lambda u: u.__imul__(2)),
    ("numpy.add(out=)", lambda u: np.zeros(2).__iadd__(u)),
    ("numpy.add(out=)", lambda u: np.where([True, False], u, 0.25)[1:].__iadd__(1)),
    ("float() of an", lambda u: np.zeros(2).__setitem__(0, u[0])),
    ("an undecided number as an", set),
    ("numpy.searchsorted(sorter=) or among", lambda u: np.searchsorted(u, 0.5)),
    ("numpy.less of two", lambda u: np.array([0.5, 0.7]).searchsorted(u)),
]


@pytest.mark.parametrize(("operation", "function"), ARRAYS_REFUSED)
def test_an_operation_of_arrays_that_cannot_be_enumerated_is_named(operation, function):
    assert refusal_of(lambda rng: function(rng.random(2))).startswith(operation)


def test_a_refusal_of_several_uniforms_in_one_search_says_what_to_write():
    refusal = refusal_of(lambda rng: np.array([0.5, 0.7]).searchsorted(rng.random(2)))
    assert refusal.endswith("write numpy.searchsorted(values, uniforms) for values.searchsorted(uniforms)")
