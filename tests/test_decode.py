"""The loop: exact lengths, stop tokens, limits, records, reproducibility."""

import math
import operator
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import (
    VERIFIERS,
    Draft,
    Drafter,
    Round,
    Verdict,
    autoregress,
    from_probs,
    generate,
    law,
    paths,
    point_mass,
    rational,
    sample,
    sample_exactly,
    speculate,
    stream,
    table,
    verify,
)
from speculative.constraint import masked, repetition_penalty
from speculative.draft import DraftTree, Siblings, independent, model
from speculative.draft import paths as tree_of_paths
from speculative.oracle import cached, interface
from speculative.testing import pairs
from speculative.warp import temperature

UNIFORM = table({(): rational(["1/4"] * 4)})
TARGET = table({(): rational([".10", ".60", ".30", "0"]), (1,): rational(["0", "1/5", "2/5", "2/5"])})
DRAFT = table({(): rational([".50", ".05", ".25", ".20"]), (2,): rational(["1/4"] * 4)})


def chain(vocab_size=8):
    """The language in which each token is followed by the next one: any slip shows."""
    return from_probs(
        lambda context: point_mass((context[-1] + 1) % vocab_size if context else 0, vocab_size), vocab_size
    )


def guesses(*wrong_at, vocab_size=8):
    """A drafter for `chain` that errs at the given absolute positions."""

    def propose(chance, context, num_draft_tokens):
        tokens = []
        for position in range(len(context), len(context) + num_draft_tokens):
            before = (*context, *tokens)
            right = (before[-1] + 1) % vocab_size if before else 0
            tokens.append((right + 3) % vocab_size if position in wrong_at else right)
        return Draft(tuple(tokens), tuple(point_mass(token, vocab_size) for token in tokens))

    return Drafter(propose, vocab_size)


@settings(max_examples=20)
@given(
    pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)),
    st.integers(0, 4),
    st.sets(st.integers(0, 2), max_size=2),
)
def test_generate_has_the_law_of_the_target_alone(pair, length, stop_tokens):
    options = {"max_new_tokens": length, "stop_tokens": stop_tokens}
    made = law(generate, pair.target, pair.drafter, (1,), num_draft_tokens=pair.num_draft_tokens, **options)
    alone = law(autoregress, pair.target, (1,), **options)
    assert made.exact
    assert made.map(lambda one: (one.tokens, one.stop_reason)) == alone.map(
        lambda one: (one.tokens, one.stop_reason)
    )


@pytest.mark.parametrize("wrong_at", range(6))
@pytest.mark.parametrize("k", range(1, 6))
@pytest.mark.parametrize("name", ["token", "greedy", "match"])
def test_a_chain_stays_a_chain_wherever_a_draft_is_wrong(name, k, wrong_at):
    made = sample(
        generate,
        chain(),
        guesses(wrong_at),
        max_new_tokens=12,
        num_draft_tokens=k,
        verify=VERIFIERS[name].function,
        rng=0,
    )
    assert made.tokens == tuple(i % 8 for i in range(12))
    assert sum(one.last == "residual" for one in made.rounds) == sum(
        start <= wrong_at < start + one.drafted for start, one in zip(starts(made), made.rounds, strict=True)
    )


def starts(made):
    return [sum(len(one.tokens) for one in made.rounds[:i]) for i in range(len(made.rounds))]


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("length", range(7))
def test_exactly_as_many_tokens_as_asked_for(k, length):
    made = sample(generate, chain(), guesses(), max_new_tokens=length, num_draft_tokens=k, rng=0)
    assert made.tokens == tuple(range(length))
    assert made.stop_reason == "max_new_tokens"


def test_no_round_drafts_more_than_can_be_kept():
    asked = []

    def propose(chance, context, num_draft_tokens):
        asked.append((len(context), num_draft_tokens))
        return guesses()(chance, context, num_draft_tokens)

    sample(generate, chain(), propose, max_new_tokens=7, num_draft_tokens=3, rng=0)
    assert asked == [(0, 3), (4, 2)]
    asked.clear()
    sample(generate, chain(), propose, max_new_tokens=5, num_draft_tokens=3, rng=0)
    assert asked == [(0, 3)], "one token left: no draft is asked for"


@pytest.mark.parametrize("k", range(6))
@pytest.mark.parametrize("stop", range(8))
def test_a_stop_token_ends_the_text_wherever_it_stands(k, stop):
    made = sample(
        generate, chain(), guesses(), max_new_tokens=20, num_draft_tokens=k, stop_tokens={stop}, rng=0
    )
    assert made.tokens == tuple(range(stop + 1))
    assert made.stop_reason == "stop_token"
    assert sum(len(one.tokens) for one in made.rounds) == len(made.tokens)
    assert all(one.accepted <= one.drafted <= max(len(one.tokens), k) for one in made.rounds)
    cut = made.rounds[-1]
    assert (cut.last == "draft") == (len(cut.tokens) == cut.accepted)


