"""A Llama that reads several texts in one stacked pass, each with a cache that cuts itself back.

The rows of all texts, one text's few and another's many, stand below one another, so that matrices are read
once for all of them. Attention is one product over all texts, padded to the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import index
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from speculative._numbers import count
from speculative.batch import Batch, Question
from speculative.distribution import Context
from speculative.model.attention import mix, shape_of
from speculative.model.blocks import Floats, product
from speculative.model.cache import CachedLlama
from speculative.model.llama import Integers, Llama, forward
from speculative.model.session import ROOM, Buffers, Session
from speculative.model.text import Characters
from speculative.model.tokenizer import Subwords
from speculative.model.tokens import sequence
from speculative.oracle import from_logits
from speculative.oracle.interface import as_tokens, depths

__all__ = ["BatchedLlama"]

ALONE = 16  # a text with so many tokens to read and more reads all but the last alone: others would be padded


class BatchedLlama:
    """A Llama with a slot for each of several texts; `batch` has its laws of their next tokens.

    Parameters
    ----------
    llama : Llama
    slots : int
        How many texts are read side by side.
    tokenizer : Characters or Subwords, optional
        What reads and writes text for it.
    context_limit : int, optional
        The longest context; by default what the model is made for.

    Raises
    ------
    ValueError
        For no slot, and for a limit beyond the model's positions. At a call, for a tree that takes more than
        64 positions behind the longest context, and as of :meth:`Oracle.score_tree`.

    Notes
    -----
    A slot takes the memory of a session of :class:`CachedLlama`, all of it from the start. A row of
    a stacked pass is rounded otherwise than that of a pass alone: they differ by about 1e-7.

    Two threads take turns. A copy, made by `copy` or `pickle`, has read nothing yet and shares no buffer.
    """

    def __init__(
        self,
        llama: Llama,
        slots: int,
        *,
        tokenizer: Characters | Subwords | None = None,
        context_limit: int | None = None,
    ) -> None:
        one, config = CachedLlama(llama, tokenizer=tokenizer, context_limit=context_limit), llama.config
        self.llama, self._one, slots = llama, one, count("slots", slots)
        positions, width = len(one.first) + one.longest + ROOM, config.head_dim
        shape = config.num_hidden_layers, slots, config.num_key_value_heads
        self._keys = np.zeros((*shape, width, positions), dtype=np.float32)  # what is padded must be finite
        self._values = np.zeros((*shape, positions, width), dtype=np.float32)
        self._hidden = np.zeros((slots, positions, config.hidden_size), dtype=np.float32)
        self._sessions = [Session(llama, self._view(slot)) for slot in range(slots)]
        self._answers, self._lock = dict[int, tuple[Question, Floats]](), Lock()
        self.batch = Batch(
            tuple(
                from_logits(
                    partial(self._row, slot),
                    config.vocab_size,
                    score_tree=partial(self._rows, slot),
                    vocabulary=one.oracle.vocabulary,
                    context_limit=one.longest,
                )
                for slot in range(slots)
            ),
            self._ahead,
        )

    def __repr__(self) -> str:
        """One line."""
        return f"BatchedLlama({len(self._sessions)} slots of {self._one.oracle})"

    def __reduce__(self) -> tuple[Callable[[], BatchedLlama], tuple[()]]:
        """How it is copied: made again from the same weights."""
        options: dict[str, Any] = {"tokenizer": self._one.tokenizer, "context_limit": self._one.longest}
        return partial(type(self), self.llama, len(self._sessions), **options), ()

    def _view(self, slot: int) -> Buffers:
        """A slot's part of the buffers of all."""
        buffers = Buffers(self.llama.config, 0)
        buffers.keys, buffers.values = self._keys[:, slot], self._values[:, slot]
        buffers.hidden = self._hidden[slot]
        return buffers

    @property
    def nbytes(self) -> int:
        """Bytes that the slots' buffers take."""
        return self._keys.nbytes + self._values.nbytes + self._hidden.nbytes

    def read(self, questions: Mapping[int, Question]) -> None:
        """Compute what slots are about to be asked, in one stacked pass.

        Parameters
        ----------
        questions : mapping from slots to (context, tokens, parents)
            As of :meth:`Oracle.score_tree`.

        Raises
        ------
        ValueError
            For a slot that there is not, and as of :meth:`Oracle.score_tree`.
        """
        checked = dict[int, Question]()
        for slot, (context, tokens, parents) in questions.items():
            if not isinstance(slot, int) or not 0 <= slot < len(self._sessions):
                raise ValueError(f"slot {slot!r}: give slots from 0 to {len(self._sessions) - 1}")
            checked[slot] = self.batch.oracles[slot].tokens(context), tokens, parents
        self._ahead(checked)

    def _ahead(self, questions: Mapping[int, Question]) -> None:
        """The same, of contexts whose tokens were checked before."""
        with self._lock:
            self._read(questions)

    def _read(self, questions: Mapping[int, Question]) -> None:
        if not questions:
            return
        parts = [self._part(slot, question) for slot, question in questions.items()]
        if any(part.rows for part in parts):
            self._compute([part for part in parts if part.rows])
        for part in parts:
            part.session.keep(part.text, *part.question[1:])
        asked = [range(len(part.text) - 1, part.start + part.rows) for part in parts]
        slots = np.repeat([part.slot for part in parts], [len(places) for places in asked])
        logits = product(self._hidden[slots, np.concatenate(asked)], self.llama.head)
        for part, places in zip(parts, asked, strict=True):
            self._answers[part.slot] = part.question, logits[: len(places), : self.llama.config.vocab_size]
            logits = logits[len(places) :]

    def _part(self, slot: int, question: Question) -> _Part:
        """Cut a slot back to what its question has in common with it."""
        context, tokens = question[0], as_tokens(question[1], self.llama.config.vocab_size, "draft")
        parents = tuple(map(index, question[2]))
        self._one.oracle.check_length(len(context) + max(depths(tokens, parents)))
        session, text = self._sessions[slot], sequence(self._one.first, context)
        if (nodes := self._hidden.shape[1] - len(text)) < len(tokens):
            raise ValueError(
                f"a tree of {len(tokens)} nodes behind {len(context)} tokens: the slot has room for {nodes}"
            )
        session.cut_back(text)
        if len(text) - len(session.tokens) >= ALONE:
            session.read(text[:-1])
        start = len(session.tokens)
        places, mask = shape_of(len(text) - start, parents)
        question = context, tokens, parents
        return _Part(slot, session, text, question, start, len(places), places, mask)

    def _compute(self, parts: Sequence[_Part]) -> None:
        """Compute the rows of several texts in one pass."""
        config, rows = self.llama.config, [part.rows for part in parts]
        slots = np.repeat([part.slot for part in parts], rows)
        starts = np.repeat([part.start for part in parts], rows)
        row_of = np.concatenate([np.arange(number) for number in rows])
        places = starts + row_of
        used, most, seen = slots.max() + 1, max(rows), places.max() + 1
        mask = np.zeros((used, most, 1, seen), dtype=np.float32)
        for part in parts:
            own = mask[part.slot, : part.rows, :, part.start :]
            own[..., part.rows :] = -np.inf
            if part.mask is not None:
                own[..., : part.rows] = part.mask
        mask = np.repeat(mask, config.num_key_value_heads, axis=0)
        padded = np.zeros((most, used, config.num_attention_heads, config.head_dim), dtype=np.float32)

        def attend(layer: int, queries: Floats, keys: Floats, values: Floats) -> Floats:
            all_keys, all_values = self._keys[layer, :used], self._values[layer, :used]
            all_keys[slots, :, :, places] = keys
            all_values[slots, :, places] = values
            padded[row_of, slots] = queries
            mixed = mix(
                padded.reshape(most, -1, config.head_dim),
                all_keys.reshape(-1, *all_keys.shape[2:])[..., :seen],
                all_values.reshape(-1, *all_values.shape[2:])[:, :seen],
                mask,
            )
            attended: Floats = mixed.reshape(most, used, -1)[row_of, slots]
            return attended

        tokens = [token for part in parts for token in (part.text + part.question[1])[part.start :]]
        behind = np.concatenate([part.depths for part in parts])
        self._hidden[slots, places] = forward(self.llama, np.array(tokens), starts + behind, attend)

    def _row(self, slot: int, context: Context) -> Floats:
        row: Floats = self._rows(slot, context, (), ())[0]
        return row

    def _rows(self, slot: int, context: Context, tokens: Context, parents: Context) -> Floats:
        """Logits after the context and after each node, shape (1 + nodes, V), computed ahead or now."""
        question = context, tokens, parents
        with self._lock:
            if slot not in self._answers or self._answers[slot][0] != question:
                self._read({slot: question})
            return self._answers[slot][1]


class _Part(NamedTuple):
    """One text's part of a stacked pass: which of its rows are computed, from where on."""

    slot: int
    session: Session
    text: Context
    question: Question
    start: int
    rows: int
    depths: Integers
    mask: Floats | None
