"""The row within a budget of divergence from the target that has most in common with the draft.

Tran-Thien 2023, "An optimal lossy variant of speculative decoding"; `mentored` verifies against it.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from speculative.chance import Number
from speculative.distribution import Row, is_exact, total_variation


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
    distance, rounded = total_variation(target, draft), RowsBetween(target.astype(float), draft.astype(float))
    share = rounded.least_share(float(distance), float(budget))
    if is_exact(target) and is_exact(draft):
        return RowsBetween(target, draft).row(distance * Fraction(share))
    return rounded.row(distance * share)


class RowsBetween:
    """The rows nearest to the target in KL, by the probability that they refuse a draft.

    Notes
    -----
    What is refused is cut from the draft down to target / a, and given back up to target / b:

        sum(max(0, draft - target / a)) = mass = sum(max(0, target / b - draft)).

    Each side is the largest value of a sum over a set of tokens, reached by a set of extreme draft / target.
    So 1 / a is a maximum and 1 / b a minimum over the V sets that a sort puts in order: no equation to solve.
    Tokens that the target rules out cost no KL; they go first and in proportion, with a = 0 while some stay.
    """

    def __init__(self, target: Row, draft: Row) -> None:
        held = np.flatnonzero(target)
        with np.errstate(over="ignore"):  # an infinite ratio is last in the order, as it should be
            self.order = held[np.argsort(draft[held] / target[held])]
        self.draft, self.outside = draft, draft[target == 0].sum()
        self.q, self.p = q, p = target[self.order], draft[self.order]  # [n], what the target holds
        self.least, self.most = (q.cumsum(), p.cumsum()), (q[::-1].cumsum(), p[::-1].cumsum())

    def scales(self, mass: Number) -> tuple[Number, Number]:
        """Return 1 / a and 1 / b; where nothing is cut, any 1 / a that is large enough."""
        with np.errstate(over="ignore"):
            cut = ((self.outside + self.most[1] - mass) / self.most[0]).max()
            fill = ((mass + self.least[1]) / self.least[0]).min()
        return max(cut, fill), fill

    def row(self, mass: Number) -> Row:
        """Return the row, (V,): the draft's for a mass of 0, the target's for TV(target, draft)."""
        cut, fill = self.scales(mass)
        kind = np.float64 if np.float64 in (self.q.dtype, self.p.dtype) else object
        with np.errstate(over="ignore"):
            row = np.array(self.draft * (max(0, 1 - mass / self.outside) if self.outside else 0), dtype=kind)
            row[self.order] = np.maximum(np.minimum(self.p, cut * self.q), fill * self.q)
        return row

    def least_share(self, distance: float, budget: float) -> float:
        """Return the least share of the distance that, refused, keeps the KL within the budget; in floats."""
        with np.errstate(over="ignore", divide="ignore"):
            ratios, logs = self.p / self.q, np.log(self.q) - np.log(self.p)
        drafts = np.append(0, np.where(self.p > 0, self.q * logs, 0).cumsum())  # [n+1], KL of the draft's row

        def inside(share: float) -> float:
            """Compare exp(-KL) with exp(-budget): the KL itself may be infinite, where nothing is refused."""
            cut, fill = self.scales(share * distance)
            low, high = np.searchsorted(ratios, fill), np.searchsorted(ratios, cut, side="right")
            divergence = drafts[high] - drafts[low]
            if low:
                divergence -= math.log(fill) * self.least[0][low - 1]
            if high < len(ratios):
                divergence -= math.log(cut) * self.most[0][len(ratios) - high - 1]
            held = fill > 0 or self.p[0] > 0
            return (math.exp(-divergence) if held else 0) - math.exp(-budget)

        if inside(0) >= 0:
            return 0.0
        from scipy.optimize import brentq  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load

        return float(brentq(inside, 0, 1, xtol=2**-52)) if inside(1) > 0 else 1.0
