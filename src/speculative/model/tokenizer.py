"""The tokenizer.json of a checkpoint folder: read, and written for one token a character."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speculative.model.config import read_config, read_json
from speculative.model.text import Characters, check_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Subwords", "read_tokenizer", "write_tokenizer"]

FILE = "tokenizer.json"


@dataclass(frozen=True, eq=False)
class Subwords:
    """A tokenizer of the `tokenizers` package. Made by `read_tokenizer`.

    Attributes
    ----------
    vocabulary : tuple of str
        The V tokens as the tokenizer spells them, which may write a space as Ġ or ▁; `decode` gives text. Ids
        of the model that the tokenizer has no token for, padding mostly, are spelled "<unused 7>".
    tokenizer : tokenizers.Tokenizer
        What does the work.
    """

    vocabulary: tuple[str, ...] = field(repr=False)
    tokenizer: Tokenizer

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of a text, without any that mark its beginning or end.

        Parameters
        ----------
        text : str
            Any text. Tokens written out in it, such as ``<s>``, are read as these tokens where the tokenizer
            says so.

        Returns
        -------
        tuple of int
            Tokens of the whole text, however long.

        Raises
        ------
        ValueError
            Where the tokenizer cannot encode it.
        """
        try:
            return tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)
        except Exception as error:  # the package raises no narrower one
            raise ValueError(f"the tokenizer can't encode {text[:40]!r}: {error}") from None

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of some tokens, special ones included.

        Parameters
        ----------
        tokens : iterable of int
            Tokens 0 to V - 1.

        Returns
        -------
        str
            Undoes `encode` as far as the tokenizer keeps the text. Unused ids are there as the vocabulary
            spells them.

        Raises
        ------
        ValueError
            For a token outside the vocabulary.
        """
        tokens = check_tokens(tokens, len(self.vocabulary))
        return "".join(
            self.tokenizer.decode(list(run), skip_special_tokens=False)
            if used
            else "".join(map(self.vocabulary.__getitem__, run))
            for used, run in groupby(tokens, lambda token: self.tokenizer.id_to_token(token) is not None)
        )


def read_tokenizer(folder: str | Path) -> Characters | Subwords:
    """Read the tokenizer of a checkpoint folder.

    Parameters
    ----------
    folder : str or Path
        With config.json and tokenizer.json.

    Returns
    -------
    Characters or Subwords
        `Characters` for what `write_tokenizer` writes, else `Subwords`, which needs the `tokenizers` package.
        Both have `encode`, `decode` and a `vocabulary` of `vocab_size` strings. The token that begins every
        sequence, `bos_token_id` of the model, is the model's business: `encode` adds none.

    Raises
    ------
    ValueError
        One line, for a file that is missing or broken, and for a tokenizer with tokens that the model has
        not. The other way round is fine: vocabularies are often padded to a round number, and tokens without
        a string are spelled "<unused 7>".
    ImportError
        Where the `tokenizers` package is needed and missing.
    """
    folder = Path(folder)
    vocab_size = read_config(folder).vocab_size
    path = folder / FILE
    fields = read_json(path)
    characters = _characters(fields)
    if characters is not None and len(characters) == vocab_size:
        return Characters(characters)
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 # an extra, and most models need none
    except ImportError as error:
        raise ImportError(
            f'{path} needs the tokenizers package: pip install -e ".[tokenizers]" in a checkout'
        ) from error
    try:
        tokenizer = Tokenizer.from_str(json.dumps(fields))
    except Exception as error:  # the package raises no narrower one
        raise ValueError(f"{path} is no tokenizer ({error}): give a whole one") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    last, string = max(((token, string) for string, token in tokenizer.get_vocab().items()), default=(-1, ""))
    if last >= vocab_size:
        raise ValueError(
            f"{path}: token {string!r} has id {last}, but config.json has a vocab_size of {vocab_size}: give "
            "the tokenizer that the model was trained with"
        )
    spelled = map(tokenizer.id_to_token, range(vocab_size))
    vocabulary = tuple(f"<unused {token}>" if each is None else each for token, each in enumerate(spelled))
    return Subwords(vocabulary, tokenizer)


def write_tokenizer(folder: str | Path, vocabulary: Iterable[str]) -> None:
    """Write the tokenizer of one token a character to a checkpoint folder.

    Parameters
    ----------
    folder : str or Path
        Its tokenizer.json and tokenizer_config.json are replaced. `read_tokenizer` reads the first,
        `AutoTokenizer` of `transformers` both.
    vocabulary : iterable of str
        The characters: token i is the i-th.

    Raises
    ------
    ValueError
        As of `Characters`.
    """
    characters = Characters(tuple(vocabulary))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,  # which would take spaces before full stops away
    }
    for name, fields in {FILE: _json(characters.vocabulary), "tokenizer_config.json": settings}.items():
        (Path(folder) / name).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")


def _json(characters: Iterable[str]) -> dict[str, Any]:
    """Return the tokenizer.json of one token a character; another character is an error, never dropped."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": r"[\s\S]"},
            "behavior": "Isolated",
            "invert": False,
        },
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {character: token for token, character in enumerate(characters)},
            "unk_token": "",
        },
    }


def _characters(fields: Any) -> tuple[str, ...] | None:
    """Return the characters of a tokenizer.json that `write_tokenizer` could have written, else None."""
    try:
        vocab: Mapping[str, int] = fields["model"]["vocab"]
        characters = tuple(sorted(vocab, key=vocab.__getitem__))
        same = fields == _json(characters) and all(len(character) == 1 for character in characters)
    except (TypeError, KeyError, AttributeError):
        return None
    return characters if same else None
