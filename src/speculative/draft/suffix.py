"""Draft what most often followed the longest end of the context that was there before: a chain or a tree.

Oliaro et al. 2024, SuffixDecoding: a path's score is the product of its tokens' shares among what
followed, and the draft is the longer the longer the match. The paper's suffix trees hold other texts too;
here it is the context itself, which is searched as a string.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush

import numpy as np

from speculative._numbers import Number, count, positive
from speculative.chance import Chance
from speculative.distribution import Context, Row, point_mass
from speculative.draft.history import History, check_vocab_size
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter, DraftTree
from speculative.draft.siblings import Siblings, top


def suffix(
    vocab_size: int, *, max_match: int = 32, factor: float = 2, vocabulary: tuple[str, ...] | None = None
) -> Drafter:
    """Return a drafter of the most frequent continuation, token by token.

    Parameters
    ----------
    vocab_size : int
        V.
    max_match : int
        The longest end of the context looked for.
    factor : float
        So many tokens are drafted for each token of the match, rounded down.
    vocabulary : tuple of str, optional
        What each token stands for.

    Returns
    -------
    Drafter
        A chain, and nothing where the last token is new. No `chance` is asked.

    Raises
    ------
    ValueError
        For numbers that are no counts, a factor that is no positive number, and a vocabulary larger than that
        of characters.

    Notes
    -----
    Of equally frequent tokens the lower one is drafted. Every token after the match narrows the occurrences
    down to those that went on so.

    **Law.** The draft is a function of the context, so each token's law is a point mass: not its share among
    the continuations, of which it is the largest and was not drawn.
    """
    check_vocab_size("suffix", vocab_size)
    search = _Search(vocab_size, count("max_match", max_match), positive("factor", factor))
    return Drafter(partial(_chain, search), vocab_size, vocabulary)


def suffix_tree(
    vocab_size: int, *, max_match: int = 32, factor: float = 2, vocabulary: tuple[str, ...] | None = None
) -> Drafter:
    """Return a drafter of the most frequent continuations as a tree.

    Parameters are those of `suffix`; `factor` counts nodes, and `num_draft_tokens` bounds the paths.

    Returns
    -------
    Drafter
        A tree, of no nodes where the last token is new. No `chance` is asked.

    Raises
    ------
    ValueError
        As `suffix` does.

    Notes
    -----
    The nodes are those of the highest score: the product of the shares on the way there. Of equal ones the
    shorter path comes first, then that of the better parent, then that of the lower token.

    **Law.** The draft is a function of the context. Siblings are the first in the ranking of their shares,
    as `top` declares.
    """
    check_vocab_size("suffix_tree", vocab_size)
    search = _Search(vocab_size, count("max_match", max_match), positive("factor", factor))
    return Drafter(partial(_tree, search), vocab_size, vocabulary)


@dataclass(frozen=True)
class _Search:
    """How texts are searched; it keeps the string of the last one."""

    vocab_size: int
    max_match: int
    factor: Number
    history: History = field(default_factory=History)

    def __call__(self, context: Context) -> tuple[str, list[int], int]:
        """Return the text as a string, the places where it goes on after a match, and how much to draft."""
        string = self.history(context)
        matched, places = occurrences(string, self.max_match)
        return string, places, int(min(self.factor * matched, sys.maxsize))


def _chain(search: _Search, _: Chance, context: Context, num_draft_tokens: int) -> Draft:
    string, places, allowed = search(context)
    left = min(num_draft_tokens, allowed)
    tokens: Context = ()
    while left > len(tokens) and places:
        if len(places) == 1:  # one way to go on
            tokens += context[places[0] : places[0] + left - len(tokens)]
            break
        following = _following(string, places)
        drafted = max(sorted(following), key=lambda character: len(following[character]))
        tokens, places = (*tokens, ord(drafted)), following[drafted]
    rows = tuple(point_mass(token, search.vocab_size) for token in tokens)
    return Draft(tokens, rows) if tokens else NO_DRAFT


def _tree(search: _Search, _: Chance, context: Context, num_draft_tokens: int) -> DraftTree:
    string, places, num_nodes = search(context)
    tokens: list[int] = []
    parents: list[int] = []
    rows: dict[int, Row] = {}
    candidates: list[tuple[float, int, int, int, list[int]]] = []  # -score, depth, parent, token, places

    def offer(node: int, score: float, depth: int, places: list[int]) -> None:
        """Make candidates of the tokens that follow a node."""
        following = _following(string, places)
        total = sum(map(len, following.values()))
        row = rows[node] = np.zeros(search.vocab_size)
        for character, after in following.items():
            row[ord(character)] = share = len(after) / total
            heappush(candidates, (-score * share, depth, node, ord(character), after))
        row.setflags(write=False)

    if num_nodes and num_draft_tokens:
        offer(0, 1.0, 1, places)
    while candidates and len(tokens) < num_nodes:
        score, depth, parent, token, places = heappop(candidates)
        tokens.append(token)
        parents.append(parent)
        if depth < num_draft_tokens:
            offer(len(tokens), -score, depth + 1, places)
    return _declared(tokens, parents, rows)


def _declared(tokens: list[int], parents: list[int], rows: dict[int, Row]) -> DraftTree:
    """Return the tree of these nodes, whose siblings come in the order of their shares."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents, start=1):
        children.setdefault(parent, []).append(node)
    draws = {
        parent: Siblings(tuple(nodes), tuple(tokens[node - 1] for node in nodes), rows[parent], top)
        for parent, nodes in children.items()
    }
    return DraftTree(tuple(tokens), tuple(parents), draws, sampled=True)  # the first of each ranking


def occurrences(string: str, max_match: int) -> tuple[int, list[int]]:
    """Return how long the longest end of a string is that it has earlier too, and where it has it.

    Parameters
    ----------
    string : str
        A text.
    max_match : int
        The longest end looked for.

    Returns
    -------
    matched : int
        0 where even the last character is new.
    places : list of int
        Those of the characters that follow it, in order.
    """
    end = len(string) - 1  # an earlier one is followed by a character at least
    longest = min(max_match, end)
    matched, over = 0, 1  # what is an end of something longer that was there was there itself
    while over <= longest and string.find(string[-over:], 0, end) >= 0:
        matched, over = over, 2 * over
    over = min(over, longest + 1)
    while over - matched > 1:
        middle = (matched + over) // 2
        if string.find(string[-middle:], 0, end) >= 0:
            matched = middle
        else:
            over = middle
    places: list[int] = []
    if matched > 0:
        sought = string[-matched:]
        start = string.find(sought, 0, end)
        while start >= 0:
            places.append(start + matched)
            start = string.find(sought, start + 1, end)
    return matched, places


def _following(string: str, places: list[int]) -> dict[str, list[int]]:
    """Return each character at these places with the places after it; none for the end of the string."""
    following: dict[str, list[int]] = {}
    for place in places:
        if place < len(string):
            following.setdefault(string[place], []).append(place + 1)
    return following
