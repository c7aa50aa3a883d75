import doctest
import math
import pickle
import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative.model import Characters, bundled_text, cross_entropy, fit_ngram, ngram
from speculative.oracle import checked, from_probs, table

SMOOTHINGS = ("kneser-ney", "absolute")
DISCOUNTS = (Fraction(3, 4), Fraction(1, 3), Fraction(1))
VOCAB_SIZE = 3
CONTEXTS = [context for length in range(5) for context in product(range(VOCAB_SIZE), repeat=length)]


# The formulas at the top of ngram.py, as slowly and plainly as they read. `fault` makes one thing wrong.


def occurrences(text, gram):
    return [i for i in range(len(text) - len(gram) + 1) if text[i : i + len(gram)] == gram]


def count(text, gram, highest, smoothing, fault):
    places = occurrences(text, gram)
    if fault == "distinct at the highest order too":
        highest = False
    if smoothing == "absolute" or highest or fault == "occurrences at every order":
        return len(places)
    if fault == "tokens after instead of before":
        return len({text[i + len(gram)] for i in places if i + len(gram) < len(text)})
    if fault == "padding before the text":
        return len({text[i - 1] if i else "start" for i in places})
    if fault == "the last token precedes the first":
        return len({text[i - 1] for i in places})
    return len({text[i - 1] for i in places if i})


def reference(text, context, order, smoothing, discount, *, fault=None):
    context = context[max(0, len(context) - order + 1) :]
    top = len(context) if fault == "a short context counts as highest" else order - 1
    uniform = [Fraction(1, VOCAB_SIZE)] * VOCAB_SIZE

    def row(context):
        counts = [
            count(text, (*context, token), len(context) == top, smoothing, fault)
            for token in range(VOCAB_SIZE)
        ]
        total = sum(counts)
        kinds = sum(each > 0 for each in counts)
        if fault == "N counts occurrences":
            kinds = total
        if fault == "the discount is lost":
            kinds = 0
        lower = uniform
        if context:
            lower = row(context[:-1] if fault == "the context loses its last token" else context[1:])
        if total == 0:
            return uniform if fault == "unseen is uniform" else lower
        return [
            Fraction(max(each - discount, 0)) / total + discount * Fraction(kinds, total) * below
            for each, below in zip(counts, lower, strict=True)
        ]

    return row(context)


FAULTS = {  # each with the kinds of smoothing that can show it
    "distinct at the highest order too": ["kneser-ney"],
    "occurrences at every order": ["kneser-ney"],
    "tokens after instead of before": ["kneser-ney"],
    "padding before the text": ["kneser-ney"],
    "the last token precedes the first": ["kneser-ney"],
    "a short context counts as highest": ["kneser-ney"],
    "the context loses its last token": SMOOTHINGS,
    "unseen is uniform": SMOOTHINGS,
    "N counts occurrences": SMOOTHINGS,
    "the discount is lost": SMOOTHINGS,
}


def agree(text, order, smoothing, discount, *, fault=None):
    oracle = fit_ngram(
        text, order=order, vocab_size=VOCAB_SIZE, smoothing=smoothing, discount=discount, exact=True
    )
    return all(
        list(oracle(context)) == reference(text, context, order, smoothing, discount, fault=fault)
        for context in CONTEXTS
    )


texts = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=16).map(tuple)


@settings(max_examples=60)
@given(text=texts, order=st.integers(1, 4), discount=st.sampled_from(DISCOUNTS))
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_exact_rows_equal_the_formulas(text, order, smoothing, discount):
    assert agree(text, order, smoothing, discount)


@pytest.mark.parametrize(("fault", "smoothing"), [(f, s) for f, kinds in FAULTS.items() for s in kinds])
def test_every_fault_in_the_formulas_is_seen(fault, smoothing):
    rng = random.Random(0)
    battery = [(tuple(rng.choices(range(VOCAB_SIZE), k=12)), order) for order in (2, 3, 4)]
    assert all(agree(text, order, smoothing, Fraction(3, 4)) for text, order in battery)
    assert not all(agree(text, order, smoothing, Fraction(3, 4), fault=fault) for text, order in battery)


