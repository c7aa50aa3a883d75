"""What a run should have brought: the exact probability that each draft it judged is accepted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from speculative.chance import Number
from speculative.decode import Round
from speculative.distribution import Context, Row
from speculative.draft import Draft, Drafter
from speculative.oracle import Oracle
from speculative.show import Comparison
from speculative.verify import typical


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


_NOBODY: Any = None  # typical acceptance asks nothing of chance

ACCEPTANCE: dict[str, Callable[[Row, Row], Number]] = {
    "token": _token,
    "greedy": _greedy,
    "match": _match,
    "typical": _typical,
    "lenient": _lenient,
}
"""By verifier: the probability that a draft drawn from a row is accepted, given the target's row."""


def acceptance(verifier: str, target: Row, draft: Row) -> Number:
    """Return what `ACCEPTANCE` gives, and 1 where rounding has summed it to a little more."""
    return min(ACCEPTANCE[verifier](target, draft), 1)


def recorded(drafter: Drafter, drafts: dict[int, Draft]) -> Drafter:
    """Return the same drafter, which leaves each draft in `drafts` under the length of its context."""

    def propose(chance: Any, context: Context, num_draft_tokens: int) -> Draft:
        draft = drafts[len(context)] = drafter(chance, context, num_draft_tokens)
        return draft

    return Drafter(propose, drafter.vocab_size, drafter.vocabulary)


def compare(
    verifier: str, target: Oracle, context: Context, rounds: Sequence[Round], drafts: Mapping[int, Draft]
) -> tuple[Comparison, list[Comparison]]:
    """Compare a run with its expectation.

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
        Draft 1, 2, ... where it was reached.

    Notes
    -----
    Given what came before it, the draft at a position is accepted with the probability a that `acceptance`
    gives. So the accepted drafts less the sum of all a are a martingale: whenever the run ends, its mean is 0
    and its variance the mean of the sum of a(1 - a).
    """
    chances: list[list[float]] = []  # [position][judged there]
    accepted: list[int] = []
    for one in rounds:
        judged = min(one.accepted + 1, one.drafted)
        for position in range(judged):
            if position == len(chances):
                chances.append([])
                accepted.append(0)
            draft = drafts[len(context)]
            row = target(context + draft.tokens[:position])
            chances[position].append(float(acceptance(verifier, row, draft.probs[position])))
            accepted[position] += one.accepted > position
        context += one.tokens
    by_position = [_comparison(count, some, len(some)) for count, some in zip(accepted, chances, strict=True)]
    everything = [chance for some in chances for chance in some]
    drafted = _comparison(sum(accepted), everything, len(rounds))
    tokens = drafted._replace(measured=1 + drafted.measured, expected=1 + drafted.expected)
    return tokens, by_position


def _comparison(accepted: int, chances: Sequence[float], count: int) -> Comparison:
    error = math.sqrt(math.fsum(chance * (1 - chance) for chance in chances))
    return Comparison(accepted / count, math.fsum(chances) / count, error / count, count)
