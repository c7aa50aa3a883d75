"""Optimal transport for siblings drawn in any way, over a small vocabulary: the program itself is solved.

Sun et al. 2023, SpecTr, section 4: the acceptances solve a linear program, with a variable for each way to
draw the siblings and each token drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from speculative.chance import Chance, Number
from speculative.distribution import Row
from speculative.draft.siblings import Scheme, Siblings, draw_siblings
from speculative.laws import Law, law
from speculative.replay import TooManyPathsError
from speculative.verify.flow import Flow, Group, largest_flow
from speculative.verify.plan import Step, in_turn, when_refused

MAX_VARIABLES = 20_000
"""Beyond this `program_plan` refuses: a solution takes seconds."""


def program_plan(siblings: Siblings, target: Row) -> Iterator[Step]:
    """Accept a sibling with the highest probability that any rule reaches on siblings drawn like these.

    The program is a transport from sets of siblings to tokens. It is solved as a largest flow, which only
    compares, adds and subtracts: in Fractions the plan is exactly valid and exactly optimal.

    Parameters
    ----------
    siblings : Siblings
        The draws below a node, of any scheme.
    target : ndarray, shape (V,)
        Weights of sum 1 at most; see `Plan`.

    Yields
    ------
    child, acceptance

    Raises
    ------
    ValueError
        Where siblings can be drawn in too many ways: about V to the number of them.
    """
    children = dict(zip(siblings.tokens, siblings.nodes, strict=True))
    count = len(siblings.tokens)
    supplies, flow = _solved(siblings.scheme, count, *siblings.row.tolist(), *target.tolist())
    group = tuple(sorted(children))
    yield from in_turn({children[i]: flow.sent[group][i] / supplies[group] for i in group})
    yield None, when_refused(target, np.array(flow.room))


@lru_cache(maxsize=1024, typed=True)  # typed: 1/2 and 0.5 are equal keys, and not the same plan
def _solved(scheme: Scheme, count: int, *numbers: Number) -> tuple[Law, Flow]:
    row, target = np.array(numbers[: len(numbers) // 2]), numbers[len(numbers) // 2 :]
    supplies = sets_of_siblings(scheme, row, count)
    return supplies, largest_flow(supplies, target)


def sets_of_siblings(scheme: Scheme, row: Row, count: int) -> Law:
    """Return the law of the set of tokens that are drawn, each set as a `Group`.

    Parameters
    ----------
    scheme : callable
        How they are drawn.
    row : ndarray, shape (V,)
        The draft's law at their parent.
    count : int
        How many are drawn.

    Returns
    -------
    Law

    Raises
    ------
    ValueError
        For more than `MAX_VARIABLES` ways to draw them, times their number.
    """

    def drawn(chance: Chance) -> Group:
        return tuple(sorted(set(draw_siblings(chance, scheme, row, count))))

    try:
        return law(drawn, max_paths=MAX_VARIABLES // count)
    except TooManyPathsError:
        tokens = int(np.count_nonzero(row))
        raise ValueError(
            f"transport of {count} siblings over {tokens} tokens is a program of up to "
            f"{count * tokens**count} variables, more than {MAX_VARIABLES}: use verify.transport with "
            "independent draws, or verify.recursive"
        ) from None
