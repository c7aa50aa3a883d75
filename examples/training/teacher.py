"""What the target says, computed once: rows and states, from which drafts, heads and n-grams learn.

For each set of windows the folder gets `windows.npy`, shape [N, 257]; `rows.npy`, shape [N, 256, V], the law
after each token but the last; and `states.npy`, shape [M, 256, width], the states of the first M windows. A
state is the output of the final norm, which the output matrix is applied to. The windows of the training text
do not overlap and are shuffled; those of a text held out are `evaluate.sliding`.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from evaluate import sliding
from llama import Llama
from numpy.lib.format import open_memmap

WITH_STATES = 16384  # windows of the training text: 4 M characters, two gigabytes


def teach(target: Llama, text: np.ndarray, held_out: dict[str, np.ndarray], folder: Path) -> None:
    """Write the outputs for the training text and for the texts held out; what is there is kept."""
    windows = sliding(text)[::2]
    shuffled = np.random.default_rng(0).permutation(len(windows))
    record(target, windows[shuffled], WITH_STATES, folder / "train")
    for name, other in held_out.items():
        windows = sliding(other)
        record(target, windows, len(windows), folder / name)


@torch.no_grad()
def record(target: Llama, windows: np.ndarray, with_states: int, folder: Path, batch: int = 32) -> None:
    if folder.exists():
        return
    part = folder.with_suffix(".part")
    part.mkdir(parents=True, exist_ok=True)
    np.save(part / "windows.npy", windows)
    count, length, size = len(windows), windows.shape[1] - 1, target.size
    rows = open_memmap(part / "rows.npy", "w+", np.float16, (count, length, size.vocab))
    with_states = min(with_states, count)
    states = open_memmap(part / "states.npy", "w+", np.float16, (with_states, length, size.width))
    body, started = torch.compile(target.model), time.time()
    for start in range(0, count, batch):
        stop = min(start + batch, count)
        with torch.autocast("cpu", torch.bfloat16):
            state = body(torch.from_numpy(windows[start:stop, :-1].astype(np.int64)))
        rows[start:stop] = target.lm_head(state.float()).softmax(-1).numpy()
        states[start:stop] = state[: max(with_states - start, 0)].numpy()
        if start // batch % 50 == 0:
            left = (time.time() - started) / stop * (count - stop)
            print(f"teacher, {folder.name}: {stop}/{count} windows; {left / 60:.0f} minutes left", flush=True)
    rows.flush(), states.flush()
    part.rename(folder)


def load(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows, rows and states, left on the disk until they are used."""
    return tuple(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("windows", "rows", "states"))
