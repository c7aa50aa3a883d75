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
from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from speculative.chance import Chance

MAX_VALUES = 4096
"""The most values an undecided number or a draw of integers may be decided among."""

_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide}
_MONOTONE = {
    *_ARITHMETIC.values(), np.negative, np.positive, np.minimum, np.maximum,
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
    __array_ufunc__: ClassVar[Callable[..., Any]]  # both are in undecided_array.py
    __array_function__: ClassVar[Callable[..., Any]]

    def __init__(self, grid: Grid, chain: tuple[Callable[[Any], Any], ...] = ()) -> None:
        self._grid, self._chain = grid, chain

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

    def __str__(self) -> str:
        raise CannotEnumerateError(
            "str() of an undecided number", "return what was decided with it; repr() shows it"
        )

    def __format__(self, specification: str) -> str:
        return str(self)

    def __copy__(self) -> Undecided:
        return self

    def __deepcopy__(self, memo: Any) -> Undecided:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CannotEnumerateError("pickling an undecided number", "send what was decided with it")

    def __repr__(self) -> str:
        return f"<undecided: {self._grid.high - self._grid.low} candidates>"

    def compare(self, ufunc: Any, operation: Any, other: Any, on_the_right: bool = False) -> Any:
        """Decide `operation(self, other)`, or `operation(other, self)` where `self` stands on the right.

        The operation is `ufunc` itself or Python's operator of that name; the answer has its type.
        """
        if ufunc in (np.equal, np.not_equal):
            return self._compare_equal(ufunc, operation, other)
        boundary = None
        if self._is_plain() and isinstance(other, (float, int, Fraction)):
            closed = ufunc in ((np.less, np.greater_equal) if on_the_right else (np.less_equal, np.greater))
            boundary = _count_below(other, self._grid.bits, closed)
        holds = partial(operation, other) if on_the_right else partial(_first, operation, other)
        return self.decide(holds, boundary)

    def _compare_equal(self, ufunc: Any, operation: Any, other: Any) -> Any:
        """Decide whether two numbers are equal: whether neither is below the other."""
        use_numpys = operation is ufunc or isinstance(other, complex)
        at_most, at_least = (np.less_equal, np.greater_equal) if use_numpys else (operator.le, operator.ge)
        value = self.ends()[0]
        answer = operation(value, other)
        try:
            at_most(value, other)
        except TypeError:  # no number: the answer is the same for every candidate
            return answer
        equal = self.compare(np.less_equal, at_most, other) and self.compare(
            np.greater_equal, at_least, other
        )
        return type(answer)(bool(equal) == (ufunc is np.equal))

    def decide(self, holds: Callable[[Any], Any], boundary: int | None = None) -> Any:
        """Decide a property that changes once, if at all, from the least candidate to the greatest.

        The answer is of the type that `holds` gives, Python's bool or numpy's.
        """
        at_low, at_high = map(holds, self.ends())
        if bool(at_low) == bool(at_high):
            return at_low
        if boundary is None:
            boundary = self._first_change(lambda value: bool(holds(value)) == bool(at_low))
        return type(at_low)(self._grid.is_below(boundary) == bool(at_low))

    def decide_integer(self, function: Callable[[Any], int]) -> int:
        """Decide an integer that only grows, or only falls, from the least candidate to the greatest."""
        first, last = map(function, self.ends())
        if abs(last - first) >= MAX_VALUES:
            raise CannotEnumerateError(
                f"an integer with {abs(last - first) + 1} values", f"stay within {MAX_VALUES}"
            )
        while first != last:
            self.decide(partial(_is_at_most, (first + last) // 2, function))
            first, last = map(function, self.ends())
        return first

    def search(self, sorted_values: Any, side: Any) -> int:
        """Decide what `numpy.searchsorted(sorted_values, self, side)` gives."""
        if self._chain:
            return self.decide_integer(lambda value: int(sorted_values.searchsorted(value, side)))
        return self._grid.piece(
            [_count_below(value, self._grid.bits, side == "left") for value in sorted_values.tolist()]
        )

    def then(self, operation: Callable[[Any], Any]) -> Undecided:
        """Return this number with one more operation recorded; what raises at either end raises now."""
        number = Undecided(self._grid, (*self._chain, operation))
        number.ends()
        return number

    def as_type(self, scalar: Callable[[float], Any]) -> Undecided:
        """Return this number rounded to a type of floats."""
        return self if type(self.ends()[0]) is scalar else self.then(scalar)

    def ends(self) -> tuple[Any, Any]:
        """Return the number at the least and at the greatest candidate."""
        return self._value(self._grid.low), self._value(self._grid.high - 1)

    def decide_sign(self) -> None:
        """Decide whether the number is negative; a negative zero is."""
        self.decide(lambda value: value <= 0 and np.signbit(value))

    def is_scaled_by(self, ufunc: Any, other: Any) -> bool:
        """Return whether `ufunc(self, other)` multiplies by a number that is neither zero nor infinite."""
        with np.errstate(all="ignore"):
            return bool(0 < abs(ufunc(type(self.ends()[0])(1), other)) < math.inf)

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


def _operator(name: str, ufunc: Any, reflected: bool = False) -> Callable[..., Any]:
    """Return an operator that leaves a Python float one, as Python does: numpy lets it be weaker."""
    operation = getattr(operator, name)

    def method(self: Undecided, other: Any) -> Any:
        inputs = (other, self) if reflected else (self, other)
        is_list = isinstance(other, (list, tuple))  # beside numpy's numbers, not Python's, it is an array
        if isinstance(other, np.ndarray) or (is_list and isinstance(self.ends()[0], np.generic)):
            return ufunc(*inputs)
        return apply_to_numbers(ufunc, operation, inputs)

    return method


for _name, _ufunc in _ARITHMETIC.items():
    setattr(Undecided, f"__{_name}__", _operator(_name, _ufunc))
    setattr(Undecided, f"__i{_name}__", _operator(_name, _ufunc))
    setattr(Undecided, f"__r{_name}__", _operator(_name, _ufunc, reflected=True))
for _name, _ufunc in _COMPARISONS.items():
    setattr(Undecided, f"__{_name}__", _operator(_name, _ufunc))


def apply_to_numbers(ufunc: Any, operation: Any, inputs: tuple[Any, ...]) -> Any:
    """Return `operation`, which is `ufunc` or Python's operator of that name, of numbers."""
    undecided = [value for value in inputs if isinstance(value, Undecided)]
    if not undecided:
        return operation(*inputs)
    number, is_first = undecided[0], isinstance(inputs[0], Undecided)
    is_comparison = ufunc in _COMPARISONS.values()
    if len(undecided) > 1:
        if is_comparison and number.is_the_same_as(undecided[1]):
            return number.decide(lambda value: operation(value, value))
        raise CannotEnumerateError(
            f"numpy.{ufunc.__name__} of two undecided numbers",
            "compare one of them with numbers first, or write numpy.searchsorted(values, uniforms) for "
            "values.searchsorted(uniforms)",
        )
    if is_comparison:
        return number.compare(ufunc, operation, inputs[1 if is_first else 0], on_the_right=not is_first)
    if ufunc not in _MONOTONE:
        raise CannotEnumerateError(
            f"numpy.{ufunc.__name__} of an undecided number", "keep to + - * /, log, exp and comparisons"
        )
    if len(inputs) == 1:
        if ufunc in _DOMAIN_STARTS:  # beyond it everything is NaN: decide that now
            number.compare(np.less, np.less, _DOMAIN_STARTS[ufunc])
        return number.then(ufunc)
    other = inputs[1 if is_first else 0]
    if ufunc in (np.multiply, np.true_divide) and not (is_first and number.is_scaled_by(ufunc, other)):
        number.decide_sign()  # only on either side of zero is the result monotone
    return number.then(partial(_first, operation, other) if is_first else partial(operation, other))


def _first(operation: Any, other: Any, value: Any) -> Any:
    return operation(value, other)


def _is_at_most(limit: int, function: Any, value: Any) -> bool:
    return bool(function(value) <= limit)


def _count_below(value: Any, bits: int, closed: bool) -> int:
    """Return how many grid points of [0, 1) lie below `value`, or, closed, at or below it."""
    if not value < 1:  # or NaN, which sorts last
        return 1 << bits
    if value < 0:
        return 0
    exact = value if isinstance(value, (float, Fraction)) else Fraction(*value.as_integer_ratio())
    scaled = exact * (1 << bits)  # a power of two: exact for floats too
    return math.floor(scaled) + 1 if closed else math.ceil(scaled)
