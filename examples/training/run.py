"""Everything, from the text to the checkpoints of the package: `python examples/training/run.py FOLDER`.

Each stage is seeded and leaves its result in the folder; run again, it goes on where it stopped. What was
learnt from the target lies in a folder that is named after the target's weights, so that another target
brings new drafts, heads and n-grams.
"""

from __future__ import annotations

import argparse
import json
import math
from hashlib import sha256
from pathlib import Path

import curve
import drafts
import export
import heads
import ngram
import numpy as np
import teacher
import text
import torch
from evaluate import STRIDE, figures, sliding
from fit import fit
from llama import Llama, Size
from torch import Tensor
from torch.nn import functional

from speculative.model import fit_ngram

TARGET = Size(width=256, layers=4, heads=4, inner=704)
STEPS = {"target": 7000, "drafts": 3000, "medusa": 1000, "eagle": 1500}
NGRAM_LONGEST, NGRAM_WEIGHT = 8, 0.5
NGRAM_BYTES = {"ngram": 3_000_000, "5gram": 600_000}
PLAYS = Path(text.__file__).parents[2] / "src" / "speculative" / "model" / "data" / "plays.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the text, the runs and the checkpoints go")
    parser.add_argument("--part", type=float, default=1, help="of the steps and the text: .01 to try it out")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder, steps = options.folder, {name: math.ceil(options.part * count) for name, count in STEPS.items()}

    if not (folder / "train.txt").exists():
        text.main(folder)
    train = text.tokens(folder / "train.txt")
    held_out = {"plays": text.tokens(PLAYS), "novel": text.tokens(folder / "novel.txt")[: 2 * 10**5]}
    if options.part < 1:
        train, held_out = (
            train[: int(options.part * len(train))],
            {k: v[:10_000] for k, v in held_out.items()},
        )

    target = train_target(train, held_out, folder / "target", steps["target"]).requires_grad_(False)
    curve.draw(folder / "target" / "log.jsonl", folder / "target" / "curve.png")
    weights = b"".join(each.numpy().tobytes() for each in target.state_dict().values())
    learnt = folder / sha256(weights).hexdigest()[:8]
    teacher.teach(target, train, held_out, learnt / "teacher")
    lessons = {name: teacher.load(learnt / "teacher" / name) for name in ("train", *held_out)}
    exams = {name: lessons[name] for name in held_out}

    results = Results(learnt / "figures.json")
    for name, (windows, rows, _) in exams.items():
        results.add("target", name, figures(rows[:, -STRIDE:], rows[:, -STRIDE:], windows[:, -STRIDE:]))
    models = {"": target}
    for name in drafts.LOSSES:
        model = drafts.train(name, lessons["train"], learnt / name, steps=steps["drafts"])
        models["-" + name] = model
        for exam, lesson in exams.items():
            results.add(name, exam, drafts.measure(model, lesson))
    torch.manual_seed(0)
    both = {"medusa": heads.Medusa(target), "eagle": heads.Eagle(target)}
    for name, each in both.items():
        heads.train(each, lessons["train"], learnt / name, steps=steps[name])
        for exam, lesson in exams.items():
            results.add(name, exam, heads.measure(each, lesson))
    tables = ngrams(train, lessons["train"], learnt)
    for name, tensors in tables.items():
        levels = ngram.decode(tensors, TARGET.vocab)
        for exam, (windows, rows, _) in exams.items():
            guess = ngram.look_up(levels, windows, windows.shape[1] - 1 - STRIDE)
            results.add(name, exam, figures(guess, rows[:, -STRIDE:], windows[:, -STRIDE:]))
    export.everything(models, both, tables, folder / "export")


class Results:
    """The figures of every model on every text: printed as they come, and kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.figures = path, {}

    def add(self, model: str, exam: str, figures: dict[str, float]) -> None:
        self.figures.setdefault(model, {})[exam] = figures
        self.path.write_text(json.dumps(self.figures, indent=2) + "\n")
        print(
            f"{model} on the {exam}:", ", ".join(f"{name} {x:.4f}" for name, x in figures.items()), flush=True
        )


def train_target(train: np.ndarray, held_out: dict[str, np.ndarray], folder: Path, steps: int) -> Llama:
    torch.manual_seed(0)
    model = Llama(TARGET)

    def draw(rng: np.random.Generator) -> tuple[Tensor]:
        starts = rng.integers(len(train) - 257, size=32)
        return (torch.from_numpy(train[starts[:, None] + np.arange(257)]).long(),)

    def loss(tokens: Tensor) -> Tensor:
        return functional.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())

    def validate() -> dict[str, float]:
        """Bits per character of the first windows of each text, from contexts of 0 to 255."""
        return {
            name: loss(torch.from_numpy(sliding(other)[:256:2]).long()).item() / math.log(2)
            for name, other in held_out.items()
        }

    fit(model, loss, draw, folder, steps=steps, rate=0.02, validate=validate)
    return model


def ngrams(
    train: np.ndarray, lesson: tuple[np.ndarray, ...], folder: Path
) -> dict[str, dict[str, np.ndarray]]:
    """Two n-grams as tensors: one distilled, and a Kneser-Ney 5-gram of the text in the same form."""
    tables = {}
    for name, limit in NGRAM_BYTES.items():
        path = folder / f"{name}.npz"
        if not path.exists():
            windows, rows, _ = lesson
            levels = ngram.fit(windows, rows, NGRAM_LONGEST, NGRAM_WEIGHT)
            if name == "5gram":
                oracle = fit_ngram(train, order=5, vocab_size=TARGET.vocab)
                levels = [ngram.with_rows(level, oracle, length) for length, level in enumerate(levels[:5])]
            np.savez(path, **ngram.encode_within(levels, limit))
        tables[name] = dict(np.load(path))
    return tables


if __name__ == "__main__":
    main()
