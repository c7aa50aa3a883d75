"""Checkpoint folders of Hugging Face: config.json and *.safetensors, read and written, never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from speculative.model.config import LlamaConfig, read_config
from speculative.model.tensors import FILE, Weights, read_tensors, write_tensors

__all__ = ["read_checkpoint", "weight_shapes", "write_checkpoint"]

EMBEDDING, OUTPUT = "model.embed_tokens.weight", "lm_head.weight"


def read_checkpoint(folder: str | Path) -> tuple[LlamaConfig, Weights]:
    """Read a Llama from a folder as `save_pretrained` of `transformers` writes it.

    Parameters
    ----------
    folder : str or Path
        With config.json, and model.safetensors or the shards that model.safetensors.index.json names, in
        float32, float16 or bfloat16.

    Returns
    -------
    LlamaConfig
        The sizes.
    dict of str to ndarray
        The weights as `weight_shapes` names them, widened to float32: 4 bytes each, whatever the file has.
        Without `lm_head.weight` if the embedding is the output too.

    Raises
    ------
    ValueError
        One line, with the file and the field or tensor: for a config.json that describes something else
        (see :meth:`LlamaConfig.from_json`), as of `read_tensors`, and for a tied model whose
        `lm_head.weight` is not its embedding.

    Notes
    -----
    Nothing but JSON and arrays is read: no file of the folder can run code.
    """
    folder = Path(folder)
    config = read_config(folder)
    shapes = weight_shapes(config)
    if not config.tie_word_embeddings:
        return config, read_tensors(folder, shapes)
    weights = read_tensors(folder, shapes, optional={OUTPUT: shapes[EMBEDDING]})
    output = weights.pop(OUTPUT, weights[EMBEDDING])
    if not np.array_equal(output, weights[EMBEDDING]):
        raise ValueError(
            f"{folder}: {OUTPUT} differs from {EMBEDDING}, but config.json has tie_word_embeddings true: "
            "set it to false, or leave the tensor out"
        )
    return config, weights


def weight_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Name the weights of a Llama, as Hugging Face does, with the shape of each.

    Parameters
    ----------
    config : LlamaConfig
        The sizes.

    Returns
    -------
    dict of str to tuple of int
        A matrix has shape (outputs, inputs). Without `lm_head.weight` if the embedding is the output too.
    """
    width, inner = config.hidden_size, config.intermediate_size
    query_width = config.num_attention_heads * config.head_dim
    key_value_width = config.num_key_value_heads * config.head_dim
    layer = {
        "input_layernorm": (width,),
        "self_attn.q_proj": (query_width, width),
        "self_attn.k_proj": (key_value_width, width),
        "self_attn.v_proj": (key_value_width, width),
        "self_attn.o_proj": (width, query_width),
        "post_attention_layernorm": (width,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    return {
        EMBEDDING: (config.vocab_size, width),
        **{
            f"model.layers.{number}.{name}.weight": shape
            for number in range(config.num_hidden_layers)
            for name, shape in layer.items()
        },
        "model.norm.weight": (width,),
        **({} if config.tie_word_embeddings else {OUTPUT: (config.vocab_size, width)}),
    }


def write_checkpoint(
    folder: str | Path,
    config: LlamaConfig,
    weights: Mapping[str, ArrayLike],
    dtype: Literal["float16", "float32"] = "float16",
) -> None:
    """Write a Llama to a folder that `read_checkpoint`, and `LlamaForCausalLM` of `transformers`, can read.

    Parameters
    ----------
    folder : str or Path
        Made if it is not there. Its config.json and model.safetensors are replaced.
    config : LlamaConfig
        The sizes.
    weights : dict of str to array_like
        Names and shapes as of `weight_shapes`.
    dtype : {"float16", "float32"}
        How the weights are stored, each rounded to the nearest.

    Raises
    ------
    ValueError
        For sizes that :meth:`LlamaConfig.from_json` refuses, for weights of other names or shapes, and as of
        `write_tensors`; nothing is written then, save perhaps the folder.
    """
    config = LlamaConfig.from_json(config.to_json(), "config")
    shapes = weight_shapes(config)
    for name in weights:
        if name not in shapes:
            raise ValueError(f"weight {name} is unknown: give those that weight_shapes(config) names")
    for name, shape in shapes.items():
        if name not in weights:
            raise ValueError(f"weight {name} is missing: give one of shape {shape}")
        if np.shape(weights[name]) != shape:
            raise ValueError(f"weight {name} has shape {np.shape(weights[name])}: give one of shape {shape}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / FILE, weights, dtype)
    text = json.dumps({**config.to_json(), "dtype": dtype, "torch_dtype": dtype}, indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
