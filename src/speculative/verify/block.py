"""Block verification: judge the drafts together and keep the longest beginning that passes.

Sun et al. 2024, "Block verification accelerates speculative decoding", algorithm 2. Hierarchical speculative
decoding (Zhou et al. 2026, algorithm 2) is the same rule in other words: `hsd` is another name for it here.
"""

from __future__ import annotations

from collections.abc import Sequence

from speculative.chance import Chance, Number
from speculative.distribution import Row, excess, residual
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def block(chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Verdict:
    """Keep the longest beginning of the draft whose own test passes, then draw from its residual.

    Parameters
    ----------
    chance : Chance
        `flip`s from the longest beginning down to the first that passes, then one `pick`.
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
    law. At least i drafts are accepted with probability `weights[i]` given the draft, and no lossless
    verifier of one path accepts more drafts on average (theorem 2 there). For a deterministic draft it
    accepts what `token` does.
    """
    weights: list[Number] = [1]  # [k+1], the paper's p_i
    for i, (drafted, draft_row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        weights.append(min(1, weights[i] * target_probs[i][drafted] / draft_row[drafted]))
    if chance.flip(weights[-1]):
        return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))
    for i in range(len(draft) - 1, 0, -1):
        left = excess(weights[i] * target_probs[i], draft.probs[i])
        mass = left.sum()
        if chance.flip(mass / (mass + 1 - weights[i]) if weights[i] < 1 else 1):
            drawn = chance.pick(left if mass > 0 else target_probs[i])  # see `residual`
            return Verdict((*draft.tokens[:i], drawn), accepted=i)
    return Verdict((chance.pick(residual(target_probs[0], draft.probs[0])),), accepted=0)


hsd = block
