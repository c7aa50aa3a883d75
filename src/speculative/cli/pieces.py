"""Text as its tokens come: what each of them adds to it, where a character may take several."""

from __future__ import annotations

from collections.abc import Callable, Iterable

INCOMPLETE = "\ufffd"  # what decoders write for bytes that are no character, or not yet


class Pieces:
    """The text of growing tokens: all pieces together, the rest included, are the text of all tokens.

    A piece is what the tokens so far decode to, less what they decoded to before. Of these tokens only those
    of the last piece are decoded again, so that each token takes the same time.

    Parameters
    ----------
    decode : callable
        `decode(tokens)` -> text.
    """

    def __init__(self, decode: Callable[[Iterable[int]], str]) -> None:
        self._decode = decode
        self._told: list[int] = []  # the tokens of the last piece
        self._text = ""  # theirs
        self._held: list[int] = []  # those since, which have added nothing

    def add(self, token: int) -> str:
        """Return what one more token adds: nothing where it ends inside a character."""
        self._held.append(token)
        piece = self._piece()
        if not piece or piece.endswith(INCOMPLETE):
            return ""
        self._told, self._text, self._held = self._held, self._decode(self._held), []
        return piece

    def rest(self) -> str:
        """Return what the last tokens add, though they end inside a character."""
        return self._piece()

    def _piece(self) -> str:
        return self._decode(self._told + self._held)[len(self._text) :]
