"""Constraints that depend on the text so far: a repetition penalty, masks, and grammars as finite automata.

Each is a pure function of the context, wrapped around an oracle. That is all that exactness takes: a
speculative decoder samples the wrapped target exactly, whatever the draft is, and nothing has to be told
about accepted and rejected tokens, because nothing is kept between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import (
    Context,
    Row,
    as_written,
    conditioned,
    describe_context,
    is_exact,
    normalised,
)
from speculative.oracle import Oracle, map_rows

__all__ = ["Automaton", "balanced_brackets", "constrain", "masked", "repetition_penalty"]

Allowed = Callable[[Context], NDArray[np.bool_]]


def repetition_penalty(oracle: Oracle, penalty: float | Fraction) -> Oracle:
    """Make the tokens that the context already holds less probable.

    Parameters
    ----------
    oracle : Oracle
        A target or a draft.
    penalty : float or Fraction
        Above 0: over 1 it discourages repetition, below 1 it encourages it, at 1 it does nothing.

    Returns
    -------
    Oracle
        Exact on exact rows, where a float is read as the decimal that is written: 1.2 is 6/5.

    Raises
    ------
    ValueError
        For a penalty that is not a positive number.

    Notes
    -----
    **Law.** Token x with probability proportional to p(x) / penalty if x is in the context, and to p(x) if
    not. Other rules exist. The one of CTRL (Keskar et al. 2019, section 4.1) divides positive logits and
    multiplies negative ones, so its result depends on a constant that the logits may be shifted by without
    changing the law; on probabilities it is not defined. This one takes log(penalty) off the logits of the
    seen tokens: what is called a presence penalty of log(penalty) elsewhere.
    """
    exact = as_written("repetition_penalty", penalty)
    if exact <= 0:
        raise ValueError(f"repetition_penalty got {penalty}: give a positive number, over 1 to discourage")
    return map_rows(oracle, partial(_penalised_row, exact))


def _penalised_row(penalty: Fraction, context: Context, row: Row) -> Row:
    seen = np.zeros(row.size, dtype=bool)
    seen[list(context)] = True
    if penalty == 1 or not row[seen].any() or not row[~seen].any():  # dividing none or all changes nothing
        return row
    weights = row.copy()
    weights[seen] = row[seen] / (penalty if is_exact(row) else float(penalty))
    return normalised(weights)


def masked(oracle: Oracle, allowed: Allowed) -> Oracle:
    """Rule out, after each context, the tokens that `allowed` does not allow there.

    Parameters
    ----------
    oracle : Oracle
        A target or a draft.
    allowed : callable
        ``allowed(context)`` -> bool array of shape (V,), True for the tokens that may come next: a pure
        function.

    Returns
    -------
    Oracle
        Exact on exact rows. At a call it raises a ValueError where no allowed token has any probability.
        Rows of a score that follow a token ruled out are not masked: `allowed` may have no answer there, and
        a lossless verifier never gets there (see :meth:`Oracle.score`).

    Notes
    -----
    **Law.** At each step, the row conditioned on the allowed tokens. Over a whole text this is not the
    oracle's law conditioned on texts that are allowed throughout: the mass of a dead end goes to the tokens
    beside it, not to the other texts.
    """
    return map_rows(oracle, partial(_mask, allowed), reachable_only=True)


def _mask(allowed: Allowed, context: Context, row: Row) -> Row:
    mask = np.asarray(allowed(context))
    where = f"context {describe_context(context)}"
    if mask.dtype != bool or mask.shape != row.shape:
        raise ValueError(
            f"the mask after {where} is {mask.dtype} of shape {mask.shape}: give bool of shape {row.shape}"
        )
    if not row[mask].any():
        raise ValueError(f"no allowed token has any probability after {where}: allow one that has some")
    return conditioned(row, mask)


@dataclass(frozen=True)
class Automaton:
    """A deterministic finite automaton that reads tokens: a grammar that needs no stack.

    Attributes
    ----------
    start : hashable
        The state before the first token.
    transitions : mapping of mappings
        ``transitions[state][token]`` is the state after `token`; a token without one may not come there.
        Every state lets some token follow, the last one too, because drafts may run past the end of a text:
        lead it back to itself on the end token.
    accepting : frozenset
        The states in which a text is complete.
    """

    start: Hashable
    transitions: Mapping[Hashable, Mapping[int, Hashable]]
    accepting: frozenset[Hashable]

    def __post_init__(self) -> None:
        reached = {state for following in self.transitions.values() for state in following.values()}
        for state in {self.start, *self.accepting, *reached}:
            if not self.transitions.get(state):
                raise ValueError(
                    f"no token may follow in state {state!r}: give transitions[{state!r}] some tokens"
                )

    def state(self, tokens: Sequence[int]) -> Hashable:
        """The state after reading `tokens` from the start.

        Parameters
        ----------
        tokens : sequence of int
            The text so far.

        Returns
        -------
        hashable
            A key of `transitions`.

        Raises
        ------
        ValueError
            At the first token that may not come where it does.
        """
        state = self.start
        for position, token in enumerate(tokens):
            if token not in self.transitions[state]:
                raise ValueError(
                    f"token {token} at position {position} may not come in state {state!r}: "
                    f"give a text of the grammar, or say with start_at where it begins"
                )
            state = self.transitions[state][token]
        return state

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Whether `tokens` are a complete text.

        Parameters
        ----------
        tokens : sequence of int
            A text, from its start.

        Returns
        -------
        bool
            False, too, for a text with a token that may not come where it does.
        """
        try:
            return self.state(tokens) in self.accepting
        except ValueError:
            return False


