"""Lossy rules have an exact law too: what departs from it is reported, by the law written out by hand."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import exp, log

import numpy as np
import pytest

from speculative import BATTERY, rational, residual, verify

from .rules import token_rule
from .setups import DRAFT, OTHER_DRAFT, TARGET, first_token, on_f, rule

PAIRS = [(TARGET, DRAFT), (TARGET, OTHER_DRAFT)] + [
    (instance.target(context), instance.draft(context))
    for instance in BATTERY
    for context in ((), (0,), (1,))
    if len(instance.target(())) == 4
]
PAIRS += [(rational([".88", ".07", ".03", ".02"]), rational([".25", ".25", ".25", ".25"]))]
"""Rows of four tokens; the last has a probability between the thresholds of typical acceptance."""


def lenient_by_hand(target, small, lenience=Fraction(1, 2)):
    accepted = [min(q, p / lenience) for p, q in zip(target, small, strict=True)]
    rest = residual(target, small)
    return tuple(a + (1 - sum(accepted)) * r / sum(rest) for a, r in zip(accepted, rest, strict=True))


def typical_by_hand(target, small, epsilon=0.3, delta=0.3**0.5):
    entropy = -sum(float(p) * log(p) for p in target if p)
    plausible = [p > min(epsilon, delta * exp(-entropy)) for p in target]
    kept = [q if fine else Fraction(0) for q, fine in zip(small, plausible, strict=True)]
    kept[target.argmax()] += 1 - sum(kept)
    return tuple(kept)


def lenience_on_the_wrong_side(target, small, drafted, lenience=Fraction(1, 2)):
    return min(1, lenience * target[drafted] / small[drafted])


def lenient_ratio(target, small, drafted, lenience=Fraction(1, 2)):
    return min(1, target[drafted] / (lenience * small[drafted]))


def lenient_residual(target, small, drafted, lenience=Fraction(1, 2)):
    return residual(target, lenience * small)


def typical(threshold, fallback=lambda chance, row: int(row.argmax())):
    """Return typical acceptance with a threshold that is a function of the row's positive probabilities."""

    def rule(chance, draft, target_probs):
        for i, drafted in enumerate(draft.tokens):
            if not target_probs[i][drafted] > threshold(target_probs[i][target_probs[i] > 0].astype(float)):
                return (*draft.tokens[:i], fallback(chance, target_probs[i]))
        return (*draft.tokens, fallback(chance, target_probs[-1]))

    return rule


LOSSY = {
    "lenience on the wrong side": (token_rule(accept=lenience_on_the_wrong_side), lenient_by_hand),
    "residual of the lenient draft": (
        token_rule(accept=lenient_ratio, rest=lenient_residual),
        lenient_by_hand,
    ),
    "no lenience": (verify.token, lenient_by_hand),
    "typical: thresholds exchanged": (  # FasterDecoding/Medusa's defaults
        partial(verify.typical, epsilon=0.3, delta=0.09),
        partial(typical_by_hand, epsilon=0.09, delta=0.3),
    ),
    "typical: entropy in bits": (
        typical(lambda p: min(0.3, 0.3**0.5 * np.exp((p * np.log2(p)).sum()))),
        typical_by_hand,
    ),
    "typical: no entropy": (typical(lambda p: 0.3), typical_by_hand),
    "typical: rejected, then sampled": (
        typical(
            lambda p: min(0.3, 0.3**0.5 * np.exp((p * np.log(p)).sum())),
            fallback=lambda chance, row: chance.pick(row),
        ),
        typical_by_hand,
    ),
}
RIGHT = {
    "lenient": (verify.lenient, lenient_by_hand),
    "lenient, in parts": (token_rule(accept=lenient_ratio), lenient_by_hand),
    "typical": (verify.typical, typical_by_hand),
    "typical, in parts": (
        typical(lambda p: min(0.3, 0.3**0.5 * np.exp((p * np.log(p)).sum()))),
        typical_by_hand,
    ),
    "typical, Medusa's thresholds": (
        partial(verify.typical, epsilon=0.09, delta=0.3),
        partial(typical_by_hand, epsilon=0.09, delta=0.3),
    ),
}


def departures(function, by_hand):
    laws = [
        (first_token(on_f(rule(function), small, target)), by_hand(target, small)) for target, small in PAIRS
    ]
    return [law for law, expected in laws if law != expected]


@pytest.mark.parametrize("name", RIGHT)
def test_a_lossy_rule_has_the_law_that_is_claimed_for_it(name):
    assert not departures(*RIGHT[name])


@pytest.mark.parametrize("name", LOSSY)
def test_a_wrong_lossy_rule_is_reported(name):
    assert departures(*LOSSY[name])
