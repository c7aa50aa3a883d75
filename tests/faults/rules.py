"""Wrong verifiers. Most are the right rule with one part exchanged, so the part says what is wrong."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil

import numpy as np

from speculative import point_mass, rational
from speculative import residual as right_residual

TINY = Fraction(1, 2**126)  # the smallest normal float32


# The parts: accept(target, draft, drafted) -> probability, rest(target, draft, drafted) -> weights


def ratio(target, draft, drafted):
    """Right; a token that the declared law rules out counts as accepted, as 1 / 0 does in floats."""
    return min(1, target[drafted] / draft[drafted]) if draft[drafted] else 1


def residual(target, draft, drafted):
    """Right."""
    return right_residual(target, draft)


def inverted(target, draft, drafted):
    return min(1, draft[drafted] / target[drafted]) if target[drafted] else 1


def always(target, draft, drafted):
    return 1


def share_of_the_largest(target, draft, drafted):
    return target[drafted] / max(target)


def if_more_probable(target, draft, drafted):
    return int(target[drafted] > draft[drafted])


def if_best(target, draft, drafted):
    return int(drafted == target.argmax())


def own_probability(target, draft, drafted):
    return target[drafted]


def target_itself(target, draft, drafted):
    return target


def draft_itself(target, draft, drafted):
    return draft


def uniform(target, draft, drafted):
    return [1] * len(target)


def upside_down(target, draft, drafted):
    return right_residual(draft, target)


def absolute(target, draft, drafted):
    return abs(target - draft)


def softmaxed(target, draft, drafted):
    return np.exp(np.maximum(target - draft, 0).astype(float))


def without_drafted(target, draft, drafted):
    """Right for a deterministic draft only."""
    weights = target.copy()
    weights[drafted] = 0
    return weights if weights.any() else target


def clamped(target, draft, drafted):
    return np.maximum(target - draft, TINY)


def with_a_little_everywhere(target, draft, drafted):
    return right_residual(target, draft) + Fraction(1, 10_000)


def not_normalised(target, draft, drafted):
    """What a search in the cumulated residual gives when it runs off the end: the last token."""
    weights = right_residual(target, draft).copy()
    weights[-1] += 1 - sum(weights)
    return weights


def best_of_the_residual(target, draft, drafted):
    return point_mass(int(right_residual(target, draft).argmax()), len(target))


def among_the_five_best(target, draft, drafted):
    """The residual of those tokens only that an engine has the probabilities of."""
    weights = right_residual(target, draft).copy()
    weights[np.argsort(-target, kind="stable")[5:]] = 0
    return weights if weights.any() else target


def ratio_over_a_little_more(target, draft, drafted):
    return min(1, target[drafted] / (draft[drafted] + Fraction(1, 10**10)))


def ratio_in_eight_bits(target, draft, drafted):
    """What u < ratio comes to with u a multiple of 1/256."""
    return Fraction(ceil(256 * ratio(target, draft, drafted)), 256)


def in_single_precision(target, draft, drafted):
    return in_half_precision(target, draft, drafted, np.float32)


def in_half_precision(target, draft, drafted, dtype=np.float16):
    """The residual as target * (1 - draft / target) in few bits: what log(1 - x) is taken of."""
    p, q = target.astype(dtype), draft.astype(dtype)
    share = np.divide(q, p, out=np.ones_like(p), where=p > 0)
    weights = rational((p * np.maximum(1 - share, 0)).tolist())
    return weights if weights.any() else target


def token_rule(*, accept=ratio, rest=residual, accept_at=0, rest_at=0, draft_at=0, bonus=None):
    """Return token verification with other parts; `..._at` shifts the row that a part reads."""

    def verify(chance, draft, target_probs):
        for i, drafted in enumerate(draft.tokens):
            draft_row = draft.probs[min(max(i + draft_at, 0), len(draft) - 1)]
            if not chance.flip(accept(target_probs[i + accept_at], draft_row, drafted)):
                return (*draft.tokens[:i], chance.pick(rest(target_probs[i + rest_at], draft_row, drafted)))
        return (*draft.tokens, chance.pick(target_probs[-1] if bonus is None else bonus(draft, target_probs)))

    return verify


# Bonus: (draft, target_probs) -> weights


def bonus_from_the_draft(draft, target_probs):
    return draft.probs[-1] if len(draft) else target_probs[-1]


def bonus_from_the_row_before(draft, target_probs):
    return target_probs[max(0, len(draft) - 1)]


def the_best_bonus(draft, target_probs):
    return point_mass(int(target_probs[-1].argmax()), len(target_probs[-1]))


def bonus_from_the_residual(draft, target_probs):
    return right_residual(target_probs[-1], draft.probs[-1]) if len(draft) else target_probs[-1]


# Rules with another shape


def each_on_its_own(chance, draft, target_probs):
    """A rejected draft is replaced and the drafts behind it are judged all the same."""
    tokens = tuple(
        drafted if chance.flip(ratio(target, row, drafted)) else chance.pick(right_residual(target, row))
        for drafted, row, target in zip(draft.tokens, draft.probs, target_probs, strict=False)
    )
    return (*tokens, chance.pick(target_probs[-1]))


def one_more_after_a_rejection(chance, draft, target_probs):
    """The residual token, and then another one from the row behind the rejected draft."""
    tokens = token_rule()(chance, draft, target_probs)
    return tokens if len(tokens) > len(draft) else (*tokens, chance.pick(target_probs[len(tokens)]))


def first_draft_unseen(chance, draft, target_probs):
    """Comparisons are off by one: what is judged begins with the second draft."""
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        if i > 0 and not chance.flip(ratio(target_probs[i], row, drafted)):
            return (*draft.tokens[:i], chance.pick(right_residual(target_probs[i], row)))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def ratio_of_joint_probabilities(chance, draft, target_probs):
    """Draft i is judged by the probability of all drafts up to i, target over draft."""
    joint = Fraction(1)
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        joint *= target_probs[i][drafted] / row[drafted]
        if not chance.flip(min(1, joint)):
            return (*draft.tokens[:i], chance.pick(right_residual(target_probs[i], row)))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def residual_of_the_first_position(chance, draft, target_probs):
    """Wherever the rejection is, the residual is that of position 0."""
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        if not chance.flip(ratio(target_probs[i], row, drafted)):
            return (*draft.tokens[:i], chance.pick(right_residual(target_probs[0], draft.probs[0])))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def four_judged(chance, draft, target_probs):
    """A buffer for four drafts: those behind the fourth are accepted unseen."""
    for i, (drafted, row) in enumerate(zip(draft.tokens[:4], draft.probs, strict=False)):
        if not chance.flip(ratio(target_probs[i], row, drafted)):
            return (*draft.tokens[:i], chance.pick(right_residual(target_probs[i], row)))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def greedy_without_drafts(chance, draft, target_probs):
    """A way of its own where there is nothing to verify."""
    if not len(draft):
        return (int(target_probs[-1].argmax()),)
    return token_rule()(chance, draft, target_probs)


def greedy_but_for_the_bonus(chance, draft, target_probs):
    """Every drafted position by argmax; only the last token is sampled."""
    for i, drafted in enumerate(draft.tokens):
        if drafted != (best := int(target_probs[i].argmax())):
            return (*draft.tokens[:i], best)
    return (*draft.tokens, chance.pick(target_probs[-1]))


def match_that_draws_again(chance, draft, target_probs):
    """A target sample differs from the draft, and instead of it another one is emitted."""
    for i, drafted in enumerate(draft.tokens):
        if chance.pick(target_probs[i]) != drafted:
            return (*draft.tokens[:i], chance.pick(target_probs[i]))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def match_that_keeps_the_draft(chance, draft, target_probs):
    """The draft that differs is emitted in place of the target sample."""
    for i, drafted in enumerate(draft.tokens):
        if chance.pick(target_probs[i]) != drafted:
            return draft.tokens[: i + 1]
    return (*draft.tokens, chance.pick(target_probs[-1]))


# Randomness used twice


def length_by_the_uniform_of_the_test(chance, draft, target_probs):
    """The draft goes on while the uniforms that will judge it are below 1/2; then the target is sampled.

    So the law is half the target's and half that of acceptances min(1, 2 * ratio) with the right residual.
    On F the latter is off by 1/10, as is lenience 1/2: 1/20.
    """
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        if not chance.flip(Fraction(1, 2)):
            return (*draft.tokens[:i], chance.pick(target_probs[i]))
        if not chance.flip(min(1, 2 * ratio(target_probs[i], row, drafted))):
            return (*draft.tokens[:i], chance.pick(right_residual(target_probs[i], row)))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def one_uniform_for_acceptance_and_residual(chance, draft, target_probs):
    """The uniform u that rejected, u >= ratio, is looked up in the cumulated residual too."""
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        probability = ratio(target_probs[i], row, drafted)
        if not chance.flip(probability):
            rest = right_residual(target_probs[i], row)
            return (*draft.tokens[:i], chance.pick(_pieces(rest, probability)))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def _pieces(weights, start):
    """How much of each token's piece of [0, 1) lies at or above `start`."""
    ends = [end / sum(weights) for end in accumulate(weights)]
    return [max(0, end - max(begin, start)) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def one_uniform_in_numpy(rng, draft, target_probs):
    """The same as it is written for a generator."""
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        target, small = target_probs[i].astype(float), row.astype(float)
        uniform = rng.random()
        if uniform >= target[drafted] / small[drafted]:
            cumulated = np.maximum(target - small, 0).cumsum()
            return (*draft.tokens[:i], int(np.searchsorted(cumulated / cumulated[-1], uniform, side="right")))
    return (*draft.tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1].astype(float))))


