"""The race: prompts decoded plainly and speculatively in turn, on one clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speculative._numbers import count
from speculative.bench.contender import Clock, Contender, as_prompts, begun
from speculative.chance import sample
from speculative.decode import Round, autoregress, generate
from speculative.distribution import Context
from speculative.metrics import Statistics, statistics
from speculative.oracle import Oracle


class Spread(NamedTuple):
    """A median between its quartiles."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


class Race(NamedTuple):
    """What a race brought; each spread is over prompts."""

    speedup: Spread
    """Time of plain decoding over that of speculative decoding, right after or right before it."""
    seconds: Spread
    """Of a token, speculatively."""
    plain_seconds: Spread
    """Of a token, plainly."""
    statistics: Statistics
    drafted: tuple[int, ...]
    """How many drafts each round scored."""


def race(
    target: Oracle,
    contender: Contender,
    prompts: Sequence[Context],
    *,
    max_new_tokens: int = 128,
    repeats: int = 3,
    seed: int = 0,
    clock: Clock = time.perf_counter,
) -> Race:
    """Decode prompts plainly and speculatively in turn, the one first as often as the other.

    Parameters
    ----------
    target : Oracle
        What decodes plainly, warped.
    contender : Contender
        Its target has the same law.
    prompts : sequence of tuples of int
        Each of two tokens or more.
    max_new_tokens : int
        Tokens decoded of each prompt.
    repeats : int
        How often each is decoded both ways, with other random numbers each time: a drafter that keeps the
        rows it has made would find them all there, where nothing but the text is random.
    seed : int
        Of these.
    clock : callable
        Returns seconds.

    Returns
    -------
    Race
        Speedups are taken pair by pair, their median over the repeats for each prompt, and median and
        quartiles of these over prompts. So a moment in which the machine did something else counts little.

    Raises
    ------
    ValueError
        For no prompts, one that is too short, and more tokens than the target has room for.
    """
    prompts = as_prompts(target, prompts, max_new_tokens)
    options: Any = {"max_new_tokens": max_new_tokens, "seed": seed, "clock": clock}
    heats = [
        heat(target, contender, prompts, turn=turn, **options) for turn in range(count("repeats", repeats))
    ]
    return result_of(heats, max_new_tokens)


class Heat(NamedTuple):
    """Prompts, each decoded once both ways."""

    seconds: NDArray[np.float64]  # [2, prompts], plainly and speculatively
    rounds: list[Round]


def heat(
    target: Oracle,
    contender: Contender,
    prompts: Sequence[Context],
    *,
    turn: int,
    max_new_tokens: int,
    seed: int,
    clock: Clock,
) -> Heat:
    """Decode each prompt once both ways: one repeat of a race.

    Parameters
    ----------
    target, contender, prompts, max_new_tokens, seed, clock
        As for `race`. A prompt may also be of one token or none, which leaves nothing to read before.
    turn : int
        Which repeat it is. Which way is first changes from prompt to prompt, and with the turn; so do the
        random numbers.

    Returns
    -------
    Heat
        The target's limit may end a text early.
    """
    found = Heat(np.empty((2, len(prompts))), [])
    for place, prompt in enumerate(prompts):
        for way in (0, 1) if (turn + place) % 2 else (1, 0):
            parts = begun(contender, prompt, target)  # which may have a cache of its own
            rng = np.random.default_rng((seed, turn, place))
            start = clock()
            if way:
                done = sample(
                    generate,
                    *parts,
                    prompt,
                    max_new_tokens=max_new_tokens,
                    num_draft_tokens=contender.num_draft_tokens,
                    verify=contender.verify,
                    rng=rng,
                )
                found.rounds.extend(done.rounds)
            else:
                sample(autoregress, target, prompt, max_new_tokens=max_new_tokens, rng=rng)
            found.seconds[way, place] = clock() - start
    return found


def result_of(heats: Sequence[Heat], max_new_tokens: int) -> Race:
    """Put heats together: medians over them, then the spread over prompts."""
    seconds = np.array([each.seconds for each in heats])  # [heats, 2, prompts]
    plain, fast = np.median(seconds, axis=0) / max_new_tokens
    rounds = [one for each in heats for one in each.rounds]
    return Race(
        _spread(np.median(seconds[:, 0] / seconds[:, 1], axis=0)),
        _spread(fast),
        _spread(plain),
        statistics(rounds),
        tuple(one.drafted for one in rounds),
    )


def _spread(values: Any) -> Spread:
    return Spread(*np.quantile(values, (0.25, 0.5, 0.75)).tolist())
