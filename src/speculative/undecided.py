"""Numbers that are decided only as far as a program looks at them.

An undecided number is a chain of float operations on a grid point k * 2**-bits, of which only an interval of
candidates k is known. A comparison finds, by bisection over the recorded operations themselves, the k at which its
answer changes, asks `chance.flip` with the exact share of candidates below, and keeps that part of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from speculative.chance import Chance

MAX_VALUES = 4096
"""The most values an undecided number or a draw of integers may be decided among."""

_COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}
_MONOTONE = {
    np.add, np.subtract, np.multiply, np.true_divide, np.negative, np.positive, np.minimum, np.maximum,
    np.log, np.log1p, np.log2, np.exp, np.expm1, np.sqrt, np.floor, np.ceil,
}  # fmt: skip
_DOMAIN_STARTS = {np.log: 0.0, np.log2: 0.0, np.sqrt: 0.0, np.log1p: -1.0}


class CannotEnumerateError(NotImplementedError):
    """A program asked for something whose law cannot be enumerated; the message says what, and what to do."""

    def __init__(self, operation: str, advice: str) -> None:
        super().__init__(f"{operation} has no law that can be enumerated: {advice}")


class Grid:
    """An unknown grid point: the candidates are the integers from `low` up to, not including, `high`."""

    __slots__ = ("bits", "chance", "high", "low", "scalar")

    def __init__(self, chance: Chance, bits: int, scalar: Callable[[float], Any]) -> None:
        self.chance, self.bits, self.scalar = chance, bits, scalar
        self.low, self.high = 0, 1 << bits

    def is_below(self, boundary: int) -> bool:
        """Decide whether the point lies below `boundary`."""
        if boundary <= self.low:
            return False
        if boundary >= self.high:
            return True
        below = self.chance.flip(Fraction(boundary - self.low, self.high - self.low))
        if below:
            self.high = boundary
        else:
            self.low = boundary
        return below

    def piece(self, boundaries: list[int]) -> int:
        """Decide how many of the sorted `boundaries` lie at or below the point."""
        inside = (min(max(boundary, self.low), self.high) for boundary in boundaries)
        ends = [self.low, *inside, self.high]
        answer = self.chance.pick([end - start for start, end in zip(ends, ends[1:], strict=False)])
        self.low, self.high = ends[answer], ends[answer + 1]
        return answer


class Undecided(NDArrayOperatorsMixin):
    """A chain of float operations on one unknown grid point."""

    __slots__ = ("_chain", "_grid")

    def __init__(self, grid: Grid, chain: tuple[Callable[[Any], Any], ...] = ()) -> None:
        self._grid, self._chain = grid, chain

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _apply(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.searchsorted:
            return _searchsorted(*args, **kwargs)
        return function(*(_boxed(arg) if isinstance(arg, Undecided) else arg for arg in args), **kwargs)

    def __hash__(self) -> int:
        raise CannotEnumerateError(
            "an undecided number as an outcome or a key", "return what was decided with it"
        )

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        raise CannotEnumerateError(
            "float() of an undecided number", "compare it with numbers; use numpy.log, not math.log"
        )

    def __int__(self) -> int:
        first, last = int(self._value(self._grid.low)), int(self._value(self._grid.high - 1))
        if abs(last - first) >= MAX_VALUES:
            raise CannotEnumerateError(
                f"int() with {abs(last - first) + 1} values", f"stay below {MAX_VALUES}"
            )
        while first != last:
            if self._grid.is_below(self._first_change(lambda value: int(value) == first)):
                return first
            first = int(self._value(self._grid.low))
        return first

    __trunc__ = __int__

    def __floor__(self) -> int:
        return int(np.floor(self))

    def __ceil__(self) -> int:
        return int(np.ceil(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotEnumerateError(f"attribute {name!r} of an undecided number", "compare it with numbers")

    def __repr__(self) -> str:
        return f"<undecided: {self._grid.high - self._grid.low} candidates>"

    def compare(self, ufunc: Any, other: Any, on_the_right: bool) -> bool:
        """Decide `ufunc(self, other)`, or `ufunc(other, self)` where `self` stands on the right."""
        if ufunc in (np.equal, np.not_equal):
            equal = self.compare(np.less_equal, other, False) and self.compare(np.greater_equal, other, False)
            return equal == (ufunc is np.equal)

        def holds(value: Any) -> bool:
            return bool(ufunc(other, value) if on_the_right else ufunc(value, other))

        at_low = holds(self._value(self._grid.low))
        if holds(self._value(self._grid.high - 1)) == at_low:
            return at_low
        if self._is_plain():
            closed = ufunc in ((np.less, np.greater_equal) if on_the_right else (np.less_equal, np.greater))
            boundary = _count_below(other, self._grid.bits, closed)
        else:
            boundary = self._first_change(lambda value: holds(value) == at_low)
        return self._grid.is_below(boundary) == at_low

    def search(self, sorted_values: Any, side: str) -> int:
        """Decide what `numpy.searchsorted(sorted_values, self, side)` gives."""
        if self._is_plain():
            return self._grid.piece(
                [_count_below(value, self._grid.bits, side == "left") for value in sorted_values]
            )
        low, high = 0, len(sorted_values)
        while low < high:
            middle = (low + high) // 2
            value = sorted_values[middle]
            if (
                self.compare(np.less, value, False)
                if side == "right"
                else not self.compare(np.less, value, True)
            ):
                high = middle
            else:
                low = middle + 1
        return low

    def then(self, operation: Callable[[Any], Any]) -> Undecided:
        """Return this number with one more operation recorded."""
        return Undecided(self._grid, (*self._chain, operation))

    def is_the_same_as(self, other: Undecided) -> bool:
        """Return whether both are the same function of the same grid point."""
        return self._grid is other._grid and self._chain == other._chain

    def _is_plain(self) -> bool:
        return not self._chain and self._grid.scalar is float

    def _value(self, point: int) -> Any:
        value = self._grid.scalar(math.ldexp(point, -self._grid.bits))
        with np.errstate(all="ignore"):
            for operation in self._chain:
                value = operation(value)
        return value

    def _first_change(self, holds: Callable[[Any], bool]) -> int:
        """Return the first candidate at which `holds`, true of the first one and not of the last, is false."""
        low, high = self._grid.low, self._grid.high - 1
        while high - low > 1:
            middle = (low + high) // 2
            if holds(self._value(middle)):
                low = middle
            else:
                high = middle
        return high


class UndecidedArray(np.ndarray[Any, np.dtype[np.object_]]):
    """An array of undecided numbers; comparing it gives an ordinary array of bool."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _apply(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.searchsorted:
            return _searchsorted(*args, **kwargs)
        return super().__array_function__(function, types, args, kwargs)


