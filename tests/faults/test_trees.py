"""Trees: every wrong rule and every wrong declaration is reported, with its distance; right ones pass."""

from __future__ import annotations

from fractions import Fraction

import pytest

from speculative import paths, table
from speculative.battery import TREE_BATTERY
from speculative.draft import DraftTree, independent, top, without_replacement

from .setups import DRAFT, TARGET, TWO_DRAFTS, distance_on_f, on_instance, reported
from .tree_table import ALLOWED_TREES, DECLARED, TREES
from .trees import tree

named = pytest.mark.parametrize("fault", TREES, ids=str)
allowed = pytest.mark.parametrize("name", ALLOWED_TREES)
SMALL = [instance for instance in TREE_BATTERY if instance.num_draft_tokens < 3]


@named
def test_the_distances_are_those_of_the_table(fault):
    assert distance_on_f(fault.build) == Fraction(fault.distance)
    assert on_instance(fault.build, TWO_DRAFTS).distance == Fraction(fault.joint)


@named
def test_none_survives_the_battery(fault):
    proofs = (on_instance(fault.build, instance) for instance in TREE_BATTERY)
    assert any(map(reported, proofs)), f"{fault} survives"


@allowed
def test_what_is_allowed_is_exact(name):
    assert distance_on_f(ALLOWED_TREES[name]) == 0
    for instance in (TWO_DRAFTS, *SMALL):
        proof = on_instance(ALLOWED_TREES[name], instance)
        assert proof.lossless, (instance.name, proof.worst)


def test_a_wrong_declaration_looks_like_progress():
    """Siblings declared independent are accepted more often than as what they are; see `DECLARED`."""
    right = on_instance(ALLOWED_TREES["without replacement"], TWO_DRAFTS).expected_accepted
    wrong = on_instance(DECLARED[0].build, TWO_DRAFTS).expected_accepted
    assert wrong > right


def trees_of(drafter, depth):
    return [path.outcome for path in paths(drafter, (), depth)]


def test_a_tree_refuses_a_repeat_where_it_is_declared_without_replacement():
    drawn = trees_of(tree(table(DRAFT), declared=without_replacement), 1)
    repeats = [one for one in drawn if len(one.tokens) == 1]
    assert len(repeats) == 4
    for one in repeats:
        with pytest.raises(ValueError, match="in its own law"):
            DraftTree(one.tokens, one.parents, one.draws)


@pytest.mark.parametrize("scheme", [independent, top, without_replacement])
def test_a_tree_takes_what_is_drawn_as_declared(scheme):
    for one in trees_of(tree(table(TARGET), drawn=scheme), 2):
        assert DraftTree(one.tokens, one.parents, one.draws).depth == 2
