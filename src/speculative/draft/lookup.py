"""Draft by looking up: what followed the last time the context ended like this.

Prompt lookup (Saxena 2023); the same idea as n-gram matching in vLLM and transformers.
"""

from __future__ import annotations

from functools import partial

from speculative._numbers import count
from speculative.chance import Chance
from speculative.distribution import Context, point_mass
from speculative.draft.history import History, check_vocab_size
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter


def lookup(vocab_size: int, *, max_match: int = 3, vocabulary: tuple[str, ...] | None = None) -> Drafter:
    """Return a drafter that copies from the context itself.

    Parameters
    ----------
    vocab_size : int
        V.
    max_match : int
        The longest suffix of the context looked for; shorter ones, down to one token, are tried in turn.
    vocabulary : tuple of str, optional
        What each token stands for.

    Returns
    -------
    Drafter
        It proposes the tokens that followed the latest earlier occurrence of the longest matching suffix, and
        nothing where there is none. No `chance` is asked.

    Raises
    ------
    ValueError
        For numbers that are no counts, and a vocabulary larger than that of characters.

    Notes
    -----
    The context is searched as a string, in microseconds.

    **Law.** The draft is a function of the context, so each token's law is a point mass: a verifier accepts
    it with the target's own probability, and the residual is the target without it.
    """
    check_vocab_size("lookup", vocab_size)
    propose = partial(_copy, History(), vocab_size, count("max_match", max_match))
    return Drafter(propose, vocab_size, vocabulary)


def _copy(
    history: History, vocab_size: int, max_match: int, _: Chance, context: Context, num_draft_tokens: int
) -> Draft:
    string = history(context)
    end = len(string) - 1  # a match is followed by a token at least
    for length in range(min(max_match, end), 0, -1):
        start = string.rfind(string[-length:], 0, end)
        if start >= 0:
            tokens = context[start + length : start + length + num_draft_tokens]
            return Draft(tokens, tuple(point_mass(token, vocab_size) for token in tokens))
    return NO_DRAFT
