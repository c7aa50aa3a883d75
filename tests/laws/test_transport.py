"""Optimal transport: exactly lossless, exactly optimal, for any number of independent siblings."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import draft, law, point_mass, prove, rational, table, verify
from speculative.bound import prefix_formula, subset_formula
from speculative.draft import Siblings, draw_siblings, hub, independent, paths, top_and_one, tree
from speculative.testing import near_rows, pairs, rows
from speculative.verify import transport_plan
from speculative.verify.plan import in_turn

TARGET, DRAFT = rational([".5", ".3", ".2"]), rational([".2", ".3", ".5"])


def one_step(target, row, count, verifier=verify.transport):
    return prove(verifier, table({(): target}), paths(table({(): row}), count), num_draft_tokens=1)


@st.composite
def steps(draw):
    vocab_size = draw(st.integers(3, 5))
    row = draw(rows(vocab_size))
    return draw(st.one_of(rows(vocab_size), near_rows(row))), row, draw(st.integers(1, 3))


@settings(max_examples=40)
@given(steps())
def test_a_step_is_lossless_and_accepts_what_the_subset_formula_allows(step):
    target, row, count = step
    proof = one_step(target, row, count)
    assert proof.lossless
    assert proof.expected_accepted == subset_formula(independent, row, count, target)


@given(rows(3), rows(3), st.fractions(0, 1), st.integers(1, 3))
@settings(max_examples=40)
def test_so_it_does_for_a_part_of_the_target(target, row, weight, count):
    """Over the draws, each token gets its share of w * target, and the most that can be is accepted."""
    part = weight * target
    emitted, accepted = np.array([Fraction(0)] * 3), Fraction(0)
    for tokens, probability in law(draw_siblings, independent, row, count).items():
        below = {token: node for node, token in enumerate(dict.fromkeys(tokens), start=1)}
        nodes = {node: token for token, node in below.items()}
        refused = probability
        siblings = Siblings(tuple(below[token] for token in tokens), tokens, row, independent)
        for child, value in transport_plan(siblings, part):
            if child is None:
                emitted += refused * value
            else:
                emitted[nodes[child]] += refused * value
                accepted += refused * value
                refused *= 1 - value
    assert (emitted == part).all()
    assert accepted == subset_formula(independent, row, count, part)


def test_golden_steps():
    """Subset formula for q = (.5, .3, .2), p = (.2, .3, .5): H = {2} gives 1 + .2 - .5^K = .95 and 1.075; H =
    {1, 2} gives 1 + .5 - .8^K = .86 and .988, the least for K = 2 and 3; for K = 1, .7 = 1 - TV."""
    assert [one_step(TARGET, DRAFT, count).expected_accepted for count in (1, 2, 3)] == [
        Fraction(7, 10),
        Fraction(86, 100),
        Fraction(988, 1000),
    ]


@pytest.mark.parametrize("scheme", [hub, top_and_one])
@settings(max_examples=15)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 2)))
def test_siblings_drawn_otherwise_are_transported_by_the_program(scheme, pair):
    drafter = tree(pair.draft, branching=(2, 2), scheme=scheme)
    proof = prove(verify.transport, pair.target, drafter, num_draft_tokens=pair.num_draft_tokens)
    assert proof.lossless
    bound = subset_formula(scheme, pair.draft(()), 2, pair.target(()))
    assert proof.survival[0] == bound


def test_a_certain_draft_drawn_twice_keeps_exact_laws_exact():
    """A point mass of int64 beside a target of Fractions, drawn from twice."""
    siblings = Siblings((1, 1), (2, 2), point_mass(2, 3), independent)
    accepting, (_, left) = transport_plan(siblings, TARGET)
    assert accepting == (1, Fraction(1, 5))
    assert left.tolist() == [Fraction(5, 8), Fraction(3, 8), 0]


@settings(max_examples=15)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(2, 2)))
def test_lifting_accepts_no_less_and_on_a_chain_is_block_verification(pair):
    walked, lifted = (
        prove(verifier, pair.target, paths(pair.draft, 2), num_draft_tokens=2)
        for verifier in (verify.transport, verify.lifted_transport)
    )
    assert lifted.lossless
    assert lifted.expected_accepted >= walked.expected_accepted
    chain, block = (
        prove(verifier, pair.target, draft.model(pair.draft), num_draft_tokens=3)
        for verifier in (verify.lifted_transport, verify.block)
    )
    assert chain == block


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_in_floats_near_equal_rows_stay_within_rounding(seed):
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.ones(4))
    row = target * (1 + rng.normal(size=4) * 10.0 ** -rng.integers(1, 17))
    for draft_row in (target, row / row.sum()):
        proof = one_step(target, draft_row, 2)
        assert proof.distance < 1e-12
        bound = prefix_formula(independent, draft_row, 2, target)
        assert float(proof.expected_accepted) == pytest.approx(float(bound), abs=1e-12)


def test_a_plan_that_ignores_how_often_a_token_was_drawn_is_caught():
    def once_each(siblings, target):
        nodes, tokens = zip(*dict(zip(siblings.nodes, siblings.tokens, strict=True)).items(), strict=True)
        return transport_plan(Siblings(nodes, tokens, siblings.row, independent), target)

    assert one_step(TARGET, DRAFT, 2).lossless
    assert one_step(TARGET, DRAFT, 2, verify.walk(once_each)).distance == Fraction(4, 85)


@pytest.mark.parametrize("run", [verify.walk, verify.lift])
def test_a_plan_that_does_not_say_what_is_left_is_told(run):
    def unfinished(siblings, target):
        *accepting, _ = transport_plan(siblings, target)
        yield from accepting

    with pytest.raises(ValueError, match=r"^the plan ended without \(None, left\): yield last what to draw"):
        one_step(TARGET, DRAFT, 2, run(unfinished))


def test_shares_that_rounding_has_used_up_bring_no_more_siblings():
    assert list(in_turn({1: 1.0, 2: 1e-17})) == [(1, 1.0)]
