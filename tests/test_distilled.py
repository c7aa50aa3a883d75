"""A distilled n-gram: its file by hand, against the description, and what is no such file."""

import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file

from speculative.model import distilled as module
from speculative.model import load_ngram
from speculative.model.distilled import read_distilled

V = 3
HAND = {  # contexts: (), (0), (2), (1, 0), (2, 0), (0, 2): each one's children in ascending order
    "children": [2, 2, 1, 0, 0, 0],
    "tokens": [0, 0, 2, 1, 2, 0],
    "entries": [3, 1, 0, 2, 1, 1],
    "entry_tokens": [0, 1, 2, 1, 0, 2, 2, 1],
    "entry_roots": [180, 151, 99, 204, 102, 51, 153, 255],
}


def square(root):
    return (root / 255) ** 2


EMPTY = np.array([square(180), square(151), square(99)])
EMPTY = EMPTY / EMPTY.sum()
AFTER_0 = np.array([0.36 * EMPTY[0] / (EMPTY[0] + EMPTY[2]), 0.64, 0.36 * EMPTY[2] / (EMPTY[0] + EMPTY[2])])
AFTER_10 = np.array([0.16, 1 - 0.16 - 0.04, 0.04])
AFTER_20 = np.array([*(0.64 * AFTER_0[:2] / AFTER_0[:2].sum()), 0.36])


def write(path, **changed):
    tensors = {name: np.array(values, dtype=np.uint8) for name, values in {**HAND, **changed}.items()}
    save_file(tensors, path)
    return path


@pytest.mark.parametrize(
    ("context", "row"),
    [
        ((), EMPTY),
        ((1,), EMPTY),
        ((0,), AFTER_0),
        ((0, 0), AFTER_0),
        ((2,), EMPTY),  # a context without entries: kept for those that extend it
        ((1, 0), AFTER_10),
        ((2, 0), AFTER_20),
        ((0, 1, 2, 0), AFTER_20),
    ],
)
def test_rows_by_hand(tmp_path, context, row):
    ngram = read_distilled(write(tmp_path / "file"), V)
    for _ in range(2):  # made, and kept
        np.testing.assert_allclose(ngram(context), row, atol=1e-15)
    assert not ngram(context).flags.writeable


def test_where_the_written_tokens_leave_nothing(tmp_path):
    """The others keep a little: no probability is zero."""
    row = read_distilled(write(tmp_path / "file"), V)((0, 2))
    assert row.min() > 1e-5
    np.testing.assert_allclose(row[0] / row[2], EMPTY[0] / EMPTY[2])
    np.testing.assert_allclose(row.sum(), 1, atol=1e-15)


def test_rows_kept_are_bounded_and_not_pickled(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 2)
    ngram = read_distilled(write(tmp_path / "file"), V)
    for context in [(), (0,), (1, 0), (2, 0), (2,)] * 2:
        ngram(context)
        assert len(ngram.rows) <= 3
    again = pickle.loads(pickle.dumps(ngram))
    assert not again.rows
    np.testing.assert_array_equal(again((1, 0)), ngram((1, 0)))


def test_an_ngram_is_loaded_as_an_oracle(tmp_path):
    write(tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "ngram", "vocabulary": ["a", "b", "c"]}')
    oracle = load_ngram(tmp_path)
    np.testing.assert_allclose(oracle((1, 0)), AFTER_10, atol=1e-15)
    assert oracle.vocabulary == ("a", "b", "c")
    many = '", "'.join(map(str, range(300)))
    (tmp_path / "config.json").write_text(f'{{"model_type": "ngram", "vocabulary": ["{many}"]}}')
    with pytest.raises(ValueError, match=r"model.safetensors: a vocabulary of 300 tokens: give 256 at most"):
        load_ngram(tmp_path)
    for wrong in ("7", '["a", 1, "c"]'):
        (tmp_path / "config.json").write_text(f'{{"model_type": "ngram", "vocabulary": {wrong}}}')
        with pytest.raises(ValueError, match="vocabulary is no list of strings: give one string a token"):
            load_ngram(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"children": [2, 2, 1, 0, 0]}, "children, tokens and entries make no tree of 6 contexts"),
        ({"children": [2, 2, 2, 0, 0, 0]}, "children, tokens and entries make no tree of 6 contexts"),
        ({"entries": [3, 1, 0, 2, 1]}, "children, tokens and entries make no tree of 6 contexts"),
        (
            {"children": [], "tokens": [], "entries": []},
            "children, tokens and entries make no tree of 0 contexts",
        ),
        ({"children": [0, 0, 0, 3, 2, 0]}, "children come before their contexts"),
        (
            {"entry_roots": HAND["entry_roots"][1:]},
            "entry_tokens and entry_roots are not 8 positive entries each",
        ),
        (
            {"entry_tokens": HAND["entry_tokens"][1:]},
            "entry_tokens and entry_roots are not 8 positive entries",
        ),
        (
            {"entry_roots": [0, *HAND["entry_roots"][1:]]},
            "entry_tokens and entry_roots are not 8 positive entries",
        ),
        ({"tokens": [0, 0, 2, 1, 3, 0]}, "tokens has the token 3, but the vocabulary has 3"),
        (
            {"entry_tokens": [9, *HAND["entry_tokens"][1:]]},
            "entry_tokens has the token 9, but the vocabulary",
        ),
        ({"tokens": [0, 2, 0, 1, 2, 0]}, "tokens behind context 0 have 0 behind 2: give each token once"),
        ({"tokens": [0, 0, 2, 1, 1, 0]}, "tokens behind context 1 have 1 behind 1: give each token once"),
        (
            {"entry_tokens": [0, 1, 2, 1, 0, 0, 2, 1]},
            "entry_tokens of row 3 have 0 behind 0: give each token once, in ascending order",
        ),
        (
            {"entry_tokens": [0, 2, 1, 1, 0, 2, 2, 1]},
            "entry_tokens of row 0 have 1 behind 2: give each token once, in ascending order",
        ),
        (
            {"entry_roots": [180, 151, 103, 204, 102, 51, 153, 255]},
            "row 0 make probabilities that sum to 1.005 at least and 1.019 at most: give a sum of 1",
        ),
        (
            {"entry_roots": [180, 151, 94, 204, 102, 51, 153, 255]},
            "row 0 make probabilities that sum to 0.978 at least and 0.991 at most: give a sum of 1",
        ),
        (
            {"entry_roots": [180, 151, 99, 204, 240, 102, 153, 255]},
            "entry_roots of row 3 make probabilities that sum to 1.041 at least and 1.051 at most: give 1 or",
        ),
        ({"tokens": [HAND["tokens"]]}, "has no bytes named tokens: give the file of a distilled n-gram"),
    ],
)
def test_what_is_no_tree_of_contexts(tmp_path, changed, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_distilled(write(tmp_path / "file", **changed), V)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_of_an_ngram(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be read \(.*\): give the file of a distilled n-gram"):
        read_distilled(tmp_path / "nothing", V)
    (tmp_path / "text").write_text("some text")
    with pytest.raises(ValueError, match=r"cannot be read \(.*\): give the file of a distilled n-gram"):
        read_distilled(tmp_path / "text", V)
    save_file({"children": np.zeros(1, np.float32)}, tmp_path / "floats")
    with pytest.raises(ValueError, match="has no bytes named children: give the file of a distilled n-gram"):
        read_distilled(tmp_path / "floats", V)
