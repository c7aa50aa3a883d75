"""Draft from heads that each guess one place ahead: rows that depend on the context, not on the path.

Cai et al. 2024, Medusa, section 2.1.1. The candidates are the Cartesian product of the heads' tokens, so that
any drafter of a draft model drafts from them: its model is one whose row depends on the depth alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from speculative.distribution import Context, Row, RowLike, check_row
from speculative.draft.eagle import eagle
from speculative.draft.proposal import Drafter, Propose
from speculative.oracle import Oracle

Heads = Callable[[Context], Sequence[RowLike] | NDArray[Any]]


def medusa(
    heads: Heads,
    vocab_size: int,
    make_drafter: Callable[[Oracle], Propose],
    *,
    vocabulary: tuple[str, ...] | None = None,
) -> Drafter:
    """Return a drafter that takes the heads' rows of each round for a draft model.

    Parameters
    ----------
    heads : callable
        `heads(context)` -> probabilities, shape (H, V): row i is what head i says of token
        `len(context) + i`, whatever stands between. No rows where there is nothing to say.
    vocab_size : int
        V.
    make_drafter : callable
        Makes a drafter of an oracle. `draft.model`: a chain, each token sampled from its head.
        `partial(draft.best_first, num_nodes=16)`: the sparse tree with the most confidence, anew each
        round. `partial(draft.tree, branching=(4, 3, 2), scheme=draft.top)`: the product of the heads' best
        tokens, whole.
    vocabulary : tuple of str, optional
        What each token stands for.

    Returns
    -------
    Drafter
        The heads are asked once a round, however large the tree; at most H tokens on a path.

    Raises
    ------
    ValueError
        At a call: for rows that are no laws over the vocabulary.

    Notes
    -----
    **Law.** That of the drafter made, for an oracle whose row after i drafted tokens is row i: given the
    tokens before it a sampled token has its head's law, and the best tokens are certain. So every verifier
    that takes such drafts is as lossless on them as on those of a model.
    """
    if not callable(heads) or not callable(make_drafter):
        raise ValueError(
            f"draft.medusa of a {type(heads).__name__} and a {type(make_drafter).__name__}: give "
            "heads(context) -> rows, and what makes a drafter of an oracle, such as draft.model"
        )
    head = partial(_oracle, heads, vocab_size, vocabulary)
    return eagle(head, vocab_size, make_drafter, vocabulary=vocabulary)


def _oracle(
    heads: Heads, vocab_size: int, vocabulary: tuple[str, ...] | None, context: Context
) -> Oracle | None:
    """Return the round's model: of what is drafted behind the context, as far as there are heads."""
    rows = [
        check_row(row, (*context, *("any",) * place), vocab_size) for place, row in enumerate(heads(context))
    ]
    if not rows:
        return None
    return Oracle(partial(_at_depth, rows), vocab_size, None, vocabulary, context_limit=len(rows) - 1)


def _at_depth(rows: list[Row], path: Context) -> Row:
    return rows[len(path)]