def one_uniform_for_acceptance_and_bonus(chance, draft, target_probs):
    """The uniform u that accepted the last draft, u < ratio, is looked up in the cumulated bonus row."""
    probability = 1
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        probability = ratio(target_probs[i], row, drafted)
        if not chance.flip(probability):
            return (*draft.tokens[:i], chance.pick(right_residual(target_probs[i], row)))
    bonus = np.array(target_probs[-1]) - _pieces(target_probs[-1], probability)
    return (*draft.tokens, chance.pick(bonus))


def one_uniform_for_all_positions(chance, draft, target_probs):
    """One uniform decides about every draft: what is left of it lies below the least ratio so far."""
    below = Fraction(1)
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        probability = ratio(target_probs[i], row, drafted)
        if not chance.flip(min(1, probability / below)):
            return (*draft.tokens[:i], chance.pick(right_residual(target_probs[i], row)))
        below = min(below, probability)
    return (*draft.tokens, chance.pick(target_probs[-1]))


def one_uniform_for_draft_and_acceptance(chance, draft, target_probs):
    """The uniform u that drew the draft decides about it: u is uniform on the draft's piece of [0, 1)."""
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        begin = sum(row[:drafted])
        share = (ratio(target_probs[i], row, drafted) - begin) / row[drafted]
        if not chance.flip(min(1, max(0, share))):
            return (*draft.tokens[:i], chance.pick(right_residual(target_probs[i], row)))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def one_race_for_draft_and_residual(chance, draft, target_probs):
    """Draft and residual are the first arrivals of races that share their exponentials E (Gumbel: -log E).

    The draft is the least E_x / draft_x. Say it comes at time t: t has the law Exp(1), whichever token it is,
    and what every other E_y has beyond t draft_y is exponential again. So in the residual's race, of
    E_y / rest_y, token y enters at t draft_y / rest_y and arrives at rate rest_y from then on. Between two
    entries nobody arrives with probability rate / (rate + running * gap), where t is Exp(rate); given that, t
    is Exp(rate + running * gap). So the whole law is rational.
    """
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        if not chance.flip(ratio(target_probs[i], row, drafted)):
            return (*draft.tokens[:i], _race(chance, row, right_residual(target_probs[i], row)))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def _race(chance, row, rest):
    rest = rest / rest.sum()
    entries = sorted({row[token] / rest[token] for token in np.flatnonzero(rest)})
    rate = 1
    for entry, following in pairwise(entries):
        running = [share if share and row[token] / share <= entry else 0 for token, share in enumerate(rest)]
        later = rate + sum(running) * (following - entry)
        if not chance.flip(rate / later):
            return chance.pick(running)
        rate = later
    return chance.pick(rest)


