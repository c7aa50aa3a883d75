"""Weighted MinHash coupling: draw the target's token given the drafted one, as if both saw the same darts.

Daliri, Musco and Suresh 2025, "Coupling without communication and drafter-invariant speculative decoding".
Darts fall on (token, height), uniformly; the draft takes the token of the first dart below its row, the
target that of the first below its own. `coupling.darts` throws them; here they are summed over. The law of
the two tokens is derived here.
"""

from __future__ import annotations

from collections.abc import Sequence

from speculative.chance import Chance
from speculative.distribution import Row, excess
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def minhash(chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Verdict:
    """Draw each token from the darts' law given the drafted token; stop at the first that differs.

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
    **Law.** The target's. Both take the same dart with probability (1 - TV) / (1 + TV), the number usually
    quoted. A draft is accepted when the *tokens* are the same, which two darts can also bring about: token j
    is drafted and accepted with probability min(draft[j], target[j]) (1 + abs(draft[j] - target[j])) /
    (1 + TV). For no token is that more than with `gumbel`.
    """
    for i, (drafted, draft_row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        drawn = chance.pick(taken_given_draft(drafted, draft_row, target_probs[i]))
        if drawn != drafted:
            return Verdict((*draft.tokens[:i], drawn), accepted=i)
    return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))


def taken_given_draft(drafted: int, draft: Row, target: Row) -> Row:
    """Return weights of the token that the target takes, given the one that the draft takes, (V,).

    The first dart below either row is below both, and the token is the same; or below the draft only, and
    the target waits for another dart, which comes with its own law; or below the target only, with the law
    of its excess over the draft. They are in proportion to 1 + TV, their sum.
    """
    both = min(1, target[drafted] / draft[drafted])
    weights: Row = (1 - both) * target + excess(target, draft)
    weights[drafted] += both
    return weights
