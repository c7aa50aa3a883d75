"""Oracles: the law of the next token as a function of the tokens before it.

An oracle is a pure function of the context. It holds no state that a caller could forget to rewind, and a
model with a cache behind it makes the cache invisible. Rows are checked where an oracle is made, so that
nothing after it needs to; whether a model gives probabilities or logits is said by name, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import (
    Context,
    Row,
    RowLike,
    check_row,
    describe_context,
    is_exact,
    normalised,
    total_variation,
)

__all__ = [
    "Oracle",
    "cached",
    "check_vocabulary",
    "checked",
    "from_logits",
    "from_probs",
    "map_rows",
    "softmax",
    "table",
]

RowFunction: TypeAlias = Callable[[Context], RowLike]
ScoreFunction: TypeAlias = Callable[[Context, Context], Sequence[RowLike] | NDArray[Any]]


@dataclass(frozen=True)
class Oracle:
    """The law of the next token given the tokens before it, and how to ask for it.

    Make one with :func:`table`, :func:`from_probs` or :func:`from_logits`, which check what they are given.
    Made directly, an oracle promises that `row` and `score_rows` return checked rows and depend on nothing
    but their arguments (:func:`checked` tests that). Ask by calling it and by :meth:`score`; `row` and
    `score_rows` are for those who wrap it.

    Attributes
    ----------
    row : callable
        ``row(context)`` -> row, shape (V,).
    vocab_size : int
        Number of tokens V. Tokens are 0 to V - 1.
    score_rows : callable, optional
        ``score_rows(context, drafted)`` -> ``len(drafted) + 1`` rows in one forward pass, row i being the law
        after ``context + drafted[:i]``. With None, `row` is asked position by position.
    vocabulary : tuple of str, optional
        What each token stands for: tells vocabularies of one size apart.
    context_limit : int, optional
        The longest context it can be asked about.
    """

    row: Callable[[Context], Row] = field(repr=False)
    vocab_size: int
    score_rows: Callable[[Context, Context], Sequence[Row]] | None = field(default=None, repr=False)
    vocabulary: tuple[str, ...] | None = field(default=None, repr=False)
    context_limit: int | None = None

    def __post_init__(self) -> None:
        if self.vocab_size < 1:
            raise ValueError(f"vocab_size is {self.vocab_size}: give the number of tokens, 1 or more")
        if self.vocabulary is not None and len(self.vocabulary) != self.vocab_size:
            raise ValueError(
                f"vocabulary has {len(self.vocabulary)} strings for {self.vocab_size} tokens: give as many"
            )
        if self.context_limit is not None and self.context_limit < 0:
            raise ValueError(f"context_limit is {self.context_limit}: give 0 or more, or None for no limit")

    def __call__(self, context: Sequence[int]) -> Row:
        """The law of the token after `context`.

        Parameters
        ----------
        context : sequence of int
            Tokens, oldest first.

        Returns
        -------
        ndarray, shape (V,)
            A read-only row.

        Raises
        ------
        ValueError
            For a token outside the vocabulary, and for a context longer than `context_limit`.
        """
        return self.row(self._tokens(context))

    def score(self, context: Sequence[int], drafted: Sequence[int]) -> list[Row]:
        """The laws after `context` and after each token of `drafted`, in one forward pass if there is one.

        A row that follows a drafted token of probability zero is a valid row and otherwise unspecified: that
        token is rejected whatever comes after it, so nothing reads the row.

        Parameters
        ----------
        context : sequence of int
            Tokens, oldest first.
        drafted : sequence of int
            k tokens that continue it.

        Returns
        -------
        list of k + 1 ndarrays, each of shape (V,)
            Row i is the law after ``context + drafted[:i]``.

        Raises
        ------
        ValueError
            As for a call with ``context + drafted``, and when `score_rows` gives another number of rows.
        """
        tokens = self._tokens((*context, *drafted))
        start = len(tokens) - len(drafted)
        if self.score_rows is None:
            return [self.row(tokens[:end]) for end in range(start, len(tokens) + 1)]
        rows = list(self.score_rows(tokens[:start], tokens[start:]))
        if len(rows) != len(drafted) + 1:
            raise ValueError(
                f"score_rows gave {len(rows)} rows for {len(drafted)} drafted tokens: give one more"
            )
        return rows

    def _tokens(self, context: Sequence[int]) -> Context:
        try:
            tokens = tuple(map(index, context))
        except TypeError:
            raise ValueError(f"the context {context!r} is not made of tokens: give a tuple of ints") from None
        if tokens and not (min(tokens) >= 0 and max(tokens) < self.vocab_size):
            token = next(token for token in tokens if not 0 <= token < self.vocab_size)
            raise ValueError(
                f"token {token} in context {describe_context(tokens)} is outside the vocabulary: "
                f"give tokens from 0 to {self.vocab_size - 1}"
            )
        if self.context_limit is not None and len(tokens) > self.context_limit:
            raise ValueError(
                f"a context of {len(tokens)} tokens is over the limit of {self.context_limit}: "
                f"give a shorter context, or draft fewer tokens"
            )
        return tokens


def table(
    laws: Mapping[Context, RowLike] | Sequence[Any] | NDArray[Any],
    vocab_size: int | None = None,
    vocabulary: Sequence[str] | None = None,
    context_limit: int | None = None,
) -> Oracle:
    """An oracle that looks its rows up, by the end of the context or by its length.

    Parameters
    ----------
    laws : mapping or array_like
        A mapping from contexts to rows: the law after a context is that of the longest suffix of it in the
        mapping, and ``()`` is the suffix of all. Or one row, shape (V,): the law after every context. Or n
        rows, shape (n, V): row i is the law after every context of i tokens, and n - 1 becomes the context
        limit.
    vocab_size : int, optional
        V, required of every row; read off the first row by default.
    vocabulary : sequence of str, optional
        What the tokens stand for.
    context_limit : int, optional
        The longest context.

    Returns
    -------
    Oracle
        Rows are checked once, here; the same row object is handed out each time.

    Raises
    ------
    ValueError
        For no rows, rows that are no laws, keys that are no contexts. At a call: for a context without a
        suffix in the mapping.

    Examples
    --------
    >>> oracle = table({(): [0.25, 0.5, 0.25], (1,): [0, 0.5, 0.5]})
    >>> oracle((2, 1))
    array([0. , 0.5, 0.5])
    >>> oracle((1, 2))
    array([0.25, 0.5 , 0.25])
    """
    by_length = not isinstance(laws, Mapping) and len(laws) > 0 and np.ndim(laws[0]) > 0
    given: Mapping[Any, Any] = laws if isinstance(laws, Mapping) else {(): laws}
    if by_length:
        given = {("any",) * length: law for length, law in enumerate(laws)}
    rows: dict[Any, Row] = {}
    for context, law in given.items():
        if not isinstance(context, tuple):
            raise ValueError(f"table has the key {context!r}: give contexts, for example {(context,)!r}")
        rows[context] = check_row(law, context, vocab_size)
        vocab_size = rows[context].size
    if vocab_size is None or not rows:
        raise ValueError("table got no laws: give a row, or rows by context, for example under the key ()")
    names = None if vocabulary is None else tuple(vocabulary)
    if by_length:
        limit = len(rows) - 1 if context_limit is None else min(context_limit, len(rows) - 1)
        lookup = partial(_row_by_length, tuple(rows.values()))
        return Oracle(lookup, vocab_size, vocabulary=names, context_limit=limit)
    longest = max(len(context) for context in rows)
    oracle = Oracle(partial(_row_by_suffix, rows, longest), vocab_size, None, names, context_limit)
    for context in rows:
        oracle._tokens(context)
    return oracle


def _row_by_length(rows: tuple[Row, ...], context: Context) -> Row:
    return rows[len(context)]


def _row_by_suffix(rows: dict[Context, Row], longest: int, context: Context) -> Row:
    for start in range(max(0, len(context) - longest), len(context) + 1):
        if context[start:] in rows:
            return rows[context[start:]]
    raise ValueError(
        f"the table has no law for context {describe_context(context)} nor for any end of it: "
        f"give one under (), the end of every context"
    )


def from_probs(
    function: RowFunction,
    vocab_size: int,
    *,
    score: ScoreFunction | None = None,
    vocabulary: Sequence[str] | None = None,
    context_limit: int | None = None,
) -> Oracle:
    """An oracle from a function that returns probabilities.

    Parameters
    ----------
    function : callable
        ``function(context)`` -> probabilities, shape (V,): a pure function of a tuple of ints.
    vocab_size : int
        Number of tokens V.
    score : callable, optional
        ``score(context, drafted)`` -> probabilities, shape (len(drafted) + 1, V), in one forward pass. Row i
        depends on ``context + drafted[:i]`` and nothing else.
    vocabulary : sequence of str, optional
        What the tokens stand for.
    context_limit : int, optional
        The longest context.

    Returns
    -------
    Oracle
        It checks every row as :func:`speculative.distribution.check_row` does, and copies it unless nobody
        else can write to it.
    """
    return _from_function(
        check_row, function, vocab_size, score, vocabulary=vocabulary, context_limit=context_limit
    )


def from_logits(
    function: RowFunction,
    vocab_size: int,
    *,
    score: ScoreFunction | None = None,
    vocabulary: Sequence[str] | None = None,
    context_limit: int | None = None,
) -> Oracle:
    """An oracle from a function that returns logits, whose :func:`softmax` is the law.

    Parameters
    ----------
    function : callable
        ``function(context)`` -> logits, shape (V,): a pure function of a tuple of ints.
    vocab_size : int
        Number of tokens V.
    score : callable, optional
        ``score(context, drafted)`` -> logits, shape (len(drafted) + 1, V), in one forward pass. Row i
        depends on ``context + drafted[:i]`` and nothing else.
    vocabulary : sequence of str, optional
        What the tokens stand for.
    context_limit : int, optional
        The longest context.

    Returns
    -------
    Oracle
        Its rows are float64. At a call it refuses logits as :func:`softmax` does.
    """
    return _from_function(
        softmax, function, vocab_size, score, vocabulary=vocabulary, context_limit=context_limit
    )


def softmax(logits: RowLike, context: Sequence[object] = (), vocab_size: int | None = None) -> Row:
    """The law proportional to exp(logits).

    Parameters
    ----------
    logits : array_like, shape (V,)
        Any real numbers; -inf for a token of probability zero.
    context : sequence of int
        The tokens before; only named in errors.
    vocab_size : int, optional
        The V that is required.

    Returns
    -------
    ndarray of float64, shape (V,)
        A read-only row. The maximum is subtracted first, so that nothing overflows.

    Raises
    ------
    ValueError
        For NaN or +inf, for -inf everywhere, and for a wrong shape or size.
    """
    where = f"the logits at context {describe_context(context)}"
    try:
        values = np.asarray(logits, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{where} are not an array of numbers: give one logit a token, shape (V,)") from None
    if values.ndim != 1 or values.size == 0 or values.size != (vocab_size or values.size):
        size = "V" if vocab_size is None else vocab_size
        raise ValueError(f"{where} have shape {values.shape}: give one logit a token, shape ({size},)")
    top = values.max()
    if not np.isfinite(top):
        fault = "are all -inf" if top < 0 else f"have {top} for token {int(values.argmax())}"
        raise ValueError(f"{where} {fault}: give finite logits, or -inf for some tokens to rule them out")
    with np.errstate(over="ignore"):  # the distance to the maximum may be -inf: probability zero
        weights = np.exp(values - top)
    return normalised(weights)


def _from_function(
    convert: Callable[[RowLike, Context, int], Row],
    function: RowFunction,
    vocab_size: int,
    score: ScoreFunction | None,
    *,
    vocabulary: Sequence[str] | None,
    context_limit: int | None,
) -> Oracle:
    return Oracle(
        partial(_converted_row, convert, function, vocab_size),
        vocab_size,
        None if score is None else partial(_converted_rows, convert, score, vocab_size),
        None if vocabulary is None else tuple(vocabulary),
        context_limit,
    )


def _converted_row(
    convert: Callable[[RowLike, Context, int], Row],
    function: RowFunction,
    vocab_size: int,
    context: Context,
) -> Row:
    return convert(function(context), context, vocab_size)


def _converted_rows(
    convert: Callable[[RowLike, Context, int], Row],
    score: ScoreFunction,
    vocab_size: int,
    context: Context,
    drafted: Context,
) -> list[Row]:
    rows = score(context, drafted)
    return [convert(row, context + drafted[:i], vocab_size) for i, row in enumerate(rows)]


def map_rows(oracle: Oracle, function: Callable[[Context, Row], RowLike]) -> Oracle:
    """An oracle whose row is a function of the context and of the given oracle's row.

    Vocabulary, limits and scoring in one pass are kept: warps and penalties are made of this.

    Parameters
    ----------
    oracle : Oracle
        Where the rows come from.
    function : callable
        ``function(context, row)`` -> probabilities, shape (V,): a pure function, which does not write to
        `row`.

    Returns
    -------
    Oracle
        It checks the rows that `function` makes.
    """
    one_pass = None if oracle.score_rows is None else partial(_mapped_rows, oracle, function)
    return replace(oracle, row=partial(_mapped_row, oracle, function), score_rows=one_pass)


def _mapped_row(oracle: Oracle, function: Callable[[Context, Row], RowLike], context: Context) -> Row:
    return _map(function, context, oracle.row(context))


def _mapped_rows(
    oracle: Oracle, function: Callable[[Context, Row], RowLike], context: Context, drafted: Context
) -> list[Row]:
    rows = oracle.score(context, drafted)
    return [_map(function, context + drafted[:i], row) for i, row in enumerate(rows)]


def _map(function: Callable[[Context, Row], RowLike], context: Context, row: Row) -> Row:
    mapped = function(context, row)
    return row if mapped is row else check_row(mapped, context, row.size)


def cached(oracle: Oracle) -> Oracle:
    """The same oracle, asked once about each context.

    Parameters
    ----------
    oracle : Oracle
        A pure function of the context.

    Returns
    -------
    Oracle
        It hands out the same row object for a context each time, from a dict that grows with every context:
        made for exact laws and short texts, not for a long decode over a large vocabulary.
    """
    memory = _Cache(oracle)
    return replace(
        oracle, row=memory.row, score_rows=None if oracle.score_rows is None else memory.score_rows
    )


@dataclass
class _Cache:
    oracle: Oracle
    rows: dict[Context, Row] = field(default_factory=dict)

    def row(self, context: Context) -> Row:
        row = self.rows.get(context)
        if row is None:
            row = self.rows[context] = self.oracle.row(context)
        return row

    def score_rows(self, context: Context, drafted: Context) -> list[Row]:
        contexts = [context + drafted[:i] for i in range(len(drafted) + 1)]
        if all(each in self.rows for each in contexts):
            return [self.rows[each] for each in contexts]
        rows = self.oracle.score(context, drafted)
        for i in range(count_reachable(rows, drafted)):
            rows[i] = self.rows.setdefault(contexts[i], rows[i])
        return rows


def count_reachable(rows: Sequence[Row], drafted: Sequence[int]) -> int:
    """How many of the scored rows can be read: those that no drafted token of probability zero precedes.

    Parameters
    ----------
    rows : sequence of k + 1 ndarrays, each of shape (V,)
        What :meth:`Oracle.score` gives.
    drafted : sequence of int
        The k drafted tokens.

    Returns
    -------
    int
        From 1 to k + 1.
    """
    for i, token in enumerate(drafted):
        if rows[i][token] == 0:
            return i + 1
    return len(drafted) + 1


def checked(oracle: Oracle, tolerance: float = 1e-6) -> Oracle:
    """The same oracle, tested at every call for what an oracle promises.

    A row has to be a law, the same one each time its context is asked about, and each row of a score has to
    be the one that its own context gives when asked about alone. So a row that leaks later tokens, rows
    that are shifted by one, a stale cache and hidden randomness are all found, at the first context that
    shows them. For debugging: it asks for every row at least twice and remembers all of them.

    Parameters
    ----------
    oracle : Oracle
        The one to test.
    tolerance : float
        The total variation allowed between float rows that should be equal, for models that round otherwise
        when they compute several positions at once. Exact rows have to be equal.

    Returns
    -------
    Oracle
        Gives the same rows. At a call that shows a fault it raises a ValueError naming the context.
    """
    test = _Checked(oracle, tolerance)
    return replace(oracle, row=test.row, score_rows=None if oracle.score_rows is None else test.score_rows)


@dataclass
class _Checked:
    oracle: Oracle
    tolerance: float
    rows: dict[Context, Row] = field(default_factory=dict)

    def row(self, context: Context) -> Row:
        if context not in self.rows:
            self.rows[context] = check_row(self.oracle.row(context), context, self.oracle.vocab_size)
        first = self.rows[context]
        again = check_row(self.oracle.row(context), context, self.oracle.vocab_size)
        self._compare(again, first, f"the oracle gives two laws after context {describe_context(context)}")
        return first

    def score_rows(self, context: Context, drafted: Context) -> list[Row]:
        scored = self.oracle.score(context, drafted)
        self.oracle.row(context[:1])  # a cache that trusts what it holds answers the rest from other tokens
        rows = [check_row(row, context + drafted[:i], self.oracle.vocab_size) for i, row in enumerate(scored)]
        for i in range(count_reachable(rows, drafted)):
            self._compare(
                rows[i],
                self.row(context + drafted[:i]),
                f"row {i} of score({describe_context(context)}, {describe_context(drafted)}) is not the law "
                f"after {describe_context(context + drafted[:i])}",
            )
        return rows

    def _compare(self, row: Row, expected: Row, fault: str) -> None:
        distance = total_variation(row, expected)
        if distance > (0 if is_exact(row) and is_exact(expected) else self.tolerance):
            raise ValueError(
                f"{fault}, total variation {float(distance):.3g}: "
                f"make each row a function of the tokens before it and of nothing else"
            )


def check_vocabulary(target: Oracle, draft: object) -> None:
    """Raise unless target and draft speak of the same tokens, as far as they say.

    Parameters
    ----------
    target : Oracle
        The target.
    draft : Oracle or drafter
        Its ``vocab_size`` and ``vocabulary`` are compared with the target's; a plain function has neither.

    Raises
    ------
    ValueError
        When the sizes differ, or when both carry token strings and those differ.
    """
    vocab_size = getattr(draft, "vocab_size", target.vocab_size)
    if target.vocab_size != vocab_size:
        raise ValueError(
            f"the target has {target.vocab_size} tokens and the draft {vocab_size}: "
            f"give a draft with the target's vocabulary"
        )
    for token, (ours, theirs) in enumerate(
        zip(target.vocabulary or (), getattr(draft, "vocabulary", None) or (), strict=False)
    ):
        if ours != theirs:
            raise ValueError(
                f"token {token} is {ours!r} to the target and {theirs!r} to the draft: "
                f"give a draft with the target's vocabulary"
            )
