"""k-SEQ: test independent drafts one after the other, all against the same scaled-down target.

Sun et al. 2023, "SpecTr: Fast speculative decoding via optimal transport", algorithm 2. The best scale rho is
irrational as a rule. Any larger one is exact as well and accepts a little less, so it is rounded up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from speculative.chance import Chance, Number
from speculative.distribution import Row, excess, is_exact
from speculative.draft.proposal import Draft, DraftTree
from speculative.draft.siblings import Siblings, independent
from speculative.verify.plan import Step, in_turn, walk, when_refused
from speculative.verify.recursive import recursive_plan
from speculative.verify.verdict import Verdict

STEPS = 2**30
"""The scale is a multiple of 1 / STEPS."""


def k_seq(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Go down the tree; at each node accept the first draw that passes with min(1, target / (rho draft)).

    Parameters
    ----------
    chance : Chance
        One `flip` per distinct sibling tried, one `pick` at the end.
    draft : DraftTree or Draft
        Siblings drawn independently, as by `draft.paths`; a single draw may come from any scheme.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i.

    Returns
    -------
    Verdict

    Raises
    ------
    ValueError
        For two or more siblings that were not drawn independently.

    Notes
    -----
    **Law.** The target's. A step on K draws accepts with probability 1 - (1 - beta)^K, where beta is the sum
    of min(draft, target / rho) and rho the one of `scale`.
    """
    return _k_seq(chance, draft, target_probs)


def k_seq_plan(siblings: Siblings, target: Row) -> Iterator[Step]:
    """Give each child the probability that the first draw to pass is one of its own.

    Parameters
    ----------
    siblings : Siblings
        K independent draws, repeats included: each is tested.
    target : ndarray, shape (V,)
        Weights of sum 1 at most; see `Plan`. Nothing in the rule asks for a sum of 1.

    Yields
    ------
    child, acceptance
    """
    row, count = siblings.row, len(siblings.tokens)
    if count == 1:  # rho is 1: token verification
        yield from recursive_plan(siblings, target)
        return
    if siblings.scheme is not independent:
        raise ValueError(
            f"k_seq was given {count} siblings that were not drawn independently: draft with draft.paths, or "
            "use verify.recursive"
        )
    rho = scale(row, target, count)
    shares = dict.fromkeys(siblings.nodes, 0 * rho)
    none: Number = 1  # the probability that no draw so far has passed
    for child, token in zip(siblings.nodes, siblings.tokens, strict=True):
        passes = min(1, target[token] / (rho * row[token]))
        shares[child] += none * passes
        none *= 1 - passes
    yield from in_turn(shares)
    passing, tests = _test(row, target, count, rho)
    yield None, when_refused(target, excess(target, tests * passing))


def scale(draft: Row, target: Row, count: int) -> Number:
    """Return the least rho, rounded up, with which no token is accepted more often than the target has it.

    Parameters
    ----------
    draft : ndarray, shape (V,)
        The law of each draw.
    target : ndarray, shape (V,)
        Weights of sum 1 at most.
    count : int
        How many draws, K.

    Returns
    -------
    Fraction or float
        A multiple of 1 / STEPS from 1 to K; a Fraction when the target's row is exact. It is found in floats,
        but exact rows are checked, and the scale raised where the floats were wrong.

    Notes
    -----
    Token x is accepted with probability `tests * passing[x]` (see `_test`), and passing[x] is at most
    target[x] / rho, so tests <= rho is enough. It is for rho = K, as there are K tests at most; and what is
    enough stays so as rho rises, since beta = passing.sum() makes it 1 - (1 - beta)^K <= rho beta, where the
    left side falls and the right side rises.
    """
    if is_exact(target):
        return _exact_scale(tuple(draft.tolist()), tuple(target.tolist()), count)
    return _float_steps(draft, target, count) / STEPS


def _float_steps(draft: Row, target: Row, count: int) -> int:
    steps = range(count * STEPS)
    return bisect_left(steps, True, lo=STEPS, key=lambda n: _suffices(draft, target, count, n / STEPS))


@lru_cache(maxsize=1024)  # an enumeration meets the same few rows on thousands of paths
def _exact_scale(draft: tuple[Number, ...], target: tuple[Number, ...], count: int) -> Fraction:
    steps, more = _float_steps(np.array(draft, dtype=float), np.array(target, dtype=float), count), 1
    row, goal = np.array(draft, dtype=object), np.array(target, dtype=object)
    while not _suffices(row, goal, count, Fraction(steps, STEPS)):
        steps, more = min(steps + more, count * STEPS), 2 * more
    return Fraction(steps, STEPS)


def _suffices(draft: Row, target: Row, count: int, rho: Number) -> bool:
    return bool(_test(draft, target, count, rho)[1] <= rho)


def _test(draft: Row, target: Row, count: int, rho: Number) -> tuple[Row, Number]:
    """Return the probabilities of drawing a token that passes, (V,), and the expected number of tests."""
    passing = np.minimum(rho * draft, target) / rho
    refused = 1 - passing.sum()
    return passing, sum(refused**i for i in range(count))


_k_seq = walk(k_seq_plan)
