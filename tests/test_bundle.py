"""Models by name and from folders, and contexts beyond a model's limit."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plain_llama import config_of, llama_of, weights_of
from speculative import draft, generate, sample, table
from speculative.model import (
    BatchedLlama,
    CachedLlama,
    EagleHead,
    MedusaHeads,
    load,
    load_eagle,
    load_medusa,
    load_ngram,
    write_checkpoint,
    write_tokenizer,
)
from speculative.model.bundle import fingerprint
from speculative.model.tensors import write_tensors
from test_heads import eagle_weights, medusa_weights

V, LIMIT = 7, 6


@pytest.fixture
def folder(tmp_path):
    config = config_of()
    write_checkpoint(tmp_path, config, weights_of(config), dtype="float32")
    write_tokenizer(tmp_path, tuple("abcdefg"))
    return tmp_path


def write_heads(folder, fields, weights):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(fields))
    write_tensors(folder / "model.safetensors", weights, "float32")
    return folder


def test_a_folder_is_loaded_with_its_tokenizer(folder):
    model, (llama, plain) = load(folder), llama_of()
    np.testing.assert_array_equal(model.llama.embedding, llama.embedding)
    assert model.tokenizer.encode("cab") == (2, 0, 1)
    assert model.oracle.vocabulary == tuple("abcdefg")
    logits = plain.row((2, 0, 1))
    row = np.exp(logits - logits.max())
    np.testing.assert_allclose(model.oracle((2, 0, 1)), row / row.sum(), atol=1e-5)


def test_models_are_shown_in_a_line(folder):
    target = load(folder)
    models = (
        (target, "CachedLlama(Oracle(vocab_size=7, context_limit="),
        (target.llama, "Llama(config=LlamaConfig(vocab_size=7, "),
        (MedusaHeads.of(target, medusa_weights()), "MedusaHeads(target=CachedLlama(Oracle("),
        (EagleHead(target, eagle_weights()), "EagleHead(CachedLlama(Oracle("),
        (BatchedLlama(target.llama, 64), "BatchedLlama(64 slots of Oracle("),
    )
    for model, begins in models:
        assert repr(model).startswith(begins)
        assert len(repr(model)) < 320
    for ngram in ("shakespeare-ngram", "shakespeare-neural"):
        assert len(repr(load_ngram(ngram).row)) < 800


def test_options_are_handed_on(folder):
    model = load(str(folder), sessions=2, context_limit=5)
    assert model.oracle.context_limit == 5
    assert load(folder, context_limit=5, sliding=True).oracle.context_limit is None
    model.oracle((1, 2))
    model.oracle((3, 4))
    once = load(folder, context_limit=5)
    once.oracle((1, 2))
    once.oracle((3, 4))
    assert model.nbytes == 2 * once.nbytes


def test_what_is_neither_a_name_nor_a_folder():
    for name in ("shakspere", "", "x" * 5000):
        with pytest.raises(ValueError, match=f"^'{name}' is neither a bundled model nor a folder: give "):
            load(name)


def test_rotations_are_made_for_the_contexts_that_are_allowed(folder):
    assert len(load(folder, context_limit=5).llama.rotation) == 6  # the model's first token is before them
    assert len(load(folder).llama.rotation) == config_of().max_position_embeddings
    with pytest.raises(ValueError, match="context_limit is 10000: the model has positions for contexts of"):
        load(folder, context_limit=10_000)


def test_heads_are_loaded_for_a_target(folder, tmp_path):
    target = load(folder)
    medusa = load_medusa(
        target, write_heads(tmp_path / "m", {"model_type": "medusa", "num_heads": 3}, medusa_weights())
    )
    assert len(medusa((1, 2))) == 3
    fields = {"model_type": "eagle", "intermediate_size": 20}
    eagle = load_eagle(target, write_heads(tmp_path / "e", fields, eagle_weights()))
    assert eagle((1, 2))((3,)).shape == (V,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "llama"}, "model_type is 'llama': only 'medusa' is supported here"),
        ([1], "model_type is None: only 'medusa' is supported here"),
        ({"model_type": "medusa"}, "has no num_heads: give an integer, 1 or more"),
        ({"model_type": "medusa", "num_heads": True}, "num_heads is true: only integers from 1 to 1000"),
        ({"model_type": "medusa", "num_heads": 0}, "num_heads is 0: only integers from 1 to 1000"),
        (
            {"model_type": "medusa", "num_heads": 10**9},
            "num_heads is 1000000000: only integers from 1 to 1000",
        ),
        ({"model_type": "medusa", "num_heads": 4}, "heads.3.linear.weight"),
    ],
)
def test_heads_of_something_else(folder, tmp_path, fields, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_medusa(load(folder), write_heads(tmp_path / "m", fields, medusa_weights()))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("load_heads", "kind"), [(load_medusa, "medusa"), (load_eagle, "eagle")])
def test_heads_of_another_target(folder, tmp_path, load_heads, kind):
    target, weights = load(folder), {"medusa": medusa_weights, "eagle": eagle_weights}[kind]()
    fields = {"model_type": kind, "num_heads": 3, "intermediate_size": 20}
    mine = fingerprint(target.llama.embedding)
    load_heads(target, write_heads(tmp_path / "mine", {**fields, "target": mine}, weights))
    other = write_heads(tmp_path / "other", {**fields, "target": "0123456789abcdef"}, weights)
    with pytest.raises(ValueError, match=f"target is '0123456789abcdef', the .* one given, '{mine}': load "):
        load_heads(target, other)


def test_a_fingerprint_is_of_the_numbers():
    """Not of how they lie in memory, or in how many bytes each was stored."""
    embedding = np.arange(6, dtype=np.float32).reshape(2, 3)
    same = [np.asfortranarray(embedding), embedding.astype(np.float16), embedding.astype(">f4")]
    assert {fingerprint(each) for each in same} == {fingerprint(embedding)}
    assert fingerprint(embedding + 1) != fingerprint(embedding)


def test_the_page_on_heads_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[1] / "docs/how-to/draft-with-heads.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in re.findall(r"```\{code-cell\}\n(?::tags[^\n]*\n)?(.*?)```", page, re.DOTALL):
        exec(cell, names)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed[:4]] == ["medusa", "eagle"] * 2
    assert printed[4] == "True"
    assert "heads.0.linear.weight has shape (32, 32)" in printed[5]


def window(length):
    """Where the model begins to read a context of this length: half a limit further on, again and again."""
    start = 0
    while length - start > LIMIT:
        start += LIMIT // 2
    return start


@given(st.lists(st.integers(0, V - 1), max_size=20).map(tuple), st.data())
@settings(max_examples=25)
def test_a_sliding_window_reads_the_end_of_long_contexts(context, data):
    llama, plain = llama_of()
    model = CachedLlama(llama, context_limit=LIMIT, sliding=True)
    size = data.draw(st.integers(0, 5))
    tokens = data.draw(st.lists(st.integers(0, V - 1), min_size=size, max_size=size))
    parents = [data.draw(st.integers(0, i)) for i in range(size)]
    paths = [context]
    for token, parent in zip(tokens, parents, strict=True):
        paths.append((*paths[parent], token))
    rows = model.oracle.score_tree(context, tokens, parents)
    for row, path in zip(rows, paths, strict=True):
        logits = plain.row(path[window(len(path)) :])
        expected = np.exp(logits - logits.max())
        np.testing.assert_allclose(row, expected / expected.sum(), atol=1e-5)


def test_a_long_text_costs_little_more_than_a_short_one():
    """The cache is made anew when the window moves, and only then."""
    llama, _ = llama_of(max_position_embeddings=64)
    model = CachedLlama(llama, context_limit=32, sliding=True)
    rows = []
    compute = llama.__class__.of.__globals__["norm"]
    drafter = draft.model(table({(): [1 / V] * V}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            llama.__class__.of.__globals__,
            "norm",
            lambda x, config: rows.append(len(x)) or compute(x, config),
        )
        generation = sample(
            generate, model.oracle, drafter, (), max_new_tokens=160, num_draft_tokens=2, rng=0
        )
    norms = 2 * llama.config.num_hidden_layers + 1
    moves = -(-(160 - 32) // 16)  # of 16 tokens, read up to three times where a round goes over the edge
    assert sum(rows) / norms <= 3 * len(generation.rounds) + moves * 3 * 16
