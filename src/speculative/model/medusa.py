"""Medusa heads in numpy: each a layer on the target's hidden state, for a token so many places ahead.

With h the state from which the target drew the context's last token, head i says of the i-th token behind it

    output_i (h + silu(linear_i h))

(Cai et al. 2024, section 2.1.1). `draft.medusa` drafts from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context, Row
from speculative.model.blocks import Floats, block_width, blocked, product
from speculative.model.cache import CachedLlama
from speculative.model.llama import silu
from speculative.oracle import softmax
from speculative.oracle.function import softmaxes

__all__ = ["MedusaHeads"]


@dataclass(frozen=True, eq=False)
class MedusaHeads:
    """Medusa heads on the states of a cached target; see :meth:`of`. Called with a context, their rows."""

    target: CachedLlama
    linear: Floats = field(repr=False)
    outputs: Floats = field(repr=False)

    @classmethod
    def of(cls, target: CachedLlama, weights: Mapping[str, NDArray[Any]]) -> MedusaHeads:
        """Prepare the weights of H heads.

        Parameters
        ----------
        target : CachedLlama
            Whose states the heads read: the same that scores the drafts, so that nothing is computed twice.
        weights : mapping from str to ndarray
            ``heads.0.linear.weight``, shape (D, D), ``heads.0.lm_head.weight``, shape (V, D), and so on.

        Returns
        -------
        MedusaHeads
        """
        names = [f"heads.{i}" for i in range(len(weights) // 2)]
        halves = (
            np.concatenate([weights[f"{name}.linear.weight"] for name in names]) / 2
        )  # as `silu` takes them
        outputs = np.stack([weights[f"{name}.lm_head.weight"].T for name in names])
        return cls(target, blocked(halves.T, block_width()), np.ascontiguousarray(outputs, dtype=np.float32))

    def __call__(self, context: Context) -> list[Row]:
        """The heads' laws after a context.

        Parameters
        ----------
        context : tuple of int

        Returns
        -------
        list of H ndarrays of float64, each of shape (V,)
            Row i is the law of token ``len(context) + i``. No rows where there is no state before the
            context's last token.
        """
        seen = self.target.window(context)
        if not seen or not len(state := self.target.states_from(-1, seen[:-1])):  # [1, D]
            return []
        heads, width, _ = self.outputs.shape
        hidden = silu(product(state, self.linear)[:, : heads * width]).reshape(heads, 1, width) + state
        logits = (hidden @ self.outputs)[:, 0]  # [H, V]
        rows = softmaxes(logits)
        return list(rows) if rows is not None else [softmax(each, context) for each in logits]
