"""Heads on the target's states: four Medusa heads, and an EAGLE head. The target stays as it is.

The state h[t] is the output of the target's final norm after tokens x[0..t]: what the target's output matrix
turns into the logits of x[t+1].

Medusa head i = 1, 2, 3, 4 gives the logits of x[t+1+i] from h[t] alone (Cai et al. 2024, section 2.1):

    lm_head_i (h + silu(linear_i h))

The EAGLE head (Li et al. 2024, section 4) predicts states. Entry t of its sequence holds h[t] and the token
after it, at rotary position t; one Llama layer looks at the entries up to t:

    s[t] = norm(layer(fc [embed(x[t+1]); h[t]]))        logits of x[t+2] = the target's lm_head s[t]

To draft further, s[t] stands in for h[t+1] in entry t + 1, with the token drafted. Training does so too, four
entries deep (the training-time test of Li et al. 2025, EAGLE-3, section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from evaluate import STRIDE
from fit import fit
from llama import Layer, Linear, Llama, Norm, Size, rotate, rotations
from torch import Tensor, nn
from torch.nn import functional

MEDUSA_HEADS, EAGLE_DEPTH = 4, 4
EAGLE_INNER = 256


class MedusaHead(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.linear, self.lm_head = Linear(size.width, size.width, zero=True), Linear(size.width, size.vocab)

    def forward(self, states: Tensor) -> Tensor:
        return self.lm_head(states + functional.silu(self.linear(states)))


class Medusa(nn.Module):
    def __init__(self, target: Llama) -> None:
        super().__init__()
        self.heads = nn.ModuleList(MedusaHead(target.size) for _ in range(MEDUSA_HEADS))
        for head in self.heads:
            head.lm_head.weight.data.copy_(target.lm_head.weight)

    def forward(self, states: Tensor, _tokens: Tensor) -> Iterator[tuple[int, Tensor]]:
        """For each head, how many positions on its logits are the target's, and the logits, [B, T, V]."""
        for ahead, head in enumerate(self.heads, 1):
            yield ahead, head(states)


class Eagle(nn.Module):
    def __init__(self, target: Llama, inner: int = EAGLE_INNER) -> None:
        super().__init__()
        size = self.size = Size(target.size.width, 1, target.size.heads, inner)
        self.fc, self.layers = Linear(2 * size.width, size.width), nn.ModuleList([Layer(size)])
        self.norm = Norm(size)
        cos, sin = rotations(size)
        fixed = {"embed": target.model.embed_tokens.weight, "lm_head": target.lm_head.weight}
        for name, value in {"cos": cos, "sin": sin, **fixed}.items():
            self.register_buffer(name, value.detach(), persistent=False)

    def forward(self, states: Tensor, tokens: Tensor) -> Iterator[tuple[int, Tensor]]:
        """For each depth, 1 (the logits at t are the target's at t + 1), and the logits, [B, T, V].

        States have shape [B, T, width], tokens [B, T + 1]. At depth d the first d - 1 entries mean nothing.
        """
        embedded, keys, values = functional.embedding(tokens[:, 1:], self.embed), [], []
        for _ in range(EAGLE_DEPTH):
            x = self.fc(torch.cat([embedded, states], -1))
            x = x + self.attend(self.layers[0].input_layernorm(x), keys, values)
            x = self.norm(x + self.layers[0].mlp(self.layers[0].post_attention_layernorm(x)))
            yield 1, functional.linear(x, self.lm_head)
            states = later(x, 1)

    def attend(self, x: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """Attention of entry t at depth d: to entries up to t - d + 1, and to its draft's d - 1 after them.

        Entry t - d + 1 is the draft's first, with a state of the target's; entry t - d + 1 + j was made at
        depth j + 1.
        """
        attention, (batch, length, width) = self.layers[0].self_attn, x.shape
        cos, sin = self.cos[:length], self.sin[:length]
        q = attention.q_proj(x).view(batch, length, -1, self.size.head_width).transpose(1, 2)
        q = rotate(q, cos, sin) * self.size.head_width**-0.5  # [B, heads, T, head_width]
        keys.append(rotate(attention.k_proj(x), cos, sin)), values.append(attention.v_proj(x))
        drafted = len(keys) - 1
        seen = torch.ones(length, length, dtype=torch.bool).tril(-drafted)
        scores = (q @ keys[0][:, None].transpose(2, 3)).float().masked_fill(~seen, -1e9)
        own = [later(keys[j], drafted - j)[:, None] for j in range(1, drafted + 1)]
        scores = torch.cat([scores, *((q * key).sum(-1, keepdim=True).float() for key in own)], -1)
        weights = scores.softmax(-1).to(x.dtype)
        mixed = weights[..., :length] @ values[0][:, None]
        for j in range(1, drafted + 1):
            mixed = mixed + weights[..., length + j - 1, None] * later(values[j], drafted - j)[:, None]
        return attention.o_proj(mixed.transpose(1, 2).reshape(batch, length, width))


def later(x: Tensor, by: int) -> Tensor:
    """Entries of shape [B, T, width] moved to later positions, zeros before them."""
    return functional.pad(x, (0, 0, by, 0))[:, : x.shape[1]]


def train(
    heads: Medusa | Eagle, teacher: tuple[np.ndarray, ...], folder: Path, steps: int, batch: int = 16
) -> None:
    """Train heads on KL(the target's row || theirs), on windows for which there are states."""
    windows, rows, states = teacher

    def draw(rng: np.random.Generator) -> tuple[Tensor, ...]:
        chosen = np.sort(rng.choice(len(states), batch, replace=False))
        return tuple(
            torch.from_numpy(each[chosen]).to(kind)
            for each, kind in ((states, torch.float32), (windows, torch.int64), (rows, torch.float32))
        )

    def loss(states: Tensor, tokens: Tensor, target_rows: Tensor) -> Tensor:
        total = 0.0
        for depth, (ahead, logits) in enumerate(heads(states, tokens)):
            guess = logits[:, depth:-ahead].float().log_softmax(-1)
            total = total - 0.8**depth * (target_rows[:, depth + ahead :] * guess).sum(-1).mean()
        return total

    fit(heads, loss, draw, folder, steps=steps, rate=0.02)


@torch.no_grad()
def measure(heads: Medusa | Eagle, teacher: tuple[np.ndarray, ...], batch: int = 64) -> dict[str, float]:
    """The mean of sum(min(p, q)) for each head, or each depth, on the windows of a text held out."""
    sums: dict[str, float] = {}
    for start in range(0, len(teacher[0]), batch):
        windows, rows, states = (torch.from_numpy(each[start : start + batch]) for each in teacher)
        target_rows = rows[:, -STRIDE:].float()
        for depth, (ahead, logits) in enumerate(heads(states.float(), windows.long()), 1):
            guess = logits[:, -STRIDE - ahead : -ahead].softmax(-1)
            kept = torch.minimum(guess, target_rows).sum(-1).mean(-1).sum().item()
            sums[f"alpha {depth}"] = sums.get(f"alpha {depth}", 0) + kept / len(teacher[0])
    return sums
