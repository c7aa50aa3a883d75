"""Draft from the target itself: n-grams that its Jacobi iterations on a window of guesses have left behind.

Fu et al. 2024, lookahead decoding, sections 3.1 to 3.3. The window is a tree of tokens like any other, so it
goes into the draft, and the round's one pass computes the iteration together with the verification.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from speculative._numbers import count
from speculative.chance import Chance
from speculative.distribution import Context
from speculative.draft.proposal import Drafter, DraftTree
from speculative.draft.siblings import Siblings, top
from speculative.oracle.interface import Oracle, check_oracle


def lookahead(oracle: Oracle, *, window: int = 5, ngram: int = 3, guesses: int = 5) -> Drafter:
    """Return a drafter with a window of guesses and a pool of n-grams, which go with one text.

    Parameters
    ----------
    oracle : Oracle
        The target, through `keep_last_pass`: it is asked for the pass that the round before has made. Without
        that a round costs a second pass. A temperature changes none of its answers.
    window : int
        W, the number of places that are guessed at, side by side; the first is that of the next token.
    ngram : int
        N, 2 or more: an n-gram is N - 1 rounds' guesses for places in a row, after the token they began at.
    guesses : int
        G, the most n-grams verified in a round, the latest that begin with the last token.

    Returns
    -------
    Drafter
        A tree of at most G (N - 1) + W - 1 + W (N - 2) nodes: the n-grams, and the window, whose guesses may
        be accepted too. Its paths have up to W + N - 3 tokens; where `num_draft_tokens` is less, columns
        of the window that are cut off wait. No `chance` is asked. Nothing is drafted of an empty context.

    Raises
    ------
    ValueError
        For numbers that are no counts, and for anything but an oracle.

    Notes
    -----
    **State.** The pool and the window grow with the text, from round to round: a drafter goes with one
    `generate`. Enumerate a program that makes its own, `lambda chance: generate(chance, target,
    lookahead(target), ...)`. Given a text that does not continue the last one, the window begins anew and the
    pool is kept.

    **Law.** At each round the draft is a function of the rounds before, so that every law is a point mass
    whatever the pool holds: the output has the target's law, and a stale pool costs acceptance only.
    """
    check_oracle("draft.lookahead", oracle)
    ngram = count("ngram", ngram, 2)
    drafter = _Lookahead(oracle, count("window", window), ngram, count("guesses", guesses, 0))
    return Drafter(drafter.propose, oracle.vocab_size, oracle.vocabulary)


class _Pass(NamedTuple):
    """What a round's pass was asked about: the tree, and the window in it."""

    context: Context
    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    columns: list[Context]
    ends: list[int | None]  # the node of each column's last token, None where it was cut off


@dataclass
class _Lookahead:
    oracle: Oracle
    window: int
    ngram: int
    guesses: int
    pool: dict[int, dict[Context, None]] = field(default_factory=dict)  # by first token, the latest last
    last: _Pass | None = None

    def propose(self, _: Chance, context: Context, num_draft_tokens: int) -> DraftTree:
        if not context:
            return DraftTree((), (), {})
        columns = self.iterate(context)
        columns[0] = (context[-1], *columns[0][1:])
        nodes: dict[Context, int] = {(): 0}
        for following in list(self.pool.get(context[-1], {}))[::-1][: self.guesses]:
            _add(nodes, following[:num_draft_tokens])
        ends: list[int | None] = []
        heads = tuple(column[0] for column in columns[1:])
        for place, column in enumerate(columns):
            path = heads[:place] + column[1:]
            end = _add(nodes, path[:num_draft_tokens])
            ends.append(end if len(path) <= num_draft_tokens else None)
        draft = _certain(nodes, self.oracle.vocab_size)
        self.last = _Pass(context, draft.tokens, draft.parents, columns, ends)
        return draft

    def iterate(self, context: Context) -> list[Context]:
        """Return the window's columns: that of the round before, one Jacobi iteration on, at its new place.

        A column has N - 1 tokens, the guess for its place and those of later rounds for the places after it.
        New ones, at the beginning and where the text took several steps, are taken from the text.
        """
        columns: dict[int, Context] = {}
        if self.last is not None and context[: len(self.last.context)] == self.last.context:
            before, tokens, parents, window, ends = self.last
            rows = self.oracle.rows_after(before, tokens, parents)
            shift = len(before) - len(context)  # to the place after the tokens that came since
            for place, (column, end) in enumerate(zip(window, ends, strict=True), shift):
                if end is None:
                    columns.setdefault(place, column)
                    continue
                ngram = (*column, int(rows[end].argmax()))
                self.keep(ngram)
                columns[place + 1] = ngram[1:]
        size = self.ngram - 1
        for place in range(self.window):
            if place not in columns:  # as the last tokens went on
                columns[place] = tuple(context[(place - self.window + i) % len(context)] for i in range(size))
        return [columns[place] for place in range(self.window)]

    def keep(self, ngram: Context) -> None:
        """Put an n-gram into the pool as the latest of its first token; the oldest of too many is dropped."""
        known = self.pool.setdefault(ngram[0], {})
        known.pop(ngram[1:], None)
        known[ngram[1:]] = None
        if len(known) > self.guesses:
            del known[next(iter(known))]


def _add(nodes: dict[Context, int], path: Context) -> int:
    """Give a path and its beginnings nodes, where they have none; return its node."""
    for end in range(1, len(path) + 1):
        nodes.setdefault(path[:end], len(nodes))
    return nodes[path]


def _certain(nodes: dict[Context, int], vocab_size: int) -> DraftTree:
    """Return the tree of these paths, the siblings equally likely and therefore in the order of tokens."""
    paths = [path for path in nodes if path]
    parents = tuple(nodes[path[:-1]] for path in paths)
    children: dict[int, dict[int, int]] = {}
    for path, parent in zip(paths, parents, strict=True):
        children.setdefault(parent, {})[path[-1]] = nodes[path]
    draws = {parent: _siblings(sorted(below.items()), vocab_size) for parent, below in children.items()}
    return DraftTree(tuple(path[-1] for path in paths), parents, draws, sampled=True)


def _siblings(below: Iterable[tuple[int, int]], vocab_size: int) -> Siblings:
    tokens, nodes = zip(*below, strict=True)
    row = np.zeros(vocab_size)
    row[list(tokens)] = 1 / len(tokens)
    row.setflags(write=False)
    return Siblings(nodes, tokens, row, top)
