"""A draft: proposed tokens, each with the law it was drawn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from speculative.chance import Chance
from speculative.distribution import Context, Row


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens together with the law that each was actually drawn from.

    Parameters
    ----------
    tokens : tuple of int, length k
        In order; token i follows the context and tokens[:i].
    probs : sequence of k rows, each (V,)
        Row i is the law token i was drawn from, given the context and tokens[:i]; a point mass for a
        deterministic drafter.

    Raises
    ------
    ValueError
        When a token has no probability in its own row: the declared law is not the one it was drawn from.
    """

    tokens: tuple[int, ...]
    probs: Sequence[Row]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.probs):
            raise ValueError(
                f"Draft of {len(self.tokens)} tokens and {len(self.probs)} rows: give one row a token"
            )
        for position, (token, row) in enumerate(zip(self.tokens, self.probs, strict=True)):
            if not 0 <= token < len(row):
                raise ValueError(
                    f"drafted token {token} at position {position}: outside the vocabulary of {len(row)}"
                )
            if not row[token] > 0:
                raise ValueError(
                    f"drafted token {token} at position {position} has probability {row[token]} in its own "
                    "law: pass the row it was drawn from, after every warp"
                )

    def __len__(self) -> int:
        return len(self.tokens)


NO_DRAFT = Draft((), ())


@dataclass(frozen=True)
class Drafter:
    """A drafting program with its vocabulary, so that a target of another vocabulary is refused at once.

    Parameters
    ----------
    propose : callable
        `propose(chance, context, num_draft_tokens) -> Draft`.
    vocab_size : int
        V.
    vocabulary : tuple of str, optional
        What each token stands for.
    """

    propose: Callable[[Chance, Context, int], Draft] = field(repr=False)
    vocab_size: int
    vocabulary: tuple[str, ...] | None = field(default=None, repr=False)

    def __call__(self, chance: Any, context: Context, num_draft_tokens: int) -> Draft:
        """Propose at most `num_draft_tokens` tokens that continue `context`."""
        return self.propose(chance, context, num_draft_tokens)
