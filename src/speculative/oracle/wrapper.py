"""Oracles around oracles: with rows changed, kept, or watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from speculative._numbers import Number, number
from speculative.distribution import (
    Context,
    Floats,
    Row,
    RowLike,
    check_row,
    check_rows,
    describe_context,
    is_exact,
    total_variation,
)
from speculative.oracle.interface import Oracle, contexts_after

RowMap = Callable[[Context, Row], RowLike]
RowsMap = Callable[[Floats], Floats]


def map_rows(
    oracle: Oracle, function: RowMap, *, together: RowsMap | None = None, reachable_only: bool = False
) -> Oracle:
    """An oracle whose row is a function of the context and of the given oracle's row.

    Vocabulary, limits and scoring in one pass are kept: warps and penalties are made of this.

    Parameters
    ----------
    oracle : Oracle
        Where the rows come from.
    function : callable
        ``function(context, row)`` -> probabilities, shape (V,): a pure function, which does not write to
        `row`.
    together : callable, optional
        ``together(rows)`` -> what `function` gives for each of the rows of one pass, shape (n, V): used where
        all of them are float64, in the place of n calls.
    reachable_only : bool
        Leave the rows of a score as they are where they follow a drafted token to which `function` gave
        probability zero: for one that has no answer there. See :meth:`Oracle.score`.

    Returns
    -------
    Oracle
        It checks the rows that `function` makes.
    """
    return replace(
        oracle,
        row=partial(_mapped_row, oracle, function),
        score_rows=partial(
            _mapped_rows, oracle=oracle, function=function, together=together, reachable_only=reachable_only
        ),
    )


def _mapped_row(oracle: Oracle, function: RowMap, context: Context) -> Row:
    return _map(function, context, oracle.row(context))


def _mapped_rows(
    context: Context,
    tokens: Context,
    parents: Context,
    *,
    oracle: Oracle,
    function: RowMap,
    together: RowsMap | None,
    reachable_only: bool,
) -> list[Row]:
    rows = oracle.rows_after(context, tokens, parents)
    if together is not None and all(row.dtype == np.float64 for row in rows):
        laws = check_rows(together(np.array(rows)))
        if laws is not None:
            return list(laws)
    contexts = contexts_after(context, tokens, parents)
    for node in reachable(rows, tokens, parents) if reachable_only else range(len(rows)):
        rows[node] = _map(function, contexts[node], rows[node])
    return rows


def _map(function: RowMap, context: Context, row: Row) -> Row:
    mapped = function(context, row)
    return row if mapped is row else check_row(mapped, context, row.size)


def cached(oracle: Oracle) -> Oracle:
    """The same oracle, asked once about each context.

    Parameters
    ----------
    oracle : Oracle
        A pure function of the context.

    Returns
    -------
    Oracle
        It hands out the same row object for a context each time, from a dict that grows with every context:
        made for exact laws and short texts, not for a long decode over a large vocabulary.
    """
    memory = _Cache(oracle)
    return replace(
        oracle, row=memory.row, score_rows=None if oracle.score_rows is None else memory.score_rows
    )


@dataclass
class _Cache:
    oracle: Oracle
    rows: dict[Context, Row] = field(default_factory=dict)

    def row(self, context: Context) -> Row:
        row = self.rows.get(context)
        if row is None:
            row = self.rows[context] = self.oracle.row(context)
        return row

    def score_rows(self, context: Context, tokens: Context, parents: Context) -> list[Row]:
        contexts = contexts_after(context, tokens, parents)
        known = [row for each in contexts if (row := self.rows.get(each)) is not None]
        if len(known) == len(contexts):
            return known
        rows = self.oracle.rows_after(context, tokens, parents)
        for node in reachable(rows, tokens, parents):
            rows[node] = self.rows.setdefault(contexts[node], rows[node])
        return rows


def reachable(rows: Sequence[Row], tokens: Sequence[int], parents: Sequence[int]) -> Iterator[int]:
    """The nodes whose rows can be read: those that no drafted token of probability zero leads to.

    Parameters
    ----------
    rows : sequence of n + 1 ndarrays, each of shape (V,)
        What :meth:`Oracle.score_tree` gives; a row may be changed as soon as its node has come.
    tokens, parents : sequences of n ints
        The tree.

    Yields
    ------
    int
        Nodes in their order, the root first.
    """
    found = {0}
    yield 0
    for node, (token, parent) in enumerate(zip(tokens, parents, strict=True), start=1):
        if parent in found and rows[parent][token] != 0:
            found.add(node)
            yield node


def checked(oracle: Oracle, tolerance: float = 1e-6) -> Oracle:
    """The same oracle, tested at every call for what an oracle promises.

    A row has to be a law, the same one each time its context is asked about, and each row of a score has to
    be the one that its own context gives when asked about alone. So a row that leaks later tokens, rows
    that are shifted by one, a stale cache and hidden randomness are all found, at the first context that
    shows them. For debugging: it asks for every row at least twice and remembers all of them.

    Parameters
    ----------
    oracle : Oracle
        The one to test.
    tolerance : float
        The total variation allowed between float rows that should be equal, for models that round otherwise
        when they compute several positions at once. Exact rows have to be equal.

    Returns
    -------
    Oracle
        Gives the same rows. At a call that shows a fault it raises a ValueError naming the context.

    Raises
    ------
    ValueError
        For a tolerance that is no number of 0 or more.
    """
    test = _Checked(oracle, number("tolerance", tolerance, 0))
    return replace(oracle, row=test.row, score_rows=None if oracle.score_rows is None else test.score_rows)


@dataclass
class _Checked:
    oracle: Oracle
    tolerance: Number
    rows: dict[Context, Row] = field(default_factory=dict)

    def row(self, context: Context) -> Row:
        if context not in self.rows:
            self.rows[context] = check_row(self.oracle.row(context), context, self.oracle.vocab_size)
        first = self.rows[context]
        again = check_row(self.oracle.row(context), context, self.oracle.vocab_size)
        self._compare(again, first, f"the oracle gives two laws after context {describe_context(context)}")
        return first

    def score_rows(self, context: Context, tokens: Context, parents: Context) -> list[Row]:
        scored = self.oracle.score_tree(context, tokens, parents)
        self.oracle.row(context[:1])  # a cache that trusts what it holds answers the rest from other tokens
        contexts = contexts_after(context, tokens, parents)
        rows = [
            check_row(row, each, self.oracle.vocab_size) for row, each in zip(scored, contexts, strict=True)
        ]
        chain = parents == tuple(range(len(tokens)))
        asked = ", ".join(map(describe_context, (context, tokens) if chain else (context, tokens, parents)))
        for node in reachable(rows, tokens, parents):
            self._compare(
                rows[node],
                self.row(contexts[node]),
                f"row {node} of {'score' if chain else 'score_tree'}({asked}) is not the law "
                f"after {describe_context(contexts[node])}",
            )
        return rows

    def _compare(self, row: Row, expected: Row, fault: str) -> None:
        distance = total_variation(row, expected)
        if distance > (0 if is_exact(row) and is_exact(expected) else self.tolerance):
            raise ValueError(
                f"{fault}, total variation {float(distance):.3g}: "
                f"make each row a function of the tokens before it and of nothing else"
            )
