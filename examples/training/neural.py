"""A neural n-gram in torch, for training only: the last tokens embedded, a layer, and one that adds to it.

`speculative.model.neural` has the formula. Trained on the target's rows as the drafts of `drafts.py` are.
"""

from __future__ import annotations

from llama import Linear
from torch import Tensor, nn
from torch.nn import functional

PLACES, EMBEDDED, HIDDEN, FURTHER, VOCAB = 16, 24, 384, 1, 65
EPS = 1e-5


class Neural(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB + 1, EMBEDDED)  # the last stands where there is no token yet
        self.first = nn.Linear(PLACES * EMBEDDED, HIDDEN)
        self.layers = nn.ModuleList(Linear(HIDDEN, HIDDEN, zero=True) for _ in range(FURTHER))
        self.lm_head = nn.Linear(HIDDEN, VOCAB)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens, shape [B, T] -> logits after each, shape [B, T, V]."""
        embedded = self.embed_tokens(functional.pad(tokens, (PLACES - 1, 0), value=VOCAB))
        x = embedded.unfold(1, PLACES, 1).transpose(2, 3).flatten(2)  # [B, T, PLACES * EMBEDDED]
        x = functional.silu(self.first(x))
        for layer in self.layers:
            x = x + functional.silu(layer(functional.rms_norm(x, (HIDDEN,), eps=EPS)))
        return self.lm_head(x)