@pytest.mark.parametrize(
    ("greedy_output", "stop_tokens", "limit", "kept", "reason"),
    [
        ((6, 5, 6, 7, 3, 5), {6}, 6, (6,), "stop_token"),
        ((4, 5, 3, 7, 3, 5), {6}, 2, (4, 5), "max_new_tokens"),
        ((1, 2, 0, 5, 6, 7), {0}, 5, (1, 2, 0), "stop_token"),
        ((1, 2, 0), {0}, 3, (1, 2, 0), "stop_token"),
    ],
)
@pytest.mark.parametrize("k", range(1, 6))
def test_the_first_stop_token_wins_over_the_length(greedy_output, stop_tokens, limit, kept, reason, k):
    target = table({greedy_output[:i]: point_mass(token, 8) for i, token in enumerate(greedy_output)})
    made = sample(
        generate,
        target,
        model(target),
        max_new_tokens=limit,
        num_draft_tokens=k,
        stop_tokens=stop_tokens,
        rng=0,
    )
    assert (made.tokens, made.stop_reason) == (kept, reason)


@pytest.mark.parametrize("k", range(1, 6))
@pytest.mark.parametrize("prompt", range(9))
def test_the_context_limit_of_the_target_is_never_overrun(k, prompt):
    def row(context):
        assert len(context) <= 8
        return point_mass(len(context) % 8, 8)

    target = from_probs(row, 8, context_limit=8)
    made = sample(
        generate, target, model(chain()), (0,) * prompt, max_new_tokens=50, num_draft_tokens=k, rng=0
    )
    assert len(made.tokens) == 9 - prompt
    assert made.stop_reason == "context_limit"
    assert made.tokens == sample(autoregress, target, (0,) * prompt, max_new_tokens=50, rng=1).tokens


def test_a_prompt_beyond_the_limit_is_refused():
    target = table({(): rational(["1/4"] * 4)}, context_limit=2)
    with pytest.raises(ValueError, match="prompt of 3 tokens: the target's limit is 2"):
        sample(generate, target, model(UNIFORM), (0,) * 3, max_new_tokens=5)
    with pytest.raises(ValueError, match="prompt of 3 tokens: the target's limit is 2"):
        sample(autoregress, target, (0,) * 3, max_new_tokens=5)


def test_a_draft_with_a_shorter_context_leaves_plain_decoding():
    short = from_probs(
        lambda context: point_mass((context[-1] + 1) % 8 if context else 0, 8), 8, context_limit=6
    )
    made = sample(generate, chain(), model(short), max_new_tokens=12, num_draft_tokens=3, rng=0)
    assert made.tokens == tuple(i % 8 for i in range(12))
    assert [one.drafted for one in made.rounds] == [3, 3, 0, 0, 0, 0]


def test_the_record_of_a_round():
    accepted, rejected = Draft((0,), (rational(["1", 0, 0, 0]),)), Draft((3,), (rational([0, 0, 0, "1"]),))
    for proposal, last in ((accepted, "bonus"), (rejected, "residual")):
        for one in law(speculate, TARGET, lambda *_, proposal=proposal: proposal, num_draft_tokens=1):
            if one.tokens[0] == proposal.tokens[0]:
                assert (one.drafted, one.accepted, one.last) == (1, 1, last)
            else:
                assert (one.drafted, one.accepted, one.last) == (1, 0, "residual")


@settings(max_examples=20)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)))
def test_log_probabilities_are_those_of_the_target_for_drafts_residuals_and_bonus_alike(pair):
    for made in law(
        generate, pair.target, pair.drafter, (1,), max_new_tokens=3, num_draft_tokens=pair.num_draft_tokens
    ):
        expected = [pair.target((1, *made.tokens[:i]))[token] for i, token in enumerate(made.tokens)]
        assert [value for one in made.rounds for value in one.target_probs] == expected
        assert made.log_probs == tuple(math.log(probability) for probability in expected)


def test_a_token_that_the_target_rules_out_has_log_probability_minus_infinity():
    made = law(speculate, TARGET, model(DRAFT), num_draft_tokens=1, verify=lambda *_: [3])
    assert {one.log_probs for one in made} == {(-math.inf,)}


def test_streaming_gives_the_same_rounds_one_by_one():
    options = {"max_new_tokens": 20, "num_draft_tokens": 3}
    whole = sample(generate, TARGET, model(DRAFT), rng=5, **options)
    parts = sample(stream, TARGET, model(DRAFT), rng=5, **options)
    assert next(parts) == whole.rounds[0]
    assert tuple(parts) == whole.rounds[1:]


def test_the_same_seed_gives_the_same_tokens_alone_and_beside_others():
    options = {"max_new_tokens": 30, "num_draft_tokens": 3}
    alone = [sample(generate, TARGET, model(DRAFT), rng=seed, **options).tokens for seed in range(3)]
    streams = [sample(stream, TARGET, model(DRAFT), rng=seed, **options) for seed in range(3)]
    beside: list[tuple[int, ...]] = [(), (), ()]
    while any(ones := [next(one, None) for one in streams]):
        beside = [tokens + (one.tokens if one else ()) for tokens, one in zip(beside, ones, strict=True)]
    assert beside == alone
    assert len(set(alone)) == 3
    assert alone[0] == sample(generate, TARGET, model(DRAFT), rng=np.random.default_rng(0), **options).tokens


def test_runs_without_a_seed_differ():
    made = {sample(autoregress, UNIFORM, max_new_tokens=40).tokens for _ in range(20)}
    assert len(made) == 20, "false alarm below 1e-21"