def test_a_row_worked_out_by_hand():
    # 0 is followed by 1 twice; 0 comes after 1 and 2, 1 after 0, 2 after 1
    exact = fit_ngram([0, 1, 2, 0, 1, 0], order=2, vocab_size=3, exact=True)
    lower = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]  # (count - 3/4) / 4 + 3/4 * 3/4 * 1/3
    assert list(exact((1, 2))) == [
        Fraction(1, 4) + Fraction(3, 4) * lower[0],
        *(Fraction(3, 4) * p for p in lower[1:]),
    ]
    assert list(exact((0,))) == [Fraction(3, 16), Fraction(23, 32), Fraction(3, 32)]


@settings(max_examples=60)
@given(text=texts, order=st.integers(1, 6), discount=st.sampled_from(DISCOUNTS), context=texts)
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_exact_rows_are_positive_fractions_that_sum_to_one(text, order, smoothing, discount, context):
    row = fit_ngram(text, order=order, vocab_size=5, smoothing=smoothing, discount=discount, exact=True)(
        context
    )
    assert row.shape == (5,)
    assert all(type(probability) is Fraction and probability > 0 for probability in row)
    assert sum(row) == 1


def largest_relative_error(row, exact):
    return max(abs(Fraction(float(p)) - q) / q for p, q in zip(row, exact, strict=True))


def rounding_bound(order):
    return (4 * order + 1 + Fraction(1, 1000)) * Fraction(1, 2**53)


@settings(max_examples=60)
@given(text=texts, order=st.integers(1, 6), discount=st.sampled_from([0.75, 0.1, 1.0]), context=texts)
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_float_rows_are_as_near_to_the_exact_ones_as_stated(text, order, smoothing, discount, context):
    options = {"order": order, "vocab_size": 5, "smoothing": smoothing}
    row = fit_ngram(text, discount=discount, **options)(context)
    exact = fit_ngram(text, discount=Fraction(discount), exact=True, **options)(context)
    assert row.dtype == np.float64
    assert largest_relative_error(row, exact) <= rounding_bound(order)
    assert largest_relative_error(row * (1 + 2.0**-46), exact) > rounding_bound(order)


@pytest.fixture(scope="module")
def plays():
    characters = Characters.of(bundled_text())
    return characters, characters.encode(bundled_text())


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_a_high_order_model_of_real_text(plays, smoothing):
    characters, tokens = plays
    options = {"order": 8, "vocab_size": len(characters.vocabulary), "smoothing": smoothing}
    oracle = fit_ngram(np.array(tokens, dtype=np.int32), vocabulary=characters.vocabulary, **options)
    exact = fit_ngram(tokens, exact=True, **options)
    assert oracle.vocabulary == characters.vocabulary
    rng = random.Random(0)
    for end in rng.sample(range(len(tokens)), 20):
        context = tokens[max(0, end - 20) : end]
        assert largest_relative_error(oracle(context), exact(context)) <= rounding_bound(8)
        assert sum(exact(context)) == 1
    seven = characters.encode("Macbeth")
    followers = {tokens[i + 7] for i in range(len(tokens) - 7) if tokens[i : i + 7] == seven}
    assert set(np.argsort(oracle(seven))[-len(followers) :].tolist()) == followers


@given(text=texts, order=st.integers(1, 4), context=texts, earlier=texts)
def test_a_row_depends_on_the_last_tokens_only(text, order, context, earlier):
    oracle = fit_ngram(text, order=order, vocab_size=VOCAB_SIZE, exact=True)
    recent = context[len(context) - min(len(context), order - 1) :]
    if len(recent) == order - 1:
        assert list(oracle(earlier + context)) == list(oracle(recent))
    assert list(oracle(context)) == list(oracle(recent))


