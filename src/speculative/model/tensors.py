"""Tensors by name in *.safetensors, one file or shards: read as float32, each checked; never a pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from speculative.model.config import read_json

__all__ = ["read_tensors", "write_tensors"]

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
Weights: TypeAlias = dict[str, NDArray[np.float32]]

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
STORED = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # a bfloat16 is the upper half of a float32
IGNORED = "rotary_emb.inv_freq"
PICKLES = (".bin", ".pt", ".pth")


class _Stored(NamedTuple):
    """A tensor in a file."""

    path: Path
    kind: str  # as safetensors names it: F32, I64, ...
    shape: tuple[int, ...]
    start: int  # its first byte in the file


def read_tensors(folder: str | Path, shapes: Shapes, *, optional: Shapes | None = None) -> Weights:
    """Read the tensors of a folder, which must be exactly the ones expected, widened to float32.

    Parameters
    ----------
    folder : str or Path
        With model.safetensors, or with model.safetensors.index.json and the shards that it names.
    shapes : dict of str to tuple of int
        The tensors that must be there.
    optional : dict of str to tuple of int, optional
        Tensors that may be there too.

    Returns
    -------
    dict of str to ndarray
        In the order of `shapes`, then of `optional`. Rotary frequencies (`rotary_emb.inv_freq`), which old
        checkpoints store, are left out: they follow from the sizes.

    Raises
    ------
    ValueError
        One line, with the file and the tensor: for a file that is missing, truncated or no safetensors, for
        an index that does not fit its files, and for a tensor that is missing, unknown, of another shape, not
        of float32, float16 or bfloat16, or holds NaN or an infinite number.
    """
    source, stored = _directory(Path(folder))
    expected = {**shapes, **(optional or {})}
    for name, tensor in stored.items():
        where = f"{tensor.path}: tensor {name}"
        if name.endswith(IGNORED):
            continue
        if name not in expected:
            raise ValueError(f"{where} is unknown: leave it out, the config calls for no such tensor")
        if tensor.shape != expected[name]:
            raise ValueError(f"{where} has shape {tensor.shape}: the config calls for {expected[name]}")
        if tensor.kind not in STORED:
            raise ValueError(f"{where} is {tensor.kind}: only {', '.join(STORED)} are supported")
    if missing := [name for name in shapes if name not in stored]:
        raise ValueError(f"{source}: tensor {missing[0]} is missing: the config calls for it")
    return {name: _read(name, stored[name]) for name in expected if name in stored}


def write_tensors(
    path: str | Path, tensors: Mapping[str, ArrayLike], dtype: Literal["float16", "float32"] = "float16"
) -> None:
    """Write tensors to one safetensors file.

    Parameters
    ----------
    path : str or Path
        The file, which is replaced.
    tensors : dict of str to array_like
        What to write. In float16 each number is rounded to the nearest.
    dtype : {"float16", "float32"}
        How numbers are stored.

    Raises
    ------
    ValueError
        For another dtype, and for a tensor with NaN or with a number that the dtype cannot hold; nothing is
        written then.
    """
    if dtype not in ("float16", "float32"):
        raise ValueError(f'dtype is {dtype!r}: give "float16" or "float32"')
    with np.errstate(over="ignore"):
        narrow = {name: np.asarray(tensor, dtype, order="C") for name, tensor in tensors.items()}
    for name, tensor in narrow.items():
        _check_finite(f"tensor {name} as {dtype}", tensor)
    save_file(narrow, path, metadata={"format": "pt"})  # transformers asks for the metadata


def _directory(folder: Path) -> tuple[Path, dict[str, _Stored]]:
    """Return the file that lists a folder's tensors, and where each of them is."""
    if (folder / FILE).is_file():
        return folder / FILE, _header(folder / FILE)
    if (folder / INDEX).is_file():
        return folder / INDEX, _shards(folder)
    pickles = sorted(path.name for path in folder.glob("*") if path.suffix in PICKLES)
    if pickles:
        raise ValueError(
            f"{folder} has no {FILE}, and {pickles[0]} is a pickle, which could run code when it is read: "
            "save the model as safetensors, as save_pretrained of transformers does"
        )
    raise ValueError(f"{folder} has neither {FILE} nor {INDEX}: give a folder with one of them")


def _shards(folder: Path) -> dict[str, _Stored]:
    index = read_json(folder / INDEX)
    file_of = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(file_of, dict) or not all(map(_is_file_name, file_of.values())):
        raise ValueError(
            f"{folder / INDEX} has no weight_map from tensors to files of the folder: give the one that "
            "save_pretrained writes"
        )
    stored: dict[str, _Stored] = {}
    for file in sorted(set(file_of.values())):
        if not (folder / file).is_file():
            raise ValueError(f"{folder / file} is missing, but {INDEX} names it: give all files")
        tensors = _header(folder / file)
        indexed = {name for name in file_of if file_of[name] == file}
        if strange := sorted(indexed ^ tensors.keys()):
            place = "not there" if strange[0] in indexed else "there"
            raise ValueError(
                f"{folder / file}: tensor {strange[0]} is {place}, {INDEX} says otherwise: give the index "
                "and the files of one model"
            )
        stored |= tensors
    return stored


def _is_file_name(file: Any) -> bool:
    return isinstance(file, str) and Path(file).name == file


def _header(path: Path) -> dict[str, _Stored]:
    try:
        with safe_open(path, framework="numpy"):
            pass  # opening checks the header, and that the tensors fill the file
    except SafetensorError as error:
        raise ValueError(f"{path} is no whole safetensors file ({error}): give a whole one") from None
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {
        name: _Stored(path, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
    }


def _read(name: str, stored: _Stored) -> NDArray[np.float32]:
    kind = np.dtype(STORED[stored.kind])
    flat = np.fromfile(stored.path, kind, math.prod(stored.shape), offset=stored.start)
    if stored.kind == "BF16":
        flat = (flat.astype("<u4") << 16).view("<f4")
    tensor = flat.astype(np.float32, copy=False).reshape(stored.shape)
    _check_finite(f"{stored.path}: tensor {name}", tensor)
    return tensor


def _check_finite(where: str, tensor: NDArray[Any]) -> None:
    finite = np.isfinite(tensor)
    if not finite.all():
        place = tuple(np.argwhere(~finite)[0].tolist())
        raise ValueError(f"{where} has {tensor[place]} at {place}: only finite weights are supported")
