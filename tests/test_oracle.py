"""Oracles: lookups, checks at the door, scoring, caching, and the faults that `checked` finds."""

import doctest
import itertools
import math
import pickle
import re
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative.constraint import masked, repetition_penalty
from speculative.distribution import point_mass, rational
from speculative.draft import NO_DRAFT, model
from speculative.oracle import (
    Oracle,
    cached,
    check_vocabulary,
    checked,
    from_logits,
    from_probs,
    keep_last_pass,
    map_rows,
    path_by_path,
    reachable,
    softmax,
    table,
)
from speculative.testing import rows
from speculative.warp import compose, temperature, top_k

A = rational(["1/2", "1/3", "1/6"])
B = rational(["1/7", "2/7", "4/7"])
C = rational(["0", "1/5", "4/5"])


def weights_by_context(context):
    """Another row after every context, of unnormalised weights."""
    return [
        1 + (7 * sum((i + 1) * (token + 1) for i, token in enumerate(context)) + 5 * x) % 11 for x in range(3)
    ]


def probs_by_context(context):
    """Exact and without zeros, so that every context can be reached."""
    weights = weights_by_context(context)
    return rational([Fraction(weight, sum(weights)) for weight in weights])


def logits_by_context(context):
    return np.log(weights_by_context(context))


def scored(function, context, drafted):
    """One pass: row i from context + drafted[:i]."""
    return [function(context + drafted[:i]) for i in range(len(drafted) + 1)]


def scored_tree(function, context, tokens, parents):
    """One pass over a tree: row i from the context and the tokens on the way to node i."""
    contexts = [context]
    for token, parent in zip(tokens, parents, strict=True):
        contexts.append((*contexts[parent], token))
    return [function(each) for each in contexts]


@st.composite
def trees(draw, max_nodes=5):
    """Tokens and parents."""
    parents = tuple(draw(st.integers(0, node)) for node in range(draw(st.integers(0, max_nodes))))
    return tuple(draw(st.integers(0, 2)) for _ in parents), parents


TREE = (0, 1, 2, 2, 0), (0, 0, 1, 2, 2)
"""Paths 0 2, 1 2 and 1 0."""

short_contexts = st.lists(st.integers(0, 2), max_size=4).map(tuple)


# Oracle


@given(short_contexts, short_contexts)
def test_row_i_of_a_score_is_the_law_after_i_drafted_tokens(context, drafted):
    one_by_one = from_probs(probs_by_context, 3)
    one_pass = from_probs(probs_by_context, 3, score=partial(scored, probs_by_context))
    expected = [probs_by_context(context + drafted[:i]).tolist() for i in range(len(drafted) + 1)]
    for oracle in (one_by_one, one_pass):
        assert [row.tolist() for row in oracle.score(context, drafted)] == expected
        assert oracle(context).tolist() == expected[0]


def test_tokens_reach_the_model_as_a_tuple_of_ints_whatever_sequence_they_come_in():
    asked = []

    def spy(context, drafted=None):
        asked.append((context, drafted))
        return A if drafted is None else [A] * (len(drafted) + 1)

    oracle = from_probs(spy, 3, score=spy)
    oracle(np.array([0, 2]))
    oracle.score([1], np.array([2], dtype=np.int8))
    assert asked == [((0, 2), None), ((1,), (2,))]
    assert {type(token) for context, drafted in asked for token in context + (drafted or ())} == {int}


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ((0, 3, 1), r"token 3 in context \(0, 3, 1\) is outside the vocabulary: give tokens from 0 to 2"),
        ((0, -1), r"token -1 in context \(0, -1\) is outside the vocabulary"),
        ((0, 1, 2, 0, 1), r"a context of 5 tokens is over the limit of 4: give a shorter context"),
        ((0, 1.0), r"the context \(0, 1.0\) is not made of tokens: give a tuple of ints"),
        ("ab", r"the context 'ab' is not made of tokens"),
        (7, r"the context 7 is not made of tokens"),
    ],
)
def test_a_context_that_cannot_be_is_refused(context, message):
    oracle = from_probs(probs_by_context, 3, score=partial(scored, probs_by_context), context_limit=4)
    with pytest.raises(ValueError, match="^" + message):
        oracle(context)


def test_the_limits_count_drafted_tokens_too():
    oracle = from_probs(probs_by_context, 3, context_limit=4)
    assert len(oracle.score((0, 1), (2, 0))) == 3
    with pytest.raises(ValueError, match="a context of 5 tokens is over the limit of 4"):
        oracle.score((0, 1), (2, 0, 1))
    with pytest.raises(ValueError, match=r"token 3 in draft \(3,\) is outside the vocabulary"):
        oracle.score((0,), (3,))


@pytest.mark.parametrize("count", [1, 3])
def test_a_pass_with_too_few_or_too_many_rows_is_refused(count):
    oracle = from_probs(probs_by_context, 3, score=lambda context, drafted: [A] * count)
    with pytest.raises(ValueError, match=f"score_rows gave {count} rows for 1 drafted tokens: give one more"):
        oracle.score((), (0,))


# trees


