"""The interface: the law of the next token as a function of the tokens before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import TypeAlias, TypeVar

from speculative._numbers import count
from speculative.distribution import Context, Row, describe_context

T = TypeVar("T")
ScoreRows: TypeAlias = Callable[[Context, Context, Context], Sequence[Row]]


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
        ``score_rows(context, tokens, parents)`` -> ``len(tokens) + 1`` rows in one forward pass over a tree,
        see :meth:`score_tree`. Chains come to it too, as trees with the parents 0, 1, ...;
        :func:`path_by_path` makes one of a function of chains. With None, `row` is asked node by node.
    vocabulary : tuple of str, optional
        What each token stands for: tells vocabularies of one size apart.
    context_limit : int, optional
        The longest context it can be asked about.
    """

    row: Callable[[Context], Row] = field(repr=False)
    vocab_size: int
    score_rows: ScoreRows | None = field(default=None, repr=False)
    vocabulary: tuple[str, ...] | None = field(default=None, repr=False)
    context_limit: int | None = None

    def __post_init__(self) -> None:
        count("vocab_size", self.vocab_size)
        if self.vocabulary is not None and len(self.vocabulary) != self.vocab_size:
            raise ValueError(
                f"vocabulary has {len(self.vocabulary)} strings for {self.vocab_size} tokens: give as many"
            )
        if self.context_limit is not None:
            count("context_limit", self.context_limit, 0)

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
        return self.row(self.tokens(context))

    def score(self, context: Sequence[int], drafted: Sequence[int]) -> list[Row]:
        """The laws after `context` and after each token of `drafted`, in one forward pass if there is one.

        A row that follows a drafted token of probability zero is a valid row and otherwise unspecified: a
        lossless verifier rejects that token whatever comes after it, and makes nothing of the row.

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
            As of :meth:`score_tree`.
        """
        return self.score_tree(context, drafted, range(len(drafted)))

    def score_tree(self, context: Sequence[int], tokens: Sequence[int], parents: Sequence[int]) -> list[Row]:
        """The laws after `context` and after each node of a tree, in one forward pass if there is one.

        As of :meth:`score`, rows behind a token of probability zero are unspecified.

        Parameters
        ----------
        context : sequence of int
            Tokens, oldest first.
        tokens : sequence of int
            n tokens; tokens[i] is node i + 1, and node 0 is the context.
        parents : sequence of int
            The node that each follows, parents[i] <= i.

        Returns
        -------
        list of n + 1 ndarrays, each of shape (V,)
            Row i is the law after the context and the tokens on the way from the root to node i.

        Raises
        ------
        ValueError
            For parents of no tree, as for a call with the context and any path, and when `score_rows` gives
            another number of rows.
        """
        return self.rows_after(as_tokens(context, self.vocab_size), tokens, parents)

    def rows_after(self, context: Context, tokens: Sequence[int], parents: Sequence[int]) -> list[Row]:
        """The same as :meth:`score_tree`, of a context whose tokens were checked before.

        For loops and wrappers, which ask about one context many times: looking at each of its tokens once
        more would take as long as all the rest.

        Parameters
        ----------
        context : tuple of int
            What :meth:`tokens` returned, or goes on from that.
        tokens, parents : sequence of int
            As of :meth:`score_tree`.

        Returns
        -------
        list of n + 1 ndarrays, each of shape (V,)

        Raises
        ------
        ValueError
            As of :meth:`score_tree`.
        """
        tokens = as_tokens(tokens, self.vocab_size, "draft")
        parents = tuple(map(index, parents))
        self.check_length(len(context) + max(depths(tokens, parents)))
        if self.score_rows is None:
            return [self.row(each) for each in contexts_after(context, tokens, parents)]
        return check_count(self.score_rows(context, tokens, parents), len(tokens))

    def tokens(self, context: Sequence[int]) -> Context:
        """Return a context as a tuple of ints, or raise where it holds something else or is too long.

        Parameters
        ----------
        context : sequence of int
            Tokens, oldest first: a tuple, a list, or an array.

        Returns
        -------
        tuple of int
            The same tokens.

        Raises
        ------
        ValueError
            For a token outside the vocabulary, and a context longer than `context_limit`.
        """
        tokens = as_tokens(context, self.vocab_size)
        self.check_length(len(tokens))
        return tokens

    def check_length(self, length: int) -> None:
        """Raise where a context of so many tokens would be too long.

        Parameters
        ----------
        length : int
            Tokens.

        Raises
        ------
        ValueError
            For more than `context_limit`.
        """
        if self.context_limit is not None and length > self.context_limit:
            raise ValueError(
                f"a context of {length} tokens is over the limit of {self.context_limit}: "
                f"give a shorter context, or draft fewer tokens"
            )


