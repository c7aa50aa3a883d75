"""The most that a whole round can accept: the best expected number of accepted drafts, over all verifiers.

One linear program over all lossless rules that look at the whole draft and know all of the target's laws, off
the draft too. For one path its optimum is block verification's (Thomas and Pal 2026).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from math import prod
from typing import Any, NamedTuple

from speculative._checks import check_draft, check_parts
from speculative._numbers import count
from speculative.bound.program import Constraint, maximise
from speculative.chance import Chance, Number
from speculative.distribution import Context
from speculative.draft.proposal import NO_DRAFT, Draft, DraftTree, Propose
from speculative.laws import Law, law
from speculative.oracle import Oracle, cached
from speculative.replay import PathTooLongError, Progress, TooManyPathsError

MAX_VARIABLES = 30_000
"""Beyond this a program is refused unless told otherwise: HiGHS takes a minute and more."""

REMEDY = "take fewer draft tokens, paths or tokens of vocabulary, or raise max_variables"

Paths = frozenset[Context]
"""A draft as the tokens that lead to each of its nodes, the root left out."""


class Optimum(NamedTuple):
    """The best that a lossless verifier can do, and the size of the program that says so.

    Parameters
    ----------
    expected_accepted : float
        Expected accepted drafts of a round.
    drafts : int
        In how many ways a round can be drafted; the same nodes drawn otherwise count once.
    variables : int
        Of the program.
    """

    expected_accepted: float
    drafts: int
    variables: int


def whole(
    target: Oracle,
    drafter: Propose,
    context: Context = (),
    *,
    num_draft_tokens: int,
    max_variables: int = MAX_VARIABLES,
    progress: Progress | None = None,
) -> Optimum:
    """Return the highest number of accepted drafts that a lossless verifier can expect in one round.

    Parameters
    ----------
    target : Oracle
        The target.
    drafter : callable
        The drafter, a chain's or a tree's: all its drafts are enumerated.
    context : tuple of int
        Where the round starts.
    num_draft_tokens : int
        Drafts on each path, k.
    max_variables : int
        Refuse a larger program, and more ways to draft than this; a draft may come in several.
    progress : callable, optional
        As for `law`, for the enumeration of drafts.

    Returns
    -------
    Optimum
        In floats, within about 1e-9.

    Raises
    ------
    ValueError
        For a program of more than `max_variables` variables, or as soon as there are too many ways to draft.

    Notes
    -----
    A verifier chooses, given the draft, a node to stop at and the token that it emits there. Only two laws
    matter: of the node given the draft, and of the token given the node. The output is lossless if for each
    string the outputs that begin with it and the shorter ones, continued by the target, add up to the
    target's probability of it. So the variables are the mass of each (draft, node), of each (node, token),
    and of the outputs that end before each string and go on to it; what stops nowhere else stops at the root.

    `greedy_block`, lossless only with what it carries to later rounds, can be above the optimum; so can a
    verifier that is not lossless.
    """
    num_draft_tokens = count("num_draft_tokens", num_draft_tokens, 0)
    check_parts(target, drafter, verify=callable)  # of a verifier there is nothing to check
    target, context = cached(target), target.tokens(context)
    drafts = _drafts(
        partial(_paths, target=target, drafter=drafter, context=context, num_draft_tokens=num_draft_tokens),
        max_variables,
        progress,
    )
    nodes = frozenset({()}).union(*drafts)
    size = sum(map(len, drafts)) + len(nodes) * (target.vocab_size + 1)
    if size > max_variables:
        raise ValueError(
            f"the program has {size} variables for {len(drafts)} drafts, more than {max_variables}: {REMEDY}"
        )
    gains = {(draft, node): len(node) for draft in drafts for node in draft}
    chosen: list[Constraint] = [
        ({(draft, node): 1 for node in draft}, mass) for draft, mass in drafts.items()
    ]
    lossless = [row for node in nodes for row in _lossless(target, context, node, nodes, drafts)]
    return Optimum(maximise(gains, at_most=chosen, equal=lossless)[0], len(drafts), size)


def _drafts(draw: Callable[[Chance], Paths], max_variables: int, progress: Progress | None) -> Law:
    """Return the law of the draft; refuse as soon as it is seen that the program is too large."""
    seen: set[Paths] = set()
    size = 0

    def counted(chance: Chance) -> Paths:
        nonlocal size
        draft = draw(chance)
        if draft not in seen:
            seen.add(draft)
            size += len(draft)
            if size > max_variables:
                raise ValueError(f"the program has more than {max_variables} variables: {REMEDY}")
        return draft

    try:
        return law(counted, max_paths=max_variables, progress=progress)
    except PathTooLongError:
        raise
    except TooManyPathsError:
        raise ValueError(f"drafts come in more than {max_variables} ways: {REMEDY}") from None


def _paths(
    chance: Chance, target: Oracle, drafter: Propose, context: Context, num_draft_tokens: int
) -> Paths:
    """Draft, and return the nodes that the target can reach."""
    draft = drafter(chance, context, num_draft_tokens) if num_draft_tokens else NO_DRAFT
    check_draft(draft, num_draft_tokens, target.vocab_size, context)
    return frozenset(_reached(draft, 0, target, context, ())) - {()}


def _reached(
    draft: Draft | DraftTree, node: int, target: Oracle, context: Context, tokens: Context
) -> Iterator[Context]:
    yield tokens
    siblings = draft.siblings(node)
    if siblings is not None:
        for child, token in dict(zip(siblings.nodes, siblings.tokens, strict=True)).items():
            if target(context + tokens)[token] > 0:
                yield from _reached(draft, child, target, context, (*tokens, token))


def _lossless(
    target: Oracle, context: Context, node: Context, nodes: Collection[Context], drafts: Collection[Paths]
) -> Iterator[Constraint]:
    """Yield what must be equal at a node: what stops there is emitted, and each longer string comes right.

    The variable `node` is the mass of the outputs that end before the node and are to go on to it.
    """
    emitted = {token: share for token, share in enumerate(target(context + node).tolist()) if share > 0}
    if node:
        stopped = {(draft, node): 1 for draft in drafts if node in draft}
        yield {**stopped, **{(node, token): -1 for token in emitted}}, 0
    for token, share in emitted.items():
        string = (*node, token)
        ended: dict[Any, Number] = {(node, token): 1, **({node: share} if node else {})}
        if string in nodes:
            yield {**ended, string: -1}, 0
        else:  # no draft goes on: all outputs have ended
            yield ended, _probability(target, context, string)


def _probability(target: Oracle, context: Context, tokens: Context) -> Number:
    return prod(target(context + tokens[:i])[token] for i, token in enumerate(tokens))
