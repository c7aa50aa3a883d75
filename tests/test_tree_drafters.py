"""Tree drafters: their shapes, their laws, and drafters beside them that declare another law than theirs."""

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import (
    Oracle,
    from_probs,
    generate,
    law,
    point_mass,
    prove,
    rational,
    sample,
    table,
    verify,
)
from speculative.draft import (
    DraftTree,
    Siblings,
    best_first,
    hub,
    independent,
    paths,
    sequoia,
    sequoia_shape,
    top,
    top_and_one,
    tree,
    without_replacement,
)
from speculative.draft.siblings import draw_siblings, ranking
from speculative.model import Characters, bundled_text, fit_ngram
from speculative.oracle.interface import contexts_after
from speculative.testing import by_context, pairs, rows

RATES = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 8))

MAKERS = {
    "paths": lambda oracle: paths(oracle, 2),
    "paths after a trunk": lambda oracle: paths(oracle, 2, trunk=1),
    "siblings without replacement": lambda oracle: tree(oracle, (2, 1)),
    "siblings, then more": lambda oracle: tree(oracle, (1, 2)),
    "independent siblings": lambda oracle: tree(oracle, (2, 1), scheme=independent),
    "the best siblings": lambda oracle: tree(oracle, (2, 2), scheme=top),
    "one drawn, the others the best": lambda oracle: tree(oracle, (2, 2), scheme=top_and_one),
    "pairs": lambda oracle: tree(oracle, (2, 1), scheme=hub),
    "sequoia": lambda oracle: sequoia(oracle, RATES, 3),
    "best first": lambda oracle: best_first(oracle, 4),
    "best first, with a beam": lambda oracle: best_first(oracle, 3, width=2),
}
SAMPLED = [name for name in MAKERS if "best first" not in name]

SURE = rational(["1/2", "1/3", "1/6"])
SMALL = table({(): SURE, (0,): rational(["0", "2/3", "1/3"]), (1,): rational(["1/4", "1/4", "1/2"])})


def drawn(drafter, *, context=(), num_draft_tokens=2, rng=0):
    return sample(drafter, context, num_draft_tokens, rng=rng)


def as_outcome(proposal):
    """Return a tree as a value that can be compared: its draws by the tokens before them."""
    before = contexts(proposal)
    return tuple(sorted((before[node], siblings.tokens) for node, siblings in proposal.draws.items()))


def contexts(proposal):
    """Return the tokens on the way from the root to each node."""
    found = [()]
    for token, parent in zip(proposal.tokens, proposal.parents, strict=True):
        found.append((*found[parent], token))
    return found


def counted(oracle):
    """Return the same oracle and the contexts it was asked about."""
    asked = []

    def row(context):
        asked.append(context)
        return oracle.row(context)

    return Oracle(row, oracle.vocab_size), asked


def random_oracle(vocab_size, seed=0):
    weights = np.random.default_rng(seed).random((5, vocab_size)) ** 3
    some_rows = weights / weights.sum(axis=1, keepdims=True)
    return from_probs(lambda context: some_rows[(sum(context) + len(context)) % 5], vocab_size)


# --- shapes


@pytest.mark.parametrize(
    ("drafter", "sizes"),
    [
        (paths(random_oracle(50), 1), (1, 1, 1)),
        (tree(random_oracle(50), (3, 2, 1)), (3, 6, 6)),
        (tree(random_oracle(50), (3, 2, 1), scheme=top), (3, 6, 6)),
        (tree(random_oracle(50), (3, 2, 1), scheme=top_and_one), (3, 6, 6)),
        (tree(random_oracle(50), (2, 2, 2), scheme=hub), (2, 4, 8)),
        (tree(random_oracle(50), (3, 2)), (3, 6)),
        (tree(random_oracle(50), (3, 2, 2, 2)), (3, 6, 12)),
    ],
)
def test_so_many_siblings_at_each_depth(drafter, sizes):
    proposal = drawn(drafter, num_draft_tokens=3)
    depths = Counter(len(context) for context in contexts(proposal)[1:])
    assert tuple(depths[depth + 1] for depth in range(len(depths))) == sizes
    assert proposal.depth == len(sizes)


