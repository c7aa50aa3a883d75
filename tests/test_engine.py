"""Verifiers written for numpy, as engines write them."""

import numpy as np
import pytest

from speculative import BATTERY, Draft, point_mass, prove, rational, table
from speculative.battery import proofs
from speculative.draft import lookup, model
from speculative.verify import from_numpy


def in_arrays(rng, draft, target_probs):
    """Token verification for all positions at once, on float64 arrays."""
    positions, drafted = np.arange(len(draft.tokens)), list(draft.tokens)
    ratios = target_probs[positions, drafted] / draft.probs[positions, drafted]
    accepted = int((rng.random(len(drafted)) < ratios).cumprod().sum())
    row = target_probs[accepted]
    if accepted < len(drafted):
        row = np.maximum(row - draft.probs[accepted], 0)
    return [*drafted[:accepted], rng.choice(len(row), p=row / row.sum())]


def in_logarithms(rng, draft, target_probs):
    """A rule that no array of Fractions would go through."""
    with np.errstate(divide="ignore"):
        log_target, log_draft = np.log(target_probs), np.log(draft.probs)
    for i, token in enumerate(draft.tokens):
        if np.log(rng.random()) >= log_target[i, token] - log_draft[i, token]:
            left = np.maximum(target_probs[i] - draft.probs[i], 0)
            return [*draft.tokens[:i], rng.choice(len(left), p=left / left.sum())]
    return [*draft.tokens, rng.choice(len(target_probs[-1]), p=target_probs[-1])]


@pytest.mark.parametrize("function", [in_arrays, in_logarithms])
def test_engine_code_is_proved_as_it_stands_on_the_whole_battery(function):
    for _, proof in proofs(from_numpy(function)):
        assert proof.exact
        assert proof.distance <= proof.horizon * 2.0**-52


def test_a_fault_in_engine_code_is_reported():
    def next_row(rng, draft, target_probs):
        return in_arrays(rng, draft, np.roll(target_probs, -1, axis=0))

    assert max(proof.distance for _, proof in proofs(from_numpy(next_row))) > 0.1


def test_what_it_is_given_are_float64_arrays_whatever_the_rows():
    seen = []

    def look(rng, draft, target_probs):
        seen.append(
            (
                draft.tokens,
                draft.probs.dtype.name,
                draft.probs.shape,
                target_probs.dtype.name,
                target_probs.shape,
            )
        )
        assert isinstance(rng, np.random.Generator)
        return [0]

    target = table({(): rational(["1/2", "1/4", "1/4"])})
    prove(from_numpy(look), target, model(table({(): rational([1, 0, 0])})), num_draft_tokens=2)
    prove(from_numpy(look), target, lookup(3), num_draft_tokens=2)
    from_numpy(look)(None, Draft((2,), (point_mass(2, 3),)), [np.array([0.5, 0.25, 0.25])] * 2)
    assert {record[1:] for record in seen} == {
        ("float64", (2, 3), "float64", (3, 3)),
        ("float64", (0, 3), "float64", (1, 3)),
        ("float64", (1, 3), "float64", (2, 3)),
    }
    assert BATTERY[0].num_draft_tokens == 0
