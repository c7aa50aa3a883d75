"""Wrong block verification: the rule in parts, one part exchanged, so the part says what is wrong.

Distances are worked out on `setups.TWO_DRAFTS`. There the weight of the first draft is 1/2, 1, 1; that of
both is 1, 1, 1/6 after token 0, then 1/2, 1, 1 after token 1 and 1/2, 1/4, 1 after token 2.
"""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np

from speculative import verify
from speculative.distribution import excess, residual

# The parts: weights of all beginnings, the test of each, how many drafts are kept, what is drawn then


def clipped(draft, target_probs):
    """Right: the weight of each beginning, [k+1]."""
    weights = [1]
    for token, row, target in zip(draft.tokens, draft.probs, target_probs, strict=False):
        weights.append(min(1, weights[-1] * target[token] / row[token]))
    return weights


def shares(weights, draft, target_probs):
    """Right: the acceptance of the beginnings of 1 to k drafts."""
    masses = [excess(weights[i] * target_probs[i], draft.probs[i]).sum() for i in range(1, len(draft))]
    inner = [
        mass / (mass + 1 - weight) if weight < 1 else 1
        for mass, weight in zip(masses, weights[1:], strict=False)
    ]
    return [*inner, weights[-1]] if len(draft) else []


def longest(chance, acceptances):
    """Right: the longest beginning that passes its own test."""
    return next((i for i in range(len(acceptances), 0, -1) if chance.flip(acceptances[i - 1])), 0)


def left(weight, target, row, drafted):
    """Right."""
    return residual(weight * target, row)


def block_rule(*, weigh=clipped, accept=shares, choose=longest, rest=left):
    """Return block verification with other parts."""

    def verify(chance, draft, target_probs):
        weights = weigh(draft, target_probs)
        accepted = choose(chance, accept(weights, draft, target_probs))
        kept = draft.tokens[:accepted]
        if accepted == len(draft):
            return (*kept, chance.pick(target_probs[-1]))
        row, drafted = draft.probs[accepted], draft.tokens[accepted]
        weight, target = weights[accepted], target_probs[accepted]
        left_over = rest(weight, target, row, drafted)
        return (*kept, chance.pick(left_over if left_over.any() else target))

    return verify


# Wrong weights


def as_if_certain(draft, target_probs):
    """The draft's probabilities are not at hand and count as 1, though the draft was sampled."""
    weights = [1]
    for token, target in zip(draft.tokens, target_probs, strict=False):
        weights.append(weights[-1] * target[token])
    return weights


# Wrong tests


def weights_themselves(weights, draft, target_probs):
    """Each beginning is accepted with its weight, as the last one is.

    Only (0, 2) has anything to lose: weights 1/2 and 1/6, drawn with probability 3/8. Refused as a whole,
    token 0 is kept with probability 1/2 and not 1/5: 3/8 * 5/6 * 3/10 = 3/32 too often.
    """
    return weights[1:]


def last_uncapped(weights, draft, target_probs):
    """The whole draft is accepted by its joint ratio, which was not clipped on the way.

    (2, 1) has ratios 4/3 and 1/4, so it passes with 1/3 and not 1/4; (2, 0) with 2/3 and not 1/2. Drawn with
    probabilities 3/16 and 3/32, they come out 1/64 + 1/64 too often, and so does (1, 0), drawn with 1/16,
    which passes with 1 and not 1/2: 1/32. Together 1/16.
    """
    joint = Fraction(1)
    for token, row, target in zip(draft.tokens, draft.probs, target_probs, strict=False):
        joint *= target[token] / row[token]
    return [*shares(weights, draft, target_probs)[:-1], min(1, joint)] if len(draft) else []


def one_position_late(weights, draft, target_probs):
    """The mass of the residual is that of the position before.

    That of position 0 is 3/8 - 1/8 = 1/4, so token 0 is kept with probability (1/4) / (1/4 + 1/2) = 1/3 and
    not 1/5 where (0, 2) was refused: 3/8 * 5/6 * 2/15 = 1/24 too often.
    """
    inner = []
    for i in range(1, len(draft)):
        mass = excess(weights[i - 1] * target_probs[i - 1], draft.probs[i - 1]).sum()
        inner.append(mass / (mass + 1 - weights[i]) if weights[i] < 1 else 1)
    return [*inner, weights[-1]] if len(draft) else []


# Wrong choices


