"""Warps: temperature, top-k, top-p and min-p, which turn a row into another row.

A warp applied to the target defines what is sampled. Applied to the draft it changes how often drafts are
accepted and nothing else, because a drafter hands on the row it drew from, which is the warped one. The
same warp object serves both: ``warp(target)``, ``warp(draft)``; and ``warp.row(row)`` for a single row.

On exact rows every warp but temperature is exact, and there a float parameter is read as the decimal that is
written: ``top_p(0.9)`` means 9/10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from operator import index

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context, Floats, Row, as_written, conditioned, is_exact, normalised
from speculative.oracle import Oracle, map_rows

__all__ = ["Warp", "compose", "min_p", "temperature", "top_k", "top_p"]

LARGEST_POWER = 64  # of exact probabilities: their digits grow with it
SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)  # at this temperature and below, what is not a tie is 0


@dataclass(frozen=True)
class Warp:
    """A function of one row, by name. Called with an oracle, it gives the oracle of the warped rows.

    Attributes
    ----------
    name : str
        As it is written, for example ``top_k(40)``.
    row : callable
        ``row(row)`` -> row, shape (V,), from a row that :func:`speculative.distribution.check_row` lets pass.
    rows : callable, optional
        The same for several float64 rows at once, shape (n, V): saves time where a pass has several.
    """

    name: str
    row: Callable[[Row], Row] = field(repr=False)
    rows: Callable[[Floats], Floats] | None = field(default=None, repr=False)

    def __call__(self, oracle: Oracle) -> Oracle:
        """The oracle whose rows are the warped rows of `oracle`.

        Parameters
        ----------
        oracle : Oracle
            A target or a draft.

        Returns
        -------
        Oracle
            With the same vocabulary and limits, in one pass where `oracle` scores in one pass.
        """
        return map_rows(oracle, partial(_without_context, self.row), together=self.rows)


def _without_context(function: Callable[[Row], Row], _context: Context, row: Row) -> Row:
    return function(row)


def temperature(value: float | Fraction) -> Warp:
    """Sharpen (below 1) or flatten (above 1) a row.

    Parameters
    ----------
    value : float or Fraction
        The temperature T, 0 or more and finite.

    Returns
    -------
    Warp
        Exact rows stay exact for T = 0 and for T = 1/n with an integer n up to 64 (0.2 is read as 1/5). For
        any other T they become float64 rows.

    Raises
    ------
    ValueError
        For a negative, infinite or NaN temperature.

    Notes
    -----
    **Law.** Token x with probability proportional to p(x)^(1/T), which is the softmax of the logits over T.
    T = 1 gives the row itself. T = 0 is greedy: all the mass on the most probable token, on the one with
    the lowest index if several are. No other threshold exists: at any T > 0 ties share the mass equally,
    however small T is. The powers are taken of the probabilities over the largest one, in logarithms, so
    that none overflows.
    """
    exact = as_written("temperature", value)
    if exact < 0:
        raise ValueError(f"temperature is {value}: give 0 for greedy, or a positive number")
    name, power = f"temperature({value})", exact.denominator
    if exact == 0:
        return Warp(name, _most_probable, _most_probable_of_each)
    if exact == 1:
        return Warp(name, _unchanged)
    is_root = exact.numerator == 1 and power <= LARGEST_POWER
    sharpen = partial(_sharpened, max(float(exact), SMALLEST_FLOAT))
    return Warp(name, partial(_temperature_row, sharpen, power if is_root else None), sharpen)


def _most_probable(row: Row) -> Row:
    certain = row - row  # zeros of the row's own kind: a quotient of two such rows stays exact
    certain[row.argmax()] += 1
    certain.setflags(write=False)
    return certain


def _most_probable_of_each(rows: Floats) -> Floats:
    certain = np.zeros_like(rows)
    certain[np.arange(len(rows)), rows.argmax(axis=-1)] = 1
    return certain


def _unchanged(row: Row) -> Row:
    return row


def _temperature_row(sharpen: Callable[[Floats], Floats], power: int | None, row: Row) -> Row:
    """`power` is 1 / temperature where an exact row can be raised to it."""
    if row.dtype.kind == "i":
        return row
    if power is not None and is_exact(row):
        return normalised(row**power)
    return sharpen(row.astype(np.float64, copy=False))


def _sharpened(value: float, rows: Floats) -> Floats:
    """Rows at a temperature, shape (..., V)."""
    with np.errstate(divide="ignore", over="ignore"):  # log 0 and the powers of it are -inf: probability zero
        logits = np.log(rows)
        weights: Floats = np.exp((logits - np.maximum.reduce(logits, axis=-1, keepdims=True)) / value)
    weights /= np.add.reduce(weights, axis=-1, keepdims=True)
    weights.setflags(write=False)
    return weights


def top_k(k: int) -> Warp:
    """Keep the k most probable tokens.

    Parameters
    ----------
    k : int
        How many, 1 or more. A k of V or more keeps all.

    Returns
    -------
    Warp
        Exact on exact rows.

    Raises
    ------
    ValueError
        For a k that is no positive integer.

    Notes
    -----
    **Law.** The row conditioned on the k most probable tokens. Of tokens with one probability, those with a
    lower index come first, so that exactly k are kept.
    """
    try:
        count = index(k)
    except TypeError:
        raise ValueError(f"top_k got {k!r}: give a positive integer") from None
    if count < 1:
        raise ValueError(f"top_k got {k}: give 1 or more, or leave the warp out to keep every token")
    return Warp(f"top_k({count})", partial(_top_k_row, count))


def _top_k_row(k: int, row: Row) -> Row:
    return conditioned(row, _descending(row)[:k])


def top_p(p: float | Fraction) -> Warp:
    """Keep the most probable tokens that together reach a mass of p: nucleus sampling (Holtzman et al. 2020).

    Parameters
    ----------
    p : float or Fraction
        The mass to reach, above 0 and at most 1.

    Returns
    -------
    Warp
        Exact on exact rows.

    Raises
    ------
    ValueError
        For a p outside (0, 1].

    Notes
    -----
    **Law.** The row conditioned on the shortest prefix, in descending order of probability, whose mass is p
    or more: the token that crosses p is kept. Of tokens with one probability, those with a lower index come
    first. In floats the masses are summed in that order, and all tokens are kept where rounding leaves the
    sum below p.
    """
    exact = as_written("top_p", p)
    if not 0 < exact <= 1:
        raise ValueError(f"top_p got {p}: give a mass above 0 and at most 1")
    return Warp(f"top_p({p})", partial(_top_p_row, exact, float(exact)))


def _top_p_row(exact: Fraction, p: float, row: Row) -> Row:
    order = _descending(row)
    below = np.add.accumulate(row[order]) < (exact if is_exact(row) else p)
    return conditioned(row, order[: np.count_nonzero(below) + 1])


def min_p(p: float | Fraction) -> Warp:
    """Keep the tokens with at least p times the probability of the most probable one (Nguyen et al. 2024).

    Parameters
    ----------
    p : float or Fraction
        From 0, which keeps every token, to 1, which keeps the most probable ones.

    Returns
    -------
    Warp
        Exact on exact rows.

    Raises
    ------
    ValueError
        For a p outside [0, 1].

    Notes
    -----
    **Law.** The row conditioned on the tokens x with p(x) >= p max p. A token right at the threshold is
    kept, and so are all tokens of one probability, or none of them.
    """
    exact = as_written("min_p", p)
    if not 0 <= exact <= 1:
        raise ValueError(f"min_p got {p}: give a fraction from 0 to 1 of the largest probability")
    return Warp(f"min_p({p})", partial(_min_p_row, exact))


def _min_p_row(p: Fraction, row: Row) -> Row:
    threshold = (p if is_exact(row) else float(p)) * row.max()
    return conditioned(row, np.flatnonzero(row >= threshold))


def compose(*warps: Warp) -> Warp:
    """One warp after another.

    Parameters
    ----------
    *warps : Warp
        Applied from left to right: each is given the row that the one before it made.

    Returns
    -------
    Warp
        With no warps at all, the row itself.

    Notes
    -----
    **Law.** Depends on the order: ``compose(temperature(0.5), top_p(0.9))`` takes the nucleus of the
    sharpened row, which is smaller than that of the row itself.
    """
    name = ", ".join(warp.name for warp in warps)
    rows = [warp.rows for warp in warps if warp.rows is not None]
    return Warp(
        f"compose({name})",
        partial(_composed_row, tuple(warp.row for warp in warps)),
        partial(_composed_row, tuple(rows)) if len(rows) == len(warps) else None,
    )


def _composed_row(functions: Sequence[Callable[[Row], Row]], row: Row) -> Row:
    for function in functions:
        row = function(row)
    return row


def _descending(row: Row) -> NDArray[np.intp]:
    """Tokens by falling probability; of equal ones, the lower index first."""
    return (-row).argsort(kind="stable")
