"""SpecHub: two drafts, one of which is always the draft's most probable token, the hub.

Sun et al. 2024, "SpecHub: Provable acceleration to multi-draft speculative decoding", section 4. The scheme
`hub` draws them; the four steps here verify them. Greedy drafts (Hu et al. 2025) of two siblings are accepted
as often, by `recursive` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from speculative.chance import Chance
from speculative.distribution import Row, excess
from speculative.draft.proposal import Draft, DraftTree
from speculative.draft.siblings import Siblings, hub
from speculative.verify.plan import Step, walk, when_refused
from speculative.verify.recursive import recursive_plan
from speculative.verify.verdict import Verdict


def spechub(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Go down the tree; at each node try the token beside the hub, then the hub, or draw from the residual.

    Parameters
    ----------
    chance : Chance
        One `flip` per sibling tried, one `pick` at the end.
    draft : DraftTree or Draft
        Siblings drawn by the scheme `hub`; a single draw may come from any.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i.

    Returns
    -------
    Verdict

    Raises
    ------
    ValueError
        For two or more siblings of another scheme.

    Notes
    -----
    **Law.** The target's. A step accepts with the highest probability that any rule reaches on such drafts.
    """
    return _spechub(chance, draft, target_probs)


def spechub_plan(siblings: Siblings, target: Row) -> Iterator[Step]:
    """Accept the other token for what it is short of, then the hub for the draws that are left.

    Parameters
    ----------
    siblings : Siblings
        The pair (token, hub) or (hub, token), in the order drawn; a single draw where there is no pair.
    target : ndarray, shape (V,)
        Weights of sum 1 at most; see `Plan`.

    Yields
    ------
    child, acceptance
    """
    if len(siblings.tokens) == 1:  # the only token there is, or the only one asked for
        yield from recursive_plan(siblings, target)
        return
    if siblings.scheme is not hub:
        raise ValueError(
            f"spechub was given {len(siblings.tokens)} siblings that the scheme hub did not draw: draft with "
            "draft.tree(oracle, (2, 2), scheme=draft.hub), or use verify.recursive"
        )
    best = int(siblings.row.argmax())
    hub_second = _without(siblings.row, best)  # (V,), the probability of the pair (i, hub) for each i
    hub_first = siblings.row[best] * (hub_second / hub_second.sum())  # of (hub, i)
    wanted = _without(target, best)
    still = excess(wanted, hub_second)  # step 1: (i, hub) gives i what it can
    left = excess(still, hub_first)  # step 2: so does (hub, i)
    idle_first = excess(hub_first, still).sum()
    idle_second = excess(hub_second, wanted).sum()
    from_first = min(target[best], idle_first)  # step 3: (hub, i), refused for i, goes to the hub
    from_second = min(target[best] - from_first, idle_second)  # step 4: so does (i, hub)
    left[best] = target[best] - from_first - from_second
    children = dict(zip(siblings.tokens, siblings.nodes, strict=True))
    (other,) = children.keys() - {best}
    need, drawn, share, idle = (
        (still, hub_first, from_first, idle_first)
        if siblings.tokens[0] == best
        else (wanted, hub_second, from_second, idle_second)
    )
    yield children[other], min(1, need[other] / drawn[other])
    if share > 0:
        yield children[best], share / idle
    yield None, when_refused(target, left)


def _without(row: Row, token: int) -> Row:
    return np.where(np.arange(len(row)) == token, 0 * row[token], row)


_spechub = walk(spechub_plan)
