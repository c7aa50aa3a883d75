"""How much of the optimum a verifier reaches.

The optimum is `whole`'s, for the same two models and the same way of drafting.
"""

from __future__ import annotations

from speculative.bound.whole import MAX_VARIABLES, whole
from speculative.chance import Chance, Number
from speculative.decode import Verify, speculate
from speculative.distribution import Context
from speculative.draft.proposal import Propose
from speculative.laws import law
from speculative.oracle import Oracle


def share(
    verify: Verify,
    target: Oracle,
    drafter: Propose,
    context: Context = (),
    *,
    num_draft_tokens: int,
    max_variables: int = MAX_VARIABLES,
) -> float:
    """Return how much of the optimum a verifier reaches: its expected accepted drafts over the best possible.

    Parameters
    ----------
    verify : callable
        The verifier.
    target, drafter, context, num_draft_tokens, max_variables
        As for `whole`.

    Returns
    -------
    float
        From 0 to 1 for a verifier that is lossless round by round; 1 where no draft can be accepted at all.

    Raises
    ------
    ValueError
        As `whole` does.
    """
    best = whole(
        target, drafter, context, num_draft_tokens=num_draft_tokens, max_variables=max_variables
    ).expected_accepted
    if best == 0:
        return 1.0
    return (
        float(expected_accepted(verify, target, drafter, context, num_draft_tokens=num_draft_tokens)) / best
    )


def expected_accepted(
    verify: Verify, target: Oracle, drafter: Propose, context: Context = (), *, num_draft_tokens: int
) -> Number:
    """Return the expected number of accepted drafts of one round, exact where the laws are.

    Parameters
    ----------
    verify, target, drafter, context, num_draft_tokens
        As for `share`.

    Returns
    -------
    Fraction or float
        The same as `prove(...).expected_accepted`, without the proof.
    """

    def accepted(chance: Chance) -> int:
        return speculate(
            chance, target, drafter, context, num_draft_tokens=num_draft_tokens, verify=verify
        ).accepted

    return law(accepted).mean()
