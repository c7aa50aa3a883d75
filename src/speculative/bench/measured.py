"""A race beside its forecast: what the cost model makes of costs measured apart."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from speculative._numbers import count
from speculative.bench.contender import Clock, Contender, as_prompts
from speculative.bench.costs import Costs, Survey, as_texts
from speculative.bench.race import Race, heat, result_of
from speculative.cost import speedup_from_tokens
from speculative.distribution import Context
from speculative.oracle import Oracle


class Measured(NamedTuple):
    """A race, and the costs it is foretold from."""

    race: Race
    costs: Costs
    num_draft_tokens: int

    @property
    def cost(self) -> float:
        """Time of drafting a token over time of a plain token: `cost` of the cost model."""
        return self.costs.drafting / (self.num_draft_tokens * self.costs.plain)

    @property
    def verification(self) -> float:
        """Time of the target's pass and the loop over time of a plain token: `verification` there."""
        return self.costs.verification(self.race.drafted) / self.costs.plain

    @property
    def round_cost(self) -> float:
        """Time of a round over time of a plain token: `verification + num_draft_tokens * cost`."""
        return self.verification + self.num_draft_tokens * self.cost

    @property
    def predicted(self) -> float:
        """The speedup by the cost model, from the race's tokens per round and the costs."""
        tokens = self.race.statistics.tokens_per_target_pass
        assert tokens is not None  # there was a round
        k, cost, verification = self.num_draft_tokens, self.cost, self.verification
        return float(speedup_from_tokens(tokens, k, cost, verification=verification))

    @property
    def error(self) -> float:
        """How far the prediction is above the measured speedup, as a share of it."""
        return self.predicted / self.race.speedup.median - 1


def measure(
    target: Oracle,
    contender: Contender,
    prompts: Sequence[Context],
    texts: Sequence[Context],
    *,
    max_new_tokens: int = 128,
    repeats: int = 3,
    seed: int = 0,
    clock: Clock = time.perf_counter,
) -> Measured:
    """Race a contender, and time its parts, in turns: what slows the machine for a while slows both.

    Parameters
    ----------
    target, contender, prompts, max_new_tokens, repeats, seed, clock
        As for `race`.
    texts : sequence of tuples of int
        As for `costs`, at least one for each repeat, which goes along its share of them. The costs are taken
        behind tokens as many as in the first prompt.

    Returns
    -------
    Measured
        Passes over every number of rows that the race had are timed.

    Raises
    ------
    ValueError
        As of `race` and `costs`, for a contender that drafts nothing, and for fewer texts than repeats.
    """
    prompts = as_prompts(target, prompts, max_new_tokens)
    count("num_draft_tokens", contender.num_draft_tokens)  # costs are a draft token's
    start = len(prompts[0])
    texts = as_texts(target, texts, start)
    if len(texts) < count("repeats", repeats):
        raise ValueError(f"{len(texts)} texts for {repeats} repeats: give one for each or more")
    heats, parts = [], Survey()
    for turn in range(repeats):
        for number in range(turn, len(texts), repeats):
            parts.add(target, contender, texts[number], start=start, seed=(seed, number), clock=clock)
        options: Any = {"turn": turn, "max_new_tokens": max_new_tokens, "seed": seed, "clock": clock}
        heats.append(heat(target, contender, prompts, **options))
    raced = result_of(heats, max_new_tokens)
    parts.add_rows(contender, texts, {1 + drafts for drafts in raced.drafted}, start=start, clock=clock)
    return Measured(raced, parts.costs(), contender.num_draft_tokens)
