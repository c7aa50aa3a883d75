"""Draft a tree of the shape that is best for given acceptance rates, its siblings drawn without replacement.

Chen et al. 2024, Sequoia, section 3. The shape is found in `speculative.draft.shape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from speculative._numbers import Number, count
from speculative.chance import Chance
from speculative.distribution import Context
from speculative.draft.grow import grow, levels
from speculative.draft.proposal import Drafter, DraftTree
from speculative.draft.shape import check_rates, sequoia_shape
from speculative.draft.siblings import without_replacement
from speculative.oracle.interface import Oracle, check_oracle


def sequoia(oracle: Oracle, rates: Sequence[Number], num_nodes: int) -> Drafter:
    """Return a drafter of the tree that `sequoia_shape` finds, its siblings drawn without replacement.

    Parameters
    ----------
    oracle : Oracle
        The draft model, warped before.
    rates, num_nodes
        As for `sequoia_shape`; `num_draft_tokens` is the most drafts on a path.

    Returns
    -------
    Drafter
        Each level is one pass of an oracle that scores trees; another one is called once per node that has
        children. One `pick` a node. The shape is computed once for each depth that is asked for.

    Raises
    ------
    ValueError
        As `sequoia_shape` does, for no rates at all, and for anything but an oracle.

    Notes
    -----
    **Law.** Given the tokens up to a node, its children are drawn one after the other from the oracle's row
    without those before. The shape is known before anything is drawn; where a row has fewer tokens with any
    probability than the shape has children, the later ones are left out with their subtrees.
    """
    check_oracle("draft.sequoia", oracle)
    rates, num_nodes = check_rates(rates), count("num_nodes", num_nodes)
    if not rates:
        raise ValueError("rates are empty, so that nothing is drafted: give one for each sibling, (0.7, 0.2)")
    propose = partial(_sequoia, oracle, (num_nodes, *rates))
    return Drafter(propose, oracle.vocab_size, oracle.vocabulary)


def _sequoia(
    oracle: Oracle, shape: tuple[Any, ...], chance: Chance, context: Context, num_draft_tokens: int
) -> DraftTree:
    children = _children(levels(oracle, context, num_draft_tokens), *shape)
    return grow(
        chance,
        context,
        num_draft_tokens,
        oracle=oracle,
        scheme=without_replacement,
        below=partial(_below, children),
        root=0,
    )


def _below(children: Sequence[Sequence[int]], _: int, visits: Sequence[int]) -> Sequence[int]:
    """Hand to each draw below a node its own place in the shape."""
    return children[visits[0]]


@lru_cache(maxsize=64, typed=True)  # Fractions and floats of one value are two sets of rates
def _children(max_depth: int, num_nodes: int, *rates: Number) -> tuple[tuple[int, ...], ...]:
    """Return the children of each node of the shape."""
    parents = sequoia_shape(rates, num_nodes, max_depth).parents
    children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for node, parent in enumerate(parents, start=1):
        children[parent].append(node)
    return tuple(map(tuple, children))
