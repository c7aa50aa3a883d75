"""A verifier of the user's own, made a program that can be proved."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from speculative.chance import Chance
from speculative.cli.own import OwnCodeError, load
from speculative.distribution import Row
from speculative.draft import Draft
from speculative.generator import with_generator


@dataclass(frozen=True)
class Candidate:
    """A verifier for `prove`, and whether it is handed rows of float64 because it draws from a Generator."""

    verify: Callable[..., Any]
    floats: bool

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
        A function with a Generator is ordinary numpy code: it is handed rows of float64, (V,) and (k+1, V).

    Raises
    ------
    OwnCodeError
        Where there is no such function.
    """
    function = load(where)
    floats = takes_generator(where, function)
    return Candidate(in_floats(with_generator(function)) if floats else function, floats)


def takes_generator(where: str, function: Callable[..., Any]) -> bool:
    """Whether a verifier is written for a numpy Generator, as its first parameter tells."""
    try:
        signature = inspect.signature(function)
        signature.bind("chance", "draft", "target_probs")
    except (TypeError, ValueError):  # other arguments, or a builtin that does not tell
        raise OwnCodeError(
            f"{where} does not take three arguments: write a function of (chance, draft, target_probs), or "
            "of (rng, draft, target_probs)"
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


def in_floats(verify: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verifier that hands on every row as float64, whatever rows it is given."""
    return partial(_in_floats, verify)


def _in_floats(verify: Callable[..., Any], chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Any:
    rows = np.array([row.astype(np.float64) for row in target_probs])  # [k+1, V]
    declared = tuple(row.astype(np.float64) for row in draft.probs)
    return verify(chance, Draft(draft.tokens, declared), rows)
