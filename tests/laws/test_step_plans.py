"""Plans that are solved for: the largest flow, the transport program, the canonical decomposition."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import law, prove, rational, table, verify
from speculative.battery import TREE_BATTERY
from speculative.bound import prefix_formula, subset_formula
from speculative.draft import (
    Siblings,
    draw_siblings,
    hub,
    independent,
    paths,
    top,
    top_and_one,
    tree,
    without_replacement,
)
from speculative.oracle import from_probs
from speculative.testing import near_rows, pairs, rows
from speculative.verify.canonical import canonical_plan
from speculative.verify.flow import largest_flow
from speculative.verify.plan import lift, walk
from speculative.verify.transport_program import program_plan

SCHEMES = [independent, without_replacement, top, top_and_one, hub]
TARGET, DRAFT = rational([".5", ".3", ".2"]), rational([".2", ".3", ".5"])


@st.composite
def steps(draw, largest_vocabulary=4):
    """A draft row, target weights of sum 1 or less, and a number of siblings."""
    row = draw(st.integers(2, largest_vocabulary).flatmap(rows))
    target = draw(st.one_of(rows(len(row)), near_rows(row)))
    weight = draw(st.sampled_from([Fraction(1), Fraction(2, 3), Fraction(1, 5)]))
    return row, weight * target, draw(st.integers(1, 3))


def step(chance, plan, scheme, row, count, target):
    """Draw siblings and run a plan on them; return (token, was it accepted), or None for nothing."""
    tokens = draw_siblings(chance, scheme, row, count)
    nodes = tuple(tokens.index(token) + 1 for token in tokens)
    for child, value in plan(Siblings(nodes, tokens, row, scheme), target):
        if child is None:
            break
        if chance.flip(value):
            return tokens[nodes.index(child)], True
    return (chance.pick(value), False) if chance.flip(value.sum()) else None


def check_valid(outcomes, target):
    """Assert that every token is emitted as often as the weights say."""
    for token, weight in enumerate(target):
        assert sum(outcomes.get((token, accepted), 0) for accepted in (False, True)) == weight


def acceptance(outcomes):
    return sum(mass for outcome, mass in outcomes.items() if outcome is not None and outcome[1])


@pytest.mark.parametrize("scheme", SCHEMES)
@given(step_of=steps())
def test_the_program_keeps_the_law_and_accepts_what_the_formula_says(scheme, step_of):
    row, target, count = step_of
    outcomes = law(step, program_plan, scheme, row, count, target)
    assert outcomes.exact
    check_valid(outcomes, target)
    assert acceptance(outcomes) == subset_formula(scheme, row, count, target)


@given(steps(largest_vocabulary=3))
def test_the_canonical_decomposition_keeps_the_law_and_of_two_accepts_what_the_formula_says(step_of):
    row, target, count = step_of
    outcomes = law(step, canonical_plan, independent, row, count, target)
    assert outcomes.exact
    check_valid(outcomes, target)
    best = prefix_formula(independent, row, count, target)
    assert acceptance(outcomes) <= best
    if count <= 2:
        assert acceptance(outcomes) == best


@pytest.mark.parametrize(
    ("count", "most"), [(1, Fraction(7, 10)), (2, Fraction(86, 100)), (3, Fraction(988, 1000))]
)
def test_canonical_worked_example(count, most):
    """The most for q = (.5, .3, .2) and p = (.2, .3, .5) is derived in tests/test_bound.py; here the
    tournament of three reaches it, too."""
    proof = prove(verify.canonical, table(TARGET), paths(table(DRAFT), count), num_draft_tokens=1)
    assert proof.lossless
    assert proof.expected_accepted == Fraction(most)


def test_a_tournament_of_three_can_accept_less_than_the_most():
    """For p = 1/3 each, q = (1/4, 0, 3/4) the set {0, 1} gives 1/4 + 1 - 8/27 = 103/108. The first choice is
    the best for a pair: 2 wherever it is drawn, 5/9, and 0 with 1/4 of the other 4/9. The pairs (0, 1) have
    1/12 to spare, half of it for 1, which is chosen with 1/9 + 1/24 = 11/72. The second choice is between two
    1s with 11/216, and 0 or 2 is taken otherwise: 205/216."""
    row, target = rational(["1/3"] * 3), rational(["1/4", "0", "3/4"])
    assert prefix_formula(independent, row, 3, target) == Fraction(103, 108)
    outcomes = law(step, canonical_plan, independent, row, 3, target)
    assert acceptance(outcomes) == Fraction(205, 216)
    check_valid(outcomes, target)


@settings(max_examples=8)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 2)))
def test_trees_of_every_kind_keep_the_law(pair):
    for drafter in (
        paths(pair.draft, num_paths=2),
        tree(pair.draft, branching=(2, 2), scheme=hub),
        tree(pair.draft, branching=(2, 1), scheme=without_replacement),
        tree(pair.draft, branching=(3, 1), scheme=top_and_one),
    ):
        for verifier in (walk(program_plan), lift(program_plan)):
            assert prove(verifier, pair.target, drafter, num_draft_tokens=pair.num_draft_tokens).lossless
    verifier = lift(canonical_plan)
    drafter = paths(pair.draft, num_paths=2)
    assert prove(verifier, pair.target, drafter, num_draft_tokens=pair.num_draft_tokens).lossless


@settings(max_examples=15)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 2)))
def test_on_a_chain_both_are_token_verification_and_lifted_block_verification(pair):
    options = {"num_draft_tokens": pair.num_draft_tokens}
    for plan in (program_plan, canonical_plan):
        assert prove(walk(plan), pair.target, pair.drafter, **options) == prove(
            verify.token, pair.target, pair.drafter, **options
        )
        assert prove(lift(plan), pair.target, pair.drafter, **options) == prove(
            verify.block, pair.target, pair.drafter, **options
        )


def in_floats(oracle):
    return from_probs(lambda context: oracle(context).astype(float), oracle.vocab_size)


@pytest.mark.parametrize("verifier", [walk(program_plan), lift(program_plan), walk(canonical_plan)])
def test_in_floats_they_are_off_by_rounding_only(verifier):
    for instance in TREE_BATTERY:
        if instance.target.vocab_size * instance.num_draft_tokens <= 6:
            drafter = paths(in_floats(instance.draft), num_paths=2)
            options = {"num_draft_tokens": instance.num_draft_tokens, "reference": instance.target}
            assert prove(verifier, in_floats(instance.target), drafter, **options).distance < 1e-12


def test_a_pair_whose_probability_underflows_is_left_out():
    """Token 0 twice has probability 1e-400, which is 0 in floats; it is refused."""
    row, target = np.array([1e-200, 0.5, 0.5]), np.array([0.0, 0.25, 0.75])
    outcomes = law(step, canonical_plan, independent, row, 2, target)
    assert acceptance(outcomes) == pytest.approx(1, abs=1e-12)


def test_the_same_laws_in_floats_and_fractions_are_solved_each_by_itself():
    """1/2 == 0.5, and yet a plan that was solved for floats must not serve an exact proof."""
    rows_of = [["1/2", "1/4", "1/4"], ["1/4", "1/4", "1/2"]]
    for plan in (program_plan, canonical_plan):
        for convert, exact in [(float, False), (Fraction, True), (float, False)]:
            target, draft = (table(np.array([convert(Fraction(p)) for p in row])) for row in rows_of)
            proof = prove(walk(plan), target, paths(draft, num_paths=2), num_draft_tokens=1)
            assert proof.exact == exact


def test_too_large_a_program_is_refused():
    siblings = Siblings((1, 2, 3), (0, 1, 2), np.full(50, 0.02), without_replacement)
    with pytest.raises(
        ValueError,
        match=r"^transport of 3 siblings over 50 tokens is a program of up to 375000 variables, more than "
        r"20000: use verify.transport with independent draws, or verify.recursive$",
    ):
        next(program_plan(siblings, siblings.row))


def test_too_large_a_choice_is_refused():
    siblings = Siblings((1, 2), (0, 1), np.full(200, 0.005), independent)
    with pytest.raises(
        ValueError,
        match=r"^verify.canonical over 200 tokens chooses with 80000 variables, more than 20000: use "
        r"verify.transport$",
    ):
        next(canonical_plan(siblings, siblings.row))


def test_the_canonical_decomposition_is_of_independent_siblings():
    siblings = Siblings((1, 2), (0, 1), DRAFT, hub)
    with pytest.raises(
        ValueError,
        match=r"^verify.canonical takes independent siblings and was given hub: use verify.recursive or "
        r"verify.transport$",
    ):
        next(canonical_plan(siblings, TARGET))


# Flows


def cut(supplies, capacities):
    """The least cut: tokens outside a set are full, supplies that meet only the set stay behind."""
    tokens = range(len(capacities))
    return min(
        sum(capacities[i] for i in kept)
        + sum(mass for group, mass in supplies.items() if not kept.issuperset(group))
        for size in range(len(capacities) + 1)
        for kept in map(set, combinations(tokens, size))
    )


@st.composite
def problems(draw):
    capacities = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    groups = st.sets(st.integers(0, len(capacities) - 1), min_size=1).map(lambda group: tuple(sorted(group)))
    return capacities, draw(st.dictionaries(groups, st.integers(0, 6)))


@given(problems())
def test_the_flow_is_as_large_as_the_least_cut(problem):
    capacities, supplies = problem
    flow = largest_flow(supplies, capacities)
    for group, supply in supplies.items():
        assert tuple(flow.sent[group]) == group
        assert min(flow.sent[group].values()) >= 0
        assert sum(flow.sent[group].values()) <= supply
    for token, capacity in enumerate(capacities):
        received = sum(amounts.get(token, 0) for amounts in flow.sent.values())
        assert flow.room[token] == capacity - received >= 0
    assert sum(capacities) - sum(flow.room) == cut(supplies, capacities)


def test_a_flow_that_must_be_taken_back():
    """(0, 1) fills token 0 first; (0,) can go nowhere else, so (0, 1) moves on to 1, and (1, 2) to 2."""
    flow = largest_flow({(0, 1): 1, (1, 2): 1, (0,): 1}, [1, 1, 1])
    assert flow.sent == {(0, 1): {0: 0, 1: 1}, (1, 2): {1: 0, 2: 1}, (0,): {0: 1}}
    assert flow.room == [0, 0, 0]
