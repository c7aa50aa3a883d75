"""A verifier or a drafter of the user's own, made a program: one that can be proved, one that can be run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any, NamedTuple

from speculative.battery import random_instance
from speculative.chance import Chance, sample
from speculative.cli.own import OwnCodeError, load
from speculative.decode import speculate
from speculative.distribution import Row
from speculative.draft import Draft, Drafter, DraftTree, paths
from speculative.generator import with_generator
from speculative.oracle import Oracle
from speculative.verify import from_numpy

TRIALS = 24  # drafts that a verifier is tried on, to see what of them it reads
OF_TREES, OF_DRAFT_TREES = {"siblings", "child", "parents", "draws"}, {"parents", "draws"}


@dataclass(frozen=True)
class Candidate:
    """A verifier for `prove`, and whether it is numpy code, which is handed rows of float64."""

    verify: Callable[..., Any]
    numpy: bool
    function: Callable[..., Any]
    """As it was written."""

    def __call__(self, chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Any:
        """Verify a draft."""
        return self.verify(chance, draft, target_probs)

    def watched(self, seen: set[str]) -> Callable[..., Any]:
        """Return the same verifier, which leaves in `seen` what it reads of its drafts."""

        def verify(chance: Any, draft: Any, target_probs: Any) -> Any:
            return self.function(chance, _Watched(draft, seen), target_probs)

        return from_numpy(verify) if self.numpy else verify


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
    return Candidate(from_numpy(function) if numpy else function, numpy, function)


class Reads(NamedTuple):
    """What a verifier was seen to read."""

    trees: bool
    """Whether it looks at a tree as one, and not at a chain's rows."""
    only_trees: bool
    """Whether it reads what a chain has not."""


class _Watched:
    """A draft that remembers what of it was read; to `isinstance` it is the draft itself."""

    def __init__(self, draft: Draft | DraftTree, seen: set[str]) -> None:
        self._draft, self._seen = draft, seen

    @property  # type: ignore[misc]  # isinstance reads it and nobody sets it
    def __class__(self) -> Any:
        """The draft's class."""
        return type(self._draft)

    def __len__(self) -> int:
        return len(self._draft)

    def __getattr__(self, name: str) -> Any:
        self._seen.add(name)
        return getattr(self._draft, name)


def reads(own: Candidate) -> Reads:
    """Try a verifier on some trees and chains, and tell what it reads; whatever it raises is ignored.

    A function that asks for the rows of a chain, `probs`, and is refused them by a tree takes chains.
    """
    instance = random_instance(1, 3, 2)
    seen: list[set[str]] = []
    for drafter in (paths(instance.draft, 2), instance.drafter):
        names: set[str] = set()
        verify = own.watched(names)
        for seed in range(TRIALS):
            with suppress(Exception, SystemExit), redirect_stdout(StringIO()):
                sample(speculate, instance.target, drafter, num_draft_tokens=2, verify=verify, rng=seed)
        seen.append(names)
    trees, chains = seen
    return Reads(bool(trees & OF_TREES) and "probs" not in trees, bool(chains & OF_DRAFT_TREES))


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
