"""Greedy multi-path block verification: rank the drafted paths, and judge the top one as a block.

Thomas and Pal 2026, greedy multi-path block verification (GBV). The top one of K paths has another law than
each of them: a skewed one, towards what the target wants more. Block verification is exact for any law.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from speculative.chance import Chance
from speculative.distribution import Row, normalised
from speculative.draft.proposal import Draft, DraftTree
from speculative.draft.siblings import Siblings, independent
from speculative.verify.block import block
from speculative.verify.verdict import Verdict


def multipath(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Verify the path that ranks highest as a block drawn from the law of the highest of K.

    Parameters
    ----------
    chance : Chance
        As for `block`.
    draft : DraftTree or Draft
        K independent paths, by `draft.paths`; a trunk before them is allowed.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i.

    Returns
    -------
    Verdict

    Raises
    ------
    ValueError
        For siblings that were not drawn independently, and for a node on the top path that has not one draw
        for each path that leads to it.

    Notes
    -----
    At each node tokens are ranked by target / draft, equal ones by their number, so that no two tokens rank
    the same; paths are ranked by their first difference. A weak order will not do: the law of the top path
    must be that of the choice which is made.

    **Law.** The target's. With one path it is `block`. With more it mostly accepts more drafts, but not
    always: the other paths are not looked at (see `traversal`).
    """
    path = list(_top_path(draft, target_probs))
    chain = Draft(tuple(token for _, token, _ in path), [row for _, _, row in path])
    return block(chance, chain, [target_probs[0], *(target_probs[node] for node, _, _ in path)])


def _top_path(draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Iterator[tuple[int, int, Row]]:
    """Yield the nodes of the top path with their tokens and the laws that the top path has there."""
    node, through = 0, 1  # where we are, and how many paths are
    count = 1  # how many there are in all; a trunk is one
    lower, here = 0, 1  # a path that ranks no higher than those here: probabilities that it is lower, or here
    while (siblings := draft.siblings(node)) is not None:
        count = _check(siblings, node, count, through)
        row = next(siblings.laws())
        order = _ranked(row, target_probs[node])
        if count == 1 or len(order) == 1:
            token, skewed = siblings.tokens[0], row
        else:
            drafted = row[order]
            upto = lower + here * np.cumsum(drafted)  # a path's probability to rank up to each token
            below = np.concatenate(([lower], upto[:-1]))
            weights = np.zeros_like(row)
            weights[order] = drafted * power_difference(upto, below, count)
            skewed = normalised(weights)
            at = int(np.isin(order, siblings.tokens).nonzero()[0][-1])
            token, lower, here = int(order[at]), below[at] / upto[at], here * drafted[at] / upto[at]
        node = siblings.nodes[siblings.tokens.index(token)]
        through = siblings.nodes.count(node)
        yield node, token, skewed


def _check(siblings: Siblings, node: int, count: int, through: int) -> int:
    """Return how many paths there are from `node` on, or raise where the draws are not theirs."""
    drawn = len(siblings.tokens)
    if drawn > 1 and siblings.scheme is not independent:
        raise ValueError(
            f"multipath was given {drawn} siblings that were not drawn independently: draft with "
            "draft.paths, or use verify.traversal"
        )
    if drawn != through and count > 1:
        raise ValueError(
            f"multipath was given {through} paths through node {node} and {drawn} draws below it: draft "
            "whole paths with draft.paths, or use verify.traversal"
        )
    return drawn if count == 1 else count


def _ranked(draft: Row, target: Row) -> NDArray[np.intp]:
    """Return the tokens that can be drafted, by target / draft and then by number, the lowest first."""
    tokens = np.flatnonzero(draft)
    return tokens[np.argsort(target[tokens] / draft[tokens], kind="stable")]


def power_difference(upto: Row, below: Row, count: int) -> Row:
    """Return (upto^count - below^count) / (upto - below) as the sum it is, without a difference."""
    total, power = np.ones_like(upto), np.ones_like(upto)
    for _ in range(count - 1):
        power = power * below
        total = total * upto + power
    return total
