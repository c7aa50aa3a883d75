"""Recursive rejection: try the siblings one after the other, each against what the ones before it left.

With replacement: Miao et al. 2024, SpecInfer, algorithm 2 (multi-step speculative sampling). Without: Jeon et
al. 2024, recursive speculative decoding; EAGLE-1 and Sequoia do the same. Deterministic siblings: EAGLE-2.
Greedy drafts: Hu et al. 2025. They differ in how siblings are drawn, which the draft itself says: each
sibling is tested against the law it was drawn from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft, DraftTree
from speculative.draft.siblings import Siblings
from speculative.verify.plan import Step, refused, walk
from speculative.verify.verdict import Verdict


def recursive_plan(siblings: Siblings, target: Row) -> Iterator[Step]:
    """Accept each sibling with probability min(1, left / law), where `left` starts as the target.

    Parameters
    ----------
    siblings : Siblings
        The draws below a node.
    target : ndarray, shape (V,)
        Weights of sum 1 at most; see `Plan`.

    Yields
    ------
    child, acceptance
    """
    left = target
    for child, token, law in zip(siblings.nodes, siblings.tokens, siblings.laws(), strict=True):
        if left[token] > 0:
            yield child, min(1, left[token] / law[token])
        left = refused(left, law)
    yield None, left


def distinct_plan(siblings: Siblings, target: Row) -> Iterator[Step]:
    """Do as `recursive_plan`, with independent draws taken as draws without replacement; see there."""
    return recursive_plan(siblings.distinct(), target)


def recursive(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Go down the tree; at each node accept a sibling against what is left of the target, or draw from that.

    Parameters
    ----------
    chance : Chance
        One `flip` per sibling tried, one `pick` at the end.
    draft : DraftTree or Draft
        Siblings drawn in any way that it declares. On a chain this is `token`.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** The target's. For greedy drafts (`top_and_one`) a step accepts with the highest probability that
    any rule reaches on such drafts; for independent ones it is below that (see `transport`).
    """
    return _recursive(chance, draft, target_probs)


def recursive_distinct(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Do as `recursive`, but try a token only once: independent draws count as draws without replacement.

    Parameters and the result are those of `recursive`.

    Notes
    -----
    **Law.** The target's. On independent drafts neither rule is always the better one.
    """
    return _distinct(chance, draft, target_probs)


_recursive, _distinct = walk(recursive_plan), walk(distinct_plan)
