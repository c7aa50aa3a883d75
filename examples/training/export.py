"""What was trained, written as the checkpoints that the package ships: safetensors in half precision.

The Llamas get the names and the config.json of Hugging Face, so that `transformers` loads them as well; heads
and n-grams have a config.json that says what they are and which target they belong to.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from heads import EAGLE_INNER, MEDUSA_HEADS, Eagle, Medusa
from llama import Llama, Size
from safetensors.numpy import save_file
from text import ALPHABET
from torch import nn

from speculative.model.tokenizer import write_tokenizer

NAME, LIMIT = "shakespeare", 12_000_000


def everything(
    models: dict[str, Llama], heads: dict[str, Eagle | Medusa], ngrams: dict[str, dict], folder: Path
) -> None:
    """One checkpoint folder for each, named after the target."""
    for ending, model in models.items():
        write(folder / (NAME + ending), llama_config(model.size), tensors_of(model))
        write_tokenizer(folder / (NAME + ending), ALPHABET)
    sizes = {"medusa": {"num_heads": MEDUSA_HEADS}, "eagle": {"intermediate_size": EAGLE_INNER}}
    for name, head in heads.items():
        write(
            folder / f"{NAME}-{name}", {"model_type": name, "target": NAME, **sizes[name]}, tensors_of(head)
        )
    for name, tensors in ngrams.items():
        write(folder / f"{NAME}-{name}", {"model_type": "ngram", "vocabulary": list(ALPHABET)}, tensors)
    total = sum(path.stat().st_size for path in folder.rglob("*"))
    print(f"{total:,} bytes of checkpoints in {folder}")
    if total > LIMIT:
        raise ValueError(f"the checkpoints have {total:,} bytes, and {LIMIT:,} is what the package can take")


def tensors_of(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def write(folder: Path, config: dict, tensors: dict[str, np.ndarray]) -> None:
    """A checkpoint folder without tokenizer; floats are halved, integers kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all() or np.abs(tensor).max() > np.finfo(np.float16).max:
            raise ValueError(f"{folder.name}: {name} has a number that half precision cannot hold")
    halves = {
        name: np.ascontiguousarray(tensor, np.float16 if tensor.dtype == np.float32 else tensor.dtype)
        for name, tensor in tensors.items()
    }
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="ascii")


def llama_config(size: Size) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": size.vocab,
        "hidden_size": size.width,
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head_width,
        "hidden_act": "silu",
        "max_position_embeddings": size.context,
        "rms_norm_eps": size.eps,
        "rope_theta": size.rope_theta,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": None,
        "torch_dtype": "float16",
    }
