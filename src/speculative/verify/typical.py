"""Typical acceptance: keep every draft the target finds plausible enough. Lossy.

Cai et al. 2024, "Medusa", section 2.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def typical(
    chance: Chance,  # noqa: ARG001 - a verifier takes it; this one draws nothing
    draft: Draft,
    target_probs: Sequence[Row],
    *,
    epsilon: float = 0.3,
    delta: float = 0.3**0.5,
) -> Verdict:
    """Accept a draft iff its target probability exceeds min(epsilon, delta * exp(-entropy of the target)).

    Parameters
    ----------
    chance : Chance
        Not asked.
    draft : Draft
        k tokens; their laws do not matter.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].
    epsilon, delta : float
        The hard and the entropy-dependent threshold; the paper couples them as delta = sqrt(epsilon).

    Returns
    -------
    Verdict
        The token after the accepted drafts is the target's most probable one.

    Notes
    -----
    **Law.** Not the target's. One token x comes out with probability draft(x) where it is plausible, and
    the whole rest of the draft's mass goes to the target's argmax. `prove` gives the distance.
    """
    if not (epsilon > 0 and delta > 0):
        raise ValueError(f"epsilon={epsilon}, delta={delta}: give positive thresholds")
    for i, drafted in enumerate(draft.tokens):
        if not target_probs[i][drafted] > _threshold(target_probs[i], epsilon, delta):
            return Verdict((*draft.tokens[:i], int(target_probs[i].argmax())), accepted=i)
    return Verdict((*draft.tokens, int(target_probs[len(draft)].argmax())), accepted=len(draft))


def _threshold(row: Row, epsilon: float, delta: float) -> float:
    positive = row[row > 0].astype(np.float64)
    return min(epsilon, delta * float(np.exp((positive * np.log(positive)).sum())))
