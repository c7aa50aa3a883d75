"""The trade-off of lossy rules: how far from the target one token must be for a given acceptance.

Yin et al. 2024, "A theoretical perspective for speculative decoding algorithm", section 4. No rule beats a
line: the probability of refusing a draft and the distance of the output from the target together are at least
the total variation between target and draft.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from speculative.chance import Chance, Number
from speculative.distribution import Row, excess, total_variation
from speculative.draft.proposal import Draft
from speculative.laws import law

__all__ = ["Position", "best_residual", "least_distance", "lowest_distance", "position"]


class Position(NamedTuple):
    """Where a rule stands for one token, given the rows of target and draft.

    Parameters
    ----------
    acceptance : number
        The probability that the draft is accepted.
    distance : number
        Total variation between the law of the token and the target's.
    slack : number
        1 - acceptance + distance - TV(target, draft), at least 0. At 0 no rule accepts more often at this
        distance, and none with this acceptance comes closer.
    """

    acceptance: Number
    distance: Number
    slack: Number


def lowest_distance(target: Row, draft: Row, acceptance: Number) -> Number:
    """Return the least distance from the target of any rule that accepts a draft with this probability.

    Parameters
    ----------
    target, draft : ndarray, shape (V,)
        The two laws.
    acceptance : number in [0, 1]
        The probability that the draft is accepted.

    Returns
    -------
    number
        max(0, TV(target, draft) - (1 - acceptance)).

    Notes
    -----
    The output equals the draft unless that is refused, so it is within 1 - acceptance of the draft's law;
    the rest is the triangle inequality. The mixtures of target and draft, verified exactly, reach it.
    """
    return max(0, total_variation(target, draft) - (1 - acceptance))


def least_distance(target: Row, draft: Row, acceptance: Row) -> Number:
    """Return the least distance from the target of any rule that accepts each token with these probabilities.

    Parameters
    ----------
    target, draft : ndarray, shape (V,)
        The two laws.
    acceptance : ndarray, shape (V,)
        b: the probability that a drafted token is accepted, token by token.

    Returns
    -------
    number
        sum(max(0, b * draft - target)): what is accepted above the target cannot be taken back, and
        everything else can be made good. The paper writes it as sum(abs(target - b * draft)) / 2 -
        sum((1 - b) * draft) / 2.
    """
    return excess(acceptance * draft, target).sum()


def best_residual(target: Row, draft: Row, acceptance: Row) -> Row:
    """Return weights to draw from after a refusal for which the law of the token reaches `least_distance`.

    Parameters
    ----------
    target, draft, acceptance : ndarray, shape (V,)
        As for `least_distance`.

    Returns
    -------
    ndarray, shape (V,)
        max(0, target - b * draft). Any weights that fill no token above the target do as well.
    """
    return excess(target, acceptance * draft)


def position(verify: Callable[..., Any], target: Row, draft: Row) -> Position:
    """Return where a verifier of chains stands for one draft, by enumerating it.

    Parameters
    ----------
    verify : callable
        `verify(chance, draft, target_probs) -> Verdict`.
    target, draft : ndarray, shape (V,)
        The two laws; the position is exact when both are and the verifier computes on what it is given.

    Returns
    -------
    Position
    """
    outcomes = law(_one_token, verify, target, draft)
    emitted = outcomes.map(lambda outcome: outcome[0])
    distance = total_variation(np.array([emitted.get(x, 0) for x in range(len(target))]), target)
    acceptance = outcomes.mean(lambda outcome: outcome[1])
    return Position(acceptance, distance, 1 - acceptance + distance - total_variation(target, draft))


def _one_token(chance: Chance, verify: Callable[..., Any], target: Row, draft: Row) -> tuple[int, bool]:
    drafted = chance.pick(draft)
    verdict = verify(chance, Draft((drafted,), (draft,)), (target, target))
    return verdict.tokens[0], verdict.accepted > 0
