"""What tree drafters share: a tree grown level by level from an oracle, siblings drawn by one scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from speculative.chance import Chance
from speculative.distribution import Context, Row
from speculative.draft.proposal import DraftTree
from speculative.draft.siblings import Scheme, Siblings, draw_siblings
from speculative.oracle import Oracle

Below = Callable[[int, Sequence[Any]], Sequence[Any]]
"""`below(depth, visits)` says how many siblings to draw below a node, and hands something to each draw.

`visits` is what was handed to the draws that led to the node: one thing, or several where independent draws
repeated a token. What it returns has one thing for each draw below.
"""


def grow(
    chance: Chance,
    context: Context,
    num_draft_tokens: int,
    *,
    oracle: Oracle,
    scheme: Scheme,
    below: Below,
    root: Any = None,
) -> DraftTree:
    """Draw a tree of at most `num_draft_tokens` levels, the siblings of each node together.

    Parameters
    ----------
    chance : Chance
        One `pick` a draw; none where the scheme is `top`.
    context : tuple of int
        The root.
    num_draft_tokens : int
        The most tokens on a path; fewer at the oracle's context limit.
    oracle : Oracle
        Asked once about each node that draws are made below, a whole level together; see `level_rows`.
    scheme : callable
        How siblings are drawn from the oracle's row.
    below : callable
        See `Below`.
    root : object
        What is handed to the root.

    Returns
    -------
    DraftTree
        A node has fewer children than draws where a token was repeated, and fewer draws than asked for where
        the scheme had nothing left to draw.

    Notes
    -----
    **Law.** Given the tokens up to a node, the draws below it have the joint law of the scheme for the
    oracle's row there. How many they are depends on tokens already kept, never on a token that is then
    dropped, and the subtrees of two siblings are drawn apart.
    """
    tokens: list[int] = []
    parents: list[int] = []
    draws: dict[int, Siblings] = {}
    level: dict[int, tuple[Context, list[Any]]] = {0: ((), [root])}
    for depth in range(levels(oracle, context, num_draft_tokens)):
        handed = {node: given for node, (_, visits) in level.items() if (given := below(depth, visits))}
        if not handed:
            break
        rows = level_rows(oracle, context, [level[node][0] for node in handed])
        following: dict[int, tuple[Context, list[Any]]] = {}
        for (node, given), row in zip(handed.items(), rows, strict=True):
            drawn = draw_siblings(chance, scheme, row, len(given))
            children: dict[int, int] = {}
            for token, visit in zip(drawn, given, strict=False):
                if token not in children:
                    tokens.append(token)
                    parents.append(node)
                    children[token] = len(tokens)
                    following[len(tokens)] = (*level[node][0], token), []
                following[children[token]][1].append(visit)
            draws[node] = Siblings(tuple(children[token] for token in drawn), drawn, row, scheme)
        level = following
    return DraftTree(tuple(tokens), tuple(parents), draws, sampled=True)


def level_rows(oracle: Oracle, context: Context, paths: Sequence[Context]) -> list[Row]:
    """Return the oracle's rows after the context and each of some paths, in one pass where it has passes.

    Parameters
    ----------
    oracle : Oracle
        Scored once, on the tree of these paths, where it scores trees; a single path is a call.
    context : tuple of int
        The tokens before all of them.
    paths : sequence of tuples of int
        One or more, each another one: a level of a tree.

    Returns
    -------
    list of ndarrays, each of shape (V,)
    """
    if len(paths) == 1 or oracle.score_rows is None:
        return [oracle.row(context + path) for path in paths]
    nodes: dict[Context, int] = {(): 0}
    parents: list[int] = []
    for path in paths:
        for end in range(1, len(path) + 1):
            if path[:end] not in nodes:
                parents.append(nodes[path[: end - 1]])
                nodes[path[:end]] = len(parents)
    rows = oracle.rows_after(context, [path[-1] for path in nodes if path], parents)
    return [rows[nodes[path]] for path in paths]


def levels(oracle: Oracle, context: Context, num_draft_tokens: int) -> int:
    """Return how many tokens can be drafted on a path: as many as asked for, or the context limit allows."""
    if oracle.context_limit is None:
        return num_draft_tokens
    return max(0, min(num_draft_tokens, oracle.context_limit + 1 - len(context)))
