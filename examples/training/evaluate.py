"""How good a model is: its bits per character, and how often its drafts are kept by the target.

A text is scored in windows of 256 characters that begin 128 apart; the last 128 rows of each count, so that
every row has at least 128 characters before it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

STRIDE = 128


def sliding(text: np.ndarray, length: int = 256) -> np.ndarray:
    """Windows, shape [N, length + 1]: the tokens of a context and the one after it."""
    return np.lib.stride_tricks.sliding_window_view(text, length + 1)[::STRIDE]


@torch.no_grad()
def in_batches(function: Callable[[Tensor], Tensor], windows: np.ndarray, size: int = 64) -> np.ndarray:
    """What a function of windows gives for all of them."""
    parts = []
    for start in range(0, len(windows), size):
        parts.append(function(torch.from_numpy(windows[start : start + size]).long()).numpy())
    return np.concatenate(parts)


def figures(rows: np.ndarray, target_rows: np.ndarray, next_tokens: np.ndarray) -> dict[str, float]:
    """Figures of a drafter, from rows of shape [..., V] and the tokens that came, shape [...].

    `bits` are bits per character. `alpha` is the mean of sum(min(p, q)), the probability that a token drawn
    from the drafter's row is accepted, at temperatures 1 and 0.7; `argmax` how often the two agree on the
    most probable token.
    """
    p, q = target_rows.astype(np.float32), rows.astype(np.float32)
    of_next = np.take_along_axis(q, next_tokens[..., None].astype(np.int64), -1)
    return {
        "bits": float(-np.log2(of_next).mean()),
        "alpha": alpha(p, q),
        "alpha at 0.7": alpha(p ** (1 / 0.7), q ** (1 / 0.7)),
        "argmax": float((p.argmax(-1) == q.argmax(-1)).mean()),
    }


def alpha(p: np.ndarray, q: np.ndarray) -> float:
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    return float(np.minimum(p, q).sum(-1).mean())
