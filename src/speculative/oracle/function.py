"""Oracles from functions, which say by name whether they give probabilities or logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context, Row, RowLike, check_row, describe_context, normalised
from speculative.oracle.interface import Oracle

RowFunction: TypeAlias = Callable[[Context], RowLike]
ScoreFunction: TypeAlias = Callable[[Context, Context], Sequence[RowLike] | NDArray[Any]]


def from_probs(
    function: RowFunction,
    vocab_size: int,
    *,
    score: ScoreFunction | None = None,
    vocabulary: Sequence[str] | None = None,
    context_limit: int | None = None,
) -> Oracle:
    """An oracle from a function that returns probabilities.

    Parameters
    ----------
    function : callable
        ``function(context)`` -> probabilities, shape (V,): a pure function of a tuple of ints.
    vocab_size : int
        Number of tokens V.
    score : callable, optional
        ``score(context, drafted)`` -> probabilities, shape (len(drafted) + 1, V), in one forward pass. Row i
        depends on ``context + drafted[:i]`` and nothing else.
    vocabulary : sequence of str, optional
        What the tokens stand for.
    context_limit : int, optional
        The longest context.

    Returns
    -------
    Oracle
        It checks every row as :func:`speculative.distribution.check_row` does, and copies it unless nobody
        else can write to it.
    """
    return _from_function(
        check_row, function, vocab_size, score, vocabulary=vocabulary, context_limit=context_limit
    )


def from_logits(
    function: RowFunction,
    vocab_size: int,
    *,
    score: ScoreFunction | None = None,
    vocabulary: Sequence[str] | None = None,
    context_limit: int | None = None,
) -> Oracle:
    """An oracle from a function that returns logits, whose :func:`softmax` is the law.

    Parameters
    ----------
    function : callable
        ``function(context)`` -> logits, shape (V,): a pure function of a tuple of ints.
    vocab_size : int
        Number of tokens V.
    score : callable, optional
        ``score(context, drafted)`` -> logits, shape (len(drafted) + 1, V), in one forward pass. Row i
        depends on ``context + drafted[:i]`` and nothing else.
    vocabulary : sequence of str, optional
        What the tokens stand for.
    context_limit : int, optional
        The longest context.

    Returns
    -------
    Oracle
        Its rows are float64. At a call it refuses logits as :func:`softmax` does.
    """
    return _from_function(
        softmax, function, vocab_size, score, vocabulary=vocabulary, context_limit=context_limit
    )


def softmax(logits: RowLike, context: Sequence[object] = (), vocab_size: int | None = None) -> Row:
    """The law proportional to exp(logits).

    Parameters
    ----------
    logits : array_like, shape (V,)
        Any real numbers; -inf for a token of probability zero.
    context : sequence of int
        The tokens before; only named in errors.
    vocab_size : int, optional
        The V that is required.

    Returns
    -------
    ndarray of float64, shape (V,)
        A read-only row. The maximum is subtracted first, so that nothing overflows.

    Raises
    ------
    ValueError
        For NaN or +inf, for -inf everywhere, and for a wrong shape or size.
    """
    where = f"the logits at context {describe_context(context)}"
    try:
        values = np.asarray(logits, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{where} are not an array of numbers: give one logit a token, shape (V,)") from None
    if values.ndim != 1 or values.size == 0 or values.size != (vocab_size or values.size):
        size = "V" if vocab_size is None else vocab_size
        raise ValueError(f"{where} have shape {values.shape}: give one logit a token, shape ({size},)")
    top = values.max()
    if not np.isfinite(top):
        fault = "are all -inf" if top < 0 else f"have {top} for token {int(values.argmax())}"
        raise ValueError(f"{where} {fault}: give finite logits, or -inf for some tokens to rule them out")
    with np.errstate(over="ignore"):  # the distance to the maximum may be -inf: probability zero
        weights = np.exp(values - top)
    return normalised(weights)


def _from_function(
    convert: Callable[[RowLike, Context, int], Row],
    function: RowFunction,
    vocab_size: int,
    score: ScoreFunction | None,
    *,
    vocabulary: Sequence[str] | None,
    context_limit: int | None,
) -> Oracle:
    return Oracle(
        partial(_converted_row, convert, function, vocab_size),
        vocab_size,
        None if score is None else partial(_converted_rows, convert, score, vocab_size),
        None if vocabulary is None else tuple(vocabulary),
        context_limit,
    )


def _converted_row(
    convert: Callable[[RowLike, Context, int], Row],
    function: RowFunction,
    vocab_size: int,
    context: Context,
) -> Row:
    return convert(function(context), context, vocab_size)


def _converted_rows(
    convert: Callable[[RowLike, Context, int], Row],
    score: ScoreFunction,
    vocab_size: int,
    context: Context,
    drafted: Context,
) -> list[Row]:
    rows = score(context, drafted)
    return [convert(row, context + drafted[:i], vocab_size) for i, row in enumerate(rows)]
