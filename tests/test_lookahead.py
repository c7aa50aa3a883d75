"""Lookahead decoding: its window and its pool by hand, its passes counted, its law through whole decodes."""

from functools import partial

import numpy as np
import pytest

from speculative import (
    ImpureProgramError,
    Oracle,
    autoregress,
    generate,
    law,
    point_mass,
    rational,
    sample,
    table,
    verify,
)
from speculative.draft import lookahead, top
from speculative.oracle import keep_last_pass
from speculative.oracle.interface import contexts_after

CYCLE = table({(token,): point_mass((token + 1) % 4, 4) for token in range(4)})
"""After each token comes the next one, after 3 comes 0."""
TARGET = table(
    {
        (): rational(["1/2", "3/10", "1/5"]),
        (0,): rational(["1/5", "1/5", "3/5"]),
        (1,): rational(["0", "7/10", "3/10"]),
        (2,): rational(["2/5", "2/5", "1/5"]),
        (0, 2): rational(["1/2", "1/2", "0"]),
    }
)


def paths(tree):
    before = [()]
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        before.append((*before[parent], token))
    return before[1:]


def passing(oracle):
    """Return the same oracle with a pass over trees, and the passes it made."""
    passes = []

    def score_rows(context, tokens, parents):
        passes.append((context, tuple(tokens), tuple(parents)))
        return [oracle.row(each) for each in contexts_after(context, tokens, parents)]

    return Oracle(oracle.row, oracle.vocab_size, score_rows), passes


# --- the window and the pool, by hand


def rounds_by_hand(drafter, rounds, num_draft_tokens):
    for context, expected in rounds:
        proposal = drafter(None, context, num_draft_tokens)
        assert paths(proposal) == expected
        assert all(siblings.scheme is top for siblings in proposal.draws.values())


def test_four_rounds_by_hand():
    """A window of two places and 2-grams, on the cycle.

    Round 1, text 0. The window's guess for place 1 is the last token, 0. The pass says 1 after 0, and 1
    after 0 0: the 2-gram 0 1 twice.
    Round 2, text 0 1. What was said is the guess, 1 for place 1. Said is 2 after 1, and 2 after 1 1.
    Round 3, text 0 1 2. The guess is 2. Said is 3 twice.
    Round 4, text 0 1 2 3 0, two tokens more. After 0 the pool knows 1. The window has moved on by two, so
    that its second place is new: the last token, 0.
    """
    rounds = (
        ((0,), [(0,)]),
        ((0, 1), [(1,)]),
        ((0, 1, 2), [(2,)]),
        ((0, 1, 2, 3, 0), [(1,), (0,)]),
    )
    rounds_by_hand(lookahead(CYCLE, window=2, ngram=2), rounds, 1)


def test_columns_and_n_grams_by_hand():
    """Three places, 3-grams, on the cycle; each column has two tokens.

    Round 1, text 0 1 2 3. Columns from the text: (1, 2), which becomes (3, 2) as the text ends in 3, (2, 3)
    and (3, 0). Their paths are 2, 2 3 and 2 3 0. Said are 3, 0 and 1: 3-grams 3 2 3, 2 3 0 and 3 0 1.
    Round 2, one token on: (2, 3), with the text's end (0, 3), then (3, 0) and (0, 1). Said are 0, 1, 2.
    Round 3: (1, 0), (0, 1) and (1, 2). Said are 1, 2, 3.
    Round 4, two tokens on: (1, 2), now (3, 2), then (2, 3), and from the text (3, 0). The pool has two
    3-grams that begin with 3, first the later one.
    """
    rounds = (
        ((0, 1, 2, 3), [(2,), (2, 3), (2, 3, 0)]),
        ((0, 1, 2, 3, 0), [(3,), (3, 0), (3, 0, 1)]),
        ((0, 1, 2, 3, 0, 1), [(0,), (0, 1), (0, 1, 2)]),
        ((0, 1, 2, 3, 0, 1, 2, 3), [(0,), (0, 1), (2,), (2, 3), (2, 3, 0)]),
    )
    rounds_by_hand(lookahead(CYCLE, window=3, ngram=3), rounds, 3)


