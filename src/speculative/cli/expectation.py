"""What a run brought, beside what it should have brought where a formula tells, else with an interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]  # scipy has no types

from speculative.chance import Number
from speculative.decode import Round
from speculative.distribution import Context, Row
from speculative.draft import Draft, Drafter, DraftTree
from speculative.metrics import statistics
from speculative.oracle import Oracle
from speculative.show import Comparison
from speculative.verify import typical

BATCHES, LEVEL = 10, 0.95  # of an interval: stretches of the run, coverage


def _token(target: Row, draft: Row) -> Number:
    return np.minimum(target, draft).sum()


def _lenient(target: Row, draft: Row) -> Number:
    return np.minimum(2 * target, draft).sum()  # lenience 1/2, the default


def _match(target: Row, draft: Row) -> Number:
    return (target * draft).sum()


def _greedy(target: Row, draft: Row) -> Number:
    return draft[target.argmax()]


def _typical(target: Row, draft: Row) -> Number:
    plausible = [
        token
        for token in map(int, np.flatnonzero(draft))
        if typical(_NOBODY, Draft((token,), (draft,)), (target, target)).accepted
    ]
    return draft[plausible].sum()


def _gumbel(target: Row, draft: Row) -> Number:
    return sum(
        1 / np.maximum(draft / draft[token], target / target[token]).sum()
        for token in map(int, np.flatnonzero(np.minimum(target, draft)))
    )


def _minhash(target: Row, draft: Row) -> Number:
    both = np.minimum(target, draft)
    return (both * (1 + abs(draft - target))).sum() / (2 - both.sum())


_NOBODY: Any = None  # typical acceptance asks nothing of chance

ACCEPTANCE: dict[str, Callable[[Row, Row], Number]] = {
    "token": _token,
    "greedy": _greedy,
    "match": _match,
    "gumbel": _gumbel,
    "minhash": _minhash,
    "typical": _typical,
    "lenient": _lenient,
}
"""Of verifiers that judge each draft of a chain by itself: the probability that one drawn from a row is
accepted, given the target's row. A verifier that is not here is run without an expectation."""


def acceptance(verifier: str, target: Row, draft: Row) -> Number:
    """Return what `ACCEPTANCE` gives, and 1 where rounding has summed it to a little more."""
    return min(ACCEPTANCE[verifier](target, draft), 1)


def recorded(drafter: Drafter, drafts: dict[int, Draft | DraftTree]) -> Drafter:
    """Return the same drafter, which leaves each draft in `drafts` under the length of its context."""

    def propose(chance: Any, context: Context, num_draft_tokens: int) -> Draft | DraftTree:
        draft = drafts[len(context)] = drafter(chance, context, num_draft_tokens)
        return draft

    return Drafter(propose, drafter.vocab_size, drafter.vocabulary)


def compare(
    verifier: str,
    target: Oracle,
    context: Context,
    rounds: Sequence[Round],
    drafts: Mapping[int, Draft | DraftTree],
) -> tuple[Comparison, list[Comparison]]:
    """Return the figures of a run: tokens per target pass, and acceptance by depth.

    Parameters
    ----------
    verifier : str
        Its name.
    target : Oracle
        As it was used.
    context : tuple of int
        The prompt.
    rounds : sequence of Round
        The run.
    drafts : mapping
        What `recorded` left.

    Returns
    -------
    tokens_per_pass : Comparison
    accepted : list of Comparison
        A draft at depth 1, 2, ... where one was judged.

    Notes
    -----
    They are expected where `ACCEPTANCE` has the verifier and all drafts were chains: given what came before
    it, the draft at a position is then accepted with the probability a of the formula. So the accepted drafts
    less the sum of all a are a martingale: whenever the run ends, its mean is 0 and its variance the mean of
    the sum of a(1 - a). Otherwise the intervals are those of `interval`, which allow for neighbours being
    alike.
    """
    if verifier in ACCEPTANCE and all(isinstance(draft, Draft) for draft in drafts.values()):
        return _expected(verifier, target, context, rounds, cast(Mapping[int, Draft], drafts))
    deepest = max(draft.depth for draft in drafts.values()) if drafts else 0
    tokens = _measured([len(one.tokens) for one in rounds], 1, 1 + deepest)
    return tokens, [_measured(judged, 0, 1) for judged in _judgements(rounds)]


