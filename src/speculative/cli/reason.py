"""Why a verifier is not lossless: the shortest tokens it emits too often, and the ways to them in a round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from speculative.battery import Instance
from speculative.decode import speculate
from speculative.distribution import Context
from speculative.laws import Path, paths
from speculative.oracle import Oracle
from speculative.proof import Proof
from speculative.show import Reason


def reason(instance: Instance, proof: Proof, verify: Callable[..., Any], reference: Oracle) -> Reason:
    """Find the shortest beginning of the worst tokens that is over-produced itself, and the ways to it."""
    assert proof.worst is not None  # it is not lossless
    worst = proof.worst.tokens
    for length in range(1, len(worst) + 1):
        tokens = worst[:length]
        made = sum(mass for emitted, mass in proof.output.items() if emitted[:length] == tokens)
        wanted = math.prod(reference(tokens[:i])[token] for i, token in enumerate(tokens))
        if made > wanted:
            break
    ways: Counter[str] = Counter()
    for path in paths(
        speculate,
        instance.target,
        instance.drafter,
        num_draft_tokens=instance.num_draft_tokens,
        verify=verify,
    ):
        emitted = path.outcome.tokens
        if emitted[:length] == tokens[: len(emitted)]:
            ways[_way(path, tokens)] += path.probability
    return Reason(tokens, made, wanted, ways.most_common())


def _way(path: Path, tokens: Context) -> str:
    """Say how a round came to begin with these tokens."""
    accepted, emitted = path.outcome.accepted, path.outcome.tokens
    drafted = [answer.answer for answer in path.answers[: path.outcome.drafted]]
    steps = []
    for position, token in enumerate(tokens[: len(emitted)]):
        if position < accepted:
            steps.append(f"draft {token} accepted")
        elif position < len(drafted):
            steps.append(f"draft {drafted[position]} rejected and {token} drawn")
        else:
            steps.append(f"bonus {token} drawn")
    if len(emitted) < len(tokens):
        steps.append("and the round ends there")
    return ", ".join(steps)
