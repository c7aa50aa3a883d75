"""Checks of single numbers: what is rational stays rational, what is out of range is refused in one line."""

import math
import numbers
from fractions import Fraction
from typing import TypeAlias

Number: TypeAlias = float | Fraction


def number(name: str, value: object, low: int | None = None, high: int | None = None) -> Number:
    """Return `value` as a Fraction where it is rational, else as a float; refuse what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} = {value!r} is not a number: give an int, a float or a Fraction")
    if isinstance(value, numbers.Integral):
        value = int(value)
    checked = Fraction(value) if isinstance(value, numbers.Rational) else float(value)
    if isinstance(checked, float) and not math.isfinite(checked):
        raise ValueError(f"{name} = {value!r} is not finite: give a finite number")
    if low is not None and high is not None and not low <= checked <= high:
        raise ValueError(f"{name} = {value!r} is out of range: give a number from {low} to {high}")
    if low is not None and checked < low:
        raise ValueError(f"{name} = {value!r} is too small: give a number of at least {low}")
    return checked


def probability(name: str, value: object) -> Number:
    """A number from 0 to 1."""
    return number(name, value, 0, 1)


def positive(name: str, value: object) -> Number:
    """A number above 0."""
    checked = number(name, value)
    if checked <= 0:
        raise ValueError(f"{name} = {value!r} is not positive: give a number above 0")
    return checked


def count(name: str, value: object, low: int = 1) -> int:
    """A whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name} = {value!r} is not a whole number: give an int of at least {low}")
    if value < low:
        raise ValueError(f"{name} = {value!r} is too small: give an int of at least {low}")
    return int(value)
