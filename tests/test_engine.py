"""Verifiers written for numpy, as engines write them."""

from functools import partial

import numpy as np
import pytest

from speculative import BATTERY, Draft, point_mass, prove, rational, sample, table, verify
from speculative.battery import TREE_BATTERY, proofs
from speculative.draft import DraftTree, Siblings, independent, lookup, model, paths
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


def recursively(rng, draft, target_probs):
    """Recursive rejection on a tree, in float64 arrays."""
    node, emitted = 0, []
    while True:
        target, siblings = target_probs[node], draft.siblings(node)
        node = None
        for child, token in zip(siblings.nodes, siblings.tokens, strict=True) if siblings else ():
            if rng.random() < target[token] / siblings.row[token]:
                node, emitted = child, [*emitted, token]
                break
            target = np.maximum(target - siblings.row, 0)
            target = target / target.sum()
        if node is None:
            return [*emitted, rng.choice(len(target), p=target)]


def test_engine_code_for_trees_is_proved_as_it_stands():
    two_paths = partial(paths, num_paths=2)
    instances = [one for one in TREE_BATTERY if one.target.vocab_size < 5 and one.num_draft_tokens < 3]
    given = {"make_drafter": two_paths, "instances": instances}
    for instance, proof in proofs(from_numpy(recursively), **given):
        assert proof.exact
        assert proof.distance <= proof.horizon * 2.0**-52
        same = instance.prove(verify.recursive, make_drafter=two_paths)
        assert float(proof.tokens_per_target_pass) == pytest.approx(float(same.tokens_per_target_pass))

    def one_row_on(rng, draft, target_probs):
        return recursively(rng, draft, np.roll(target_probs, -1, axis=0))

    assert max(proof.distance for _, proof in proofs(from_numpy(one_row_on), **given)) > 0.1


def test_of_a_tree_the_rows_are_float64_and_the_rest_is_as_it_was():
    row = rational(["1/2", "1/4", "1/4"])
    given = DraftTree((0, 1), (0, 0), {0: Siblings((1, 2, 1), (0, 1, 0), row, independent)})
    seen = []
    from_numpy(lambda rng, draft, target_probs: seen.append((draft, target_probs)))(None, given, [row] * 3)
    ((draft, target_probs),) = seen
    assert (draft.tokens, draft.parents) == (given.tokens, given.parents)
    assert draft.draws[0][:2] == given.draws[0][:2]
    assert draft.draws[0].scheme is independent
    assert draft.draws[0].row.dtype == target_probs.dtype == np.float64
    assert draft.draws[0].row.tolist() == [0.5, 0.25, 0.25]
    assert target_probs.shape == (3, 3)


def test_what_is_carried_is_handed_on():
    """Greedy block verification is lossless only with what it carries."""
    instance = next(one for one in BATTERY if one.name == "one-hot rows")

    def in_float64(rng, draft, target_probs, **carried):
        return sample(verify.greedy_block, draft, target_probs, rng=rng, **carried)

    def forgetful(rng, draft, target_probs, carried=()):
        return in_float64(rng, draft, target_probs)

    assert instance.prove(from_numpy(in_float64)).distance < 2**-50
    assert instance.prove(from_numpy(forgetful)).distance > 0.01
