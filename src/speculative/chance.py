"""The two questions a program may ask of chance, and three ways to answer them.

A verifier, a drafter or a whole decoding loop is a plain function whose first argument is a `Chance`. It asks
`flip` and `pick` and never learns who answers: a random generator (`sample`), fair coins without any rounding
(`sample_exactly`), or an enumerator that tries every answer (`speculative.laws.law`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import numpy as np

T = TypeVar("T")
Number = Any  # int, float, Fraction or a numpy number: programs compute with whatever they are given

ROUNDING_SLACK = 4 * 2.0**-52
"""How far above 1 a *float* probability may stand and still count as 1: four units in the last place."""

ARITHMETIC = {"float64": np.float64, "float32": np.float32, "float16": np.float16}
"""Names of the float samplers: the grid, 2**-53, 2**-24 or 2**-11, their uniforms lie on."""


class Chance(Protocol):
    """What a program asks. Anything with these two methods can answer."""

    def flip(self, probability: Number, /) -> bool:
        """Return True with the given probability, in [0, 1]."""
        ...

    def pick(self, weights: Any, /) -> int:
        """Return i with probability weights[i] / sum(weights); a weight of zero is never picked."""
        ...


def sample(program: Callable[..., T], *args: Any, rng: Any = None, **kwargs: Any) -> T:
    """Run a program once, answering from a numpy generator in float64.

    Parameters
    ----------
    program : callable
        `program(chance, *args, **kwargs)`.
    rng : None, int or numpy.random.Generator
        Passed through `numpy.random.default_rng`.

    Returns
    -------
    Whatever the program returns.

    Notes
    -----
    **Law.** That of the program up to float rounding; `law(program, ..., arithmetic="float64")` gives it to
    the last bit. One uniform is drawn per question: `flip(p)` is `u < p`, and `pick(weights)` is the first
    i whose cumulative share of the weights exceeds u. Neither can return an answer without mass.
    """
    return program(Sampler(np.random.default_rng(rng)), *args, **kwargs)


def sample_exactly(program: Callable[..., T], *args: Any, rng: Any = None, **kwargs: Any) -> T:
    """Run a program once on fair coins, without rounding anywhere; the inputs must be rational.

    Parameters
    ----------
    program, rng
        As for `sample`; every probability and weight the program asks about must be an int or a Fraction.

    Returns
    -------
    Whatever the program returns.

    Raises
    ------
    TypeError
        When a float reaches a question: its rounding would already have changed the law.

    Notes
    -----
    **Law.** Exactly that of the program, `law(program, ...)`, provided the generator's bits are fair. Bits
    are drawn only until the answer is certain: at most 2 expected per `flip`, at most entropy + 3 per
    `pick` (Han and Hoshi 1997, interval algorithm).
    """
    return program(ExactSampler(_fair_bits(np.random.default_rng(rng))), *args, **kwargs)


class Sampler:
    """Answers from a numpy generator with one uniform per question; `dtype` is the grid of the uniforms."""

    def __init__(self, rng: np.random.Generator, dtype: Any = np.float64) -> None:
        self._rng = rng
        self._dtype = dtype

    def flip(self, probability: Number, /) -> bool:
        """Return True if one uniform is below the probability."""
        return bool(self._rng.random(dtype=self._dtype) < float(check_probability(probability)))

    def pick(self, weights: Any, /) -> int:
        """Return where one uniform falls among the cumulative shares."""
        weights = np.asarray(check_list(weights), dtype=np.float64)
        shares = np.add.accumulate(weights)
        total = shares.item(-1)
        check_weights(weights.item(weights.argmin()), total, weights)  # argmin finds NaN before all else
        uniform = self._rng.random(dtype=self._dtype)
        return bisect_right(shares, uniform, key=total.__rtruediv__)


class ExactSampler:
    """Answers from fair bits, revealed one at a time until the answer is certain."""

    def __init__(self, bit: Callable[[], int]) -> None:
        self._bit = bit

    def flip(self, probability: Number, /) -> bool:
        """Return whether fair bits, compared with the binary digits of the probability, come out below it."""
        rest = _rational(check_probability(probability))
        while 0 < rest < 1:
            digit, rest = divmod(2 * rest, 1)
            if (bit := self._bit()) != digit:
                return bit < digit
        return rest == 1

    def pick(self, weights: Any, /) -> int:
        """Return the one answer whose share of the unit interval holds all that the bits leave open."""
        exact = [_rational(weight) for weight in check_list(weights)]
        scale = math.lcm(*(weight.denominator for weight in exact))
        ends = list(accumulate(int(weight * scale) for weight in exact))
        check_weights(min(exact), Fraction(ends[-1], scale), weights)
        place, width = 0, 1  # the uniform lies in [place, place + 1) / width
        while True:
            answer = bisect_right(ends, place * ends[-1] // width)
            if (place + 1) * ends[-1] <= ends[answer] * width:
                return answer
            place, width = 2 * place + self._bit(), 2 * width


def check_probability(probability: Number) -> Number:
    """Return a probability in [0, 1], or raise; a float up to `ROUNDING_SLACK` above 1 counts as 1."""
    if 0 <= probability <= 1:
        return probability
    if isinstance(probability, (float, np.floating)) and 1 < probability <= 1 + ROUNDING_SLACK:
        return 1.0
    raise ValueError(f"flip({probability!r}): not a probability; give a number from 0 to 1")


def check_list(weights: Any) -> Any:
    """Return a list, a tuple or a one-dimensional array of at least one weight, or raise."""
    is_list = weights.ndim == 1 if isinstance(weights, np.ndarray) else isinstance(weights, (list, tuple))
    if is_list and len(weights):
        return weights
    raise ValueError(f"pick({weights!r}): give a list or a one-dimensional array of at least one weight")


def check_weights(least: Number, total: Number, weights: Any) -> None:
    """Raise unless the least weight is not negative and the total is positive and finite."""
    if least >= 0 and 0 < total < math.inf:
        return
    shown = np.array2string(np.asarray(weights), threshold=8, edgeitems=3, max_line_width=10**6)
    raise ValueError(
        f"pick({shown}): weights must be finite, none negative, and not all zero; their sum is {total}"
    )


def _rational(number: Number) -> Fraction:
    if isinstance(number, (Fraction, int)):
        return Fraction(number)
    if isinstance(number, np.integer):
        return Fraction(int(number))
    raise TypeError(
        f"sample_exactly() met {number!r}, a {type(number).__name__}: rounding has already changed the law; "
        "give ints and Fractions (speculative.rational makes a row of them)"
    )


def _fair_bits(rng: np.random.Generator) -> Callable[[], int]:
    def bits() -> Any:
        while True:
            word = int.from_bytes(rng.bytes(32), "little")
            for _ in range(256):
                yield word & 1
                word >>= 1

    return bits().__next__  # type: ignore[no-any-return]  # the generator yields ints