def test_what_is_cut_off_waits_by_hand():
    """As above with paths of two tokens: the third column is not asked about, and stays (3, 0) at place 1.

    That place is taken by the second column, one iteration on, so that the third place is new in round 2: the
    last token and, from the beginning, 0 again.
    """
    rounds = (
        ((0, 1, 2, 3), [(2,), (2, 3)]),
        ((0, 1, 2, 3, 0), [(3,), (3, 0)]),
    )
    drafter = lookahead(CYCLE, window=3, ngram=3)
    rounds_by_hand(drafter, rounds, 2)
    assert paths(drafter(None, (0, 1, 2, 3, 0, 1), 3)) == [(0,), (0, 1), (0, 1, 0)]


def rounds_of(window, ngram, guesses=5, num_tokens=60):
    drafter = lookahead(CYCLE, window=window, ngram=ngram, guesses=guesses)
    options = {"max_new_tokens": num_tokens, "num_draft_tokens": window + ngram}
    return sample(generate, CYCLE, drafter, (0,), verify=verify.match, rng=0, **options)


@pytest.mark.parametrize(("window", "ngram"), [(2, 2), (3, 3), (3, 4)])
def test_on_a_text_it_has_seen_a_round_brings_an_n_gram(window, ngram):
    found = rounds_of(window, ngram)
    assert found.tokens == tuple((1 + i) % 4 for i in range(60))
    assert max(len(one.tokens) for one in found.rounds) >= ngram
    assert len(found.rounds) < 60 / (ngram - 1)


def test_the_latest_n_grams_of_a_token_are_kept():
    """0 is followed by 1, 2 and 3 in turn; with two guesses the first is forgotten."""
    turns = table(
        {(): point_mass(0, 4), (0,): point_mass(1, 4), (1, 0): point_mass(2, 4), (2, 0): point_mass(3, 4)}
    )
    drafter = lookahead(turns, window=1, ngram=2, guesses=2)
    for context in ((0,), (0, 1), (0, 1, 0), (0, 1, 0, 2), (0, 1, 0, 2, 0)):
        proposal = drafter(None, context, 1)
    assert proposal.tokens == (2, 1)
    assert proposal.draws[0].tokens == (1, 2)
    drafter(None, (0, 1, 0, 2, 0, 3), 1)
    assert drafter(None, (0, 1, 0, 2, 0, 3, 0), 1).tokens == (3, 2)


