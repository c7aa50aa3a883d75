"""Tokens of a model: the one before every context, those that there are, what two texts have in common."""

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
    """Return what a model reads for a context, or raise where that is nothing."""
    tokens = first + context
    if not tokens:
        raise ValueError(
            "an empty context, and this model has no first token (bos_token_id): give one token or more"
        )
    return tokens


def common(first: Context, second: Context) -> int:
    """How many tokens two texts have in common at the beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # slices are compared in C: sooner done than token by token
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
