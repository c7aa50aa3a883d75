"""A model of the package `llama-cpp-python` as an oracle: its cache is cut back unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context
from speculative.model.tokens import beginning, common, count_tokens, sequence
from speculative.oracle import Oracle, from_logits, path_by_path

__all__ = ["LlamaCpp", "llama_cpp_oracle"]


class LlamaCpp(Protocol):
    """What is used of a `llama_cpp.Llama`.

    Attributes
    ----------
    n_tokens : int
        How many positions the cache holds; set to fewer, it is cut back at the next `eval`.
    input_ids : ndarray of int, shape (n_ctx,)
        The tokens it holds, and anything behind them.
    scores : ndarray of float32, shape (n_ctx, V)
        Their logits, and anything behind them.
    metadata : mapping
        The strings of the GGUF file.
    context_params : object
        How the context was made; its `swa_full` is read.
    """

    n_tokens: int
    input_ids: NDArray[Any]
    scores: NDArray[Any]
    metadata: Mapping[str, str]
    context_params: Any
    _logits_all: bool
    _ctx: Any

    def n_vocab(self) -> int:
        """How many tokens have a logit."""

    def eval(self, tokens: Sequence[int]) -> None:
        """Compute tokens behind those held."""


def llama_cpp_oracle(
    llama: LlamaCpp, *, bos_token_id: int | None, vocabulary: Sequence[str] | None = None
) -> Oracle:
    """A model of `llama-cpp-python`, as an oracle.

    Parameters
    ----------
    llama : llama_cpp.Llama
        Made with ``Llama(path, logits_all=True)``; `n_ctx`, threads and number types are as it has them.
    bos_token_id : int or None
        A token put before every context, which gives the empty context a law; often ``llama.token_bos()``,
        which is 1 where the file names none (``tokenizer.ggml.bos_token_id`` in its metadata). None where
        contexts come with all that the model expects.
    vocabulary : sequence of str, optional
        What each token stands for. Logits beyond it are padding and are left out before the softmax.

    Returns
    -------
    Oracle
        Rows are float64. One pass scores a chain; a tree is asked path by path. The longest context is
        `n_ctx`, less the first token.

    Raises
    ------
    ValueError
        For a model made without ``logits_all=True``, one whose cache has let go of what left a sliding
        window, a `bos_token_id` that is no token, and more strings than logits; at a call, where the cache
        can't be cut back (recurrent models).

    Notes
    -----
    The model's own record, `input_ids` and `n_tokens`, says what the cache holds, so the same object may be
    used otherwise in between. What a new context begins with is kept, the rest is removed with
    `llama_memory_seq_rm`, and what is missing is computed. Two threads that ask this oracle take turns.

    The same context, computed in other company, gives rows that differ by rounding: about 1e-7 where weights
    and cache are float32 (``type_k=0, type_v=0``), more where they are not. Every verifier keeps the law of
    the rows it is given.
    """
    if not llama._logits_all:
        raise ValueError(
            "the model gives logits of the last position only: make it with Llama(path, logits_all=True)"
        )
    architecture = llama.metadata.get("general.architecture")
    window = llama.metadata.get(f"{architecture}.attention.sliding_window", "0")
    if int(window) and not llama.context_params.swa_full:
        raise ValueError(
            f"the cache lets go of what leaves the window of {window} tokens, so it can't be cut back: make "
            "the model with Llama(path, logits_all=True, swa_full=True)"
        )
    engine = _Engine(
        llama, beginning(bos_token_id, llama.n_vocab()), count_tokens(vocabulary, llama.n_vocab())
    )
    return from_logits(
        engine.row,
        engine.vocab_size,
        score_tree=path_by_path(engine.score),
        vocabulary=vocabulary,
        context_limit=len(llama.input_ids) - len(engine.first),
    )


@dataclass
class _Engine:
    llama: LlamaCpp
    first: Context
    vocab_size: int
    lock: Lock = field(default_factory=Lock)

    def row(self, context: Context) -> NDArray[np.float32]:
        logits: NDArray[np.float32] = self.score(context, ())[0]
        return logits

    def score(self, context: Context, drafted: Context) -> NDArray[np.float32]:
        """Logits after the context and after each drafted token, shape (k + 1, V)."""
        before = sequence(self.first, context)
        tokens, llama = before + drafted, self.llama
        with self.lock:
            held = tuple(llama.input_ids[: llama.n_tokens].tolist())
            kept = min(common(held, before), len(before) - 1)
            if kept < len(held):
                if not llama._ctx.kv_cache_seq_rm(-1, kept, -1):
                    raise ValueError(
                        f"the cache holds {len(held)} positions and can't be cut back to {kept}: give a "
                        "model in which every layer is attention"
                    )
                llama.n_tokens = kept
            llama.eval(tokens[kept:])
            return llama.scores[len(before) - 1 : len(tokens), : self.vocab_size].copy()
