"""A model of the package `transformers` as an oracle: its cache is cut back unseen, trees take one pass."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context
from speculative.model.tokens import beginning, common, count_tokens, sequence
from speculative.oracle import Oracle, from_logits, path_by_path

__all__ = ["transformers_oracle"]


def transformers_oracle(
    model: Any, *, bos_token_id: int | None, vocabulary: Sequence[str] | None = None
) -> Oracle:
    """A causal language model of `transformers`, as an oracle.

    Parameters
    ----------
    model : PreTrainedModel
        Such as ``AutoModelForCausalLM.from_pretrained(folder)``. It is used where it is and as it is: device,
        number type, attention.
    bos_token_id : int or None
        A token put before every context, which gives the empty context a law; often
        ``model.config.bos_token_id``. None where contexts come with all that the model expects.
    vocabulary : sequence of str, optional
        What each token stands for: ``tokenizer.convert_ids_to_tokens(range(len(tokenizer)))``. Logits beyond
        it are padding and are left out before the softmax.

    Returns
    -------
    Oracle
        Rows are float64. One pass scores a chain. One pass scores a tree, too, if every layer has rotary
        positions and full attention, computed by "sdpa" or "eager"; else a tree is asked path by path. The
        longest context is the model's `max_position_embeddings`, less the first token; with rotary positions
        of the kind "longrope" it ends where these change (`original_max_position_embeddings`).

    Raises
    ------
    ModuleNotFoundError
        Without torch and transformers.
    ValueError
        For anything but a causal language model, one in training mode, one whose cache can't be cut back to
        any length (state-space and linear attention), a `bos_token_id` that is no token, and more strings
        than logits.

    Notes
    -----
    The oracle holds one cache, of the tokens asked about last. It keeps what a new context begins with, crops
    the rest with the cache's own `crop`, and computes what is missing. All layers keep all positions, those
    with a sliding window too: what has left a window comes back into it when the cache is cut. Of a tree, the
    first path stays in the cache as far as it comes first among the nodes; the rest is cropped. Two threads
    take turns.

    The same context, computed in other company, gives rows that differ by rounding: about 1e-7 in float32,
    about 1e-2 in bfloat16. Every verifier keeps the law of the rows it is given.
    """
    torch, transformers = _module("torch"), _module("transformers")
    if not isinstance(model, transformers.PreTrainedModel):
        raise ValueError(
            f"the model is a {type(model).__name__}: give one of transformers', such as "
            "AutoModelForCausalLM.from_pretrained(folder)"
        )
    if model.training:
        raise ValueError("the model is in training mode, where dropout is at work: call model.eval() before")
    config = model.config.get_text_config(decoder=True)
    takes = inspect.signature(model.forward).parameters
    layers = {type(layer).__name__ for layer in transformers.DynamicCache(config=config).layers}
    cache_name = "cache" if "cache" in takes else "past_key_values"  # its name in older versions
    if not {cache_name, "logits_to_keep"} <= set(takes) or not layers <= {_FULL, _SLIDING}:
        raise ValueError(
            f"a {type(model).__name__} has no cache that can be cut back to any length: give a causal "
            "language model in which every layer is attention"
        )
    rotary = getattr(config, "rope_parameters", None) or {}
    engine = _Engine(
        model=model,
        torch=torch,
        new_cache=transformers.DynamicCache,
        cache_name=cache_name,
        first=beginning(bos_token_id, config.vocab_size),
        vocab_size=count_tokens(vocabulary, config.vocab_size),
    )
    in_one_pass = (
        layers == {_FULL}
        and config._attn_implementation in ("sdpa", "eager")
        and rotary
        and not getattr(config, "alibi", False)
    )
    return from_logits(
        engine.row,
        engine.vocab_size,
        score_tree=engine.score_tree if in_one_pass else path_by_path(engine.score),
        vocabulary=vocabulary,
        context_limit=_context_limit(config, rotary, len(engine.first)),
    )


_FULL, _SLIDING = "DynamicLayer", "DynamicSlidingWindowLayer"


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ModuleNotFoundError(
            f'transformers_oracle needs {name}: pip install -e ".[transformers]" in a checkout', name=name
        ) from error


def _context_limit(config: Any, rotary: dict[str, Any], num_first: int) -> int | None:
    longest: int | None = getattr(config, "max_position_embeddings", None)
    if rotary.get("rope_type") == "longrope":
        longest = rotary["original_max_position_embeddings"]
    return None if longest is None else longest - num_first


@dataclass
class _Engine:
    """The model, and a cache that holds `tokens`."""

    model: Any
    torch: Any
    new_cache: Any
    cache_name: str
    first: Context
    vocab_size: int
    cache: Any = None
    tokens: Context = ()
    lock: Lock = field(default_factory=Lock)

    def row(self, context: Context) -> NDArray[np.float64]:
        logits: NDArray[np.float64] = self.score_tree(context, (), ())[0]
        return logits

    def score(self, context: Context, drafted: Context) -> NDArray[np.float64]:
        return self.score_tree(context, drafted, tuple(range(len(drafted))))

    def score_tree(self, context: Context, tokens: Context, parents: Context) -> NDArray[np.float64]:
        """Logits after the context and after each node, shape (1 + nodes, V)."""
        before = sequence(self.first, context)
        chain = common(parents, tuple(range(len(parents))))  # nodes that come first and are one path
        with self.lock, self.torch.inference_mode():
            held, cache = self.tokens, self.cache
            self.tokens, self.cache = (), None  # a pass that is interrupted leaves nothing half done
            kept = min(common(held, before), len(before) - 1)
            if cache is None:
                cache = self.new_cache()
            elif kept < len(held):
                cache.crop(kept - len(held))
            logits = self._pass(cache, kept, before[kept:], tokens, parents if chain < len(parents) else None)
            if chain < len(tokens):
                cache.crop(chain - len(tokens))
            self.tokens, self.cache = before + tokens[:chain], cache
        return logits

    def _pass(
        self, cache: Any, kept: int, pending: Context, tokens: Context, parents: Context | None
    ) -> NDArray[np.float64]:
        """Compute the rest of the context and what is drafted, behind what the cache holds."""
        torch, device, dtype = self.torch, self.model.device, self.model.dtype
        arguments = {self.cache_name: cache, "use_cache": True, "logits_to_keep": 1 + len(tokens)}
        if parents is not None:
            positions, sees = _tree(kept, len(pending), parents)
            mask = np.where(sees, 0, torch.finfo(dtype).min)
            arguments["position_ids"] = torch.tensor([positions], device=device)
            arguments["attention_mask"] = torch.tensor(mask[None, None], device=device, dtype=dtype)
        logits = self.model(torch.tensor([pending + tokens], device=device), **arguments).logits
        rows: NDArray[np.float64] = logits[0, :, : self.vocab_size].cpu().double().numpy()
        return rows


def _tree(kept: int, pending: int, parents: Context) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the position of each new token, and which tokens it sees: those before it on its own path."""
    root = kept + pending - 1
    sees = np.tri(pending + len(parents), root + 1 + len(parents), kept, dtype=np.bool_)
    positions = [*range(kept, root + 1)]
    for node, parent in enumerate(parents):
        path = sees[pending - 1 + parent]  # row pending - 1 is the root's, and node i has row pending - 1 + i
        sees[pending + node] = path
        sees[pending + node, root + 1 + node] = True
        positions.append(positions[pending - 1 + parent] + 1)
    return positions, sees
