"""What was trained, written as the checkpoints that the package ships: safetensors in half precision.

The Llamas get the names and the config.json of Hugging Face, so that `transformers` loads them as well; the
config.json of heads and n-grams says what they are.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from heads import EAGLE_INNER, MEDUSA_HEADS, Eagle, Medusa
from llama import Llama
from neural import EMBEDDED, FURTHER, HIDDEN, PLACES, Neural
from safetensors.numpy import save_file
from text import ALPHABET
from torch import nn

from speculative.model import LlamaConfig, read_checkpoint, write_checkpoint, write_tokenizer
from speculative.model.bundle import NEURAL_SIZES, fingerprint
from speculative.model.tensors import FILE, write_tensors

NAME, LIMIT = "shakespeare", 12_000_000


def llama(model: Llama, ending: str, folder: Path) -> None:
    """The target, or with an ending to its name a draft."""
    size = model.size
    config = LlamaConfig(
        vocab_size=size.vocab,
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.head_width,
        rms_norm_eps=size.eps,
        rope_theta=size.rope_theta,
        tie_word_embeddings=False,
        max_position_embeddings=size.context,
        bos_token_id=ALPHABET.index("\n"),
    )
    write_checkpoint(folder / (NAME + ending), config, tensors_of(model))
    write_tokenizer(folder / (NAME + ending), ALPHABET)
    readable(folder / (NAME + ending))


def heads(module: Eagle | Medusa, name: str, folder: Path) -> None:
    """Heads of the target that is in the folder."""
    size = {"medusa": {"num_heads": MEDUSA_HEADS}, "eagle": {"intermediate_size": EAGLE_INNER}}[name]
    target = fingerprint(read_checkpoint(folder / NAME)[1]["model.embed_tokens.weight"])
    folder = made(folder, name, {"model_type": name, "target": target, **size})
    write_tensors(folder / FILE, tensors_of(module))
    readable(folder)


def ngram(tensors: dict[str, np.ndarray], name: str, folder: Path) -> None:
    """An n-gram in the form of `ngram.encode`."""
    folder = made(folder, name, {"model_type": "ngram", "vocabulary": list(ALPHABET)})
    save_file(tensors, folder / FILE)
    readable(folder)


def neural(model: Neural, name: str, folder: Path) -> None:
    """A neural n-gram."""
    sizes = dict(zip(NEURAL_SIZES, (PLACES, EMBEDDED, HIDDEN, FURTHER), strict=True))
    folder = made(folder, name, {"model_type": "neural_ngram", **sizes, "vocabulary": list(ALPHABET)})
    write_tensors(folder / FILE, tensors_of(model))
    readable(folder)


def made(folder: Path, name: str, config: dict) -> Path:
    """A folder with a config.json of what is no Llama."""
    folder = folder / f"{NAME}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="ascii")
    return folder


def readable(folder: Path) -> None:
    """Let others read the weights, which safetensors writes for their owner alone."""
    (folder / FILE).chmod(0o644)


def tensors_of(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def check_size(folder: Path) -> None:
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{total:,} bytes of checkpoints in {folder}")
    if total > LIMIT:
        raise ValueError(f"the checkpoints have {total:,} bytes, and {LIMIT:,} is what the package can take")