def test_exact_sampling_runs_the_same_loop():
    made = sample_exactly(generate, TARGET, model(DRAFT), max_new_tokens=20, rng=0)
    assert len(made.tokens) == 20
    assert made == sample_exactly(generate, TARGET, model(DRAFT), max_new_tokens=20, rng=0)


def test_equal_models_bring_full_blocks_for_every_length():
    for k in range(1, 9):
        made = sample(generate, TARGET, model(TARGET), max_new_tokens=10 * (k + 1), num_draft_tokens=k, rng=k)
        assert [one.accepted for one in made.rounds] == [k] * 10


def test_a_verifier_may_return_the_emitted_tokens_only():
    def verifier(chance, proposal, target_probs):
        return [np.int64(token) for token in verify.token(chance, proposal, target_probs).tokens]

    options = {"num_draft_tokens": 2}
    assert law(speculate, TARGET, model(DRAFT), verify=verifier, **options) == law(
        speculate, TARGET, model(DRAFT), **options
    )


@pytest.mark.parametrize("emitted", [[], [0, 0, 0]])
def test_a_round_that_emits_nothing_or_too_much_is_refused(emitted):
    with pytest.raises(ValueError, match="emitted"):
        law(speculate, TARGET, model(DRAFT), num_draft_tokens=1, verify=lambda *_: emitted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": -1}, "max_new_tokens = -1"),
        ({"max_new_tokens": 2.5}, "max_new_tokens = 2.5"),
        ({"max_new_tokens": True}, "max_new_tokens = True"),
        ({"max_new_tokens": 3, "num_draft_tokens": -2}, "num_draft_tokens = -2"),
    ],
)
def test_bad_counts_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sample(generate, TARGET, model(DRAFT), **options)
    if "num_draft_tokens" not in options:
        with pytest.raises(ValueError, match=message):
            sample(autoregress, TARGET, **options)


def test_a_drafter_that_proposes_too_much_or_of_another_size_is_refused():
    three = Draft((0, 0, 0), (rational([1, 0, 0, 0]),) * 3)
    with pytest.raises(ValueError, match="proposed 3 tokens where 2"):
        law(speculate, TARGET, lambda *_: three, num_draft_tokens=2)
    other = Draft((0,), (rational([1, 0, 0]),))
    with pytest.raises(ValueError, match="share a vocabulary"):
        law(speculate, TARGET, lambda *_: other, num_draft_tokens=1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1, 0, 0, 0], r"is a list: give an array of shape \(V,\), np\.array\(row\) or rational\(row\)$"),
        (np.ones((4, 4)), r"is an array of shape \(4, 4\): give an array of shape \(V,\)"),
        (np.array([0.9, 0, 0, 0]), r"sums to 0\.9, not to 1: divide it by its sum where it is made$"),
        (np.array([1.5, -0.5, 0, 0]), r"has the negative -0\.5 for token 1: give probabilities, not logits$"),
        (np.array([1, np.nan, 0, 0]), r"has nan for token 1: give finite probabilities$"),
    ],
    ids=["list", "matrix", "sum", "negative", "nan"],
)
def test_a_row_that_is_no_law_is_refused_with_its_context(row, message):
    """Each row has its token, so that the draft itself says nothing; the second row of a chain and the row
    below node 1 of a tree stand after the context (2,) and the draft 3."""
    sure = point_mass(3, 4)
    draft = object.__new__(Draft)  # as engines hand it on: nothing is checked where it is made
    object.__setattr__(draft, "tokens", (3, 0))
    object.__setattr__(draft, "probs", (sure, row))
    draws = {0: Siblings((1,), (3,), sure, independent), 1: Siblings((2,), (0,), row, independent)}
    tree = DraftTree((3, 0), (0, 1), draws, sampled=True)
    for proposed in (draft, tree):
        with pytest.raises(ValueError, match=r"^the drafter's row at context \(2, 3\) " + message):
            sample(speculate, UNIFORM, lambda *_, proposed=proposed: proposed, (2,), num_draft_tokens=2)


def test_a_row_that_can_be_written_to_is_a_row_all_the_same():
    """The second token is certain and the first always a draft of half its law: 1/4 over 1/2, 0 or 1."""
    draft = Draft((0, 1), (np.array([0.5, 0.5, 0, 0]), np.array([0, 1, 0, 0])))
    made = law(speculate, UNIFORM, lambda *_: draft, num_draft_tokens=2)
    assert made.map(lambda one: one.accepted) == {0: 0.5, 1: 0.375, 2: 0.125}


def test_an_oracle_in_the_place_of_a_drafter_is_refused():
    with pytest.raises(ValueError, match=r"draft\.model\(oracle\)"):
        law(speculate, TARGET, DRAFT, num_draft_tokens=1)


@pytest.mark.parametrize("returned", [None, 3, [None]])
def test_a_verifier_that_returns_no_tokens_is_refused(returned):
    with pytest.raises(ValueError, match="return a Verdict or the tokens"):
        law(speculate, TARGET, model(DRAFT), num_draft_tokens=1, verify=lambda *_: returned)


def test_nothing_proposed_is_plain_decoding():
    empty = law(speculate, TARGET, lambda *_: Draft((), ()), num_draft_tokens=3)
    assert empty.map(lambda one: one.tokens) == {
        (0,): Fraction(1, 10),
        (1,): Fraction(6, 10),
        (2,): Fraction(3, 10),
    }
    assert {(one.drafted, one.accepted, one.last) for one in empty} == {(0, 0, "bonus")}