@pytest.mark.parametrize("name", MAKERS)
def test_one_oracle_call_for_each_node_that_has_children(name):
    oracle, asked = counted(random_oracle(9))
    proposal = drawn(MAKERS[name](oracle), context=(3, 1), num_draft_tokens=3)
    before = contexts(proposal)
    assert len(asked) == len(set(asked))
    expanded = {(3, 1, *before[parent]) for parent in proposal.parents}
    assert set(asked) == expanded if name in SAMPLED else set(asked) >= expanded


def passing(oracle):
    """Return the same oracle with a pass over trees, and what the passes and the calls were made for."""
    passes, asked = [], []

    def score_rows(context, tokens, parents):
        passes.append(len(tokens))
        return [oracle.row(each) for each in contexts_after(context, tokens, parents)]

    def row(context):
        asked.append(context)
        return oracle.row(context)

    return Oracle(row, oracle.vocab_size, score_rows), passes, asked


@pytest.mark.parametrize("name", MAKERS)
def test_one_pass_for_each_level_and_one_call_for_a_node_that_is_alone(name):
    """The nodes of a level's pass are those on the way to it, and no others."""
    plain = drawn(MAKERS[name](random_oracle(9)), context=(3, 1), num_draft_tokens=3)
    oracle, passes, asked = passing(random_oracle(9))
    proposal = drawn(MAKERS[name](oracle), context=(3, 1), num_draft_tokens=3)
    assert (proposal.tokens, proposal.parents) == (plain.tokens, plain.parents)
    assert as_outcome(proposal) == as_outcome(plain)
    assert len(passes) + len(asked) <= 3
    assert asked[0] == (3, 1)
    if name in SAMPLED:
        before = contexts(proposal)
        expanded = {before[parent] for parent in proposal.parents}
        levels = [[path for path in expanded if len(path) == depth] for depth in range(proposal.depth)]
        on_the_way = [{path[:end] for path in level for end in range(1, len(path) + 1)} for level in levels]
        assert passes == [
            len(nodes) for nodes, level in zip(on_the_way, levels, strict=True) if len(level) > 1
        ]
        assert len(asked) == sum(len(level) == 1 for level in levels)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=5)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(2, 2)))
def test_passes_change_no_law(name, pair):
    def law_of(oracle):
        drafter = MAKERS[name](oracle)
        return law(lambda chance: as_outcome(drafter(chance, (1,), 2)))

    assert law_of(passing(pair.draft)[0]) == law_of(pair.draft)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(("length", "depth"), [(0, 2), (1, 2), (2, 1), (3, 0), (5, 0)])
def test_no_deeper_than_the_context_limit_allows(name, length, depth):
    """A draft at place i of a text is drawn from a context of i tokens: with a limit of 2, i is 2 at most."""
    oracle = table({(): SURE}, context_limit=2)
    assert drawn(MAKERS[name](oracle), context=(0,) * length, num_draft_tokens=2).depth == depth


@pytest.mark.parametrize("name", MAKERS)
def test_no_deeper_than_asked_for(name):
    depths = [drawn(MAKERS[name](SMALL), num_draft_tokens=k).depth for k in (0, 1, 2)]
    assert depths[:2] == [0, 1]
    assert depths[2] <= 2


@pytest.mark.parametrize("name", MAKERS)
def test_a_drafter_speaks_of_the_tokens_of_its_oracle(name):
    oracle = table({(): SURE}, vocabulary=("a", "b", "c"))
    drafter = MAKERS[name](oracle)
    assert (drafter.vocab_size, drafter.vocabulary) == (3, ("a", "b", "c"))


def test_a_repeated_token_leads_to_one_child():
    certain = table([0.0, 1.0, 0.0])
    proposal = drawn(tree(certain, (3, 2), scheme=independent))
    assert (proposal.tokens, proposal.parents) == ((1, 1), (0, 1))
    assert [siblings.nodes for siblings in proposal.draws.values()] == [(1, 1, 1), (2, 2)]


def test_paths_that_meet_go_on_by_draws_of_their_own():
    """All five paths stay together: five draws at each node, where a tree has as many as its depth says."""
    certain = table([0.0, 1.0, 0.0])
    proposal = drawn(paths(certain, 5))
    assert [siblings.tokens for siblings in proposal.draws.values()] == [(1,) * 5, (1,) * 5]


