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
    beginnings = [worst[:length] for length in range(1, len(worst) + 1)]
    made = {
        start: sum(p for tokens, p in proof.output.items() if _begins(tokens, start)) for start in beginnings
    }
    wanted = {start: math.prod(reference(start[:i])[x] for i, x in enumerate(start)) for start in beginnings}
    shortest = next(start for start in beginnings if made[start] > wanted[start])
    ways: Counter[str] = Counter()
    likeliest = ""
    for path in paths(
        speculate,
        instance.target,
        instance.drafter,
        num_draft_tokens=instance.num_draft_tokens,
        verify=verify,
    ):
        if _begins(path.outcome.tokens, shortest):
            ways[_way(path, shortest)] += path.probability
        if path.answers == proof.worst.path:
            likeliest = _way(path, worst)
    return Reason(shortest, made[shortest], wanted[shortest], ways.most_common(), likeliest)


def _begins(tokens: Context, start: Context) -> bool:
    """Whether the tokens begin in this way, or are a beginning of it themselves."""
    return all(one == other for one, other in zip(tokens, start, strict=False))


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
