"""Greedy verification: keep the drafts that plain greedy decoding would have chosen.

Leviathan, Kalman and Matias 2023, section 2.2: temperature 0 is the target's argmax as a point mass.
"""

from __future__ import annotations

from collections.abc import Sequence

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def greedy(
    chance: Chance,  # noqa: ARG001 - a verifier takes it; this one draws nothing
    draft: Draft,
    target_probs: Sequence[Row],
) -> Verdict:
    """Accept each draft that is the target's most probable token; at the first other one emit that token.

    Parameters
    ----------
    chance : Chance
        Not asked.
    draft : Draft
        k tokens; their laws do not matter.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i]. Among equals the lowest token
        counts as most probable, as `temperature(0)` has it.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Token for token the target's greedy decoding, so lossless for a target at temperature 0; for a
    target at any other temperature it samples the wrong law.
    """
    best = [int(row.argmax()) for row in target_probs]  # [k+1]
    for i, drafted in enumerate(draft.tokens):
        if drafted != best[i]:
            return Verdict((*draft.tokens[:i], best[i]), accepted=i)
    return Verdict((*draft.tokens, best[len(draft)]), accepted=len(draft))
