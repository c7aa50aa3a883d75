"""Why a verifier is not lossless: the shortest tokens it emits too often, and the ways to them in a round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from speculative._checks import nodes_along
from speculative.battery import Instance
from speculative.chance import Chance, Number
from speculative.decode import Round, speculate
from speculative.distribution import Context
from speculative.draft import NO_DRAFT, Draft, Drafter, DraftTree
from speculative.laws import paths
from speculative.oracle import Oracle
from speculative.proof import Proof
from speculative.show import Reason, in_words


def reason(
    instance: Instance,
    proof: Proof,
    verify: Callable[..., Any],
    reference: Oracle,
    drafter: Drafter | None = None,
) -> Reason:
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
    likeliest, begun = "", ""
    for path in paths(_told, instance, drafter or instance.drafter, verify):
        one, draft, asked = path.outcome
        if _begins(one.tokens, shortest):
            ways[_way(one, draft, shortest)] += path.probability
        if path.answers == proof.worst.path:
            likeliest = _way(one, draft, worst)
            begun = in_words(path.answers, asked, draft)
    return Reason(shortest, made[shortest], wanted[shortest], ways.most_common(), likeliest, begun)


def _told(
    chance: Chance, instance: Instance, drafter: Drafter, verify: Callable[..., Any]
) -> tuple[Round, Draft | DraftTree, int]:
    """Run a round and tell what was drafted, and how many answers that took."""
    counted, k = _Counted(chance), instance.num_draft_tokens
    draft = drafter(counted, (), k) if k else NO_DRAFT
    given = Drafter(lambda *_: draft, drafter.vocab_size, drafter.vocabulary)
    return speculate(chance, instance.target, given, num_draft_tokens=k, verify=verify), draft, counted.asked


class _Counted:
    """A chance that counts what it is asked."""

    def __init__(self, chance: Chance) -> None:
        self._chance, self.asked = chance, 0

    def flip(self, probability: Number) -> bool:
        self.asked += 1
        return self._chance.flip(probability)

    def pick(self, weights: Any) -> int:
        self.asked += 1
        return self._chance.pick(weights)


def _begins(tokens: Context, start: Context) -> bool:
    """Whether the tokens begin in this way, or are a beginning of it themselves."""
    return all(one == other for one, other in zip(tokens, start, strict=False))


def _way(one: Round, draft: Draft | DraftTree, tokens: Context) -> str:
    """Say how a round came to begin with these tokens."""
    nodes, steps = nodes_along(draft, one.tokens[: one.accepted]), []
    for position, token in enumerate(tokens[: len(one.tokens)]):
        siblings = draft.siblings(nodes[position])
        if position < one.accepted:
            steps.append(f"draft {token} accepted")
        elif siblings is not None:
            steps.append(f"draft {' and '.join(map(str, siblings.tokens))} rejected and {token} drawn")
        else:
            steps.append(f"bonus {token} drawn")
    if len(one.tokens) < len(tokens):
        steps.append("and the round ends there")
    return ", ".join(steps)