def _judgements(rounds: Sequence[Round]) -> list[list[int]]:
    """At each depth, [rounds that judged there]: 1 where a draft was accepted."""
    depth = len(statistics(rounds).reached)
    judged = [(one.accepted, one.accepted + (one.last == "residual")) for one in rounds]
    return [[int(accepted > i) for accepted, reached in judged if reached > i] for i in range(depth)]


def _measured(values: Sequence[int], least: int, most: int) -> Comparison:
    """Return a mean with its interval, and none of fewer values than would tell."""
    mean, events = sum(values) / len(values), len(values)
    if events < 2 * BATCHES or least == most:
        return Comparison(mean, events)
    low, high = interval(values, least, most)
    return Comparison(mean, events, low=low, high=high)


def interval(values: Sequence[int], least: int, most: int) -> tuple[float, float]:
    """Return a confidence interval for the mean of a stationary series, inside what a mean can be.

    Parameters
    ----------
    values : sequence of n ints, n >= 2 `BATCHES`
        In the order they came, from `least` to `most`.
    least, most : int

    Returns
    -------
    low, high : float

    Notes
    -----
    Wilson's interval (1927) with Student's quantile, for as many independent values as would leave the mean
    the variance that the means of `BATCHES` stretches show; n where these are all the same. Measured coverage
    of independent values, 95 % nominal: 96 to 98 % of 40 and 100 with probability 0.8 or 0.95, where the mean
    plus and minus its error covers 88 to 95 %; of 400 that are each kept with probability 0.8, 88 to 94 %.
    """
    shares = (np.array(values, dtype=np.float64) - least) / (most - least)
    mean, t = shares.mean(), stdtrit(BATCHES - 1, (1 + LEVEL) / 2)
    variance = np.var([part.mean() for part in np.array_split(shares, BATCHES)], ddof=1) / BATCHES
    size = mean * (1 - mean) / variance if variance else len(values)
    middle, spread = mean + t**2 / (2 * size), t * np.sqrt(mean * (1 - mean) / size + t**2 / (4 * size**2))
    low, high = ((middle + side * spread) / (1 + t**2 / size) for side in (-1, 1))
    width = most - least
    return least + width * max(0.0, float(low)), least + width * min(1.0, float(high))


def _expected(
    verifier: str, target: Oracle, context: Context, rounds: Sequence[Round], drafts: Mapping[int, Draft]
) -> tuple[Comparison, list[Comparison]]:
    chances: list[list[float]] = [[] for _ in statistics(rounds).reached]  # [depth][judged there]
    for one in rounds:
        for position in range(one.accepted + (one.last == "residual")):
            draft = drafts[len(context)]
            row = target(context + draft.tokens[:position])
            chances[position].append(float(acceptance(verifier, row, draft.probs[position])))
        context += one.tokens
    accepted = [sum(judged) for judged in _judgements(rounds)]
    by_depth = [_comparison(count, some, len(some)) for count, some in zip(accepted, chances, strict=True)]
    everything = [chance for some in chances for chance in some]
    drafted = _comparison(sum(accepted), everything, len(rounds))
    assert drafted.expected is not None  # it was just computed
    return drafted._replace(measured=1 + drafted.measured, expected=1 + drafted.expected), by_depth


def _comparison(accepted: int, chances: Sequence[float], count: int) -> Comparison:
    error = math.sqrt(math.fsum(chance * (1 - chance) for chance in chances))
    return Comparison(accepted / count, count, math.fsum(chances) / count, error / count)