def tree_oracles():
    """The same laws, scored in each way."""
    return [
        from_probs(probs_by_context, 3),
        from_probs(probs_by_context, 3, score=partial(scored, probs_by_context)),
        from_probs(probs_by_context, 3, score_tree=partial(scored_tree, probs_by_context)),
        Oracle(probs_by_context, 3, partial(scored_tree, probs_by_context)),
        Oracle(probs_by_context, 3, path_by_path(partial(scored, probs_by_context))),
    ]


@given(short_contexts, trees())
def test_row_i_of_a_tree_is_the_law_after_the_path_to_node_i(context, tree):
    expected = [row.tolist() for row in scored_tree(probs_by_context, context, *tree)]
    for oracle in tree_oracles():
        assert [row.tolist() for row in oracle.score_tree(context, *tree)] == expected


@given(short_contexts, short_contexts)
def test_a_chain_is_a_tree_of_one_branch(context, drafted):
    expected = [row.tolist() for row in scored(probs_by_context, context, drafted)]
    for oracle in tree_oracles():
        assert [row.tolist() for row in oracle.score(context, drafted)] == expected
        rows_of_tree = oracle.score_tree(context, drafted, range(len(drafted)))
        assert [row.tolist() for row in rows_of_tree] == expected


def test_logits_of_a_tree_are_those_of_its_paths():
    oracle = from_logits(logits_by_context, 3, score_tree=partial(scored_tree, logits_by_context))
    expected = scored_tree(probs_by_context, (2,), *TREE)
    for row, exact in zip(oracle.score_tree((2,), *TREE), expected, strict=True):
        assert row == pytest.approx(exact.astype(float), rel=1e-14)


def test_a_scorer_of_chains_is_asked_once_a_path_and_one_of_trees_once():
    chains, passes = [], []

    def score(context, drafted):
        chains.append((context, drafted))
        return scored(probs_by_context, context, drafted)

    def score_tree(context, tokens, parents):
        passes.append((context, tokens, parents))
        return scored_tree(probs_by_context, context, tokens, parents)

    for oracle in (from_probs(None, 3, score=score), from_probs(None, 3, score_tree=score_tree)):
        oracle.score_tree((1,), *TREE)
        oracle.score((1,), (0, 2))
        oracle.score((1,), ())
    assert chains == [((1,), path) for path in [(0, 2), (1, 2), (1, 0), (0, 2), ()]]
    assert passes == [((1,), *TREE), ((1,), (0, 2), (0, 1)), ((1,), (), ())]


def test_trees_reach_the_model_as_tuples_of_ints():
    asked = []

    def score_tree(*arguments):
        asked.append(arguments)
        return [A] * 3

    from_probs(None, 3, score_tree=score_tree).score_tree([1], np.array([2, 0]), np.array([0, 0]))
    assert asked == [((1,), (2, 0), (0, 0))]
    assert {type(value) for argument in asked[0] for value in argument} == {int}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (((0, 1), (0,)), "a tree of 2 tokens and 1 parents: give one parent a token"),
        (((0, 1), (0, 2)), "node 2 has parent 2: give an earlier node, 0 for the root"),
        (((0, 1), (0, -1)), "node 2 has parent -1: give an earlier node"),
        (((0, 3), (0, 0)), r"token 3 in draft \(0, 3\) is outside the vocabulary: give tokens from 0 to 2"),
        (((0, 0.5), (0, 0)), r"the draft \(0, 0.5\) is not made of tokens: give a tuple of ints"),
        (((0, 1, 2), (0, 1, 2)), "a context of 5 tokens is over the limit of 4: give a shorter context"),
    ],
)
def test_a_tree_that_cannot_be_is_refused(tree, message):
    for score_tree in (None, lambda context, tokens, parents: [A] * (len(tokens) + 1)):
        oracle = from_probs(lambda context: A, 3, score_tree=score_tree, context_limit=4)
        assert len(oracle.score_tree((1, 1), (0, 1, 2), (0, 1, 1))) == 4, "wide, and no deeper than allowed"
        with pytest.raises(ValueError, match=f"^{message}"):
            oracle.score_tree((1, 1), *tree)


@pytest.mark.parametrize("count", [5, 7])
def test_a_pass_over_a_tree_with_too_few_or_too_many_rows_is_refused(count):
    message = f"score_rows gave {count} rows for 5 drafted tokens: give one more"
    for oracle in (
        from_probs(None, 3, score_tree=lambda *tree: [A] * count),
        Oracle(None, 3, lambda *tree: [A] * count),
    ):
        with pytest.raises(ValueError, match=message):
            oracle.score_tree((), *TREE)
    oracle = from_probs(None, 3, score=lambda context, drafted: [A] * (count - 3))
    with pytest.raises(ValueError, match=f"score_rows gave {count - 3} rows for 2 drafted tokens"):
        oracle.score_tree((), *TREE)


@pytest.mark.parametrize("make", [from_probs, from_logits])
def test_two_scorers_are_one_too_many(make):
    score = partial(scored, probs_by_context)
    with pytest.raises(ValueError, match=r"^both score and score_tree: give score_tree alone"):
        make(probs_by_context, 3, score=score, score_tree=partial(scored_tree, probs_by_context))


def test_a_bad_row_of_a_tree_is_named_by_its_own_path():
    def score_tree(context, tokens, parents):
        return [A, A, A, A, A, [0.5, 0.5, 0.5]]

    with pytest.raises(ValueError, match=r"the row at context \(2, 1, 0\) sums to 1.5"):
        from_probs(None, 3, score_tree=score_tree).score_tree((2,), *TREE)


