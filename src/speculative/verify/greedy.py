"""Greedy verification: keep the drafts that plain greedy decoding would have chosen.

Leviathan, Kalman and Matias 2023, section 2.2: temperature 0 is the target's argmax as a point mass.
"""

from __future__ import annotations

from collections.abc import Sequence

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft, DraftTree
from speculative.verify.verdict import Verdict


def greedy(
    chance: Chance,  # noqa: ARG001 - a verifier takes it; this one draws nothing
    draft: Draft | DraftTree,
    target_probs: Sequence[Row],
) -> Verdict:
    """Emit the target's most probable token, and go on while it was drafted there.

    Parameters
    ----------
    chance : Chance
        Not asked.
    draft : Draft or DraftTree
        n tokens; their laws do not matter.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i, the context being node 0. Among equals the lowest token
        counts as most probable, as `temperature(0)` has it.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Token for token the target's greedy decoding, so lossless for a target at temperature 0; for a
    target at any other temperature it samples the wrong law.
    """
    node: int | None = 0
    tokens: tuple[int, ...] = ()
    while node is not None:
        best = int(target_probs[node].argmax())
        tokens, node = (*tokens, best), draft.child(node, best)
    return Verdict(tokens, accepted=len(tokens) - 1)
