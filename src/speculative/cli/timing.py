"""How long a token takes, speculatively and by the target alone, measured in turns on the same machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from speculative.chance import sample
from speculative.cli.trained import Loop
from speculative.decode import Round, autoregress, stream
from speculative.distribution import Context
from speculative.oracle import Oracle

STRETCHES = 8
MOST_TOKENS = 400  # that are measured on
ENOUGH = 10.0  # seconds, after which no further stretch begins


class Stretch(NamedTuple):
    """So many tokens by both ways, and the seconds each took."""

    tokens: int
    speculative: float
    alone: float


class Timing(NamedTuple):
    """Stretches in the order they were measured."""

    stretches: tuple[Stretch, ...]

    @property
    def per_token(self) -> float:
        """Seconds, speculatively."""
        return sum(one.speculative for one in self.stretches) / self.tokens

    @property
    def per_token_alone(self) -> float:
        """Seconds, by the target alone."""
        return sum(one.alone for one in self.stretches) / self.tokens

    @property
    def tokens(self) -> int:
        """Those of all stretches, by either way."""
        return sum(one.tokens for one in self.stretches)

    @property
    def speedup(self) -> float:
        """How many times as fast."""
        return self.per_token_alone / self.per_token

    @property
    def by_stretch(self) -> list[float]:
        """The same of each stretch: how far they are apart is the noise."""
        return [one.alone / one.speculative for one in self.stretches]


def measure(loop: Loop, context: Context, num_tokens: int, *, seed: int, **options: Any) -> Timing:
    """Decode by both ways in turns, from the same context.

    Parameters
    ----------
    loop : Loop
        A drafter that has seen no text, or one that keeps nothing.
    context : tuple of int
        The prompt.
    num_tokens : int
        At most `MOST_TOKENS` are measured on.
    seed : int
        Another one than that of a text before: what models have kept of it would be found again.
    **options
        `num_draft_tokens` and `verify`, as of `stream`.

    Returns
    -------
    Timing
        A cache that holds one text is led to the other before the clock runs.
    """
    total = min(num_tokens, MOST_TOKENS)
    rounds = sample(stream, loop.target, loop.drafter, context, max_new_tokens=total, rng=seed, **options)
    rng = np.random.default_rng(seed)
    count = min(STRETCHES, total)
    ours = alone = context
    stretches: list[Stretch] = []
    began = time.perf_counter()
    for part in range(1, count + 1):
        goal = len(context) + total * part // count
        reread(loop.target, ours)
        start = time.perf_counter()
        ours = run_to(goal, rounds, ours)
        speculative = time.perf_counter() - start
        if (num_new := len(ours) - len(alone)) == 0:  # at the context limit
            break
        reread(loop.target, alone)
        start = time.perf_counter()
        alone += sample(autoregress, loop.target, alone, max_new_tokens=num_new, rng=rng).tokens
        seconds = time.perf_counter() - start
        stretches.append(Stretch(num_new, speculative, seconds))
        if time.perf_counter() - began > ENOUGH:
            break
    return Timing(tuple(stretches))


def reread(target: Oracle, context: Context) -> None:
    """Ask for the law before a context's last token, as the round before it has left a cache."""
    if len(context) > 1:
        target.row(context[:-1])


def run_to(goal: int, rounds: Iterator[Round], context: Context) -> Context:
    """Run rounds until the text is so long, or they end, and return it."""
    for one in rounds:
        context += one.tokens
        if len(context) >= goal:
            break
    return context
