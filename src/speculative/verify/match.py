"""Match verification: draw from the target as if there were no draft, and go on while the draft agrees.

What llama.cpp and mlx-lm do; SpecInfer (Miao et al. 2024, section 4.3) calls it naive sampling, of trees too.
"""

from __future__ import annotations

from collections.abc import Sequence

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft, DraftTree
from speculative.verify.verdict import Verdict


def match(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Draw each token from the target and emit it; stop at the first that was not drafted there.

    Parameters
    ----------
    chance : Chance
        One `pick` per emitted token.
    draft : Draft or DraftTree
        n tokens; their laws are not needed.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i, the context being node 0.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Every emitted token is a target sample, so the law is the target's, even where the draft's law is
    unknown. A draft is accepted with probability sum(target * draft), never more than token verification's
    sum(min(target, draft)), and equal to it for a deterministic draft. One of K independent siblings is, with
    probability sum(target * (1 - (1 - draft)**K)).
    """
    node: int | None = 0
    tokens: tuple[int, ...] = ()
    while node is not None:
        drawn = chance.pick(target_probs[node])
        tokens, node = (*tokens, drawn), draft.child(node, drawn)
    return Verdict(tokens, accepted=len(tokens) - 1)
