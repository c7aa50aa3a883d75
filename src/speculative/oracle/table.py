"""Oracles that look rows up in a table: toy models whose laws one can write down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context, Row, RowLike, check_row, describe_context
from speculative.oracle.interface import Oracle


def table(
    laws: Mapping[Context, RowLike] | Sequence[Any] | NDArray[Any],
    vocab_size: int | None = None,
    vocabulary: Sequence[str] | None = None,
    context_limit: int | None = None,
) -> Oracle:
    """An oracle that looks its rows up, by the end of the context or by its length.

    Parameters
    ----------
    laws : mapping or array_like
        A mapping from contexts to rows: the law after a context is that of the longest suffix of it in the
        mapping, and ``()`` is the suffix of all. Or one row, shape (V,): the law after every context. Or n
        rows, shape (n, V): row i is the law after every context of i tokens, and n - 1 becomes the context
        limit.
    vocab_size : int, optional
        V, required of every row; read off the first row by default.
    vocabulary : sequence of str, optional
        What the tokens stand for.
    context_limit : int, optional
        The longest context.

    Returns
    -------
    Oracle
        Rows are checked once, here; the same row object is handed out each time.

    Raises
    ------
    ValueError
        For no rows, rows that are no laws, keys that are no contexts. At a call: for a context without a
        suffix in the mapping.

    Examples
    --------
    >>> oracle = table({(): [0.25, 0.5, 0.25], (1,): [0, 0.5, 0.5]})
    >>> oracle((2, 1))
    array([0. , 0.5, 0.5])
    >>> oracle((1, 2))
    array([0.25, 0.5 , 0.25])
    """
    by_length = not isinstance(laws, Mapping) and len(laws) > 0 and np.ndim(laws[0]) > 0
    given: Mapping[Any, Any] = laws if isinstance(laws, Mapping) else {(): laws}
    if by_length:
        given = {("any",) * length: law for length, law in enumerate(laws)}
    rows: dict[Any, Row] = {}
    for context, law in given.items():
        if not isinstance(context, tuple):
            raise ValueError(f"table has the key {context!r}: give contexts, for example {(context,)!r}")
        rows[context] = check_row(law, context, vocab_size)
        vocab_size = rows[context].size
    if vocab_size is None or not rows:
        raise ValueError("table got no laws: give a row, or rows by context, for example under the key ()")
    names = None if vocabulary is None else tuple(vocabulary)
    if by_length:
        limit = len(rows) - 1 if context_limit is None else min(context_limit, len(rows) - 1)
        lookup = partial(_row_by_length, tuple(rows.values()))
        return Oracle(lookup, vocab_size, vocabulary=names, context_limit=limit)
    longest = max(len(context) for context in rows)
    oracle = Oracle(partial(_row_by_suffix, rows, longest), vocab_size, None, names, context_limit)
    for context in rows:
        oracle.tokens(context)
    return oracle


def _row_by_length(rows: tuple[Row, ...], context: Context) -> Row:
    return rows[len(context)]


def _row_by_suffix(rows: dict[Context, Row], longest: int, context: Context) -> Row:
    for start in range(max(0, len(context) - longest), len(context) + 1):
        if context[start:] in rows:
            return rows[context[start:]]
    raise ValueError(
        f"the table has no law for context {describe_context(context)} nor for any end of it: "
        f"give one under (), the end of every context"
    )
