"""Lenient verification: let the draft through a little more often than the target would. Lossy.

Leviathan, Kalman and Matias 2023, appendix A.5, "lenience".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from speculative.chance import Chance, Number
from speculative.distribution import Row, residual
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def lenient(
    chance: Chance, draft: Draft, target_probs: Sequence[Row], *, lenience: Number = Fraction(1, 2)
) -> Verdict:
    """Accept each draft with probability min(1, target / (lenience * draft)), else draw from the residual.

    Parameters
    ----------
    chance : Chance
        One `flip` per draft up to the first rejection, then one `pick`.
    draft : Draft
        k tokens with the laws they were drawn from.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].
    lenience : number in (0, 1]
        1 is token verification.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Not the target's below lenience 1. A draft is accepted with probability sum(min(draft, target /
    lenience)). One token has the law min(draft, target / lenience), plus the missing mass shared out by the
    residual max(0, target - draft): no token exceeds target / lenience.

    The appendix changes the comparison and not the residual. Drawing from max(0, target - lenience * draft)
    instead has the same acceptance and keeps below the same ceiling; but only with the residual as it is
    is the rule on the line of `bound.trade_off`: no rule with this acceptance is nearer to the target.
    """
    if not 0 < lenience <= 1:
        raise ValueError(f"lenience={lenience}: give a number above 0 and at most 1")
    for i, (drafted, draft_row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        target_row = target_probs[i]
        if not chance.flip(min(1, target_row[drafted] / (lenience * draft_row[drafted]))):
            return Verdict((*draft.tokens[:i], chance.pick(residual(target_row, draft_row))), accepted=i)
    return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))