def up_to_the_first_failure(chance, acceptances):
    """A beginning that fails ends the search, as it does in token verification.

    Token 0, drawn with probability 1/2, fails with 4/5, and the drafts behind it are not looked at: kept with
    1/5 instead of 1/2, it comes out 1/2 * 3/10 = 3/20 too rarely. No other first draft fails.
    """
    for i, acceptance in enumerate(acceptances):
        if not chance.flip(acceptance):
            return i
    return len(acceptances)


def by_one_uniform(chance, acceptances):
    """One uniform u for all tests: the longest beginning with u < acceptance.

    Where (0, 2) fails, u > 1/6, and token 0 is kept with (1/5 - 1/6) / (5/6) = 1/25 and not 1/5: 3/8 * 5/6 *
    4/25 = 1/20 too rarely. With k = 1, and where acceptances rise, this is the right rule.
    """
    ends = [max([0, *acceptances[i:]]) for i in range(len(acceptances) + 1)]
    return chance.pick([before - end for before, end in zip([1, *ends], ends, strict=False)])


def by_products_of_uniforms(chance, weights):
    """The longest beginning i whose weight is at least u_1 u_2 ... u_i.

    The product of i uniforms, given that of i - 1 is v, is uniform on [0, v]. So no test from i on passes
    with probability f_i(v) = (1 / v) * (integral of f_(i+1) from a_i to v), a_i being the largest weight
    from i on, and 0 for v < a_i. By induction f_i(v) = 1 + (1 / v) * (a polynomial of log v): its
    coefficients are moved up by one and divided by their new degree, and the constant is what makes f_i(a_i)
    zero.
    """

    def none_from(first):
        weights_from = [0] * (first - 1) + [float(weight) for weight in weights[first - 1 :]]
        polynomial = [0.0]
        for i in range(len(weights_from) - 1, -1, -1):
            polynomial = [0.0, *(c / (degree + 1) for degree, c in enumerate(polynomial))]
            if (least := max(weights_from[i:])) > 0:
                polynomial[0] = -least - sum(c * log(least) ** degree for degree, c in enumerate(polynomial))
        return 1 + polynomial[0]  # at v = 1

    at_most = [max(0.0, none_from(i)) for i in range(1, len(weights) + 1)] + [1.0]
    return chance.pick(np.maximum(0, np.diff([0.0, *at_most])))


# Wrong residuals


def left_of_the_token(weight, target, row, drafted):
    """The residual of token verification.

    Once token 0 is kept and the draft behind it is not (probability 3/8 * 5/6 * 1/5 = 1/16), what is left of
    1/2 * (1/2, 1/4, 1/4) - (1/8, 1/8, 3/4) is token 0 alone. The token's residual has 1/4 of token 1: 1/4 *
    1/16 = 1/64.
    """
    return residual(target, row)


def left_with_a_little_everywhere(weight, target, row, drafted):
    return residual(weight * target, row) + Fraction(1, 10_000)


def left_of_a_certain_draft(weight, target, row, drafted):
    """Right for a certain draft."""
    certain = target.copy()
    certain[drafted] = 0
    return certain if certain.any() else target


# Rules with another shape


def greedy_without_the_carry(chance, draft, target_probs):
    """The round is that of greedy block verification; the next one is not told how the target has changed.

    Its acceptances are the joint ratios, so it is off by 1/16 as `last_uncapped` is; what it draws then has
    to be followed by the changed target.
    """
    return verify.greedy_block(chance, draft, target_probs).tokens


def capped_at_new_maxima_only(chance, draft, target_probs):
    """Joint laws instead of weights; the target's is capped at places where the ratio has a new maximum.

    There it counts as the draft's own; at all other places it counts as 1. The whole draft passes by the
    joint ratio, uncapped. So any first draft 0 is kept, for 1 * target holds more than 1/2 * draft: 1/4 too
    often.
    """
    small, ratio, largest, steps = Fraction(1), Fraction(1), Fraction(1), []
    for token, row, target in zip(draft.tokens, draft.probs, target_probs, strict=False):
        new, largest = ratio > largest, max(ratio, largest)
        more = excess((small if new else 1) * target, small * row)
        less = excess(small * row, (small if new else 1) * target)
        steps.append((more, max(more.sum(), less.sum())))
        small, ratio = small * row[token], ratio * target[token] / row[token]
    if chance.flip(min(1, ratio)):
        return (*draft.tokens, chance.pick(target_probs[-1]))
    for i in range(len(draft) - 1, 0, -1):
        more, most = steps[i]
        if chance.flip(more.sum() / most if most else 0):
            return (*draft.tokens[:i], chance.pick(more))
    return (chance.pick(residual(target_probs[0], draft.probs[0])),)
