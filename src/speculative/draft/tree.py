"""Draft a tree of a fixed shape: so many siblings at each depth, drawn by any scheme.

The scheme makes it the tree of a paper. `without_replacement`: Jeon et al. 2024, recursive speculative
decoding (RSD-C). `independent`: the k-ary trees of Miao et al. 2024, SpecInfer. `top`: Cai et al. 2024,
Medusa; Li et al. 2024, EAGLE. `top_and_one`: the greedy drafts of Hu et al. 2025. `hub`: the pairs of Sun et
al. 2024, SpecHub.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from speculative._numbers import count
from speculative.draft.grow import grow
from speculative.draft.proposal import Drafter
from speculative.draft.siblings import Scheme, without_replacement
from speculative.oracle.interface import Oracle, check_oracle


def tree(oracle: Oracle, branching: Sequence[int], *, scheme: Scheme = without_replacement) -> Drafter:
    """Return a drafter that draws `branching[d]` siblings below each node of depth d.

    Parameters
    ----------
    oracle : Oracle
        The draft model, warped before.
    branching : sequence of int
        How many siblings are drawn at each depth, each 1 or more. Paths have no more tokens than it has
        numbers, and no more than `num_draft_tokens`.
    scheme : callable
        How siblings are drawn: `without_replacement`, `independent`, `top`, `top_and_one`, `hub`, or one of
        your own.

    Returns
    -------
    Drafter
        Each level is one pass of an oracle that scores trees; another one is called once per node that has
        children. One `pick` a draw, none with `top`. Ends early at the oracle's context limit.

    Raises
    ------
    ValueError
        For numbers that are no counts or none at all, a scheme that is no function, and for anything but an
        oracle.

    Notes
    -----
    **Law.** Given the tokens up to a node, its siblings have the joint law of the scheme for the oracle's row
    there. Fewer are drawn where the scheme has nothing left: where no token with any probability remains, or
    a pair is complete. A token that independent draws repeat leads to one child, below which siblings are
    drawn once.
    """
    check_oracle("draft.tree", oracle)
    if not isinstance(branching, Sequence) or isinstance(branching, str) or not len(branching):
        raise ValueError(
            f"branching = {branching!r}: give the number of siblings by depth, such as (3, 2, 1)"
        )
    widths = tuple(count(f"branching[{depth}]", width) for depth, width in enumerate(branching))
    if not callable(scheme):
        raise ValueError(f"scheme = {scheme!r}: give a function, such as draft.without_replacement")
    propose = partial(grow, oracle=oracle, scheme=scheme, below=partial(_below, widths))
    return Drafter(propose, oracle.vocab_size, oracle.vocabulary)


def _below(widths: tuple[int, ...], depth: int, _: Sequence[None]) -> Sequence[None]:
    """Draw as many siblings as the depth has, however often the node itself was drawn."""
    return [None] * widths[depth] if depth < len(widths) else []
