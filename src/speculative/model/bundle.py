"""Models by name or folder: those that come with the package, and any checkpoint folder of a Llama."""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from speculative._numbers import count
from speculative.model.blocks import Floats
from speculative.model.cache import CachedLlama
from speculative.model.checkpoint import read_checkpoint, weight_shapes
from speculative.model.config import MOST_LAYERS, read_count, read_json
from speculative.model.distilled import read_distilled
from speculative.model.eagle import EagleHead
from speculative.model.llama import Llama
from speculative.model.medusa import MedusaHeads
from speculative.model.neural import NeuralNgram, neural_shapes
from speculative.model.tensors import FILE, read_tensors
from speculative.model.tokenizer import read_tokenizer
from speculative.oracle import Oracle, from_logits

__all__ = ["load", "load_eagle", "load_medusa", "load_ngram"]

CONFIG = "config.json"
NEURAL_SIZES = "context_length", "embedding_size", "hidden_size", "num_hidden_layers"
MANY = "num_hidden_layers", "num_heads"  # there are tensors of each


def load(
    model: str | Path, *, sessions: int = 1, context_limit: int | None = None, sliding: bool = False
) -> CachedLlama:
    """Load a Llama that comes with the package, or from a checkpoint folder.

    Parameters
    ----------
    model : str or Path
        "shakespeare", the target; "shakespeare-draft", "shakespeare-draft-kl" and "shakespeare-draft-tv", its
        drafts; or the path of a folder with config.json, tokenizer.json and safetensors. A name goes before a
        folder of the same name, which is "./shakespeare", or a Path.
    sessions, context_limit, sliding
        As of `CachedLlama`.

    Returns
    -------
    CachedLlama
        Its `oracle` is the law of the next token, its `tokenizer` reads and writes text.

    Raises
    ------
    ValueError
        One line: for a name that is neither, and for a folder that cannot be read, see `read_checkpoint` and
        `read_tokenizer`.
    """
    folder = folder_of(model)
    config, weights = read_checkpoint(folder)
    if context_limit is not None:  # there is a rotation for each position
        needed = count("context_limit", context_limit) + (config.bos_token_id is not None)
        config = replace(config, max_position_embeddings=min(needed, config.max_position_embeddings))
    llama = Llama.of(config, weights)
    return CachedLlama(
        llama,
        tokenizer=read_tokenizer(folder),
        sessions=sessions,
        context_limit=context_limit,
        sliding=sliding,
    )


def load_medusa(target: CachedLlama, model: str | Path = "shakespeare-medusa") -> MedusaHeads:
    """Load Medusa heads for a target.

    Parameters
    ----------
    target : CachedLlama
        The model they were trained on.
    model : str or Path
        "shakespeare-medusa", or a folder with model.safetensors and a config.json that has the model_type
        "medusa", num_heads and, if the target shall be checked, its `fingerprint` as target.

    Returns
    -------
    MedusaHeads
        To be given to `draft.medusa`.

    Raises
    ------
    ValueError
        One line, for a folder that cannot be read, for heads of another width or vocabulary, and for those of
        another target.
    """
    folder, width, vocab_size = folder_of(model), target.llama.config.hidden_size, target.oracle.vocab_size
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(_size_of_heads(folder, "medusa", "num_heads", target)):
        shapes |= {
            f"heads.{i}.linear.weight": (width, width),
            f"heads.{i}.lm_head.weight": (vocab_size, width),
        }
    return MedusaHeads.of(target, read_tensors(folder, shapes))


def load_eagle(target: CachedLlama, model: str | Path = "shakespeare-eagle") -> EagleHead:
    """Load an EAGLE head for a target.

    Parameters
    ----------
    target : CachedLlama
        The model it was trained on.
    model : str or Path
        "shakespeare-eagle", or a folder with model.safetensors and a config.json that has the model_type
        "eagle", the intermediate_size of its layer and, if the target shall be checked, its `fingerprint` as
        target.

    Returns
    -------
    EagleHead
        To be given to `draft.eagle`.

    Raises
    ------
    ValueError
        One line, for a folder that cannot be read, for a head of another width, and for that of another
        target.
    """
    folder, config = folder_of(model), target.llama.config
    inner = _size_of_heads(folder, "eagle", "intermediate_size", target)
    layer = weight_shapes(replace(config, intermediate_size=inner, num_hidden_layers=1))
    before = "model.layers."
    shapes = {
        "fc.weight": (config.hidden_size, 2 * config.hidden_size),
        "norm.weight": (config.hidden_size,),
        **{
            f"layers.{name.removeprefix(before)}": shape
            for name, shape in layer.items()
            if name.startswith(before)
        },
    }
    return EagleHead(target, read_tensors(folder, shapes))


