"""Fixture F, what a fault is, and the check that has to see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from speculative import (
    Drafter,
    Instance,
    Oracle,
    Proof,
    Warp,
    draft,
    prove,
    rational,
    table,
    temperature,
    verify,
)

TARGET = rational([".10", ".60", ".30", "0"])
NEXT_TARGET = rational([".05", ".05", ".10", ".80"])  # the target's law one position further
DRAFT = rational([".50", ".05", ".25", ".20"])
OTHER_DRAFT = rational([".50", ".20", ".10", ".20"])

TWO_DRAFTS = Instance(
    "two drafts",
    target_laws={(): "1/4 1/4 1/2", (0,): "1/2 1/4 1/4", (1,): "1/4 1/2 1/4", (2,): "1/8 1/8 3/4"},
    draft_laws={(): "1/2 1/8 3/8", (0,): "1/8 1/8 3/4", (1,): "1/2 1/4 1/4", (2,): "1/4 1/2 1/4"},
    num_draft_tokens=2,
)
"""Small enough to be worked out by hand. Ratios of target to draft: 1/2 2 4/3, then 4 2 1/3 after token 0,
1/2 2 1 after token 1, 1/2 1/4 3 after token 2."""


class Setup(NamedTuple):
    """Everything that decides what comes out, and the law that should."""

    verify: Callable[..., Any]
    target: Oracle
    drafter: Drafter
    reference: Oracle

    def prove(self, num_draft_tokens: int, rounds: int = 1) -> Proof:
        return prove(
            self.verify, self.target, self.drafter,
            num_draft_tokens=num_draft_tokens, rounds=rounds, reference=self.reference,
        )  # fmt: skip


Build = Callable[[Oracle, Oracle], Setup]
"""From the oracles of a target and a draft model, a setup with a fault in it."""


def rule(function: Callable[..., Any], warp: Warp | None = None) -> Build:
    """Return the setup of a verifier; everything else is right."""
    return lambda target, small: Setup(
        function, target, draft.model(small), target if warp is None else warp(target)
    )


def greedy_rule(function: Callable[..., Any]) -> Build:
    """Return the setup of a verifier that has to reproduce the target at temperature 0."""
    return rule(function, temperature(0))


def drafting(make: Callable[[Oracle], Drafter], function: Callable[..., Any] = verify.token) -> Build:
    """Return the setup of a drafter; the verifier is right."""
    return lambda target, small: Setup(function, target, make(small), target)


@dataclass(frozen=True)
class Fault:
    """A named fault.

    Parameters
    ----------
    name : str
        What is wrong.
    build : callable
        The setup that has the fault.
    distance : str or float
        Total variation of the first token on F, with k = 1: a fraction; a float where the law is
        irrational; 0 where F does not see the fault.
    reported : str
        Where it was met.
    law : tuple
        The law of the first token on F, where it has a name in the literature.
    printed : str
        The same and its distance, as rounded figures elsewhere give them.
    joint : str or float
        Total variation of the joint law of the block on `TWO_DRAFTS`, where F sees little: as `distance`.
    """

    name: str
    build: Build
    distance: str | float
    reported: str = ""
    law: tuple[Any, ...] = ()
    printed: str = ""
    joint: str | float = ""

    def __str__(self) -> str:
        return self.name


def on_f(build: Build, small: Any = DRAFT, target: Any = TARGET) -> Proof:
    """Return the proof on F, or on other rows of four tokens, with one draft token."""
    return build(table([target, NEXT_TARGET]), table(small)).prove(num_draft_tokens=1)


def first_token(proof: Proof, vocab_size: int = 4) -> tuple[Any, ...]:
    """Return the law of the first token as a tuple of V probabilities."""
    law = proof.output.map(lambda tokens: tokens[0])
    return tuple(law.get(token, 0) for token in range(vocab_size))


def distance_on_f(build: Build, small: Any = DRAFT) -> Any:
    """Return how far the first token's law is from the one it should have, on F with one draft token."""
    setup = build(table([TARGET, NEXT_TARGET]), table(small))
    wanted = setup.reference(()).tolist()
    law = first_token(setup.prove(num_draft_tokens=1))
    return sum(abs(p - q) for p, q in zip(wanted, law, strict=True)) * Fraction(1, 2)


def on_instance(build: Build, instance: Instance, rounds: int = 1) -> Proof:
    """Return the proof on an instance of the battery, of as many rounds as given."""
    return build(instance.target, instance.draft).prove(instance.num_draft_tokens, rounds)


def reported(proof: Proof) -> bool:
    """Return whether a proof shows a fault: any distance if exact, and more than rounding in floats."""
    return proof.distance != 0 if proof.exact else proof.distance > 1e-9
