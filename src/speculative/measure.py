"""How well a draft agrees with a target on a text, and what token verification makes of it.

The formulas of `speculative.cost` take acceptance to be the same everywhere and independent. Real acceptance
depends on the context, and a context that was easy is often followed by another easy one. Here the two
models' laws are asked instead, at the contexts of a text, before anything is deployed:

- `acceptance_on_text`: acceptance by position, tokens per round, of a round that starts anywhere in the text;
- `rounds_to_write`: target passes for the whole text, rounds starting where the ones before them ended;
- `survival`: both exact, at one context.

All of it is about a chain of drafts and `verify.token`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from html import escape
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]

from speculative._numbers import Number, count, number
from speculative.chance import Chance, sample
from speculative.cost import tokens_per_round
from speculative.distribution import Context, Row
from speculative.oracle import Oracle, check_vocabulary

__all__ = [
    "Estimate",
    "TextAcceptance",
    "acceptance_on_text",
    "drafted_survival",
    "mean_with_interval",
    "rounds_to_write",
    "survival",
]


class Estimate(NamedTuple):
    """A mean over a text with a confidence interval for what more text of the kind would give."""

    mean: Number
    low: float
    high: float

    def __str__(self) -> str:
        return f"{float(self.mean):.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class TextAcceptance:
    """How a draft fares on a text."""

    positions: int
    """How many positions of the text a round was started at."""
    acceptance: Estimate
    """Mean probability that a first draft is accepted: 1 - TV of the two laws."""
    acceptance_by_position: tuple[Estimate, ...]
    """P(accepted >= i | accepted >= i - 1) for i = 1..k, up to the last position that is ever reached."""
    survival: tuple[Estimate, ...]
    """P(accepted >= i) for i = 1..k."""
    tokens_per_round: Estimate
    """Expected tokens of a round, the target's own included."""
    tokens_per_round_iid: Number
    """What the formula makes of `acceptance`, as if it were the same everywhere."""

    def __repr__(self) -> str:
        return (
            f"TextAcceptance(acceptance {self.acceptance}, tokens per round {self.tokens_per_round}, by the "
            f"i.i.d. formula {float(self.tokens_per_round_iid):.3f}; {self.positions} positions)"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{i}</td><td>{conditional}</td><td>{reached}</td></tr>"
            for i, (conditional, reached) in enumerate(
                zip(self.acceptance_by_position, self.survival, strict=False), 1
            )
        )
        head = "<tr><th>draft</th><th>accepted if reached</th><th>accepted</th></tr>"
        return f"<code>{escape(repr(self))}</code><table>{head}{rows}</table>"


def acceptance_on_text(
    target: Oracle,
    draft: Oracle,
    tokens: Sequence[int],
    num_draft_tokens: int,
    *,
    start: int = 0,
    window: int | None = None,
    paths: int | None = None,
    rng: int | np.random.Generator | None = None,
    batches: int = 20,
    level: float = 0.95,
    max_rows: int = 1_000_000,
) -> TextAcceptance:
    """Acceptance and tokens per round at the contexts of a text, from the two models' laws.

    Parameters
    ----------
    target, draft : Oracle
        As they will be used: warped.
    tokens : sequence of n ints
        The text. The figures hold for contexts like its own; take text that the target wrote, or would write.
    num_draft_tokens : int, at least 1
        Drafted tokens per round, k.
    start : int
        Positions from `start` on are measured, each with all tokens before it as its context.
    window : int, optional
        Show the models the last `window` tokens only: needed where the text is longer than a model's limit,
        and faster where the models look no further back.
    paths : int, optional
        None: exact at each position. Otherwise the mean over this many drafted paths per position, which is
        unbiased; position 1 stays exact.
    rng : None, int or numpy.random.Generator
        Draws the paths; not used without `paths`.
    batches, level
        Of the intervals: see `mean_with_interval`.
    max_rows : int
        Refuse an exact computation that asks each model for more rows than this.

    Returns
    -------
    TextAcceptance
        Means are exact (Fractions where the rows are) for this text if `paths` is None; the intervals say
        how far the figures of more text of the kind may lie, the error of sampled paths included.

    Raises
    ------
    ValueError
        For arguments out of range, models of different vocabularies, a text that exceeds a model's context
        limit, and an exact computation beyond `max_rows`.

    Notes
    -----
    Each model is asked for (n - start) (1 + V + ... + V^(k-1)) rows, or for (n - start) k `paths` at most.

    Every position counts alike. The rounds of a decode start more often where drafts fail (a failure ends a
    round): `rounds_to_write` counts those. `tokens_per_round_iid` is lower than `tokens_per_round` where easy
    contexts follow easy ones.
    """
    drafted = count("num_draft_tokens", num_draft_tokens)
    tokens, target_row, draft_row = _prepared(target, draft, tokens, start, window, beyond=drafted - 1)
    positions = range(start, len(tokens))
    if paths is None:
        rows = len(positions) * sum(target.vocab_size**i for i in range(drafted))
        if rows > max_rows:
            raise ValueError(
                f"exact acceptance takes {rows} rows of each model, over max_rows = {max_rows}: "
                "give paths, say 4, to estimate it, or fewer tokens or draft tokens"
            )
        survivals = [survival(target_row, draft_row, tokens[:end], drafted) for end in positions]
    else:
        repeats, generator = count("paths", paths), np.random.default_rng(rng)
        program = partial(sample, drafted_survival, target_row, draft_row, rng=generator)
        survivals = [
            _mean([program(context=tokens[:end], num_draft_tokens=drafted) for _ in range(repeats)])
            for end in positions
        ]
    reached = [(Fraction(1), *row) for row in survivals]  # [n - start, 1 + k]
    interval = partial(mean_with_interval, batches=batches, level=level)
    acceptance = interval([row[1] for row in reached])
    return TextAcceptance(
        positions=len(positions),
        acceptance=acceptance,
        acceptance_by_position=tuple(
            _ratio_with_interval([row[i] for row in reached], [row[i - 1] for row in reached], interval)
            for i in range(1, drafted + 1)
            if any(row[i - 1] for row in reached)
        ),
        survival=tuple(interval([row[i] for row in reached]) for i in range(1, drafted + 1)),
        tokens_per_round=interval([sum(row) for row in reached]),
        tokens_per_round_iid=tokens_per_round(acceptance.mean, drafted),
    )


