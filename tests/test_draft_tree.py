"""Drafts as trees: what is refused, how siblings are drawn, and what a tree says of itself."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import Draft, draft, law, prove, rational, sample, table, verify
from speculative.draft import (
    DraftTree,
    Siblings,
    draw_siblings,
    hub,
    independent,
    top,
    top_and_one,
    without_replacement,
)
from speculative.testing import rows

ROW = rational(["1/2", "1/3", "1/6", "0"])
SCHEMES = [independent, without_replacement, top, top_and_one, hub]


def repeated():
    """Token 0 drawn twice and token 1 once below the root, one more token below each of them."""
    return DraftTree(
        tokens=(0, 1, 2, 1),
        parents=(0, 0, 1, 2),
        draws={
            0: Siblings((1, 2, 1), (0, 1, 0), ROW, independent),
            1: Siblings((3,), (2,), ROW, independent),
            2: Siblings((4,), (1,), ROW, independent),
        },
    )


# What a tree says of itself


def test_a_tree_leads_from_node_to_node():
    tree = repeated()
    assert (len(tree), tree.depth, len(tree.rows)) == (4, 2, 3)
    assert [tree.child(0, token) for token in range(4)] == [1, 2, None, None]
    assert [tree.child(node, 2) for node in range(5)] == [None, 3, None, None, None]
    assert [tree.siblings(node) is None for node in range(5)] == [False, False, False, True, True]
    assert tree.siblings(0).nodes == (1, 2, 1)
    assert repr(tree) == "DraftTree(tokens=(0, 1, 2, 1), parents=(0, 0, 1, 2))"


def test_a_chain_is_a_tree_of_one_branch():
    chain = Draft((0, 2), (ROW, ROW))
    draws = {node: chain.siblings(node) for node in range(2)}
    tree = DraftTree(chain.tokens, (0, 1), draws)
    assert (len(tree), tree.depth) == (len(chain), chain.depth) == (2, 2)
    assert all(ours is theirs for ours, theirs in zip(tree.rows, chain.rows, strict=True))
    for node in range(3):
        assert tree.siblings(node) == chain.siblings(node)
        for token in range(4):
            assert tree.child(node, token) == chain.child(node, token)


def test_a_tree_of_the_root_alone_is_an_empty_draft():
    empty = DraftTree((), (), {})
    assert (len(empty), empty.depth, list(empty.rows)) == (0, 0, [])
    assert empty.siblings(0) is empty.child(0, 1) is None


def test_a_verifier_of_chains_says_that_it_cannot_take_a_tree():
    with pytest.raises(ValueError, match=r"this verifier takes a chain .* such as verify\.recursive"):
        verify.token(None, repeated(), [ROW] * 5)


# What is refused


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (rational(["1/2", "1/2"]), r"has a law of shape \(2,\): let its scheme return an array like its row"),
        (np.ones((4, 1)), r"has a law of shape \(4, 1\): let its scheme"),
        (
            [1, 0, 0, 0],
            r"has a law \[1, 0, 0, 0\]: let its scheme return an array like its row, shape \(V,\)$",
        ),
        (1, r"has a law 1: let its scheme"),
    ],
)
def test_a_scheme_that_returns_no_row_is_refused(law, message):
    draws = {0: siblings(scheme=lambda *_: law)}
    with pytest.raises(ValueError, match="^drafted token 0, draw 0 below node 0, " + message):
        DraftTree((0,), (0,), draws)


def siblings(nodes=(1,), tokens=(0,), row=ROW, scheme=independent):
    return Siblings(nodes, tokens, row, scheme)


@pytest.mark.parametrize(
    ("tokens", "parents", "draws", "message"),
    [
        ((0, 1), (0,), {0: siblings()}, "DraftTree of 2 tokens and 1 parents: give one parent a token"),
        ((0,), (1,), {0: siblings()}, "node 1 has parent 1: give an earlier node, 0 for the root"),
        ((0,), (-1,), {0: siblings()}, "node 1 has parent -1: give an earlier node"),
        ((0, 0), (0, 0), {0: siblings((1, 2), (0, 0))}, "node 2 repeats token 0 below node 0: a token drawn"),
        ((0,), (0,), {}, "node 0 has children and no draws: say how they were drawn"),
        ((0, 1), (0, 1), {0: siblings()}, "node 1 has children and no draws"),
        (
            (0,),
            (0,),
            {0: siblings((2,))},
            r"the draws below node 0 are tokens \(0,\) at nodes \(2,\), its chil",
        ),
        ((0,), (0,), {0: siblings((1,), (1,))}, r"the draws below node 0 are tokens \(1,\) at nodes \(1,\)"),
        ((0, 1), (0, 0), {0: siblings()}, "the draws below node 0 are"),
        ((0,), (0,), {0: siblings((1, 2), (0, 1))}, "the draws below node 0 are"),
        ((0,), (0,), {0: siblings(), 1: siblings((2,), (1,))}, "the draws below node 1 are"),
        (
            (3,),
            (0,),
            {0: siblings((1,), (3,))},
            "drafted token 3, draw 0 below node 0, has probability 0 in its",
        ),
        (
            (4,),
            (0,),
            {0: siblings((1,), (4,))},
            "drafted token 4, draw 0 below node 0,: outside the vocabulary",
        ),
        (
            (1,),
            (0,),
            {0: siblings((1,), (1,), scheme=top)},
            "drafted token 1, draw 0 below node 0, has probability 0 in its own law",
        ),
        (
            (0,),
            (0,),
            {0: siblings((1, 1), (0, 0), scheme=without_replacement)},
            "drafted token 0, draw 1 below node 0, has probability 0 in its own law",
        ),
        (
            (0, 1, 2),
            (0, 0, 0),
            {0: siblings((1, 2, 3), (0, 1, 2), scheme=hub)},
            "drafted token 2, draw 2 below node 0, comes after the last: its scheme has nothing left to draw",
        ),
    ],
)
def test_what_describes_no_tree_that_can_have_been_drawn_is_refused(tokens, parents, draws, message):
    with pytest.raises(ValueError, match=f"^{message}") as refusal:
        DraftTree(tokens, parents, draws)
    assert "\n" not in str(refusal.value)


# How siblings are drawn


def by_definition(scheme, row, count):
    """Return the law of `count` siblings, written down from what each scheme says in words."""
    support = [token for token, probability in enumerate(row) if probability]
    best = sorted(support, key=lambda token: (-row[token], token))
    if scheme is top:
        return {tuple(best[:count]): Fraction(1)}
    if scheme is top_and_one:
        certain = best[: min(count, len(best)) - 1]
        rest = [token for token in support if token not in certain]
        mass = sum(row[token] for token in rest)
        return {(token, *certain): row[token] / mass for token in rest}
    if scheme is hub:
        return {
            tokens: probability
            for tokens, probability in by_definition(without_replacement, row, min(count, 2)).items()
            if best[0] in tokens[:1]
        } | {(token, best[0])[:count]: row[token] for token in support if token != best[0]}
    drawn = {(): Fraction(1)}
    for _ in range(count):
        further = {}
        for tokens, probability in drawn.items():
            taken = tokens if scheme is without_replacement else ()
            left = [token for token in support if token not in taken]
            mass = sum(row[token] for token in left)
            for token in left:
                further[*tokens, token] = probability * row[token] / mass
            if not left:
                further[tokens] = probability
        drawn = further
    return drawn


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=25)
@given(rows(4), st.integers(1, 4))
def test_siblings_have_the_law_that_their_scheme_says(scheme, row, count):
    drawn = law(draw_siblings, scheme, row, count)
    assert drawn.exact
    assert drawn == by_definition(scheme, row, count)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=25)
@given(rows(4), st.integers(1, 4))
def test_the_law_of_siblings_is_the_product_of_the_laws_they_tell(scheme, row, count):
    for tokens, probability in law(draw_siblings, scheme, row, count).items():
        laws = list(Siblings(tokens, tokens, row, scheme).laws())
        assert all(each.sum() == 1 for each in laws)
        assert prod(each[token] for each, token in zip(laws, tokens, strict=True)) == probability


@pytest.mark.parametrize(
    ("scheme", "drawn"),
    [
        (independent, 4),
        (without_replacement, 3),
        (top, 3),
        (top_and_one, 3),
        (hub, 2),
    ],
)
def test_siblings_end_where_nothing_is_left_to_draw(scheme, drawn):
    """Three of four tokens have some probability; `hub` never draws more than two."""
    assert {len(tokens) for tokens in law(draw_siblings, scheme, ROW, 4)} == {drawn}
    certain = rational([0, 1, 0])
    assert {len(tokens) for tokens in law(draw_siblings, scheme, certain, 4)} == {4 if drawn == 4 else 1}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_siblings_are_nobody(scheme):
    assert law(draw_siblings, scheme, ROW, 0) == {(): 1}


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=15)
@given(rows(5), st.integers(1, 3))
def test_siblings_of_floats_have_the_same_laws_in_floats(scheme, row, count):
    exact = law(draw_siblings, scheme, row, count)
    floats = law(draw_siblings, scheme, row.astype(np.float64), count)
    assert set(floats) == set(exact)
    assert all(abs(floats[tokens] - float(exact[tokens])) < 1e-14 for tokens in exact)


@given(rows(3), st.integers(1, 4))
def test_distinct_tokens_of_independent_draws_come_as_if_without_replacement(row, count):
    """Given the distinct tokens before it, and that there is one more, the next has the law it tells."""
    firsts, following = {}, {}
    for tokens, probability in law(draw_siblings, independent, row, count).items():
        distinct = Siblings(tokens, tokens, row, independent).distinct()
        assert distinct.nodes == distinct.tokens == tuple(dict.fromkeys(tokens))
        for i, (token, told) in enumerate(zip(distinct.tokens, distinct.laws(), strict=True)):
            before = distinct.tokens[:i]
            masses = following.setdefault(before, {})
            masses[token] = masses.get(token, 0) + probability
            firsts[before] = told.tolist()
    for before, masses in following.items():
        total = sum(masses.values())
        assert [masses.get(token, 0) / total for token in range(3)] == firsts[before]


def test_distinct_children_keep_their_nodes_in_the_order_drawn():
    distinct = repeated().siblings(0).distinct()
    assert (distinct.nodes, distinct.tokens) == ((1, 2), (0, 1))
    assert distinct.scheme is without_replacement
    for scheme in SCHEMES[1:]:
        others = Siblings((1, 2), (0, 1), ROW, scheme)
        assert others.distinct() is others


@pytest.mark.parametrize(
    ("declared", "distance"), [(without_replacement, 0), (independent, Fraction(17, 392))]
)
def test_siblings_drawn_otherwise_than_they_say_change_the_output(declared, distance):
    """Target .4 .3 .2 .1, draft .1 .2 .3 .4, two draws without replacement said to be independent.

    The first is rejected as token 2 with probability 3/10 (1 - 2/3) = 1/10, as token 3 with 4/10 (1 - 1/4) =
    3/10, and (3/4, 1/4, 0, 0) is left. A second draw 0 or 1 is then accepted for certain; after another one
    (13/14, 1/14, 0, 0) is left of (3/4, 1/4, 0, 0) less the draft. Token 0 should come with 3/10 this way and
    comes with 1/10 (1/7 + 4/7 13/14) + 3/10 (1/6 + 1/2 13/14) = 503/1960.
    """
    target, row = table(rational([".4", ".3", ".2", ".1"])), rational([".1", ".2", ".3", ".4"])

    def drafter(chance, context, num_draft_tokens):
        tokens = draw_siblings(chance, without_replacement, row, 2)
        return DraftTree(tokens, (0, 0), {0: Siblings((1, 2), tokens, row, declared)})

    proof = prove(verify.recursive, target, drafter, num_draft_tokens=1)
    assert proof.exact
    assert proof.distance == distance


def test_a_repeat_is_no_draw_without_replacement():
    def drafter(chance, context, num_draft_tokens):
        tokens = draw_siblings(chance, independent, ROW, 2)
        nodes = (1, 1) if tokens[0] == tokens[1] else (1, 2)
        drafted = tuple(dict.fromkeys(tokens))
        return DraftTree(drafted, (0,) * len(drafted), {0: Siblings(nodes, tokens, ROW, without_replacement)})

    with pytest.raises(ValueError, match="draw 1 below node 0, has probability 0 in its own law"):
        prove(verify.recursive, table(ROW), drafter, num_draft_tokens=1)


def test_laws_of_sampled_draws_are_not_computed_once_more():
    """The drafter asks the scheme once a draw; what is handed to the tree in another way is checked."""
    asked = []

    def counted(row, drawn, count):
        asked.append(tuple(drawn))
        return without_replacement(row, drawn, count)

    drafted = sample(draft.tree(table(ROW), (3,), scheme=counted), (), 1, rng=0)
    assert asked == [drafted.tokens[:i] for i in range(3)]
    DraftTree(drafted.tokens, drafted.parents, drafted.draws)
    assert asked == 2 * [drafted.tokens[:i] for i in range(3)]


def test_children_of_sampled_draws_are_checked():
    with pytest.raises(ValueError, match="give each draw the child it leads to"):
        DraftTree((0, 1), (0, 0), {0: Siblings((1, 2), (0, 2), ROW, independent)}, sampled=True)