def test_a_row_that_is_no_law_is_an_error_and_never_a_token():
    for bad in ([math.nan] * 4, [0.5, 0.5, 0.5, 0.5], [-0.5, 0.5, 0.5, 0.5]):
        broken = from_probs(lambda context, bad=bad: bad if context else [0.25] * 4, 4)
        with pytest.raises(ValueError, match="context"):
            sample(generate, broken, model(UNIFORM), max_new_tokens=5, rng=0)
        with pytest.raises(ValueError, match="context"):
            sample(generate, UNIFORM, model(broken), max_new_tokens=5, rng=0)


def test_every_path_draws_the_draft_before_it_is_verified():
    kinds = [
        [answer.kind for answer in path.answers]
        for path in paths(speculate, TARGET, model(DRAFT), num_draft_tokens=2)
    ]
    assert all(names[:2] == ["pick", "pick"] and names[-1] == "pick" for names in kinds)
    assert all(set(names[2:-1]) == {"flip"} for names in kinds)


def test_the_target_alone_brings_one_bonus_token_a_round():
    for made in law(autoregress, TARGET, (1,), max_new_tokens=2):
        expected = [TARGET((1, *made.tokens[:i]))[token] for i, token in enumerate(made.tokens)]
        assert made.rounds == tuple(
            Round((token,), 0, 0, "bonus", (probability,))
            for token, probability in zip(made.tokens, expected, strict=True)
        )


def test_four_drafts_a_round_unless_told_otherwise():
    assert {one.drafted for one in law(speculate, chain(), guesses())} == {4}
    assert [one.drafted for one in sample(stream, chain(), guesses(), max_new_tokens=10, rng=0)] == [4, 4]
    made = sample(generate, chain(), guesses(), max_new_tokens=10, rng=0)
    assert [one.drafted for one in made.rounds] == [4, 4]


@pytest.mark.parametrize("stop", range(5))
def test_log_probabilities_end_at_the_stop_token(stop):
    made = sample(generate, chain(), guesses(), max_new_tokens=10, stop_tokens={stop}, rng=0)
    assert made.log_probs == (0.0,) * len(made.tokens)


# ---------------------------------------------------------------- what may be handed in, and what comes back


@pytest.mark.parametrize("context", [[0], np.array([0]), (np.int64(0),)])
def test_a_context_may_be_any_sequence_of_tokens(context):
    bent = table({(): rational(["1", 0, 0]), (0,): rational([0, 0, "1"])})
    for made in (
        sample(autoregress, bent, context, max_new_tokens=1),
        sample(generate, bent, model(bent), context, max_new_tokens=1),
        sample(speculate, bent, model(bent), context, num_draft_tokens=0),
    ):
        assert made.tokens == (2,)


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict((0, 1), 0),
        Verdict((0, 1), 2),
        Verdict((0, 1), -1),
        Verdict((1, 1), 1),
        Verdict((4,), 0),
        Verdict((-1,), 0),
        Verdict(([0],), 0),
        Verdict((0.9,), 0),
        Verdict(None, 0),
        Verdict({0}, 0),
        Verdict((False,), 0),
        ("0",),
        (0.9,),
        (4,),
        {1},
        {1: 1},
        range(1, 2),
        (True,),
        (np.True_,),
        np.array([True]),
        np.array([1.0]),
        np.array([[1]]),
    ],
    ids=repr,
)
def test_a_verdict_that_does_not_fit_the_draft_is_refused(verdict):
    always = Draft((0,), (rational(["1", 0, 0, 0]),))
    with pytest.raises(ValueError, match=r"the verifier (returned|emitted)"):
        law(speculate, TARGET, lambda *_: always, num_draft_tokens=1, verify=lambda *_: verdict)


@pytest.mark.parametrize(
    "emitted",
    [(0, 1), [0, 1], np.array([0, 1]), np.array([0, 1], dtype=np.uint8), [np.int64(0), 1]],
    ids=repr,
)
def test_tokens_may_come_as_a_tuple_a_list_or_an_array(emitted):
    always = Draft((0,), (point_mass(0, 4),))
    [one] = law(speculate, UNIFORM, lambda *_: always, num_draft_tokens=1, verify=lambda *_: emitted)
    assert (one.tokens, one.accepted) == ((0, 1), 1)
    assert set(map(type, one.tokens)) == {int}


def test_of_plain_tokens_the_leading_drafts_count_as_accepted_and_probabilities_follow_the_tokens():
    two = Draft((0, 1), (rational(["1", 0, 0, 0]), rational([0, "1", 0, 0])))
    [one] = law(speculate, TARGET, lambda *_: two, num_draft_tokens=2, verify=lambda *_: (1, 2, 2))
    assert (one.tokens, one.accepted, one.last) == ((1, 2, 2), 0, "residual")
    assert one.target_probs == (TARGET(())[1], TARGET((1,))[2], TARGET((1, 2))[2])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((lambda context: [1], model(DRAFT), verify.token), r"the target is a function: make an oracle"),
        ((TARGET, DRAFT, verify.token), r"the drafter is an Oracle: make a drafter, draft\.model"),
        ((TARGET, None, verify.token), r"the drafter is None: make a drafter"),
        ((TARGET, model(DRAFT), "token"), r"the verifier is 'token': give a function, such as verify\.token"),
        ((TARGET, model(DRAFT), VERIFIERS["token"]), r"the verifier is a Verifier: give a function"),
        ((TARGET, lambda *_: (0,), verify.token), r"the drafter returned a tuple: return a Draft"),
    ],
)
def test_parts_that_are_something_else_are_refused(parts, message):
    target, drafter, verifier = parts
    with pytest.raises(ValueError, match=message):
        sample(generate, target, drafter, max_new_tokens=3, verify=verifier)
    with pytest.raises(ValueError, match=message):
        law(speculate, target, drafter, num_draft_tokens=2, verify=verifier)