def no_token_twice(context):
    return np.array([not context or token != context[-1] for token in range(3)])


WRAPPERS = {
    "map_rows": lambda oracle: map_rows(oracle, last_token_first),
    "temperature": temperature(Fraction(1, 2)),
    "compose": compose(top_k(2), temperature(Fraction(1, 2))),
    "repetition_penalty": lambda oracle: repetition_penalty(oracle, 2),
    "masked": lambda oracle: masked(oracle, no_token_twice),
    "cached": cached,
    "checked": checked,
    "all": lambda oracle: checked(cached(repetition_penalty(masked(top_k(2)(oracle), no_token_twice), 2))),
}


@pytest.mark.parametrize("name", WRAPPERS)
@given(short_contexts, trees())
def test_a_wrapper_answers_for_a_tree_in_one_pass_as_it_does_row_by_row(name, context, tree):
    passes = []

    def score_tree(*arguments):
        passes.append(arguments)
        return scored_tree(probs_by_context, *arguments)

    wrapped = WRAPPERS[name](from_probs(probs_by_context, 3, score_tree=score_tree))
    alone = WRAPPERS[name](from_probs(probs_by_context, 3))
    rows_of_tree = wrapped.score_tree(context, *tree)
    assert passes == [(context, *tree)]
    contexts = scored_tree(lambda path: path, context, *tree)
    for node in reachable(rows_of_tree, *tree):
        assert rows_of_tree[node].tolist() == alone(contexts[node]).tolist()
    for node, row in enumerate(alone.score_tree(context, *tree)):
        assert row.tolist() == rows_of_tree[node].tolist()


def test_a_wrapper_that_leaves_the_scorer_behind_is_found():
    """What the test above is there for: rows asked alone are warped, rows of a tree are not."""
    plain = from_probs(probs_by_context, 3, score_tree=partial(scored_tree, probs_by_context))
    half_warped = replace(plain, row=temperature(Fraction(1, 2))(plain).row)
    with pytest.raises(
        ValueError, match=r"row 0 of score_tree\(\(\), \(0, 1, 2, 2, 0\), \(0, 0, 1, 2, 2\)\)"
    ):
        checked(half_warped).score_tree((), *TREE)


def test_cached_asks_for_no_tree_that_it_knows():
    passes = []

    def score_tree(*arguments):
        passes.append(arguments)
        return scored_tree(probs_by_context, *arguments)

    oracle = cached(from_probs(probs_by_context, 3, score_tree=score_tree))
    first = oracle.score_tree((2,), *TREE)
    for again in (oracle.score_tree((2,), *TREE), oracle.score_tree((2,), (1, 0, 2), (0, 0, 2))):
        assert len(passes) == 1
        assert again[0] is first[0]
    assert oracle.score((2, 1), (2,))[1] is first[4]
    assert len(passes) == 1
    oracle.score_tree((2,), (1, 1), (0, 0))
    assert len(passes) == 1, "known, though the same token twice"
    assert oracle.score_tree((2,), (1, 1), (0, 1))[1] is first[2]
    assert len(passes) == 2


def test_cached_and_checked_leave_rows_of_a_tree_behind_a_token_of_probability_zero():
    """Node 1 cannot come, node 3 follows it; node 2 can, and node 4 follows that."""
    laws = {(): C, (1,): B, (1, 1): A}

    def score_tree(context, tokens, parents):
        return [C, point_mass(0, 3), B, point_mass(0, 3), A]

    oracle = from_probs(laws.__getitem__, 3, score_tree=score_tree)
    tree = (0, 1, 1, 1), (0, 0, 1, 2)
    for wrapped in (checked(oracle), cached(oracle)):
        assert wrapped.score_tree((), *tree)[3].tolist() == [1, 0, 0]
        assert wrapped((1, 1)).tolist() == A.tolist()
        with pytest.raises(KeyError):
            wrapped((0,))


def sees_a_cousin(context, tokens, parents):
    """Row i from all nodes before it: a tree mask left causal, as for a chain."""
    return [probs_by_context(context + tokens[:i]) for i in range(len(tokens) + 1)]


def sees_its_parent_only(context, tokens, parents):
    contexts = [context, *(context + tokens[i : i + 1] for i in range(len(tokens)))]
    return [probs_by_context(each) for each in contexts]


@pytest.mark.parametrize(
    ("score_tree", "node", "path"), [(sees_a_cousin, 2, (2, 1)), (sees_its_parent_only, 3, (2, 0, 2))]
)
def test_checked_finds_a_tree_whose_rows_are_not_those_of_their_paths(score_tree, node, path):
    oracle = from_probs(probs_by_context, 3, score_tree=score_tree)
    oracle.score_tree((2,), *TREE)  # which alone says nothing
    message = f"row {node} of score_tree((2,), {TREE[0]}, {TREE[1]}) is not the law after {path}, total"
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        checked(oracle).score_tree((2,), *TREE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 0}, "vocab_size = 0 is too small: give an int of at least 1"),
        ({"vocabulary": ("a", "b")}, "vocabulary has 2 strings for 3 tokens: give as many"),
        ({"context_limit": -1}, "context_limit = -1 is too small: give an int of at least 0"),
    ],
)
def test_an_oracle_of_impossible_sizes_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        from_probs(probs_by_context, **{"vocab_size": 3, **fields})


