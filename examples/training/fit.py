"""The training loop: seeded, resumable, with progress and a log that `curve.py` draws.

Matrices of layers are trained with Muon, the rest with AdamW, in bf16. The learning rate warms up, stays, and
falls to zero over the last part; `trunk.pt` is kept where it begins to fall, so that a longer run can go on
from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

WARMUP, FALL = 100, 0.72  # steps; part of all steps


def fit(
    module: nn.Module,
    loss: Callable[..., Tensor],
    draw: Callable[[np.random.Generator], tuple[Tensor, ...]],
    folder: Path,
    *,
    steps: int,
    rate: float,
    validate: Callable[[], dict[str, float]] = dict,
    seed: int = 0,
) -> None:
    """Minimise `loss(*draw(rng))`, the loss of one batch; go on where `folder` left off."""
    folder.mkdir(parents=True, exist_ok=True)
    optimizers = optimizers_of(module, rate)
    done, started = load(folder / "last.pt", module, optimizers), time.time()
    compiled = torch.compile(loss)
    first = done
    while done < steps:
        factor = min((done + 1) / WARMUP, 1, (steps - done) / (FALL * steps))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = factor * group["full_rate"]
        batch = draw(np.random.default_rng((seed, done)))
        with torch.autocast("cpu", torch.bfloat16):
            value = compiled(*batch)
        value.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        done += 1
        if done == int((1 - FALL) * steps):
            save(folder / "trunk.pt", module, optimizers, done)
        if done % 100 == 0 or done == steps:
            save(folder / "last.pt", module, optimizers, done)
            entry = {"step": done, "loss": value.item(), "rate": factor, "seconds": time.time() - started}
            with torch.no_grad():
                entry |= validate() if done % 500 == 0 or done == steps else {}
            with (folder / "log.jsonl").open("a") as log:
                log.write(json.dumps(entry) + "\n")
            left = (time.time() - started) / (done - first) * (steps - done)
            figures = ", ".join(f"{name} {figure:.4f}" for name, figure in entry.items() if name != "step")
            print(f"{folder.name} {done}/{steps}: {figures}; {left / 60:.0f} minutes left", flush=True)


def optimizers_of(module: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    matrices, others = [], []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            inner = parameter.ndim == 2 and "embed" not in name and "lm_head" not in name
            (matrices if inner else others).append(parameter)
    optimizers = [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.05),
        torch.optim.AdamW(others, lr=rate / 5, betas=(0.9, 0.95), weight_decay=0.01),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["full_rate"] = group["lr"]
    return optimizers


def save(path: Path, module: nn.Module, optimizers: list[torch.optim.Optimizer], done: int) -> None:
    state = {"module": module.state_dict(), "optimizers": [each.state_dict() for each in optimizers]}
    torch.save(state | {"done": done}, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def load(path: Path, module: nn.Module, optimizers: list[torch.optim.Optimizer]) -> int:
    """Go back to what was saved, and return how many steps were done."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    module.load_state_dict(state["module"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return state["done"]
