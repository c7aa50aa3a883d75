"""Gumbel coupling: draw the target's token from its law given the drafted one, as in a race that both run in.

Daliri, Musco and Suresh 2025, "Coupling without communication and drafter-invariant speculative decoding".
Every token i has a time E_i, exponential and the same for both; the draft takes the token with the least
E_i / draft_i, the target the one with the least E_i / target_i. `coupling.race` runs that race; here it is
integrated out, which leaves rational numbers. The law of the two winners is derived here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def gumbel(chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Verdict:
    """Draw each token from the race's law given the drafted token; stop at the first that differs.

    Parameters
    ----------
    chance : Chance
        One `pick` per emitted token.
    draft : Draft
        k tokens with the laws they were drawn from.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** The target's. Token j is drafted and accepted with probability 1 / sum(max(draft / draft[j],
    target / target[j])). Together that is at least (1 - TV) / (1 + TV), and at most the 1 - TV of `token`:
    the price for a target that, running the race, need not know the draft's law.
    """
    for i, (drafted, draft_row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        drawn = chance.pick(winner_given_draft(drafted, draft_row, target_probs[i]))
        if drawn != drafted:
            return Verdict((*draft.tokens[:i], drawn), accepted=i)
    return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))


def winner_given_draft(drafted: int, draft: Row, target: Row) -> Row:
    """Return the law of the race's winner under the target, given the winner under the draft, (V,).

    Let share = draft / (draft + target), token by token, and H(s) = sum(max((1 - s) draft, s target)). For
    the drafted x and another j, integrating over the times of both gives

        P(x and j) = draft[x] target[j] * (integral of ds / H(s)^2 from share[j] to share[x]),

    nothing where share[j] >= share[x]; and P(x and x) = draft[x] (1 - share[x]) / H(share[x]). Between
    neighbouring shares H is linear, and there the integral is their difference over the product of both H.
    """
    either = draft + target
    share = draft / (either + (either == 0))  # 0 where neither can win
    order = share.argsort()
    s, p, q = share[order], draft[order], target[order]
    height = (1 - s) * (p.sum() - p.cumsum()) + s * q.cumsum()  # H at each share; 1/2 or more
    integral = np.zeros_like(share)  # from the least share to each
    integral[order[1:]] = ((s[1:] - s[:-1]) / (height[1:] * height[:-1])).cumsum()
    weights: Row = target * np.maximum(integral[drafted] - integral, 0)
    x = share[drafted]
    weights[drafted] = (1 - x) / np.maximum((1 - x) * draft, x * target).sum()
    return weights