def survival(
    target: Callable[[Context], Row], draft: Callable[[Context], Row], context: Context, num_draft_tokens: int
) -> tuple[Number, ...]:
    """P(accepted >= i) for i = 1..k of a round that starts at `context`, exactly.

    Parameters
    ----------
    target, draft : Oracle, or any function of a context that returns a row
        The two models.
    context : tuple of int
        Where the round starts.
    num_draft_tokens : int, at least 1
        Drafted tokens, k.

    Returns
    -------
    tuple of k numbers
        Fractions where the rows are. `cost.tokens_from_survival` makes tokens per round of them.

    Notes
    -----
    The sum over drafted paths x of `prod_j min(target, draft)(x_j | context, x_1..x_(j-1))`, by recursion on
    the first token: each model is asked for at most 1 + V + ... + V^(k-1) rows.
    """
    accepted = np.minimum(target(context), draft(context))  # [V]
    totals = [_at_most_one(accepted.sum())] + [Fraction(0)] * (
        count("num_draft_tokens", num_draft_tokens) - 1
    )
    if num_draft_tokens > 1:
        for token in map(int, np.flatnonzero(accepted)):
            deeper = survival(target, draft, (*context, token), num_draft_tokens - 1)
            for i, value in enumerate(deeper, 1):
                totals[i] += _mass(accepted, token) * value
    return tuple(accumulate(totals, lambda before, value: min(value, before)))  # floats may rise by rounding


def drafted_survival(
    chance: Chance,
    target: Callable[[Context], Row],
    draft: Callable[[Context], Row],
    context: Context,
    num_draft_tokens: int,
) -> tuple[Number, ...]:
    """Draft one path and return what it says about P(accepted >= i), i = 1..k.

    Parameters
    ----------
    chance : Chance
        One `pick` per drafted token but the last, which makes no difference.
    target, draft, context, num_draft_tokens
        As for `survival`.

    Returns
    -------
    tuple of k numbers
        Value i is the probability that the path's first i - 1 tokens are all accepted, times the acceptance
        at the position after them.

    Notes
    -----
    **Law.** The mean of value i is exactly P(accepted >= i), `survival`; value 1 is that number itself. The
    values of one path need not fall with i, only their means do.
    """
    count("num_draft_tokens", num_draft_tokens)
    reached: Number = Fraction(1)
    values: list[Number] = []
    while True:
        target_row, draft_row = target(context), draft(context)
        values.append(reached * _at_most_one(np.minimum(target_row, draft_row).sum()))
        if len(values) == num_draft_tokens:
            return tuple(values)
        token = chance.pick(draft_row)
        reached = reached * _at_most_one(_mass(target_row, token) / _mass(draft_row, token))
        context = (*context, token)


