"""Fuzzy verification: where draft and target are close enough, take the draft's word for it. Lossy.

Holsman et al. 2025, "Fuzzy speculative decoding for a tunable accuracy-runtime tradeoff".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from speculative._numbers import Number, number
from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft
from speculative.verify.divergence import jensen_shannon
from speculative.verify.instead import token_instead
from speculative.verify.verdict import Verdict


def fuzzy(
    chance: Chance,
    draft: Draft,
    target_probs: Sequence[Row],
    *,
    threshold: Number = 0.4,
    divergence: Callable[[Row, Row], Number] = jensen_shannon,
) -> Verdict:
    """Accept a draft for sure where the two rows diverge by less than a threshold, else as `token` does.

    Parameters
    ----------
    chance : Chance
        One `flip` per draft up to the first rejection, then one `pick`.
    draft : Draft
        k tokens with the laws they were drawn from.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].
    threshold : number, at least 0
        0 is token verification. The default is that of the authors' example.
    divergence : callable
        `divergence(target, draft) -> number`: `jensen_shannon` (in nats), `kullback_leibler` or
        `total_variation`, which is exact for exact rows.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** At a drafted position exactly the draft's where divergence(target, draft) < threshold, with
    acceptance 1, and exactly the target's elsewhere, with acceptance 1 - TV(target, draft): the two ends of
    the line of `bound.trade_off`. With total variation as divergence, the law of a token is less than
    the threshold away from the target's.
    """
    limit = number("threshold", threshold, low=0)
    return token_instead(chance, draft, target_probs, partial(_closer, limit, divergence))


def _closer(limit: Number, divergence: Callable[[Row, Row], Number], target: Row, draft: Row) -> Row:
    return draft if divergence(target, draft) < limit else target
