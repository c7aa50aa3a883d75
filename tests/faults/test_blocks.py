"""What block verification needs beyond one round, and the closed form of a rule with continuous draws."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
import pytest

from speculative import law, verify

from . import blocks
from .setups import TWO_DRAFTS, on_instance, rule


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_greedy_block_is_lossless_over_rounds_with_its_carry_and_lossy_at_once_without(rounds):
    """Without it one round is off by 1/16, see `blocks.greedy_without_the_carry`; more rounds repair nothing.

    Restricted to the tokens of the first round a longer block has the shorter one's law, so the distance can
    only grow.
    """
    lossy = on_instance(rule(blocks.greedy_without_the_carry), TWO_DRAFTS, rounds)
    assert Fraction(1, 16) <= lossy.distance < 1
    assert (lossy.distance == Fraction(1, 16)) == (rounds == 1)
    if rounds < 3:
        assert on_instance(rule(verify.greedy_block), TWO_DRAFTS, rounds).lossless


def test_products_of_two_uniforms_by_hand():
    """Weights b > a: the product is at most a with probability a (1 - log a).

    Else the first uniform alone is below b, the second above a / u: the integral of 1 - a / u from a to b.
    """
    b, a = 0.7, 0.2
    both = a * (1 - log(a))
    first = b - a - a * log(b / a)
    kept = law(blocks.by_products_of_uniforms, [b, a])
    assert kept == pytest.approx({2: both, 1: first, 0: 1 - both - first}, abs=1e-15)
    assert law(blocks.by_products_of_uniforms, [a, b]) == pytest.approx(
        {2: b * (1 - log(b)), 0: 1 - b * (1 - log(b))}, abs=1e-15
    )


@pytest.mark.parametrize(
    "weights", [(0.5, 0.7, 0.2), (0.9, 0.3, 0.6), (0.2, 0.1, 0.05), (1, 1, 0.5), (1, 0, 0)]
)
def test_products_of_three_uniforms_as_simulated(weights):
    """By Hoeffding, a frequency of 100,000 is .008 off with probability below 6e-6; fixed seed."""
    products = np.random.default_rng(3).random((100_000, 3)).cumprod(axis=1)
    passed = np.concatenate([np.ones((100_000, 1), dtype=bool), products <= weights], axis=1)
    kept = 3 - passed[:, ::-1].argmax(axis=1)
    expected = law(blocks.by_products_of_uniforms, weights)
    assert [np.mean(kept == i) for i in range(4)] == pytest.approx(
        [expected.get(i, 0) for i in range(4)], abs=0.008
    )
