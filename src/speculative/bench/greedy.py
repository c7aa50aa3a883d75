"""Whether speculation writes what plain decoding writes at temperature 0, token for token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from speculative.bench.contender import Contender, check_prompts
from speculative.chance import sample
from speculative.decode import autoregress, generate
from speculative.distribution import Context
from speculative.oracle import Oracle
from speculative.warp import temperature


class Difference(NamedTuple):
    """Where two greedy texts part."""

    prompt: int
    position: int
    """In the new tokens, from 0 on."""
    plain: int
    speculative: int
    gap: float
    """How far apart the logits of the two tokens are, by a pass of its own over this context."""


class Comparison(NamedTuple):
    """Greedy texts decoded both ways."""

    tokens: int
    """How many were compared: of each prompt those up to the first difference."""
    differences: tuple[Difference, ...]


def compare_greedy(
    oracle: Oracle, contender: Contender, prompts: Sequence[Context], *, max_new_tokens: int = 128
) -> Comparison:
    """Decode prompts greedily both ways and compare token for token.

    Parameters
    ----------
    oracle : Oracle
        The target, not warped; here it decodes at temperature 0.
    contender : Contender
        Of the target at temperature 0.
    prompts, max_new_tokens
        As for `race`.

    Returns
    -------
    Comparison
        In exact arithmetic there is no difference. A pass over several rows rounds otherwise than a pass over
        one, so that two tokens whose logits are closer than that may change places; then `gap` is tiny.
    """
    check_prompts(oracle, prompts, max_new_tokens)
    greedy = temperature(0)(oracle)
    compared, differences = 0, []
    for number, prompt in enumerate(prompts):
        plain = sample(autoregress, greedy, prompt, max_new_tokens=max_new_tokens).tokens
        done = sample(
            generate,
            *contender.make(),
            prompt,
            max_new_tokens=max_new_tokens,
            num_draft_tokens=contender.num_draft_tokens,
            verify=contender.verify,
        ).tokens
        at = next((i for i, (one, other) in enumerate(zip(plain, done, strict=True)) if one != other), None)
        if at is None:
            compared += len(plain)
            continue
        compared += at + 1
        row = oracle(prompt + plain[:at])
        gap = abs(math.log(row[plain[at]]) - math.log(row[done[at]])) if row[done[at]] else math.inf
        differences.append(Difference(number, at, plain[at], done[at], gap))
    return Comparison(compared, tuple(differences))
