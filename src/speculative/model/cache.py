"""The cache of a Llama: keys, values and hidden states of what it has read, cut back by setting a length.

Nobody calls for a rollback. A cached model is asked about a context and drafted tokens behind it; it compares
the context with the tokens it holds, goes on from where they part, and computes the rest in one pass. After a
rejection, a switch to another text, or a branch of a tree that was dropped, that is all the same.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from speculative._numbers import count
from speculative.distribution import Context
from speculative.model.blocks import Floats, product
from speculative.model.config import LlamaConfig
from speculative.model.llama import Llama, forward
from speculative.model.text import Characters
from speculative.oracle import Oracle, from_logits
from speculative.oracle.interface import contexts_after

if TYPE_CHECKING:
    from speculative.model.tokenizer import Subwords

__all__ = ["CachedLlama"]

ROOM = 64  # positions behind the longest context, for the nodes of a tree; more are made when needed
CHUNK = 128  # tokens computed at once: bounds the memory of the scores


class CachedLlama:
    """A Llama with a cache for each of several texts; `oracle` is its law of the next token.

    Parameters
    ----------
    llama : Llama
    tokenizer : Characters or Subwords, optional
        What reads and writes text for it.
    sessions : int
        How many texts are kept side by side. A context goes on with the session that shares most with it;
        where that is less than half of the session, with a new one, or with the one unused for longest.
    context_limit : int, optional
        The longest context; by default what the model is made for. It bounds the memory, see `nbytes`.
    sliding : bool
        Whether longer contexts are read too, from a later beginning: see :meth:`window`. Otherwise they are
        refused.

    Raises
    ------
    ValueError
        For no session, and for a limit beyond the model's positions.

    Notes
    -----
    A session has one buffer for keys, one for values, one for hidden states, made when it is first used:
    4 bytes times positions times (2 * layers * key/value heads * head_dim + hidden_size), where positions are
    the longest context and 64 more for drafts. Not for two threads at a time.
    """

    def __init__(
        self,
        llama: Llama,
        *,
        tokenizer: Characters | Subwords | None = None,
        sessions: int = 1,
        context_limit: int | None = None,
        sliding: bool = False,
    ) -> None:
        config = llama.config
        self.llama, self.tokenizer, self._sessions = llama, tokenizer, list[Session]()
        self.first = () if config.bos_token_id is None else (config.bos_token_id,)
        longest = config.max_position_embeddings - len(self.first)
        limit = longest if context_limit is None else count("context_limit", context_limit)
        if limit > longest:
            raise ValueError(
                f"context_limit is {limit}: the model has positions for contexts of {longest} tokens at most"
            )
        self._most, self.longest, self._sliding = count("sessions", sessions), limit, sliding
        self.oracle: Oracle = from_logits(
            self._row,
            config.vocab_size,
            score_tree=self._rows,
            vocabulary=None if tokenizer is None else tokenizer.vocabulary,
            context_limit=None if sliding else limit,
        )

    def window(self, context: Context) -> Context:
        """The part of a context that is read: all of it, or with `sliding` its end where it is too long.

        Parameters
        ----------
        context : tuple of int

        Returns
        -------
        tuple of int
            The beginning moves on in steps of half the limit, so that the cache is made anew once a step:
            after the limit is passed, the model sees between half of it and all of it.
        """
        return context[self._start(len(context)) :]

    @property
    def nbytes(self) -> int:
        """Bytes that the sessions' buffers take now."""
        return sum(session.buffers.nbytes for session in self._sessions)

    def states(self, context: Context) -> Floats:
        """The hidden states after the last norm, of every token of a context that is read.

        Parameters
        ----------
        context : tuple of int
            No longer than the limit: a window.

        Returns
        -------
        ndarray of float32, shape (n, hidden_size)
            A view, valid until the model is asked again. With a first token of the model's own in front, n is
            one more than the length of `context`.
        """
        tokens = self.first + context
        if not tokens:
            return np.empty((0, self.llama.config.hidden_size), dtype=np.float32)
        session = self._session(tokens)
        session.read(tokens)
        states: Floats = session.buffers.hidden[: len(tokens)]
        return states

    def _row(self, context: Context) -> Floats:
        row: Floats = self._rows(context, (), ())[0]
        return row

    def _rows(self, context: Context, tokens: Context, parents: Context) -> Floats:
        """Logits after the context and after each node, shape (1 + nodes, V), in one pass."""
        if self._start(len(context) + len(tokens)) != self._start(len(context)):
            contexts = contexts_after(context, tokens, parents)
            if len({self._start(len(each)) for each in contexts}) > 1:  # the window moves on inside the tree
                return np.concatenate([self._rows(each, (), ()) for each in contexts])
        sequence = self.sequence(context)
        hidden = self._session(sequence).read(sequence, tokens, parents)
        logits: Floats = product(hidden, self.llama.head)[:, : self.llama.config.vocab_size]
        return logits

    def sequence(self, context: Context) -> Context:
        """The tokens that the model reads for a context, or raise where there is none."""
        sequence = self.first + self.window(context)
        if not sequence:
            raise ValueError(
                "an empty context, and this model has no first token (bos_token_id): give one token or more"
            )
        return sequence

    def _start(self, length: int) -> int:
        """Where the window of a context of this length begins."""
        step = (self.longest + 1) // 2
        return max(0, -(-(length - self.longest) // step) * step) if self._sliding else 0

    def _session(self, sequence: Context) -> Session:
        """Return the session to go on with, made the last of the list."""
        sessions = self._sessions
        if sessions and sessions[-1].continues(sequence) and 2 * len(sessions[-1].tokens) >= len(sequence):
            return sessions[-1]  # as nearly always
        shared = [common(session.tokens, sequence) for session in sessions]
        best = max(range(len(sessions)), key=shared.__getitem__, default=0)
        if not sessions or 2 * shared[best] < len(sessions[best].tokens):
            if len(sessions) < self._most:
                positions = self.longest + len(self.first) + ROOM
                sessions.append(Session(self.llama, Buffers(self.llama.config, positions)))
                return sessions[-1]
            best = 0  # unused for longest
        sessions.append(sessions.pop(best))
        return sessions[-1]


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
        places, mask = shape_of(len(tokens), parents)
        hidden = forward(
            self.llama, np.array(tokens + nodes), start + places, partial(self.buffers.attend, start, mask)
        )
        self.buffers.hidden[start : start + len(hidden)] = hidden


def common(first: Context, second: Context) -> int:
    """How many tokens two texts have in common at the beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # slices are compared in C: sooner done than token by token
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def mix(queries: Floats, keys: Floats, values: Floats, mask: Floats | None) -> Floats:
    """Attention: for each row and head the values, weighted by the softmax of the scores.

    Parameters
    ----------
    queries : ndarray, shape (rows, query heads, width)
        Already scaled.
    keys, values : ndarrays, shapes (heads, width, positions) and (heads, positions, width)
        Of the key/value heads.
    mask : ndarray, shape (rows, 1, last) or (heads, rows, 1, last), optional
        What to add to the scores of the last positions. All before them are seen, and without it these too.

    Returns
    -------
    ndarray, shape (rows, query heads * width)
    """
    (rows, _, width), heads = queries.shape, len(keys)
    grouped = queries.reshape(rows, heads, -1, width).transpose(1, 0, 2, 3).reshape(heads, -1, width)
    scores: Floats = grouped @ keys  # [heads, rows * group, positions]
    if mask is not None:
        scores.reshape(heads, rows, -1, keys.shape[-1])[..., -mask.shape[-1] :] += mask
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    mixed: Floats = scores @ values
    mixed /= scores.sum(axis=-1, keepdims=True)
    return mixed.reshape(heads, rows, -1, width).transpose(1, 0, 2, 3).reshape(rows, -1)


@lru_cache(maxsize=256)
def shape_of(tokens: int, parents: Context) -> tuple[NDArray[np.intp], Floats | None]:
    """Where the rows of a pass stand, and which of one another they see.

    Parameters
    ----------
    tokens : int
        Tokens in a row, before the tree; node 0 is the last of them.
    parents : tuple of int
        The node that each node follows.

    Returns
    -------
    places : ndarray of int, shape (rows,)
        Position of each row, from the first one's on.
    mask : ndarray of float32, shape (rows, 1, rows), or None for a single row
        What to add to scores: 0 for the row itself and those before it on its path, -inf for others.
    """
    rows = tokens + len(parents)
    places, sees = np.arange(rows), np.tri(rows, dtype=bool)
    for row, parent in enumerate(parents, tokens):
        above = tokens - 1 + parent  # -1 for the last token of an earlier pass
        places[row] = (places[above] if above >= 0 else -1) + 1
        sees[row, :row] = sees[above, :row] if above >= 0 else False
    mask = np.full((rows, 1, rows), -np.inf, dtype=np.float32)
    mask[sees[:, None]] = 0
    return places, mask if rows > 1 else None
