"""The law of the float code: `sample` itself, enumerated over every uniform on its grid."""

from fractions import Fraction
from math import ceil

import pytest

from speculative import BATTERY, VERIFIERS, law, prove, temperature, verify
from speculative.battery import random_instance
from speculative.draft import model
from speculative.oracle import map_rows

LOSSLESS = [name for name, entry in VERIFIERS.items() if entry.lossless]
GRIDS = {"float64": 53, "float32": 24, "float16": 11}
INSTANCES = [*BATTERY[:7], random_instance(1, 3, 2), random_instance(4, 5, 2)]


def in_floats(context, row):
    return row.astype(float)


def float_distance(name, instance, arithmetic):
    """Return the distance of the float code on float rows from the exact target, and the steps in a block."""
    entry = VERIFIERS[name]
    target = instance.target
    proof = prove(
        entry.function,
        map_rows(target, in_floats),
        model(map_rows(instance.draft, in_floats)),
        num_draft_tokens=instance.num_draft_tokens,
        reference=entry.target_warp(target) if entry.target_warp else target,
        arithmetic=arithmetic,
    )
    assert proof.exact, "the law of float code is rational: thresholds on a grid"
    return proof.distance, proof.horizon


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda instance: instance.name)
@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("arithmetic", GRIDS)
def test_the_float_code_is_within_one_grid_step_a_token_of_the_target(name, instance, arithmetic):
    distance, steps = float_distance(name, instance, arithmetic)
    assert distance <= steps * Fraction(1, 2 ** GRIDS[arithmetic])


def test_a_flip_accepts_with_its_probability_rounded_up_to_the_grid():
    for arithmetic, bits in GRIDS.items():
        for probability in (1 / 3, 0.1, 0.5, 1.0, 2.0**-60):
            heads = law(lambda chance, p=probability: chance.flip(p), arithmetic=arithmetic).get(True, 0)
            assert heads == Fraction(ceil(Fraction(probability) * 2**bits), 2**bits)


def test_a_pick_has_the_steps_of_its_cumulative_shares():
    weights = [0.1, 0.2, 0.7]
    for arithmetic, bits in GRIDS.items():
        picked = law(lambda chance: chance.pick(weights), arithmetic=arithmetic)
        edges = [
            0,
            *(
                ceil(Fraction(share) * 2**bits)
                for share in (0.1 / (0.1 + 0.2 + 0.7), (0.1 + 0.2) / (0.1 + 0.2 + 0.7))
            ),
            2**bits,
        ]
        assert picked == {i: Fraction(edges[i + 1] - edges[i], 2**bits) for i in range(3)}


def test_a_coarser_grid_is_further_off():
    instance = random_instance(1, 3, 2)
    distances = [float_distance("token", instance, arithmetic)[0] for arithmetic in GRIDS]
    assert 0 < distances[0] < distances[1] < distances[2]


def test_greedy_decoding_draws_nothing_and_rounds_nothing():
    for instance in INSTANCES:
        target = temperature(0)(instance.target)
        proof = prove(verify.greedy, target, model(target), num_draft_tokens=2, arithmetic="float16")
        assert proof.lossless


def test_a_wrong_rule_is_far_off_in_floats_too():
    instance = BATTERY[1]
    proof = prove(verify.typical, instance.target, instance.drafter, num_draft_tokens=1, arithmetic="float64")
    assert proof.distance > Fraction(1, 10)
