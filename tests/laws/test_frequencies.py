"""Sampled text against the exact law.

For n draws from a law with m outcomes, P(TV(frequencies, law) >= t) <= 2**m * exp(-2 n t**2) (Weissman et
al. 2003). With the numbers below each test raises a false alarm with probability at most 1e-10, and reports,
with the same confidence, any law at a distance of 2 t or more.
"""

import math
from collections import Counter

import numpy as np
import pytest

from speculative import VERIFIERS, autoregress, generate, law, rational, sample, sample_exactly, table
from speculative.draft import model

FALSE_ALARM = 1e-10
DRAWS = 10_000

TARGET = table(
    {
        (): rational(["1/2", "3/10", "1/5"]),
        (0,): rational(["1/5", "1/5", "3/5"]),
        (1,): rational([0, ".7", ".3"]),
    }
)
DRAFT = table(
    {(): rational(["1/5", "3/10", "1/2"]), (0,): rational(["3/5", "1/5", "1/5"]), (1,): rational(["1/3"] * 3)}
)


def threshold(outcomes):
    return math.sqrt((outcomes * math.log(2) + math.log(1 / FALSE_ALARM)) / (2 * DRAWS))


def distance_of_draws(draws, exact):
    counts = Counter(draws)
    frequencies = {outcome: count / len(draws) for outcome, count in counts.items()}
    return float(exact.distance(frequencies))


EXACT = law(autoregress, TARGET, max_new_tokens=3).map(lambda made: made.tokens)


def drawn(how, **options):
    rng = np.random.default_rng(20240601)
    return [
        how(generate, TARGET, model(DRAFT), max_new_tokens=3, num_draft_tokens=2, rng=rng, **options).tokens
        for _ in range(DRAWS)
    ]


@pytest.mark.parametrize("how", [sample, sample_exactly])
@pytest.mark.parametrize("name", ["token", "match"])
def test_generated_text_has_the_law_of_the_target(how, name):
    draws = drawn(how, verify=VERIFIERS[name].function)
    assert distance_of_draws(draws, EXACT) < threshold(len(EXACT))


@pytest.mark.parametrize("name", ["typical", "lenient"])
def test_a_lossy_rule_is_noticed(name):
    verifier = VERIFIERS[name].function
    exact_distance = (
        law(generate, TARGET, model(DRAFT), max_new_tokens=3, num_draft_tokens=2, verify=verifier)
        .map(lambda made: made.tokens)
        .distance(EXACT)
    )
    assert exact_distance > 2 * threshold(len(EXACT)), "within the power stated above"
    assert distance_of_draws(drawn(sample, verify=verifier), EXACT) > threshold(len(EXACT))