@pytest.mark.parametrize("option", ["vocab_size", "context_limit"])
@pytest.mark.parametrize("value", [2.5, "3", True])
def test_sizes_are_whole_numbers(option, value):
    with pytest.raises(ValueError, match=rf"^{option} = {value!r} is not a whole number: give an int of "):
        from_probs(probs_by_context, **{"vocab_size": 3, option: value})


def test_wrappers_refuse_what_they_cannot_wrap():
    with pytest.raises(ValueError, match=r"^keep_last_pass of a int: give an oracle, from_probs\("):
        keep_last_pass(3)
    for tolerance in (-1e-9, math.nan, "0"):
        with pytest.raises(ValueError, match=r"^tolerance = .*: give a"):
            checked(from_probs(probs_by_context, 3), tolerance)


def test_a_context_limit_of_zero_still_answers_the_empty_context():
    assert from_probs(probs_by_context, 3, context_limit=0)(()).sum() == 1


def test_a_vocabulary_of_one_token_is_a_vocabulary():
    assert table([1]).vocab_size == 1
    assert from_logits(lambda context: [-5.0], 1)(()).tolist() == softmax([7.0]).tolist() == [1]


def test_oracles_are_immutable_and_can_be_keys():
    oracle = from_probs(probs_by_context, 3, score=partial(scored, probs_by_context))
    with pytest.raises(AttributeError, match="vocab_size"):
        oracle.vocab_size = 4
    wrapped = cached(oracle), checked(oracle)
    assert len({oracle, *wrapped}) == 3
    assert wrapped[0] != cached(oracle)  # each has a memory of its own


def test_the_repr_is_one_short_line():
    oracle = table([A, B], vocabulary="abc")
    assert repr(oracle) == "Oracle(vocab_size=3, context_limit=1)"


# table


def test_the_longest_suffix_in_the_table_gives_the_law():
    oracle = table({(): A, (1,): B, (2, 1): C, (0, 0, 0): B})
    expected = {
        (): A,
        (0,): A,
        (1,): B,
        (0, 1): B,
        (2, 1): C,
        (1, 2, 1): C,
        (1, 2): A,
        (0, 0): A,
        (1, 0, 0, 0): B,
    }
    for context, row in expected.items():
        assert oracle(context).tolist() == row.tolist()
        assert oracle(context) is oracle(context)
    assert (oracle.vocab_size, oracle.context_limit, oracle.score_rows) == (3, None, None)


def test_a_context_without_a_law_is_named():
    oracle = table({(0,): A, (1, 0): B})
    assert oracle((2, 0)) is A
    with pytest.raises(
        ValueError, match=r"no law for context \(0, 1\) nor for any end of it: give one under \(\)"
    ):
        oracle((0, 1))
    with pytest.raises(ValueError, match=r"no law for context \(\)"):
        oracle(())


@pytest.mark.parametrize("laws", [A, A.tolist(), A[np.newaxis].repeat(5, axis=0), [A] * 5])
def test_one_row_is_the_law_after_every_context_and_n_rows_go_by_length(laws):
    oracle = table(laws)
    assert all(row.tolist() == A.tolist() for row in oracle.score((0, 1), (2, 0)))


def test_row_i_is_the_law_after_i_tokens_and_no_longer_context_is_asked_about():
    oracle = table([A, point_mass(1, 3), [0.5, 0.25, 0.25]])
    assert oracle(()) is A
    assert oracle((2,)).tolist() == [0, 1, 0]
    assert oracle((0, 0)).tolist() == oracle((2, 1)).tolist() == [0.5, 0.25, 0.25]
    assert oracle.context_limit == 2
    with pytest.raises(ValueError, match="a context of 3 tokens is over the limit of 2"):
        oracle((0, 0, 0))
    assert table([A, A, A], context_limit=1).context_limit == 1
    assert table([A, A, A], context_limit=7).context_limit == 2
    assert table(A, context_limit=7).context_limit == 7
    assert table([A, A], 3, "xyz").vocabulary == table(A, 3, "xyz").vocabulary == ("x", "y", "z")


@pytest.mark.parametrize(
    ("laws", "message"),
    [
        ({}, r"table got no laws: give a row, or rows by context"),
        ([], r"the row at context \(\) has shape \(0,\)"),
        ({1: A}, r"table has the key 1: give contexts, for example \(1,\)"),
        ({(): A, (2,): [0.5, 0.5, 0.5]}, r"the row at context \(2,\) sums to 1.5, not to 1"),
        ({(): A, (2,): [0.5, 0.5]}, r"the row at context \(2,\) has 2 probabilities for a vocabulary of 3"),
        ({(): A, (0, 3): B}, r"token 3 in context \(0, 3\) is outside the vocabulary"),
        ({(): A, (0, "b"): B}, r"the context \(0, 'b'\) is not made of tokens"),
        ([A, B, [0.5, 0.5, 0.5]], r"the row at context \(any, any\) sums to 1.5"),
        ([A, [0.5, 0.5]], r"the row at context \(any,\) has 2 probabilities for a vocabulary of 3"),
    ],
)
def test_a_table_is_checked_when_it_is_made(laws, message):
    with pytest.raises(ValueError, match="^" + message):
        table(laws)


