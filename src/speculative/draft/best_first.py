"""Draft the tree of the most confident paths: expand by cumulative probability, keep the best nodes.

Li et al. 2024, EAGLE-2, section 4 (expansion and reranking). With a beam as wide as the budget it is the tree
of OPT-Tree (Wang et al. 2025): no other one of so many nodes has a larger sum of its paths' probabilities.
"""

from __future__ import annotations

from functools import partial
from itertools import islice

from speculative._numbers import count
from speculative.chance import Chance, Number
from speculative.distribution import Context, Row
from speculative.draft.grow import level_rows, levels
from speculative.draft.proposal import Drafter, DraftTree
from speculative.draft.siblings import Siblings, ranking, top
from speculative.oracle.interface import Oracle, check_oracle


def best_first(oracle: Oracle, num_nodes: int, *, width: int | None = None) -> Drafter:
    """Return a drafter of the `num_nodes` paths that the draft model is most confident of.

    Parameters
    ----------
    oracle : Oracle
        The draft model.
    num_nodes : int
        The budget, the root not counted, 1 or more.
    width : int, optional
        How many nodes are expanded at each depth, and how many children each is given, before the best are
        chosen. `num_nodes` by default, with which nothing is missed.

    Returns
    -------
    Drafter
        At most `num_nodes` nodes. Each level is one pass of an oracle that scores trees, and at most `width`
        calls of another one. No `chance` is asked. Ends early at the oracle's context limit.

    Raises
    ------
    ValueError
        For numbers that are no counts, and for anything but an oracle.

    Notes
    -----
    A path's confidence is the product of its tokens' draft probabilities; of equal ones the shorter path
    comes first, then that of the better parent, then that of the lower token. A node that is not among the
    best so far, or the last of them, is not expanded: nothing below it could be kept.

    **Law.** The draft is a function of the context. A parent has at least the confidence of its children, and
    siblings are in the order of their probabilities: so those that are kept are the first of the ranking,
    which is what `top` declares.
    """
    check_oracle("draft.best_first", oracle)
    num_nodes = count("num_nodes", num_nodes)
    width = num_nodes if width is None else count("width", width)
    return Drafter(partial(_best_first, oracle, num_nodes, width), oracle.vocab_size, oracle.vocabulary)


def _best_first(
    oracle: Oracle, num_nodes: int, width: int, _: Chance, context: Context, num_draft_tokens: int
) -> DraftTree:
    confidence: dict[Context, Number] = {(): 1}  # of each path from the root, parents first
    rows: dict[Context, Row] = {}
    kept: list[Context] = [()]
    for depth in range(levels(oracle, context, num_draft_tokens)):
        least = confidence[kept[-1]] if len(kept) > num_nodes else 0  # no more can be kept, only better ones
        expanded = [path for path in kept if len(path) == depth and confidence[path] > least][:width]
        if not expanded:
            break
        for path, row in zip(expanded, level_rows(oracle, context, expanded), strict=True):
            rows[path] = row
            for token in islice(ranking(row), width):
                value = confidence[path] * min(1, row[token])  # float rows may pass 1
                if value <= least:
                    break
                confidence[(*path, token)] = value
        kept = sorted(confidence, key=confidence.__getitem__, reverse=True)[: num_nodes + 1]
    in_tree = set(kept)
    return _as_tree([path for path in confidence if path in in_tree], rows)


def _as_tree(kept: list[Context], rows: dict[Context, Row]) -> DraftTree:
    """Return the tree of these paths, the root's first, each after its parent and its better siblings."""
    nodes = {path: node for node, path in enumerate(kept)}
    tokens = tuple(path[-1] for path in kept[1:])
    parents = tuple(nodes[path[:-1]] for path in kept[1:])
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents, start=1):
        children.setdefault(parent, []).append(node)
    draws = {
        parent: Siblings(tuple(below), tuple(tokens[node - 1] for node in below), rows[kept[parent]], top)
        for parent, below in children.items()
    }
    return DraftTree(tokens, parents, draws, sampled=True)  # the first of each ranking, by construction
