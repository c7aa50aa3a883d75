"""What races against plain decoding: a contender, the prompts of a race, and where both start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import NamedTuple

import numpy as np

from speculative._numbers import count
from speculative.chance import sample
from speculative.decode import Verify
from speculative.distribution import Context
from speculative.draft.proposal import Propose
from speculative.oracle import Oracle
from speculative.oracle.interface import as_tokens
from speculative.verify.token import token

Clock = Callable[[], float]
"""Returns seconds."""


class Contender(NamedTuple):
    """What decodes a prompt faster than the target alone, or not."""

    make: Callable[[], tuple[Oracle, Propose]]
    """`make()` -> the loop's target and a drafter, anew for each text: some drafters keep what they have seen
    of one. Models behind them are to be the same each time, or their reading of the prompt is timed."""
    num_draft_tokens: int
    verify: Verify = token


def excerpts(tokens: Sequence[int], number: int, length: int, *, seed: int = 0) -> list[Context]:
    """Cut pieces out of a text at places drawn at random.

    Parameters
    ----------
    tokens : sequence of int
        The text.
    number, length : int
        How many pieces, all at different places, of how many tokens; they may overlap.
    seed : int
        Draws the places.

    Returns
    -------
    list of tuples of int

    Raises
    ------
    ValueError
        For a text with too few places.
    """
    places = len(tokens) - count("length", length) + 1
    if places < count("number", number):
        raise ValueError(
            f"a text of {len(tokens)} tokens does not have {number} places for pieces of {length}: give more "
            "text, or fewer and shorter pieces"
        )
    starts = np.random.default_rng(seed).choice(places, number, replace=False)
    return [tuple(map(index, tokens[start : start + length])) for start in starts.tolist()]


def as_prompts(target: Oracle, prompts: Iterable[Sequence[int]], max_new_tokens: int) -> list[Context]:
    """Return prompts as tuples of ints; raise for those that nothing can be timed behind, or without room."""
    found = [as_tokens(prompt, target.vocab_size, "prompt") for prompt in prompts]
    if not found or (shortest := min(map(len, found))) < 2:
        least = f"a prompt of {shortest} tokens" if found else "no prompts"
        raise ValueError(f"{least}: give prompts of two tokens or more, what is timed begins at their last")
    length = max(map(len, found)) + count("max_new_tokens", max_new_tokens)
    if target.context_limit is not None and length - 1 > target.context_limit:
        raise ValueError(
            f"prompts and new tokens make {length} together, and the target's limit is {target.context_limit}"
            ": give shorter prompts, or fewer new tokens"
        )
    return found


def begun(contender: Contender, prompt: Context, *others: Oracle) -> tuple[Oracle, Propose]:
    """Have the models, and others, read a prompt but for its last token, and return the parts of a loop."""
    if len(prompt) > 1:
        target, drafter = contender.make()
        sample(drafter, prompt[:-1], contender.num_draft_tokens, rng=0)
        for each in (target, *others):
            each.row(prompt[:-1])
    return contender.make()
