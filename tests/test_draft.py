import math
import re
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import DRAFTERS, Draft, DraftTree, draft, law, point_mass, rational, sample, table
from speculative.draft import low_confidence, low_entropy_bound, model
from speculative.testing import pairs

ROW = rational(["1/2", "1/2", "0"])


@given(pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)))
def test_a_chain_is_drawn_from_the_rows_it_declares(pair):
    drafts = law(lambda chance: pair.drafter(chance, (1,), pair.num_draft_tokens).tokens)
    for tokens, probability in drafts.items():
        assert probability == math.prod(pair.draft((1, *tokens[:i]))[token] for i, token in enumerate(tokens))


def test_the_declared_row_is_the_one_at_its_own_place():
    oracle = table({(): ROW, (0,): rational(["0", "1/3", "2/3"]), (1,): rational(["1", "0", "0"])})
    for path_draft in law(lambda chance: as_lists(model(oracle)(chance, (), 3))):
        tokens, rows = path_draft
        assert rows == tuple(tuple(oracle(tokens[:i])) for i in range(3))


def as_lists(proposal):
    return proposal.tokens, tuple(tuple(row) for row in proposal.probs)


def test_no_more_than_the_context_limit_allows():
    oracle = table({(): ROW}, context_limit=2)
    lengths = [
        {len(law_of) for law_of in law(lambda chance, n=n: model(oracle)(chance, (0,) * n, 5).tokens)}
        for n in range(5)
    ]
    assert lengths == [{3}, {2}, {1}, {0}, {0}]


def test_a_stop_rule_sees_the_law_of_the_next_token_only():
    sure, unsure = rational(["9/10", "1/10", "0"]), rational(["1/3", "1/3", "1/3"])
    oracle = table({(): sure, (1,): unsure})
    drafts = law(lambda chance: model(oracle, stop=low_confidence(0.5))(chance, (), 3).tokens)
    assert {tokens for tokens in drafts if len(tokens) < 3} == {(1,), (0, 1)}
    assert drafts[(1,)] == Fraction(1, 10), "the token before the stop is kept, not dropped"


@pytest.mark.parametrize(("largest", "stops"), [("1/2", False), ("1/3", True)])
def test_low_confidence_compares_the_largest_probability(largest, stops):
    rest = (1 - Fraction(largest)) / 2
    assert low_confidence(0.5)(rational([largest, rest, rest])) is stops


def test_the_entropy_bound_is_that_of_the_formula():
    row = rational(["1/2", "1/4", "1/4"])
    bound = 1 - math.sqrt(0.2 * 1.5 * math.log(2))
    assert low_entropy_bound(bound - 1e-9)(row) is False
    assert low_entropy_bound(bound + 1e-9)(row) is True
    wider = 1 - math.sqrt(0.4 * 1.5 * math.log(2))
    assert low_entropy_bound(wider - 1e-9, scale=0.4)(row) is False
    assert low_entropy_bound(wider + 1e-9, scale=0.4)(row) is True
    assert low_entropy_bound(1)(point_mass(1, 3)) is False


@pytest.mark.parametrize("threshold", [0, 1])
def test_its_ends_are_allowed(threshold):
    assert low_confidence(threshold)(ROW) == (threshold == 1)


@pytest.mark.parametrize(
    ("context", "count", "tokens"),
    [
        ((1, 2, 3, 0, 1, 2), 2, (3, 0)),
        ((1, 2, 3, 0, 1, 2), 9, (3, 0, 1, 2)),
        ((5, 1, 0, 7, 1, 2, 7, 1), 1, (2,)),  # the latest occurrence
        ((4, 1, 2, 5, 3, 2, 6, 1, 2), 1, (5,)),  # the longest match before a later, shorter one
        ((0, 1, 2, 3), 3, ()),
        ((0,), 3, ()),
        ((), 3, ()),
        ((2, 2, 2), 4, (2,)),
    ],
)
def test_lookup_copies_what_followed(context, count, tokens):
    proposal = draft.lookup(8)(None, context, count)
    assert proposal.tokens == tokens
    assert [row.tolist() for row in proposal.probs] == [point_mass(token, 8).tolist() for token in tokens]


