"""How long a token takes, speculatively and by the target alone, on the stopwatch that `bench` races with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from speculative.bench import Contender, heat
from speculative.cli.trained import Loop
from speculative.decode import Verify
from speculative.distribution import Context

TURNS = 3
MOST_TOKENS = 400  # that are decoded in each
ENOUGH = 1.0  # seconds, after which no further turn begins


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
        """Those of all stretches, as speculation wrote them."""
        return sum(one.tokens for one in self.stretches)

    @property
    def speedup(self) -> float:
        """How many times as fast."""
        return self.per_token_alone / self.per_token

    @property
    def by_stretch(self) -> list[float]:
        """The same of each stretch: how far they are apart is the noise."""
        return [one.alone / one.speculative for one in self.stretches]


def measure(
    make: Callable[[], Loop],
    context: Context,
    num_tokens: int,
    *,
    seed: int,
    num_draft_tokens: int,
    verify: Verify,
) -> Timing:
    """Decode both ways in turns, each time from the same context with other random numbers.

    Parameters
    ----------
    make : callable
        `make()` -> target and drafter, which has seen no text.
    context : tuple of int
        The prompt; reading it is left out.
    num_tokens : int
        At most `MOST_TOKENS` are decoded a turn.
    seed : int
        Another one than that of a text before: what models have kept of it would be found again.
    num_draft_tokens, verify
        As of `stream`.

    Returns
    -------
    Timing
        A stretch for each turn.
    """
    contender, target = Contender(make, num_draft_tokens, verify), make().target
    stretches: list[Stretch] = []
    began = time.perf_counter()
    while not stretches or (len(stretches) < TURNS and time.perf_counter() - began < ENOUGH):
        raced = heat(
            target,
            contender,
            [context],
            turn=len(stretches),
            max_new_tokens=min(num_tokens, MOST_TOKENS),
            seed=seed,
            clock=time.perf_counter,
        )
        ((alone,), (speculative,)) = raced.seconds.tolist()
        stretches.append(Stretch(sum(len(one.tokens) for one in raced.rounds), speculative, alone))
    return Timing(tuple(stretches))