def test_the_vocabulary_size_of_a_table_can_be_required():
    assert table(A, 3).vocab_size == 3
    for laws in (A, [A], {(): A}):
        with pytest.raises(ValueError, match="has 3 probabilities for a vocabulary of 4"):
            table(laws, 4)
    with pytest.raises(ValueError, match="table got no laws"):
        table({}, 4)


def test_the_example_in_the_documentation_is_true():
    assert doctest.testmod(sys.modules["speculative.oracle.table"]) == (0, 3)


# from_probs and from_logits


def test_a_model_that_writes_into_one_buffer_is_read_at_once():
    buffer = np.zeros(3)

    def model(context):
        buffer[:] = probs_by_context(context)
        return buffer

    oracle = from_probs(model, 3)
    before = oracle((0,))
    assert before.tolist() != oracle((1,)).tolist()
    assert before.tolist() == probs_by_context((0,)).astype(float).tolist()


def test_a_bad_row_is_named_by_its_own_context_in_a_pass_too():
    def score(context, drafted):
        return [A, B, [0.5, 0.5, 0.5]]

    with pytest.raises(ValueError, match=r"the row at context \(2, 0, 1\) sums to 1.5"):
        from_probs(probs_by_context, 3, score=score).score((2,), (0, 1))
    with pytest.raises(
        ValueError, match=r"the row at context \(2,\) has 3 probabilities for a vocabulary of 4"
    ):
        from_probs(lambda context: A, 4)((2,))


@given(st.lists(st.floats(-30, 30), min_size=3, max_size=5), st.floats(-1e3, 1e3))
def test_softmax_is_the_law_proportional_to_exp_whatever_is_added_to_all_logits(logits, shift):
    weights = [math.exp(logit) for logit in logits]
    expected = [weight / math.fsum(weights) for weight in weights]
    assert softmax(logits) == pytest.approx(expected, rel=1e-13)
    assert softmax(np.array(logits) + shift) == pytest.approx(expected, rel=1e-11)
    assert softmax(logits).sum() == pytest.approx(1, abs=1e-15 * len(logits))
    assert not softmax(logits).flags.writeable


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([1e308, -1e308, 1e308], [0.5, 0, 0.5]),
        ([-1e308, -1e308, -np.inf], [0.5, 0.5, 0]),
        ([-np.inf, -750, -np.inf], [0, 1, 0]),
        (np.array([800, 800, 0], dtype=np.float16), [0.5, 0.5, 0]),
        ([Fraction(1, 3), Fraction(1, 3), -np.inf], [0.5, 0.5, 0]),
        ([10**6, 10**6, 0], [0.5, 0.5, 0]),
    ],
)
def test_logits_of_any_size_neither_overflow_nor_divide_by_zero(logits, expected):
    assert softmax(logits).tolist() == expected


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (
            [0, np.nan, 1],
            r"have nan for token 1: give finite logits, or -inf for some tokens to rule them out",
        ),
        ([0, np.inf, np.inf], r"have inf for token 1: give finite logits"),
        ([-np.inf] * 3, r"are all -inf: give finite logits"),
        ([0, 1], r"have shape \(2,\): give one logit a token, shape \(3,\)"),
        ([[0, 1, 2]], r"have shape \(1, 3\)"),
        ([], r"have shape \(0,\)"),
        (["a", "b", "c"], r"are not an array of numbers: give one logit a token"),
        (None, r"have shape \(\)"),
        ([{}, {}, {}], r"are not an array of numbers"),
    ],
)
def test_logits_that_give_no_law_are_refused(logits, message):
    with pytest.raises(ValueError, match=r"^the logits at context \(1, 2\) " + message):
        from_logits(lambda context: logits, 3)((1, 2))


def test_logits_of_no_required_size_still_have_to_be_a_row():
    with pytest.raises(ValueError, match=r"the logits at context \(\) have shape \(2, 1\): .* shape \(V,\)"):
        softmax([[1.0], [2.0]])
    with pytest.raises(ValueError, match=r"the logits at context \(\) have shape \(0,\)"):
        softmax([])


@given(short_contexts, short_contexts)
def test_from_logits_is_from_probs_of_the_softmax(context, drafted):
    oracle = from_logits(logits_by_context, 3, score=partial(scored, logits_by_context), vocabulary="abc")
    expected = from_probs(probs_by_context, 3).score(context, drafted)
    for row, exact in zip(oracle.score(context, drafted), expected, strict=True):
        assert row == pytest.approx(exact.astype(float), rel=1e-14)
    assert oracle.vocabulary == ("a", "b", "c")
    assert from_probs(probs_by_context, 3, vocabulary="abc", context_limit=9).vocabulary == ("a", "b", "c")


# map_rows


def last_token_first(context, row):
    """A map that depends on context and row: roll the row by the last token."""
    return np.roll(row, context[-1] if context else 0)