def test_lookup_matches_no_longer_suffix_than_told():
    context = (1, 2, 3, 9, 0, 3, 8, 1, 2, 3)
    assert draft.lookup(10, max_match=3)(None, context, 1).tokens == (9,)
    assert draft.lookup(10, max_match=1)(None, context, 1).tokens == (8,)
    with pytest.raises(ValueError, match=r"draft\.lookup of a vocabulary of 1114113: give"):
        draft.lookup(1_114_113)


@settings(max_examples=200)
@given(st.lists(st.integers(0, 2), max_size=12), st.integers(1, 4), st.integers(1, 4))
def test_lookup_against_its_definition(context, max_match, count):
    context = tuple(context)
    best = max(
        (
            (length, start)
            for length in range(1, min(max_match, len(context)) + 1)
            for start in range(len(context) - length)
            if context[start : start + length] == context[len(context) - length :]
        ),
        default=None,
    )
    expected = () if best is None else context[sum(best) : sum(best) + count]
    assert draft.lookup(3, max_match=max_match)(None, context, count).tokens == expected


@pytest.mark.parametrize(
    ("tokens", "probs", "message"),
    [
        ((0, 1), (ROW,), "2 tokens and 1 rows"),
        ((2,), (ROW,), "probability 0 in its own law"),
        ((3,), (ROW,), "outside the vocabulary of 3"),
        ((-1,), (ROW,), "outside the vocabulary of 3"),
        ((0, 1), (ROW, np.array([0.5, np.nan, 0.5])), "position 1 has probability nan"),
    ],
)
def test_a_draft_that_cannot_have_been_drawn_is_refused(tokens, probs, message):
    with pytest.raises(ValueError, match=message):
        Draft(tokens, probs)


def test_a_draft_has_a_length():
    assert len(Draft((0, 1), (ROW, ROW))) == 2
    assert len(draft.NO_DRAFT) == 0


# --- the table

THIRDS = table({(): rational(["1/2", "1/3", "1/6"]), (1,): rational(["1/4", "0", "3/4"])})
BEST = partial(draft.best_first, num_nodes=3)
HOW_ALL_ARE_MADE = {
    "model": lambda make, _: make(THIRDS),
    "lookup": lambda make, _: make(3),
    "suffix": lambda make, _: make(3),
    "suffix_tree": lambda make, _: make(3),
    "paths": lambda make, _: make(THIRDS, 2),
    "tree": lambda make, _: make(THIRDS, (2, 1)),
    "sequoia": lambda make, _: make(THIRDS, (0.7, 0.2), 3),
    "best_first": lambda make, _: make(THIRDS, 3),
    "medusa": lambda make, of_oracle: make(lambda context: (ROW, THIRDS(context)), 3, of_oracle),
    "eagle": lambda make, of_oracle: make(lambda _: THIRDS, 3, of_oracle),
    "lookahead": lambda make, _: make(THIRDS, window=2, ngram=2),
}
"""A drafter of each entry, from its function and, for those that draft as another does, that one's maker."""
TEXT = (0, 1, 2, 0, 1)


def drawn_and_tree(make):
    """Return whether several drafts have any probability, and whether they are trees, each kind of draft."""
    drafts = law(lambda chance: shown(make()(chance, TEXT, 2)))
    return len(drafts) > 1, {is_tree for is_tree, *_ in drafts}


class Likeliest:
    """Answers every question with the most probable answer."""

    def pick(self, weights):
        return int(weights.argmax())


def shown(proposal):
    parents = getattr(proposal, "parents", ())
    return isinstance(proposal, DraftTree), proposal.tokens, parents


def test_every_entry_of_the_table_is_made_here():
    assert HOW_ALL_ARE_MADE.keys() == DRAFTERS.keys()


