"""Oracles around oracles: with rows changed, kept, or watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from speculative.distribution import (
    Context,
    Row,
    RowLike,
    check_row,
    describe_context,
    is_exact,
    total_variation,
)
from speculative.oracle.interface import Oracle


def map_rows(oracle: Oracle, function: Callable[[Context, Row], RowLike]) -> Oracle:
    """An oracle whose row is a function of the context and of the given oracle's row.

    Vocabulary, limits and scoring in one pass are kept: warps and penalties are made of this.

    Parameters
    ----------
    oracle : Oracle
        Where the rows come from.
    function : callable
        ``function(context, row)`` -> probabilities, shape (V,): a pure function, which does not write to
        `row`.

    Returns
    -------
    Oracle
        It checks the rows that `function` makes.
    """
    one_pass = None if oracle.score_rows is None else partial(_mapped_rows, oracle, function)
    return replace(oracle, row=partial(_mapped_row, oracle, function), score_rows=one_pass)


def _mapped_row(oracle: Oracle, function: Callable[[Context, Row], RowLike], context: Context) -> Row:
    return _map(function, context, oracle.row(context))


def _mapped_rows(
    oracle: Oracle, function: Callable[[Context, Row], RowLike], context: Context, drafted: Context
) -> list[Row]:
    rows = oracle.score(context, drafted)
    return [_map(function, context + drafted[:i], row) for i, row in enumerate(rows)]


def _map(function: Callable[[Context, Row], RowLike], context: Context, row: Row) -> Row:
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

    def score_rows(self, context: Context, drafted: Context) -> list[Row]:
        contexts = [context + drafted[:i] for i in range(len(drafted) + 1)]
        if all(each in self.rows for each in contexts):
            return [self.rows[each] for each in contexts]
        rows = self.oracle.score(context, drafted)
        for i in range(count_reachable(rows, drafted)):
            rows[i] = self.rows.setdefault(contexts[i], rows[i])
        return rows


def count_reachable(rows: Sequence[Row], drafted: Sequence[int]) -> int:
    """How many of the scored rows can be read: those that no drafted token of probability zero precedes.

    Parameters
    ----------
    rows : sequence of k + 1 ndarrays, each of shape (V,)
        What :meth:`Oracle.score` gives.
    drafted : sequence of int
        The k drafted tokens.

    Returns
    -------
    int
        From 1 to k + 1.
    """
    for i, token in enumerate(drafted):
        if rows[i][token] == 0:
            return i + 1
    return len(drafted) + 1


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
    """
    test = _Checked(oracle, tolerance)
    return replace(oracle, row=test.row, score_rows=None if oracle.score_rows is None else test.score_rows)


@dataclass
class _Checked:
    oracle: Oracle
    tolerance: float
    rows: dict[Context, Row] = field(default_factory=dict)

    def row(self, context: Context) -> Row:
        if context not in self.rows:
            self.rows[context] = check_row(self.oracle.row(context), context, self.oracle.vocab_size)
        first = self.rows[context]
        again = check_row(self.oracle.row(context), context, self.oracle.vocab_size)
        self._compare(again, first, f"the oracle gives two laws after context {describe_context(context)}")
        return first

    def score_rows(self, context: Context, drafted: Context) -> list[Row]:
        scored = self.oracle.score(context, drafted)
        self.oracle.row(context[:1])  # a cache that trusts what it holds answers the rest from other tokens
        rows = [check_row(row, context + drafted[:i], self.oracle.vocab_size) for i, row in enumerate(scored)]
        for i in range(count_reachable(rows, drafted)):
            self._compare(
                rows[i],
                self.row(context + drafted[:i]),
                f"row {i} of score({describe_context(context)}, {describe_context(drafted)}) is not the law "
                f"after {describe_context(context + drafted[:i])}",
            )
        return rows

    def _compare(self, row: Row, expected: Row, fault: str) -> None:
        distance = total_variation(row, expected)
        if distance > (0 if is_exact(row) and is_exact(expected) else self.tolerance):
            raise ValueError(
                f"{fault}, total variation {float(distance):.3g}: "
                f"make each row a function of the tokens before it and of nothing else"
            )
