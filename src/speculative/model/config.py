"""The sizes of a Llama, and which config.json of a Hugging Face checkpoint describes one."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["LlamaConfig", "read_config"]

LARGEST = sys.float_info.max
MOST_LAYERS, MOST_POSITIONS = 1000, 2**20


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama: what its forward pass needs besides the weights.

    The fields have the names and meanings of a Hugging Face config.json. Made directly nothing is checked;
    :meth:`from_json` checks everything.

    Attributes
    ----------
    vocab_size : int
        Number of tokens V.
    hidden_size : int
        Width D of the residual stream.
    intermediate_size : int
        Width of a feed-forward layer.
    num_hidden_layers : int
        Number of layers.
    num_attention_heads : int
        Number of query heads.
    num_key_value_heads : int
        Number of key and value heads, a divisor of `num_attention_heads`.
    head_dim : int
        Width of a head, even.
    rms_norm_eps : float
        What the norms add to the mean square.
    rope_theta : float
        Base of the rotary positions' wavelengths.
    tie_word_embeddings : bool
        Whether the output matrix is the embedding.
    max_position_embeddings : int
        The longest sequence that the model is made for.
    bos_token_id : int, optional
        The token that begins every sequence. With None there is none.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool
    max_position_embeddings: int
    bos_token_id: int | None

    @classmethod
    def from_json(cls, fields: Any, where: str) -> LlamaConfig:
        """Read the fields of a config.json, or raise where they describe something else.

        Fields that a Llama does not read are ignored.

        Parameters
        ----------
        fields : dict
            What the file holds. `model_type`, `vocab_size`, `hidden_size`, `intermediate_size`,
            `num_hidden_layers` and `num_attention_heads` must be there. Any other, where it is absent, has
            the default that `transformers` documents for a Llama: `num_key_value_heads` is
            `num_attention_heads`, `head_dim` is ``hidden_size / num_attention_heads``, `rms_norm_eps` 1e-6,
            `rope_theta` 10000, `max_position_embeddings` 2048, `bos_token_id` 1, `tie_word_embeddings` false.
        where : str
            The file's name, for errors.

        Returns
        -------
        LlamaConfig

        Raises
        ------
        ValueError
            One line, with the file, the field, what was found, and what is supported.
        """
        if not isinstance(fields, dict):
            raise ValueError(f"{where} holds {_found(fields)}: give an object with the fields of a Llama")
        _check_supported(fields, where)
        heads = read_count(fields, "num_attention_heads", where)
        hidden_size = read_count(fields, "hidden_size", where)
        vocab_size = read_count(fields, "vocab_size", where)
        return cls(
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=read_count(fields, "intermediate_size", where),
            num_hidden_layers=read_count(fields, "num_hidden_layers", where, most=MOST_LAYERS),
            num_attention_heads=heads,
            num_key_value_heads=_key_value_heads(fields, heads, where),
            head_dim=_head_dim(fields, hidden_size, heads, where),
            rms_norm_eps=_positive(fields, "rms_norm_eps", 1e-6, where),
            rope_theta=_rope_theta(fields, where),
            tie_word_embeddings=_flag(fields, "tie_word_embeddings", where),
            max_position_embeddings=read_count(
                fields, "max_position_embeddings", where, 2048, most=MOST_POSITIONS
            ),
            bos_token_id=_bos_token(fields, vocab_size, where),
        )

    def to_json(self) -> dict[str, Any]:
        """The fields of a config.json, for `transformers` of any version and for :meth:`from_json`.

        Returns
        -------
        dict
            Can be written as JSON. The rotary base is there in the new place and in the old one.
        """
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            **asdict(self),
            "eos_token_id": None,
            "rope_parameters": {"rope_theta": self.rope_theta, "rope_type": "default"},
        }


def read_config(folder: str | Path) -> LlamaConfig:
    """Read the config.json of a checkpoint folder.

    Parameters
    ----------
    folder : str or Path
        A folder as `save_pretrained` of `transformers` writes it.

    Returns
    -------
    LlamaConfig

    Raises
    ------
    ValueError
        One line, where the file is missing or is no JSON, and as of :meth:`LlamaConfig.from_json`.
    """
    path = Path(folder) / "config.json"
    return LlamaConfig.from_json(read_json(path), str(path))


def read_json(path: Path) -> Any:
    """Return what a JSON file of a checkpoint folder holds, or raise a ValueError of one line."""
    if not path.parent.is_dir():
        raise ValueError(
            f"{path.parent} is no folder: give one with config.json, model.safetensors and so on"
        )
    if not path.is_file():
        raise ValueError(f"{path.parent} has no {path.name}: give a folder that has one")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also of the encoding
        raise ValueError(f"{path} is no JSON ({error}): give a whole file") from None


_SUPPORTED = {  # field: the only value supported, which is also the default of a field that is absent
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "partial_rotary_factor": 1,
    "quantization_config": None,
}


def _check_supported(fields: Mapping[str, Any], where: str) -> None:
    if "model_type" not in fields:
        raise ValueError(f'{where} has no model_type: only "llama" is supported')
    for field, only in _SUPPORTED.items():
        found = fields.get(field, only)
        if found != only or isinstance(found, bool) != isinstance(only, bool):
            raise ValueError(f"{where}: {field} is {_found(found)}: only {_found(only)} is supported")


def read_count(
    fields: Mapping[str, Any], field: str, where: str, default: int | None = None, *, most: float = math.inf
) -> int:
    """Return a field that is a number of something, or raise a ValueError of one line."""
    if field not in fields and default is None:
        raise ValueError(f"{where} has no {field}: give an integer, 1 or more")
    count = fields.get(field, default)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= most:
        to = "on" if most == math.inf else f"to {most}"
        raise ValueError(f"{where}: {field} is {_found(count)}: only integers from 1 {to} are supported")
    return count


def _key_value_heads(fields: Mapping[str, Any], heads: int, where: str) -> int:
    if fields.get("num_key_value_heads") is None:
        return heads
    key_value_heads = read_count(fields, "num_key_value_heads", where)
    if heads % key_value_heads:
        raise ValueError(
            f"{where}: num_key_value_heads is {key_value_heads}, which does not divide num_attention_heads, "
            f"{heads}: only equal groups of query heads are supported"
        )
    return key_value_heads


def _head_dim(fields: Mapping[str, Any], hidden_size: int, heads: int, where: str) -> int:
    if fields.get("head_dim") is not None:
        head_dim, origin = read_count(fields, "head_dim", where), ""
    elif hidden_size % heads:
        raise ValueError(
            f"{where} has no head_dim, and hidden_size, {hidden_size}, is no multiple of "
            f"num_attention_heads, {heads}: give head_dim"
        )
    else:
        head_dim, origin = hidden_size // heads, " (hidden_size / num_attention_heads)"
    if head_dim % 2:
        raise ValueError(
            f"{where}: head_dim is {head_dim}{origin}: only even numbers are supported, for rotary positions"
        )
    return head_dim


def _rope_theta(fields: Mapping[str, Any], where: str) -> float:
    bases = {}
    for field in ("rope_parameters", "rope_scaling"):
        rope = {} if fields.get(field) is None else fields[field]
        if not isinstance(rope, dict):
            raise ValueError(f"{where}: {field} is {_found(rope)}: only an object or null is supported")
        for key, only in {"rope_type": "default", "type": "default", "partial_rotary_factor": 1}.items():
            if rope.get(key, only) != only:
                raise ValueError(
                    f"{where}: {field}.{key} is {_found(rope[key])}: only {_found(only)} is supported, "
                    "rotary positions without scaling"
                )
        if "rope_theta" in rope:
            bases[f"{field}.rope_theta"] = _positive(rope, "rope_theta", 1e4, f"{where}: {field}")
    if "rope_theta" in fields or not bases:
        bases["rope_theta"] = _positive(fields, "rope_theta", 1e4, where)
    if len(set(bases.values())) > 1:
        values = " and ".join(f"{field} is {_found(base)}" for field, base in bases.items())
        raise ValueError(f"{where}: {values}: give one value")
    return next(iter(bases.values()))


def _positive(fields: Mapping[str, Any], field: str, default: float, where: str) -> float:
    number = fields.get(field, default)
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 < number <= LARGEST:
        raise ValueError(f"{where}: {field} is {_found(number)}: only positive numbers are supported")
    return float(number)


def _flag(fields: Mapping[str, Any], field: str, where: str) -> bool:
    flag = fields.get(field, False)
    if not isinstance(flag, bool):
        raise ValueError(f"{where}: {field} is {_found(flag)}: only true and false are supported")
    return flag


def _bos_token(fields: Mapping[str, Any], vocab_size: int, where: str) -> int | None:
    token = fields.get("bos_token_id", 1)
    if token is None:
        return None
    if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocab_size:
        raise ValueError(
            f"{where}: bos_token_id is {_found(token)}: only null and integers from 0 to {vocab_size - 1} "
            "are supported"
        )
    return token


def _found(value: Any) -> str:
    """Return a value as the file has it, cut short."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
