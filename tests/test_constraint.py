"""Constraints that depend on the text so far: their laws, and that speculation under them is exact."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative.constraint import Automaton, balanced_brackets, constrain, masked, repetition_penalty
from speculative.decode import autoregress, generate
from speculative.distribution import is_exact, point_mass, rational
from speculative.draft import model
from speculative.laws import law
from speculative.oracle import checked, from_probs, map_rows, softmax, table
from speculative.testing import rows
from speculative.warp import temperature

OPEN, CLOSE, END, WORD = range(4)
BRACKETS = balanced_brackets(OPEN, CLOSE, END, max_depth=2, other=[WORD])

TARGET = {
    (): rational(["2/10", "3/10", "1/10", "4/10"]),
    (OPEN,): rational(["4/10", "1/10", "3/10", "2/10"]),
    (CLOSE,): rational(["1/7", "3/7", "2/7", "1/7"]),
    (WORD, OPEN): rational(["1/9", "6/9", "1/9", "1/9"]),
}
DRAFT = {(): rational(["1/4"] * 4), (OPEN,): rational(["1/8", "5/8", "1/8", "1/8"])}
contexts = st.lists(st.integers(0, 3), max_size=5).map(tuple)


def tokens_law(program, *args, **options):
    return law(program, *args, **options).map(lambda generation: generation.tokens)


# repetition penalty


@given(rows(4), contexts, st.fractions(Fraction(1, 4), 4, max_denominator=6))
def test_seen_tokens_are_divided_by_the_penalty(row, context, penalty):
    weights = [value / penalty if token in context else value for token, value in enumerate(row)]
    penalised = repetition_penalty(table(row), penalty)(context)
    assert penalised.tolist() == [weight / sum(weights) for weight in weights]
    assert is_exact(penalised)


@given(st.lists(st.floats(-5, 5), min_size=4, max_size=4), contexts, st.floats(0.25, 4))
def test_in_logits_the_penalty_is_a_presence_penalty_of_its_logarithm(logits, context, penalty):
    seen = np.isin(range(4), context)
    expected = softmax(np.array(logits) - np.log(penalty) * seen)
    assert repetition_penalty(table(softmax(logits)), penalty)(context) == pytest.approx(expected, rel=1e-12)


def test_a_penalty_as_a_float_means_what_is_written():
    penalised = repetition_penalty(table(TARGET), 1.2)((CLOSE, CLOSE))
    assert penalised.tolist() == repetition_penalty(table(TARGET), Fraction(6, 5))((CLOSE,)).tolist()
    assert penalised.tolist() == rational(["2/13", "5/13", "4/13", "2/13"]).tolist()


def test_a_penalty_that_changes_no_proportion_returns_the_row_itself():
    oracle = table(TARGET)
    for penalty, context in [(1, (OPEN,)), (2, ()), (2, (3, 2, 1, 0))]:
        assert repetition_penalty(oracle, penalty)(context) is oracle(context)
    certain = table(point_mass(1, 3))
    for context in [(0,), (1,)]:
        assert repetition_penalty(certain, 3)(context) is certain(())


@pytest.mark.parametrize(
    ("penalty", "message"), [(0, "got 0: give a pos"), (-2, "got -2: "), (np.nan, "got nan: ")]
)
def test_a_penalty_without_meaning_is_refused(penalty, message):
    with pytest.raises(ValueError, match="^repetition_penalty " + message):
        repetition_penalty(table(TARGET), penalty)


# masks


def not_the_last(context):
    """No token twice in a row."""
    return np.array([not context or token != context[-1] for token in range(4)])


@given(rows(4), contexts)
def test_a_masked_row_is_the_row_given_that_the_token_is_allowed(row, context):
    allowed = not_the_last(context)
    mass = sum(row[allowed])
    oracle = masked(table(row), not_the_last)
    if mass:
        assert oracle(context).tolist() == [p / mass if ok else 0 for p, ok in zip(row, allowed, strict=True)]
        assert is_exact(oracle(context))
    else:
        with pytest.raises(ValueError, match=r"^no allowed token has any probability after context \("):
            oracle(context)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones(4), r"the mask after context \(1,\) is float64 of shape \(4,\): give bool of shape \(4,\)"),
        (np.ones(3, dtype=bool), r"the mask after context \(1,\) is bool of shape \(3,\)"),
        ([0, 2], r"the mask after context \(1,\) is int64 of shape \(2,\)"),
        (np.zeros(4, dtype=bool), r"no allowed token has any probability after context \(1,\): allow one"),
    ],
)
def test_a_mask_that_is_none_or_leaves_nothing_is_refused(mask, message):
    with pytest.raises(ValueError, match="^" + message):
        masked(table(TARGET), lambda context: mask)((1,))


def test_a_mask_that_rules_out_nothing_possible_returns_the_row_itself():
    oracle = table({(): TARGET[()], (2,): point_mass(1, 4)})
    assert masked(oracle, not_the_last)(()) is oracle(())
    assert masked(oracle, not_the_last)((2,)) is oracle((2,))


def score(context, drafted):
    return [table(TARGET)(context + drafted[:i]) for i in range(len(drafted) + 1)]


@pytest.mark.parametrize("one_pass", [None, score])
def test_a_score_is_masked_up_to_the_first_token_ruled_out(one_pass):
    plain = from_probs(table(TARGET), 4, score=one_pass, context_limit=9)
    oracle = masked(plain, not_the_last)
    assert checked(oracle).score((0,), (1, 0, 3))[2].tolist() == rational([0, "1/6", "3/6", "2/6"]).tolist()
    scored = checked(oracle).score((0,), (1, 1, 0))
    expected = [oracle((0,)), oracle((0, 1)), plain((0, 1, 1)), plain((0, 1, 1, 0))]
    assert [row.tolist() for row in scored] == [row.tolist() for row in expected]
    assert oracle.context_limit == 9


def test_a_mask_is_not_asked_behind_a_token_it_ruled_out():
    """A grammar has no state there; a draft without the grammar must not bring the target down."""
    oracle = constrain(table(TARGET), BRACKETS)
    assert oracle.score((), (OPEN, CLOSE, CLOSE, OPEN))[2][CLOSE] == 0
    with pytest.raises(ValueError, match="token 1 at position 2 may not come in state 0"):
        oracle((OPEN, CLOSE, CLOSE))


@pytest.mark.parametrize("one_pass", [False, True])
def test_nor_behind_one_in_a_tree(one_pass):
    """Node 1 opens; nodes 2 and 3 close, once at the root, where nothing is open; node 4 follows that."""
    passes = []

    def score_tree(context, tokens, parents):
        passes.append(tokens)
        return [plain(context), plain((OPEN,)), plain((OPEN, CLOSE)), plain((CLOSE,)), plain((CLOSE, OPEN))]

    plain = table(TARGET)
    oracle = constrain(from_probs(plain, 4, score_tree=score_tree if one_pass else None), BRACKETS)
    scored = oracle.score_tree((), (OPEN, CLOSE, CLOSE, OPEN), (0, 1, 0, 3))
    expected = [oracle(()), oracle((OPEN,)), oracle((OPEN, CLOSE)), plain((CLOSE,)), plain((CLOSE, OPEN))]
    assert [row.tolist() for row in scored] == [row.tolist() for row in expected]
    assert scored[0][CLOSE] == scored[2][CLOSE] == 0
    assert len(passes) == one_pass


def test_masking_each_step_is_not_conditioning_the_text():
    """The first token at even odds, the second 3 to 1 for token 0; only 00 and 11 are allowed."""
    oracle = table([rational(["1/2", "1/2"]), rational(["3/4", "1/4"])])
    stays = masked(
        oracle, lambda context: np.array([not context or token == context[0] for token in range(2)])
    )
    by_step = tokens_law(autoregress, stays, max_new_tokens=2)
    by_text = tokens_law(autoregress, oracle, max_new_tokens=2).condition(lambda text: text[0] == text[1])
    assert dict(by_step) == {(0, 0): Fraction(1, 2), (1, 1): Fraction(1, 2)}
    assert dict(by_text) == {(0, 0): Fraction(3, 4), (1, 1): Fraction(1, 4)}


# automata


def balanced(text, max_depth):
    """By counting: never below zero or above the depth, and nothing but the end token after one."""
    depth, ended = 0, False
    for token in text:
        if ended and token != END:
            return None
        ended = token == END
        if ended and depth > 0:
            return None
        depth += {OPEN: 1, CLOSE: -1}.get(token, 0)
        if not 0 <= depth <= max_depth:
            return None
    return depth == 0


@pytest.mark.parametrize("max_depth", [1, 2, 3])
def test_the_bracket_automaton_reads_balanced_texts_and_their_beginnings_only(max_depth):
    automaton = balanced_brackets(OPEN, CLOSE, END, max_depth, other=[WORD])
    assert set(automaton.transitions) == {*range(max_depth + 1), "end"}
    for length in range(6):
        for text in itertools.product(range(4), repeat=length):
            expected = balanced(text, max_depth)
            assert automaton.accepts(text) == bool(expected)
            if expected is None:
                with pytest.raises(ValueError, match="may not come in state"):
                    automaton.state(text)
            else:
                assert automaton.state(text) in automaton.transitions


def test_a_constrained_oracle_gives_the_texts_of_its_grammar_and_all_of_them():
    emitted = tokens_law(autoregress, constrain(table(TARGET), BRACKETS), max_new_tokens=4)
    texts = {text for text in itertools.product(range(4), repeat=4) if balanced(text, 2) is not None}
    assert set(emitted) == texts
    assert emitted.exact


def test_a_grammar_can_be_switched_on_by_a_token_in_the_text():
    """Free text until WORD, then OPEN and CLOSE in turn."""
    free = {OPEN: "free", CLOSE: "free", END: "free", WORD: "open"}
    automaton = Automaton(
        "free", {"free": free, "open": {OPEN: "close"}, "close": {CLOSE: "open"}}, frozenset(["free"])
    )
    oracle = constrain(table(TARGET), automaton)
    assert oracle((CLOSE, CLOSE)) is TARGET[(CLOSE,)]
    assert oracle((CLOSE, CLOSE, WORD)).tolist() == [1, 0, 0, 0]
    assert oracle((CLOSE, WORD, OPEN)).tolist() == [0, 1, 0, 0]
    assert automaton.accepts((CLOSE, CLOSE))
    assert not automaton.accepts((CLOSE, WORD))
    exact = tokens_law(autoregress, oracle, max_new_tokens=3)
    drafter = model(table(DRAFT))  # drafts across the switch, blind to it
    assert tokens_law(generate, oracle, drafter, max_new_tokens=3, num_draft_tokens=2) == exact


def test_a_grammar_can_begin_after_a_prompt_of_free_text():
    prompt = (CLOSE, END, CLOSE)
    oracle = constrain(table(TARGET), BRACKETS, start_at=len(prompt))
    for i in range(len(prompt)):
        assert oracle(prompt[:i]).tolist() == table(TARGET)(prompt[:i]).tolist()
    assert oracle(prompt).tolist() == rational(["1/4", 0, "2/4", "1/4"]).tolist()
    assert oracle((*prompt, OPEN))[CLOSE] > 0
    with pytest.raises(
        ValueError, match=r"token 1 at position 0 may not come in state 0: .* say with start_at"
    ):
        constrain(table(TARGET), BRACKETS)(prompt)


def test_an_automaton_is_immutable():
    with pytest.raises(AttributeError, match="start"):
        BRACKETS.start = 1


@pytest.mark.parametrize(
    ("start", "transitions", "accepting", "state"),
    [
        ("a", {}, [], "a"),
        ("a", {"a": {0: "b"}}, [], "b"),
        ("a", {"a": {0: "a"}}, ["end"], "end"),
        ("a", {"a": {0: "a"}, "b": {}}, ["b"], "b"),
    ],
)
def test_an_automaton_in_which_nothing_can_follow_is_refused(start, transitions, accepting, state):
    message = rf"^no token may follow in state '{state}': give transitions\['{state}'\] some tokens$"
    with pytest.raises(ValueError, match=message):
        Automaton(start, transitions, frozenset(accepting))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 2, 1), r"balanced_brackets got tokens \[0, 0, 2\]: give each role a token of its own"),
        ((0, 1, 2, 1, [1]), r"balanced_brackets got tokens \[0, 1, 2, 1\]"),
        ((0, 1, 2, 0), r"max_depth is 0: give 1 or more"),
    ],
)
def test_brackets_without_meaning_are_refused(arguments, message):
    with pytest.raises(ValueError, match="^" + message):
        balanced_brackets(*arguments)


@pytest.mark.parametrize(
    ("tokens", "start_at", "message"),
    [
        ((0, 4), 0, "the automaton reads token 4: give one for tokens from 0 to 3"),
        ((-1, 0), 0, "the automaton reads token -1: give one for tokens from 0 to 3"),
        ((0, 3), -1, "start_at is -1: give a position, 0 or more"),
    ],
)
def test_an_automaton_of_another_vocabulary_is_refused(tokens, start_at, message):
    automaton = Automaton(0, {0: dict.fromkeys(tokens, 0)}, frozenset([0]))
    with pytest.raises(ValueError, match="^" + message):
        constrain(table(TARGET), automaton, start_at)


# under speculation


CONSTRAINTS = {
    "repetition penalty": lambda oracle: repetition_penalty(oracle, 2),
    "mask": lambda oracle: masked(oracle, not_the_last),
    "brackets": lambda oracle: constrain(oracle, BRACKETS),
    "all, and a warp": lambda oracle: temperature(0.5)(constrain(repetition_penalty(oracle, 2), BRACKETS)),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("draft_knows", [True, False])
def test_speculation_under_a_constraint_is_exact_whether_or_not_the_draft_knows_of_it(name, draft_knows):
    target = CONSTRAINTS[name](table(TARGET))
    draft = CONSTRAINTS[name](table(DRAFT)) if draft_knows else table(DRAFT)
    expected = tokens_law(autoregress, target, max_new_tokens=3)
    speculative = tokens_law(generate, target, model(draft), max_new_tokens=3, num_draft_tokens=2)
    assert speculative == expected
    assert speculative.exact


def test_a_constraint_that_forgets_the_drafted_tokens_is_found():
    """Engines have applied the mask of the last accepted token to the whole block."""
    right = masked(table(TARGET), not_the_last)

    def stale(context, drafted):
        allowed = not_the_last(context)
        rows_after = [table(TARGET)(context + drafted[:i]) for i in range(len(drafted) + 1)]
        return [np.where(allowed, row, 0) / row[allowed].sum() for row in rows_after]

    wrong = from_probs(right, 4, score=stale)
    expected = tokens_law(autoregress, right, max_new_tokens=3)
    emitted = tokens_law(generate, wrong, model(table(DRAFT)), max_new_tokens=3, num_draft_tokens=2)
    assert emitted.distance(expected) > Fraction(1, 10)
    assert any(text[i] == text[i + 1] for text in emitted for i in range(2))
    with pytest.raises(ValueError, match="row 1 of score"):
        checked(wrong).score((), (WORD, OPEN))


def test_a_map_of_a_constrained_oracle_keeps_its_one_pass():
    oracle = constrain(table(TARGET), BRACKETS)
    mapped = map_rows(oracle, lambda context, row: row)
    assert [row.tolist() for row in mapped.score((), (OPEN, CLOSE, CLOSE, OPEN))] == [
        row.tolist() for row in oracle.score((), (OPEN, CLOSE, CLOSE, OPEN))
    ]


@pytest.mark.parametrize(
    "oracle",
    [
        repetition_penalty(table(TARGET), 1.3),
        masked(table(TARGET), not_the_last),
        constrain(table(TARGET), BRACKETS),
    ],
)
def test_constrained_oracles_can_be_sent_to_other_processes(oracle):
    copy = pickle.loads(pickle.dumps(oracle))
    assert [row.tolist() for row in copy.score((OPEN,), (CLOSE, WORD))] == [
        row.tolist() for row in oracle.score((OPEN,), (CLOSE, WORD))
    ]