@pytest.mark.parametrize("name", DRAFTERS)
def test_it_draws_and_it_proposes_trees_as_the_table_says(name):
    entry = DRAFTERS[name]
    found = [drawn_and_tree(partial(HOW_ALL_ARE_MADE[name], entry.function, of)) for of in (model, BEST)]
    if entry.deterministic is None:
        assert entry.tree is None
        assert found == [(True, {False}), (False, {True})]  # as a chain is sampled, as the best are chosen
    else:
        assert found == [(not entry.deterministic, {entry.tree})] * 2


@pytest.mark.parametrize("name", [name for name, entry in DRAFTERS.items() if entry.deterministic])
def test_a_certain_draft_asks_no_chance_and_declares_what_it_takes(name):
    proposal = HOW_ALL_ARE_MADE[name](DRAFTERS[name].function, None)(None, TEXT, 2)
    assert len(proposal) > 0
    for node in range(len(proposal) + 1):
        siblings = proposal.siblings(node)
        for row, token in () if siblings is None else zip(siblings.laws(), siblings.tokens, strict=True):
            assert row.tolist() == point_mass(token, 3).tolist()


@pytest.mark.parametrize("name", [name for name, entry in DRAFTERS.items() if not entry.deterministic])
def test_a_drawn_one_asks(name):
    with pytest.raises(AttributeError, match="pick"):
        HOW_ALL_ARE_MADE[name](DRAFTERS[name].function, model)(None, TEXT, 2)


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_draft_depends_on_the_rounds_before_it_where_the_table_says_so(name):
    """Of two drafters one has drafted before: the law of the next draft is the same for both, or not."""
    entry = DRAFTERS[name]
    make = partial(HOW_ALL_ARE_MADE[name], entry.function, model)

    def second(chance, before):
        drafter = make()
        for text in before:
            drafter(Likeliest(), text, 2)
        return shown(drafter(chance, TEXT, 2))

    rounds = (TEXT[:1], TEXT[:3], TEXT[:4])
    assert (law(second, rounds) != law(second, ())) == entry.keeps_rounds
    assert law(second, rounds) == law(second, rounds)


@pytest.mark.parametrize("name", [name for name, entry in DRAFTERS.items() if entry.made_of == "text"])
def test_one_made_of_text_drafts_what_came_before(name):
    assert HOW_ALL_ARE_MADE[name](DRAFTERS[name].function, None)(None, TEXT, 2).tokens == (2, 0)


# --- what is refused

