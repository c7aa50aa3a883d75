"""Verifiers that look at the tokens of a draft only, on trees: match, greedy, typical."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import (
    Draft,
    Verdict,
    autoregress,
    from_probs,
    generate,
    law,
    prove,
    rational,
    table,
    temperature,
    verify,
)
from speculative import draft as drafters
from speculative.draft import DraftTree, Siblings, independent
from speculative.testing import pairs

TARGET = table(rational(["1/2", "3/10", "1/5"]))
DRAFT = table(rational(["1/5", "3/10", "1/2"]))


def tree(tokens, parents, vocab_size=4):
    """A tree whose siblings were drawn from a uniform row, one after the other."""
    row = rational([Fraction(1, vocab_size)] * vocab_size)
    children = {parent: [i + 1 for i, each in enumerate(parents) if each == parent] for parent in parents}
    draws = {
        parent: Siblings(tuple(nodes), tuple(tokens[node - 1] for node in nodes), row, independent)
        for parent, nodes in children.items()
    }
    return DraftTree(tokens, parents, draws)


# match


@pytest.mark.parametrize(
    ("count", "accepted"), [(1, Fraction(29, 100)), (2, Fraction(483, 1000)), (3, Fraction(6161, 10000))]
)
def test_match_accepts_as_naive_sampling_does(count, accepted):
    """K independent siblings: sum of q (1 - (1 - p)^K) for q = (.5, .3, .2), p = (.2, .3, .5).

    K = 1: .1 + .09 + .1 = .29. K = 2: .5 .36 + .3 .51 + .2 .75 = .18 + .153 + .15 = .483.
    K = 3: .5 .488 + .3 .657 + .2 .875 = .244 + .1971 + .175 = .6161.
    """
    proof = prove(verify.match, TARGET, drafters.paths(DRAFT, count), num_draft_tokens=1)
    assert proof.lossless
    assert proof.expected_accepted == accepted == sum(TARGET(()) * (1 - (1 - DRAFT(())) ** count))


@settings(max_examples=10)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 2)))
def test_match_is_lossless_on_trees(pair):
    drafter = drafters.paths(pair.draft, 2)
    assert prove(verify.match, pair.target, drafter, num_draft_tokens=pair.num_draft_tokens).lossless


def match_of_the_first_branch(chance, draft, target_probs):
    """Reads the rows of a tree as if it were a chain."""
    tokens = ()
    for i, drafted in enumerate(draft.tokens):
        tokens = (*tokens, chance.pick(target_probs[i]))
        if tokens[-1] != drafted:
            return tokens
    return (*tokens, chance.pick(target_probs[-1]))


def test_rows_of_a_tree_read_as_those_of_a_chain_are_found():
    """Nodes: 0, its sibling 1, and 0 below the first.

    0 and then 1 come with 1/4, as they should. The chain reader then takes the law after node 2, which is the
    path 1, always 1, for that after 0 1, always 0.
    """
    half = rational(["1/2", "1/2"])
    target = table({(): half, (1,): rational([0, 1]), (0, 1): rational([1, 0])})
    drafted = tree((0, 1, 0), (0, 0, 1), 2)
    proof = prove(match_of_the_first_branch, target, lambda *_: drafted, num_draft_tokens=2)
    assert proof.exact
    assert proof.distance == Fraction(1, 4)
    assert prove(verify.match, target, lambda *_: drafted, num_draft_tokens=2).lossless


# greedy


def merged(chains):
    """The tree of some chains."""
    nodes, parents = {(): 0}, []
    for chain in chains:
        for i in range(len(chain)):
            if nodes.setdefault(chain[: i + 1], len(nodes)) > len(parents):
                parents.append(nodes[chain[:i]])
    return tree(tuple(path[-1] for path in nodes if path), tuple(parents))


@settings(max_examples=30)
@given(pairs(vocab_sizes=(4, 4)), st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), max_size=6))
def test_greedy_keeps_the_path_of_most_probable_tokens(pair, chains):
    best = ()
    while len(best) < 4:
        best = (*best, int(np.argmax(pair.target(best))))
    kept = max(i for i in range(4) if any(chain[:i] == best[:i] for chain in [(), *chains]))
    drafted = merged(chains)
    rows = pair.target.score_tree((), drafted.tokens, drafted.parents)
    assert law(verify.greedy, drafted, rows) == {Verdict(best[: kept + 1], kept): 1}


@settings(max_examples=10)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 2)))
def test_greedy_on_trees_has_the_law_of_temperature_zero(pair):
    greedy_target = temperature(0)(pair.target)
    proof = prove(
        verify.greedy,
        pair.target,
        drafters.paths(pair.draft, 2),
        num_draft_tokens=pair.num_draft_tokens,
        reference=greedy_target,
    )
    assert proof.lossless
    alone = law(autoregress, greedy_target, max_new_tokens=3).map(lambda made: made.tokens)
    options = {"max_new_tokens": 3, "num_draft_tokens": 1, "verify": verify.greedy}
    made = law(generate, pair.target, drafters.paths(pair.draft, 2), **options)
    assert made.map(lambda one: one.tokens) == alone


# typical

PLAUSIBLE = table({(): rational(["9/20", "9/20", "1/20", "1/20"])})
"""With epsilon 1/10 and a large delta, tokens 0 and 1 pass, 2 and 3 do not; the most probable is 0."""


def typical(drafted, target=PLAUSIBLE):
    def verifier(*args):
        return verify.typical(*args, epsilon=0.1, delta=10)

    [verdict] = law(verifier, drafted, target.score_tree((), drafted.tokens, drafted.parents))
    return verdict


@pytest.mark.parametrize(
    ("tokens", "parents", "kept"),
    [
        ((2, 3), (0, 0), ()),
        ((2, 1), (0, 0), (1,)),
        ((1, 0), (0, 0), (1,)),  # a tie: the first node
        ((0, 1, 2, 1), (0, 0, 1, 2), (1, 1)),  # the longer one, though it is the later
        ((0, 1, 1, 1), (0, 0, 2, 1), (1, 1)),  # a tie below: node 3, though its parent is the later
        ((2, 1, 0, 0), (0, 1, 2, 0), (0,)),  # what follows a failure is not kept
        ((1, 0, 1, 2), (0, 1, 2, 3), (1, 0, 1)),  # a chain
    ],
)
def test_typical_keeps_the_longest_path_that_passes(tokens, parents, kept):
    assert typical(tree(tokens, parents)) == Verdict((*kept, 0), len(kept))


def test_typical_asks_each_draft_of_the_row_at_its_own_place():
    """After token 0 only token 3 is plausible, after token 1 only token 2, and then token 1."""
    target = table(
        {
            (): PLAUSIBLE(()),
            (0,): rational([0, 0, 0, 1]),
            (1,): rational([0, 0, 1, 0]),
            (1, 2): rational([0, 1, 0, 0]),
        }
    )
    assert typical(tree((0, 1, 2, 2), (0, 0, 1, 2)), target) == Verdict((1, 2, 1), 2)
    assert typical(tree((0, 1, 3, 2), (0, 0, 1, 2)), target) == Verdict((0, 3, 0), 2)


@settings(max_examples=10)
@given(pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)))
def test_on_one_branch_a_tree_is_verified_as_the_chain_it_is(pair):
    for tokens in law(lambda chance: pair.drafter(chance, (), pair.num_draft_tokens).tokens):
        laws = tuple(pair.draft(tokens[:i]) for i in range(len(tokens)))
        chain = Draft(tokens, laws)
        one_branch = DraftTree(
            tokens, tuple(range(len(tokens))), {i: chain.siblings(i) for i in range(len(tokens))}
        )
        rows = pair.target.score((), tokens)
        for verifier in (verify.match, verify.greedy, verify.typical):
            assert law(verifier, chain, rows) == law(verifier, one_branch, rows)


def test_all_run_in_floats():
    oracle = from_probs(lambda context: TARGET(()).astype(float), 3)
    for verifier in (verify.match, verify.greedy, verify.typical):
        proof = prove(verifier, oracle, paths_of_floats(), num_draft_tokens=2)
        assert abs(sum(proof.output.values()) - 1) < 1e-12
    assert prove(verify.match, oracle, paths_of_floats(), num_draft_tokens=2).distance < 1e-12


def paths_of_floats():
    return drafters.paths(from_probs(lambda context: DRAFT(()).astype(float), 3), 2)
