"""Write a GGUF file, as llama.cpp reads it, of a Llama checkpoint with one token a character.

    python examples/write_gguf.py FOLDER FILE.gguf

FOLDER has config.json, model.safetensors and tokenizer.json. Needs the package `gguf`. Weights are written in
float32: a small model loses nothing, and rows can be compared with those of other engines.
"""

import sys
from pathlib import Path

import gguf
import numpy as np

from speculative.model.checkpoint import read_checkpoint
from speculative.model.tokenizer import read_tokenizer


def write_gguf(folder: str | Path, path: str | Path) -> None:
    """Write the checkpoint of a folder to one file."""
    config, weights = read_checkpoint(folder)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_vocab_size(config.vocab_size)
    add_characters(writer, read_tokenizer(folder).vocabulary, config.bos_token_id)
    for name, weight in weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            matrix = in_pairs(weight, config.head_dim)
        else:
            matrix = weight
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def in_pairs(weight: np.ndarray, head_dim: int) -> np.ndarray:
    """Put rows that are rotated together side by side in each head: llama.cpp turns (0, 1), not (0, half)."""
    outputs, inputs = weight.shape
    halves = weight.reshape(outputs // head_dim, 2, head_dim // 2, inputs)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(outputs, inputs))


def add_characters(writer: gguf.GGUFWriter, vocabulary: tuple[str, ...], bos_token_id: int | None) -> None:
    """Add the vocabulary as that of a tokenizer that merges nothing; it spells a space as U+2581."""
    writer.add_tokenizer_model("llama")
    writer.add_token_list([character.replace(" ", "\u2581") for character in vocabulary])
    writer.add_token_scores([0.0] * len(vocabulary))
    writer.add_token_types([gguf.TokenType.NORMAL] * len(vocabulary))
    writer.add_add_space_prefix(False)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    if bos_token_id is not None:
        writer.add_bos_token_id(bos_token_id)


if __name__ == "__main__":
    write_gguf(*sys.argv[1:])