@given(short_contexts, short_contexts)
def test_map_rows_maps_each_row_with_its_own_context(context, drafted):
    for score in (None, partial(scored, probs_by_context)):
        oracle = from_probs(probs_by_context, 3, score=score, vocabulary="abc", context_limit=9)
        mapped = map_rows(oracle, last_token_first)
        expected = [
            last_token_first(context + drafted[:i], row)
            for i, row in enumerate(oracle.score(context, drafted))
        ]
        assert [row.tolist() for row in mapped.score(context, drafted)] == [row.tolist() for row in expected]
        assert mapped(context).tolist() == expected[0].tolist()
        assert (mapped.vocabulary, mapped.context_limit) == (("a", "b", "c"), 9)


def test_a_map_is_checked_and_handed_through_when_it_changes_nothing():
    oracle = table(A)
    assert map_rows(oracle, lambda context, row: row)(()) is oracle(())
    with pytest.raises(ValueError, match=r"the row at context \(2,\) sums to 2, not to 1"):
        map_rows(oracle, lambda context, row: 2 * row)((2,))
    with pytest.raises(ValueError, match="has 2 probabilities for a vocabulary of 3"):
        map_rows(oracle, lambda context, row: [0.5, 0.5])((2,))


# cached


class Counting:
    """A model that counts its calls; each call makes new rows."""

    def __init__(self):
        self.rows, self.passes = [], []

    def row(self, context):
        self.rows.append(context)
        return probs_by_context(context)

    def score(self, context, drafted):
        self.passes.append((context, drafted))
        return scored(probs_by_context, context, drafted)


def test_cached_asks_once_about_a_context_and_hands_out_one_row():
    model = Counting()
    oracle = cached(from_probs(model.row, 3, context_limit=9))
    first = oracle((0, 1))
    assert oracle((0, 1)) is first
    assert oracle.score((0,), (1, 2))[1] is first
    assert model.rows == [(0, 1), (0,), (0, 1, 2)]
    assert oracle.context_limit == 9
    assert oracle.score_rows is None


def test_cached_scores_in_one_pass_and_only_where_a_row_is_missing():
    model = Counting()
    oracle = cached(from_probs(model.row, 3, score=model.score))
    alone = oracle((0, 1))
    scores = oracle.score((0,), (1, 2))
    assert scores[1] is alone  # the one known before, not the new one
    assert [row.tolist() for row in scores] == [
        probs_by_context(c).tolist() for c in [(0,), (0, 1), (0, 1, 2)]
    ]
    again = oracle.score((0,), (1, 2))
    assert all(one is other for one, other in zip(scores, again, strict=True))
    assert oracle((0, 1, 2)) is scores[2]
    assert oracle.score((0, 1), (2,))[1] is scores[2]
    assert model.rows == [(0, 1)]
    assert model.passes == [((0,), (1, 2))]


def test_cached_remembers_no_row_behind_a_token_of_probability_zero():
    """Such rows are unspecified in a score; the oracle may say something else when asked alone."""
    laws = {(): C, (1,): A, (0,): B}

    def score(context, drafted):
        return [laws[context], *([point_mass(0, 3)] * len(drafted))]

    oracle = cached(from_probs(laws.__getitem__, 3, score=score))
    assert oracle.score((), (0,))[1].tolist() == [1, 0, 0]
    assert oracle((0,)).tolist() == B.tolist()
    assert oracle.score((), (1,))[1].tolist() == [1, 0, 0]
    assert oracle((1,)).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("some_rows", "tokens", "parents", "expected"),
    [
        ([A], (), (), [0]),
        ([C, A, A], (1, 2), (0, 1), [0, 1, 2]),
        ([C, A, A], (0, 2), (0, 1), [0]),
        ([A, C, A], (0, 0), (0, 1), [0, 1]),
        ([C, A, C, B, A], (0, 1, 2, 2), (0, 0, 1, 2), [0, 2, 4]),
    ],
)
def test_rows_can_be_reached_up_to_the_first_token_of_probability_zero(some_rows, tokens, parents, expected):
    assert list(reachable(some_rows, tokens, parents)) == expected


# checked


@given(short_contexts, short_contexts)
def test_checked_lets_a_pure_oracle_pass_unchanged(context, drafted):
    for score in (None, partial(scored, probs_by_context)):
        oracle = from_probs(probs_by_context, 3, score=score, context_limit=9)
        test = checked(oracle)
        for _ in range(2):
            rows_tested = test.score(context, drafted)
            assert [row.tolist() for row in rows_tested] == [
                r.tolist() for r in oracle.score(context, drafted)
            ]
            assert test(context).tolist() == oracle(context).tolist()
        assert test.context_limit == 9


def jittered(context, drafted):
    """Right but for the last digits, as a pass over several positions rounds otherwise."""
    return [row.astype(float) * (1 + 1e-12) for row in scored(probs_by_context, context, drafted)]


def test_checked_tolerates_rounding_in_floats_as_far_as_it_is_told():
    oracle = from_probs(lambda context: probs_by_context(context).astype(float), 3, score=jittered)
    assert len(checked(oracle).score((0,), (1, 2))) == 3
    with pytest.raises(ValueError, match="total variation"):
        checked(oracle, tolerance=0).score((0,), (1, 2))


def leaks_the_next_token(context, drafted):
    """Row i is computed with drafted[i] in sight: a causal mask off by one."""
    return [probs_by_context(context + drafted[: i + 1]) for i in range(len(drafted) + 1)]


