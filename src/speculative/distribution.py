"""Rows: what a law over the next token is written in, and the arithmetic that verification does on it.

A row is a one-dimensional, read-only array of V probabilities: ``float64``, or ``object`` holding
:class:`fractions.Fraction`, for exact laws. A drafter that is certain declares an ``int64`` point mass, which
mixes with either kind without rounding.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Context",
    "Row",
    "RowLike",
    "check_row",
    "excess",
    "is_exact",
    "point_mass",
    "rational",
    "residual",
    "total_variation",
]

Context: TypeAlias = tuple[int, ...]
Row: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.floating[Any]]
RowLike: TypeAlias = ArrayLike | Sequence[Any]

SUM_TOLERANCE = {
    np.dtype(np.float64): 1e-9,
    np.dtype(np.float32): 1e-5,  # a softmax over 10^5 tokens, summed in float32
}


def check_row(row: RowLike, context: Sequence[object], vocab_size: int | None = None) -> Row:
    """Return `row` as a read-only row, or say what keeps it from being a law over the next token.

    Nothing is repaired. Values are kept: ``float32`` is widened to ``float64``, integers become
    Fractions, so that no later division turns them into floats.

    Parameters
    ----------
    row : array_like, shape (V,)
        Probabilities: float64, float32, integers, or an object array (a list, a tuple) of Fractions and ints.
    context : sequence
        The tokens the row follows; only named in errors.
    vocab_size : int, optional
        The V that is required.

    Returns
    -------
    ndarray, shape (V,)
        `row` itself when it already is a read-only row that owns its memory; otherwise a read-only copy, so
        that a buffer which its owner uses again changes nothing.

    Raises
    ------
    ValueError
        For a wrong shape or size, values that are no numbers, NaN, infinite or negative ones, and a sum that
        is not one: exactly for exact rows, within 1e-9 for float64 and 1e-5 for float32.
    """
    values = _numbers(row, context)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"{_row_at(context)} has shape {values.shape}: give one probability a token, shape (V,)"
        )
    if vocab_size is not None and values.size != vocab_size:
        raise ValueError(
            f"{_row_at(context)} has {values.size} probabilities for a vocabulary of {vocab_size}: "
            "give one a token"
        )
    probs = _widened(values, context)
    least = probs[probs.argmin()]  # a NaN is found before all else
    if not (least >= 0 and abs(np.add.reduce(probs) - 1) <= SUM_TOLERANCE.get(values.dtype, 0)):
        raise _no_law(probs, context)
    return read_only(probs)


def check_rows(rows: Floats) -> Floats | None:
    """The same as :func:`check_row` for several rows at once.

    Parameters
    ----------
    rows : ndarray of float64 or float32, shape (n, V)
        One or more.

    Returns
    -------
    ndarray of float64, shape (n, V), or None
        A read-only copy; None where a row is no law: :func:`check_row` says of each what is wrong.
    """
    laws = rows.astype(np.float64, order="C")
    if np.count_nonzero(laws >= 0) < laws.size:
        return None
    if np.abs(np.add.reduce(laws, axis=-1) - 1).max() > SUM_TOLERANCE[rows.dtype]:
        return None
    laws.setflags(write=False)
    return laws


def _row_at(context: Sequence[object]) -> str:
    return f"the row at context {describe_context(context)}"


def _no_law(probs: Row, context: Sequence[object]) -> ValueError:
    """What is wrong with numbers that are no law: one of them, or their sum."""
    if probs.dtype == np.float64 and not np.isfinite(probs).all():
        token = int(np.argmin(np.isfinite(probs)))
        fault = f"has {probs[token]} for token {token}: give finite probabilities"
    elif (probs < 0).any():
        token = int(np.argmax(probs < 0))
        fault = f"has the negative {probs[token]} for token {token}: give probabilities, not logits"
    else:
        fault = f"sums to {probs.sum()}, not to 1: divide it by its sum where it is made"
    return ValueError(f"{_row_at(context)} {fault}")


def _numbers(row: RowLike, context: Sequence[object]) -> NDArray[Any]:
    """`row` as an array, in one of the dtypes that a row can be written in."""
    try:
        values = np.asarray(row)
    except ValueError:
        raise ValueError(f"{_row_at(context)} is ragged: give one probability a token, shape (V,)") from None
    if values.dtype not in SUM_TOLERANCE and values.dtype.kind not in "iuO":
        raise ValueError(
            f"{_row_at(context)} holds {values.dtype}: "
            "give float64, float32, or rational(values) for an exact row"
        )
    return values


def _widened(values: NDArray[Any], context: Sequence[object]) -> Row:
    """The same values as float64 or Fractions."""
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False)
    if values.dtype == object and all(type(value) is Fraction for value in values):
        return values
    for token, value in enumerate(values.tolist()):
        if not isinstance(value, int | Fraction):
            raise ValueError(
                f"{_row_at(context)} is an object array with {value!r} for token {token}: "
                f"give rational(row) for an exact row, or a float64 array"
            )
    return np.array([Fraction(value) for value in values.tolist()], dtype=object)


def read_only(row: Row) -> Row:
    """`row` itself if it is read-only and owns its memory, else a read-only copy.

    Parameters
    ----------
    row : ndarray
        Any array.

    Returns
    -------
    ndarray
        The same values, which nobody can change through another array.
    """
    if row.flags.writeable or row.base is not None:
        row = np.array(row)
        row.setflags(write=False)
    return row


def describe_context(context: Sequence[object]) -> str:
    """`context` as errors name it: whole when short, else its end and its length.

    Parameters
    ----------
    context : sequence
        Tokens.

    Returns
    -------
    str
        For example ``(3, 1)`` or ``(..., 5, 6, 7, 8) of 900 tokens``.
    """
    if len(context) > 8:
        return f"(..., {', '.join(map(str, context[-4:]))}) of {len(context)} tokens"
    return f"({', '.join(map(str, context))}{',' if len(context) == 1 else ''})"


def is_exact(row: Row) -> bool:
    """Whether every probability in `row` is rational, so that arithmetic on it does not round.

    Parameters
    ----------
    row : ndarray, shape (V,)
        A row.

    Returns
    -------
    bool
        True for integer rows and for object rows of Fractions and ints, False for floats.
    """
    if row.dtype == object:
        return all(isinstance(value, int | Fraction) for value in row.flat)
    return row.dtype.kind in "iu"


def rational(values: RowLike) -> Row:
    """The same numbers as Fractions, for rows that are computed with exactly.

    Parameters
    ----------
    values : array_like, any shape
        Strings such as ``"1/3"`` and ``"0.25"``, ints, Fractions, Decimals, or floats. A float is taken as
        the binary number it is: 0.1 is 3602879701896397/36028797018963968; write ``"0.1"`` for one tenth.

    Returns
    -------
    ndarray of Fraction, same shape
        Read-only. The sum is whatever it is: :func:`check_row` tells if it is not one.

    Raises
    ------
    ValueError
        For a value that is no finite number.
    """
    numbers = np.array(values, dtype=object)
    for index, value in np.ndenumerate(numbers):
        try:
            numbers[index] = Fraction(value.item() if isinstance(value, np.generic) else value)
        except (TypeError, ValueError, ArithmeticError):
            raise ValueError(
                f"rational got {value!r}: give finite numbers, or strings such as '1/3' and '0.25'"
            ) from None
    numbers.setflags(write=False)
    return numbers


def as_written(name: str, value: float | Fraction) -> Fraction:
    """A parameter as the number that is written: the float 0.9 is 9/10.

    Parameters
    ----------
    name : str
        What it is a parameter of; only named in errors.
    value : int, float or Fraction
        A finite number.

    Returns
    -------
    Fraction
        Its float is `value` again.

    Raises
    ------
    ValueError
        For anything but a finite number.
    """
    try:
        written = str(float(value))
        return Fraction(value) if isinstance(value, int | Fraction) else Fraction(written)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} got {value!r}: give a finite number") from None


def normalised(weights: Row) -> Row:
    """The law proportional to `weights`.

    Parameters
    ----------
    weights : ndarray, shape (V,)
        Floats or Fractions, none negative and not all zero.

    Returns
    -------
    ndarray, shape (V,)
        A read-only row, exact when the weights are Fractions.
    """
    law: Row = weights / np.add.reduce(weights)
    law.setflags(write=False)
    return law


def conditioned(row: Row, kept: NDArray[Any]) -> Row:
    """The law of a token of `row` given that it is one of `kept`.

    Parameters
    ----------
    row : ndarray, shape (V,)
        A row.
    kept : ndarray of bool, shape (V,), or of tokens
        Which tokens are kept. They have some probability.

    Returns
    -------
    ndarray, shape (V,)
        A read-only row, exact when `row` is; `row` itself when no other token has any probability.
    """
    weights = np.zeros(row.shape, row.dtype)
    weights[kept] = row[kept]
    return normalised(weights) if np.count_nonzero(row != weights) else row


def point_mass(token: int, vocab_size: int) -> Row:
    """The law of a token that is certain.

    Parameters
    ----------
    token : int
        From 0 to `vocab_size` - 1.
    vocab_size : int
        Number of tokens V.

    Returns
    -------
    ndarray of int64, shape (V,)
        One at `token`, zero elsewhere: exact beside Fractions, a float beside floats.

    Raises
    ------
    ValueError
        When `token` is outside the vocabulary.
    """
    token = operator.index(token)
    if not 0 <= token < vocab_size:
        raise ValueError(f"token {token} is outside the vocabulary: give one from 0 to {vocab_size - 1}")
    row = np.zeros(vocab_size, dtype=np.int64)
    row[token] = 1
    row.setflags(write=False)
    return row


def residual(target: Row, draft: Row) -> Row:
    """What is left of the target's law once the draft has had its share: max(0, target - draft).

    It is not normalised. Its sum is the total variation between the two rows, which is the probability that
    a draft token is rejected (Leviathan et al. 2023, section 2.3 and appendix A.1; Chen et al. 2023,
    theorem 1).

    A residual without any mass means that no token can be rejected; with exact rows nobody asks for it then.
    Rounding can bring a float sampler here, with a probability of a few 2^-53, when the rows are equal but
    for noise. The target's row is returned in that case: whatever is drawn there moves the law of the output
    by no more than that probability, and the target's row, unlike a uniform one, holds no token that the
    target rules out.

    Parameters
    ----------
    target, draft : ndarray, shape (V,)
        The two laws, in any kinds of rows: Fractions stay Fractions.

    Returns
    -------
    ndarray, shape (V,)
        Weights for ``chance.pick``.

    Raises
    ------
    ValueError
        When the shapes differ.
    """
    weights = excess(target, draft)
    return weights if weights.any() else target


def excess(first: Row, second: Row) -> Row:
    """What the first row has more than the second, token by token: max(0, first - second).

    Parameters
    ----------
    first, second : ndarray, shape (V,)
        Weights of any kind and sum: Fractions stay Fractions.

    Returns
    -------
    ndarray, shape (V,)
        Weights, none negative; all zero where the second has at least as much of every token.

    Raises
    ------
    ValueError
        When the shapes differ.
    """
    if first.shape != second.shape:
        raise ValueError(f"no residual of shapes {first.shape} and {second.shape}: give one vocabulary")
    if first.dtype == object:  # the same numbers in half the time: subtract only where something is left
        pairs, nothing = zip(first.tolist(), second.tolist(), strict=True), Fraction(0)
        return np.array([q - p if q > p else nothing for q, p in pairs], dtype=object)
    more: Row = first - second
    return np.maximum(more, 0, out=more)  # in place: one array of V numbers, not two


def total_variation(first: Row, second: Row) -> Fraction | float:
    """Half the sum of the absolute differences: the largest difference in probability over sets of tokens.

    Parameters
    ----------
    first, second : ndarray, shape (V,)
        Two laws over the same tokens.

    Returns
    -------
    Fraction or float
        A Fraction when both rows are exact.

    Raises
    ------
    ValueError
        When the shapes differ.
    """
    if first.shape != second.shape:
        raise ValueError(f"no distance between shapes {first.shape} and {second.shape}: give one vocabulary")
    differences = np.abs(first - second)
    if is_exact(differences):
        return sum(differences.tolist(), Fraction(0)) / 2
    return float(differences.sum()) / 2
