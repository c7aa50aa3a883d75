"""The Llama architecture written down plainly, in float64, without cache and blocks: what to compare with."""

import numpy as np

from speculative.model.checkpoint import weight_shapes
from speculative.model.config import LlamaConfig
from speculative.model.llama import Llama


def config_of(**sizes):
    """A tiny configuration, some of its sizes given."""
    usual = {
        "vocab_size": 7,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100.0,
        "tie_word_embeddings": False,
        "max_position_embeddings": 24,
        "bos_token_id": 3,
    }
    return LlamaConfig(**{**usual, **sizes})


def weights_of(config, seed=0):
    """Random weights of a size that lets every part of the model have its say; norms around 1."""
    rng = np.random.default_rng(seed)

    def weight(name, shape):
        if "norm" in name:
            return 1 + 0.3 * rng.normal(size=shape)
        return rng.normal(size=shape) * (1 if "embed" in name else shape[1] ** -0.5)

    return {name: weight(name, shape).astype(np.float32) for name, shape in weight_shapes(config).items()}


def llama_of(seed=0, **sizes):
    """A tiny random Llama, with the plain function of it from contexts to logits."""
    config = config_of(**sizes)
    weights = weights_of(config, seed)
    return Llama.of(config, weights), Plain(config, weights)


class Plain:
    """Logits and hidden states of whole texts."""

    def __init__(self, config, weights):
        self.config = config
        self.weights = {name: weight.astype(np.float64) for name, weight in weights.items()}
        self.first = () if config.bos_token_id is None else (config.bos_token_id,)
        self.known = {}

    def row(self, context):
        """The logits after a context, shape (V,)."""
        return self.logits(context)[-1]

    def logits(self, context):
        """The logits after every token that is read, the model's own first one included, shape (n, V)."""
        head = "model.embed_tokens" if self.config.tie_word_embeddings else "lm_head"
        return self.states(context) @ self.weights[f"{head}.weight"].T

    def states(self, context):
        """The hidden states after the last norm, shape (n, hidden_size)."""
        tokens = self.first + tuple(context)
        if tokens not in self.known:
            self.known[tokens] = self._states(tokens)
        return self.known[tokens]

    def _states(self, tokens):
        w, config = self.weights, self.config
        x = w["model.embed_tokens.weight"][list(tokens)]
        for i in range(config.num_hidden_layers):
            layer = f"model.layers.{i}."
            x = x + self._attention(layer, self._norm(x, f"{layer}input_layernorm"))
            y = self._norm(x, f"{layer}post_attention_layernorm")
            gate, up = (y @ w[f"{layer}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{layer}mlp.down_proj.weight"].T
        return self._norm(x, "model.norm")

    def _norm(self, x, name):
        mean_square = (x**2).mean(axis=-1, keepdims=True)
        return x / np.sqrt(mean_square + self.config.rms_norm_eps) * self.weights[f"{name}.weight"]

    def _attention(self, layer, x):
        config, n = self.config, len(x)
        queries, keys, values = (
            (x @ self.weights[f"{layer}self_attn.{name}_proj.weight"].T)
            .reshape(n, -1, config.head_dim)
            .transpose(1, 0, 2)  # [heads, n, head_dim]
            for name in "qkv"
        )
        group = config.num_attention_heads // config.num_key_value_heads
        keys, values = np.repeat(self._turn(keys), group, axis=0), np.repeat(values, group, axis=0)
        scores = self._turn(queries) @ keys.transpose(0, 2, 1) / np.sqrt(config.head_dim)
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = (shares @ values).transpose(1, 0, 2).reshape(n, -1)
        return mixed @ self.weights[f"{layer}self_attn.o_proj.weight"].T

    def _turn(self, x):
        """Rotary positions: numbers j and j + head_dim / 2 turn by position / theta ** (2j / head_dim)."""
        width = self.config.head_dim
        speed = self.config.rope_theta ** -(np.arange(width // 2) / (width // 2))
        angles = np.arange(x.shape[1])[:, None] * np.concatenate([speed, speed])
        low, high = x[..., : width // 2], x[..., width // 2 :]
        return x * np.cos(angles) + np.concatenate([-high, low], axis=-1) * np.sin(angles)
