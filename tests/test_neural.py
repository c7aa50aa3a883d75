"""A neural n-gram, against its formula written out in doubles; and its folder."""

import json
import pickle

import numpy as np
import pytest

from speculative.model import load_ngram
from speculative.model.neural import NeuralNgram, neural_shapes
from speculative.model.tensors import write_tensors

V, PLACES, EMBEDDING, HIDDEN, LAYERS = 5, 3, 4, 6, 11
CONFIG = {
    "model_type": "neural_ngram",
    "context_length": PLACES,
    "embedding_size": EMBEDDING,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "vocabulary": list("abcde"),
}


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    shapes = neural_shapes(V, PLACES, EMBEDDING, HIDDEN, LAYERS)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def folder(tmp_path, weights):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="ascii")
    write_tensors(tmp_path / "model.safetensors", weights, "float32")
    return tmp_path


def silu(x):
    return x / (1 + np.exp(-x))


def by_formula(weights, context):
    """Logits, place by place and layer by layer."""
    weights = {name: each.astype(np.float64) for name, each in weights.items()}
    seen = ([V] * PLACES + list(context))[-PLACES:]
    x = weights["first.bias"]
    for place, token in enumerate(seen):
        matrix = weights["first.weight"][:, place * EMBEDDING : (place + 1) * EMBEDDING]
        x = x + matrix @ weights["embed_tokens.weight"][token]
    x = silu(x)
    for i in range(LAYERS):
        x = x + silu(weights[f"layers.{i}.weight"] @ (x / np.sqrt(np.mean(x**2) + 1e-5)))
    return weights["lm_head.weight"] @ x + weights["lm_head.bias"]


@pytest.mark.parametrize("context", [(), (0,), (4, 1), (1, 4), (2, 0, 3), (1, 1, 2, 0, 3), (3, 1, 2, 0, 3)])
def test_logits_are_those_of_the_formula(weights, context):
    logits = NeuralNgram.of(weights)(context)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, by_formula(weights, context), rtol=1e-4, atol=1e-4)


def test_it_sees_so_many_tokens_and_each_where_it_stands(weights):
    """The reference and the module could share a mistake: these are what the weights mean."""
    model = NeuralNgram.of(weights)
    last = (2, 0, 3)
    np.testing.assert_array_equal(model((4, 4, *last)), model(last))
    for place in range(PLACES):
        other = (*last[:place], 1, *last[place + 1 :])
        assert abs(model(other) - model(last)).max() > 0.01
    assert abs(model((0, 2, 3)) - model(last)).max() > 0.01


def test_a_folder_is_loaded_as_an_oracle(folder, weights):
    oracle = load_ngram(folder)
    logits = by_formula(weights, (2, 0))
    row = np.exp(logits - logits.max())
    np.testing.assert_allclose(oracle((2, 0)), row / row.sum(), atol=1e-5)
    assert oracle.vocabulary == tuple("abcde")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(oracle))((2, 0)), oracle((2, 0)))


@pytest.mark.parametrize("name", ["context_length", "embedding_size", "hidden_size", "num_hidden_layers"])
@pytest.mark.parametrize("size", [None, 0, 2.0, True])
def test_sizes_that_are_none(folder, name, size):
    (folder / "config.json").write_text(json.dumps({**CONFIG, name: size}), encoding="ascii")
    with pytest.raises(ValueError, match=f"config.json: {name} is {json.dumps(size)}: only integers from 1 "):
        load_ngram(folder)


def test_more_layers_than_there_are_is_said_at_once(folder):
    (folder / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 10**9}), encoding="ascii")
    with pytest.raises(ValueError, match="num_hidden_layers is 1000000000: only integers from 1 to 1000 are"):
        load_ngram(folder)


def test_no_vocabulary(folder):
    (folder / "config.json").write_text(json.dumps({**CONFIG, "vocabulary": []}), encoding="ascii")
    with pytest.raises(ValueError, match="vocabulary is no list of strings: give one string a token"):
        load_ngram(folder)


def test_weights_of_another_size(folder):
    (folder / "config.json").write_text(json.dumps({**CONFIG, "hidden_size": 7}), encoding="ascii")
    with pytest.raises(ValueError, match=r"tensor first.bias has shape \(6,\): the config calls for \(7,\)"):
        load_ngram(folder)
