"""Numbers that are decided only as far as a program looks at them.

An undecided number is a chain of float operations on a grid point k * 2**-bits, of which only an interval of
candidates k is known. A comparison finds, by bisection over the recorded operations themselves, the k at
which its answer changes, asks `chance.flip` with the exact share of candidates below, and keeps that part of
the interval.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from speculative.chance import Chance

MAX_VALUES = 4096
"""The most values an undecided number or a draw of integers may be decided among."""

_COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}
_OPERATORS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide}
_MONOTONE = {
    *_OPERATORS.values(), np.negative, np.positive, np.minimum, np.maximum,
    np.floor, np.ceil, np.rint, np.trunc, np.log, np.log1p, np.log2, np.log10, np.exp, np.expm1, np.sqrt,
}  # fmt: skip
_METHODS = {ufunc.__name__: ufunc for ufunc in _MONOTONE if ufunc.nin == 1}
_DOMAIN_STARTS = {np.log: 0.0, np.log2: 0.0, np.log10: 0.0, np.sqrt: 0.0, np.log1p: -1.0}


class CannotEnumerateError(NotImplementedError):
    """A program asked for something whose law cannot be enumerated: (the operation, what to do instead)."""

    def __str__(self) -> str:
        operation, advice = self.args
        return f"{operation} has no law that can be enumerated: {advice}"


class Grid:
    """An unknown grid point: the candidates are the integers from `low` up to, not including, `high`."""

    __slots__ = ("bits", "chance", "high", "low", "scalar")

    def __init__(self, chance: Chance, bits: int, scalar: Callable[[float], Any]) -> None:
        self.chance, self.bits, self.scalar = chance, bits, scalar
        self.low, self.high = 0, 1 << bits

    def is_below(self, boundary: int) -> bool:
        """Decide whether the point lies below `boundary`, which lies among the candidates."""
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
        answer = self.chance.pick([end - start for start, end in pairwise(ends)])
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
        return function(*_boxed(args), **_boxed(kwargs))

    def __hash__(self) -> int:
        raise CannotEnumerateError(
            "an undecided number as an outcome or a key", "return what was decided with it"
        )

    def __neg__(self) -> Undecided:
        return self.then(operator.neg)

    def __pos__(self) -> Undecided:
        return self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        raise CannotEnumerateError(
            "float() of an undecided number", "compare it with numbers; use numpy.log, not math.log"
        )

    def __int__(self) -> int:
        return self.decide_integer(int)

    __trunc__ = __int__

    def __floor__(self) -> int:
        return int(np.floor(self))

    def __ceil__(self) -> int:
        return int(np.ceil(self))

    def __round__(self, digits: int | None = None) -> int:
        if digits is not None:
            raise CannotEnumerateError("round() to digits", "scale the number and round to integers")
        return int(np.rint(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _METHODS:  # what numpy calls for each object in an array
            return partial(_METHODS[name], self)
        raise CannotEnumerateError(f"attribute {name!r} of an undecided number", "compare it with numbers")

    def __repr__(self) -> str:
        return f"<undecided: {self._grid.high - self._grid.low} candidates>"

    def compare(self, ufunc: Any, other: Any, on_the_right: bool = False) -> bool:
        """Decide `ufunc(self, other)`, or `ufunc(other, self)` where `self` stands on the right."""
        if ufunc in (np.equal, np.not_equal):
            equal = self.compare(np.less_equal, other) and self.compare(np.greater_equal, other)
            return equal == (ufunc is np.equal)
        boundary = None
        if self._is_plain() and isinstance(other, (float, int, Fraction)):
            closed = ufunc in ((np.less, np.greater_equal) if on_the_right else (np.less_equal, np.greater))
            boundary = _count_below(other, self._grid.bits, closed)
        return self.decide(partial(ufunc, other) if on_the_right else partial(_first, ufunc, other), boundary)

    def decide(self, holds: Callable[[Any], Any], boundary: int | None = None) -> bool:
        """Decide a property that changes once, if at all, from the least candidate to the greatest."""
        at_low = bool(holds(self._value(self._grid.low)))
        if bool(holds(self._value(self._grid.high - 1))) == at_low:
            return at_low
        if boundary is None:
            boundary = self._first_change(lambda value: bool(holds(value)) == at_low)
        return self._grid.is_below(boundary) == at_low

    def decide_integer(self, function: Callable[[Any], int]) -> int:
        """Decide an integer that only grows, or only falls, from the least candidate to the greatest."""

        def is_in_lower_half(value: Any) -> bool:
            return function(value) <= middle

        while True:
            first, last = (function(self._value(end)) for end in (self._grid.low, self._grid.high - 1))
            if abs(last - first) >= MAX_VALUES:
                raise CannotEnumerateError(
                    f"an integer with {abs(last - first) + 1} values", f"stay within {MAX_VALUES}"
                )
            if first == last:
                return first
            middle = (first + last) // 2
            self.decide(is_in_lower_half)

    def search(self, sorted_values: Any, side: Any) -> int:
        """Decide what `numpy.searchsorted(sorted_values, self, side)` gives."""
        if self._chain:
            return self.decide_integer(lambda value: int(sorted_values.searchsorted(value, side)))
        return self._grid.piece(
            [_count_below(value, self._grid.bits, side == "left") for value in sorted_values.tolist()]
        )

    def then(self, operation: Callable[[Any], Any]) -> Undecided:
        """Return this number with one more operation recorded."""
        return Undecided(self._grid, (*self._chain, operation))

    def decide_sign(self) -> None:
        """Decide whether the number is negative; a negative zero is."""
        self.decide(lambda value: value <= 0 and np.signbit(value))

    def is_scaled_by(self, ufunc: Any, other: Any) -> bool:
        """Return whether `ufunc(self, other)` multiplies by a number that is neither zero nor infinite."""
        with np.errstate(all="ignore"):
            return bool(0 < abs(ufunc(type(self._value(self._grid.low))(1), other)) < math.inf)

    def is_the_same_as(self, other: Undecided) -> bool:
        """Return whether both are the same function of the same grid point."""
        return self._grid is other._grid and self._chain == other._chain

    def _is_plain(self) -> bool:
        """Return whether a comparison with a Python number is one with the grid point, nothing rounded."""
        return not self._chain and self._grid.scalar in (float, np.float64)

    def _value(self, point: int) -> Any:
        value = self._grid.scalar(math.ldexp(point, -self._grid.bits))
        with np.errstate(all="ignore"):
            for operation in self._chain:
                value = operation(value)
        return value

    def _first_change(self, holds: Callable[[Any], bool]) -> int:
        """Return the first candidate at which `holds`, true of the least, not of the greatest, is false."""
        low, high = self._grid.low, self._grid.high - 1
        while high - low > 1:
            middle = (low + high) // 2
            if holds(self._value(middle)):
                low = middle
            else:
                high = middle
        return high


def _operator(name: str, reflected: bool) -> Callable[..., Any]:
    """Return an operator that leaves a Python float one, as Python does: numpy lets it be weaker."""
    ufunc, operation = _OPERATORS[name], getattr(operator, name)

    def method(self: Undecided, other: Any) -> Any:
        inputs = (other, self) if reflected else (self, other)
        if isinstance(other, np.ndarray):
            return ufunc(*inputs)
        return _apply_to_numbers(ufunc, inputs, operation)

    return method


for _name in _OPERATORS:
    setattr(Undecided, f"__{_name}__", _operator(_name, reflected=False))
    setattr(Undecided, f"__i{_name}__", _operator(_name, reflected=False))
    setattr(Undecided, f"__r{_name}__", _operator(_name, reflected=True))


class UndecidedArray(np.ndarray[Any, np.dtype[np.object_]]):
    """An array of undecided numbers; comparing it gives an ordinary array of bool."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _apply(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.searchsorted:
            return _searchsorted(*args, **kwargs)
        result = super().__array_function__(function, types, _boxed(args), _boxed(kwargs))
        if not isinstance(result, np.ndarray) or result.dtype != object:
            return result
        result = result.view(UndecidedArray)
        return result if _is_undecided(result) else _decided(result)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return an array of that type: undecided still where it is a float type, decided where it is not."""
        kind = np.dtype(dtype)
        if kind.kind != "f":
            return self.view(np.ndarray).astype(dtype, *args, **kwargs)
        return undecided_array(
            [
                number.then(kind.type) if isinstance(number, Undecided) else kind.type(number)
                for number in self.flat
            ],
            self.shape,
        )


def undecided_array(numbers: list[Any], shape: Any) -> UndecidedArray:
    """Return numbers, undecided or not, as an array of that shape."""
    array = np.empty(len(numbers), dtype=object)
    array[:] = numbers
    return array.reshape(shape).view(UndecidedArray)


def _boxed(value: Any) -> Any:
    """Return `value` with undecided numbers and floats in arrays, which as objects keep their types."""
    if type(value) is dict:
        return {name: _boxed(element) for name, element in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_boxed, value))
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return undecided_array(list(value.flat), value.shape)
    return undecided_array([value], ()) if isinstance(value, Undecided) else value


def _is_undecided(value: Any) -> bool:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return any(isinstance(number, Undecided) for number in value.flat)
    return isinstance(value, Undecided)


def _apply(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    inputs = tuple(np.asanyarray(value) if isinstance(value, (list, tuple)) else value for value in inputs)
    if "out" not in options and not any(map(_is_undecided, inputs)):
        return getattr(ufunc, method)(*map(_decided, inputs), **options)
    if method != "__call__" or options:
        name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
        keywords = ", ".join(f"{key}=" for key in options)
        raise CannotEnumerateError(
            f"numpy.{name}({keywords}) of undecided numbers",
            "write x = x + 1 for x += 1, and compare each number before adding them up",
        )
    arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    if not arrays:
        return _apply_to_numbers(ufunc, inputs)
    results = [_apply_to_numbers(ufunc, _placed(inputs, elements)) for elements in np.broadcast(*arrays)]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    if shape == ():
        return results[0]
    if all(isinstance(result, (bool, np.bool_)) for result in results):
        return np.array(results, dtype=bool).reshape(shape)
    return undecided_array(results, shape)


def _decided(value: Any) -> Any:
    """Return an array of undecided numbers that holds none as an ordinary one."""
    if not isinstance(value, UndecidedArray):
        return value
    if value.dtype != object:
        return value.view(np.ndarray)
    return np.array(value.tolist()).reshape(value.shape)


def _placed(inputs: tuple[Any, ...], elements: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with each array replaced by its element; numbers keep their own, weaker type."""
    rest = iter(elements)
    return tuple(next(rest) if isinstance(value, np.ndarray) else value for value in inputs)