def test_a_stream_is_refused_when_it_is_asked_for_and_not_at_its_first_round():
    with pytest.raises(ValueError, match=r"^the drafter is an Oracle: make a drafter"):
        sample(stream, TARGET, DRAFT, max_new_tokens=3)
    with pytest.raises(ValueError, match=r"^num_draft_tokens = -1 is too small"):
        sample(stream, TARGET, model(DRAFT), max_new_tokens=3, num_draft_tokens=-1)


@pytest.mark.parametrize("prompt", [5, None])
def test_a_prompt_that_is_none_is_refused(prompt):
    message = rf"^the context {prompt} is not made of tokens: give a tuple of ints$"
    with pytest.raises(ValueError, match=message):
        sample(generate, TARGET, model(DRAFT), prompt, max_new_tokens=3)
    with pytest.raises(ValueError, match=message):
        sample(autoregress, TARGET, prompt, max_new_tokens=3)


def test_the_target_alone_wants_an_oracle_too():
    with pytest.raises(ValueError, match="the target is a function: make an oracle, from_probs"):
        sample(autoregress, lambda context: [1], max_new_tokens=1)


@pytest.mark.parametrize("stop_tokens", [{4}, {-1}, {"0"}, 5, None])
def test_stop_tokens_that_cannot_come_are_refused(stop_tokens):
    with pytest.raises(ValueError, match="stop"):
        sample(generate, TARGET, model(DRAFT), max_new_tokens=3, stop_tokens=stop_tokens)
    with pytest.raises(ValueError, match="stop"):
        sample(autoregress, TARGET, max_new_tokens=3, stop_tokens=stop_tokens)


def test_stop_tokens_may_be_any_iterable():
    made = sample(
        generate, chain(), guesses(), max_new_tokens=9, stop_tokens=(token for token in [5, 3]), rng=0
    )
    assert (made.tokens, made.stop_reason) == ((0, 1, 2, 3), "stop_token")


def test_counts_may_be_of_any_integer_type():
    made = sample(
        generate, chain(), guesses(), max_new_tokens=np.int64(3), num_draft_tokens=np.int32(2), rng=0
    )
    assert made.tokens == (0, 1, 2)


def test_the_verifier_asked_for_is_the_one_that_runs():
    def first_of_all(chance, proposal, target_probs):
        return [2]

    options = {"max_new_tokens": 3, "verify": first_of_all}
    assert {one.tokens for one in law(generate, TARGET, model(DRAFT), **options)} == {(2, 2, 2)}
    assert [one.tokens for one in sample(stream, TARGET, model(DRAFT), **options)] == [(2,)] * 3


def test_every_way_in_compares_vocabularies():
    names = [table({(): UNIFORM(())}, vocabulary=names) for names in ("abcd", "bacd")]
    for read in (law, sample):
        with pytest.raises(ValueError, match="token 0 is 'a' to the target and 'b' to the draft"):
            read(speculate, names[0], model(names[1]), num_draft_tokens=1)


