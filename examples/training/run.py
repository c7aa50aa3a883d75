"""Everything, from the text to the checkpoints of the package: `python examples/training/run.py FOLDER`.

Each stage is seeded and leaves its result in the folder; run again, it goes on where it stopped. What was
learnt from the target lies in a folder that is named after the target's weights, so that another target
brings new drafts, heads and n-grams. A checkpoint is written as soon as its model is trained, and a stage
that fails does not keep the later ones from their turn.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import traceback
from functools import cached_property, partial
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
STEPS = {"target": 7000, "drafts": 2500, "neural": 6000, "medusa": 4000, "eagle": 4000}
NGRAM_LONGEST, NGRAM_WEIGHT = 8, 0.5
NGRAM_BYTES = {"ngram": 2_450_000, "5gram": 600_000}
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
    export.llama(target, "", folder / "export")
    learner = Learner(target, train, held_out, folder, steps)
    stages = {
        "ngram": partial(learner.ngram, "ngram"),
        "neural": partial(learner.draft, "neural"),
        "draft-kl": partial(learner.draft, "draft-kl"),
        "eagle": partial(learner.heads, "eagle"),
        "medusa": partial(learner.heads, "medusa"),
        "5gram": partial(learner.ngram, "5gram"),
        "draft": partial(learner.draft, "draft"),
        "draft-tv": partial(learner.draft, "draft-tv"),
    }
    failed = []
    for name, learn in stages.items():
        try:
            learn()
        except Exception:
            traceback.print_exc()
            failed.append(name)
    export.check_size(folder / "export")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the other checkpoints are whole: run again for the rest")


class Learner:
    """What learns from one target: from its rows and states, which are computed once."""

    def __init__(
        self,
        target: Llama,
        train: np.ndarray,
        held_out: dict[str, np.ndarray],
        folder: Path,
        steps: dict[str, int],
    ) -> None:
        weights = b"".join(each.numpy().tobytes() for each in target.state_dict().values())
        self.target, self.train, self.steps = target, train, steps
        self.exported, self.folder = folder / "export", folder / sha256(weights).hexdigest()[:8]
        teacher.teach(target, train, held_out, self.folder / "teacher")
        self.lesson = teacher.load(self.folder / "teacher" / "train")
        self.exams = {name: teacher.load(self.folder / "teacher" / name) for name in held_out}
        for exam, (windows, rows, _) in self.exams.items():
            self.result("target", exam, figures(rows[:, -STRIDE:], rows[:, -STRIDE:], windows[:, -STRIDE:]))

    def draft(self, name: str) -> None:
        """One of the small Llamas, or the neural n-gram."""
        steps = self.steps["neural" if name == "neural" else "drafts"]
        model = drafts.train(name, self.lesson, self.folder / name, steps=steps)
        if name == "neural":
            export.neural(model, name, self.exported)
        else:
            export.llama(model, "-" + name, self.exported)
        for exam, lesson in self.exams.items():
            self.result(name, exam, drafts.measure(model, lesson))

    def heads(self, name: str) -> None:
        """Medusa heads or an EAGLE head."""
        torch.manual_seed(0)
        module = {"medusa": heads.Medusa, "eagle": heads.Eagle}[name](self.target)
        heads.train(module, self.lesson, self.folder / name, steps=self.steps[name])
        export.heads(module, name, self.exported)
        for exam, lesson in self.exams.items():
            self.result(name, exam, heads.measure(module, lesson))

    def ngram(self, name: str) -> None:
        """An n-gram distilled from the target, or a Kneser-Ney 5-gram of the text in the same form."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            levels = self.levels if name == "ngram" else self.kneser_ney()
            np.savez(path.with_suffix(".part.npz"), **ngram.encode_within(levels, NGRAM_BYTES[name]))
            path.with_suffix(".part.npz").replace(path)
        tensors = dict(np.load(path))
        export.ngram(tensors, name, self.exported)
        levels = ngram.decode(tensors, TARGET.vocab)
        for exam, (windows, rows, _) in self.exams.items():
            guess = ngram.look_up(levels, windows, windows.shape[1] - 1 - STRIDE)
            self.result(name, exam, figures(guess, rows[:, -STRIDE:], windows[:, -STRIDE:]))

    @cached_property
    def levels(self) -> list[ngram.Level]:
        windows, rows, _ = self.lesson
        return ngram.fit(windows, rows, NGRAM_LONGEST, NGRAM_WEIGHT)

    def kneser_ney(self) -> list[ngram.Level]:
        oracle = fit_ngram(self.train, order=5, vocab_size=TARGET.vocab)
        return [ngram.with_rows(level, oracle, length) for length, level in enumerate(self.levels[:5])]

    def result(self, model: str, exam: str, found: dict[str, float]) -> None:
        """Print the figures of a model on a text, and keep them in a file."""
        path = self.folder / "figures.json"
        kept = json.loads(path.read_text()) if path.exists() else {}
        kept.setdefault(model, {})[exam] = found
        path.write_text(json.dumps(kept, indent=2) + "\n")
        print(
            f"{model} on the {exam}:", ", ".join(f"{name} {x:.4f}" for name, x in found.items()), flush=True
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


if __name__ == "__main__":
    main()
