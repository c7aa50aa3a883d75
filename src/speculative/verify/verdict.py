"""What a verifier decides."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """The outcome of one round: the tokens it emits, and how many of them are accepted drafts.

    Parameters
    ----------
    tokens : tuple of int
        The accepted drafts and one more: from the residual after a rejection, from the target's last row (the
        bonus) when every draft was accepted.
    accepted : int
        How many drafts were accepted: `len(tokens) - 1`.
    """

    tokens: tuple[int, ...]
    accepted: int
