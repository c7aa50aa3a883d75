"""Cactus: raise the target's probability of the drafted token as far as a divergence allows. Lossy.

Hao and Mou 2026, "Cactus: constrained acceptance speculative sampling".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from speculative._numbers import number
from speculative.chance import Chance, Number
from speculative.distribution import Row, is_exact, residual
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Verdict


def cactus(chance: Chance, draft: Draft, target_probs: Sequence[Row], *, delta: Number = 1) -> Verdict:
    """Accept each draft against its target probability, raised, else draw from the raised row's residual.

    Parameters
    ----------
    chance : Chance
        One `flip` per draft up to the first rejection, then one `pick`.
    draft : Draft
        k tokens with the laws they were drawn from.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].
    delta : number, at least 0
        The divergence allowed, in nats; 0 is token verification. The default is that of the authors' example.

    Returns
    -------
    Verdict

    Notes
    -----
    With q the target's probability of the drafted token x, it is raised to g = min(1, q + sqrt(2 delta q (1 -
    q))), and the target's other tokens are scaled down in proportion. The root is taken in floats; for exact
    rows it then counts as the rational number that this float is.

    **Law.** Not the target's for delta > 0. A draft is accepted with probability sum(min(draft, g)), each
    token with its own g. One token x comes out with probability min(draft, g), plus, over all drafts y,
    draft(y) - min(draft(y), g(y)) times x's share in max(0, raised target of y - draft). The raised target
    differs from one draft to the next, so that no one of them is the law. Each has a divergence
    KL(raised, target) of at most log(1 + 2 delta): its chi-square divergence is at most 2 delta.

    It is on the line of `bound.trade_off`. No draft is accepted less often than by `token`; and with M the
    probability of any refusal, the mass of max(0, raised target - draft) is M or more whichever draft was
    refused, so that what is drawn brings a token at most M * max(0, target - draft) / M nearer to the target.
    """
    allowed = number("delta", delta, low=0)
    for i, (drafted, draft_row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        raised = raised_probability(target_probs[i], drafted, allowed)
        if not chance.flip(min(1, raised / draft_row[drafted])):
            left = residual(raised_row(target_probs[i], drafted, raised), draft_row)
            return Verdict((*draft.tokens[:i], chance.pick(left)), accepted=i)
    return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))


def raised_probability(target: Row, token: int, delta: Number) -> Number:
    """Return min(1, q + sqrt(2 delta q (1 - q))) for the target's probability q of a token."""
    probability = target[token]
    root = math.sqrt(max(0, 2 * delta * probability * (1 - probability)))
    return min(1, probability + (Fraction(root) if is_exact(target) else root))


def raised_row(target: Row, token: int, raised: Number) -> Row:
    """Return the target's row with one token raised and the others scaled down in proportion."""
    rest = 1 - target[token]
    row = np.array(target * ((1 - raised) / rest)) if rest > 0 else np.array(target)
    row[token] = raised
    return row
