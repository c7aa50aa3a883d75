"""The most that sets of tokens can hand to their tokens, none above what a token may take: a largest flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from speculative.chance import Number

Group = tuple[int, ...]
"""Distinct tokens in rising order."""


class Flow(NamedTuple):
    """What was handed on.

    Parameters
    ----------
    sent : dict
        sent[group][token]: how much of the group's supply went to the token.
    room : list, length V
        What each token could still take.
    """

    sent: dict[Group, dict[int, Number]]
    room: list[Number]


class _Push(NamedTuple):
    """A step of an augmenting path: `group` gives `token` what it now withdraws from `instead`, if any."""

    group: Group
    token: int
    instead: int | None


def largest_flow(supplies: Mapping[Group, Number], capacities: Sequence[Number]) -> Flow:
    """Return a flow of largest sum from the groups to their tokens.

    Shortest augmenting paths (Edmonds and Karp 1972) after a greedy start. Numbers are only compared, added
    and subtracted: Fractions give an exactly optimal flow, floats one that never exceeds a supply.

    Parameters
    ----------
    supplies : mapping from Group to number
        How much each group has to give, to any of its tokens.
    capacities : sequence of V numbers
        How much each token may take.

    Returns
    -------
    Flow
        Always the same one for the same arguments.
    """
    unsent, room = dict(supplies), list(capacities)
    sent: dict[Group, dict[int, Number]] = {group: dict.fromkeys(group, 0) for group in supplies}
    groups = [[group for group in supplies if token in group] for token in range(len(room))]
    for group in supplies:
        for token in group:
            _push([_Push(group, token, None)], unsent, room, sent)
    while pushes := _augmenting_path(unsent, room, sent, groups):
        _push(pushes, unsent, room, sent)
    return Flow(sent, room)


def _augmenting_path(
    unsent: Mapping[Group, Number],
    room: Sequence[Number],
    sent: Mapping[Group, Mapping[int, Number]],
    groups: Sequence[Sequence[Group]],
) -> list[_Push]:
    """Return a shortest path from a group with supply to a token with room, its last push first."""
    starts = (group for group, amount in unsent.items() if amount > 0)
    reached = {token: _Push(group, token, None) for group in starts for token in group}
    queue = list(reached)
    for token in queue:  # grows as it is read
        if room[token] > 0:
            pushes = [reached[token]]
            while (instead := pushes[-1].instead) is not None:
                pushes.append(reached[instead])
            return pushes
        for group in groups[token]:
            if sent[group][token] > 0:
                new = [other for other in group if other not in reached]
                reached.update((other, _Push(group, other, token)) for other in new)
                queue += new
    return []


def _push(
    pushes: Sequence[_Push],
    unsent: dict[Group, Number],
    room: list[Number],
    sent: dict[Group, dict[int, Number]],
) -> None:
    """Send as much along a path as all of it can take."""
    withdrawn = [sent[push.group][push.instead] for push in pushes if push.instead is not None]
    amount = min(room[pushes[0].token], unsent[pushes[-1].group], *withdrawn)
    room[pushes[0].token] -= amount
    unsent[pushes[-1].group] -= amount
    for group, token, instead in pushes:
        sent[group][token] += amount
        if instead is not None:
            sent[group][instead] -= amount