def leaks_the_last_token(context, drafted):
    """Every row sees the whole draft: no causal mask."""
    return [probs_by_context(context + drafted)] * (len(drafted) + 1)


def lags_by_one(context, drafted):
    """Row i is the law before the token that precedes it."""
    return [
        probs_by_context((context + drafted)[: max(0, len(context) + i - 1)]) for i in range(len(drafted) + 1)
    ]


def drops_the_context(context, drafted):
    return [probs_by_context(drafted[:i]) for i in range(len(drafted) + 1)]


def forgets_a_draft(context, drafted):
    """A cache with a gap: the first drafted token is missing from the second."""
    return [probs_by_context(context + drafted[i > 1 : i]) for i in range(len(drafted) + 1)]


@pytest.mark.parametrize(
    ("score", "position"),
    [
        (leaks_the_next_token, 0),
        (leaks_the_last_token, 0),
        (lags_by_one, 0),
        (drops_the_context, 0),
        (forgets_a_draft, 2),
    ],
)
def test_checked_finds_a_score_whose_rows_are_not_those_of_their_contexts(score, position):
    oracle = from_probs(probs_by_context, 3, score=score)
    oracle.score((0, 2), (1, 0))  # which alone says nothing
    after = re.escape(str((0, 2, 1, 0)[: 2 + position]))
    message = rf"^row {position} of score\(\(0, 2\), \(1, 0\)\) is not the law after {after}, total variation"
    with pytest.raises(ValueError, match=message):
        checked(oracle).score((0, 2), (1, 0))


def test_checked_finds_an_error_in_exact_rows_that_is_smaller_than_any_tolerance():
    def score(context, drafted):
        hair = rational(["1e-30", "-1e-30", 0])
        return [row + hair for row in scored(probs_by_context, context, drafted)]

    with pytest.raises(ValueError, match="row 0 of score"):
        checked(from_probs(probs_by_context, 3, score=score)).score((), ())


def test_checked_does_not_compare_rows_that_nothing_reads():
    def score(context, drafted):
        return [C, *([point_mass(0, 3)] * len(drafted))]

    oracle = checked(from_probs(lambda context: C, 3, score=score))
    assert oracle.score((), (0,))[1].tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match=r"row 1 of score\(\(\), \(1,\)\) is not the law after \(1,\)"):
        oracle.score((), (1,))


def test_checked_finds_randomness_at_the_first_call():
    rng = np.random.default_rng(0)
    oracle = from_probs(lambda context: rng.dirichlet([1, 1, 1]), 3)
    with pytest.raises(
        ValueError, match=r"^the oracle gives two laws after context \(1,\), total variation 0\.\d+: "
    ):
        checked(oracle)((1,))


def test_checked_finds_a_state_that_calls_leave_behind():
    """A model that adds what it is asked to what it holds, and is not rewound when a draft is rejected."""
    held = set()

    def stale(context):
        held.update(context)
        return A if 2 in held else B

    oracle = checked(from_probs(stale, 3))
    oracle((0,))
    oracle((2,))
    with pytest.raises(ValueError, match=r"the oracle gives two laws after context \(0,\)"):
        oracle((0,))


def test_checked_finds_rows_that_are_overwritten_or_no_laws():
    buffer = np.array([0.5, 0.25, 0.25])

    def overwrites(context):
        buffer[:] = np.roll(buffer, 1)
        return buffer

    with pytest.raises(ValueError, match="the oracle gives two laws"):
        checked(Oracle(overwrites, 3))(())
    with pytest.raises(ValueError, match=r"the row at context \(\) sums to 2"):
        checked(Oracle(lambda context: 2 * A, 3))(())
    with pytest.raises(ValueError, match=r"the row at context \(1,\) sums to 2"):
        checked(Oracle(lambda context: A, 3, lambda context, tokens, parents: [A, 2 * A])).score((), (1,))


# vocabularies


def test_c10_vocabularies_have_to_be_the_same():
    plain, named = table(A), table(B, vocabulary=["a", "b", "c"])
    for target, draft in itertools.product([plain, named], repeat=2):
        check_vocabulary(target, draft)
    with pytest.raises(
        ValueError, match=r"the target has 3 tokens and the draft 4: give a draft with the target's"
    ):
        check_vocabulary(plain, table([0.25] * 4))
    with pytest.raises(
        ValueError, match="token 1 is 'b' to the target and 'x' to the draft: give a draft with"
    ):
        check_vocabulary(named, table(A, vocabulary=["a", "x", "y"]))
    with pytest.raises(ValueError, match="token 2 is 'c' to the target and 'z' to the draft"):
        check_vocabulary(named, table(A, vocabulary=["a", "b", "z"]))


def test_c10_drafters_are_compared_by_what_they_carry():
    named = table(B, vocabulary=["a", "b", "c"])
    check_vocabulary(named, model(named))
    check_vocabulary(named, model(table(A)))
    check_vocabulary(named, lambda chance, context, num_draft_tokens: NO_DRAFT)
    with pytest.raises(ValueError, match="the target has 3 tokens and the draft 4"):
        check_vocabulary(named, model(table([0.25] * 4)))
    with pytest.raises(ValueError, match="token 0 is 'a' to the target and 'x' to the draft"):
        check_vocabulary(named, model(table(A, vocabulary="xbc")))