def rounds_to_write(
    target: Oracle,
    draft: Oracle,
    tokens: Sequence[int],
    num_draft_tokens: int,
    *,
    start: int = 0,
    window: int | None = None,
) -> Number:
    """Expected rounds in which speculative decoding writes a text, given that it writes just this text.

    Parameters
    ----------
    target, draft, tokens, num_draft_tokens, start, window
        As for `acceptance_on_text`; each token must have some probability under the target.

    Returns
    -------
    number
        Target passes, from 1 to n - start; exact. `(n - start) / rounds_to_write` is tokens per target pass.

    Raises
    ------
    ValueError
        For a token of probability 0, and as `acceptance_on_text`.

    Notes
    -----
    Given what is written, token y at a drafted position was an accepted draft with probability `min(target,
    draft)(y) / target(y)` and otherwise drawn from the residual, independently of all others; and what comes
    after depends on where a round ends only. So the expected rounds from each position on follow from those
    from later positions. Each model is asked for n - start rows; no path is drawn.
    """
    drafted = count("num_draft_tokens", num_draft_tokens)
    tokens, target_row, draft_row = _prepared(target, draft, tokens, start, window, beyond=0)
    kept = [_kept(target_row, draft_row, tokens, end) for end in range(start, len(tokens))]  # [n - start]
    rounds: list[Number] = [Fraction(0)] * (len(kept) + drafted + 1)  # still needed from position i on
    for first in reversed(range(len(kept))):
        reached: Number = Fraction(1)
        expected: Number = Fraction(1)
        for i in range(first, min(first + drafted, len(kept))):
            expected = expected + reached * (1 - kept[i]) * rounds[i + 1]
            reached = reached * kept[i]
        rounds[first] = expected + reached * rounds[first + drafted + 1]
    return rounds[0]


def _kept(
    target: Callable[[Context], Row], draft: Callable[[Context], Row], tokens: Context, position: int
) -> Number:
    token, context = tokens[position], tokens[:position]
    mass = _mass(target(context), token)
    if mass == 0:
        raise ValueError(
            f"token {token} at position {position} has probability 0 under the target: "
            "give a text that the target can write"
        )
    return _at_most_one(_mass(draft(context), token) / mass)


def _mass(row: Row, token: int) -> Number:
    return number("probability", row[token])


def _at_most_one(value: object) -> Number:
    checked = number("probability", value)
    return min(checked, type(checked)(1))


def mean_with_interval(values: Iterable[Number], *, batches: int = 20, level: float = 0.95) -> Estimate:
    """Mean of a stationary series, with a confidence interval that allows for neighbours being alike.

    Parameters
    ----------
    values : iterable of n numbers
        In the order they came.
    batches : int, at least 2
        The series is cut into this many stretches, whose means are taken to be independent. They are nearly
        so if a stretch, n / batches values, is many times longer than values stay alike.
    level : float
        Nominal coverage, between 0 and 1.

    Returns
    -------
    Estimate
        The mean (exact on Fractions) and Student's interval from the spread of the stretches' means.

    Notes
    -----
    Batch means; Law and Kelton 1982. Measured coverage of the 95 % interval with 20 batches, on a series of
    two states each kept with probability 0.95: 94 % of 4,000 values, 93 % of 2,000, 87 % of 400. The
    interval for independent values covers 35 % there.
    """
    exact = [number(f"value {position}", value) for position, value in enumerate(values)]
    if not 2 <= count("batches", batches) <= len(exact):
        raise ValueError(
            f"batches = {batches} for {len(exact)} values: give 2 or more, and no more than values"
        )
    if not 0 < number("level", level) < 1:
        raise ValueError(f"level = {level}: give a coverage between 0 and 1, such as 0.95")
    mean = sum(exact) / len(exact)
    means = [part.mean() for part in np.array_split(np.array(exact, dtype=np.float64), batches)]
    margin = float(stdtrit(batches - 1, (1 + level) / 2) * np.std(means, ddof=1) / np.sqrt(batches))
    return Estimate(mean, float(mean) - margin, float(mean) + margin)


def _ratio_with_interval(
    above: Sequence[Number], below: Sequence[Number], interval: Callable[[list[Number]], Estimate]
) -> Estimate:
    """sum(above) / sum(below), with the interval of its linearisation, whose mean it is."""
    mean = sum(below) / len(below)
    ratio = sum(above) / sum(below)
    return interval([ratio + (a - ratio * b) / mean for a, b in zip(above, below, strict=True)])


def _mean(rows: Sequence[Sequence[Number]]) -> tuple[Number, ...]:
    return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))


def _prepared(
    target: Oracle, draft: Oracle, tokens: Sequence[int], start: int, window: int | None, *, beyond: int
) -> tuple[Context, Callable[[Context], Row], Callable[[Context], Row]]:
    """Check a text against two models that are asked up to `beyond` drafted tokens after its positions."""
    check_vocabulary(target, draft)
    text = tuple(tokens)
    if not count("start", start, 0) < len(text):
        raise ValueError(f"start = {start} in a text of {len(text)} tokens: give a position inside the text")
    longest = len(text) - 1 + beyond if window is None else count("window", window, 0)
    for name, oracle in (("target", target), ("draft", draft)):
        if oracle.context_limit is not None and longest > oracle.context_limit:
            raise ValueError(
                f"contexts of up to {longest} tokens are over the {name}'s limit of {oracle.context_limit}: "
                f"give window={oracle.context_limit} or less"
            )
    if window is None:
        return text, target, draft
    return text, partial(_last, target, window), partial(_last, draft, window)


def _last(oracle: Oracle, window: int, context: Context) -> Row:
    return oracle(context[max(0, len(context) - window) :])
