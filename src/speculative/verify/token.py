"""Token verification: the original rule of speculative sampling.

Leviathan, Kalman and Matias 2023, "Fast inference from transformers via speculative decoding", algorithm 1;
Chen et al. 2023, "Accelerating large language model decoding with speculative sampling", algorithm 2.
Both write p for one law and q for the other, and not the same way round; here they are `target` and `draft`.
"""

from __future__ import annotations

from collections.abc import Sequence

from speculative.chance import Chance
from speculative.distribution import Row, residual
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def token(chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Verdict:
    """Accept each draft with probability min(1, target / draft), else draw from the residual and stop.

    Parameters
    ----------
    chance : Chance
        One `flip` per draft up to the first rejection, then one `pick`.
    draft : Draft
        k tokens with the laws they were drawn from.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Given the context, the emitted tokens continued by the target have exactly the target's joint
    law, whatever the draft's. A draft is accepted with probability 1 - TV(target, draft) at its position,
    the most that any rule can reach for a single token.
    """
    for i, (drafted, draft_row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        target_row = target_probs[i]
        if not chance.flip(min(1, target_row[drafted] / draft_row[drafted])):
            return Verdict((*draft.tokens[:i], chance.pick(residual(target_row, draft_row))), accepted=i)
    return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))