def undecided_array(numbers: list[Any], shape: Any) -> UndecidedArray:
    """Return numbers, undecided or not, as an array of that shape."""
    array = np.empty(len(numbers), dtype=object)
    array[:] = numbers
    return array.reshape(shape).view(UndecidedArray)


def _boxed(number: Undecided) -> UndecidedArray:
    return undecided_array([number], ())


def _apply(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if method != "__call__" or options:
        name = (
            f"numpy.{ufunc.__name__}"
            + ("" if method == "__call__" else f".{method}")
            + "".join(f"({key}=)" for key in options)
        )
        raise CannotEnumerateError(f"{name} of undecided numbers", "compare each of them with a number first")
    arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    if not arrays:
        return _apply_to_numbers(ufunc, inputs)
    results = [_apply_to_numbers(ufunc, _placed(inputs, elements)) for elements in np.broadcast(*arrays)]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    if all(isinstance(result, (bool, np.bool)) for result in results):
        return np.array(results, dtype=bool).reshape(shape)
    return undecided_array(results, shape)


def _placed(inputs: tuple[Any, ...], elements: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with each array replaced by its element; numbers keep their own, weaker type."""
    rest = iter(elements)
    return tuple(next(rest) if isinstance(value, np.ndarray) else value for value in inputs)


def _apply_to_numbers(ufunc: Any, inputs: tuple[Any, ...]) -> Any:
    undecided = [value for value in inputs if isinstance(value, Undecided)]
    if not undecided:
        return ufunc(*inputs)
    number = undecided[0]
    if len(undecided) > 1:
        if ufunc in _COMPARISONS and number.is_the_same_as(undecided[1]):
            return bool(ufunc(0.0, 0.0))
        raise CannotEnumerateError(
            f"numpy.{ufunc.__name__} of two undecided numbers",
            "decide one of them first, by comparing it with numbers",
        )
    if ufunc in _COMPARISONS:
        on_the_right = number is not inputs[0]
        return number.compare(ufunc, inputs[0] if on_the_right else inputs[1], on_the_right)
    if ufunc not in _MONOTONE:
        raise CannotEnumerateError(
            f"numpy.{ufunc.__name__} of an undecided number", "keep to + - * /, log, exp and comparisons"
        )
    if len(inputs) == 1:
        if ufunc in _DOMAIN_STARTS:
            number.compare(
                np.less, _DOMAIN_STARTS[ufunc], False
            )  # beyond it everything is NaN: decide that now
        return number.then(ufunc)
    if number is inputs[0]:
        return number.then(partial(_first, ufunc, inputs[1]))
    if ufunc is np.true_divide:
        number.compare(
            np.less, 0.0, False
        )  # a quotient is monotone on either side of zero: decide the side now
    return number.then(partial(ufunc, inputs[0]))


def _first(ufunc: Any, other: Any, value: Any) -> Any:
    return ufunc(value, other)


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if sorter is not None:
        raise CannotEnumerateError("numpy.searchsorted(sorter=)", "sort the values first")
    values = np.asarray(a)
    if isinstance(v, Undecided):
        return v.search(values, side)
    return np.array([number.search(values, side) for number in np.ravel(v)], dtype=np.intp).reshape(
        np.shape(v)
    )


def _count_below(value: Any, bits: int, closed: bool) -> int:
    """Return how many grid points of [0, 1) lie below `value`, or, closed, at or below it."""
    if isinstance(value, np.floating):
        value = float(value)
    if value < 0:
        return 0
    if value >= 1:
        return 1 << bits
    scaled = value * (1 << bits)  # a power of two: exact
    return math.floor(scaled) + 1 if closed else math.ceil(scaled)
