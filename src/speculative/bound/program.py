"""A linear program written as rows of named variables, solved by HiGHS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import csr_array  # type: ignore[import-untyped]  # scipy has no types

from speculative.chance import Number

Terms = Mapping[Any, Number]
Constraint = tuple[Terms, Number]
"""The sum of the terms, each a variable's coefficient, and what it is compared with."""

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # the least it takes


def maximise(
    gains: Terms, *, at_most: Sequence[Constraint], equal: Sequence[Constraint] = ()
) -> tuple[float, dict[Any, float]]:
    """Return the largest sum of gains and the values of the variables that reach it, in floats.

    Parameters
    ----------
    gains : mapping from variable to number
        What a unit of each variable brings; those that bring nothing may be left out. Variables are any
        hashable values, and none is negative.
    at_most, equal : sequence of (terms, bound)
        The constraints.

    Returns
    -------
    value, variables

    Raises
    ------
    RuntimeError
        Where HiGHS finds no solution; it says why.
    """
    from scipy.optimize import linprog  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load

    used = chain(gains, *(terms for terms, _ in (*at_most, *equal)))
    columns = {name: column for column, name in enumerate(dict.fromkeys(used))}
    costs = np.zeros(len(columns))
    for name, gain in gains.items():
        costs[columns[name]] = -float(gain)
    above, exact = _rows(at_most, columns), _rows(equal, columns)
    result = linprog(
        costs, A_ub=above[0], b_ub=above[1], A_eq=exact[0], b_eq=exact[1], method="highs", options=TIGHT
    )
    if not result.success:
        raise RuntimeError(f"HiGHS found no solution of the program: {result.message}")
    return 0.0 - float(result.fun), dict(zip(columns, result.x.tolist(), strict=True))


def _rows(
    constraints: Sequence[Constraint], columns: Mapping[Any, int]
) -> tuple[csr_array, list[float]] | tuple[None, None]:
    """Return a sparse matrix, (rows, variables), and what its rows are compared with."""
    entries = [
        (i, columns[name], float(value))
        for i, (terms, _) in enumerate(constraints)
        for name, value in terms.items()
    ]
    if not entries:
        return None, None
    at, column, values = zip(*entries, strict=True)
    bounds = [float(bound) for _, bound in constraints]
    return csr_array((values, (at, column)), shape=(len(bounds), len(columns))), bounds