def test_an_n_gram_that_comes_again_is_the_latest():
    """0 is followed by 1, 2 and 1 again."""
    turns = table({(): point_mass(0, 3), (0,): point_mass(1, 3), (1, 0): point_mass(2, 3)})
    drafter = lookahead(turns, window=1, ngram=2, guesses=2)
    text = (0, 1, 0, 2, 0, 1, 0)
    drafts = [drafter(None, text[:end], 1).tokens for end in range(1, 8)]
    assert drafts[4] == (2, 1)
    assert drafts[6] == (1, 2)


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("ngram", [2, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_no_deeper_and_no_larger_than_it_says(window, ngram, count):
    """What is cut off of the window waits; the largest tree is of so many nodes."""
    drafter, guesses = lookahead(TARGET, window=window, ngram=ngram, guesses=2), 2
    context, deepest = (0,), 0
    for token in (2, 1, 1, 2, 0, 2, 2, 0, 1, 2, 2, 0, 2):
        proposal = drafter(None, context, count)
        assert proposal.depth <= min(count, max(window + ngram - 3, ngram - 1))
        assert len(proposal) <= guesses * (ngram - 1) + window - 1 + window * (ngram - 2)
        context, deepest = (*context, token), max(deepest, proposal.depth)
    assert deepest >= min(count, window + ngram - 3)


def test_another_text_begins_anew_and_keeps_the_pool():
    drafter = lookahead(CYCLE, window=2, ngram=2)
    for context in ((0,), (0, 1), (0, 1, 2)):
        drafter(None, context, 1)
    assert paths(drafter(None, (3, 3, 3, 1), 1)) == [(2,), (1,)]
    assert paths(drafter(None, (3, 1), 1)) == [(2,), (1,)]
    assert paths(drafter(None, (), 1)) == []


def test_a_drafter_speaks_of_the_tokens_of_its_oracle():
    drafter = lookahead(table({(): rational(["1/2", "1/2"])}, vocabulary=("a", "b")))
    assert (drafter.vocab_size, drafter.vocabulary) == (2, ("a", "b"))


# --- passes


def text(target, drafter, rng):
    return sample(
        generate, target, drafter, (0,), max_new_tokens=40, num_draft_tokens=4, verify=verify.match, rng=rng
    )


@pytest.mark.parametrize("rng", range(3))
def test_one_pass_a_round_where_the_last_one_is_kept_and_two_where_it_is_not(rng):
    oracle, passes = passing(TARGET)
    kept = keep_last_pass(oracle)
    found = text(kept, lookahead(kept), rng)
    assert len(passes) == len(found.rounds) < 40
    oracle, passes = passing(TARGET)
    again = text(oracle, lookahead(oracle), rng)
    assert again == found
    assert len(passes) == 2 * len(found.rounds) - 1 - (found.rounds[-1].drafted == 0)  # nothing to ask for


def test_a_pass_is_found_by_its_context_and_its_tree():
    oracle, passes = passing(TARGET)
    kept = keep_last_pass(oracle)
    asked = ((0,), (1, 2), (0, 0)), ((0,), (1, 2), (0, 1)), ((1,), (1, 2), (0, 1)), ((1,), (2, 2), (0, 1))
    for one in asked:
        for _ in range(2):
            rows = kept.score_tree(*one)
            assert all(a is b for a, b in zip(rows, oracle.score_rows(*one), strict=True))
            rows[0] = None  # the list is the caller's
    assert len(passes) == len(asked) + 2 * len(asked)
    assert kept((0,)) is TARGET((0,))


# --- laws


def tokens_of(verifier, make_drafter, make_target=lambda: TARGET, num_tokens=4):
    """Return the law of a whole decode; the drafter, and the pass that is kept, belong to one run of it."""

    def program(chance):
        target = make_target()
        drafter = make_drafter(target)
        options = {"max_new_tokens": num_tokens, "num_draft_tokens": 3, "verify": verifier}
        return generate(chance, target, drafter, (0,), **options).tokens

    return law(program)


ALONE = law(lambda chance: autoregress(chance, TARGET, (0,), max_new_tokens=4).tokens)
SMALL = partial(lookahead, window=2, ngram=3, guesses=2)


@pytest.mark.parametrize("verifier", [verify.match, verify.recursive, verify.traversal])
def test_c29_a_whole_decode_has_the_law_of_the_target_alone(verifier):
    found = tokens_of(verifier, SMALL, lambda: keep_last_pass(TARGET))
    assert found.exact
    assert found == ALONE


def test_c29_stale_rows_are_reported():
    """A pass kept by its tree alone answers for another context: the next round is verified against it."""

    def careless(oracle):
        last = {}

        def score_rows(context, tokens, parents):
            asked = tuple(tokens), tuple(parents)
            return list(last.setdefault(asked, oracle.score_tree(context, tokens, parents)))

        return Oracle(oracle.row, oracle.vocab_size, score_rows)

    found = tokens_of(verify.match, partial(lookahead, window=1, ngram=2), lambda: careless(TARGET))
    assert found.distance(ALONE) > 0


def test_c29_n_grams_taken_for_draws_are_reported():
    """Guesses declared with the target's own row, which they were not drawn from, are all accepted."""

    def soft(target):
        honest = SMALL(target)

        def propose(chance, context, num_draft_tokens):
            tree = honest(chance, context, num_draft_tokens)
            rows = target.score_tree(context, tree.tokens, tree.parents)
            for parent, siblings in tree.draws.items():
                fits = all(rows[parent][token] for token in siblings.tokens)
                tree.draws[parent] = siblings._replace(row=rows[parent], scheme=one_row) if fits else siblings
            return tree

        return propose

    def one_row(row, drawn, count):
        return row

    assert tokens_of(verify.recursive, soft).distance(ALONE) > 0


def test_a_drafter_that_outlives_a_run_is_not_enumerated():
    """The second run would be given the pool of the first."""
    drafter = SMALL(TARGET)
    with pytest.raises(ImpureProgramError):
        tokens_of(verify.recursive, lambda _: drafter)


def test_in_floats_the_best_token_is_that_of_the_row():
    target = table(np.array([0.1, 0.6, 0.3]))
    drafter = lookahead(target, window=1, ngram=2)
    for context in ((2,), (2, 0), (2, 0, 2)):
        proposal = drafter(None, context, 2)
    assert paths(proposal) == [(1,)]
