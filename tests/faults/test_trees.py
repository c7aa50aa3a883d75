"""Trees: every wrong rule and every wrong declaration is reported, with its distance; right ones pass."""

from __future__ import annotations

from fractions import Fraction

import pytest

from speculative import paths, table
from speculative.battery import TREE_BATTERY
from speculative.draft import DraftTree, independent, top, without_replacement

from .setups import DRAFT, TARGET, TWO_DRAFTS, distance_on_f, on_instance, reported
from .tree_table import ALLOWED_TREES, DECLARED, TREES, on_trees
from .trees import as_declared, tree, tree_rule

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


def repeats_refused(chance, target, draws, after):
    """Recursive rejection, but a token that the declared law rules out is refused."""
    left = target
    for token, law in draws:
        if chance.flip(min(1, left[token] / law[token]) if law[token] else 0):
            return token, left
        left = after(left, law, token)
    return None, left


def test_independent_siblings_declared_without_replacement_as_repeats_are_judged():
    """A refused token comes again with .4 * .5 + .2 * .2 = .24. Accepted, it comes out. Refused, the residual
    of (0, 11/12, 1/12, 0) and the law without it is token 1 alone, so 1/12 of those .24 goes from token 2 to
    token 1: 1/50. Passed over, (0, 11/12, 1/12, 0) is left as it should be."""

    def distance(**parts):
        return distance_on_f(on_trees(tree_rule(**parts), declared=without_replacement))

    assert distance() == Fraction(24, 100)
    assert distance(test=repeats_refused) == Fraction(1, 50)
    passed_over = on_trees(tree_rule(draws=lambda siblings: as_declared(siblings.distinct())))
    assert distance_on_f(passed_over) == 0
    assert on_instance(passed_over, TWO_DRAFTS).lossless


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
