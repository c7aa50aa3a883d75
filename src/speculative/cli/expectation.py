"""What a run brought, beside what it should have brought where a formula tells, else with an interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]  # scipy has no types

from speculative.chance import Number
from speculative.decode import Round
from speculative.distribution import Row
from speculative.draft import NO_DRAFT, Draft
from speculative.metrics import statistics
from speculative.show import Comparison
from speculative.verify import VERIFIERS, typical

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


class Watched:
    """A verifier of the table that keeps what it was given last, to be looked at between rounds.

    Parameters
    ----------
    verifier : str
        Its name.

    Attributes
    ----------
    depths : list of int
        How deep the draft of each round was.
    chances : list of lists of float, or None
        For each depth: the probabilities with which drafts were accepted there, of those that were judged.
        None where no formula tells.
    """

    def __init__(self, verifier: str) -> None:
        self._name, self._function = verifier, VERIFIERS[verifier].function
        self._last: tuple[Any, Any] = NO_DRAFT, ()
        self.depths: list[int] = []
        self.chances: list[list[float]] | None = [] if verifier in ACCEPTANCE else None

    def __call__(self, chance: Any, draft: Any, target_probs: Any, **carried: Any) -> Any:
        """Verify."""
        self._last = draft, target_probs
        return self._function(chance, draft, target_probs, **carried)

    def look(self, one: Round) -> None:
        """Look at what the verifier made this round of, before the next one comes."""
        draft, target_probs = self._last
        self.depths.append(draft.depth)
        if not isinstance(draft, Draft):
            self.chances = None
        if self.chances is None:
            return
        for position in range(one.accepted + (one.last == "residual")):
            if position == len(self.chances):
                self.chances.append([])
            chance = acceptance(self._name, target_probs[position], draft.probs[position])
            self.chances[position].append(float(chance))


def compare(rounds: Sequence[Round], watched: Watched) -> tuple[Comparison, list[Comparison]]:
    """Return the figures of a run: tokens per target pass, and acceptance by depth.

    Parameters
    ----------
    rounds : sequence of Round
        The run.
    watched : Watched
        Its verifier, which has looked at each of them.

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
    if watched.chances is not None:
        return _expected(rounds, watched.chances)
    tokens = _measured([len(one.tokens) for one in rounds], 1, 1 + max(watched.depths))
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
    rounds: Sequence[Round], chances: Sequence[Sequence[float]]
) -> tuple[Comparison, list[Comparison]]:
    accepted = [sum(judged) for judged in _judgements(rounds)]
    by_depth = [_comparison(count, some, len(some)) for count, some in zip(accepted, chances, strict=True)]
    everything = [chance for some in chances for chance in some]
    drafted = _comparison(sum(accepted), everything, len(rounds))
    assert drafted.expected is not None  # it was just computed
    return drafted._replace(measured=1 + drafted.measured, expected=1 + drafted.expected), by_depth


def _comparison(accepted: int, chances: Sequence[float], count: int) -> Comparison:
    error = math.sqrt(math.fsum(chance * (1 - chance) for chance in chances))
    return Comparison(accepted / count, count, math.fsum(chances) / count, error / count)