def as_tokens(tokens: Sequence[int], vocab_size: int, name: str = "context") -> Context:
    """Return tokens as a tuple of ints, or raise where something else, or a token outside, is among them.

    Parameters
    ----------
    tokens : sequence of int
        A tuple, a list, or an array.
    vocab_size : int
        V.
    name : str
        What the tokens are; only named in errors.

    Returns
    -------
    tuple of int

    Raises
    ------
    ValueError
        For what is no token of the vocabulary.
    """
    try:
        tokens = tuple(map(index, tokens))
    except TypeError:
        raise ValueError(f"the {name} {tokens!r} is not made of tokens: give a tuple of ints") from None
    if tokens and not (min(tokens) >= 0 and max(tokens) < vocab_size):
        token = next(token for token in tokens if not 0 <= token < vocab_size)
        raise ValueError(
            f"token {token} in {name} {describe_context(tokens)} is outside the vocabulary: "
            f"give tokens from 0 to {vocab_size - 1}"
        )
    return tokens


def contexts_after(context: Context, tokens: Context, parents: Sequence[int]) -> list[Context]:
    """The tokens before each row of a tree's scores: the context, and what leads from it to each node.

    Parameters
    ----------
    context : tuple of int
        The root.
    tokens, parents : sequences of n ints
        The tree, see :meth:`Oracle.score_tree`.

    Returns
    -------
    list of n + 1 tuples of int
    """
    contexts = [context]
    for token, parent in zip(tokens, parents, strict=True):
        contexts.append((*contexts[parent], token))
    return contexts


def depths(tokens: Context, parents: Sequence[int]) -> list[int]:
    """How many tokens lead from the root to each node of a tree.

    Parameters
    ----------
    tokens, parents : sequences of n ints
        The tree, see :meth:`Oracle.score_tree`.

    Returns
    -------
    list of n + 1 ints
        The root's, 0, first.

    Raises
    ------
    ValueError
        When `tokens` and `parents` describe no tree.
    """
    if len(tokens) != len(parents):
        raise ValueError(
            f"a tree of {len(tokens)} tokens and {len(parents)} parents: give one parent a token"
        )
    found = [0]
    for node, parent in enumerate(parents, start=1):
        if not 0 <= parent < node:
            raise ValueError(f"node {node} has parent {parent}: give an earlier node, 0 for the root")
        found.append(found[parent] + 1)
    return found


def check_count(rows: Iterable[T], num_tokens: int) -> list[T]:
    """Return the rows of one pass over `num_tokens` drafted tokens as a list, or raise: there is one more."""
    listed = list(rows)
    if len(listed) != num_tokens + 1:
        raise ValueError(f"score_rows gave {len(listed)} rows for {num_tokens} drafted tokens: give one more")
    return listed


def check_oracle(maker: str, oracle: object) -> None:
    """Raise where what is made of an oracle, such as draft.model, is given something else."""
    if not isinstance(oracle, Oracle):
        raise ValueError(
            f"{maker} of a {type(oracle).__name__}: give an oracle, from_probs(function, vocab_size)"
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
    strings, draft_strings = target.vocabulary, getattr(draft, "vocabulary", None)
    if strings is draft_strings:
        return
    for token, (ours, theirs) in enumerate(zip(strings or (), draft_strings or (), strict=False)):
        if ours != theirs:
            raise ValueError(
                f"token {token} is {ours!r} to the target and {theirs!r} to the draft: "
                f"give a draft with the target's vocabulary"
            )
