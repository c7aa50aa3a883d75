"""The context as a string, one character a token: to look a token sequence up is to search a string."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from speculative._numbers import count
from speculative.distribution import Context


@dataclass
class History:
    """Turns contexts into strings, and continues the last string where a context continues the last one.

    What it keeps is never seen: it answers as if it kept nothing. Another text costs one pass over it.
    """

    last: tuple[Context, str] = ((), "")

    def __call__(self, context: Context) -> str:
        """Return the context as a string; token i is the character with the number i."""
        before, string = self.last
        if context[: len(before)] != before:
            before, string = (), ""
        if len(context) > len(before):
            string += "".join(map(chr, context[len(before) :]))
            self.last = context, string
        return string


def check_vocab_size(drafter: str, vocab_size: int) -> None:
    """Raise where it is no number of tokens, or there are more of them than characters."""
    if count("vocab_size", vocab_size) > sys.maxunicode + 1:
        raise ValueError(
            f"draft.{drafter} of a vocabulary of {vocab_size}: give the number of tokens, 1 to "
            f"{sys.maxunicode + 1}"
        )