def constrain(oracle: Oracle, automaton: Automaton, start_at: int = 0) -> Oracle:
    """Let only texts of a grammar follow.

    Parameters
    ----------
    oracle : Oracle
        A target or a draft. A draft without the grammar is as good for the law, and rejected more often.
    automaton : Automaton
        The grammar.
    start_at : int
        The position in the context where the grammar begins, for example the length of a prompt of free text.
        Before it nothing is ruled out.

    Returns
    -------
    Oracle
        As of :func:`masked`. At a call it raises a ValueError for a context that is no text of the grammar.

    Raises
    ------
    ValueError
        For tokens outside the oracle's vocabulary and a negative `start_at`.
    """
    tokens = {token for following in automaton.transitions.values() for token in following}
    if min(tokens) < 0 or max(tokens) >= oracle.vocab_size:
        outside = min(tokens) if min(tokens) < 0 else max(tokens)
        raise ValueError(
            f"the automaton reads token {outside}: give one for tokens from 0 to {oracle.vocab_size - 1}"
        )
    if start_at < 0:
        raise ValueError(f"start_at is {start_at}: give a position, 0 or more")
    return masked(oracle, partial(_allowed, automaton, oracle.vocab_size, start_at))


def _allowed(automaton: Automaton, vocab_size: int, start_at: int, context: Context) -> NDArray[np.bool_]:
    mask = np.full(vocab_size, len(context) < start_at)
    if len(context) >= start_at:
        mask[list(automaton.transitions[automaton.state(context[start_at:])])] = True
    return mask


def balanced_brackets(
    open_token: int, close_token: int, end_token: int, max_depth: int, other: Iterable[int] = ()
) -> Automaton:
    """The automaton of balanced brackets.

    Parameters
    ----------
    open_token, close_token : int
        The brackets.
    end_token : int
        Ends a text, which it may do outside all brackets only. After it nothing comes but itself.
    max_depth : int
        How many brackets may be open at a time, 1 or more.
    other : iterable of int
        Tokens that may come anywhere before the end.

    Returns
    -------
    Automaton
        Its states are the number of open brackets, and "end". It accepts balanced texts, ended or not.

    Raises
    ------
    ValueError
        For a depth below 1, and for one token in two roles.
    """
    roles = [open_token, close_token, end_token, *other]
    if len(set(roles)) < len(roles):
        raise ValueError(f"balanced_brackets got tokens {roles}: give each role a token of its own")
    if max_depth < 1:
        raise ValueError(f"max_depth is {max_depth}: give 1 or more")
    transitions: dict[Hashable, dict[int, Hashable]] = {"end": {end_token: "end"}, 0: {end_token: "end"}}
    for depth in range(max_depth + 1):
        following = transitions.setdefault(depth, {})
        following.update(dict.fromkeys(roles[3:], depth))
        if depth < max_depth:
            following[open_token] = depth + 1
        if depth > 0:
            following[close_token] = depth - 1
    return Automaton(0, transitions, frozenset({0, "end"}))
