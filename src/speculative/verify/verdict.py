"""What a verifier decides."""

from __future__ import annotations

from typing import NamedTuple

from speculative.chance import Number


class Carried(NamedTuple):
    """A change of the target that outlives the round it was made in (see `greedy_block`).

    Parameters
    ----------
    positions : int
        How many of the next tokens it holds for.
    target, draft : number
        The joint probabilities of what was emitted under the change, by the target and by the draft, divided
        by the larger of them: nothing overflows.
    """

    positions: int
    target: Number
    draft: Number


class Verdict(NamedTuple):
    """The outcome of one round: the tokens it emits, and how many of them are accepted drafts.

    Parameters
    ----------
    tokens : tuple of int
        The accepted drafts, a path of the tree from its root, and one more: drawn from the residual where
        drafts were rejected, from the target's row (the bonus) where no draft was left to judge.
    accepted : int
        How many drafts were accepted: `len(tokens) - 1`, the depth of the path that is kept. A drafted token
        counts however it was emitted: accepted by a test, or drawn from a residual and found in the tree.
    carried : tuple of Carried
        What the verifier is to be given in the next round, the oldest change first; empty for almost all.
    """

    tokens: tuple[int, ...]
    accepted: int
    carried: tuple[Carried, ...] = ()