def test_messages_name_what_may_be_written():
    one = Draft((0,), (rational(["1", 0, 0, 0]),))

    def returning(verdict):
        return partial(law, speculate, TARGET, lambda *_: one, num_draft_tokens=1, verify=lambda *_: verdict)

    for call, message in [
        (returning((0, 0, 0)), r"emitted 3 tokens for 1 drafts: emit 1 to 2$"),
        (returning((4,)), r"emitted token 4: give tokens from 0 to 3$"),
        (returning(Verdict((0, 1), 0)), r"that `tokens` begins with, and one more token follows them$"),
        (
            partial(sample, autoregress, TARGET, max_new_tokens=1, stop_tokens={4}),
            r"give tokens from 0 to 3$",
        ),
        (
            partial(sample, autoregress, None, max_new_tokens=1),
            r"^the target is None: make an oracle, from_probs\(",
        ),
        (
            partial(sample, speculate, TARGET, model(DRAFT), num_draft_tokens=-1),
            r"^num_draft_tokens = -1 is too small",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


# ---------------------------------------------------------------- trees


FORK = DraftTree(
    tokens=(0, 1, 2, 1),
    parents=(0, 0, 1, 2),
    draws={
        0: Siblings((1, 2), (0, 1), UNIFORM(()), independent),
        1: Siblings((3,), (2,), UNIFORM(()), independent),
        2: Siblings((4,), (1,), UNIFORM(()), independent),
    },
)
"""The paths 0 2 and 1 1."""


def forks(*wrong_at, vocab_size=8):
    """Trees for `chain`: at each place what is right and what is wrong, both gone on with as if right.

    The wrong one comes first. At the given absolute positions both are wrong.
    """

    def propose(chance, context, num_draft_tokens):
        row = rational([Fraction(1, vocab_size)] * vocab_size)
        tokens, parents, draws, level = [], [], {}, [(0, context)]
        for position in range(len(context), len(context) + num_draft_tokens):
            below = []
            for node, before in level:
                right = (before[-1] + 1) % vocab_size if before else 0
                drafted = [(right + 3) % vocab_size, (right + 5 * (position in wrong_at)) % vocab_size]
                nodes = (len(tokens) + 1, len(tokens) + 2)
                tokens, parents = [*tokens, *drafted], [*parents, node, node]
                draws[node] = Siblings(nodes, tuple(drafted), row, independent)
                below += [(child, (*before, token)) for child, token in zip(nodes, drafted, strict=True)]
            level = below
        return DraftTree(tuple(tokens), tuple(parents), draws)

    return Drafter(propose, vocab_size)


TREE_VERIFIERS = [verify.match, verify.greedy, verify.recursive, verify.recursive_distinct]


def test_the_record_of_a_round_on_a_tree():
    """`match` draws from the target and walks; TARGET is .1 .6 .3 0 but after 1, where it is 0 .2 .4 .4."""
    rounds = {
        one.tokens: one
        for one in law(speculate, TARGET, lambda *_: FORK, num_draft_tokens=2, verify=verify.match)
    }
    expected = {(2,): (0, "residual"), (0, 0): (1, "residual"), (0, 1): (1, "residual")}
    expected |= {(1, token): (1, "residual") for token in (2, 3)}
    expected |= {(0, 2, token): (2, "bonus") for token in (0, 1, 2)}
    expected |= {(1, 1, token): (2, "bonus") for token in (1, 2, 3)}
    assert {tokens: (one.accepted, one.last) for tokens, one in rounds.items()} == expected
    assert {(one.drafted, one.carried) for one in rounds.values()} == {(4, ())}
    for tokens, one in rounds.items():
        assert one.target_probs == tuple(TARGET(tokens[:i])[token] for i, token in enumerate(tokens))


def test_of_plain_tokens_those_along_the_tree_count_as_accepted():
    for emitted, accepted, last in [
        ((1, 1, 3), 2, "bonus"),
        ((1, 3), 1, "residual"),
        ((0, 1, 1), 1, "residual"),
        ((3, 2, 1), 0, "residual"),
        ((0,), 0, "residual"),
    ]:
        [one] = law(
            speculate, TARGET, lambda *_: FORK, num_draft_tokens=2, verify=lambda *_, emitted=emitted: emitted
        )
        assert (one.tokens, one.accepted, one.last) == (emitted, accepted, last)
        assert one.target_probs == tuple(TARGET(emitted[:i])[token] for i, token in enumerate(emitted))


@pytest.mark.parametrize(
    "verdict", [Verdict((1, 2, 1), 2), Verdict((2, 1), 1), Verdict((0, 2), 0), Verdict((0, 2, 1, 1), 3)]
)
def test_a_verdict_off_the_tree_is_refused(verdict):
    with pytest.raises(ValueError, match=r"^the verifier (returned|emitted)"):
        law(speculate, TARGET, lambda *_: FORK, num_draft_tokens=2, verify=lambda *_: verdict)


def test_a_tree_that_is_too_deep_or_of_another_vocabulary_is_refused():
    with pytest.raises(ValueError, match="proposed 2 tokens where 1 were asked for"):
        law(speculate, TARGET, lambda *_: FORK, num_draft_tokens=1, verify=verify.match)
    three = DraftTree((0,), (0,), {0: Siblings((1,), (0,), rational(["1/3"] * 3), independent)})
    with pytest.raises(ValueError, match="the drafter's rows have 3 tokens, the target's 4: share a"):
        law(speculate, TARGET, lambda *_: three, num_draft_tokens=1, verify=verify.match)


@pytest.mark.parametrize("wrong_at", range(6))
@pytest.mark.parametrize("k", range(1, 4))
@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
def test_a_chain_stays_a_chain_wherever_a_tree_is_wrong(verifier, k, wrong_at):
    options = {"max_new_tokens": 12, "num_draft_tokens": k, "verify": verifier}
    made = sample(generate, chain(), forks(wrong_at), **options, rng=0)
    assert made.tokens == tuple(i % 8 for i in range(12))
    for start, one in zip(starts(made), made.rounds, strict=True):
        asked = min(k, 12 - start - 1)
        accepted = wrong_at - start if start <= wrong_at < start + asked else asked
        assert (one.drafted, one.accepted) == (2 ** (asked + 1) - 2, accepted)
        assert one.last == ("residual" if accepted < asked else "bonus")
        assert one.target_probs == (1,) * len(one.tokens)


@pytest.mark.parametrize("k", range(4))
@pytest.mark.parametrize("stop", range(6))
def test_a_stop_token_ends_the_text_inside_a_tree_too(stop, k):
    options = {"max_new_tokens": 20, "num_draft_tokens": k, "verify": verify.recursive}
    made = sample(generate, chain(), forks(), **options, stop_tokens={stop}, rng=0)
    assert (made.tokens, made.stop_reason) == (tuple(range(stop + 1)), "stop_token")
    *whole, cut = made.rounds
    assert all((one.drafted, one.accepted) == (2 ** (k + 1) - 2, k) for one in whole)
    if (place := stop % (k + 1)) < k:  # a draft: what is behind it, and beside it, was not judged
        assert (cut.drafted, cut.accepted, cut.last) == (place + 1, place + 1, "draft")
    else:
        assert (cut.drafted, cut.accepted, cut.last) == (2 ** (k + 1) - 2, k, "bonus")


@pytest.mark.parametrize("prompt", range(5))
def test_the_context_limit_is_never_overrun_by_a_tree(prompt):
    def row(context):
        assert len(context) <= 4
        return point_mass((context[-1] + 1) % 8 if context else 0, 8)

    target, context = from_probs(row, 8, context_limit=4), tuple(range(prompt))
    options = {"max_new_tokens": 50, "num_draft_tokens": 3, "verify": verify.recursive}
    made = sample(generate, target, forks(), context, **options, rng=0)
    assert (made.tokens, made.stop_reason) == (tuple(range(prompt, 5)), "context_limit")


def test_a_tree_gets_no_deeper_than_what_can_be_kept():
    options = {"num_draft_tokens": 3, "verify": verify.recursive}
    for length in range(1, 9):
        made = sample(generate, chain(), forks(), max_new_tokens=length, **options, rng=0)
        assert made.tokens == tuple(range(length))
        assert [one.accepted for one in made.rounds] == [3] * (length // 4) + [length % 4 - 1] * (
            length % 4 > 0
        )


@pytest.mark.parametrize("verifier", [verify.recursive, verify.recursive_distinct, verify.match])
@settings(max_examples=8)
@given(
    pair=pairs(vocab_sizes=(3, 3)),
    length=st.integers(0, 3),
    stop_tokens=st.sets(st.integers(0, 2), max_size=1),
)
def test_generate_on_trees_has_the_law_of_the_target_alone(verifier, pair, length, stop_tokens):
    target = replace(pair.target, context_limit=3)
    options = {"max_new_tokens": length, "stop_tokens": stop_tokens}
    drafter = tree_of_paths(pair.draft, 2)
    made = law(generate, target, drafter, (1, 0), num_draft_tokens=2, verify=verifier, **options)
    alone = law(autoregress, target, (1, 0), **options)
    assert made.exact
    assert made.map(lambda one: (one.tokens, one.stop_reason)) == alone.map(
        lambda one: (one.tokens, one.stop_reason)
    )


def test_a_tree_is_scored_in_one_pass_a_round_whatever_is_wrapped_around_the_target():
    passes = []

    def score_tree(context, tokens, parents):
        passes.append((context, tokens))
        contexts = [context]
        for token, parent in zip(tokens, parents, strict=True):
            contexts.append((*contexts[parent], token))
        return [TARGET(each) for each in contexts]

    one_pass = from_probs(lambda context: pytest.fail("one position at a time"), 4, score_tree=score_tree)

    def wrapped(oracle):
        other_token = masked(
            oracle, lambda context: np.array([token not in context[-1:] for token in range(4)])
        )
        return repetition_penalty(temperature(Fraction(1, 2))(other_token), 2)

    options = {"max_new_tokens": 20, "num_draft_tokens": 3, "verify": verify.recursive, "rng": 3}
    made = sample(generate, wrapped(one_pass), tree_of_paths(DRAFT, 2), **options)
    assert len(passes) == len(made.rounds)
    assert [len(tokens) for _, tokens in passes] == [one.drafted for one in made.rounds]
    assert max(one.drafted for one in made.rounds) > 3, "trees, not chains"
    assert made == sample(generate, wrapped(TARGET), tree_of_paths(DRAFT, 2), **options)


# ---------------------------------------------------------------- what a verifier carries from round to round


BENT_TARGET = {(): rational([".5", ".3", ".2"]), (1,): rational([".2", ".2", ".6"])}
BENT_DRAFT = table({(): rational([".2", ".3", ".5"]), (0,): rational([".6", ".2", ".2"])})


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    ("context_limit", "options"),
    [
        (None, {"max_new_tokens": 4}),
        (None, {"max_new_tokens": 4, "stop_tokens": {1}}),
        (4, {"max_new_tokens": 9}),
        (4, {"max_new_tokens": 9, "stop_tokens": {1}}),
    ],
)
def test_what_is_carried_keeps_a_whole_text_lossless(k, context_limit, options):
    """Up to four rounds, with up to two changes of the target at a time."""
    target = table(BENT_TARGET, context_limit=context_limit)
    run = {"num_draft_tokens": k, "verify": verify.greedy_block, **options}
    made = law(generate, target, model(BENT_DRAFT), (1,), **run)
    alone = law(autoregress, target, (1,), **options)
    assert made.exact
    assert made.map(lambda one: (one.tokens, one.stop_reason)) == alone.map(
        lambda one: (one.tokens, one.stop_reason)
    )
    assert max(len(one.rounds) for one in made) >= 3
    assert max(len(part.carried) for one in made for part in one.rounds) == k - 1


@settings(max_examples=10)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 2)), st.sets(st.integers(0, 2), max_size=1))
def test_so_it_does_whatever_the_laws(pair, stop_tokens):
    options = {"max_new_tokens": 3, "stop_tokens": stop_tokens}
    run = {"num_draft_tokens": pair.num_draft_tokens, "verify": verify.greedy_block, **options}
    made = law(generate, pair.target, pair.drafter, **run).map(lambda one: one.tokens)
    assert made == law(autoregress, pair.target, **options).map(lambda one: one.tokens)


