"""Match verification: draw from the target as if there were no draft, and go on while the draft agrees.

What llama.cpp and mlx-lm do; SpecInfer (Miao et al. 2024, section 4.3) calls it naive sampling.
"""

from __future__ import annotations

from collections.abc import Sequence

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def match(chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Verdict:
    """Draw each token from the target and emit it; stop at the first that differs from the draft.

    Parameters
    ----------
    chance : Chance
        One `pick` per emitted token.
    draft : Draft
        k tokens; their laws are not needed.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Every emitted token is a target sample, so the law is the target's, even where the draft's law is
    unknown. A draft is accepted with probability sum(target * draft), never more than token verification's
    sum(min(target, draft)), and equal to it for a deterministic draft.
    """
    for i, drafted in enumerate(draft.tokens):
        drawn = chance.pick(target_probs[i])
        if drawn != drafted:
            return Verdict((*draft.tokens[:i], drawn), accepted=i)
    return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))
