"""Threshold acceptance: SGLang's test of a draft by the target's probability alone. Lossy below 1 and 1.

SGLang, `tree_speculative_sampling_target_only`, with its options speculative-accept-threshold-single and
speculative-accept-threshold-acc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from speculative._numbers import Number, positive, probability
from speculative.chance import Chance
from speculative.distribution import Row
from speculative.draft.proposal import Draft, DraftTree
from speculative.draft.siblings import Siblings
from speculative.verify.plan import Step, walk
from speculative.verify.verdict import Verdict


def threshold(
    chance: Chance,
    draft: Draft | DraftTree,
    target_probs: Sequence[Row],
    *,
    threshold_single: Number = Fraction(1, 2),
    threshold_acc: Number = Fraction(1, 2),
) -> Verdict:
    """Accept a draft whose target probability reaches one threshold, or with that probability over another.

    Parameters
    ----------
    chance : Chance
        One `flip` per sibling tried, one `pick` at the end.
    draft : Draft or DraftTree
        A chain or a tree; the laws it was drawn from do not matter.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i.
    threshold_single : number in [0, 1]
        A draft with at least this target probability is accepted for sure.
    threshold_acc : number in (0, 1]
        One uniform is compared with the target probabilities of the siblings so far, summed up and divided
        by this. SGLang's defaults are 1 and 1.

    Returns
    -------
    Verdict

    Notes
    -----
    **Law.** The target's at 1 and 1 only; it is then `match`, with the siblings tried in turn. With one draft
    per position a draft x is accepted with probability b(x), 1 if target(x) >= threshold_single, else
    min(1, target(x) / threshold_acc): in all sum(draft * b). A token x comes out with probability
    draft(x) * b(x) + target(x) * sum of draft(y) (1 - b(y)) / (1 - target(y)) over the other tokens y.

    For a deterministic draft it is on the line of `bound.trade_off`. For a sampled one it is not, even at 1
    and 1, where it accepts sum(draft * target) and `token` accepts sum(min(draft, target)).
    """
    plan = partial(
        _plan,
        single=probability("threshold_single", threshold_single),
        total=positive("threshold_acc", probability("threshold_acc", threshold_acc)),
    )
    return walk(plan)(chance, draft, target_probs)


def _plan(siblings: Siblings, target: Row, *, single: Number, total: Number) -> Iterator[Step]:
    """Try each token once, against one uniform that is known to be at least `below` so far."""
    seen, below, left = target[0] * 0, target[0] * 0, np.array(target)
    for child, token in dict(zip(siblings.nodes, siblings.tokens, strict=True)).items():
        seen += target[token]
        reach = 1 if target[token] >= single else min(1, seen / total)
        if reach > below:
            yield child, min(1, (reach - below) / (1 - below))
            below = reach
        left[token] = 0
    yield None, left
