"""What the oracles around other engines share: the first token and the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from speculative.distribution import Context

__all__: list[str] = []


def beginning(bos_token_id: int | None, num_logits: int) -> Context:
    """Return the tokens put before every context, or raise where they are none of the engine's."""
    if bos_token_id is None:
        return ()
    if not 0 <= bos_token_id < num_logits:
        raise ValueError(
            f"bos_token_id is {bos_token_id}: give a token from 0 to {num_logits - 1}, or None where "
            "contexts come with all that the model expects"
        )
    return (bos_token_id,)


def count_tokens(vocabulary: Sequence[str] | None, num_logits: int) -> int:
    """Return how many tokens there are: all that have a logit, or those that have a string."""
    if vocabulary is None:
        return num_logits
    if len(vocabulary) > num_logits:
        raise ValueError(
            f"vocabulary has {len(vocabulary)} strings and the model gives {num_logits} logits: give the "
            "strings of the model's own tokenizer"
        )
    return len(vocabulary)


def sequence(first: Context, context: Context) -> Context:
    """Return what the engine reads for a context, or raise where that is nothing."""
    tokens = first + context
    if not tokens:
        raise ValueError(
            "the context is empty and no token begins it: give bos_token_id, or contexts of one token or more"
        )
    return tokens
