"""A verifier or a drafter of the user's own, made a program: one that can be proved, one that can be run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from speculative.chance import Chance
from speculative.cli.own import OwnCodeError, load
from speculative.distribution import Row
from speculative.draft import Draft, Drafter
from speculative.generator import with_generator
from speculative.oracle import Oracle
from speculative.verify import from_numpy


@dataclass(frozen=True)
class Candidate:
    """A verifier for `prove`, and whether it is numpy code, which is handed rows of float64."""

    verify: Callable[..., Any]
    numpy: bool

    def __call__(self, chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Any:
        """Verify a draft."""
        return self.verify(chance, draft, target_probs)


def candidate(where: str) -> Candidate:
    """Return the verifier that `file.py:function` or `module:function` stands for.

    Parameters
    ----------
    where : str
        The function takes (chance, draft, target_probs), or (rng, draft, target_probs) with a numpy
        Generator, and returns a Verdict or the tokens it emits. Its first parameter is called `chance`, `rng`
        or `generator`, or is annotated as a Chance or a Generator.

    Returns
    -------
    Candidate
        A function with a Generator is given what `from_numpy` says.

    Raises
    ------
    OwnCodeError
        Where there is no such function.
    """
    function = load(where)
    numpy = takes_generator(where, function, "draft", "target_probs")
    return Candidate(from_numpy(function) if numpy else function, numpy)


def own_drafter(where: str, target: Oracle) -> Drafter:
    """Return the drafter that `file.py:function` stands for, over the target's vocabulary.

    Parameters
    ----------
    where : str
        The function takes (chance, context, num_draft_tokens), or (rng, context, num_draft_tokens) with a
        numpy Generator, and returns a Draft; or it is a Drafter.
    target : Oracle
        Whose tokens are drafted.

    Returns
    -------
    Drafter

    Raises
    ------
    OwnCodeError
        Where there is no such function.
    """
    function = load(where)
    if isinstance(function, Drafter):
        return function
    numpy = takes_generator(where, function, "context", "num_draft_tokens")
    return Drafter(with_generator(function) if numpy else function, target.vocab_size, target.vocabulary)


def takes_generator(where: str, function: Callable[..., Any], second: str, third: str) -> bool:
    """Whether the first of three parameters is a numpy Generator, as its name or annotation tells."""
    try:
        signature = inspect.signature(function)
        signature.bind("chance", second, third)
    except (TypeError, ValueError):  # other arguments, or a builtin that does not tell
        raise OwnCodeError(
            f"{where} does not take three arguments: write a function of (chance, {second}, {third}), or "
            f"of (rng, {second}, {third})"
        ) from None
    first = next(iter(signature.parameters.values()))
    if first.name in ("rng", "generator") or "Generator" in str(first.annotation):
        return True
    if first.name == "chance" or "Chance" in str(first.annotation):
        return False
    raise OwnCodeError(
        f"{where}: its first parameter {first.name!r} could be anything: call it chance, or rng for a numpy "
        "Generator"
    )
