"""When to end a draft early: rules that read the next token's law before the token is drawn.

A rule that draws a token and then drops it because it looks poor is a different thing: it selects, the kept
tokens no longer have the declared law, and the output is biased.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from speculative._numbers import Number, positive, probability
from speculative.distribution import Row


def low_confidence(threshold: float) -> Callable[[Row], bool]:
    """Return a rule that ends the draft where the largest draft probability is below `threshold`.

    Kangaroo (Liu et al. 2024, section 3.2) stops so. A `threshold` outside [0, 1] is a ValueError.
    """
    return partial(_low_confidence, probability("threshold", threshold))


def low_entropy_bound(threshold: float, *, scale: float = 0.2) -> Callable[[Row], bool]:
    """Return a rule that ends the draft where 1 - sqrt(scale * entropy) is below `threshold`.

    AdaEDL (Agrawal et al. 2024): the expression bounds the acceptance probability from below. Entropy in
    nats. A `threshold` outside [0, 1] is a ValueError, and a `scale` that is not above 0.
    """
    return partial(_low_entropy_bound, probability("threshold", threshold), float(positive("scale", scale)))


def _low_confidence(threshold: Number, row: Row) -> bool:
    return bool(row.max() < threshold)


def _low_entropy_bound(threshold: Number, scale: float, row: Row) -> bool:
    positive = row[row > 0].astype(np.float64)
    entropy = -float((positive * np.log(positive)).sum())
    return bool(1 - np.sqrt(scale * entropy) < threshold)
