"""Verifiers as engines write them: for a numpy generator, on rows of float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft
from speculative.generator import as_generator


def from_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verifier for `prove` from ordinary numpy code.

    Parameters
    ----------
    function : callable
        `function(rng, draft, target_probs)` with a `numpy.random.Generator`, `draft.tokens` of length k (0
        to k), `draft.probs` and `target_probs` as float64 arrays, (k, V) and (k + 1, V). It returns the
        tokens emitted, or a Verdict. Where yours takes other arguments, hand it these in a function of
        three lines.

    Returns
    -------
    callable
        A verifier `(chance, draft, target_probs)`; whatever kind of rows it is given, `function` gets
        float64.

    Notes
    -----
    **Law.** That of the function itself: its thresholds, its rounding, and the grid of numpy's uniforms. A
    lossless rule is therefore within a few 2**-53 of the target, and not at distance 0.
    """
    return partial(_verify, function)


def _verify(function: Callable[..., Any], chance: Chance, draft: Draft, target_probs: Sequence[Row]) -> Any:
    target_rows = np.array([row.astype(np.float64) for row in target_probs])  # [k+1, V]
    draft_rows = np.array([row.astype(np.float64) for row in draft.probs]).reshape(
        -1, target_rows.shape[1]
    )  # [k, V]
    return function(as_generator(chance), Draft(draft.tokens, cast(Any, draft_rows)), target_rows)
