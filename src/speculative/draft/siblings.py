"""How the children of a node are drawn: together, each from its own law given the ones before it.

A scheme is a function `(row, drawn, count) -> row`: the law of the next of `count` siblings, given the
draft's row at their parent and the siblings `drawn` so far; None where nothing is left to draw. The joint law
of all siblings is the product of these rows, so what a verifier needs to know of a draw is the scheme itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from speculative.chance import Chance
from speculative.distribution import Row, conditioned, point_mass

Scheme = Callable[[Row, Sequence[int], int], Row | None]


class Siblings(NamedTuple):
    """The draws below one node of a draft.

    Parameters
    ----------
    nodes : tuple of int
        The child each draw leads to, in the order drawn; a token drawn again leads to the same child again.
    tokens : tuple of int
        The token of each.
    row : ndarray, shape (V,)
        The draft's law after the parent.
    scheme : callable
        How they were drawn from it.
    """

    nodes: tuple[int, ...]
    tokens: tuple[int, ...]
    row: Row
    scheme: Scheme

    def laws(self) -> Iterator[Row]:
        """Yield for each draw the row it was drawn from, given the draws before it."""
        for i in range(len(self.tokens)):
            row = self.scheme(self.row, self.tokens[:i], len(self.tokens))
            assert row is not None  # a draw was made from it, as DraftTree has checked
            yield row

    def distinct(self) -> Siblings:
        """Return independent draws with repeats left out, as draws without replacement; others as they are.

        Given that there is a next distinct token, its law is the row without the tokens before it.
        """
        if self.scheme is not independent:
            return self
        children = dict(zip(self.nodes, self.tokens, strict=True))
        return Siblings(tuple(children), tuple(children.values()), self.row, without_replacement)


def draw_siblings(chance: Chance, scheme: Scheme, row: Row, count: int) -> tuple[int, ...]:
    """Draw up to `count` siblings, (count,); fewer where the scheme has nothing left to draw.

    One `pick` a sibling; the most probable tokens (`top`) are taken without asking.
    """
    if scheme is top:
        return tuple(islice(ranking(row), count))
    drawn: tuple[int, ...] = ()
    while len(drawn) < count and (law := scheme(row, drawn, count)) is not None:
        drawn = (*drawn, chance.pick(law))
    return drawn


def independent(row: Row, drawn: Sequence[int], count: int) -> Row:  # noqa: ARG001 - the same each time
    """Draw each sibling from the row itself, so that a token can come again (SpecInfer, SpecTr)."""
    return row


def without_replacement(row: Row, drawn: Sequence[int], count: int) -> Row | None:  # noqa: ARG001 - a scheme
    """Draw each sibling from the row without those before it (recursive speculative decoding, Sequoia)."""
    taken = list(drawn)
    if not taken or not row[taken].any():
        return row
    weights = row.copy()
    weights[taken] = 0
    total = weights.sum()
    if not total:
        return None
    law: Row = weights / total
    law.setflags(write=False)
    return law


def top(row: Row, drawn: Sequence[int], count: int) -> Row | None:  # noqa: ARG001 - a scheme
    """Take the most probable tokens, the lower token among equals: nothing is drawn (EAGLE-2, Medusa)."""
    left = row.copy()
    left[list(drawn)] = 0
    best = int(left.argmax())
    return point_mass(best, len(row)) if left[best] > 0 else None


def top_and_one(row: Row, drawn: Sequence[int], count: int) -> Row | None:
    """Draw a sibling from all but the `count` - 1 most probable tokens, then take those (Hu et al. 2025)."""
    if drawn:
        return top(row, drawn, count) if len(drawn) < count else None
    kept = np.ones(len(row), dtype=bool)
    kept[list(islice(ranking(row), count))[:-1]] = False
    return conditioned(row, kept)


def hub(row: Row, drawn: Sequence[int], count: int) -> Row | None:
    """Draw two siblings, one of them always the most probable token (Sun et al. 2024, SpecHub, section 4).

    The first is drawn from the row. Where it is not the most probable token, that token is the second;
    where it is, the second is drawn from the rest.
    """
    if len(drawn) == 2 or (drawn and count == 1):
        return None
    best = int(row.argmax())
    if not drawn:
        return row
    return without_replacement(row, drawn, count) if drawn[0] == best else point_mass(best, len(row))


def ranking(row: Row) -> Iterator[int]:
    """Yield the tokens that have any probability, the most probable first, the lower one among equals."""
    left = row.copy()
    while left[token := int(left.argmax())] > 0:
        yield token
        left[token] = 0
