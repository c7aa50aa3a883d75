"""A stand-in for `numpy.random.Generator`: ordinary numpy code becomes a program whose law can be enumerated."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from speculative.chance import Chance
from speculative.undecided import MAX_VALUES, CannotEnumerateError, Grid, Undecided, undecided_array

T = TypeVar("T")

_BITS = {np.dtype(np.float64): 53, np.dtype(np.float32): 24, np.dtype(np.float16): 11}
_UNUSED_BITS = np.random.PCG64(
    0
)  # the base class wants a source; every method that would read it is replaced


def as_generator(chance: Chance) -> np.random.Generator:
    """Return a stand-in for `numpy.random.Generator` that draws from `chance`.

    Parameters
    ----------
    chance : Chance
        With an enumerator, `law(lambda chance: function(as_generator(chance)))` is the exact law of a function
        written for numpy.

    Returns
    -------
    numpy.random.Generator
        It passes `isinstance` and `numpy.random.default_rng`. It has `random`, `uniform`, `integers`, `choice`,
        `permutation`, `shuffle` and `multinomial(1, p)`. Its uniforms understand `+ - * /` with numbers, `log`, `log1p`,
        `log2`, `exp`, `expm1`, `sqrt`, `floor`, `ceil`, `minimum`, `maximum`, comparisons, `searchsorted`, `where` and
        `int`; the arrays of bool that comparisons give are ordinary ones, for `argmax` and the rest.

    Raises
    ------
    CannotEnumerateError
        For anything else; the message names the operation and says what to do.

    Notes
    -----
    **Law.** `random` and `uniform` are uniform on the grid that numpy's own lie on, 2**-53 for float64 and 2**-24
    for float32 (and 2**-11 for float16, which numpy does not draw). `choice` with p is numpy's algorithm: a
    cumulative sum, searched with one uniform each. `integers`, `permutation`, `shuffle`, `choice` without p and
    `multinomial` have their ideal laws. A uniform used twice is one uniform. Float operations are taken to be
    monotone, which IEEE arithmetic is, and a library's `log` and `exp` up to the last place.
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


class _StandIn(np.random.Generator):
    def __init__(self, chance: Chance) -> None:
        super().__init__(_UNUSED_BITS)
        self._chance = chance

    def __repr__(self) -> str:
        return f"<stand-in for numpy.random.Generator on {self._chance!r}>"

    __str__ = __repr__

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:  # type: ignore[override]
        if out is not None:
            raise CannotEnumerateError("random(out=)", "use the array that random(size) returns")
        bits = _BITS.get(np.dtype(dtype))
        if bits is None:
            raise TypeError(f"random(dtype={np.dtype(dtype)}): uniforms are float64, float32 or float16")
        if size is None:
            return Undecided(
                Grid(self._chance, bits, float)
            )  # numpy too returns a Python float here, whatever the dtype
        return self._filled(size, lambda: Undecided(Grid(self._chance, bits, np.dtype(dtype).type)))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:  # type: ignore[override]
        return low + (high - low) * self.random(size)

    def integers(  # type: ignore[override]
        self,
        low: int,
        high: int | None = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Any:
        start, stop = (0, low) if high is None else (low, high)
        count = int(stop) - int(start) + bool(endpoint)
        if count <= 0:
            raise ValueError(f"integers({start}, {stop}): no integers in that range")
        if count > MAX_VALUES:
            raise CannotEnumerateError(
                f"integers() with {count} values", f"stay below {MAX_VALUES}, or compare random()"
            )
        if size is None:
            return start + self._index(count)
        return self._filled(size, lambda: start + self._index(count)).astype(dtype)

    def choice(  # type: ignore[override]
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        population = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        count = population.shape[axis]
        number = 1 if size is None else int(np.prod(size))
        if p is not None:
            p = np.asarray(p, dtype=np.float64)
            if p.shape != (count,) or not abs(p.sum() - 1) < math.sqrt(np.finfo(np.float64).eps):
                raise ValueError(f"choice(p={p}): one probability for each of {count} things, and a sum of 1")
        if replace:
            chosen = [self._index(count, p) for _ in range(number)]
        else:
            chosen = self._without_replacement(count, number, p)
        if size is None:
            item = population.take(chosen[0], axis)
            return item.item() if np.ndim(a) == 0 else item
        return population.take(np.array(chosen, dtype=np.intp).reshape(size), axis)

    def permutation(self, x: Any, axis: int = 0) -> Any:  # type: ignore[override]
        things = np.arange(x) if np.ndim(x) == 0 else np.asarray(x)
        return things.take(self._without_replacement(things.shape[axis], things.shape[axis], None), axis)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        if isinstance(x, np.ndarray):
            x[...] = self.permutation(x, axis)
        else:
            x[:] = [x[i] for i in self._without_replacement(len(x), len(x), None)]

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:  # type: ignore[override]
        if n != 1 or size is not None or np.ndim(pvals) != 1:
            raise CannotEnumerateError(
                "multinomial() but for multinomial(1, p)", "draw one at a time, or use choice(p=)"
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

    def _without_replacement(self, count: int, number: int, p: Any) -> list[int]:
        if number > count or (p is not None and number > np.count_nonzero(p)):
            raise ValueError(f"choice(): {number} without replacement from {count} is too many")
        left, chosen = np.ones(count, dtype=np.int64) if p is None else p.copy(), []
        if p is None:
            for _ in range(number):
                chosen.append(self._chance.pick(left))
                left[chosen[-1]] = 0
            return chosen
        while (
            len(chosen) < number
        ):  # numpy's algorithm: draw as many as are missing, keep the new ones, in order
            left[chosen] = 0
            drawn = [self._index(count, left) for _ in range(number - len(chosen))]
            chosen += list(dict.fromkeys(drawn))
        return chosen

    def _filled(self, size: Any, draw: Any) -> Any:
        shape = (size,) if np.ndim(size) == 0 else tuple(size)
        return undecided_array([draw() for _ in range(math.prod(shape))], shape)


def _refusing(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise CannotEnumerateError(
            f"Generator.{name}()", "draw from random(), integers() or choice() instead"
        )

    return method


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in vars(_StandIn):
        setattr(_StandIn, _name, property(_refusing(_name)) if _name == "bit_generator" else _refusing(_name))