def test_dropping_what_is_carried_is_caught():
    """Target 2/3 1/3, draft 1/3 2/3, two drafts, one law after every context.

    Drafts 00, 01 and 10 are accepted for certain, 11 with probability 1/9 : 4/9 = 1/4. Where it is not, with
    3/9, no draft is kept, and 0 is emitted: the target less the draft is (1/3, 0). The target gives 00 the
    probability 4/9, of which the draft has brought 1/9, and 01 the probability 2/9, all of which has come: so
    the next token has to be 0, which is what is carried. Drawn from the target it is 1 one time in three, and
    3/9 1/3 = 1/9 goes to 01 in the place of 00.
    """
    target = table({(): rational(["2/3", "1/3", 0])})
    drafter = model(table({(): rational(["1/3", "2/3", 0])}))

    def forgetful(chance, draft, target_probs):
        return verify.greedy_block(chance, draft, target_probs)._replace(carried=())

    alone = law(autoregress, target, max_new_tokens=3).map(lambda one: one.tokens)
    for verifier, distance in [(verify.greedy_block, 0), (forgetful, Fraction(1, 9))]:
        made = law(generate, target, drafter, max_new_tokens=3, num_draft_tokens=2, verify=verifier)
        assert made.exact
        assert made.map(lambda one: one.tokens).distance(alone) == distance


