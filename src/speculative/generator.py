"""A stand-in for `numpy.random.Generator`: numpy code becomes a program whose law can be enumerated."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from speculative.chance import Chance
from speculative.undecided import MAX_VALUES, CannotEnumerateError, Grid, Undecided
from speculative.undecided_array import array_of

T = TypeVar("T")

_BITS = {np.dtype(np.float64): 53, np.dtype(np.float32): 24, np.dtype(np.float16): 11}
_NUMPYS = np.random.Generator(np.random.PCG64(0))  # its draws are never used: only their types and errors
_TOLERANCE = math.sqrt(np.finfo(np.float64).eps)  # numpy's, for sums of probabilities


def as_generator(chance: Chance) -> np.random.Generator:
    """Return a stand-in for `numpy.random.Generator` that draws from `chance`.

    Parameters
    ----------
    chance : Chance
        With an enumerator, `law(lambda chance: function(as_generator(chance)))` is the exact law of a
        function written for numpy.

    Returns
    -------
    numpy.random.Generator
        It passes `isinstance` and `numpy.random.default_rng`. It has `random`, `uniform`, `integers`,
        `choice`, `permutation`, `shuffle` and `multinomial(1, p)`. Its uniforms understand `+ - * /` with
        numbers, `log`, `log1p`, `log2`, `log10`, `exp`, `expm1`, `sqrt`, `floor`, `ceil`, `rint`, `trunc`,
        `minimum`, `maximum`, comparisons, `searchsorted`, `where`, `int` and `round`; the arrays of bool that
        comparisons give are ordinary ones, for `argmax` and the rest.

    Raises
    ------
    CannotEnumerateError
        For anything else; the message names the operation and says what to do.

    Notes
    -----
    **Law.** `random` and `uniform` are uniform on the grid that numpy's own lie on, 2**-53 for float64 and
    2**-24 for float32 (and 2**-11 for float16, which numpy does not draw). `choice` with p is numpy's
    algorithm: a cumulative sum, searched with one uniform each. `integers`, `permutation`, `shuffle`,
    `choice` without p and `multinomial` have their ideal laws; `choice(shuffle=False)` meets its items in
    numpy's order. A uniform used twice is one uniform. Float operations are taken to be monotone, which IEEE
    arithmetic is, and a library's `log` and `exp` up to the last place.

    Types are numpy's: a single uniform is a Python float, so weak beside a float32, and dividing by one that
    can be 0 raises ZeroDivisionError; a comparison gives Python's bool or numpy's. Of numpy's functions of
    arrays those that move elements, as `where`, `stack`, `concatenate`, `take` and `reshape`, are understood.
    Three things differ: `isinstance(uniform, float)` is False; `numpy.array([uniform, ...])` is an array of
    Python floats, for which `numpy.stack` makes float64; and `values.searchsorted(uniforms)`, which compares
    uniforms with one another, and those of fewer bits with rounded values, is to be written
    `numpy.searchsorted(values, uniforms)`.
    """
    return _StandIn(chance)


def with_generator(function: Callable[..., T]) -> Callable[..., T]:
    """Return `function(rng, ...)`, written for a numpy generator, as a program `(chance, ...)`.

    Parameters
    ----------
    function : callable
        Its first argument is a `numpy.random.Generator`.

    Returns
    -------
    callable
        `law` and `prove` can enumerate it.
    """
    return partial(_call_with_generator, function)


def _call_with_generator(function: Callable[..., T], chance: Chance, *args: Any, **kwargs: Any) -> T:
    return function(as_generator(chance), *args, **kwargs)


class _NoBits:
    """A source for the base class, which wants one, and whose methods lock it before they draw."""

    _source = np.random.PCG64(0)
    capsule = _source.capsule
    __exit__ = None  # nobody enters

    @property
    def lock(self) -> _NoBits:
        return self

    def __enter__(self) -> None:
        raise CannotEnumerateError(
            "a method of numpy.random.Generator itself", "write rng.random() for Generator.random(rng)"
        )


class _StandIn(np.random.Generator):
    def __init__(self, chance: Chance) -> None:
        super().__init__(_NoBits())  # type: ignore[arg-type]  # it takes whatever has a capsule and a lock
        self._chance = chance

    def __copy__(self) -> _StandIn:
        return self  # numpy's shallow copies share their bits too

    def __deepcopy__(self, memo: Any) -> Any:
        raise CannotEnumerateError(
            "copy.deepcopy() of a generator", "draw twice from one generator, or draw once and use it twice"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CannotEnumerateError("pickling a generator", "pickle with_generator(function) instead")

    def __repr__(self) -> str:
        return f"<stand-in for numpy.random.Generator on {self._chance!r}>"

    __str__ = __repr__

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if out is not None:
            raise CannotEnumerateError("random(out=)", "use the array that random(size) returns")
        bits = _BITS.get(np.dtype(dtype))
        if bits is None:
            raise TypeError(f"random(dtype={np.dtype(dtype)}): uniforms are float64, float32 or float16")
        if size is None:  # numpy too returns a Python float here, whatever the dtype
            return Undecided(Grid(self._chance, bits, float))
        shape, scalar = _shape(size), np.dtype(dtype).type
        uniforms = [Undecided(Grid(self._chance, bits, scalar)) for _ in range(math.prod(shape))]
        return array_of(uniforms, shape, dtype)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        low, high = (np.asarray(end, dtype=np.float64)[()] for end in (low, high))
        span = high - low
        if not np.all((span >= 0) & (span < math.inf)):
            raise ValueError(f"uniform(low={low}, high={high}): high - low must be finite and not negative")
        if np.ndim(span) and size is None:
            size = np.shape(span)
        if np.ndim(span) == 0:
            low, span = float(low), float(span)
        return low + span * self.random(size)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        if np.ndim(low) or np.ndim(high):
            raise CannotEnumerateError("integers() between arrays", "draw for one pair of bounds at a time")
        start, stop = (0, low) if high is None else (low, high)
        count = int(stop) - int(start) + bool(endpoint)
        if count <= 0:
            raise ValueError(f"integers({start}, {stop}): no integers in that range")
        if count > MAX_VALUES:
            raise CannotEnumerateError(
                f"integers() with {count} values", f"stay within {MAX_VALUES}, or compare random()"
            )
        numpys = _NUMPYS.integers(low, high, size, dtype, endpoint)
        if size is None:
            return type(numpys)(int(start) + self._index(count))
        drawn = [int(start) + self._index(count) for _ in range(numpys.size)]
        return np.array(drawn, numpys.dtype).reshape(numpys.shape)

    def choice(  # noqa: PLR0917  # numpy's signature
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        population = np.arange(operator.index(a)) if np.ndim(a) == 0 else np.asanyarray(a)
        count = population.shape[axis]
        shape = () if size is None else _shape(size)
        number = math.prod(shape)
        if p is not None:
            p = _probabilities(p, count)
        if replace:
            chosen = [self._index(count, p) for _ in range(number)]
        elif number > (count if p is None else np.count_nonzero(p)):
            raise ValueError(f"choice(): {number} without replacement is more than there are to choose from")
        elif p is not None:
            chosen = self._distinct(number, p)
        elif shuffle:
            chosen = self._arrangement(count, number)
        else:
            chosen = self._combination(count, number)
        if size is None:
            item = population.take(chosen[0], axis)
            return item.item() if np.ndim(a) == 0 else item
        return np.asanyarray(population.take(np.array(chosen, dtype=np.intp).reshape(shape), axis))

    def permutation(self, x: Any, axis: int = 0) -> Any:
        things = np.arange(operator.index(x)) if np.ndim(x) == 0 else np.asanyarray(x)
        return things.take(self._arrangement(things.shape[axis], things.shape[axis]), axis)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        if isinstance(x, np.ndarray):
            x[...] = self.permutation(x, axis)
            return
        if axis != 0:
            raise NotImplementedError(f"shuffle(axis={axis}) of a {type(x).__name__}: only arrays have axes")
        for last in reversed(range(1, len(x))):
            chosen = self._index(last + 1)
            x[last], x[chosen] = x[chosen], x[last]

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        if np.ndim(n) or n != 1 or size is not None or np.ndim(pvals) != 1:
            raise CannotEnumerateError(
                "multinomial() but for multinomial(1, p)", "draw one at a time, or use choice(p=)"
            )
        if not abs(sum(pvals) - 1) <= _TOLERANCE:
            raise ValueError(
                f"multinomial(pvals={pvals}): the sum must be 1, or numpy gives the rest to the last"
            )
        counts = np.zeros(len(pvals), dtype=np.int64)
        counts[self._chance.pick(pvals)] = 1
        return counts

    def _index(self, count: int, p: Any = None) -> int:
        if p is None:
            return self._chance.pick([1] * count)
        shares = p.cumsum()
        shares /= shares[-1]
        return int(np.searchsorted(shares, self.random(), side="right"))

    def _distinct(self, number: int, p: Any) -> list[int]:
        """Draw as numpy does: as many as are missing, of which the new ones are kept in order, and again."""
        left, chosen = p.copy(), list[int]()
        while len(chosen) < number:
            left[chosen] = 0
            chosen += dict.fromkeys(self._index(len(p), left) for _ in range(number - len(chosen)))
        return chosen

    def _arrangement(self, count: int, number: int) -> list[int]:
        """Draw `number` different indices, every order as likely."""
        left, chosen = [1] * count, list[int]()
        for _ in range(number):
            chosen.append(self._chance.pick(left))
            left[chosen[-1]] = 0
        return chosen

    def _combination(self, count: int, number: int) -> list[int]:
        """Draw `number` different indices in the order in which numpy (Floyd's algorithm) meets them."""
        chosen = list[int]()
        for last in range(count - number, count):
            index = self._index(last + 1)
            chosen.append(last if index in chosen else index)
        return chosen


def _shape(size: Any) -> tuple[int, ...]:
    shape = (size,) if np.ndim(size) == 0 else tuple(size)
    if any(length < 0 for length in shape):
        raise ValueError(f"size={size}: an array has no negative lengths")
    return shape


def _probabilities(p: Any, count: int) -> Any:
    p = np.asarray(p)
    kind = p.dtype if p.dtype.kind == "f" else np.float64
    tolerance = max(_TOLERANCE, math.sqrt(np.finfo(kind).eps))
    p = p.astype(np.float64)
    if p.shape != (count,) or (p < 0).any() or not abs(p.sum() - 1) <= tolerance:
        shown = np.array2string(p, threshold=8, max_line_width=10**6)
        raise ValueError(f"choice(p={shown}): give one probability for each of {count}, with a sum of 1")
    return p


def _refusing(name: str) -> Any:
    def method(*_args: Any, **_kwargs: Any) -> Any:
        raise CannotEnumerateError(
            f"Generator.{name}()", "draw from random(), integers() or choice() instead"
        )

    return method


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in vars(_StandIn):
        setattr(_StandIn, _name, _refusing(_name))
for _name in ("bit_generator", "_bit_generator"):
    setattr(_StandIn, _name, property(_refusing(_name)))
