"""Mentored decoding: the highest acceptance within a budget of divergence from the target. Lossy.

Tran-Thien 2023, "An optimal lossy variant of speculative decoding".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from speculative._numbers import Number, number
from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft
from speculative.verify.compromise import compromise
from speculative.verify.instead import token_instead
from speculative.verify.verdict import Verdict


def mentored(chance: Chance, draft: Draft, target_probs: Sequence[Row], *, budget: Number = 0.1) -> Verdict:
    """Put the `compromise` of target and draft in the target's place, then verify as `token` does.

    Parameters
    ----------
    chance : Chance
        One `flip` per draft up to the first rejection, then one `pick`.
    draft : Draft
        k tokens with the laws they were drawn from.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].
    budget : number, at least 0
        The KL(target, output) allowed for each token, in nats; 0 is token verification. The source compares
        several and has no default.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Exactly the compromise's at every drafted position; the bonus token has the target's. A draft is
    accepted with probability sum(min(draft, compromise)), the most that any rule reaches whose output is
    within the budget. The compromise lies between the two rows at every token, so that the rule is on the
    line of `bound.trade_off` too: it spends no more total variation than its acceptance needs.
    """
    allowed = number("budget", budget, low=0)
    return token_instead(chance, draft, target_probs, partial(compromise, budget=allowed))
