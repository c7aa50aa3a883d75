"""A draft: proposed tokens, a chain or a tree, each with the law it was drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np

from speculative._numbers import count
from speculative.chance import Chance
from speculative.distribution import Context, Row
from speculative.draft.siblings import Siblings, independent
from speculative.oracle.interface import as_tokens


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens together with the law that each was actually drawn from.

    A chain is a tree of one branch: token i is the child of node i, and node 0 is the context.

    Parameters
    ----------
    tokens : tuple of int, length k
        In order; token i follows the context and tokens[:i].
    probs : sequence of k rows, each (V,)
        Row i is the law token i was drawn from, given the context and tokens[:i]; a point mass for a
        deterministic drafter.

    Raises
    ------
    ValueError
        When a token has no probability in its own row: the declared law is not the one it was drawn from.
    """

    tokens: tuple[int, ...]
    probs: Sequence[Row]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.probs):
            raise ValueError(
                f"Draft of {len(self.tokens)} tokens and {len(self.probs)} rows: give one row a token"
            )
        for position, (token, row) in enumerate(zip(self.tokens, self.probs, strict=True)):
            if not (0 <= token < len(row) and row[token] > 0):
                raise _without_mass(f"drafted token {token} at position {position}", token, row)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """How many drafts the longest path holds."""
        return len(self.tokens)

    @property
    def parents(self) -> tuple[int, ...]:
        """The node that each token follows: the one before it."""
        return tuple(range(len(self.tokens)))

    @property
    def rows(self) -> Sequence[Row]:
        """Every row that drafts were drawn from."""
        return self.probs

    def siblings(self, node: int) -> Siblings | None:
        """Return the one draw below a node, None below the last."""
        if node == len(self.tokens):
            return None
        return Siblings((node + 1,), (self.tokens[node],), self.probs[node], independent)

    def child(self, node: int, token: int) -> int | None:
        """Return the node that `token` leads to from `node`, None where it was not drafted."""
        return node + 1 if node < len(self.tokens) and self.tokens[node] == token else None


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Several drafts at once: tokens that share beginnings, with how the children of each node were drawn.

    Node 0 is the context; tokens[i] is node i + 1. The tokens from the root to a node, one after the other,
    are what the target is asked to judge there.

    Parameters
    ----------
    tokens : tuple of int, length n
        One a node, the root left out.
    parents : tuple of int, length n
        The node each one follows; earlier nodes come first, so parents[i] <= i.
    draws : mapping from node to Siblings
        For each node that has children: the draws they came from. A child that was drawn m times stands there
        m times, and its own subtree was drawn once.
    sampled : bool
        True where each draw was picked from the row of its own scheme, so that it has probability there: the
        laws are then not computed once more to see that. False, the default, checks.

    Raises
    ------
    ValueError
        When the three do not describe one tree, or a token has no probability in the law it was drawn from.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    draws: Mapping[int, Siblings] = field(repr=False)
    sampled: InitVar[bool] = False

    def __post_init__(self, sampled: bool) -> None:
        if len(self.tokens) != len(self.parents):
            raise ValueError(
                f"DraftTree of {len(self.tokens)} tokens and {len(self.parents)} parents: "
                "give one parent a token"
            )
        children: dict[int, dict[int, int]] = {}
        for node, (token, parent) in enumerate(zip(self.tokens, self.parents, strict=True), start=1):
            if not 0 <= parent < node:
                raise ValueError(f"node {node} has parent {parent}: give an earlier node, 0 for the root")
            if children.setdefault(parent, {}).setdefault(token, node) != node:
                raise ValueError(
                    f"node {node} repeats token {token} below node {parent}: "
                    "a token drawn again leads to the same child"
                )
        for parent in children.keys() | self.draws.keys():
            if parent not in self.draws:
                raise ValueError(f"node {parent} has children and no draws: say how they were drawn")
            _check_children(parent, self.draws[parent], children.get(parent, {}))
            if not sampled:
                _check_laws(parent, self.draws[parent])

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """How many drafts the longest path holds."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return max(depths)

    @property
    def rows(self) -> Sequence[Row]:
        """Every row that drafts were drawn from."""
        return [siblings.row for siblings in self.draws.values()]

    @property
    def probs(self) -> Sequence[Row]:
        """A chain has one row a token; a tree has not, so a verifier of chains is told here."""
        raise ValueError(
            "this verifier takes a chain and was given a DraftTree: draft with draft.model, "
            "or use a verifier for trees, such as verify.recursive"
        )

    def siblings(self, node: int) -> Siblings | None:
        """Return the draws below a node, None where there are none."""
        return self.draws.get(node)

    def child(self, node: int, token: int) -> int | None:
        """Return the node that `token` leads to from `node`, None where it was not drafted."""
        siblings = self.draws.get(node)
        if siblings is None or token not in siblings.tokens:
            return None
        return siblings.nodes[siblings.tokens.index(token)]


def _check_children(parent: int, siblings: Siblings, children: Mapping[int, int]) -> None:
    """Raise where draws are not those of a node's children."""
    if dict(zip(siblings.tokens, siblings.nodes, strict=True)) != children:
        raise ValueError(
            f"the draws below node {parent} are tokens {siblings.tokens} at nodes {siblings.nodes}, its "
            f"children {children}: give each draw the child it leads to"
        )


