"""Typical acceptance: keep every draft the target finds plausible enough. Lossy.

Cai et al. 2024, "Medusa", section 2.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft, DraftTree
from speculative.verify.verdict import Verdict


def typical(
    chance: Chance,  # noqa: ARG001 - a verifier takes it; this one draws nothing
    draft: Draft | DraftTree,
    target_probs: Sequence[Row],
    *,
    epsilon: float = 0.3,
    delta: float = 0.3**0.5,
) -> Verdict:
    """Accept a draft iff its target probability exceeds min(epsilon, delta * exp(-entropy of the target)).

    Of a tree the longest path of such drafts is kept, the first in the order of nodes among equals.

    Parameters
    ----------
    chance : Chance
        Not asked.
    draft : Draft or DraftTree
        n tokens; their laws do not matter.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i, the context being node 0.
    epsilon, delta : float
        The hard and the entropy-dependent threshold; the paper couples them as delta = sqrt(epsilon).

    Returns
    -------
    Verdict
        The token after the accepted drafts is the target's most probable one.

    Notes
    -----
    **Law.** Not the target's. Of a chain, one token x comes out with probability draft(x) where it is
    plausible, and the whole rest of the draft's mass goes to the target's argmax. `prove` gives the distance.
    """
    if not (epsilon > 0 and delta > 0):
        raise ValueError(f"epsilon={epsilon}, delta={delta}: give positive thresholds")
    kept: dict[int, tuple[int, ...]] = {0: ()}  # node: the tokens that lead there
    for node in range(len(draft)):
        siblings = draft.siblings(node)
        if node in kept and siblings is not None:
            bar = _threshold(target_probs[node], epsilon, delta)
            for child, drafted in zip(siblings.nodes, siblings.tokens, strict=True):
                if target_probs[node][drafted] > bar:
                    kept[child] = (*kept[node], drafted)
    last = max(sorted(kept), key=lambda node: len(kept[node]))
    return Verdict((*kept[last], int(target_probs[last].argmax())), accepted=len(kept[last]))


def _threshold(row: Row, epsilon: float, delta: float) -> float:
    positive = row[row > 0].astype(np.float64)
    return min(epsilon, delta * float(np.exp((positive * np.log(positive)).sum())))