def _apply_to_numbers(ufunc: Any, inputs: tuple[Any, ...], operation: Any = None) -> Any:
    undecided = [value for value in inputs if isinstance(value, Undecided)]
    if not undecided:
        return ufunc(*inputs)
    number, is_first = undecided[0], isinstance(inputs[0], Undecided)
    if len(undecided) > 1:
        if ufunc in _COMPARISONS and number.is_the_same_as(undecided[1]):
            return number.decide(lambda value: ufunc(value, value))
        raise CannotEnumerateError(
            f"numpy.{ufunc.__name__} of two undecided numbers",
            "compare one of them with numbers first, or write numpy.searchsorted(values, uniforms) for "
            "values.searchsorted(uniforms)",
        )
    if ufunc in _COMPARISONS:
        return number.compare(ufunc, inputs[1 if is_first else 0], on_the_right=not is_first)
    if ufunc not in _MONOTONE:
        raise CannotEnumerateError(
            f"numpy.{ufunc.__name__} of an undecided number", "keep to + - * /, log, exp and comparisons"
        )
    if len(inputs) == 1:
        if ufunc in _DOMAIN_STARTS:  # beyond it everything is NaN: decide that now
            number.compare(np.less, _DOMAIN_STARTS[ufunc])
        return number.then(ufunc)
    other = inputs[1 if is_first else 0]
    if ufunc in (np.multiply, np.true_divide) and not (is_first and number.is_scaled_by(ufunc, other)):
        number.decide_sign()  # only on either side of zero is the result monotone
    operation = operation or ufunc
    return number.then(partial(_first, operation, other) if is_first else partial(operation, other))


def _first(operation: Any, other: Any, value: Any) -> Any:
    return operation(value, other)


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    values: Any = np.asarray(a)
    if sorter is not None or _is_undecided(values):
        raise CannotEnumerateError(
            "numpy.searchsorted(sorter=) or among undecided values", "sort decided values first"
        )
    if isinstance(v, Undecided):
        return np.intp(v.search(values, side))
    keys = np.asarray(v)
    places = [
        key.search(values, side) if isinstance(key, Undecided) else values.searchsorted(key, side)
        for key in keys.flat
    ]
    return np.array(places, dtype=np.intp).reshape(keys.shape)


def _count_below(value: Any, bits: int, closed: bool) -> int:
    """Return how many grid points of [0, 1) lie below `value`, or, closed, at or below it."""
    if not value < 1:  # or NaN, which sorts last
        return 1 << bits
    if value < 0:
        return 0
    exact = value if isinstance(value, (float, Fraction)) else Fraction(*value.as_integer_ratio())
    scaled = exact * (1 << bits)  # a power of two: exact for floats too
    return math.floor(scaled) + 1 if closed else math.ceil(scaled)
