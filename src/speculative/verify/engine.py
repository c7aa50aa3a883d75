"""Verifiers as engines write them: for a numpy generator, on rows of float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft, DraftTree
from speculative.generator import as_generator


def from_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verifier for `prove` from ordinary numpy code.

    Parameters
    ----------
    function : callable
        `function(rng, draft, target_probs)` with a `numpy.random.Generator`. Of a chain, `draft.tokens` has
        length k (0 to k), `draft.probs` and `target_probs` are float64 arrays, (k, V) and (k + 1, V). Of a
        tree of n nodes, `draft` is a `DraftTree` whose siblings have rows of float64, and `target_probs` is
        (n + 1, V), the row of the context first. It returns the tokens emitted, or a Verdict. Where yours
        takes other arguments, hand it these in a function of three lines. One that carries state from round
        to round takes it as the keyword `carried`.

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


def _verify(
    function: Callable[..., Any],
    chance: Chance,
    draft: Draft | DraftTree,
    target_probs: Sequence[Row],
    **carried: Any,
) -> Any:
    target_rows = np.array([row.astype(np.float64) for row in target_probs])  # [k+1, V] or [n+1, V]
    return function(as_generator(chance), _in_floats(draft, target_rows.shape[1]), target_rows, **carried)


def _in_floats(draft: Draft | DraftTree, vocab_size: int) -> Draft | DraftTree:
    """Return the draft with its rows in float64; those of a chain in one array."""
    if isinstance(draft, Draft):
        rows = np.array([row.astype(np.float64) for row in draft.probs]).reshape(-1, vocab_size)  # [k, V]
        return Draft(draft.tokens, cast(Any, rows))
    draws = {
        node: siblings._replace(row=siblings.row.astype(np.float64)) for node, siblings in draft.draws.items()
    }
    return DraftTree(draft.tokens, draft.parents, draws)
