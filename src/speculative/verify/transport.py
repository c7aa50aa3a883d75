"""Optimal transport: accept one of the siblings as often as any lossless rule can.

The problem is Sun et al.'s (2023, SpecTr, section 4); its value by prefix sets is Hu et al.'s (2025); that a
choice of one draft followed by token verification reaches it is Khisti et al.'s (2025). The rule for
independent draws, exact and in O(V log V), is derived here, and written out in the page on trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from speculative.chance import Chance, Number
from speculative.distribution import Row, excess
from speculative.draft.proposal import Draft, DraftTree
from speculative.draft.siblings import Siblings, independent
from speculative.verify.multipath import power_difference
from speculative.verify.plan import Step, in_turn, lift, walk, when_refused
from speculative.verify.recursive import recursive_plan
from speculative.verify.transport_program import program_plan
from speculative.verify.verdict import Verdict


def transport(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Go down the tree; at each node accept a sibling by an optimal plan, or draw from the residual.

    Parameters
    ----------
    chance : Chance
        One `flip` per sibling up to the accepted one, one `pick` at the end.
    draft : DraftTree or Draft
        Independent siblings over any vocabulary; others over a small one (see `program_plan`).
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** The target's. At each node a sibling is accepted with the highest probability of all rules that
    keep the target's law; over a tree of more levels `lifted_transport` accepts more.
    """
    return _transport(chance, draft, target_probs)


