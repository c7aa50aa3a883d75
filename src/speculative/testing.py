"""Hypothesis strategies for laws, oracles and instances (needs `hypothesis`, extra `test`).

Rows are rational and hard: zeros, ties, one-hot rows, drafts equal or nearly equal to the target, and
another law after every context.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from hypothesis import strategies as st

from speculative.distribution import Context, Row, rational
from speculative.draft import Drafter, model
from speculative.oracle import Oracle, cached, from_probs

_ROWS = 7  # distinct rows an oracle chooses from by context; prime, so that neighbours differ


class Pair(NamedTuple):
    """A target and a draft model over one vocabulary, with exact rows, and a number of draft tokens."""

    target: Oracle
    draft: Oracle
    num_draft_tokens: int

    @property
    def drafter(self) -> Drafter:
        """The draft model as a drafter."""
        return model(self.draft)


def rows(vocab_size: int) -> st.SearchStrategy[Row]:
    """Return a strategy for exact rows, (V,): small fractions with zeros and ties, and one-hot ones."""
    weights = st.lists(st.integers(0, 5), min_size=vocab_size, max_size=vocab_size).filter(any)
    one_hot = st.integers(0, vocab_size - 1).map(lambda token: [int(i == token) for i in range(vocab_size)])
    return st.one_of(weights, weights, one_hot).map(_normalised)


def near_rows(row: Row) -> st.SearchStrategy[Row]:
    """Return a strategy for rows equal to `row` or a hair away from it, (V,)."""
    shifts = st.lists(st.integers(0, 3), min_size=len(row), max_size=len(row))
    return shifts.map(
        lambda shift: _normalised([p + Fraction(s, 10**9) for p, s in zip(row.tolist(), shift, strict=True)])
    )


@st.composite
def pairs(
    draw: st.DrawFn, *, vocab_sizes: tuple[int, int] = (3, 5), num_draft_tokens: tuple[int, int] = (1, 4)
) -> Pair:
    """Return a strategy for a target, a draft and a draft length.

    Parameters
    ----------
    vocab_sizes, num_draft_tokens : (least, most)
        The ranges drawn from, both ends included.

    Returns
    -------
    strategy of Pair
        Rows depend on the whole context; at each context the draft's row is unrelated to the target's or
        near it.
    """
    vocab_size = draw(st.integers(*vocab_sizes))
    target_rows = draw(st.lists(rows(vocab_size), min_size=_ROWS, max_size=_ROWS))
    draft_rows = [draw(st.one_of(rows(vocab_size), near_rows(row))) for row in target_rows]
    return Pair(
        by_context(target_rows), by_context(draft_rows), num_draft_tokens=draw(st.integers(*num_draft_tokens))
    )


def by_context(some_rows: list[Row]) -> Oracle:
    """Return an oracle that chooses one of the rows by a mix of all tokens and their places."""

    def row(context: Context) -> Row:
        place = 0
        for token in context:
            place = (place * 3 + token + 1) % len(some_rows)
        return some_rows[place]

    return cached(from_probs(row, len(some_rows[0])))


def _normalised(weights: list[Fraction] | list[int]) -> Row:
    whole = sum(weights)
    return rational([Fraction(weight) / whole for weight in weights])
