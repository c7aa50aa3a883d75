"""A neural n-gram: the law of the next token from the last few, by a small network.

Each of the last tokens is embedded; what follows is one layer, and some that add to it (Bengio et al. 2003):

    x = silu(bias + the sum over places of matrix[place] embedding[token])
    x += silu(layer x / its root mean square)                                     for each further layer
    logits = output x + bias

The first layer's products are few, one for each place and token. So they are made once, and a row begins
with a sum of what stands in a table: there is no attention, and no cache. One is trained by
`examples/training/neural.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context
from speculative.model.blocks import Floats
from speculative.model.llama import silu

__all__ = ["NeuralNgram", "neural_shapes"]

EPS = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class NeuralNgram:
    """A function from contexts to logits; see :meth:`of`."""

    starts: NDArray[np.intp]  # [P] where the table begins for each place, the last token's at the end
    table: Floats  # [P (V + 1), H] half the product of each place and token; token V where there is none yet
    layers: tuple[Floats, ...]  # [H, H] each, halved
    output: Floats  # [H, V]
    bias: Floats  # [V]

    @classmethod
    def of(cls, weights: Mapping[str, NDArray[Any]]) -> NeuralNgram:
        """Prepare weights of float32, by the names and in the shapes of `neural_shapes`."""
        embedding, first = weights["embed_tokens.weight"], weights["first.weight"]
        (tokens, width), hidden = embedding.shape, len(first)
        matrices = first.reshape(hidden, -1, width).transpose(1, 2, 0)  # [P, E, H]
        table = embedding @ matrices / 2  # [P, V + 1, H], the halves that `silu` takes
        table[-1] += weights["first.bias"] / 2
        layers = sum(name.startswith("layers.") for name in weights)
        further = (weights[f"layers.{i}.weight"].T * (hidden**0.5 / 2) for i in range(layers))
        return cls(
            np.arange(len(table)) * tokens,
            table.reshape(-1, hidden),
            tuple(np.ascontiguousarray(each) for each in further),
            np.ascontiguousarray(weights["lm_head.weight"].T),
            weights["lm_head.bias"],
        )

    def __call__(self, context: Context) -> Floats:
        """The logits of the token after `context`, shape (V,)."""
        seen = context[-len(self.starts) :]
        tokens = (len(self.bias),) * (len(self.starts) - len(seen)) + seen
        x: Floats = silu(np.add.reduce(self.table[self.starts + tokens]))  # [H]
        for layer in self.layers:
            scaled: Floats = x / math.sqrt(x @ x + len(x) * EPS)
            x += silu(scaled @ layer)
        logits: Floats = x @ self.output
        logits += self.bias
        return logits


def neural_shapes(
    vocab_size: int, places: int, embedding: int, hidden: int, layers: int
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight, of a size: the last row of the embedding is of no token."""
    return {
        "embed_tokens.weight": (vocab_size + 1, embedding),
        "first.weight": (hidden, places * embedding),
        "first.bias": (hidden,),
        **{f"layers.{i}.weight": (hidden, hidden) for i in range(layers)},
        "lm_head.weight": (vocab_size, hidden),
        "lm_head.bias": (vocab_size,),
    }
