"""Drafts: trained on the text alone, or distilled from the target's rows on KL or on TV.

One small Llama is trained in all three ways, on the same windows in the same order for as many steps, so that
the three differ in the loss only. A neural n-gram is distilled on KL for longer.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from evaluate import STRIDE, figures, in_batches
from fit import fit
from llama import Llama, Size
from neural import Neural
from torch import Tensor
from torch.nn import functional

SIZE = Size(width=128, layers=1, heads=4, inner=256)


def kl(target_rows: Tensor, logits: Tensor) -> Tensor:
    """KL(target || draft), up to the target's entropy."""
    return -(target_rows * logits.log_softmax(-1)).sum(-1).mean()


def tv(target_rows: Tensor, logits: Tensor) -> Tensor:
    """The total variation distance: the probability that a drafted token is rejected."""
    return 1 - torch.minimum(target_rows, logits.softmax(-1)).sum(-1).mean()


LOSSES = {"draft": kl, "draft-kl": kl, "draft-tv": tv, "neural": kl}
"""The first on the text: the token that came has the whole row."""


def untrained(name: str) -> Llama | Neural:
    torch.manual_seed(0)
    return Neural() if name == "neural" else Llama(SIZE)


def train(name: str, teacher: tuple[np.ndarray, ...], folder: Path, *, steps: int) -> Llama | Neural:
    """Train one of the drafts on the teacher's windows and rows."""
    windows, rows, _ = teacher
    model = untrained(name)

    def draw(rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        chosen = np.sort(rng.choice(len(windows), 32, replace=False))
        tokens = torch.from_numpy(windows[chosen]).long()
        if name == "draft":
            return tokens, functional.one_hot(tokens[:, 1:], SIZE.vocab).float()
        return tokens, torch.from_numpy(rows[chosen]).float()

    def loss(tokens: Tensor, target_rows: Tensor) -> Tensor:
        return LOSSES[name](target_rows, model(tokens[:, :-1]).float())

    fit(model, loss, draw, folder, steps=steps, rate=0.02)
    return model


def measure(model: Llama | Neural, teacher: tuple[np.ndarray, ...]) -> dict[str, float]:
    """`evaluate.figures` on the windows of a text held out."""
    windows, target_rows, _ = teacher
    rows = in_batches(lambda tokens: model(tokens[:, :-1])[:, -STRIDE:].softmax(-1), windows)
    return figures(rows, target_rows[:, -STRIDE:], windows[:, -STRIDE:])