def test_a_row_does_depend_on_the_first_of_the_last_tokens():
    text = (0, 1, 2, 1, 1, 0, 2, 1, 0)
    oracle = fit_ngram(text, order=3, vocab_size=VOCAB_SIZE, exact=True)
    assert list(oracle((0, 1))) != list(oracle((1, 1)))


def test_rows_keep_what_an_oracle_promises(plays):
    characters, tokens = plays
    oracle = fit_ngram(tokens, order=4, vocab_size=len(characters.vocabulary))
    context = characters.encode("To-morrow, and to-morrow")
    assert len(checked(oracle).score(context[:9], context[9:])) == len(context) - 8
    with pytest.raises(ValueError, match="read-only"):
        oracle(context)[0] = 1


@pytest.mark.parametrize("exact", [False, True])
def test_oracles_can_be_pickled(exact):
    text = (0, 1, 2, 1, 1, 0, 2, 1, 0)
    oracle = fit_ngram(text, order=3, vocab_size=VOCAB_SIZE, exact=exact, vocabulary="abc")
    copy = pickle.loads(pickle.dumps(oracle))
    assert copy.vocabulary == ("a", "b", "c")
    assert all(list(copy(context)) == list(oracle(context)) for context in CONTEXTS)


@pytest.mark.parametrize("exact", [False, True])
def test_rows_are_the_same_whatever_was_asked_before_and_however_many_are_kept(exact, monkeypatch):
    text = (0, 1, 2, 1, 1, 0, 2, 1, 0)
    options = {"order": 4, "vocab_size": VOCAB_SIZE, "exact": exact}
    alone = {context: list(fit_ngram(text, **options)(context)) for context in CONTEXTS}
    row_bytes = VOCAB_SIZE * ngram.NUMBER_BYTES["O" if exact else "f"]
    for kept, order in product((0, 1, 5, 1_000), (CONTEXTS, CONTEXTS[::-1])):
        monkeypatch.setattr(ngram, "KEPT_BYTES", kept * row_bytes)
        oracle = fit_ngram(text, **options)
        for context in (*order, *order):
            assert list(oracle(context)) == alone[context]
            assert 1 <= len(oracle.row.known) <= max(1, kept)
        assert oracle(CONTEXTS[-1]) is oracle(CONTEXTS[-1])


def test_rows_that_are_kept_stay_where_they_are():
    oracle = fit_ngram((0, 1, 2, 1, 1, 0, 2, 1, 0), order=3, vocab_size=VOCAB_SIZE)
    oracle((0, 1))
    assert len(oracle.row.known) == 3
    assert not pickle.loads(pickle.dumps(oracle)).row.known


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_a_text_may_be_an_array_of_any_integers(dtype):
    text = (0, 1, 2, 1, 1, 0, 2, 1, 0)
    oracle = fit_ngram(np.array(text, dtype=dtype), order=4, vocab_size=100, exact=True)
    expected = fit_ngram(text, order=4, vocab_size=100, exact=True)
    assert all(list(oracle(context)) == list(expected(context)) for context in CONTEXTS[:40])