# processes


@pytest.mark.parametrize(
    "oracle",
    [
        table({(): A, (1,): B}),
        table([A, B, C]),
        from_probs(probs_by_context, 3, score=partial(scored, probs_by_context)),
        from_logits(logits_by_context, 3, score=partial(scored, logits_by_context)),
        map_rows(table([A, B, C]), last_token_first),
        cached(from_probs(probs_by_context, 3, score=partial(scored, probs_by_context))),
        checked(from_probs(probs_by_context, 3, score=partial(scored, probs_by_context))),
        from_probs(probs_by_context, 3, score_tree=partial(scored_tree, probs_by_context)),
        map_rows(
            from_probs(probs_by_context, 3, score_tree=partial(scored_tree, probs_by_context)),
            last_token_first,
            reachable_only=True,
        ),
    ],
)
def test_oracles_of_module_level_functions_can_be_sent_to_other_processes(oracle):
    expected = oracle.score((1,), (2,))
    copy = pickle.loads(pickle.dumps(oracle))
    assert [row.tolist() for row in copy.score((1,), (2,))] == [row.tolist() for row in expected]
    assert copy((1,)).tolist() == expected[0].tolist()
    assert [row.tolist() for row in copy.score_tree((), (2,), (0,))] == [
        row.tolist() for row in oracle.score_tree((), (2,), (0,))
    ]


@given(rows(4), rows(4))
def test_a_table_hands_out_the_rows_it_was_given(first, second):
    oracle = table({(): first, (3,): second})
    assert all(
        row is expected
        for row, expected in zip(oracle.score((), (3, 0)), [first, second, first], strict=True)
    )


def test_checked_finds_a_cache_that_trusts_its_length():
    """It keeps the tokens it has read and never compares them with the ones asked about."""
    held: list[int] = []

    def score(context, drafted):
        tokens = (*context, *drafted)
        held[:] = [*held[: len(context)], *tokens[len(held[: len(context)]) :]]
        start = len(context)
        return [A if sum(held[:end]) % 2 else B for end in range(start, len(tokens) + 1)]

    stale = Oracle(lambda context: score(context, ())[0], 3, path_by_path(score))
    oracle = checked(stale)
    oracle.score((0,), (1, 2))
    with pytest.raises(ValueError, match="make each row a function of the tokens before it"):
        oracle.score((0, 2), (1,))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("vocab_size", [1, 2, 3, 8, 9, 65, 130, 1025])
def test_the_laws_of_a_pass_are_those_of_its_rows_to_the_last_bit(vocab_size, dtype, order):
    logits = (
        np.random.default_rng(vocab_size).normal(size=(5, vocab_size), scale=9).astype(dtype, order=order)
    )
    logits[1, 1:] = -np.inf
    oracle = from_logits(lambda context: logits[len(context)], vocab_size, score=lambda *_: logits)
    laws = oracle.score((), (0,) * 4)
    assert [law.tolist() for law in laws] == [softmax(row).tolist() for row in logits]
    assert [law.tolist() for law in laws] == [oracle((0,) * i).tolist() for i in range(5)]
    assert not any(law.flags.writeable or law.base.flags.writeable for law in laws)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        *((from_logits, wrong) for wrong in (np.nan, np.inf, -np.inf)),
        *((from_probs, wrong) for wrong in (np.nan, np.inf, -0.5, 0.5)),
    ],
)
def test_a_row_with_a_fault_in_a_pass_of_one_array_is_named(make, wrong):
    rows = np.full((4, 3), 1 / 3)
    oracle = make(lambda context: rows[0], 3, score_tree=lambda *_: rows)
    assert len(oracle.score((), (0, 1, 2))) == 4
    rows[2] = wrong
    with pytest.raises(ValueError, match=r"at context \(0, 1\)"):
        oracle.score((), (0, 1, 2))


@pytest.mark.parametrize(
    "rows", [np.ones((2, 1)), np.ones(2), np.ones((2, 1, 1)), np.ones((2, 1), dtype=object)]
)
def test_a_pass_of_another_shape_or_kind_goes_row_by_row(rows):
    oracle = from_probs(lambda context: [1], 1, score_tree=lambda *_: rows)
    if np.ndim(rows) == 2:
        assert [row.tolist() for row in oracle.score((), (0,))] == [[1], [1]]
    else:
        with pytest.raises(ValueError, match=r"the row at context \(\) has shape"):
            oracle.score((), (0,))


def test_rows_after_a_context_are_its_score_without_another_look_at_it():
    oracle = from_probs(probs_by_context, 3, score=partial(scored, probs_by_context))
    assert np.array_equal(oracle.rows_after((1,), (0, 2), (0, 0)), oracle.score_tree((1,), (0, 2), (0, 0)))
    for tokens, parents, message in [
        ((0, 3), (0, 1), "token 3 in draft"),
        ((0, 1), (0, 2), "node 2 has parent 2"),
        ((0, 1), (0,), "2 tokens and 1 parents"),
        ((0, 1, 1), (0, 0, 2), "a context of 3 tokens is over the limit of 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            replace(oracle, context_limit=2).rows_after((1,), tokens, parents)
