"""The forward pass of a Llama, held against the architecture's formulas written down plainly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plain_llama import config_of, llama_of, weights_of
from speculative.model import blocks
from speculative.model.blocks import product
from speculative.model.llama import Llama, forward, norm, silu

TOKENS = (2, 5, 5, 0, 6, 1, 3, 4, 2)


def causal(queries, keys, values):
    """Attention of a whole text, as a cache would compute it: for (rows, heads, width) from position 0 on."""
    rows, heads, _ = queries.shape
    group = heads // keys.shape[1]
    attended = np.empty_like(queries)
    for head in range(heads):
        scores = queries[:, head] @ keys[:, head // group].T
        shares = np.where(np.tri(rows, dtype=bool), np.exp(scores), 0)
        attended[:, head] = shares / shares.sum(axis=1, keepdims=True) @ values[:, head // group]
    return attended.reshape(rows, -1)


def states_of(llama, tokens):
    tokens = np.array(tokens)
    return forward(llama, tokens, np.arange(len(tokens)), lambda layer, *qkv: causal(*qkv))


@given(
    st.sampled_from([(4, 1), (4, 2), (4, 4), (3, 1), (1, 1)]),
    st.sampled_from([2, 4, 6]),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([10.0, 1e4]),
)
@settings(max_examples=25)
def test_hidden_states_are_those_of_the_formulas(heads, head_dim, seed, tied, layers, theta):
    llama, plain = llama_of(
        seed,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        head_dim=head_dim,
        tie_word_embeddings=tied,
        num_hidden_layers=layers,
        rope_theta=theta,
        bos_token_id=None,
    )
    states = states_of(llama, TOKENS)
    assert states.dtype == np.float32
    np.testing.assert_allclose(states, plain.states(TOKENS), atol=1e-5)


@pytest.mark.parametrize("computed", [{}, {1: 2, 2: 2, 3: 4}, {1: 4, 2: 4, 3: 4}])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_there_are_as_many_states_as_tokens_however_many_are_computed(monkeypatch, rows, computed):
    monkeypatch.setattr(blocks, "computed_as", lambda: computed)
    llama, plain = llama_of(bos_token_id=None)
    states = states_of(llama, TOKENS[:rows])
    assert len(states) == rows
    np.testing.assert_allclose(states, plain.states(TOKENS[:rows]), atol=1e-5)


def test_rows_beyond_one_block_and_a_wide_vocabulary():
    """Widths that fill several blocks, none of them to the end."""
    llama, plain = llama_of(vocab_size=150, hidden_size=72, intermediate_size=100, bos_token_id=None)
    tokens = (149, 0, 77, 3)
    logits = product(states_of(llama, tokens), llama.head)[:, :150]
    np.testing.assert_allclose(logits, plain.logits(tokens), atol=2e-5)


@pytest.mark.parametrize(
    "changed",
    [{"rope_theta": 50.0}, {"rms_norm_eps": 0.01}, {"num_key_value_heads": 1}],
    ids=lambda changed: next(iter(changed)),
)
def test_every_number_of_the_configuration_matters(changed):
    """Negative control: the comparison sees each of them."""
    llama, _ = llama_of(bos_token_id=None)
    other, plain = llama_of(bos_token_id=None, **changed)
    assert abs(states_of(other, TOKENS) - plain.states(TOKENS)).max() < 1e-5
    assert abs(states_of(llama, TOKENS) - plain.states(TOKENS)).max() > 1e-3


@pytest.mark.parametrize("name", sorted(weights_of(config_of())))
def test_every_weight_matters(name):
    """Negative control: a weight that is left out, or mixed up, is seen."""
    config = config_of(bos_token_id=None)
    weights = weights_of(config)
    right = states_of(Llama.of(config, weights), TOKENS)
    other = Llama.of(config, {**weights, name: 1.01 * weights[name][::-1]})
    logits = product(right, other.head) - product(right, Llama.of(config, weights).head)
    assert (
        abs(logits).max() > 1e-3
        if name == "lm_head.weight"
        else abs(states_of(other, TOKENS) - right).max() > 1e-3
    )


def test_weights_are_copied_and_left_as_they_are():
    config = config_of(tie_word_embeddings=True, bos_token_id=None)
    weights = weights_of(config)
    before = {name: weight.copy() for name, weight in weights.items()}
    llama = Llama.of(config, weights)
    assert all((weights[name] == before[name]).all() for name in weights)
    states = states_of(llama, TOKENS)
    for name in weights:
        if name != "model.embed_tokens.weight":
            weights[name][:] = 0
    assert (states_of(llama, TOKENS) == states).all()


def test_half_precision_weights_are_computed_in_float32():
    config = config_of(bos_token_id=None)
    halves = {name: weight.astype(np.float16) for name, weight in weights_of(config).items()}
    same = {name: weight.astype(np.float32) for name, weight in halves.items()}
    states = states_of(Llama.of(config, halves), TOKENS)
    assert states.dtype == np.float32
    assert (states == states_of(Llama.of(config, same), TOKENS)).all()


def test_the_norm_and_the_activation_by_hand():
    config = replace(config_of(), hidden_size=4, rms_norm_eps=0.75)
    rows = np.array([[1, 2, 4, 0.0], [0, 0, 0, 0]], dtype=np.float32)  # 1 + 4 + 16 + 4 * .75 = 24
    np.testing.assert_allclose(norm(rows, config), rows / np.sqrt(24), rtol=1e-6)
    numbers = np.array([0, 1, -1, -200, 200], dtype=np.float32)  # exp(200) is beyond float32
    np.testing.assert_allclose(silu(numbers / 2), [0, 0.7310586, -0.26894143, 0, 200], rtol=1e-6)
