"""Oracles from functions, which say by name whether they give probabilities or logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import (
    SUM_TOLERANCE,
    Context,
    Floats,
    Row,
    RowLike,
    check_row,
    check_rows,
    describe_context,
)
from speculative.oracle.interface import Oracle, check_count, contexts_after

RowsLike: TypeAlias = Sequence[RowLike] | NDArray[Any]
RowFunction: TypeAlias = Callable[[Context], RowLike]
ScoreFunction: TypeAlias = Callable[[Context, Context], RowsLike]
TreeFunction: TypeAlias = Callable[[Context, Context, Context], RowsLike]
Convert: TypeAlias = Callable[[RowLike, Context, int], Row]
ConvertAll: TypeAlias = Callable[[Floats], Floats | None]


def from_probs(
    function: RowFunction,
    vocab_size: int,
    *,
    score: ScoreFunction | None = None,
    score_tree: TreeFunction | None = None,
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
        depends on ``context + drafted[:i]`` and nothing else. A tree is asked about path by path.
    score_tree : callable, optional
        In the place of `score`: ``score_tree(context, tokens, parents)`` -> probabilities, shape
        (len(tokens) + 1, V), in one forward pass over a tree, see :meth:`Oracle.score_tree`. A chain is a
        tree with the parents 0, 1, ...
    vocabulary : sequence of str, optional
        What the tokens stand for.
    context_limit : int, optional
        The longest context.

    Returns
    -------
    Oracle
        It checks every row as :func:`speculative.distribution.check_row` does, and copies it unless nobody
        else can write to it.

    Raises
    ------
    ValueError
        For both `score` and `score_tree`.
    """
    return _from_function(
        (check_row, check_rows),
        function,
        vocab_size,
        vocabulary,
        context_limit,
        score=score,
        score_tree=score_tree,
    )


def from_logits(
    function: RowFunction,
    vocab_size: int,
    *,
    score: ScoreFunction | None = None,
    score_tree: TreeFunction | None = None,
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
        depends on ``context + drafted[:i]`` and nothing else. A tree is asked about path by path.
    score_tree : callable, optional
        In the place of `score`: ``score_tree(context, tokens, parents)`` -> logits, shape
        (len(tokens) + 1, V), in one forward pass over a tree, see :meth:`Oracle.score_tree`. A chain is a
        tree with the parents 0, 1, ...
    vocabulary : sequence of str, optional
        What the tokens stand for.
    context_limit : int, optional
        The longest context.

    Returns
    -------
    Oracle
        Its rows are float64. At a call it refuses logits as :func:`softmax` does.

    Raises
    ------
    ValueError
        For both `score` and `score_tree`.
    """
    return _from_function(
        (softmax, softmaxes),
        function,
        vocab_size,
        vocabulary,
        context_limit,
        score=score,
        score_tree=score_tree,
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
    try:
        values = np.asarray(logits, dtype=np.float64)
    except (TypeError, ValueError):
        raise _no_logits(context, "are not an array of numbers: give one logit a token, shape (V,)") from None
    if values.ndim != 1 or values.size == 0 or values.size != (vocab_size or values.size):
        size = "V" if vocab_size is None else vocab_size
        raise _no_logits(context, f"have shape {values.shape}: give one logit a token, shape ({size},)")
    top = values.item(values.argmax())  # a NaN is found before all else
    if not math.isfinite(top):
        fault = "are all -inf" if top < 0 else f"have {top} for token {int(values.argmax())}"
        raise _no_logits(context, f"{fault}: give finite logits, or -inf for some tokens to rule them out")
    return _softmax(values, top)


def _no_logits(context: Sequence[object], fault: str) -> ValueError:
    return ValueError(f"the logits at context {describe_context(context)} {fault}")


def _softmax(logits: NDArray[np.float64], top: Any) -> NDArray[np.float64]:
    """The laws of logits, shape (..., V), read-only; `top` has their maxima, shape (..., 1), all finite."""
    with np.errstate(over="ignore"):  # the distance to the maximum may be -inf: probability zero
        weights: NDArray[np.float64] = np.exp(logits - top)
    weights /= np.add.reduce(weights, axis=-1, keepdims=True)
    weights.setflags(write=False)
    return weights


def path_by_path(
    score: Callable[[Context, Context], Any],
) -> Callable[[Context, Context, Context], list[Any]]:
    """A function that scores trees, from one that scores chains.

    Parameters
    ----------
    score : callable
        ``score(context, drafted)`` -> ``len(drafted) + 1`` rows.

    Returns
    -------
    callable
        ``(context, tokens, parents)`` -> ``len(tokens) + 1`` rows, by one call of `score` for each path from
        the root to a leaf: for a chain by one call. The first path through a node gives its row.
    """
    return partial(_path_by_path, score)


def _path_by_path(
    score: Callable[[Context, Context], Any], context: Context, tokens: Context, parents: Context
) -> Any:
    if parents == tuple(range(len(tokens))):
        return score(context, tokens)
    rows: dict[int, Any] = {}
    for leaf in sorted({*range(len(tokens) + 1)}.difference(parents)):
        nodes = [leaf]
        while nodes[-1] > 0:
            nodes.append(parents[nodes[-1] - 1])
        nodes.reverse()
        path = tuple(tokens[node - 1] for node in nodes[1:])
        for node, row in zip(nodes, check_count(score(context, path), len(path)), strict=True):
            rows.setdefault(node, row)
    return [rows[node] for node in range(len(tokens) + 1)]


def softmaxes(rows: Floats) -> Floats | None:
    """Rows as `softmax` makes them, all at once, shape (n, V); None where one of them has a fault."""
    logits = rows.astype(np.float64, order="C", copy=False)  # other orders are added up in another order
    top = np.maximum.reduce(logits, axis=-1, keepdims=True)
    return _softmax(logits, top) if np.count_nonzero(np.isfinite(top)) == len(top) else None


def _from_function(
    convert: tuple[Convert, ConvertAll],
    function: RowFunction,
    vocab_size: int,
    vocabulary: Sequence[str] | None,
    context_limit: int | None,
    *,
    score: ScoreFunction | None,
    score_tree: TreeFunction | None,
) -> Oracle:
    if score is not None:
        if score_tree is not None:
            raise ValueError("both score and score_tree: give score_tree alone, chains are trees too")
        score_tree = path_by_path(score)
    rows = None
    if score_tree is not None:
        rows = partial(_converted_rows, score=score_tree, convert=convert, vocab_size=vocab_size)
    return Oracle(
        partial(_converted_row, function=function, convert=convert[0], vocab_size=vocab_size),
        vocab_size,
        rows,
        None if vocabulary is None else tuple(vocabulary),
        context_limit,
    )


def _converted_row(context: Context, *, function: RowFunction, convert: Convert, vocab_size: int) -> Row:
    return convert(function(context), context, vocab_size)


def _converted_rows(
    context: Context,
    tokens: Context,
    parents: Context,
    *,
    score: TreeFunction,
    convert: tuple[Convert, ConvertAll],
    vocab_size: int,
) -> list[Row]:
    given, (one, all_at_once) = score(context, tokens, parents), convert
    if (
        isinstance(given, np.ndarray)
        and given.shape == (len(tokens) + 1, vocab_size)
        and given.dtype in SUM_TOLERANCE
        and (laws := all_at_once(given)) is not None
    ):
        return list(laws)
    rows, contexts = check_count(given, len(tokens)), contexts_after(context, tokens, parents)
    return [one(row, each, vocab_size) for row, each in zip(rows, contexts, strict=True)]
