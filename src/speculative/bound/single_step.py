"""The most that one step can accept: the best probability that a lossless rule emits one of the siblings.

Three ways to compute it, and they agree: a linear program (Sun et al. 2023, SpecTr, section 4), the least
value over subsets of the vocabulary, and over prefixes of an order of it (Hu et al. 2025).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np

from speculative import _numbers
from speculative.bound.program import Constraint, maximise
from speculative.chance import Number
from speculative.distribution import SUM_TOLERANCE, Row
from speculative.draft.siblings import Scheme, independent
from speculative.verify.flow import Group
from speculative.verify.transport_program import sets_of_siblings

MAX_VOCABULARY = 20
"""Beyond this `subset_formula` refuses: it goes through a million sets and more."""


class StepProgram(NamedTuple):
    """The linear program's solution.

    Parameters
    ----------
    acceptance : float
        The largest probability that one of the siblings is emitted.
    plan : dict
        plan[siblings][token]: the probability of emitting `token`, given the set of `siblings`.
    """

    acceptance: float
    plan: dict[Group, dict[int, float]]


def step_program(scheme: Scheme, row: Row, count: int, target: Row) -> StepProgram:
    """Return the best acceptance of one step by linear programming, with a plan that reaches it.

    Parameters
    ----------
    scheme : callable
        How siblings are drawn: `draft.independent`, `draft.without_replacement`, `draft.top_and_one`,
        `draft.hub` or any other.
    row : ndarray, shape (V,)
        The draft's law.
    count : int
        How many siblings.
    target : ndarray, shape (V,)
        The target's law; or weights of sum w < 1, for a step that is to emit anything with probability w.

    Returns
    -------
    StepProgram
        In floats, within about 1e-9: HiGHS rounds. `verify.transport` runs an exact plan.

    Raises
    ------
    ValueError
        Where siblings can be drawn in too many ways, and for rows and counts that are none.
    """
    count = _checked(row, count, target)
    supplies = sets_of_siblings(scheme, row, count)
    given: list[Constraint] = [({(group, i): 1 for i in group}, mass) for group, mass in supplies.items()]
    taken: list[Constraint] = [
        ({(group, i): 1 for group in supplies if i in group}, weight) for i, weight in enumerate(target)
    ]
    gains = {name: 1 for terms, _ in given for name in terms}
    acceptance, sent = maximise(gains, at_most=given + taken)
    plan = {group: {i: sent[group, i] / float(mass) for i in group} for group, mass in supplies.items()}
    return StepProgram(acceptance, plan)


def subset_formula(scheme: Scheme, row: Row, count: int, target: Row) -> Number:
    """Return the best acceptance of one step as the least value over all sets of tokens.

    A set H bounds it: tokens in H are emitted with target(H) at most, and tokens outside only where one of
    them was drawn. So it is at most target(H) + 1 - P(all siblings in H); the least of these is reached
    (a largest flow is a least cut).

    Parameters
    ----------
    scheme, row, count, target
        As for `step_program`. V up to `MAX_VOCABULARY`: there are 2^V sets.

    Returns
    -------
    Fraction or float
        Exact where the rows are.

    Raises
    ------
    ValueError
        As `step_program` does, and for a larger vocabulary.
    """
    count = _checked(row, count, target)
    if len(row) > MAX_VOCABULARY:
        raise ValueError(
            f"subset_formula goes through 2^{len(row)} sets of {len(row)} tokens: use prefix_formula or "
            f"step_program, or at most {MAX_VOCABULARY} tokens"
        )
    supplies = sets_of_siblings(scheme, row, count)
    return min(
        sum(target[list(kept)]) + 1 - sum(mass for group, mass in supplies.items() if kept.issuperset(group))
        for kept in _subsets(len(row))
    )


def _subsets(vocab_size: int) -> Iterator[frozenset[int]]:
    for size in range(vocab_size + 1):
        yield from map(frozenset, combinations(range(vocab_size), size))


def prefix_formula(scheme: Scheme, row: Row, count: int, target: Row) -> Number:
    """Return the best acceptance of one step as the least value over the prefixes of one order of the tokens.

    The order is that of rising target / row, tokens that are always among the siblings first. For
    independent draws P(all siblings in H) is row(H)^count, and it takes time O(V log V).

    Parameters
    ----------
    scheme, row, count, target
        As for `step_program`; any V for independent draws.

    Returns
    -------
    Fraction or float
        Exact where the rows are.

    Raises
    ------
    ValueError
        As `step_program` does; independent draws are never too many.

    Notes
    -----
    That prefixes are enough is known for independent draws and for draws without replacement (Hu et al.
    2025), and plain for `top_and_one` and `hub`, where one token beside the certain ones is drawn; the tests
    compare it with `subset_formula`. For a scheme of your own it is an upper bound.
    """
    count = _checked(row, count, target)
    if scheme is independent:
        order = _rising(row, target, certain=())
        inside = [drafted**count for drafted in accumulate(row[order], initial=0)]
    else:
        supplies = sets_of_siblings(scheme, row, count)
        order = _rising(row, target, certain=frozenset(range(len(row))).intersection(*supplies))
        rank = {token: place for place, token in enumerate(order)}
        ending = [0] * (
            len(row) + 1
        )  # ending[n]: the first n tokens of the order are the fewest that hold them
        for group, mass in supplies.items():
            ending[max(rank[token] for token in group) + 1] += mass
        inside = list(accumulate(ending))
    wanted = accumulate(target[order], initial=0)
    return min(kept + 1 - drawn for kept, drawn in zip(wanted, inside, strict=True))


def _rising(row: Row, target: Row, certain: frozenset[int] | tuple[()]) -> list[int]:
    """Return the tokens by rising target / row, those that are `certain` first, never drafted ones last."""

    def key(token: int) -> tuple[bool, bool, Number]:
        drafted = row[token] > 0
        return token not in certain, not drafted, target[token] / row[token] if drafted else 0

    return sorted(range(len(row)), key=key)


def _checked(row: Row, count: int, target: Row) -> int:
    """Return `count` as an int; raise where it is none, `row` no law, or `target` no weights beside it."""
    for name, weights in (("row", row), ("target", target)):
        if not isinstance(weights, np.ndarray) or weights.ndim != 1:
            kind = f"of shape {weights.shape}" if isinstance(weights, np.ndarray) else f"{weights!r}"
            raise ValueError(f"{name} is {kind}: give an array of one probability a token, shape (V,)")
        fit = np.asarray(weights >= 0, dtype=bool)  # not so for NaN
        if not fit.all():
            token = int(np.argmin(fit))
            raise ValueError(
                f"{name} has {weights[token]} for token {token}: give probabilities, none negative"
            )
    if len(row) != len(target):
        raise ValueError(f"row has {len(row)} tokens and target {len(target)}: give both one vocabulary")
    if abs(row.sum() - 1) > SUM_TOLERANCE.get(row.dtype, 0):
        raise ValueError(f"row sums to {row.sum()}, not to 1: give the law that siblings are drawn from")
    if target.sum() - 1 > SUM_TOLERANCE.get(target.dtype, 0):
        raise ValueError(f"target sums to {target.sum()}, more than 1: give a law or a part of one")
    return _numbers.count("count", count)
