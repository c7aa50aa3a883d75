"""Draft from a head that is asked anew each round: a small model on what the target knew at its start.

Li et al. 2024, EAGLE, section 4: the head reads the target's hidden states up to the context's end, and its
own guesses of them behind it. So what it says of a token depends on where the round began.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from speculative.chance import Chance
from speculative.distribution import Context
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter, DraftTree, Propose
from speculative.oracle import Oracle


def eagle(
    head: Callable[[Context], Oracle | None],
    vocab_size: int,
    make_drafter: Callable[[Oracle], Propose],
    *,
    vocabulary: tuple[str, ...] | None = None,
) -> Drafter:
    """Return a drafter whose draft model is another one each round.

    Parameters
    ----------
    head : callable
        `head(context)` -> the round's model, an oracle of what is drafted behind the context alone: the law
        of the first draft is its row at `()`. None where there is nothing to draft from.
    vocab_size : int
        V.
    make_drafter : callable
        Makes a drafter of an oracle. `draft.model`: a chain, each token sampled (EAGLE).
        `partial(draft.best_first, num_nodes=24, width=8)`: the dynamic tree (EAGLE-2). Any other of the draft
        trees will do.
    vocabulary : tuple of str, optional
        What each token stands for.

    Returns
    -------
    Drafter
        The head is made once a round, and asked as the drafter made asks its model.

    Raises
    ------
    ValueError
        For a head or a maker that cannot be called.

    Notes
    -----
    **Law.** That of the drafter made, for the round's oracle, a function of the context. So every verifier
    that takes such drafts is as lossless on them as on those of a model.
    """
    if not callable(head) or not callable(make_drafter):
        raise ValueError(
            f"draft.eagle of a {type(head).__name__} and a {type(make_drafter).__name__}: give "
            "head(context) -> oracle, and what makes a drafter of an oracle, such as draft.model"
        )
    return Drafter(partial(_draft, head, make_drafter), vocab_size, vocabulary)


def _draft(
    head: Callable[[Context], Oracle | None],
    make_drafter: Callable[[Oracle], Propose],
    chance: Chance,
    context: Context,
    num_draft_tokens: int,
) -> Draft | DraftTree:
    oracle = head(context)
    return NO_DRAFT if oracle is None else make_drafter(oracle)(chance, (), num_draft_tokens)
