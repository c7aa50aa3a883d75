import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from speculative.model import Characters
from speculative.model.tokenizer import Subwords, read_tokenizer, write_tokenizer

SIZES = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "bos_token_id": None,
}
LETTERS = "\n !\"'(),-.:;?ABCXYZabcxyz"
SENTENCE = "To be, or not to be: that is the question — ≤ ü."


def write_config(folder, vocab_size):
    (folder / "config.json").write_text(json.dumps({**SIZES, "vocab_size": vocab_size}), encoding="utf-8")


def write_fields(folder, fields, vocab_size):
    write_config(folder, vocab_size)
    (folder / "tokenizer.json").write_text(json.dumps(fields), encoding="utf-8")


def one_line(*parts):
    return f"^{'.*'.join(map(re.escape, parts))}$"


@pytest.fixture
def letters(tmp_path):
    """A folder with a tokenizer of characters."""
    write_config(tmp_path, len(LETTERS))
    write_tokenizer(tmp_path, LETTERS)
    return tmp_path


def bytes_tokenizer():
    """A small byte-level BPE, as models of today have them, with a special token that it adds itself."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["to be or not to be that is the question"] * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer


@pytest.fixture
def subwords(tmp_path):
    """A folder with a byte-level tokenizer of 280 tokens, padded to 288 by the model."""
    write_config(tmp_path, 288)
    bytes_tokenizer().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_characters_are_read_as_they_were_written(letters):
    assert read_tokenizer(str(letters)) == Characters(tuple(LETTERS))


def test_characters_need_no_package(letters, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert read_tokenizer(letters) == Characters(tuple(LETTERS))


def test_anything_else_without_the_package_says_what_to_install(subwords, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        ImportError,
        match=one_line(
            f"{subwords / 'tokenizer.json'} needs the tokenizers package: "
            'pip install -e ".[tokenizers]" in a checkout'
        ),
    ):
        read_tokenizer(subwords)


@given(
    st.sets(st.characters(codec="utf-8"), max_size=20).flatmap(lambda each: st.permutations([*each | {"\n"}]))
)
def test_the_package_reads_characters_as_we_do(tmp_path_factory, characters):
    folder = tmp_path_factory.mktemp("characters")
    write_config(folder, len(characters))
    write_tokenizer(folder, characters)
    ours = read_tokenizer(folder)
    assert ours == Characters(tuple(characters))
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "".join([*characters, *(each * 3 for each in reversed(characters))])
    assert tuple(theirs.encode(text).ids) == ours.encode(text)
    assert theirs.decode(list(ours.encode(text))) == text


def test_the_package_refuses_other_characters_too(letters):
    write_config(letters, len(LETTERS) + 1)  # one token more, so that it is not read as Characters
    with pytest.raises(ValueError, match=one_line("the tokenizer can't encode 'A3': ", "")):
        read_tokenizer(letters).encode("A3")


def test_characters_that_are_none_are_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"^vocabulary has 'bc' for token 1: give single characters"):
        write_tokenizer(tmp_path, ["a", "bc"])
    assert not list(tmp_path.iterdir())


def test_subwords_are_read_through_the_package(subwords):
    tokenizer = read_tokenizer(subwords)
    assert isinstance(tokenizer, Subwords)
    tokens = tokenizer.encode(SENTENCE)
    assert tokens == tuple(bytes_tokenizer().encode(SENTENCE, add_special_tokens=False).ids)
    assert tokenizer.decode(iter(tokens)) == SENTENCE
    assert len(tokens) < len(SENTENCE.encode())
    assert tokenizer.encode("") == ()
    assert tokenizer.decode(()) == ""


def test_the_first_token_is_not_added_but_read_and_shown(subwords):
    tokenizer = read_tokenizer(subwords)
    assert tokenizer.encode("to be")[0] != 0
    assert tokenizer.encode("<s>to be") == (0, *tokenizer.encode("to be"))
    assert tokenizer.decode((0, *tokenizer.encode("to be"))) == "<s>to be"


def test_ids_without_a_token_are_spelled_as_unused(subwords):
    tokenizer = read_tokenizer(subwords)
    assert len(tokenizer.vocabulary) == 288
    assert tokenizer.vocabulary[0] == "<s>"
    assert tokenizer.vocabulary[279] == bytes_tokenizer().id_to_token(279)
    assert tokenizer.vocabulary[280:] == tuple(f"<unused {token}>" for token in range(280, 288))
    to, be = tokenizer.encode("to"), tokenizer.encode(" be")
    assert tokenizer.decode((*to, 287, 280, *be)) == "to<unused 287><unused 280> be"


def test_a_gap_between_ids_is_unused_too(tmp_path):
    fields = json.loads(Tokenizer(models.WordLevel({"to": 0, "be": 2}, unk_token="to")).to_str())
    write_fields(tmp_path, fields, 3)
    assert read_tokenizer(tmp_path).vocabulary == ("to", "<unused 1>", "be")


def test_a_token_outside_the_vocabulary_is_named(subwords):
    tokenizer = read_tokenizer(subwords)
    for token in (288, -1):
        with pytest.raises(
            ValueError,
            match=one_line(f"token {token} is outside the vocabulary of 288: give tokens from 0 to 287"),
        ):
            tokenizer.decode((0, token))


def test_a_text_is_neither_cut_nor_filled_up(subwords):
    tokenizer = bytes_tokenizer()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=10)
    tokenizer.save(str(subwords / "tokenizer.json"))
    read = read_tokenizer(subwords)
    assert read.decode(read.encode("to be")) == "to be"
    assert read.decode(read.encode(SENTENCE)) == SENTENCE


@pytest.mark.parametrize("vocab_size", [279, 1])
def test_a_tokenizer_of_another_model_is_refused(subwords, vocab_size):
    write_config(subwords, vocab_size)
    with pytest.raises(
        ValueError,
        match=one_line(
            f"{subwords / 'tokenizer.json'}: token ",
            f" has id 279, but config.json has a vocab_size of {vocab_size}: give the tokenizer that the "
            "model was trained with",
        ),
    ):
        read_tokenizer(subwords)


def test_characters_of_another_model_are_refused(letters):
    write_config(letters, 5)
    with pytest.raises(
        ValueError, match=rf": token 'z' has id {len(LETTERS) - 1}, but config\.json has a vocab_size"
    ):
        read_tokenizer(letters)
    write_config(letters, len(LETTERS) + 2)
    tokenizer = read_tokenizer(letters)
    assert tokenizer.vocabulary == (*LETTERS, f"<unused {len(LETTERS)}>", f"<unused {len(LETTERS) + 1}>")
    assert tokenizer.decode(tokenizer.encode("ABC abc.\n")) == "ABC abc.\n"


CHANGES = {
    "lower case": {"normalizer": {"type": "Lowercase"}},
    "words": {"pre_tokenizer": {"type": "Whitespace"}},
    "decoder": {"decoder": None},
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_tokenizer_that_does_something_else_is_not_taken_for_characters(letters, case):
    fields = json.loads((letters / "tokenizer.json").read_text(encoding="utf-8"))
    write_fields(letters, fields | CHANGES[case], len(LETTERS))
    assert isinstance(read_tokenizer(letters), Subwords)


def test_words_are_not_taken_for_characters(letters):
    fields = json.loads((letters / "tokenizer.json").read_text(encoding="utf-8"))
    fields["model"]["vocab"] = {"a": 0, "bc": 1}
    write_fields(letters, fields, 2)
    assert isinstance(read_tokenizer(letters), Subwords)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        {},
        {"model": None},
        {"model": {"vocab": 3}},
        {"model": {"vocab": [["a"]]}},
        {"model": {"type": "WordLevel", "vocab": {"a": 0, "b": None}}},
    ],
)
def test_a_file_that_holds_no_tokenizer_is_refused(tmp_path, fields):
    write_fields(tmp_path, fields, 3)
    with pytest.raises(
        ValueError, match=one_line(f"{tmp_path / 'tokenizer.json'} is no tokenizer (", "): give a whole one")
    ):
        read_tokenizer(tmp_path)


def test_a_tokenizer_without_tokens_has_unused_ones(tmp_path):
    write_fields(tmp_path, json.loads(Tokenizer(models.BPE()).to_str()), 2)
    assert read_tokenizer(tmp_path).vocabulary == ("<unused 0>", "<unused 1>")


def test_files_that_are_missing_or_truncated_are_named(letters):
    path = letters / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8")[:100], encoding="utf-8")
    with pytest.raises(ValueError, match=one_line(f"{path} is no JSON (", "): give a whole file")):
        read_tokenizer(letters)
    path.unlink()
    with pytest.raises(
        ValueError, match=one_line(f"{letters} has no tokenizer.json: give a folder that has one")
    ):
        read_tokenizer(letters)
    (letters / "config.json").unlink()
    with pytest.raises(
        ValueError, match=one_line(f"{letters} has no config.json: give a folder that has one")
    ):
        read_tokenizer(letters)
