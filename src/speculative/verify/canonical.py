"""Canonical decomposition: choose one sibling, then judge it as token verification judges a single draft.

Khisti et al. 2025, "Multi-draft speculative sampling: canonical decomposition and theoretical limits":
importance-weighted selection, and a tournament of pairs for more than two drafts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from speculative.chance import Chance, Number
from speculative.distribution import Row
from speculative.draft.proposal import Draft, DraftTree
from speculative.draft.siblings import Siblings, independent
from speculative.verify.flow import Group, largest_flow
from speculative.verify.plan import Step, in_turn, refused, walk
from speculative.verify.transport_program import MAX_VARIABLES
from speculative.verify.verdict import Verdict

Weights = dict[Group, dict[int, Number]]
"""weights[group][token]: the probability of choosing `token` where the two siblings are those of `group`."""


def canonical(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Go down the tree; at each node choose one of the siblings and accept it by min(1, target / its law).

    Parameters
    ----------
    chance : Chance
        One `flip` per sibling up to the accepted one, one `pick` at the end.
    draft : DraftTree or Draft
        Siblings drawn independently, over a small vocabulary. On a chain this is `token`.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i.

    Returns
    -------
    Verdict

    Raises
    ------
    ValueError
        For siblings drawn otherwise, or over a large vocabulary: a choice has V² variables, which take half a
        second at V = 60. `transport` accepts no less and sorts instead.

    Notes
    -----
    **Law.** The target's, whatever the weights of the choice are, since the law of the chosen token is known.
    For two siblings the weights are the best there are, and a step accepts as often as any rule can
    (theorem 1 there); for more, the tournament may accept less.
    """
    return _canonical(chance, draft, target_probs)


def canonical_plan(siblings: Siblings, target: Row) -> Iterator[Step]:
    """Choose a sibling pair by pair, then accept it with probability min(1, target / law of the chosen).

    Parameters
    ----------
    siblings : Siblings
        Independent draws below a node.
    target : ndarray, shape (V,)
        Weights of sum 1 at most; see `Plan`.

    Yields
    ------
    child, acceptance

    Raises
    ------
    ValueError
        See `canonical`.
    """
    if siblings.scheme is not independent:
        raise ValueError(
            f"verify.canonical takes independent siblings and was given {siblings.scheme.__name__}: "
            "use verify.recursive or verify.transport"
        )
    choice: dict[int, Number] = dict.fromkeys(siblings.tokens[:1], 1)
    law, folds = _folds(len(siblings.tokens), *siblings.row.tolist(), *target.tolist())
    for token, weights in zip(siblings.tokens[1:], folds, strict=True):
        choice = _chosen(choice, token, weights)
    shares = {i: share * min(1, target[i] / law[i]) for i, share in choice.items() if share > 0}
    yield from in_turn({siblings.nodes[siblings.tokens.index(i)]: share for i, share in shares.items()})
    yield None, refused(target, law)


def _chosen(choice: Mapping[int, Number], token: int, weights: Weights) -> dict[int, Number]:
    """Return with which probability each sibling is chosen, once `token` has been compared.

    None is where the probability of the pair is too small for a float.
    """
    chosen: dict[int, Number] = {}
    for before, share in choice.items():
        if share > 0:
            for i, weight in weights.get(_group(before, token), {}).items():
                chosen[i] = chosen.get(i, 0) + share * weight
    return chosen


@lru_cache(maxsize=1024, typed=True)  # typed: 1/2 and 0.5 are equal keys, and not the same weights
def _folds(count: int, *numbers: Number) -> tuple[Row, list[Weights]]:
    """Return the law of the token that is left after `count` - 1 choices, and the weights of each."""
    row, target = np.array(numbers[: len(numbers) // 2]), numbers[len(numbers) // 2 :]
    law, folds = row, []
    for _ in range(count - 1):
        weights, law = _fold(law, row, target)
        folds.append(weights)
    return law, folds


def _fold(chosen: Row, row: Row, target: Sequence[Number]) -> tuple[Weights, Row]:
    """Solve the choice between a token drawn from `chosen` and one drawn from `row`."""
    tokens = np.flatnonzero(row).tolist()
    if 2 * len(tokens) ** 2 > MAX_VARIABLES:
        raise ValueError(
            f"verify.canonical over {len(tokens)} tokens chooses with {2 * len(tokens) ** 2} variables, more "
            f"than {MAX_VARIABLES}: use verify.transport"
        )
    supplies: dict[Group, Number] = {}
    for first, second in product(tokens, tokens):
        group, supply = _group(first, second), chosen[first] * row[second]
        supplies[group] = supplies.get(group, 0) + supply
    sent = largest_flow(supplies, target).sent
    weights: Weights = {}
    law = 0 * row
    for group, supply in supplies.items():
        if supply > 0:
            unsent = supply - sum(sent[group].values())
            rest = unsent / len(group) if unsent > 0 else 0  # to either: both have enough
            weights[group] = {i: (amount + rest) / supply for i, amount in sent[group].items()}
            for i, weight in weights[group].items():
                law[i] += supply * weight
    return weights, law


def _group(first: int, second: int) -> Group:
    return tuple(sorted({first, second}))


_canonical = walk(canonical_plan)