def test_paths_part_where_the_trunk_ends():
    proposal = drawn(paths(random_oracle(1000), 4, trunk=2), num_draft_tokens=4)
    assert [len(proposal.draws[node].tokens) for node in range(4)] == [1, 1, 4, 1]
    assert drawn(paths(random_oracle(1000), 4, trunk=9), num_draft_tokens=4).parents == (0, 1, 2, 3)


def test_fewer_siblings_where_the_scheme_has_no_more():
    two = table(rational(["1/2", "0", "1/2"]))
    assert sorted(drawn(tree(two, (3,))).tokens) == [0, 2]
    assert drawn(tree(two, (3,), scheme=top)).tokens == (0, 2)
    assert drawn(tree(two, (3,), scheme=top_and_one)).tokens == (2, 0)
    assert sorted(drawn(tree(SMALL, (3,), scheme=hub)).tokens)[0] == 0
    assert len(drawn(tree(SMALL, (3,), scheme=hub))) == 2
    assert len(drawn(sequoia(two, RATES, 3), num_draft_tokens=1)) == 2


# --- laws


@pytest.mark.parametrize("name", SAMPLED)
@settings(max_examples=15)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(2, 2)))
def test_the_declared_law_is_the_drawn_one(name, pair):
    """The probability of a tree is the product of what its draws declare."""
    drafter = MAKERS[name](pair.draft)
    trees = {}

    def program(chance):
        proposal = drafter(chance, (1,), 2)
        outcome = as_outcome(proposal)
        trees[outcome] = proposal
        return outcome

    for outcome, probability in law(program).items():
        declared = Fraction(1)
        for siblings in trees[outcome].draws.values():
            for token, row in zip(siblings.tokens, siblings.laws(), strict=True):
                declared *= row[token]
        assert probability == declared


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=8)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 2)))
def test_recursive_rejection_is_lossless_on_it(name, pair):
    proof = prove(
        verify.recursive,
        pair.target,
        MAKERS[name](pair.draft),
        num_draft_tokens=pair.num_draft_tokens,
    )
    assert proof.exact
    assert proof.distance == 0


@pytest.mark.parametrize("name", MAKERS)
def test_so_it_is_in_floats_to_within_rounding(name):
    near = table({(): [0.3, 0.3, 0.4], (0,): [0.2, 0.3, 0.5], (1, 1): [0.0, 1.0, 0.0]})
    shifted = table(
        {(): [0.3 + 2e-16, 0.3, 0.4 - 2e-16], (0,): [0.2, 0.3 - 1e-16, 0.5 + 1e-16], (1, 1): [0.0, 1.0, 0.0]}
    )
    proof = prove(verify.recursive, near, MAKERS[name](shifted), num_draft_tokens=2)
    assert proof.distance < 1e-12


def declaring(scheme, *, drawn_by, count=2):
    """Return a maker of drafters of one level, which draw siblings by one scheme and declare another."""

    def make(oracle):
        def propose(chance, context, _):
            row = oracle(context)
            tokens = draw_siblings(chance, drawn_by, row, count)
            children = {token: node for node, token in enumerate(dict.fromkeys(tokens), start=1)}
            nodes = tuple(children[token] for token in tokens)
            return DraftTree(tuple(children), (0,) * len(children), {0: Siblings(nodes, tokens, row, scheme)})

        return propose

    return make


TARGET, DRAFT = rational(["5/8", "3/8", "0"]), rational(["1/4", "1/4", "1/2"])


def test_draws_without_replacement_declared_independent_are_reported():
    """By hand: token 2 comes first in half of all cases and is refused, which leaves (3/4, 1/4, 0).

    The second sibling is then 0 or 1, with 1/2 each. Declared with 1/4, both are accepted for certain, since
    3/4 and 1/4 are no less: token 0 comes out with 1/4 + 1/2 · 1/2 = 1/2 and not 5/8.
    """
    lying = declaring(independent, drawn_by=without_replacement)(table(DRAFT))
    proof = prove(verify.recursive, table(TARGET), lying, num_draft_tokens=1)
    assert proof.exact
    assert proof.distance >= Fraction(5, 8) - Fraction(1, 2)
    first = sum(probability for tokens, probability in proof.output.items() if tokens[0] == 0)
    assert first == Fraction(1, 2)


def test_declared_as_drawn_they_are_not():
    honest = declaring(without_replacement, drawn_by=without_replacement)(table(DRAFT))
    assert prove(verify.recursive, table(TARGET), honest, num_draft_tokens=1).lossless


def test_a_sibling_kept_for_its_probability_is_reported():
    """Two siblings are drawn without replacement; the more probable one is kept, as if drawn from the row.

    By hand, for a draft of (1/2, 1/3, 1/6): token 0 is kept unless both others are drawn, and that is
    1/3 · (1/6)/(2/3) + 1/6 · (1/3)/(5/6) = 1/12 + 1/15 = 3/20. So 0 is kept with 17/20, 1 with 3/20 and 2
    never. The target is uniform: 0 is accepted with 2/3 and 1 for certain, and a refused 0 gives 2. Out come
    17/20 · 2/3 = 17/30, 3/20 and 17/60; too much of 0 by 17/30 - 1/3 = 7/30.
    """

    def pruned(chance, context, _):
        row = SMALL(context)
        kept = min(draw_siblings(chance, without_replacement, row, 2))  # the row falls: the more probable
        return DraftTree((kept,), (0,), {0: Siblings((1,), (kept,), row, without_replacement)})

    uniform = table(rational(["1/3", "1/3", "1/3"]))
    proof = prove(verify.recursive, uniform, pruned, num_draft_tokens=1)
    assert proof.exact
    assert proof.distance == Fraction(7, 30)


@cache
def characters():
    text = bundled_text()[:20_000]
    vocabulary = Characters.of(text)
    tokens, size = vocabulary.encode(text), len(vocabulary.vocabulary)
    return (
        vocabulary,
        fit_ngram(tokens, vocab_size=size, order=6),
        fit_ngram(tokens, vocab_size=size, order=3),
    )


@pytest.mark.parametrize("name", MAKERS)
def test_it_drafts_text(name):
    vocabulary, target, model = characters()
    found = sample(
        generate,
        target,
        MAKERS[name](model),
        vocabulary.encode("First"),
        max_new_tokens=40,
        num_draft_tokens=3,
        verify=verify.recursive,
        rng=0,
    )
    assert len(found.tokens) == 40
    assert sum(one.accepted for one in found.rounds) >= 10


# --- sequoia


def trees_of(num_nodes):
    """Yield every tree of so many nodes as parents; parents that never fall give each shape at least once."""
    for parents in product(*(range(node + 1) for node in range(num_nodes))):
        if list(parents) == sorted(parents):
            yield parents


def expected_accepted(parents, rates):
    """Return the sum over nodes of the product of the rates on the way there; siblings count in order."""
    reached, born = [Fraction(1)], Counter()
    for parent in parents:
        rate = rates[born[parent]] if born[parent] < len(rates) else Fraction(0)
        born[parent] += 1
        reached.append(reached[parent] * rate)
    return sum(reached[1:])


def depth_of(parents):
    depths = [0]
    for parent in parents:
        depths.append(depths[parent] + 1)
    return max(depths)


RATE_LISTS = rows(4).map(lambda row: tuple(row[:3]))  # any order: a rate may be larger than the one before


@settings(max_examples=30)
@given(RATE_LISTS, st.integers(1, 6), st.integers(0, 6))
def test_no_tree_is_better_than_sequoias(rates, num_nodes, max_depth):
    shape = sequoia_shape(rates, num_nodes, max_depth)
    assert shape.expected_accepted == expected_accepted(shape.parents, rates)
    assert len(shape.parents) <= num_nodes
    assert depth_of(shape.parents) <= max_depth
    assert shape.expected_accepted == max(
        expected_accepted(parents, rates)
        for size in range(num_nodes + 1)
        for parents in trees_of(size)
        if depth_of(parents) <= max_depth
    )


def test_brute_force_sees_every_tree():
    """Ordered trees of n nodes below the root are counted by the Catalan numbers: 1, 1, 2, 5, 14, 42, 132."""
    assert [len(list(trees_of(n))) for n in range(7)] == [1, 1, 2, 5, 14, 42, 132]


@pytest.mark.parametrize(
    ("rates", "num_nodes", "max_depth", "parents", "expected"),
    [
        (("1/2", "1/4"), 1, None, (0,), "1/2"),
        (("1/2", "1/4"), 2, None, (0, 0), "3/4"),  # a chain brings 1/2 + 1/4 as well
        (("3/5", "3/10"), 2, None, (0, 1), "24/25"),  # 3/5 + 9/25; two siblings bring 9/10
        (("3/5", "3/10"), 3, None, (0, 0, 1), "63/50"),  # 24/25 + 3/10; a chain of three adds 27/125 only
        (("3/5", "3/10"), 3, 1, (0, 0), "9/10"),  # no third sibling has a rate
        (("3/5", "3/10", "0"), 3, 1, (0, 0), "9/10"),  # a node that brings nothing is left out
        (("0", "1/2"), 4, None, (0, 0, 2, 2), "3/4"),  # the first sibling only makes room for the second
        (("1",), 4, None, (0, 1, 2, 3), "4"),
        (("1/2",), 4, 0, (), "0"),
        (("0",), 4, None, (), "0"),
        ((), 4, None, (), "0"),
    ],
)
def test_sequoias_tree_by_hand(rates, num_nodes, max_depth, parents, expected):
    shape = sequoia_shape([Fraction(rate) for rate in rates], num_nodes, max_depth)
    assert shape == (parents, Fraction(expected))


def largest_products(rates, num_nodes):
    """Return the sum of the largest products of rates over all paths: where rates fall these form a tree."""
    every = [Fraction(1)]
    level = [Fraction(1)]
    for _ in range(num_nodes):
        level = sorted((a * rate for a in level for rate in rates), reverse=True)[:num_nodes]
        every += level
    return sum(sorted(every, reverse=True)[1 : num_nodes + 1])


@settings(max_examples=15)
@given(RATE_LISTS, st.integers(7, 14))
def test_where_rates_fall_the_best_nodes_are_the_best_tree(rates, num_nodes):
    falling = sorted(rates, reverse=True)
    assert sequoia_shape(falling, num_nodes).expected_accepted == largest_products(falling, num_nodes)


@settings(max_examples=20)
@given(RATE_LISTS, st.integers(1, 20))
def test_sequoia_in_floats_is_within_rounding(rates, num_nodes):
    shape = sequoia_shape([float(rate) for rate in rates], num_nodes)
    assert isinstance(shape.expected_accepted, float)
    best = sequoia_shape(rates, num_nodes).expected_accepted
    assert abs(shape.expected_accepted - best) < 1e-12
    assert abs(expected_accepted(shape.parents, rates) - best) < 1e-12


def test_the_drafter_grows_the_shape():
    """By hand, the best six: the first child, 1/2; beside and below it, 1/4 each; three of four with 1/8."""
    shape = sequoia_shape(RATES, 6, 3)
    proposal = drawn(sequoia(random_oracle(50), RATES, 6), num_draft_tokens=3)
    assert proposal.parents == shape.parents
    assert shape.expected_accepted == Fraction(1, 2) + 2 * Fraction(1, 4) + 3 * Fraction(1, 8)


def test_the_shape_is_the_best_for_the_depth_that_is_left():
    """Of two nodes a chain is the better tree, 24/25 to 9/10, where there is room for it."""
    rates = (Fraction(3, 5), Fraction(3, 10))
    drafter = sequoia(random_oracle(50), rates, 2)
    assert drawn(drafter, num_draft_tokens=2).parents == (0, 1)
    assert drawn(drafter, num_draft_tokens=1).parents == (0, 0)
    limited = sequoia(table([0.5, 0.5], context_limit=1), rates, 2)
    assert drawn(limited, context=(0,), num_draft_tokens=2).parents == (0, 0)


def test_the_rates_of_a_step_are_those_that_recursive_rejection_has():
    """With one level the expectation is the sum of the rates; they are counted on the proof of a step."""
    target, model = table(TARGET), table(DRAFT)

    def which(chance):
        proposal = tree(model, (2,))(chance, (), 1)
        found = verify.recursive(chance, proposal, [TARGET] * 3)
        return proposal.child(0, found.tokens[0]) if found.accepted else None

    rates = [law(which).get(node, Fraction(0)) for node in (1, 2)]
    proof = prove(verify.recursive, target, sequoia(model, rates, 2), num_draft_tokens=1)
    assert proof.expected_accepted == sequoia_shape(rates, 2, 1).expected_accepted == sum(rates) > 0


# --- best first


def confidences(oracle, depth, context=()):
    """Return the product of draft probabilities of every path of at most `depth` tokens."""
    found = {(): Fraction(1)}
    for length in range(depth):
        for path in [path for path in found if len(path) == length]:
            for token, probability in enumerate(oracle(context + path).tolist()):
                found[(*path, token)] = found[path] * probability
    del found[()]
    return found


@settings(max_examples=40)
@given(pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)), st.integers(1, 7))
def test_no_tree_has_more_confidence(pair, num_nodes):
    """The sum over any `num_nodes` paths is a bound for trees; the tree found reaches it."""
    proposal = best_first(pair.draft, num_nodes)(None, (1,), pair.num_draft_tokens)
    every = confidences(pair.draft, pair.num_draft_tokens, (1,))
    found = [every[path] for path in contexts(proposal)[1:]]
    positive = sorted((value for value in every.values() if value), reverse=True)
    assert sum(found) == sum(positive[:num_nodes])
    assert len(found) == min(num_nodes, len(positive))


def eagle_2(oracle, num_nodes, width, depth):
    """Expand every node of the beam, keep all candidates, and rank them at the end: as the paper tells it."""
    candidates, layer = {}, {(): 1}
    for _ in range(depth):
        below = {}
        for path, value in layer.items():
            row = oracle(path).tolist()
            order = sorted(range(len(row)), key=lambda token: -row[token])
            for token in order[:width]:
                if row[token]:
                    below[(*path, token)] = value * row[token]
        candidates |= below
        layer = dict(sorted(below.items(), key=lambda item: -item[1])[:width])
    return {path for path, _ in sorted(candidates.items(), key=lambda item: -item[1])[:num_nodes]}


@settings(max_examples=40)
@given(st.lists(rows(4), min_size=7, max_size=7), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3))
def test_with_a_beam_it_keeps_what_eagle_2_keeps(some_rows, num_nodes, width, depth):
    oracle = by_context(some_rows)
    proposal = best_first(oracle, num_nodes, width=width)(None, (), depth)
    assert set(contexts(proposal)[1:]) == eagle_2(oracle, num_nodes, width, depth)


def test_eagle_2s_tree_by_hand():
    """Expansion with a beam of two, then reranking, tokens a, b and c.

    Layer 1: a .6 and b .3; c, .1, is not among the two. Layer 2: aa .6 · .5 = .3 and ab .24 below a, ba .21
    and bb .06 below b; the beam is aa and ab. Layer 3: aab .27 and aaa .03, aba and abb .12. The best seven
    of all are a, b, aa, aab, ab, ba and aba. Below ba, which the beam left out, there is baa with .189:
    without a beam it takes the place of aba.
    """
    a, b = 0, 1
    oracle = table(
        {
            (): rational([".6", ".3", ".1"]),
            (a,): rational([".5", ".4", ".1"]),
            (b,): rational([".7", ".2", ".1"]),
            (a, a): rational([".1", ".9", "0"]),
            (a, b): rational([".5", ".5", "0"]),
            (b, a): rational([".9", ".1", "0"]),
        }
    )
    common = [(a,), (b,), (a, a), (a, b), (b, a), (a, a, b)]
    with_a_beam = best_first(oracle, 7, width=2)(None, (), 3)
    assert contexts(with_a_beam)[1:] == [*common, (a, b, a)]
    assert contexts(best_first(oracle, 7)(None, (), 3))[1:] == [*common, (b, a, a)]
    assert prove(
        verify.recursive,
        table(rational([".2", ".3", ".5"])),
        best_first(oracle, 7, width=2),
        num_draft_tokens=3,
    ).lossless


@pytest.mark.parametrize("num_nodes", [1, 3, 16])
def test_no_node_is_expanded_below_which_nothing_could_be_kept(num_nodes):
    """Nothing below a node is more probable than it: only those above the least of the best are asked for."""
    oracle, asked = counted(random_oracle(9))
    proposal = best_first(oracle, num_nodes)(None, (), 6)
    every = confidences(random_oracle(9), 2)
    first_level = sorted((every[(token,)] for token in range(9)), reverse=True)[:num_nodes]
    least = first_level[-1] if len(first_level) == num_nodes else 0
    assert len(proposal) == num_nodes
    assert [path for path in asked if len(path) == 1] == [
        path
        for path in sorted(every, key=every.__getitem__, reverse=True)
        if len(path) == 1 and every[path] > least
    ]


