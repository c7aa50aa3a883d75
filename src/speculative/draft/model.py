"""Draft from a model: a chain of tokens, each drawn from the oracle's law at its place.

Leviathan, Kalman and Matias 2023, algorithm 1, lines 1 to 4; Chen et al. 2023, algorithm 2, the inner loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from speculative.chance import Chance
from speculative.distribution import Context, Row
from speculative.draft.proposal import Draft, Drafter
from speculative.oracle.interface import Oracle, check_oracle


def model(oracle: Oracle, *, stop: Callable[[Row], bool] | None = None) -> Drafter:
    """Return a drafter that samples a chain from `oracle`.

    Parameters
    ----------
    oracle : Oracle
        The draft model; warp it before (`temperature(0.7)(oracle)`), so that the declared law is the
        sampled one.
    stop : callable, optional
        `stop(row) -> bool`, asked with the law of the next token *before* that token is drawn; True ends
        the draft there. See `low_confidence`.

    Returns
    -------
    Drafter
        One oracle call and one `pick` per token; ends early at the oracle's context limit.

    Raises
    ------
    ValueError
        For anything but an oracle, and a stop that is no function.

    Notes
    -----
    **Law.** Token i is drawn from `oracle(context + tokens[:i])`, which is the row declared for it. Where
    the draft ends depends on tokens already kept and on the law of the next one, never on a token that is
    then dropped: given that a token is in the draft its law is its row, so every lossless verifier stays
    lossless.
    """
    check_oracle("draft.model", oracle)
    if stop is not None and not callable(stop):
        raise ValueError(f"stop = {stop!r}: give a rule, such as draft.low_confidence(0.4)")
    return Drafter(partial(_chain, oracle, stop), oracle.vocab_size, oracle.vocabulary)


def _chain(
    oracle: Oracle,
    stop: Callable[[Row], bool] | None,
    chance: Chance,
    context: Context,
    num_draft_tokens: int,
) -> Draft:
    tokens: Context = ()
    probs: tuple[Row, ...] = ()
    for _ in range(num_draft_tokens):
        if oracle.context_limit is not None and len(context) + len(tokens) > oracle.context_limit:
            break
        row = oracle.row(context + tokens)
        if stop is not None and stop(row):
            break
        tokens, probs = (*tokens, chance.pick(row)), (*probs, row)
    return Draft(tokens, probs)
