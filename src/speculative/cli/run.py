"""A run of `speculative generate`: what is run, the rounds it takes, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from speculative import show
from speculative.chance import sample
from speculative.cli.drafting import Shape, blaming_the_shape
from speculative.cli.expectation import Watched, compare
from speculative.cli.fitting import loop_of
from speculative.cli.models import Ready
from speculative.cli.timing import Timing, measure
from speculative.cli.trained import Kind, Loop
from speculative.decode import Round, stream
from speculative.distribution import Context
from speculative.verify import VERIFIERS
from speculative.warp import Warp


class Settings(NamedTuple):
    """What is run."""

    ready: Ready
    warp: Warp
    context: Context
    verifier: str
    drafter: str
    kind: Kind
    num_tokens: int
    num_draft_tokens: int
    seed: int
    shape: Shape | None = None
    """What is drafted, where it is not what the verifier's own drafter drafts."""
    heat: float = 1
    """The temperature of both models."""

    def loop(self) -> Loop:
        """Return the target and a drafter that has seen no text."""
        make_drafter = (self.shape or VERIFIERS[self.verifier]).make_drafter
        return loop_of(self.ready.source, self.ready.target, self.warp, make_drafter)


class Outcome(NamedTuple):
    """What came of it."""

    rounds: tuple[Round, ...]
    tokens_per_pass: show.Comparison
    accepted: list[show.Comparison]
    draft_passes: int
    """Levels of all drafts: the passes of a draft model that draws a level at once."""
    seconds: float
    """What the rounds took, without what was told of them."""
    timing: Timing
    """The same beside the target alone, in turns."""


def nobody(_: Round) -> None:
    """Tell nobody of a round."""


def no_wait() -> None:
    """Say nothing before the time is measured."""


def run(
    settings: Settings, tell: Callable[[Round], None] = nobody, before_timing: Callable[[], None] = no_wait
) -> Outcome:
    """Generate, telling of each round; then measure the time of as many tokens beside the target alone."""
    watched = Watched(settings.verifier)
    decode = partial(
        stream,
        max_new_tokens=settings.num_tokens,
        num_draft_tokens=settings.num_draft_tokens,
        verify=watched,
    )
    rounds: list[Round] = []
    loop = settings.loop()
    seconds, start = 0.0, time.perf_counter()
    with blaming_the_shape(settings.shape, VERIFIERS[settings.verifier]):
        for one in sample(decode, *loop, settings.context, rng=settings.seed):
            seconds += time.perf_counter() - start
            rounds.append(one)
            watched.look(one)
            tell(one)
            start = time.perf_counter()
    before_timing()
    timing = measure(
        settings.loop,
        settings.context,
        settings.num_tokens,
        seed=settings.seed + 1,
        num_draft_tokens=settings.num_draft_tokens,
        verify=VERIFIERS[settings.verifier].function,
    )
    return Outcome(tuple(rounds), *compare(rounds, watched), sum(watched.depths), seconds, timing)