def _check_laws(parent: int, siblings: Siblings) -> None:
    """Raise where draws could not have been made as they declare."""
    for i, token in enumerate(siblings.tokens):
        row = siblings.scheme(siblings.row, siblings.tokens[:i], len(siblings.tokens))
        name = f"drafted token {token}, draw {i} below node {parent},"
        if row is None:
            raise ValueError(f"{name} comes after the last: its scheme has nothing left to draw")
        if not isinstance(row, np.ndarray) or row.shape != siblings.row.shape:
            kind = f"of shape {row.shape}" if isinstance(row, np.ndarray) else f"{row!r}"
            raise ValueError(
                f"{name} has a law {kind}: let its scheme return an array like its row, shape (V,)"
            )
        if not (0 <= token < len(row) and row[token] > 0):
            raise _without_mass(name, token, row)


def _without_mass(name: str, token: int, row: Row) -> ValueError:
    if not 0 <= token < len(row):
        return ValueError(f"{name}: outside the vocabulary of {len(row)}")
    return ValueError(
        f"{name} has probability {row[token]} in its own law: "
        "pass the row it was drawn from, after every warp"
    )


NO_DRAFT = Draft((), ())

Propose = Callable[[Any, Context, int], Draft | DraftTree]
"""`propose(chance, context, num_draft_tokens) -> draft`: what a drafter does."""


@dataclass(frozen=True)
class Drafter:
    """A drafting program with its vocabulary, so that a target of another vocabulary is refused at once.

    Parameters
    ----------
    propose : callable
        `propose(chance, context, num_draft_tokens) -> Draft or DraftTree`, of at most that depth. Its context
        is a tuple of tokens of the vocabulary, and need not be checked.
    vocab_size : int
        V.
    vocabulary : tuple of str, optional
        What each token stands for.
    """

    propose: Callable[[Chance, Context, int], Draft | DraftTree] = field(repr=False)
    vocab_size: int
    vocabulary: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        count("vocab_size", self.vocab_size)

    def __call__(self, chance: Any, context: Context, num_draft_tokens: int) -> Draft | DraftTree:
        """Propose at most `num_draft_tokens` tokens that continue `context`, on each path of a tree.

        Of a context with anything but tokens of the vocabulary, and of a number that is none, a ValueError
        says so. Loops, which have checked both, call `propose`.
        """
        context = as_tokens(context, self.vocab_size)
        return self.propose(chance, context, count("num_draft_tokens", num_draft_tokens, 0))