# Greedy


def greedy_with_ties_to_the_last(chance, draft, target_probs):
    best = [len(row) - 1 - int(row[::-1].argmax()) for row in target_probs]
    return _greedy(draft, best)


def greedy_one_row_on(chance, draft, target_probs):
    best = [int(row.argmax()) for row in target_probs]
    return _greedy(draft, [*best[1:], best[-1]])


def greedy_first_draft_unseen(chance, draft, target_probs):
    best = [int(row.argmax()) for row in target_probs]
    return _greedy(draft, [*draft.tokens[:1], *best[len(draft.tokens[:1]) :]])


def greedy_that_keeps_the_mismatch(chance, draft, target_probs):
    """The first draft that differs stays, and nothing is emitted in its place."""
    for i, drafted in enumerate(draft.tokens):
        if drafted != int(target_probs[i].argmax()):
            return draft.tokens[: i + 1]
    return (*draft.tokens, int(target_probs[-1].argmax()))


def greedy_among_the_two_best(chance, draft, target_probs):
    for i, drafted in enumerate(draft.tokens):
        if drafted not in np.argsort(-target_probs[i], kind="stable")[:2]:
            return (*draft.tokens[:i], int(target_probs[i].argmax()))
    return (*draft.tokens, int(target_probs[-1].argmax()))


def greedy_by_unwarped_ratio(chance, draft, target_probs):
    """Temperature 0, but the ratio is taken of the laws before the temperature."""
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        if target_probs[i][drafted] < row[drafted]:
            return (*draft.tokens[:i], int(target_probs[i].argmax()))
    return (*draft.tokens, int(target_probs[-1].argmax()))


def _greedy(draft, best):
    for i, drafted in enumerate(draft.tokens):
        if drafted != best[i]:
            return (*draft.tokens[:i], best[i])
    return (*draft.tokens, best[len(draft)])
