"""Real text to run on, and the tokenizer that reads it: one token a character."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

__all__ = ["Characters", "bundled_text"]


def bundled_text() -> str:
    """Two plays of Shakespeare's, Macbeth and Twelfth Night, in modern spelling.

    205,009 characters, 62 different ones, all ASCII. A speech is a line with the speaker's name in capitals
    and a colon, then the lines spoken; an empty line parts it from the next. Public domain: the file NOTICE
    tells where the text comes from and how it was cleaned.

    Returns
    -------
    str
        The text, the same each time.
    """
    return resources.files("speculative.model").joinpath("data/plays.txt").read_text(encoding="ascii")


@dataclass(frozen=True)
class Characters:
    """A tokenizer with one token for each different character.

    Parameters
    ----------
    vocabulary : tuple of str
        The V characters: token i is ``vocabulary[i]``.

    Raises
    ------
    ValueError
        For a string that is not one character, and for a character given twice.

    Examples
    --------
    >>> characters = Characters.of("to be or not to be")
    >>> characters.encode("to be")
    (6, 4, 0, 1, 2)
    >>> characters.decode((6, 4, 0, 1, 2))
    'to be'
    """

    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        for token, character in enumerate(self.vocabulary):
            if len(character) != 1:
                raise ValueError(
                    f"vocabulary has {character!r} for token {token}: give single characters, "
                    f"for example with Characters.of(text)"
                )
            if character in self.vocabulary[:token]:
                raise ValueError(f"vocabulary has {character!r} twice: give each character once")

    @classmethod
    def of(cls, text: str) -> Characters:
        """The tokenizer of a text: its characters, sorted, each once."""
        return cls(tuple(sorted(set(text))))

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of a text.

        Parameters
        ----------
        text : str
            N characters, all in the vocabulary.

        Returns
        -------
        tuple of int
            N tokens.

        Raises
        ------
        ValueError
            For a character that is not in the vocabulary.
        """
        token_of = {character: token for token, character in enumerate(self.vocabulary)}
        for position, character in enumerate(text):
            if character not in token_of:
                raise ValueError(
                    f"character {character!r} at position {position} is not in the vocabulary of "
                    f"{len(self.vocabulary)}: leave it out, or use Characters.of on a text that has it"
                )
        return tuple(map(token_of.__getitem__, text))

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of some tokens; undoes `encode`.

        Parameters
        ----------
        tokens : iterable of int
            Tokens 0 to V - 1.

        Returns
        -------
        str
            One character a token.

        Raises
        ------
        ValueError
            For a token outside the vocabulary.
        """
        tokens = check_tokens(tokens, len(self.vocabulary))
        return "".join(self.vocabulary[token] for token in tokens)


def check_tokens(tokens: Iterable[int], vocab_size: int) -> tuple[int, ...]:
    """Return tokens to be decoded as a tuple, or raise where one is outside the vocabulary."""
    tokens = tuple(tokens)
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise ValueError(
                f"token {token} is outside the vocabulary of {vocab_size}: "
                f"give tokens from 0 to {vocab_size - 1}"
            )
    return tokens