def lifted_transport(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Do as `transport`, from the leaves up: see `lift`. The parameters and the result are the same.

    Notes
    -----
    **Law.** The target's. On a chain it is block verification.
    """
    return _lifted(chance, draft, target_probs)


def transport_plan(siblings: Siblings, target: Row) -> Iterator[Step]:
    """Choose one sibling so that no token is chosen more often than need be, then accept it or refuse all.

    Call the *rate* of a token how often it is chosen divided by how often it is drawn. Most is accepted when
    the tokens with most target per draft share all draws that meet any of them, none above its own ratio
    target / draft, and the others share the rest, none below it. Rates as even as that (`_rates`) are
    reached by a race (`_wins`): each draw takes a place (`_places`), and the first place wins.

    Parameters
    ----------
    siblings : Siblings
        The draws below a node.
    target : ndarray, shape (V,)
        Weights of sum 1 at most; see `Plan`.

    Yields
    ------
    child, acceptance
    """
    if len(siblings.tokens) == 1 or siblings.scheme is not independent:
        yield from (recursive_plan if len(siblings.tokens) == 1 else program_plan)(siblings, target)
        return
    row, count = siblings.row + 0 * target, len(siblings.tokens)  # the row in the target's kind
    race = _race(row, target, count) if row.dtype != object else _exact_race(count, *row, *target)
    ranks = race.rank[list(siblings.tokens)]
    shares = dict.fromkeys(siblings.nodes, 0 * row[0])
    for node, i, wins in zip(siblings.nodes, ranks, _wins(_places(race, ranks)), strict=True):
        shares[node] += wins * race.acceptance[i]
    yield from in_turn(shares)
    yield None, race.left


class _Race(NamedTuple):
    """What the plan of a row, a target and a number of draws has in common for all draws.

    `rank` (V,) is the place of each token; the others are by place: the draft's law, how often each place
    wins by its draws, what it has too much and what it lacks, in running totals, and how often the winner is
    accepted. `left` (V,) is drawn from where it is not.
    """

    rank: Row
    row: Row
    own: Row
    surplus: Row
    deficit: Row
    acceptance: Row
    left: Row


def _race(row: Row, target: Row, count: int) -> _Race:
    drawn = np.flatnonzero(row)
    order = drawn[np.argsort(-(target[drawn] / row[drawn]), kind="stable")]  # most wanted first
    drafted, wanted = row[order], target[order]  # [n]
    missed = _totals(drafted[::-1])[::-1]  # [n+1], the probability that a draw is not among the first i
    due = drafted * _rates(drafted, wanted, missed, count)  # [n], how often each token is to win
    own = power_difference(missed[:-1], missed[1:], count)  # [n], rates of places
    rank = np.zeros(len(row), dtype=int)
    rank[order] = np.arange(len(order))
    left = target.copy()
    left[order] = excess(wanted, due)
    return _Race(
        rank,
        drafted,
        own,
        surplus=_totals(excess(drafted * own, due)),
        deficit=_totals(excess(due, drafted * own)),
        acceptance=np.minimum(wanted, due) / np.where(due > 0, due, 1),
        left=when_refused(target, left),
    )


@lru_cache(maxsize=256)  # an enumeration meets the same few rows on thousands of paths
def _exact_race(count: int, *numbers: Number) -> _Race:
    row, target = np.array(numbers, dtype=object).reshape(2, -1)
    return _race(row, target, count)


def _rates(row: Row, wanted: Row, missed: Row, count: int) -> Row:
    """Return the rates, (n,), of tokens sorted by falling `wanted / row`.

    The first tokens, up to where the draws that meet them and what is wanted behind them are least together,
    have min(wanted / row, high), the rest max(wanted / row, low). Both levels use up the draws there are.
    """
    rates, sought, met = wanted / row, _totals(wanted), 1 - missed**count  # [n], [n+1], [n+1]
    first = int(np.argmin(met + sought[-1] - sought))
    if first:
        behind = sought[first] - sought[1 : first + 1]
        high = ((met[first] - behind) / _totals(row)[1 : first + 1]).max()
        rates[:first] = np.minimum(rates[:first], high)
    if first < len(row):
        ahead = sought[first:-1] - sought[first]
        low = ((missed[first] ** count - ahead) / missed[first:-1]).min()
        rates[first:] = np.maximum(rates[first:], low)
    return rates


def _places(race: _Race, ranks: Row) -> list[tuple[Row, Row]]:
    """Return for each draw the places it may take, rising, and with which probabilities.

    Each token has a place of its own, by its rank. One whose place wins more often than is due exchanges it,
    now and then, with tokens further on whose places win too seldom: first come, first served.
    """
    return [
        _exchanges(i, race, race.surplus, race.deficit)
        if race.surplus[i] < race.surplus[i + 1]
        else _exchanges(i, race, race.deficit, race.surplus)
        for i in ranks
    ]


def _exchanges(i: int, race: _Race, mine: Row, theirs: Row) -> tuple[Row, Row]:
    """Match what token i has too much (or too little) of with what others have too little (too much) of."""
    row, own, start, end = race.row[i], race.own, mine[i], mine[i + 1]
    first, last = np.searchsorted(theirs[1:], start, side="right"), np.searchsorted(theirs[:-1], end)
    others = np.arange(first, max(first, last))
    others = others[own[others] != own[i]]  # equal ones meet here through rounding alone
    exchanged = np.minimum(theirs[others + 1], end) - np.maximum(theirs[others], start)
    exchanged = exchanged / np.abs(own[others] - own[i])
    places = np.append(others, i)
    order = np.argsort(places)
    return places[order], np.append(exchanged, max(0, row - exchanged.sum()))[order] / row


def _totals(values: Row) -> Row:
    """Return the running totals, from 0 on, (n + 1,)."""
    return np.insert(np.cumsum(values), 0, 0)


def _wins(draws: list[tuple[Row, Row]]) -> list[Number]:
    """Return the probability that each draw takes the first place of all, one of those there at random."""
    places = np.unique(np.concatenate([taken for taken, _ in draws]))
    none = 0 * draws[0][1][0]
    here = np.full((len(draws), len(places)), none)  # [K, places]
    for each, (taken, probabilities) in zip(here, draws, strict=True):
        each[np.searchsorted(places, taken)] = probabilities
    behind = 1 - np.cumsum(here, axis=1)  # [K, places]
    return [_win(here, behind, i) for i in range(len(draws))]


def _win(here: Row, behind: Row, i: int) -> Number:
    """Integrate over where within its place draw i stands: the others stand behind it."""
    product = [np.ones_like(here[i])]  # coefficients of a polynomial in the share of the place behind it
    for j in range(len(here)):
        if j != i:
            product = [
                (product[n] * behind[j] if n < len(product) else 0) + (product[n - 1] * here[j] if n else 0)
                for n in range(len(product) + 1)
            ]
    return sum((here[i] * part / (n + 1)).sum() for n, part in enumerate(product))


_transport, _lifted = walk(transport_plan), lift(transport_plan)
