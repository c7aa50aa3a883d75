"""The curves of a training run, drawn from its log: `python curve.py LOG.jsonl PICTURE.png`."""

from __future__ import annotations

import json
import sys
from math import log
from pathlib import Path

import matplotlib.pyplot as plt


def draw(log_file: Path, picture: Path) -> None:
    """Bits per character of the batches, and of the texts held out, by step."""
    entries = [json.loads(line) for line in log_file.read_text().splitlines()]
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    steps = [entry["step"] for entry in entries]
    axes.plot(steps, [entry["loss"] / log(2) for entry in entries], color="0.75", label="batch of the text")
    for name in ("plays", "novel"):
        scored = [entry for entry in entries if name in entry]
        bits = [entry[name] for entry in scored]
        axes.plot([entry["step"] for entry in scored], bits, marker=".", label=f"{name} held out")
        axes.annotate(
            f"{bits[-1]:.3f}",
            (scored[-1]["step"], bits[-1]),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    falls = next((entry["step"] for entry in entries if entry["step"] > 100 and entry["rate"] < 1), None)
    if falls:
        axes.axvline(falls, color="0.5", linestyle=":", label="the rate begins to fall")
    axes.set(xlabel="step (8192 characters each)", ylabel="bits per character", ylim=(1.3, 3))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