def load_ngram(model: str | Path = "shakespeare-ngram") -> Oracle:
    """Load an n-gram distilled from a target, or a neural one.

    Parameters
    ----------
    model : str or Path
        "shakespeare-ngram", "shakespeare-5gram" or "shakespeare-neural"; or a folder with model.safetensors
        and a config.json that has the vocabulary, a list of strings, and the model_type "ngram", or
        "neural_ngram" with context_length, the number of tokens it sees, embedding_size, hidden_size and
        num_hidden_layers, the layers after the first.

    Returns
    -------
    Oracle
        Its rows are float64. Those of an n-gram have no zeros and are made when first asked for; those of a
        neural one are computed each time.

    Raises
    ------
    ValueError
        One line, for a folder that cannot be read.
    """
    folder = folder_of(model)
    fields, where = _fields(folder, "ngram", "neural_ngram"), folder / CONFIG
    vocabulary = fields.get("vocabulary")
    if (
        not vocabulary
        or not isinstance(vocabulary, list)
        or not all(isinstance(each, str) for each in vocabulary)
    ):
        raise ValueError(f"{where}: vocabulary is no list of strings: give one string a token")
    if fields["model_type"] == "ngram":
        row = read_distilled(folder / FILE, len(vocabulary))
        return Oracle(row, len(vocabulary), vocabulary=tuple(vocabulary))
    sizes = (_size(fields, name, where) for name in NEURAL_SIZES)
    weights = read_tensors(folder, neural_shapes(len(vocabulary), *sizes))
    return from_logits(NeuralNgram.of(weights), len(vocabulary), vocabulary=tuple(vocabulary))


def _fields(folder: Path, *kinds: str) -> dict[str, Any]:
    """Return the config.json of what is no Llama."""
    fields = read_json(folder / CONFIG)
    found = fields.get("model_type") if isinstance(fields, dict) else None
    if found not in kinds:
        supported = " or ".join(map(repr, kinds))
        raise ValueError(f"{folder / CONFIG}: model_type is {found!r}: only {supported} is supported here")
    return dict(fields)


def _size(fields: dict[str, Any], name: str, where: Path) -> int:
    return read_count(fields, name, str(where), most=MOST_LAYERS if name in MANY else math.inf)


def _size_of_heads(folder: Path, kind: str, name: str, target: CachedLlama) -> int:
    """Return a size that the config.json of heads has, or raise where they are of another target."""
    fields, where = _fields(folder, kind), folder / CONFIG
    mine = fingerprint(target.llama.embedding)
    if fields.get("target", mine) != mine:
        raise ValueError(
            f"{where}: target is {fields['target']!r}, the fingerprint of another model than the one given, "
            f"{mine!r}: load the target that the heads were trained on"
        )
    return _size(fields, name, where)


def fingerprint(embedding: Floats) -> str:
    """Tell a target from others: 16 hexadecimal digits of the sha256 of its embedding, in float32."""
    return sha256(np.ascontiguousarray(embedding, dtype="<f4").data).hexdigest()[:16]


def folder_of(model: str | Path) -> Path:
    """Return the folder of a bundled model, or the folder given."""
    weights = Path(str(resources.files("speculative.model").joinpath("weights")))
    bundled = sorted(each.name for each in weights.glob("*/"))
    if model in bundled:
        return weights / model
    if not str(model) or not _is_folder(Path(model)):
        raise ValueError(
            f"{str(model)!r} is neither a bundled model nor a folder: give {', '.join(bundled)}, or the path "
            "of a checkpoint folder"
        )
    return Path(model)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long
        return False
