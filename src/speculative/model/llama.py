"""The Llama architecture in numpy: what a transformer computes for some rows, one row a token.

A row x passes through the layers, each of which adds two things to it:

    x += output(attention(norm(x)))             each head mixes the values of the positions that it may see
    x += down(silu(gate(norm(x))) * up(norm(x)))

and its last norm, times the output matrix, gives the logits of the next token. Positions are rotations of
queries and keys, so that their products depend on distances only (Touvron et al. 2023; Su et al. 2024; Zhang
and Sennrich 2019; Shazeer 2020; Ainslie et al. 2023). Keys and values of earlier positions are the business
of a cache, whose `attend` is handed in.

Three things are prepared once instead of computed for each row. A norm's weights and the square root of its
width are multiplied into the matrices behind it, the scale of the scores into the query matrix, the half that
`silu` takes into the gate. The halves of each query and key are interleaved, which makes a rotation one
product of complex numbers. And matrices that read the same rows stand side by side, in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speculative.model.blocks import Floats, block_width, blocked, computed_as, filled, filled_to, multiplied
from speculative.model.config import LlamaConfig

Rotation: TypeAlias = NDArray[np.complex64]
Integers: TypeAlias = NDArray[np.intp]
Attend: TypeAlias = Callable[[Floats, Floats, Floats], Floats]
"""`attend(queries, keys, values)`, each of shape (rows, heads, width) -> shape (rows, heads * width)."""


class Layer(NamedTuple):
    """The matrices of one layer, in blocks."""

    queries_keys_values: Floats
    output: Floats
    gate_up: Floats
    down: Floats


@dataclass(frozen=True, eq=False)
class Llama:
    """The prepared weights of a Llama; see :meth:`of`."""

    config: LlamaConfig
    embedding: Floats = field(repr=False)
    layers: tuple[Layer, ...] = field(repr=False)
    norm: Floats = field(repr=False)
    head: Floats = field(repr=False)
    rotation: Rotation = field(repr=False)

    @classmethod
    def of(cls, config: LlamaConfig, weights: Mapping[str, NDArray[Any]]) -> Llama:
        """Prepare the weights of a checkpoint.

        Parameters
        ----------
        config : LlamaConfig
        weights : mapping from str to ndarray
            By the names and in the shapes of a Hugging Face checkpoint, as `read_checkpoint` checks them.

        Returns
        -------
        Llama
            Its own copy, in float32: about 4 bytes a parameter.
        """
        computed_as()  # measured before any pass: threads that measured at once would not compute alike
        embedding = np.asarray(weights["model.embed_tokens.weight"], dtype=np.float32)
        head = embedding if config.tie_word_embeddings else weights["lm_head.weight"]
        return cls(
            config,
            embedding,
            tuple(
                prepared_layer(config, weights, f"model.layers.{i}.") for i in range(config.num_hidden_layers)
            ),
            np.asarray(weights["model.norm.weight"], dtype=np.float32) * np.float32(config.hidden_size**0.5),
            blocked(head.T, block_width()),
            rotations(config),
        )


def prepared_layer(config: LlamaConfig, weights: Mapping[str, NDArray[Any]], prefix: str) -> Layer:
    """Prepare one layer of a checkpoint, whose names begin with `prefix`."""
    width, heads = config.head_dim, config.num_attention_heads
    interleaved = np.arange(width).reshape(2, -1).T.ravel()  # 0, width/2, 1, width/2 + 1, ...

    def after_norm(norm: str, *names: str) -> NDArray[Any]:
        scale = weights[f"{prefix}{norm}.weight"].astype(np.float64) * config.hidden_size**0.5
        named = [weights[f"{prefix}{name}.weight"] for name in names]
        rows: NDArray[Any] = np.concatenate(named, dtype=np.float64)
        rows *= scale
        return rows

    matrix = after_norm("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    by_head = matrix.reshape(-1, width, config.hidden_size)  # a copy made just now
    by_head[: heads + config.num_key_value_heads] = by_head[: heads + config.num_key_value_heads, interleaved]
    by_head[:heads] *= width**-0.5
    gate_up = after_norm("post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj")
    gate_up[: config.intermediate_size] /= 2
    columns = block_width()
    return Layer(
        blocked(matrix.T, columns),
        blocked(weights[f"{prefix}self_attn.o_proj.weight"].T, columns),
        blocked(gate_up.T, columns),
        blocked(weights[f"{prefix}mlp.down_proj.weight"].T, columns),
    )


def rotations(config: LlamaConfig) -> Rotation:
    """exp(i angle) for each position and each pair of a head, shape (positions, 1, head_dim / 2)."""
    half = np.arange(0, config.head_dim, 2) / config.head_dim
    angles = np.arange(config.max_position_embeddings)[:, None, None] * config.rope_theta**-half
    turns: Rotation = np.exp(1j * angles).astype(np.complex64)
    return turns


def forward(llama: Llama, tokens: Integers, positions: Integers, attend: Callable[..., Floats]) -> Floats:
    """The hidden states of some tokens.

    Parameters
    ----------
    llama : Llama
    tokens, positions : ndarray of int, shape (rows,)
    attend : callable
        `attend(layer, queries, keys, values)`, see `Attend`; layers are numbered from 0.

    Returns
    -------
    ndarray of float32, shape (rows, hidden_size)
        After the last norm.
    """
    x, rotation = llama.embedding[filled(tokens)], llama.rotation[positions]
    for number, layer in enumerate(llama.layers):
        x = apply(layer, x, rotation, partial(attend, number), config=llama.config)
    states: Floats = norm(x, llama.config) * llama.norm
    return states[: len(tokens)]


def apply(layer: Layer, x: Floats, rotation: Rotation, attend: Attend, *, config: LlamaConfig) -> Floats:
    """One layer: rows in, rows out, shape (rows, hidden_size), `filled` where there are fewer rotations."""
    rows, width, heads = len(rotation), config.head_dim, config.num_attention_heads
    rotated = heads + config.num_key_value_heads
    mixed = multiplied(norm(x, config), layer.queries_keys_values)[:rows]
    turned = mixed[:, : rotated * width].view(np.complex64).reshape(rows, rotated, width // 2)
    turned *= rotation
    by_head = mixed[:, : (rotated + config.num_key_value_heads) * width].reshape(rows, -1, width)
    attended = attend(by_head[:, :heads], by_head[:, heads:rotated], by_head[:, rotated:])
    x = x + multiplied(filled_to(len(x), attended), layer.output)[:, : config.hidden_size]
    both = multiplied(norm(x, config), layer.gate_up)
    gate, up = (
        both[:, : config.intermediate_size],
        both[:, config.intermediate_size : 2 * config.intermediate_size],
    )
    gate = silu(gate)
    gate *= up
    x += multiplied(gate, layer.down)[:, : config.hidden_size]
    return x


def norm(x: Floats, config: LlamaConfig) -> Floats:
    """Each row over its length: the root mean square norm but for the factors prepared."""
    squares = np.vecdot(x, x)[:, None] + np.float32(config.hidden_size * config.rms_norm_eps)  # [rows, 1]
    scaled: Floats = x / np.sqrt(squares)
    return scaled


def silu(half: Floats) -> Floats:
    """The activation x / (1 + exp(-x)) of x = 2 * half, as half * (1 + tanh(half)): nothing overflows."""
    activated: Floats = np.tanh(half)
    activated += 1
    activated *= half
    return activated
