"""An EAGLE head in numpy: one layer that guesses the target's hidden states, with a cache of its own.

The head reads entries. Entry t holds the target's state h[t] and the token after it, at position t:

    s[t] = norm(layer(fc [embedding(x[t+1]); h[t]]))        logits of x[t+2]: the target's output matrix, s[t]

(Li et al. 2024, section 4). Behind the context there are no states of the target's yet, and s[t] stands in
for h[t+1] in the entry of each drafted token. Entries with states of the target's are kept from round to
round as far as the texts agree, those of drafts for one round. `draft.eagle` drafts from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context
from speculative.model.blocks import Floats, block_width, blocked, filled, product
from speculative.model.cache import CachedLlama
from speculative.model.llama import Integers, apply, norm, prepared_layer, rotations
from speculative.model.session import ROOM, Buffers
from speculative.model.tokens import common
from speculative.oracle import Oracle, from_logits
from speculative.oracle.interface import as_tokens, contexts_after

__all__ = ["EagleHead"]


class EagleHead:
    """An EAGLE head on the states of a cached target. Called with a context, it is the round's draft model.

    Parameters
    ----------
    target : CachedLlama
        Whose states the head reads: the same that scores the drafts, so that nothing is computed twice.
    weights : mapping from str to ndarray
        ``fc.weight``, shape (D, 2 D), ``norm.weight``, and ``layers.0.*`` as of a Llama, which may have
        another inner width than the target.

    Notes
    -----
    Memory: 4 bytes times positions times (2 * key/value heads * head_dim + D), where positions are the
    longest context and 64 more for drafts; and the embeddings once more, multiplied by their part of `fc`.

    Two threads take turns. A copy, made by `copy` or `pickle`, has read nothing yet and shares no buffer.
    """

    def __init__(self, target: CachedLlama, weights: Mapping[str, NDArray[Any]]) -> None:
        llama, self.target = target.llama, target
        inner = weights["layers.0.mlp.gate_proj.weight"].shape[0]
        self._config = replace(llama.config, num_hidden_layers=1, intermediate_size=inner)
        positions = len(target.first) + target.longest + ROOM
        self._rotation = rotations(replace(self._config, max_position_embeddings=positions))
        of_embedding, of_state = np.split(weights["fc.weight"], 2, axis=1)  # each [D, D]
        self._embedded = llama.embedding @ of_embedding.T.astype(np.float32)  # [V, D], multiplied once
        self._combine = blocked(of_state.T, block_width())
        self._layer = prepared_layer(self._config, weights, "layers.0.")
        self._norm = weights["norm.weight"].astype(np.float32) * np.float32(self._config.hidden_size**0.5)
        self._forget()

    def _forget(self) -> None:
        """Make what is kept, without anything in it."""
        self._lock, self._buffers = Lock(), Buffers(self._config, len(self._rotation))
        self._read: Context = ()  # the text whose entries are kept, the model's first token included
        self._rows: dict[Context, int] = {}  # drafted path -> row of its entry

    def __repr__(self) -> str:
        """One line."""
        return f"EagleHead({self.target})"

    def __getstate__(self) -> dict[str, Any]:
        """What is copied: the weights, and nothing of what was read."""
        kept = ("_lock", "_buffers", "_read", "_rows")
        return {name: value for name, value in vars(self).items() if name not in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin with nothing read."""
        vars(self).update(state)
        self._forget()

    def __call__(self, context: Context) -> Oracle | None:
        """The law of what comes behind a context, as an oracle of drafted paths.

        Parameters
        ----------
        context : tuple of int

        Returns
        -------
        Oracle or None
            None where there is no state before the context's last token. Paths are 64 tokens long at most,
            and end at the target's context limit.
        """
        limit, context = self.target.oracle.context_limit, self.target.window(context)
        if len(self.target.first) + len(context) < 2:
            return None
        return from_logits(
            partial(self._row, context),
            self._config.vocab_size,
            score_tree=partial(self._tree, context),
            vocabulary=self.target.oracle.vocabulary,
            context_limit=ROOM if limit is None else min(limit - len(context), ROOM),
        )

    def _row(self, context: Context, path: Context) -> Floats:
        row: Floats = self._tree(context, path, (), ())[0]
        return row

    def _tree(self, context: Context, path: Context, tokens: Context, parents: Context) -> Floats:
        paths = contexts_after(path, tokens, parents)
        with self._lock:
            self._go_to(context)
            self._draft(*paths)
            hidden = self._buffers.hidden[[self._rows[each] for each in paths]]
        logits: Floats = product(hidden, self.target.llama.head)[:, : self._config.vocab_size]
        return logits

    def _go_to(self, context: Context) -> None:
        """Read the entries up to the context's end."""
        text = (*self.target.first, *context)
        if text == self._read:
            return
        kept, end = max(common(self._read, text) - 1, 0), len(text) - 1
        states = self.target.states_from(kept, context[:-1])
        self._read, self._rows = (), {}  # should the pass be interrupted
        if new := end - kept:
            sees = np.tri(new, dtype=bool) if new > 1 else None
            self._compute(text[kept + 1 :], states, np.arange(kept, end), sees)
        self._read, self._rows = text, {(): end - 1}

    def _draft(self, path: Context, *behind: Context) -> None:
        """Make the entries of a drafted path, and of paths behind it, all of one depth in one pass."""
        for end in range(1, len(path) + 1):
            if path[:end] not in self._rows:
                self._level([path[:end]])
        missing = dict.fromkeys(each for each in behind if each not in self._rows)
        for _, level in groupby(sorted(missing, key=len), key=len):
            self._level(list(level))

    def _level(self, paths: list[Context]) -> None:
        """Make the entries of some paths of one length, whose beginnings have theirs."""
        root, drafted, depth = self._rows[()], len(self._rows) - 1, len(paths[0])
        sees = None
        if len(paths) > 1 or drafted >= depth:  # otherwise a chain, which sees all there is
            sees = np.eye(len(paths), drafted + len(paths), drafted, dtype=bool)
            for row, path in enumerate(paths):
                sees[row, [self._rows[path[:end]] - root - 1 for end in range(1, depth)]] = True
        above = self._buffers.hidden[[self._rows[path[:-1]] for path in paths]]
        self._compute(tuple(path[-1] for path in paths), above, np.full(len(paths), root + depth), sees)
        self._rows |= {path: root + 1 + drafted + row for row, path in enumerate(paths)}

    def _compute(
        self, tokens: Context, states: Floats, positions: Integers, sees: NDArray[np.bool_] | None
    ) -> None:
        """Make one entry a row behind those there are; `sees` tells which of the last ones each row sees."""
        start = positions[0] if not self._rows else self._rows[()] + len(self._rows)
        end = start + len(tokens)
        self._buffers.make_room(end)
        mask = None if sees is None else np.where(sees, np.float32(0), np.float32(-np.inf))[:, None]
        checked = as_tokens(tokens, self._config.vocab_size, "text")
        x = self._embedded[list(checked)] + product(states, self._combine)[:, : self._config.hidden_size]
        x = filled(x)
        attend = partial(self._buffers.attend, start, mask, 0)
        x = apply(self._layer, x, self._rotation[positions], attend, config=self._config)
        self._buffers.hidden[start:end] = (norm(x, self._config) * self._norm)[: len(tokens)]
