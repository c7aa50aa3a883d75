"""Suffix decoding against its definition, by hand, and with the text of the round before in memory."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import Draft, Oracle, draft, point_mass, prove, rational, table, verify
from speculative.draft import best_first, suffix, suffix_tree, top

texts = st.lists(st.integers(0, 2), max_size=14).map(tuple)


def matched_and_continuations(context, max_match):
    """Return how long the longest match is and what followed each occurrence of it, to the end."""
    for length in range(min(max_match, len(context) - 1), 0, -1):
        found = [
            context[start + length :]
            for start in range(len(context) - length)
            if context[start : start + length] == context[-length:]
        ]
        if found:
            return length, found
    return 0, []


def shares(continuations, path, vocab_size):
    """Return the shares of the tokens that followed `path`; zeros where the text ended there."""
    following = Counter(text[len(path)] for text in continuations if text[: len(path)] == path != text)
    total = max(1, following.total())
    return [following[token] / total for token in range(vocab_size)]


@pytest.mark.parametrize(
    ("context", "count", "tokens"),
    [
        ((0, 1, 2, 0, 1), 5, (2, 0, 1)),  # match of two, four drafts allowed, three there
        ((0, 1, 2, 2, 2, 0, 1), 9, (2, 2, 2, 0)),  # no more than twice the match
        ((0, 1, 2, 2, 2, 0, 1), 3, (2, 2, 2)),
        ((1, 0, 2, 0, 1, 0, 1, 2, 0), 2, (1, 0)),  # after 2, 0 came 1 0
        ((0, 1, 0, 2, 0, 2, 0), 2, (2, 0)),
        ((3, 1, 3, 2, 3, 1, 4, 3), 1, (1,)),  # twice 1, once 2
        ((3, 2, 3, 1, 3), 1, (1,)),  # once each: the lower
        ((3, 3, 3, 1, 2, 3, 3), 1, (1,)),  # two occurrences that overlap, once each: the lower
        ((3, 3, 3), 4, (3,)),  # the match overlaps its own end
        ((0, 1, 2), 4, ()),
        ((0,), 4, ()),
        ((), 4, ()),
        ((0, 1, 0), 0, ()),
    ],
)
def test_the_chain_by_hand(context, count, tokens):
    proposal = suffix(5)(None, context, count)
    assert proposal.tokens == tokens
    assert [row.tolist() for row in proposal.probs] == [point_mass(token, 5).tolist() for token in tokens]


def test_the_tree_by_hand():
    """After 3 came 1 three times and 2 once; after 3 1 came 4, 0 and 0. A match of one allows so many nodes.

    1 has 3/4, 1 0 has 3/4 · 2/3 = 1/2, 2 and 1 4 have 1/4.
    """
    context = (3, 1, 4, 3, 1, 0, 3, 2, 3, 1, 0, 4, 3)
    for num_nodes, tokens, parents in (
        (1, (1,), (0,)),
        (2, (1, 0), (0, 1)),
        (4, (1, 0, 2, 4), (0, 1, 0, 1)),
    ):
        proposal = suffix_tree(5, max_match=1, factor=num_nodes)(None, context, 2)
        assert (proposal.tokens, proposal.parents) == (tokens, parents)
    assert proposal.draws[0].row.tolist() == [0, 0.75, 0.25, 0, 0]
    assert proposal.draws[0].scheme is top


@settings(max_examples=150)
@given(texts, st.integers(1, 4), st.sampled_from([0.5, 1, 2, 3.5]), st.integers(0, 5))
def test_both_against_their_definition(context, max_match, factor, count):
    matched, continuations = matched_and_continuations(context, max_match)
    chain = ()
    while len(chain) < min(count, int(factor * matched)) and any(shares(continuations, chain, 3)):
        row = shares(continuations, chain, 3)
        chain = (*chain, row.index(max(row)))
    options = {"max_match": max_match, "factor": factor}
    assert suffix(3, **options)(None, context, count).tokens == chain
    grown = suffix_tree(3, **options)(None, context, count)
    if not int(factor * matched):
        assert len(grown) == 0
        return
    model = Oracle(lambda path: np.array(shares(continuations, path, 3)), 3)
    expected = best_first(model, int(factor * matched))(None, (), count)
    assert paths_of(grown) == paths_of(expected)


def paths_of(proposal):
    before = [()]
    for token, parent in zip(proposal.tokens, proposal.parents, strict=True):
        before.append((*before[parent], token))
    return {
        path: [before[node] for node in proposal.draws[i].nodes] if i in proposal.draws else []
        for i, path in enumerate(before)
    }


@pytest.mark.parametrize("make", [draft.lookup, suffix, suffix_tree])
@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 12), texts), min_size=1, max_size=6))
def test_what_was_drafted_before_changes_nothing(make, steps):
    """Texts that go on, are cut back, or are others: one drafter and a new one each time agree."""
    drafter, context = make(3), ()
    for kept, more in steps:
        context = context[:kept] + more
        found, expected = drafter(None, context, 3), make(3)(None, context, 3)
        assert found.tokens == expected.tokens


def test_tokens_of_large_vocabularies():
    """Surrogates and numbers beyond 2^16 are characters like any other."""
    context = (0xD800, 70_000, 5, 0xDFFF, 0xD800, 70_000)
    for make in (draft.lookup, suffix, suffix_tree):
        assert make(100_000)(None, context, 2).tokens == (5, 0xDFFF)


@pytest.mark.parametrize("make", [suffix, suffix_tree])
def test_the_vocabulary_is_one_of_characters(make):
    with pytest.raises(ValueError, match=rf"draft\.{make.__name__} of a vocabulary of 2000000: give"):
        make(2_000_000)
    assert make(3, vocabulary=("a", "b", "c")).vocabulary == ("a", "b", "c")


def test_c29_the_most_frequent_token_declared_with_its_share_is_reported():
    """Token 0 followed twice and 1 once: declared (2/3, 1/3, 0), drafted always.

    A uniform target accepts 0 with (1/3) / (2/3) = 1/2 and draws 2, all that is left, otherwise: (1/2, 0,
    1/2), off by 1/3.
    """

    def soft(chance, context, num_draft_tokens):
        honest = suffix(3, max_match=1)(chance, context, num_draft_tokens)
        return Draft(honest.tokens, (rational(["2/3", "1/3", "0"]),))

    uniform, context = table(rational(["1/3"] * 3)), (2, 0, 2, 1, 2, 0, 2)
    options = {"context": context, "num_draft_tokens": 1}
    first = prove(verify.token, uniform, soft, **options).output.map(lambda tokens: tokens[0])
    assert first == {0: Fraction(1, 2), 2: Fraction(1, 2)}
    assert prove(verify.token, uniform, suffix(3, max_match=1), **options).lossless
