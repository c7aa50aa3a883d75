"""n-gram models of any order, with interpolated Kneser-Ney or absolute discounting, in floats or exactly.

Let h be a context of m - 1 tokens and h' the same without its first token. The model of order m is

    p_m(w | h) = max(c(hw) - D, 0) / c(h.)  +  D N(h.) / c(h.)  p_{m-1}(w | h')
    p_0(w)     = 1 / V

where c(h.) is the sum of c(hw) over w, and N(h.) is how many w have c(hw) > 0. Where c(h.) = 0 the model
backs off fully: p_m(w | h) = p_{m-1}(w | h'). The two kinds of smoothing differ in c(hw) only:

    absolute     how often hw occurs in the text, at every order
    kneser-ney   the same at the highest order; below it, how many different tokens come right before hw

The recursion ends in the uniform law, so no token has probability zero. The text is one piece without
padding: its beginning has no token before it that could be counted. A context shorter than order - 1 is
answered by the model of the order that it fills.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Rational
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speculative._numbers import count
from speculative.distribution import Context, Row
from speculative.oracle import Oracle

__all__ = ["cross_entropy", "fit_ngram"]

Integers: TypeAlias = NDArray[np.integer[Any]]

KEPT_BYTES = 2**24
NUMBER_BYTES = {"f": 8, "O": 128}
"""What a probability takes: a float, and about a Fraction."""


def fit_ngram(
    tokens: Sequence[int] | Integers,
    *,
    order: int,
    vocab_size: int,
    smoothing: Literal["kneser-ney", "absolute"] = "kneser-ney",
    discount: float | Fraction = Fraction(3, 4),
    exact: bool = False,
    vocabulary: Sequence[str] | None = None,
) -> Oracle:
    """The n-gram model of a text, as an oracle.

    Parameters
    ----------
    tokens : sequence of int, shape (N,)
        The text.
    order : int
        Tokens in the longest n-gram counted: a row depends on the last ``order - 1`` tokens of its context.
    vocab_size : int
        Number of tokens V, whether or not the text has them all.
    smoothing : {"kneser-ney", "absolute"}
        What the lower orders count: the different tokens before an n-gram, or its occurrences.
    discount : float or Fraction
        D, above 0 and at most 1, taken off every count at every order. The smaller, the closer samples keep
        to the text.
    exact : bool
        Whether rows are Fractions that sum to exactly one, instead of float64.
    vocabulary : sequence of str, optional
        What each token stands for.

    Returns
    -------
    Oracle
        Every probability is positive. In floats each differs from the exact one, for the same D, by at most
        ``4 * order + 1`` times 2**-53 of itself, terms of the second order aside.

    Raises
    ------
    ValueError
        For a text without tokens or with one outside the vocabulary, and for an option out of its range.
    TypeError
        For tokens that are no integers, and for exact rows from a discount that is a float.

    Notes
    -----
    Absolute discounting (Ney, Essen and Kneser 1994) is as in Chen and Goodman (1999), section 2.6;
    Kneser-Ney smoothing (Kneser and Ney 1995) is as in their section 2.7, interpolated as in their section 3,
    with one discount instead of three.

    References
    ----------
    Kneser, R., Ney, H. Improved backing-off for M-gram language modeling. ICASSP 1995.
    Chen, S. F., Goodman, J. An empirical study of smoothing techniques for language modeling. Computer Speech
    and Language 13, 1999.

    Examples
    --------
    >>> oracle = fit_ngram([0, 1, 2, 0, 1, 0], order=2, vocab_size=3, exact=True)
    >>> [str(probability) for probability in oracle((0,))]  # 0 was followed by 1, twice
    ['3/16', '23/32', '3/32']
    """
    text = _checked_text(tokens, vocab_size)
    order = count("order", order)
    if smoothing not in ("kneser-ney", "absolute"):
        raise ValueError(f'smoothing is {smoothing!r}: give "kneser-ney" or "absolute"')
    if not 0 < discount <= 1:
        raise ValueError(f"discount is {discount}: give a number above 0 and at most 1, for example 0.75")
    if exact and not isinstance(discount, Rational):
        raise TypeError(f"discount is the float {discount}, which exact rows can't use: give Fraction(3, 4)")
    model = Ngram(
        tuple(_levels(text, order, vocab_size, smoothing, object if exact else np.float64)),
        Fraction(discount) if exact else float(discount),
        Fraction(1, vocab_size) if exact else 1 / vocab_size,
        vocab_size,
    )
    return Oracle(model, vocab_size, vocabulary=None if vocabulary is None else tuple(vocabulary))


@dataclass(frozen=True, eq=False)
class Level:
    """The counts after all contexts of one length; context i has the entries ``starts[i]:starts[i + 1]``."""

    contexts: Integers  # [C] sorted; first token + V * number of the rest, a context of the level below
    totals: NDArray[Any]  # [C] c(h.)
    starts: Integers  # [C+1]
    tokens: Integers  # [G] w
    counts: NDArray[Any]  # [G] c(hw), positive; of the rows' number type


class Known(NamedTuple):
    """The row after a context, and which one of its level the context is: None where the text has it not."""

    number: int | None
    row: Row


@dataclass(frozen=True, eq=False)
class Ngram:
    """An interpolated n-gram model: a function from contexts to rows. Made by `fit_ngram`.

    Rows are kept, that of a context to make those of longer ones from, until `KEPT_BYTES` of them are; then
    it begins anew.
    """

    levels: tuple[Level, ...]  # by length of context, 0 to order - 1
    discount: float | Fraction
    uniform: float | Fraction
    vocab_size: int
    known: dict[Context, Known] = field(default_factory=dict, repr=False)

    def __call__(self, context: Context) -> Row:
        """The law of the token after `context`, shape (V,), read-only."""
        return self._known(context[max(0, len(context) - len(self.levels) + 1) :]).row

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs; rows that are kept it makes itself."""
        return {**self.__dict__, "known": {}}

    def _known(self, context: Context) -> Known:
        found = self.known.get(context)
        if found is None:
            shorter = (
                self._known(context[1:]) if context else Known(0, np.full(self.vocab_size, self.uniform))
            )
            found = self._longer(shorter, context)
            if len(self.known) * self.vocab_size * NUMBER_BYTES[found.row.dtype.kind] >= KEPT_BYTES:
                self.known.clear()
            self.known[context] = found
        return found

    def _longer(self, shorter: Known, context: Context) -> Known:
        """From what is known after all tokens but the first."""
        if shorter.number is None:
            return shorter
        level = self.levels[len(context)]
        key = (context[0] if context else 0) + self.vocab_size * shorter.number
        number = int(level.contexts.searchsorted(key))
        if number == len(level.contexts) or level.contexts[number] != key or not level.totals[number]:
            return Known(None, shorter.row)
        start, stop = level.starts[number : number + 2].tolist()
        total = level.totals[number]
        row = shorter.row * (self.discount * (stop - start) / total)
        row[level.tokens[start:stop]] += (level.counts[start:stop] - self.discount) / total
        row.flags.writeable = False
        return Known(number, row)