def test_a_drafter_that_stops_while_something_is_carried_is_refused():
    """The draft's laws are needed at the places that a change of the target holds for."""
    target = table({(): rational(["2/3", "1/3", 0])})

    def stopping(chance, context, num_draft_tokens):
        return model(table({(): rational(["1/3", "2/3", 0])}))(chance, context, 0 if context else 2)

    options = {"max_new_tokens": 3, "num_draft_tokens": 2, "verify": verify.greedy_block}
    with pytest.raises(
        ValueError, match=r"^greedy_block carries 1 positions and was given 0 drafts: draft as"
    ):
        law(generate, target, stopping, **options)


def test_drafts_are_asked_for_as_long_as_a_change_of_the_target_lasts():
    """Even the last token is then drafted: the draft's law is needed, though nothing drafted can follow."""
    asked = []

    def propose(chance, context, num_draft_tokens):
        asked.append((len(context), num_draft_tokens))
        return Draft((1,) * num_draft_tokens, (rational(["1/3", "2/3", 0]),) * num_draft_tokens)

    class Rejecting:
        def flip(self, probability):
            return probability == 1

        def pick(self, weights):
            return int(np.argmax(weights))

    target = table({(): rational(["2/3", "1/3", 0])})
    options = {"max_new_tokens": 4, "verify": verify.greedy_block}
    made = generate(Rejecting(), target, propose, num_draft_tokens=3, **options)
    assert made.tokens == (0, 0, 0, 0)
    assert [tuple(change.positions for change in one.carried) for one in made.rounds] == [
        (2,),
        (1, 1),
        (),
        (),
    ]
    assert asked == [(0, 3), (1, 2), (2, 1)]


def looks(monkeypatch, program, prompt):
    """Return how many tokens, drafts and parents were looked at to see that they are such."""
    looked = []

    def watched(token):
        looked.append(token)
        return operator.index(token)

    monkeypatch.setattr(interface, "index", watched)
    assert len(sample(program, context=(1,) * prompt, max_new_tokens=30, rng=0).tokens) == 30
    return len(looked)


def checks_again(target, drafter):
    """The planted fault: a drafter that looks at the whole context in every round."""

    def propose(chance, context, num_draft_tokens):
        return drafter(chance, list(context), num_draft_tokens)

    return partial(generate, target=target, drafter=propose)


@pytest.mark.parametrize("wrapped", [lambda oracle: oracle, temperature(Fraction(1, 2)), cached])
def test_a_prompt_is_looked_at_once_however_many_rounds_follow(monkeypatch, wrapped):
    target, drafter = wrapped(TARGET), model(wrapped(UNIFORM))
    for program in (partial(autoregress, target=target), partial(generate, target=target, drafter=drafter)):
        assert looks(monkeypatch, program, 200) - looks(monkeypatch, program, 5) == 195
    careful = checks_again(target, drafter)
    assert looks(monkeypatch, careful, 200) - looks(monkeypatch, careful, 5) > 10 * 195


def test_a_draft_off_by_a_size_or_a_shape_is_told_apart():
    row = np.full(4, 0.25)
    for wrong, message in [
        (np.full(3, 1 / 3), "the drafter's rows have 3 tokens, the target's 4: share a vocabulary"),
        (np.full((4, 1), 0.25), r"the drafter's row at context \(2, 1\) is an array of shape \(4, 1\)"),
        ([0.25] * 4, r"the drafter's row at context \(2, 1\) is a list: give an array of shape \(V,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            sample(speculate, UNIFORM, lambda *_, wrong=wrong: Draft((1, 0), (row, wrong)), (2,))
