"""Speculative cascades: sample a mixture of target and draft, and sample that exactly. Lossy.

Narasimhan et al. 2025, "Faster cascades via speculative decoding": token verification of a stand-in for the
target. `defer_by_confidence`, `defer_by_difference` and `defer_by_distance` are its rules Chow, Diff and OPT
(equations 2, 5 and 10), `token_specific` is its Token-V3; `ensemble` is the fixed mixture that later work
(DIVERSED) learns the weight of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from speculative._numbers import number, probability
from speculative.chance import Chance, Number
from speculative.distribution import Row, total_variation
from speculative.draft.proposal import Draft
from speculative.verify.instead import token_instead
from speculative.verify.verdict import Verdict

Mixture = Callable[[Row, Row, Number], Row]


def defer_by_confidence(target: Row, draft: Row, alpha: Number) -> Row:
    """Return the draft's row where max(draft) >= 1 - alpha, else the target's (Chow's rule)."""
    return draft if draft.max() >= 1 - alpha else target


def defer_by_difference(target: Row, draft: Row, alpha: Number) -> Row:
    """Return the draft's row where max(draft) >= max(target) - alpha, else the target's (Diff)."""
    return draft if draft.max() >= target.max() - alpha else target


def defer_by_distance(target: Row, draft: Row, alpha: Number) -> Row:
    """Return the draft's row where max(draft) >= max(target) - alpha * TV, else the target's (OPT)."""
    return draft if draft.max() >= target.max() - alpha * total_variation(target, draft) else target


def token_specific(target: Row, draft: Row, alpha: Number) -> Row:
    """Leave tokens with target >= (1 - alpha) * max(target) to the draft, others to the target (Token-V3)."""
    kept = np.where(target >= (1 - alpha) * target.max(), draft, 0)
    rest = max(0, 1 - kept.sum())  # floats that sum to a little more than 1 leave nothing
    mixed: Row = kept + rest * target
    return mixed


def ensemble(target: Row, draft: Row, alpha: Number) -> Row:
    """Mix the rows, alpha of the draft's and 1 - alpha of the target's; alpha is in [0, 1]."""
    share = probability("alpha", alpha)
    if target.dtype == np.float64:
        share = float(share)  # a Fraction would make an object array of floats
    return (1 - share) * target + share * draft


def cascade(
    chance: Chance,
    draft: Draft,
    target_probs: Sequence[Row],
    *,
    mixture: Mixture = defer_by_distance,
    alpha: Number = Fraction(1, 2),
) -> Verdict:
    """Put a mixture of target and draft in the target's place, then verify as `token` does.

    Parameters
    ----------
    chance : Chance
        One `flip` per draft up to the first rejection, then one `pick`.
    draft : Draft
        k tokens with the laws they were drawn from.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].
    mixture : callable
        `mixture(target, draft, alpha) -> row`: one of this file or your own.
    alpha : number
        How far the mixture may lean to the draft; the paper has no default and varies it. `ensemble` is the
        target at 0. The deferring rules leave the target alone for sure only as alpha goes to minus infinity.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** Exactly the mixture's at every drafted position, so lossless for another target; the bonus token
    has the target's law. A draft is accepted with probability sum(min(draft, mixture)): where the choice is
    deferred 1 - TV(target, draft), else 1; for `ensemble` 1 - (1 - alpha) * TV(target, draft). These lie on
    the line of `bound.trade_off`. `token_specific` does not: a kept token can exceed both rows.
    """
    return token_instead(chance, draft, target_probs, partial(_mixed, mixture, number("alpha", alpha)))


def _mixed(mixture: Mixture, alpha: Number, target: Row, draft: Row) -> Row:
    return mixture(target, draft, alpha)