def _levels(text: Integers, order: int, vocab_size: int, smoothing: str, number: type) -> Iterator[Level]:
    contexts = np.zeros(1, dtype=np.int64)
    context_at = np.zeros(len(text), dtype=np.int64)  # [N-length] the context of each token
    for length in range(order):
        grams, gram_at, counts = np.unique(
            text[length:] + vocab_size * context_at, return_inverse=True, return_counts=True
        )
        before = text[: max(len(text) - length - 1, 0)]  # [N-length-1] the token before each context
        if smoothing == "kneser-ney" and length < order - 1:
            longer = np.unique(before + vocab_size * gram_at[1:])
            counts = np.bincount(longer // vocab_size, minlength=len(grams))
            grams, counts = grams[counts > 0], counts[counts > 0]
        starts = np.searchsorted(grams, vocab_size * np.arange(len(contexts) + 1))
        totals = np.diff(np.append(0, counts.cumsum())[starts])
        yield Level(contexts, totals.astype(number), starts, grams % vocab_size, counts.astype(number))
        contexts, context_at = np.unique(before + vocab_size * context_at[1:], return_inverse=True)


def _checked_text(tokens: Sequence[int] | Integers, vocab_size: int) -> Integers:
    text = np.asarray(tokens)
    if text.ndim != 1 or not text.size:
        raise ValueError(f"tokens have shape {text.shape}: give a text of one token or more, shape (N,)")
    if not np.issubdtype(text.dtype, np.integer):
        raise TypeError(f"tokens are {text.dtype}, not integers: encode the text first, as Characters does")
    outside = np.flatnonzero((text < 0) | (text >= vocab_size))
    if outside.size:
        raise ValueError(
            f"token {text[outside[0]]} at position {outside[0]} is outside the vocabulary of {vocab_size}: "
            f"give tokens in range({vocab_size}), or a larger vocab_size"
        )
    return text.astype(np.int64)


def cross_entropy(oracle: Oracle, tokens: Sequence[int]) -> float:
    """How badly an oracle predicts a text, in bits per token: the lower, the better.

    Parameters
    ----------
    oracle : Oracle
        Scored in one pass if it can be.
    tokens : sequence of int, shape (N,)
        A text, best one that the oracle was not fitted on. Each token is predicted from all before it, or
        from the last `context_limit` of them.

    Returns
    -------
    float
        The mean of -log2 p(token); infinite if a token has probability zero. The perplexity is 2 to the
        power of it.

    Raises
    ------
    ValueError
        For a text without tokens, or with one outside the vocabulary.
    """
    text = replace(oracle, context_limit=None).tokens(tokens)
    if not text:
        raise ValueError("tokens are empty: give a text of one token or more")
    limit = len(text) if oracle.context_limit is None else oracle.context_limit
    rows = [
        *oracle.score((), text[:-1][:limit]),
        *(oracle(text[i - limit : i]) for i in range(limit + 1, len(text))),
    ]
    probs = [float(row[token]) for row, token in zip(rows, text, strict=True)]
    return math.inf if 0 in probs else -math.fsum(map(math.log2, probs)) / len(text)
