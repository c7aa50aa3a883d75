"""Models by name or folder: those that come with the package, and any checkpoint folder of a Llama."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from speculative.model.cache import CachedLlama
from speculative.model.checkpoint import read_checkpoint
from speculative.model.llama import Llama
from speculative.model.tokenizer import read_tokenizer

__all__ = ["load"]


def load(
    model: str | Path, *, sessions: int = 1, context_limit: int | None = None, sliding: bool = False
) -> CachedLlama:
    """Load a Llama that comes with the package, or from a checkpoint folder.

    Parameters
    ----------
    model : str or Path
        "shakespeare", the target; "shakespeare-draft", "shakespeare-draft-kl" and "shakespeare-draft-tv", its
        drafts; or the path of a folder with config.json, *.safetensors and tokenizer.json.
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
    llama = Llama.of(*read_checkpoint(folder))
    return CachedLlama(
        llama,
        tokenizer=read_tokenizer(folder),
        sessions=sessions,
        context_limit=context_limit,
        sliding=sliding,
    )


def folder_of(model: str | Path) -> Path:
    """Return the folder of a bundled model, or the folder given."""
    weights = Path(str(resources.files("speculative.model").joinpath("weights")))
    bundled = sorted(each.name for each in weights.glob("*/"))
    if model in bundled:
        return weights / model
    if not Path(model).is_dir():
        raise ValueError(
            f"{str(model)!r} is neither a bundled model nor a folder: give {', '.join(bundled)}, or the path "
            "of a checkpoint folder"
        )
    return Path(model)
