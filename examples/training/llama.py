"""The models in torch, for training only: a Llama, with the parameter names of a Hugging Face checkpoint.

`Llama` is the target and, narrower, the draft. What is trained on top of its hidden states is in `heads.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    """The size of a Llama. Names as in config.json, but shorter."""

    width: int
    layers: int
    heads: int
    inner: int
    kv_heads: int = 1
    vocab: int = 65
    context: int = 256
    rope_theta: float = 10000.0
    eps: float = 1e-5

    @property
    def head_width(self) -> int:
        return self.width // self.heads


class Norm(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size.width)), size.eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)


class Linear(nn.Module):
    """A matrix without bias, zero at first where its output is added to the residual stream."""

    def __init__(self, inputs: int, outputs: int, zero: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        if not zero:
            nn.init.normal_(self.weight, std=inputs**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight)


class Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size, kv_width = size, size.kv_heads * size.head_width
        self.q_proj, self.k_proj = Linear(size.width, size.width), Linear(size.width, kv_width)
        self.v_proj, self.o_proj = Linear(size.width, kv_width), Linear(size.width, size.width, zero=True)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        size, (batch, length, width) = self.size, x.shape
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        heads = functional.linear(x, weight).view(batch, length, -1, size.head_width).transpose(1, 2)
        q, k, v = heads.split([size.heads, size.kv_heads, size.kv_heads], 1)  # [B, heads, T, head_width]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = Linear(size.width, size.inner), Linear(size.width, size.inner)
        self.down_proj = Linear(size.inner, size.width, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = functional.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight])).chunk(2, -1)
        return self.down_proj(functional.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(size), Norm(size)
        self.self_attn, self.mlp = Attention(size), MLP(size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocab, size.width)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.norm = Norm(size)
        cos, sin = rotations(size)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        cos, sin = self.cos[: tokens.shape[1]].to(x.dtype), self.sin[: tokens.shape[1]].to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class Llama(nn.Module):
    """A Llama whose output matrix is not the embedding."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size, self.model = size, Body(size)
        self.lm_head = Linear(size.width, size.vocab, zero=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, shape [B, T, V], of tokens, shape [B, T]."""
        return self.lm_head(self.model(tokens))


def rotations(size: Size) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary positions, shape [context, head_width]."""
    half = torch.arange(0, size.head_width, 2) / size.head_width
    angles = torch.arange(size.context)[:, None] * size.rope_theta**-half
    return torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin
