"""Medusa's heads as a draft model: what is drafted from them, which law it has, and what they are asked."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import Draft, law, prove, rational, table, verify
from speculative.draft import best_first, medusa, model, paths, top, tree
from speculative.testing import rows

FIRST, SECOND = rational([".5", ".3", ".2"]), rational([".1", ".7", ".2"])
TARGET = table(
    {
        (): rational(["1/2", "3/10", "1/5"]),
        (0,): rational(["1/5", "1/5", "3/5"]),
        (1,): rational(["0", "7/10", "3/10"]),
        (2,): rational(["2/5", "2/5", "1/5"]),
    }
)


def two_heads(_):
    return FIRST, SECOND


PRODUCT = partial(tree, branching=(2, 2), scheme=top)


def counted(heads):
    asked = []

    def counting(context):
        asked.append(context)
        return heads(context)

    return counting, asked


@pytest.mark.parametrize(
    "make_drafter", [model, PRODUCT, partial(best_first, num_nodes=5), partial(paths, num_paths=2)]
)
@pytest.mark.parametrize(("num_draft_tokens", "depth"), [(1, 1), (2, 2), (5, 2)])
def test_the_heads_are_asked_once_a_round_about_the_context(make_drafter, num_draft_tokens, depth):
    heads, asked = counted(two_heads)
    drafter = medusa(heads, 3, make_drafter)
    one = law(lambda chance: drafter(chance, (2, 1), num_draft_tokens).depth)
    assert one == {depth: 1}
    assert set(asked) == {(2, 1)}
    asked.clear()
    law(lambda chance: drafter(FirstOf(chance), (2, 1), num_draft_tokens).depth)
    assert len(asked) == 1


class FirstOf:
    """Answers every question with the first answer that has mass."""

    def __init__(self, _):
        pass

    def pick(self, weights):
        return int(np.flatnonzero(weights)[0])


def test_each_token_of_a_chain_has_the_law_of_its_head_whatever_came_before():
    tokens = law(lambda chance: medusa(two_heads, 3, model)(chance, (), 2).tokens)
    assert tokens == {(x, y): FIRST[x] * SECOND[y] for x in range(3) for y in range(3)}


def test_the_candidates_are_the_product_of_the_heads_best_tokens():
    proposal = medusa(two_heads, 3, PRODUCT)(None, (), 2)
    assert (proposal.tokens, proposal.parents) == ((0, 1, 1, 2, 1, 2), (0, 0, 1, 1, 2, 2))


def test_the_sparse_tree_by_hand():
    """(0,) .5, (0, 1) .35, (1,) .3, (1, 1) .21, (2,) .2, (2, 1) .14, (0, 2) .1, ..."""
    proposal = medusa(two_heads, 3, partial(best_first, num_nodes=4))(None, (), 2)
    assert (proposal.tokens, proposal.parents) == ((0, 1, 1, 1), (0, 0, 1, 2))
    proposal = medusa(two_heads, 3, partial(best_first, num_nodes=6))(None, (), 2)
    assert (proposal.tokens, proposal.parents) == ((0, 1, 2, 1, 1, 1), (0, 0, 0, 1, 2, 3))


@settings(max_examples=20)
@given(st.lists(rows(3), min_size=1, max_size=3), st.integers(1, 6))
def test_no_candidates_are_more_probable_to_the_heads(some_rows, num_nodes):
    products, level = [], [Fraction(1)]
    for row in some_rows:
        level = [value * share for value in level for share in row.tolist() if share]
        products += level
    proposal = medusa(lambda _: some_rows, 3, partial(best_first, num_nodes=num_nodes))(None, (), 3)
    values, depths = [Fraction(1)], [0]
    for token, parent in zip(proposal.tokens, proposal.parents, strict=True):
        values.append(values[parent] * some_rows[depths[parent]][token])
        depths.append(depths[parent] + 1)
    assert sum(values[1:]) == sum(sorted(products, reverse=True)[:num_nodes])


def test_heads_with_nothing_to_say_draft_nothing():
    assert len(medusa(lambda _: (), 3, model)(None, (), 2)) == 0
    assert len(medusa(lambda _: np.zeros((0, 3)), 3, PRODUCT)(None, (), 2)) == 0


def test_rows_are_checked():
    def drafted(rows_of_heads, vocab_size=3):
        return medusa(lambda _: rows_of_heads, vocab_size, PRODUCT)(None, (2,), 2)

    with pytest.raises(ValueError, match=r"the row at context \(2,\) sums to 0.0, not to 1"):
        drafted(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"the row at context \(2, any\) has the negative -1"):
        drafted((FIRST, [1, 1, -1]))
    with pytest.raises(ValueError, match="3 probabilities for a vocabulary of 4"):
        drafted((FIRST,), 4)
    no_law = np.array([[0.3, 0.2, 0.2]])
    no_law.setflags(write=False)
    with pytest.raises(ValueError, match=r"sums to 0\.7"):
        drafted(no_law)


def test_what_is_no_heads_or_no_maker_is_refused():
    with pytest.raises(ValueError, match=r"draft\.medusa of a tuple and a function: give heads\(context\)"):
        medusa((FIRST, SECOND), 3, model)
    with pytest.raises(ValueError, match="a function and a NoneType"):
        medusa(two_heads, 3, None)


def test_a_drafter_speaks_of_its_tokens():
    drafter = medusa(two_heads, 3, model, vocabulary=("a", "b", "c"))
    assert (drafter.vocab_size, drafter.vocabulary) == (3, ("a", "b", "c"))


# --- typical acceptance, the paper's own way to judge candidates


def test_typical_acceptance_of_candidates_is_one_text():
    """Nothing is drawn: of these heads the best token is 2, then 0, and both are plausible to the target.

    exp(-entropy) after () is .357, so that the bar is min(.3, .5477 · .357) = .196 and token 2, .2, passes;
    after 2 it is .348 and .191, and token 0, .4, passes. The last token is the target's best after 0, which
    is 2. The text (2, 0, 2) has probability 1/5 · 2/5 · 3/5 = 6/125, so the distance is 119/125.
    """
    heads = (rational([".1", ".2", ".7"]), rational([".8", ".1", ".1"]))
    drafter = medusa(lambda _: heads, 3, partial(tree, branching=(1, 1), scheme=top))
    proof = prove(verify.typical, TARGET, drafter, num_draft_tokens=2)
    assert proof.output == {(2, 0, 2): 1}
    assert proof.distance == Fraction(119, 125)


def test_typical_acceptance_of_sampled_chains():
    """All three tokens are plausible after (), so that the first has the head's law and is never refused.

    The second is the target's best one: 2 after 0, 1 after 1, 0 after 2 (the lower of equals). What the
    target has beside these is .5 · .4 + .3 · .3 + .2 · .6 = .41, and that is the distance of two tokens.
    """
    drafter = medusa(two_heads, 3, model)
    proof = prove(verify.typical, TARGET, drafter, num_draft_tokens=1)
    assert proof.output.map(lambda tokens: tokens[0]) == dict(enumerate(FIRST))
    assert proof.survival == (1,)
    assert proof.distance == Fraction(41, 100)
    assert prove(verify.typical, TARGET, drafter, num_draft_tokens=2).distance == Fraction(52, 125)


# --- faults


def test_c26_the_row_of_another_head_is_reported():
    """Tokens drawn from the first head and declared with the second, by hand.

    Target (5/8, 3/8, 0), heads (1/4, 1/4, 1/2) and (1/2, 1/4, 1/4). Tokens 0 and 1 are accepted for certain,
    5/8 and 3/8 being no less than what is declared; token 2 is refused, and what is left, (1/8, 1/8, 0),
    gives either with 1/2. Token 0 comes out with 1/4 + 1/2 · 1/2 = 1/2 and not 5/8.
    """
    drawn_from, other = rational(["1/4", "1/4", "1/2"]), rational(["1/2", "1/4", "1/4"])
    honest = medusa(lambda _: (drawn_from, other), 3, model)

    def shifted(chance, context, num_draft_tokens):
        return Draft(honest(chance, context, num_draft_tokens).tokens, (other,))

    target = table(rational(["5/8", "3/8", "0"]))
    proof = prove(verify.token, target, shifted, num_draft_tokens=1)
    first = proof.output.map(lambda tokens: tokens[0])
    assert first[0] == Fraction(1, 2)
    assert prove(verify.token, target, honest, num_draft_tokens=1).lossless


def test_c26_candidates_with_the_heads_own_laws_are_reported():
    """Best tokens declared as draws: token 0 always comes, and is accepted with min(1, 1/3 / (1/2)) = 2/3."""
    soft = partial(tree, branching=(1,), scheme=lambda row, drawn, count: row)

    def chosen(oracle):
        def propose(_, context, num_draft_tokens):
            return soft(oracle)(FirstOf(None), context, num_draft_tokens)

        return propose

    uniform = table(rational(["1/3"] * 3))
    proof = prove(verify.recursive, uniform, medusa(two_heads, 3, chosen), num_draft_tokens=1)
    assert proof.output.map(lambda tokens: tokens[0])[0] == Fraction(2, 3)
