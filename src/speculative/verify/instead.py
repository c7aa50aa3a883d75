"""Token verification against a row that stands in for the target's: what several lossy rules come down to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from speculative.chance import Chance
from speculative.distribution import Row, residual
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def token_instead(
    chance: Chance, draft: Draft, target_probs: Sequence[Row], stand_in: Callable[[Row, Row], Row]
) -> Verdict:
    """Do as `token`, with `stand_in(target, draft)` for the target's row wherever there is a draft.

    Parameters
    ----------
    chance : Chance
        One `flip` per draft up to the first rejection, then one `pick`.
    draft : Draft
        k tokens with the laws they were drawn from.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].
    stand_in : callable
        `stand_in(target, draft) -> row`, asked once per draft that is judged.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Every token at a drafted position has exactly the law of the stand-in, by the proof of `token`;
    the bonus token, for which there is no draft's row, has the target's. A draft is accepted with probability
    sum(min(draft, stand-in)). Where the stand-in lies between the two rows at every token, no rule accepts
    more often at its distance (`bound.trade_off`).
    """
    for i, (drafted, draft_row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        row = stand_in(target_probs[i], draft_row)
        if not chance.flip(min(1, row[drafted] / draft_row[drafted])):
            return Verdict((*draft.tokens[:i], chance.pick(residual(row, draft_row))), accepted=i)
    return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))