@settings(max_examples=40)
@given(st.lists(rows(4), min_size=7, max_size=7), st.integers(1, 9), st.integers(1, 4))
def test_kept_siblings_are_the_first_of_the_ranking(some_rows, num_nodes, width):
    proposal = best_first(by_context(some_rows), num_nodes, width=width)(None, (), 3)
    for siblings in proposal.draws.values():
        assert list(siblings.tokens) == list(ranking(siblings.row))[: len(siblings.tokens)]
        assert siblings.scheme is top


def test_a_best_sibling_left_out_is_noticed():
    with pytest.raises(ValueError, match=r"token 1, draw 0 below node 0, has probability 0 in its own law"):
        DraftTree((1,), (0,), {0: Siblings((1,), (1,), SURE, top)})


@pytest.mark.parametrize("num_nodes", [1, 2, 5, 64])
@pytest.mark.parametrize("width", [None, 1, 3, 100])
def test_a_budget_is_exact_in_floats(num_nodes, width):
    oracle, asked = counted(random_oracle(40))
    proposal = best_first(oracle, num_nodes, width=width)(None, (), 6)
    full = min(num_nodes, 6) if width == 1 else num_nodes
    assert len(proposal) == (min(full, 3 + 5 * 9) if width == 3 else full)
    assert proposal.depth <= 6
    assert len(asked) <= 1 + 5 * min(num_nodes, width or num_nodes)


def test_a_probability_rounded_above_one_does_not_put_a_child_before_its_parent():
    above = Oracle(lambda context: (1.0 + 1e-10) * point_mass(len(context), 3), 3)
    proposal = best_first(above, 2)(None, (), 3)
    assert (proposal.tokens, proposal.parents) == ((0, 1), (0, 1))


# --- rankings


@given(rows(6))
def test_the_ranking_is_that_of_a_stable_sort(row):
    order = [token for token in sorted(range(6), key=lambda token: -row[token]) if row[token]]
    assert list(ranking(row)) == order
    assert list(ranking(row.astype(np.float64))) == order
    assert list(ranking(point_mass(4, 6))) == [4]


@given(rows(4))
def test_draws_without_replacement_by_their_definition(row):
    """A token comes next with its share of what those before it have left."""
    drawn_at_once = law(lambda chance: draw_siblings(chance, without_replacement, row, 3))
    for tokens, probability in drawn_at_once.items():
        assert len(set(tokens)) == len(tokens) == min(3, np.count_nonzero(row))
        left = [1 - sum(row[token] for token in tokens[:i]) for i in range(len(tokens))]
        assert probability == math.prod(row[token] / rest for token, rest in zip(tokens, left, strict=True))


@given(rows(5), st.integers(1, 6))
def test_each_next_sibling_by_its_definition(row, number):
    """`top` and `top_and_one` look at the row again for each sibling; here the order is made at once."""
    order = [token for token in sorted(range(5), key=lambda token: -row[token]) if row[token]]
    certain = order[: min(number, len(order)) - 1]
    assert law(lambda chance: draw_siblings(chance, top, row, number)) == {tuple(order[:number]): 1}
    rest = sum(row[token] for token in order[len(certain) :])
    assert law(lambda chance: draw_siblings(chance, top_and_one, row, number)) == {
        (token, *certain): row[token] / rest for token in order[len(certain) :]
    }
    assert top_and_one(row, (order[-1], *certain), number) is None


# --- what is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tree(SMALL, 2), r"branching = 2: give the number of siblings by depth, such as \(3, 2, 1\)"),
        (lambda: tree(SMALL, ()), r"branching = \(\): give the number of siblings by depth"),
        (lambda: tree(SMALL, "21"), r"branching = '21': give the number"),
        (lambda: tree(SMALL, (2,), scheme="top"), r"scheme = 'top': give a function"),
        (lambda: sequoia(SMALL, [], 4), r"rates are empty, .*: give one for each sibling, \(0\.7, 0\.2\)$"),
        (lambda: sequoia(SMALL, (0.9, 0.8), 4), r"rates sum to 1\.7, more than 1: give the probability"),
        (lambda: sequoia_shape((0.6, 0.4 + 1e-8), 4), r"rates sum to 1, more than 1"),
        (lambda: sequoia_shape((Fraction(1), Fraction(1, 10**12)), 4), r"more than 1"),
    ],
)
def test_what_makes_no_drafter_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_float_rates_may_sum_to_one_by_rounding():
    assert sequoia_shape((0.7, 0.2, 0.1 + 1e-10), 3, 1).parents == (0, 0, 0)
