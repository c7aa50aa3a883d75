"""Mentored decoding: the highest acceptance within a budget of divergence from the target. Lossy.

Tran-Thien 2023, "An optimal lossy variant of speculative decoding".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.optimize import brentq  # type: ignore[import-untyped]  # scipy has no types

from speculative._numbers import Number, number
from speculative.chance import Chance
from speculative.distribution import Row, is_exact, total_variation
from speculative.draft.proposal import Draft
from speculative.verify.divergence import kullback_leibler
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


def compromise(target: Row, draft: Row, *, budget: Number) -> Row:
    """Return the row within a budget of the target that has most in common with the draft.

    Parameters
    ----------
    target, draft : ndarray, shape (V,)
        The two laws.
    budget : number, at least 0
        KL(target, row) allowed, in nats.

    Returns
    -------
    ndarray, shape (V,)
        The draft's row where it is within the budget. Otherwise target / a where target <= a * draft,
        target / b where target >= b * draft, and the draft's between, for some a <= 1 <= b. Its KL is the
        budget to within the rounding of floats, in which it is solved for; the row is exact all the same when
        both rows are, and sums to exactly one.
    """
    if not budget:
        return target  # the KL of rows that are all but equal is lost in rounding
    exact = is_exact(target) and is_exact(draft)
    between = rows_between(target, draft)
    distance = total_variation(target, draft)
    refused = _least_refused(target.astype(np.float64), draft.astype(np.float64), float(budget))
    return between(distance * (Fraction(refused) if exact else refused))


def rows_between(target: Row, draft: Row) -> Callable[[Number], Row]:
    """Return the function from a probability of refusal to the row nearest to the target in KL that has it.

    Its masses go from 0, which gives the draft's row, to TV(target, draft), which gives the target's.

    Notes
    -----
    What is refused is cut from the draft down to target / a, and given back up to target / b:

        sum(max(0, draft - target / a)) = mass = sum(max(0, target / b - draft)).

    Each side is the largest value of a sum over a set of tokens, reached by a set of extreme draft / target.
    So 1 / a is a maximum and 1 / b a minimum over the V sets that a sort puts in order: no equation to solve.
    Tokens that the target rules out cost no KL; they go first and in proportion, with a = 0 while some stay.
    """
    held = target > 0
    q, p = target[held], draft[held]
    with np.errstate(over="ignore"):  # an infinite ratio is last in the order, as it should be
        order = np.argsort(p / q, kind="stable")
    outside = draft[~held].sum()
    least, most = (q[order].cumsum(), p[order].cumsum()), (q[order[::-1]].cumsum(), p[order[::-1]].cumsum())
    kind = np.float64 if np.float64 in (target.dtype, draft.dtype) else object

    def between(mass: Number) -> Row:
        with np.errstate(over="ignore"):
            cut = ((outside + most[1] - mass) / most[0]).max()  # 1 / a
            fill = ((mass + least[1]) / least[0]).min()  # 1 / b
            row = np.array(draft * (max(0, 1 - mass / outside) if outside else 0), dtype=kind)
            row[held] = np.maximum(np.minimum(p, cut * q), fill * q)
        return row

    return between


def _least_refused(target: Row, draft: Row, budget: float) -> float:
    """Return the smallest share of the total variation that, refused, keeps the KL within the budget."""
    between, distance = rows_between(target, draft), total_variation(target, draft)

    def inside(share: float) -> float:
        """Compare exp(-KL) with exp(-budget): the KL itself may be infinite, where nothing is refused."""
        return math.exp(-kullback_leibler(target, between(share * distance))) - math.exp(-budget)

    if inside(0) >= 0:
        return 0.0
    return float(brentq(inside, 0, 1, xtol=2**-52)) if inside(1) > 0 else 1.0
