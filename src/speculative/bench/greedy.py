"""Whether speculation writes what plain decoding writes at temperature 0, token for token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from speculative.bench.contender import Contender, as_prompts
from speculative.chance import sample
from speculative.decode import autoregress, stream
from speculative.distribution import Context
from speculative.oracle import Oracle
from speculative.warp import temperature


class Difference(NamedTuple):
    """A token that speculation chose otherwise."""

    prompt: int
    position: int
    """In the new tokens, from 0 on."""
    plain: int
    speculative: int
    gap: float
    """How far apart their logits are, as the target has them here: a cached one from the pass that chose."""


class Comparison(NamedTuple):
    """Greedy texts decoded both ways."""

    tokens: int
    """How many were compared: all."""
    differences: tuple[Difference, ...]

    @property
    def identical(self) -> int:
        """How many were the same."""
        return self.tokens - len(self.differences)


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
        one, so that two tokens whose logits are closer than that may change places; then `gap` is tiny. After
        a difference speculation goes on behind the plain text up to there, so that every token is compared
        after the same context.
    """
    prompts = as_prompts(oracle, prompts, max_new_tokens)
    greedy = temperature(0)(oracle)
    compared, differences = 0, []
    for number, prompt in enumerate(prompts):
        plain = sample(autoregress, greedy, prompt, max_new_tokens=max_new_tokens).tokens
        compared += len(plain)
        for at, token in _others(contender, prompt, plain):
            row = oracle(prompt + plain[:at])
            gap = abs(math.log(row[plain[at]]) - math.log(row[token])) if row[token] else math.inf
            differences.append(Difference(number, at, plain[at], token, gap))
    return Comparison(compared, tuple(differences))


def _others(contender: Contender, prompt: Context, plain: Context) -> Iterator[tuple[int, int]]:
    """Yield where speculation says another token than the plain text, and which."""
    at = 0
    while at < len(plain):
        rounds = sample(
            stream,
            *contender.make(),
            prompt + plain[:at],
            max_new_tokens=len(plain) - at,
            num_draft_tokens=contender.num_draft_tokens,
            verify=contender.verify,
        )
        for token in chain.from_iterable(one.tokens for one in rounds):
            at += 1
            if token != plain[at - 1]:
                yield at - 1, token
                break
