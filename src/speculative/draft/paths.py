"""Draft several independent chains of one model, merged where they begin alike.

Sun et al. 2023, SpecTr (k i.i.d. drafts); Miao et al. 2024, SpecInfer. One chain before the branches is
delayed expansion (Thomas et al. 2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from speculative._numbers import count
from speculative.draft.grow import grow
from speculative.draft.proposal import Drafter
from speculative.draft.siblings import independent
from speculative.oracle.interface import Oracle, check_oracle


def paths(oracle: Oracle, num_paths: int, *, trunk: int = 0) -> Drafter:
    """Return a drafter of `num_paths` independent chains as one tree.

    Parameters
    ----------
    oracle : Oracle
        The draft model, warped before.
    num_paths : int
        K, 1 or more.
    trunk : int
        How many tokens are drawn once, for all paths together, before they part. The path is
        `num_draft_tokens` long with its trunk.

    Returns
    -------
    Drafter
        At most `trunk` + K (`num_draft_tokens` - `trunk`) nodes. Each level is one pass of an
        oracle that scores trees; another one is called once per node that has children. One `pick` per path
        and level. Ends early at the oracle's context limit.

    Raises
    ------
    ValueError
        For fewer than one path, a negative trunk, and for anything but an oracle.

    Notes
    -----
    **Law.** Each path from the root is a chain of the oracle, independent of the others after the trunk. A
    node that m paths go through has m independent draws below it. Its row is asked for once.
    """
    check_oracle("draft.paths", oracle)
    num_paths, trunk = count("num_paths", num_paths), count("trunk", trunk, 0)
    propose = partial(grow, oracle=oracle, scheme=independent, below=partial(_below, num_paths, trunk))
    return Drafter(propose, oracle.vocab_size, oracle.vocabulary)


def _below(num_paths: int, trunk: int, depth: int, visits: Sequence[None]) -> Sequence[None]:
    """Let each path that visits a node go on by one draw of its own; they part where the trunk ends."""
    return [None] * num_paths if depth == trunk else visits
