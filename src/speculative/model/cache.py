"""A Llama with a cache: an oracle that remembers what it has read, for several texts side by side.

Nobody calls for a rollback. A cached model is asked about a context and drafted tokens behind it; it compares
the context with the tokens it holds, goes on from where they part, and computes the rest in one pass. After a
rejection, a switch to another text, or a branch of a tree that was dropped, that is all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from speculative._numbers import count
from speculative.distribution import Context
from speculative.model.blocks import Floats, product
from speculative.model.llama import Llama
from speculative.model.session import ROOM, Buffers, Session
from speculative.model.text import Characters
from speculative.model.tokens import common, sequence
from speculative.oracle import Oracle, from_logits
from speculative.oracle.interface import contexts_after

if TYPE_CHECKING:
    from speculative.model.tokenizer import Subwords

__all__ = ["CachedLlama"]


class CachedLlama:
    """A Llama with a cache for each of several texts; `oracle` is its law of the next token.

    Parameters
    ----------
    llama : Llama
    tokenizer : Characters or Subwords, optional
        What reads and writes text for it.
    sessions : int
        How many texts are kept side by side. A context goes on with the session that shares most with it, of
        several the one used last; where that is less than half of what the session holds, with a new one, or
        where there are all of them, with the one unused for longest.
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
    the longest context and 64 more for drafts.

    Two threads take turns. A copy, made by `copy` or `pickle`, has read nothing yet and shares no buffer.
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
        self.llama, self.tokenizer, self._sessions, self._lock = llama, tokenizer, list[Session](), Lock()
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

    def __repr__(self) -> str:
        """One line."""
        return f"CachedLlama({self.oracle})"

    def __reduce__(self) -> tuple[Callable[[], CachedLlama], tuple[()]]:
        """How it is copied: made again from the same weights."""
        options: dict[str, Any] = {
            "sessions": self._most,
            "context_limit": self.longest,
            "sliding": self._sliding,
        }
        return partial(type(self), self.llama, tokenizer=self.tokenizer, **options), ()

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
        return tuple(context[self._start(len(context)) :])

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
            With a first token of the model's own in front, n is one more than the length of `context`.

        Raises
        ------
        ValueError
            For a token outside the vocabulary, and a context longer than the limit.
        """
        context = self.oracle.tokens(context)
        if (length := len(context)) > self.longest:
            raise ValueError(
                f"a context of {length} tokens is over the limit of {self.longest}: give window(context)"
            )
        return self.states_from(0, context)

    def states_from(self, start: int, context: Context) -> Floats:
        """The same from one row on, of a context whose tokens were checked before: for heads, once a round.

        Parameters
        ----------
        start : int
            The first row wanted, from the end where it is negative.
        context : tuple of int
            As of :meth:`states`.

        Returns
        -------
        ndarray of float32, shape (n - start, hidden_size)
        """
        text = self.first + context
        if not text:
            return np.empty((0, self.llama.config.hidden_size), dtype=np.float32)
        with self._lock:
            session = self._session(text)
            session.read(text)
            return session.buffers.hidden[: len(text)][start:].copy()

    def _row(self, context: Context) -> Floats:
        row: Floats = self._rows(context, (), ())[0]
        return row

    def _rows(self, context: Context, tokens: Context, parents: Context) -> Floats:
        """Logits after the context and after each node, shape (1 + nodes, V), in one pass."""
        if self._start(len(context) + len(tokens)) != self._start(len(context)):
            contexts = contexts_after(context, tokens, parents)
            if len({self._start(len(each)) for each in contexts}) > 1:  # the window moves on inside the tree
                return np.concatenate([self._rows(each, (), ()) for each in contexts])
        text = sequence(self.first, self.window(context))
        with self._lock:
            hidden = self._session(text).read(text, tokens, parents)
            logits: Floats = product(hidden, self.llama.head)[:, : self.llama.config.vocab_size]
        return logits

    def _start(self, length: int) -> int:
        """Where the window of a context of this length begins."""
        step = (self.longest + 1) // 2
        return max(0, -(-(length - self.longest) // step) * step) if self._sliding else 0

    def _session(self, text: Context) -> Session:
        """Return the session to go on with, made the last of the list."""
        sessions = self._sessions
        if len(sessions) == self._most == 1:
            return sessions[0]
        shared = [common(session.tokens, text) for session in sessions]
        best = max(reversed(range(len(sessions))), key=shared.__getitem__, default=0)
        if not sessions or 2 * shared[best] < len(sessions[best].tokens):
            if len(sessions) < self._most:
                positions = self.longest + len(self.first) + ROOM
                sessions.append(Session(self.llama, Buffers(self.llama.config, positions)))
                return sessions[-1]
            best = 0  # unused for longest
        sessions.append(sessions.pop(best))
        return sessions[-1]
