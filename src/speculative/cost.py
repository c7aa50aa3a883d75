"""The clock: tokens per round, speedup, the best draft length, and when speculation does not pay.

A *round* is `num_draft_tokens` passes of the draft, one after another, and one pass of the target over all
of them. `acceptance` is the probability that a drafted token is kept once those before it were, here the
same at every position and independent (`speculative.measure` computes what a real pair does). `cost` is the
time of one draft pass over time of one target pass; verifying is taken to cost one target pass, unless
`verification` says otherwise (`speculative.roofline` says up to which batch size it does, and
`speculative.bench` measures it).

Everything but the real-valued optimum is a rational function: ints and `fractions.Fraction` give exact
answers, a float anywhere gives a float.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from scipy.special import lambertw  # type: ignore[import-untyped]

from speculative._numbers import Number, count, number, positive, probability

__all__ = [
    "BestLength",
    "RuleOfThumb",
    "accepted_per_round",
    "best_num_draft_tokens",
    "break_even_cost",
    "ceiling",
    "operations_factor",
    "pays",
    "rules_of_thumb",
    "speedup",
    "speedup_from_tokens",
    "survival_from_conditionals",
    "tokens_from_conditionals",
    "tokens_from_survival",
    "tokens_per_round",
]


def _geometric_sum(ratio: Number, terms: int) -> Number:
    """1 + r + ... + r^(terms-1), by halving: exact on Fractions and no cancellation near r = 1."""
    if terms == 0:
        return Fraction(0)
    half, odd = divmod(terms, 2)
    total = (1 + ratio**half) * _geometric_sum(ratio, half)
    return 1 + ratio * total if odd else total


def tokens_per_round(acceptance: Number, num_draft_tokens: int) -> Number:
    """Expected tokens a round emits: the accepted drafts and one more from the target.

    Equals `(1 - a**(k+1)) / (1 - a)`, and `k + 1` at a = 1. Not to be confused with `accepted_per_round`,
    which is one less.

    Parameters
    ----------
    acceptance : number in [0, 1]
        Probability a that a draft is accepted, the same at every position and independent.
    num_draft_tokens : int, at least 1
        Drafted tokens per round, k.

    Returns
    -------
    number
        Tokens per round, from 1 to k + 1.

    Notes
    -----
    A round emits at least `i + 1` tokens iff its first `i` drafts are accepted, which has probability
    `a**i`; the sum over i = 0..k is the expectation. Leviathan et al. 2023, equation 1.

    Examples
    --------
    >>> round(tokens_per_round(0.8, 5), 5)
    3.68928
    """
    acceptance = probability("acceptance", acceptance)
    return _geometric_sum(acceptance, count("num_draft_tokens", num_draft_tokens) + 1)


def accepted_per_round(acceptance: Number, num_draft_tokens: int) -> Number:
    """Expected drafts accepted in a round: `tokens_per_round` without the token that is the target's own.

    Parameters
    ----------
    acceptance : number in [0, 1]
        Probability a that a draft is accepted, the same at every position and independent.
    num_draft_tokens : int, at least 1
        Drafted tokens per round, k.

    Returns
    -------
    number
        `a + a**2 + ... + a**k`, from 0 to k.

    Examples
    --------
    >>> round(accepted_per_round(0.8, 5), 5)
    2.68928
    """
    acceptance = probability("acceptance", acceptance)
    return acceptance * _geometric_sum(acceptance, count("num_draft_tokens", num_draft_tokens))


def survival_from_conditionals(conditionals: Iterable[Number]) -> tuple[Number, ...]:
    """P(accepted >= i) for i = 1..k, from the acceptance at each position once the round got there.

    Parameters
    ----------
    conditionals : iterable of k numbers in [0, 1]
        P(accepted >= i | accepted >= i - 1), i = 1..k.

    Returns
    -------
    tuple of k numbers
        Their running products.
    """
    survival: list[Number] = []
    reached: Number = Fraction(1)
    for position, conditional in enumerate(conditionals, 1):
        reached = reached * probability(f"conditional acceptance at position {position}", conditional)
        survival.append(reached)
    if not survival:
        raise ValueError("conditionals is empty: give the acceptance at position 1, 2, ...")
    return tuple(survival)


def tokens_from_survival(survival: Iterable[Number]) -> Number:
    """Expected tokens per round, `1 + sum_i P(accepted >= i)`, whatever the dependence between positions.

    Parameters
    ----------
    survival : iterable of k numbers in [0, 1], never rising
        P(accepted >= i), i = 1..k. A rising sequence cannot be one and is refused.

    Returns
    -------
    number
        Tokens per round, from 1 to k + 1.
    """
    reached: list[Number] = [Fraction(1)]
    for position, value in enumerate(survival, 1):
        reached.append(probability(f"survival at position {position}", value))
        if reached[-1] > reached[-2]:
            raise ValueError(
                f"survival at position {position} = {value} is more than the {reached[-2]} before it, but "
                "P(accepted >= i) cannot rise: give conditionals to tokens_from_conditionals"
            )
    if len(reached) == 1:
        raise ValueError("survival is empty: give P(accepted >= 1), P(accepted >= 2), ...")
    return sum(reached)


def tokens_from_conditionals(conditionals: Iterable[Number]) -> Number:
    """Expected tokens per round from the acceptance at each position once the round got there.

    Parameters
    ----------
    conditionals : iterable of k numbers in [0, 1]
        P(accepted >= i | accepted >= i - 1), i = 1..k; all alike gives `tokens_per_round`.

    Returns
    -------
    number
        Tokens per round, from 1 to k + 1.
    """
    return tokens_from_survival(survival_from_conditionals(conditionals))


def speedup_from_tokens(
    tokens: Number, num_draft_tokens: int, cost: Number, *, verification: Number = 1
) -> Number:
    """Speed over plain decoding when a round emits `tokens` on average: `tokens / (verification + k * cost)`.

    Parameters
    ----------
    tokens : number from 1 to num_draft_tokens + 1
        Expected tokens per round, computed or measured: the target's own token counts.
    num_draft_tokens : int, at least 1
        Drafted tokens per round, k.
    cost : number, at least 0
        Time of one draft pass over time of one target pass.
    verification : number above 0
        Time of the target's pass over all positions of a round, with what else a round takes, over time of a
        pass over one.

    Returns
    -------
    number
        The speedup; below 1, speculation is slower than plain decoding.
    """
    drafted, passed = count("num_draft_tokens", num_draft_tokens), positive("verification", verification)
    return number("tokens", tokens, 1, drafted + 1) / (passed + drafted * number("cost", cost, 0))


def speedup(acceptance: Number, num_draft_tokens: int, cost: Number, *, verification: Number = 1) -> Number:
    """Expected speed over plain decoding, `tokens_per_round / (verification + k * cost)`.

    Parameters
    ----------
    acceptance : number in [0, 1]
        Probability a that a draft is accepted, the same at every position and independent.
    num_draft_tokens : int, at least 1
        Drafted tokens per round, k.
    cost : number, at least 0
        Time of one draft pass over time of one target pass, with all that goes with a pass (sampling,
        launch).
    verification : number above 0
        Time of the target's pass over all k + 1 positions over time of a pass over one, with all that goes
        with them.

    Returns
    -------
    number
        With the verification at 1: `ceiling` at a = 1, `1 / (1 + k * cost)` at a = 0.

    Notes
    -----
    Leviathan et al. 2023, theorem 3.8, where verification takes the time of one pass.

    Examples
    --------
    >>> round(speedup(0.75, 5, 1 / 9), 2)
    2.11
    >>> round(speedup(0.75, 5, 1 / 9, verification=1.5), 2)
    1.6
    """
    tokens = tokens_per_round(acceptance, num_draft_tokens)
    return speedup_from_tokens(tokens, num_draft_tokens, cost, verification=verification)


def ceiling(num_draft_tokens: int, cost: Number) -> Number:
    """Speedup when every draft is accepted, `(k + 1) / (1 + k * cost)`: no acceptance gives more.

    Parameters
    ----------
    num_draft_tokens : int, at least 1
        Drafted tokens per round, k.
    cost : number, at least 0
        Time of one draft pass over time of one target pass.

    Returns
    -------
    number
        The bound.
    """
    return speedup(1, num_draft_tokens, cost)


def operations_factor(acceptance: Number, num_draft_tokens: int, draft_operations: Number = 0) -> Number:
    """Arithmetic per emitted token over that of plain decoding, which is 1.

    Parameters
    ----------
    acceptance : number in [0, 1]
        Probability a that a draft is accepted, the same at every position and independent.
    num_draft_tokens : int, at least 1
        Drafted tokens per round, k.
    draft_operations : number, at least 0
        Operations of one draft pass over those of the target at one position.

    Returns
    -------
    number
        `(k * draft_operations + k + 1) / tokens_per_round`, at least 1.

    Notes
    -----
    Leviathan et al. 2023, theorem 3.11. Its inverse is the speedup of a batch so large that arithmetic
    decides the time of a pass: never above 1.
    """
    drafted = count("num_draft_tokens", num_draft_tokens)
    operations = drafted * number("draft_operations", draft_operations, 0) + drafted + 1
    return operations / tokens_per_round(acceptance, drafted)


def pays(acceptance: Number, cost: Number) -> bool:
    """Whether some draft length beats plain decoding: exactly when `acceptance > cost`.

    Parameters
    ----------
    acceptance : number in [0, 1]
        Probability a that a draft is accepted, the same at every position and independent.
    cost : number, at least 0
        Time of one draft pass over time of one target pass, c.

    Returns
    -------
    bool
        True iff `speedup(acceptance, k, cost) > 1` for some k.

    Notes
    -----
    The speedup exceeds 1 iff `a + a**2 + ... + a**k > k c`, that is, iff the mean of those powers
    exceeds c. None of them exceeds a, and for k = 1 the mean is a: if any length pays, drafting one token
    does, with speedup `(1 + a) / (1 + c)`. Leviathan et al. 2023, corollary 3.9.
    """
    return probability("acceptance", acceptance) > number("cost", cost, 0)


def break_even_cost(acceptance: Number, num_draft_tokens: int) -> Number:
    """The cost below which drafting k tokens beats plain decoding: the mean of `a, a**2, ..., a**k`.

    Parameters
    ----------
    acceptance : number in [0, 1]
        Probability a that a draft is accepted, the same at every position and independent.
    num_draft_tokens : int, at least 1
        Drafted tokens per round, k.

    Returns
    -------
    number
        `speedup(acceptance, k, cost)` is above 1, at 1 or below 1 as `cost` is below, at or above it.
    """
    return accepted_per_round(acceptance, num_draft_tokens) / count("num_draft_tokens", num_draft_tokens)


class BestLength(NamedTuple):
    """The draft length of largest speedup."""

    real: float
    """Best of all real lengths from 0 up; infinite where every further draft pays."""
    num_draft_tokens: int
    """Best whole number, the shorter of two equally fast; 0 means do not speculate."""
    speedup: Number
    """Speedup at `num_draft_tokens`; 1 where that is 0."""


def best_num_draft_tokens(acceptance: Number, cost: Number, *, limit: int | None = None) -> BestLength:
    r"""The draft length of largest `speedup`: real-valued in closed form, and the best whole number.

    Parameters
    ----------
    acceptance : number in [0, 1]
        Probability a that a draft is accepted, the same at every position and independent.
    cost : number, at least 0
        Time of one draft pass over time of one target pass, c.
    limit : int, at least 1, optional
        Longest draft allowed for the whole number. Required where every further draft pays: a = 1 > c, or c
        = 0.

    Returns
    -------
    BestLength
        `real`, `num_draft_tokens` and the `speedup` there.

    Raises
    ------
    ValueError
        If every further draft pays and there is no `limit`; if an argument is out of range.

    Notes
    -----
    With :math:`\lambda = -\ln a`, the speedup
    :math:`S(k) = (1 - e^{-\lambda(k+1)}) / ((1-a)(1+kc))` is stationary where
    :math:`\lambda e^{-\lambda(k+1)}(1+kc) = c\,(1 - e^{-\lambda(k+1)})`. In terms of
    :math:`u = 1 + \lambda(k + 1/c)` this says

    .. math:: u\,e^{-\lambda(k+1)} = 1, \qquad\text{that is,}\qquad -u\,e^{-u} = -e^{-1-\lambda(1/c-1)},

    so :math:`u = -W_{-1}(-e^{-1-\lambda(1/c-1)})`, the branch on which :math:`u \ge 1`, and :math:`k^* =
    \ln(u)/\lambda - 1`. The left side :math:`u\,e^{-\lambda(k+1)}` falls as k grows, so S rises up to
    :math:`k^*` and falls beyond: the best whole number is one of the two around it, and both are tried.

    Examples
    --------
    >>> best = best_num_draft_tokens(0.8, 0.05)
    >>> round(best.real, 3), best.num_draft_tokens
    (7.857, 8)
    """
    acceptance, cost = probability("acceptance", acceptance), number("cost", cost, 0)
    real = _best_real_length(float(acceptance), float(cost))
    longest = real if limit is None else min(real, count("limit", limit))
    if math.isinf(longest):
        raise ValueError(
            f"acceptance = {acceptance} at cost = {cost}: every further draft pays, so no length is best; "
            "give limit, the longest draft you can run"
        )
    lengths = sorted({math.floor(longest), math.ceil(longest)})
    speedups = {length: speedup(acceptance, length, cost) if length else Fraction(1) for length in lengths}
    best = max(lengths, key=speedups.__getitem__)
    return BestLength(real, best, speedups[best])


def _best_real_length(acceptance: float, cost: float) -> float:
    if acceptance == 0 or cost >= 1:
        return 0.0
    if acceptance == 1 or cost == 0:
        return math.inf
    decay = -math.log(acceptance)
    exponent = 1 + decay * (1 / cost - 1)
    if exponent < 700:
        u = float(-lambertw(-math.exp(-exponent), -1).real)
    else:  # exp underflows; u = exponent + ln(u), and iterating it converges at once
        u = exponent
        for _ in range(6):
            u = exponent + math.log(u)
    return max(0.0, math.log(u) / decay - 1)


class RuleOfThumb(NamedTuple):
    """A popular rule, with a case that breaks it."""

    rule: str
    acceptance: Fraction
    cost: Fraction
    num_draft_tokens: int
    speedup: Fraction


def rules_of_thumb() -> tuple[RuleOfThumb, ...]:
    """Two popular rules on when speculation does not pay, each with a case where the formula says it does.

    Returns
    -------
    tuple of RuleOfThumb
        The rule, an acceptance and cost it rules out, the best draft length there and its exact speedup,
        above 1.

    Notes
    -----
    Neither number decides alone; `acceptance > cost` does (see `pays`). The first rule is safe only for
    acceptances up to 0.3, the second only for costs from 0.4.
    """
    cases = [
        ("a cost above 0.3 never pays", Fraction(9, 10), Fraction(2, 5)),
        ("an acceptance below 0.4 loses", Fraction(3, 10), Fraction(1, 20)),
    ]
    table = []
    for rule, acceptance, cost in cases:
        best = best_num_draft_tokens(acceptance, cost)
        table.append(RuleOfThumb(rule, acceptance, cost, best.num_draft_tokens, Fraction(best.speedup)))
    return tuple(table)
