"""The shape of tree that is best for given acceptance rates: Sequoia's dynamic program.

Chen et al. 2024, Sequoia, section 3.1. The rates are positional: the i-th sibling is the accepted one with
probability rates[i], wherever it stands. A tree's expected number of accepted drafts is then a sum over its
nodes, of the product of the rates on the way there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speculative._numbers import Number, count, probability

ROUNDING = 1e-9
"""How far above 1 the sum of float rates may be."""


class TreeShape(NamedTuple):
    """The shape of a tree and what it brings.

    Parameters
    ----------
    parents : tuple of int
        parents[i] is the node that node i + 1 follows, 0 the root; level by level, siblings in their order.
    expected_accepted : Fraction or float
        Accepted drafts per round under the rates; a Fraction when all of them are.
    """

    parents: tuple[int, ...]
    expected_accepted: Number


def sequoia_shape(rates: Sequence[Number], num_nodes: int, max_depth: int | None = None) -> TreeShape:
    """Return the tree of at most `num_nodes` nodes with the most expected accepted drafts.

    Parameters
    ----------
    rates : sequence of Fraction or float
        rates[i] is the probability that sibling i is the accepted one, given that its parent was. They are
        not conditional on the refusal of those before it, so they sum to 1 at most. A node gets no more
        children than there are rates.
    num_nodes : int
        The budget, the root not counted, 1 or more.
    max_depth : int, optional
        The most drafts on a path; no limit by default.

    Returns
    -------
    TreeShape
        Of equally good trees one whose first siblings have the smallest subtrees. A node that would bring
        nothing is left out.

    Raises
    ------
    ValueError
        For rates that are no probabilities or sum to more than 1, and numbers that are no counts.

    Notes
    -----
    Let f(m) be the best value of m nodes below a node, and g_i(m) that of m nodes that are its children from
    the i-th on, with their subtrees. Then f = g_0 and g_i(m) = max over y of rates[i] (1 + f(y - 1)) +
    g_{i+1}(m - y), one level of depth at a time. It takes len(rates) num_nodes² steps a level, and levels are
    added until none brings anything.
    """
    num_nodes = count("num_nodes", num_nodes)
    max_depth = num_nodes if max_depth is None else count("max_depth", max_depth, 0)
    rates = check_rates(rates)
    left = np.subtract.outer(np.arange(num_nodes + 1), np.arange(1, num_nodes + 1))  # [m, y - 1]: m - y
    zeros = np.zeros(num_nodes + 1, dtype=object if any(isinstance(a, Fraction) for a in rates) else float)
    value = zeros  # value[m] is f(m)
    choices: list[list[NDArray[Any]]] = []
    while len(choices) < max_depth:
        siblings = zeros  # siblings[m] is g_i(m)
        taken: list[NDArray[Any]] = []
        for rate in reversed(rates[:num_nodes]):
            each = np.where(left >= 0, rate * (1 + value[:-1]) + siblings[left], 0)  # [m, y - 1]
            siblings = each.max(axis=1)
            taken.insert(0, np.where(siblings > 0, each.argmax(axis=1) + 1, 0))
        if (siblings == value).all():
            break
        value = siblings
        choices.append(taken)
    return TreeShape(_parents(choices, num_nodes), value.tolist()[-1])


def check_rates(rates: Sequence[Number]) -> tuple[Number, ...]:
    """Return rates as numbers, or raise where they are no probabilities or sum to more than 1."""
    checked = tuple(probability(f"rates[{i}]", rate) for i, rate in enumerate(rates))
    if sum(checked) > 1 + (0 if all(isinstance(rate, Fraction) for rate in checked) else ROUNDING):
        raise ValueError(
            f"rates sum to {float(sum(checked)):.6g}, more than 1: give the probability that each sibling is "
            "the accepted one, not that it is accepted once those before it were refused"
        )
    return checked


def _parents(choices: Sequence[Sequence[NDArray[Any]]], num_nodes: int) -> tuple[int, ...]:
    """Read the choices back, from the root down: how many nodes each sibling takes for its subtree."""
    parents: list[int] = []
    level = [(0, num_nodes)]  # nodes and how many stand below each
    for taken in reversed(choices):
        following = []
        for node, budget in level:
            left = budget
            for choice in taken:
                size = int(choice[left])
                if size == 0:
                    break
                parents.append(node)
                following.append((len(parents), size - 1))
                left -= size
        level = following
    return tuple(parents)
