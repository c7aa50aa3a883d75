"""The most that joint coupling of one drafted path can accept: a bound that needs no program.

Sun et al. 2024, appendix on greedy block verification, which reaches it.
"""

from __future__ import annotations

from speculative._numbers import count
from speculative.chance import Number
from speculative.distribution import Context
from speculative.oracle import Oracle, check_vocabulary


def joint(target: Oracle, draft: Oracle, context: Context = (), *, num_draft_tokens: int) -> Number:
    """Return the sum over beginnings of min(target, draft), their joint probabilities.

    A beginning is accepted with its probability under the target at most, since it is then part of the
    output, and with its probability under the draft at most, since it must have been drafted.

    Parameters
    ----------
    target, draft : Oracle
        The two models.
    context : tuple of int
        Where the round starts.
    num_draft_tokens : int
        Tokens of the path, k.

    Returns
    -------
    Fraction or float
        Expected accepted drafts of one round, exact where the oracles are. V + ... + V^k terms at most.
    """
    check_vocabulary(target, draft)
    num_draft_tokens, context = count("num_draft_tokens", num_draft_tokens, 0), target.tokens(context)
    total: Number = 0
    beginnings: dict[Context, tuple[Number, Number]] = {(): (1, 1)}
    for _ in range(num_draft_tokens):
        beginnings = {
            (*tokens, token): (wanted * q, drafted * p)
            for tokens, (wanted, drafted) in beginnings.items()
            for token, (q, p) in enumerate(
                zip(target(context + tokens), draft(context + tokens), strict=True)
            )
            if wanted * q > 0 and drafted * p > 0
        }
        total += sum(map(min, beginnings.values()))
    return total
