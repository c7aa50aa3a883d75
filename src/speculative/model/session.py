"""A text that a Llama has read, with its buffers: read on, and cut back, by setting a length."""

from __future__ import annotations

from functools import partial

import numpy as np

from speculative.distribution import Context
from speculative.model.attention import mix, shape_of
from speculative.model.blocks import Floats
from speculative.model.config import LlamaConfig
from speculative.model.llama import Llama, forward
from speculative.model.tokens import common
from speculative.oracle.interface import as_tokens

__all__: list[str] = []

ROOM = 64  # positions behind the longest context, for the nodes of a tree; more are made when needed
CHUNK = 128  # tokens computed at once: bounds the memory of the scores


class Buffers:
    """Keys, values and hidden states by position, in one buffer each for all layers."""

    def __init__(self, config: LlamaConfig, positions: int) -> None:
        heads, width, layers = config.num_key_value_heads, config.head_dim, config.num_hidden_layers
        self.keys = np.empty((layers, heads, width, positions), dtype=np.float32)
        self.values = np.empty((layers, heads, positions, width), dtype=np.float32)
        self.hidden = np.empty((positions, config.hidden_size), dtype=np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return self.keys.nbytes + self.values.nbytes + self.hidden.nbytes

    def make_room(self, positions: int) -> None:
        """Make the buffers larger where a tree is too large for them."""
        if (more := positions - len(self.hidden)) > 0:
            self.keys = np.pad(self.keys, ((0, 0), (0, 0), (0, 0), (0, more)))
            self.values = np.pad(self.values, ((0, 0), (0, 0), (0, more), (0, 0)))
            self.hidden = np.pad(self.hidden, ((0, more), (0, 0)))

    def move(self, rows: list[int], start: int) -> None:
        """Move rows so that they stand in order from a position on."""
        kept = slice(start, start + len(rows))
        self.keys[..., kept] = self.keys[..., rows]
        self.values[:, :, kept] = self.values[:, :, rows]
        self.hidden[kept] = self.hidden[rows]

    def attend(  # noqa: PLR0917 (the first three are bound by `forward`'s caller, the others are its own)
        self, start: int, mask: Floats | None, layer: int, queries: Floats, keys: Floats, values: Floats
    ) -> Floats:
        """Keep the keys and values of new rows from a position on, and mix the values up to them."""
        new, seen = slice(start, start + len(queries)), slice(start + len(queries))
        self.keys[layer, :, :, new] = keys.transpose(1, 2, 0)
        self.values[layer, :, new] = values.transpose(1, 0, 2)
        return mix(queries, self.keys[layer, :, :, seen], self.values[layer, :, seen], mask)


class Session:
    """What is kept of one text: `tokens`, then the nodes of the tree that was scored last."""

    def __init__(self, llama: Llama, buffers: Buffers) -> None:
        self.llama, self.buffers = llama, buffers
        self.tokens: Context = ()
        self.nodes: dict[tuple[int, int], int] = {}  # (parent, token) -> node, as in `Oracle.score_tree`

    def continues(self, sequence: Context) -> bool:
        """Whether a sequence begins with all of this text."""
        return sequence[: len(self.tokens)] == self.tokens

    def read(self, sequence: Context, tokens: Context = (), parents: Context = ()) -> Floats:
        """Go on to a sequence and a tree behind it; the hidden states of its end and of the nodes."""
        self.cut_back(sequence)
        start, end = len(self.tokens), len(sequence)
        self.buffers.make_room(end + len(tokens))
        for first in range(start, end, CHUNK):
            last = min(first + CHUNK, end)
            behind = (tokens, parents) if last == end else ((), ())
            self._compute(first, sequence[first:last], *behind)
            self.tokens = sequence[:last]
        if start == end and tokens:
            self._compute(end, (), tokens, parents)
        self.keep(sequence, tokens, parents)
        return self.buffers.hidden[end - 1 : end + len(tokens)]

    def keep(self, sequence: Context, tokens: Context, parents: Context) -> None:
        """Note what was computed: a sequence, and a tree behind it."""
        self.tokens = sequence
        self.nodes = {
            (parent, token): node for node, (parent, token) in enumerate(zip(parents, tokens, strict=True), 1)
        }

    def cut_back(self, sequence: Context) -> None:
        """Keep what the sequence begins with, the nodes on its way included."""
        nodes, self.nodes = self.nodes, {}  # before their rows are moved, which may be interrupted
        if not self.continues(sequence):
            self.tokens = self.tokens[: common(self.tokens, sequence)]
        elif nodes:
            length, path, node = len(self.tokens), [], 0
            for token in sequence[length:]:
                if (found := nodes.get((node, token))) is None:
                    break
                path.append(node := found)
            if path != [*range(1, len(path) + 1)]:
                self.buffers.move([length - 1 + node for node in path], length)
            self.tokens = sequence[: length + len(path)]

    def _compute(self, start: int, tokens: Context, nodes: Context, parents: Context) -> None:
        """Compute tokens from position `start` on, and the nodes of a tree behind them, in one pass."""
        rows = np.array(as_tokens(tokens + nodes, self.llama.config.vocab_size, "text"))
        places, mask = shape_of(len(tokens), parents)
        hidden = forward(self.llama, rows, start + places, partial(self.buffers.attend, start, mask))
        self.buffers.hidden[start : start + len(hidden)] = hidden
