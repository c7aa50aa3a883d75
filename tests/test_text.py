import doctest
import hashlib
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative.model import Characters, bundled_text, text

NOTICE = Path(__file__).parents[1] / "NOTICE"
SPEECH = re.compile(r"[A-Z][A-Z', ]+:(\n\S.*)+")


def speeches_of(play: str) -> list[str]:
    return play.removesuffix("\n").split("\n\n")


def test_bundled_text_is_the_one_the_notice_describes():
    plays = bundled_text()
    digest = hashlib.sha256(plays.encode()).hexdigest()
    assert re.findall(r"sha256 of plays\.txt +(\w+)", NOTICE.read_text()) == [digest]
    assert len(plays) == 205_009
    assert "".join(sorted(set(plays))) == "\n !\"',-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYabcdefghijklmnopqrstuvwxyz"


def test_bundled_text_is_speeches_and_nothing_else():
    speeches = speeches_of(bundled_text())
    assert len(speeches) == 1_562
    assert all(SPEECH.fullmatch(speech) for speech in speeches)
    assert all(line == " ".join(line.split()) for speech in speeches for line in speech.split("\n"))


@pytest.mark.parametrize(
    "slip",
    ["ACT II.", "MACBETH.\nSo foul", "MACBETH:", "MACBETH:\nSo foul\n\nAnd fair", "MACBETH:\n So foul"],
)
def test_what_cleaning_could_have_left_is_no_speech(slip):
    assert not all(SPEECH.fullmatch(speech) for speech in speeches_of(slip))


def test_characters_of_a_text_are_sorted_and_each_there_once():
    assert Characters.of("to be or not to be").vocabulary == (" ", "b", "e", "n", "o", "r", "t")
    assert Characters.of("").vocabulary == ()


@given(st.text())
def test_decoding_undoes_encoding(sentence):
    characters = Characters.of(sentence)
    tokens = characters.encode(sentence)
    assert len(tokens) == len(sentence)
    assert all(characters.vocabulary[token] == each for token, each in zip(tokens, sentence, strict=True))
    assert characters.decode(tokens) == sentence


def test_bundled_text_survives_its_tokenizer():
    characters = Characters.of(bundled_text())
    assert characters.decode(iter(characters.encode(bundled_text()))) == bundled_text()


def test_a_character_outside_the_vocabulary_is_named():
    with pytest.raises(
        ValueError, match=r"^character 'z' at position 2 is not in the vocabulary of 3: leave it out"
    ):
        Characters.of("abc").encode("abzabz")


@pytest.mark.parametrize("token", [3, -1])
def test_a_token_outside_the_vocabulary_is_named(token):
    with pytest.raises(
        ValueError, match=f"^token {token} is outside the vocabulary of 3: give tokens from 0 to 2$"
    ):
        Characters.of("abc").decode((0, token))


def test_a_vocabulary_of_something_else_is_refused():
    with pytest.raises(ValueError, match=r"^vocabulary has 'bc' for token 1: give single characters"):
        Characters(("a", "bc"))
    with pytest.raises(ValueError, match=r"^vocabulary has '' for token 0: give single characters"):
        Characters(("", "a"))
    with pytest.raises(ValueError, match=r"^vocabulary has 'a' twice: give each character once$"):
        Characters(("a", "b", "a"))


def test_tokenizers_are_values():
    characters = Characters.of("abc")
    assert pickle.loads(pickle.dumps(characters)) == characters == Characters(("a", "b", "c"))
    assert characters != Characters.of("abd")
    assert len({characters, Characters.of("cba")}) == 1


def test_the_examples_in_the_docstrings_are_true():
    results = doctest.testmod(text)
    assert results.attempted == 3
    assert results.failed == 0