@pytest.mark.parametrize(
    ("error", "message", "tokens", "options"),
    [
        (ValueError, r"^tokens have shape \(0,\): give a text of one token or more", [], {}),
        (ValueError, r"^tokens have shape \(1, 2\): give a text", [[0, 1]], {}),
        (TypeError, "^tokens are float64, not integers: encode the text first", [0.0, 1.0], {}),
        (TypeError, "^tokens are <U2, not integers: encode the text first", ["to", "be"], {}),
        (ValueError, "^token 3 at position 1 is outside the vocabulary of 3: give tokens in", [0, 3, 4], {}),
        (
            ValueError,
            "^token -1 at position 2 is outside the vocabulary of 3: give tokens in",
            [0, 1, -1],
            {},
        ),
        (ValueError, "^order = 0 is too small: give an int of at least 1$", [0], {"order": 0}),
        (ValueError, "^order = 1.5 is not a whole number: give an int of at least 1$", [0], {"order": 1.5}),
        (ValueError, '^smoothing is \'katz\': give "kneser-ney" or "absolute"$', [0], {"smoothing": "katz"}),
        (ValueError, "^discount is 0: give a number above 0 and at most 1", [0], {"discount": 0}),
        (ValueError, "^discount is 1.5: give a number above 0 and at most 1", [0], {"discount": 1.5}),
        (ValueError, "^discount is nan: give a number above 0 and at most 1", [0], {"discount": math.nan}),
        (TypeError, "^discount is the float 0.75, which exact rows", [0], {"discount": 0.75, "exact": True}),
        (ValueError, "^vocabulary has 2 strings for 3 tokens", [0], {"vocabulary": "ab"}),
    ],
)
def test_what_cannot_be_fitted_is_refused(error, message, tokens, options):
    with pytest.raises(error, match=message):
        fit_ngram(tokens, **{"order": 2, "vocab_size": 3, **options})


def by_length(context):
    return [0.5, 0.25, 0.25] if len(context) % 2 else [0.25, 0.25, 0.5]


def test_cross_entropy_is_bits_per_token():
    assert cross_entropy(table([0.25, 0.25, 0.5]), (0, 2, 2)) == pytest.approx((2 + 1 + 1) / 3, rel=1e-15)
    assert cross_entropy(from_probs(by_length, 3), (0, 0, 0)) == pytest.approx((2 + 1 + 2) / 3, rel=1e-15)
    assert cross_entropy(table([0, 0.5, 0.5]), (1, 0, 2)) == math.inf
    assert cross_entropy(fit_ngram([0], order=1, vocab_size=4, discount=1), [3]) == 2


@pytest.mark.parametrize(
    ("limit", "bits"), [(0, 2 + 2 + 2 + 2), (1, 2 + 1 + 1 + 1), (2, 2 + 1 + 2 + 2), (3, 2 + 1 + 2 + 1)]
)
def test_cross_entropy_asks_for_no_more_context_than_there_may_be(limit, bits):
    oracle = from_probs(by_length, 3, context_limit=limit)
    assert cross_entropy(oracle, (0, 0, 0, 0)) == pytest.approx(bits / 4, rel=1e-15)


def test_cross_entropy_scores_in_one_pass_where_it_can():
    calls = []

    def score(context, drafted):
        calls.append((context, drafted))
        return [by_length(context + drafted[:i]) for i in range(len(drafted) + 1)]

    assert cross_entropy(from_probs(by_length, 3, score=score), (0, 1, 2)) == pytest.approx((2 + 2 + 1) / 3)
    assert calls == [((), (0, 1))]


def test_cross_entropy_needs_a_text():
    with pytest.raises(ValueError, match=r"^tokens are empty: give a text of one token or more$"):
        cross_entropy(table([0.5, 0.25, 0.25]), ())


def test_the_order_that_predicts_held_out_text_best_is_neither_low_nor_high(plays):
    characters, tokens = plays
    fitted, held_out = tokens[:-5_000], tokens[-5_000:]
    bits = {
        order: cross_entropy(fit_ngram(fitted, order=order, vocab_size=len(characters.vocabulary)), held_out)
        for order in (1, 2, 3, 5, 8)
    }
    assert bits[5] < bits[3] < bits[2] < bits[1] < math.log2(len(characters.vocabulary))
    assert bits[5] < bits[8]


def test_the_examples_in_the_docstrings_are_true():
    results = doctest.testmod(ngram)
    assert results.attempted == 2
    assert results.failed == 0


def test_cross_entropy_of_a_token_outside_the_vocabulary_is_refused():
    oracle = table([0.5, 0.25, 0.25])
    for text in ([0, -1], [0, 3]):
        with pytest.raises(ValueError, match="outside the vocabulary"):
            cross_entropy(oracle, text)