HALF = table({(): ROW})
COUNTS = {
    "best_first num_nodes": (1, lambda value: draft.best_first(HALF, value)),
    "best_first width": (1, lambda value: draft.best_first(HALF, 3, width=value)),
    "eagle vocab_size": (1, lambda value: draft.eagle(lambda _: HALF, value, model)),
    "lookahead window": (1, lambda value: draft.lookahead(HALF, window=value)),
    "lookahead ngram": (2, lambda value: draft.lookahead(HALF, ngram=value)),
    "lookahead guesses": (0, lambda value: draft.lookahead(HALF, guesses=value)),
    "lookup vocab_size": (1, draft.lookup),
    "lookup max_match": (1, lambda value: draft.lookup(3, max_match=value)),
    "medusa vocab_size": (1, lambda value: draft.medusa(lambda _: (ROW,), value, model)),
    "paths num_paths": (1, lambda value: draft.paths(HALF, value)),
    "paths trunk": (0, lambda value: draft.paths(HALF, 2, trunk=value)),
    "sequoia num_nodes": (1, lambda value: draft.sequoia(HALF, (0.7, 0.2), value)),
    "sequoia_shape num_nodes": (1, lambda value: draft.sequoia_shape((0.7, 0.2), value)),
    "sequoia_shape max_depth": (0, lambda value: draft.sequoia_shape((0.7, 0.2), 3, value)),
    "suffix vocab_size": (1, draft.suffix),
    "suffix max_match": (1, lambda value: draft.suffix(3, max_match=value)),
    "suffix_tree vocab_size": (1, draft.suffix_tree),
    "suffix_tree max_match": (1, lambda value: draft.suffix_tree(3, max_match=value)),
    "tree branching[1]": (1, lambda value: draft.tree(HALF, (2, value))),
    "a_call num_draft_tokens": (0, lambda value: model(HALF)(None, (), value)),
}
"""Every count of a drafter: the least it may be, and what takes it."""
REALS = {
    "suffix factor": ((0, -1), lambda value: draft.suffix(3, factor=value)),
    "suffix_tree factor": ((0, -1), lambda value: draft.suffix_tree(3, factor=value)),
    "low_confidence threshold": ((-0.1, 1.5), low_confidence),
    "low_entropy_bound threshold": ((-0.1, 1.5), low_entropy_bound),
    "low_entropy_bound scale": ((0, -1), lambda value: low_entropy_bound(0.5, scale=value)),
    "sequoia rates[1]": ((-0.1, 1.5), lambda value: draft.sequoia(HALF, (0.5, value), 3)),
}
"""Every other number: some that are out of its range, and what takes it."""


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_a_whole_number_that_is_large_enough(name):
    least, make = COUNTS[name]
    option = re.escape(name.split()[1])
    for value in (1.5, 2.0, "2", True, None, math.inf):
        if not (value is None and name in {"best_first width", "sequoia_shape max_depth"}):
            with pytest.raises(ValueError, match=rf"^{option} = .* is not a whole number: give an int of "):
                make(value)
    with pytest.raises(ValueError, match=rf"^{option} = {least - 1} is too small: give an int of at least "):
        make(least - 1)


@pytest.mark.parametrize("name", REALS)
def test_another_number_is_finite_and_in_its_range(name):
    outside, make = REALS[name]
    for value in (*outside, math.inf, math.nan, "1", True, None):
        with pytest.raises(ValueError, match=rf"^{re.escape(name.split()[1])} = .*: give a"):
            make(value)


def test_a_numbers_own_type_does_not_matter():
    context = (0, 1, 2, 0, 1)
    for make in (draft.suffix, draft.suffix_tree):
        for factor in (1, Fraction(1), np.float32(1), np.int64(1)):
            options = {"max_match": np.int64(4), "factor": factor}
            assert make(np.int64(3), **options)(None, context, np.int64(3)).tokens == (2, 0)
        assert make(3, factor=1.7e308)(None, context, 3).tokens == (2, 0, 1)


@pytest.mark.parametrize(
    ("maker", "rest"),
    [
        ("best_first", (1,)),
        ("lookahead", ()),
        ("model", ()),
        ("paths", (2,)),
        ("sequoia", ((0.5,), 3)),
        ("tree", ((2,),)),
    ],
)
def test_a_drafter_is_made_of_an_oracle(maker, rest):
    with pytest.raises(ValueError, match=rf"^draft\.{maker} of a Drafter: give an oracle, from_probs\("):
        getattr(draft, maker)(model(HALF), *rest)


def test_a_rule_that_ends_a_draft_is_a_function():
    with pytest.raises(ValueError, match=r"^stop = 0\.4: give a rule, such as draft\.low_confidence"):
        model(HALF, stop=0.4)


def test_a_drafter_asked_alone_looks_at_the_context_and_takes_any_sequence():
    drafter = model(table({(): [0.25, 0.5, 0.25], (0,): [0.5, 0.25, 0.25]}))
    drafts = [sample(drafter, context, 2, rng=0).tokens for context in ((1, 0), [1, 0], np.array([1, 0]))]
    assert drafts[0] == drafts[1] == drafts[2]
    for context in ((0, 9), (-1,)):
        with pytest.raises(ValueError, match=r"token -?\d in context .* is outside the vocabulary"):
            sample(drafter, context, 2)
    with pytest.raises(ValueError, match="is not made of tokens"):
        sample(drafter, (0.5,), 2)
