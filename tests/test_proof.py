from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from speculative import (
    ImpureProgramError,
    Verdict,
    law,
    prove,
    rational,
    residual,
    speculate,
    table,
    temperature,
    verify,
    with_generator,
)
from speculative.draft import DraftTree, Siblings, independent, low_confidence, model
from speculative.testing import pairs
from speculative.verify import Carried

TARGET = table({(): rational([".10", ".60", ".30", "0"])})
DRAFT = table({(): rational([".50", ".05", ".25", ".20"])})
DRAFTER = model(DRAFT)


def always_accept(chance, draft, target_probs):
    return Verdict((*draft.tokens, chance.pick(target_probs[-1])), len(draft))


def test_a_proof_states_what_was_found():
    proof = prove(verify.token, TARGET, DRAFTER, num_draft_tokens=1)
    assert (proof.lossless, proof.exact, proof.distance, proof.horizon) == (True, True, 0, 2)
    assert proof.survival == proof.acceptance_by_position == (Fraction(2, 5),)
    assert proof.tokens_per_target_pass == 1 + proof.expected_accepted == Fraction(7, 5)
    assert proof.worst is None
    assert repr(proof) == "Proof(lossless over 2 tokens, exact; 7/5 = 1.4 tokens per target pass)"
    assert "lossless" in proof._repr_html_()
    assert "<table>" in proof._repr_html_()


def test_a_failed_proof_names_the_worst_outcome_and_the_likeliest_path_to_it():
    proof = prove(always_accept, TARGET, DRAFTER, num_draft_tokens=1)
    assert not proof.lossless
    assert proof.distance == Fraction(3, 5)
    assert proof.worst.tokens == (0, 1)
    assert proof.worst.probability == Fraction(1, 2) * Fraction(6, 10)
    assert proof.worst.target_probability == Fraction(1, 10) * Fraction(6, 10)
    assert [(answer.kind, answer.answer) for answer in proof.worst.path] == [("pick", 0), ("pick", 1)]
    assert "distance 3/5 = 0.6" in repr(proof)


def test_the_worst_outcome_may_be_one_that_the_target_rules_out():
    drafter = model(table({(): rational([0, 0, 0, 1])}))
    worst = prove(always_accept, TARGET, drafter, num_draft_tokens=1).worst
    assert (worst.tokens, worst.target_probability) == ((3, 1), 0)


def test_the_path_may_end_before_the_horizon():
    def target_after_a_rejection(chance, draft, target_probs):
        if chance.flip(min(1, target_probs[0][draft.tokens[0]] / draft.probs[0][draft.tokens[0]])):
            return Verdict((draft.tokens[0], chance.pick(target_probs[1])), 1)
        return Verdict((chance.pick(target_probs[0]),), 0)

    worst = prove(target_after_a_rejection, TARGET, DRAFTER, num_draft_tokens=1).worst
    assert worst.tokens == (2, 1)
    assert [(answer.kind, answer.answer) for answer in worst.path] == [
        ("pick", 2),
        ("flip", True),
        ("pick", 1),
    ]
    proof = prove(
        target_after_a_rejection, TARGET, model(table({(): rational([1, 0, 0, 0])})), num_draft_tokens=1
    )
    assert proof.worst.tokens == (0, 1)
    assert [answer.answer for answer in proof.worst.path] == [0, False, 0], "the round ends at the rejection"


def test_floats_prove_nothing():
    floats = [table({(): oracle(()).astype(float)}) for oracle in (TARGET, DRAFT)]
    proof = prove(verify.token, floats[0], model(floats[1]), num_draft_tokens=1)
    assert not proof.exact
    assert not proof.lossless
    assert proof.distance < 2**-50
    assert "float" in repr(proof)


def test_the_reference_is_the_law_that_is_claimed():
    assert prove(verify.greedy, TARGET, DRAFTER, num_draft_tokens=1).distance > 0
    assert prove(
        verify.greedy, TARGET, DRAFTER, num_draft_tokens=1, reference=temperature(0)(TARGET)
    ).lossless


def test_a_proof_starts_where_it_is_told():
    target = table({(): TARGET(()), (2,): rational(["1/4"] * 4)})
    proof = prove(verify.token, target, DRAFTER, (2,), num_draft_tokens=1)
    assert proof.lossless
    assert proof.output.map(lambda tokens: tokens[0]) == dict.fromkeys(range(4), Fraction(1, 4))


def wrong_from_the_second_round_on(chance, draft, target_probs):
    if len(draft) and draft.probs[0][0] == Fraction(1, 2):  # the row of every context but the empty one
        return always_accept(chance, draft, target_probs)
    return verify.token(chance, draft, target_probs)


def test_a_fault_of_the_second_round_needs_two():
    draft = table(
        {(): rational(["1/4"] * 4), (0,): DRAFT(()), (1,): DRAFT(()), (2,): DRAFT(()), (3,): DRAFT(())}
    )
    options = {"num_draft_tokens": 1}
    assert prove(wrong_from_the_second_round_on, TARGET, model(draft), **options).distance == 0
    assert prove(wrong_from_the_second_round_on, TARGET, model(draft), rounds=2, **options).distance > 0


@settings(max_examples=20)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)))
def test_the_statistics_are_those_of_one_round(pair):
    k = pair.num_draft_tokens
    drafter = model(pair.draft, stop=low_confidence(0.5))
    proof = prove(verify.token, pair.target, drafter, num_draft_tokens=k)
    rounds = law(speculate, pair.target, drafter, num_draft_tokens=k)
    assert proof.survival == tuple(rounds.mean(lambda one, i=i: one.accepted > i) for i in range(k))
    judged = tuple(rounds.mean(lambda one, i=i: one.drafted > i and one.accepted >= i) for i in range(k))
    assert proof.reached == judged
    assert proof.acceptance_by_position == tuple(
        passed / reached for passed, reached in zip(proof.survival, judged, strict=True) if reached
    )
    assert proof.tokens_per_target_pass == rounds.mean(lambda one: len(one.tokens))


def test_acceptance_by_position_is_conditional_and_ends_where_nothing_survives():
    target = table(
        {(): rational(["1/2", "1/2", "0"]), (0,): rational(["0", "0", "1"]), (1,): rational(["1", "0", "0"])}
    )
    drafter = model(table({(): rational(["1/2", "1/2", "0"]), (0,): rational(["1/2", "0", "1/2"])}))
    proof = prove(verify.token, target, drafter, num_draft_tokens=2)
    assert proof.survival == (1, Fraction(1, 2))
    assert proof.acceptance_by_position == (1, Fraction(1, 2))
    never = prove(verify.token, target, model(table({(): rational([0, 0, 1])})), num_draft_tokens=2)
    assert never.acceptance_by_position == (0,)


def token_in_numpy(rng, draft, target_probs):
    """Token verification as an engine writes it: one uniform a test, a normalised residual."""
    for i, drafted in enumerate(draft.tokens):
        target_row, draft_row = target_probs[i].astype(np.float64), draft.probs[i].astype(np.float64)
        if rng.random() >= target_row[drafted] / draft_row[drafted]:
            left = np.maximum(target_row - draft_row, 0)
            return [*draft.tokens[:i], int(rng.choice(len(left), p=left / left.sum()))]
    return [*draft.tokens, int(rng.choice(len(target_probs[-1]), p=target_probs[-1].astype(np.float64)))]


def test_numpy_code_is_proved_as_it_stands():
    proof = prove(with_generator(token_in_numpy), TARGET, DRAFTER, num_draft_tokens=2)
    assert proof.exact, "thresholds on a grid of 2**-53 are rational"
    assert 0 < proof.distance < 2**-50

    def reused(rng, draft, target_probs):
        u = rng.random()
        target_row, draft_row = target_probs[0].astype(float), draft.probs[0].astype(float)
        drafted = draft.tokens[0]
        if u < target_row[drafted] / draft_row[drafted]:
            return [drafted]
        left = np.cumsum(np.maximum(target_row - draft_row, 0))
        return [int(np.searchsorted(left / left[-1], u, side="right"))]

    assert float(
        prove(with_generator(reused), TARGET, DRAFTER, num_draft_tokens=1).distance
    ) == pytest.approx(1 / 120, abs=1e-15)


def test_an_executor_changes_nothing():
    alone = prove(verify.token, TARGET, DRAFTER, num_draft_tokens=2, rounds=2)
    with ThreadPoolExecutor(2) as executor:
        assert prove(verify.token, TARGET, DRAFTER, num_draft_tokens=2, rounds=2, executor=executor) == alone


@pytest.mark.parametrize("bad", [{"num_draft_tokens": -1}, {"num_draft_tokens": 1, "rounds": 0}])
def test_counts_that_make_no_proof_are_refused(bad):
    with pytest.raises(ValueError, match="give an int of at least"):
        prove(verify.token, TARGET, DRAFTER, **bad)


def test_a_verifier_with_a_memory_is_refused_even_where_no_replay_shows_it():
    calls = []

    def remembering(chance, draft, target_probs):
        calls.append(draft)
        return [0 if len(calls) < 2 else 1]

    with pytest.raises(ImpureProgramError, match="keeps state"):
        prove(remembering, TARGET, model(table({(): rational([1, 0, 0, 0])})), num_draft_tokens=1)


def test_big_fractions_are_shown_as_decimals():
    target = table({(): rational(["333333333/1000000007", "333333333/1000000007", "333333341/1000000007"])})
    assert "/" not in repr(prove(verify.match, target, model(target), num_draft_tokens=1)).split(";")[1]


def test_residual_is_what_the_proof_needs():
    def uniform_fallback(chance, draft, target_probs):
        if chance.flip(min(1, target_probs[0][draft.tokens[0]] / draft.probs[0][draft.tokens[0]])):
            return [draft.tokens[0]]
        return [chance.pick(residual(target_probs[0], draft.probs[0]) + Fraction(1, 10**4))]

    assert prove(uniform_fallback, TARGET, DRAFTER, num_draft_tokens=1).distance > 0


def test_on_a_tree_a_position_is_reached_where_drafts_are_left_to_judge():
    """Siblings 0 and 1, and 2 below 1, each token one time in three: 2/3 pass, and 1/3 come to the second."""
    row = rational(["1/3"] * 3)
    tree = DraftTree(
        (0, 1, 2),
        (0, 0, 2),
        {0: Siblings((1, 2), (0, 1), row, independent), 2: Siblings((3,), (2,), row, independent)},
    )
    proof = prove(verify.match, table(row), lambda *_: tree, num_draft_tokens=2)
    assert proof.lossless
    assert proof.survival == (Fraction(2, 3), Fraction(1, 9))
    assert proof.reached == (1, Fraction(1, 3))
    assert proof.acceptance_by_position == (Fraction(2, 3), Fraction(1, 3))
    assert proof.expected_accepted == Fraction(7, 9)
    assert proof.tokens_per_target_pass == Fraction(16, 9)


CARRYING = {
    "target": table(rational(["2/3", "1/3", 0])),
    "drafter": model(table(rational(["1/3", "2/3", 0]))),
}


def forgetful(chance, draft, target_probs):
    return verify.greedy_block(chance, draft, target_probs)._replace(carried=())


@pytest.mark.parametrize(("k", "rounds"), [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1)])
def test_rounds_go_on_until_nothing_is_carried(k, rounds):
    proof = prove(verify.greedy_block, **CARRYING, num_draft_tokens=k, rounds=rounds)
    assert proof.lossless
    assert proof.horizon == rounds * (k + 1) == max(map(len, proof.output))


def test_a_change_of_the_target_that_is_not_carried_on_is_found():
    """With 3/9 a round emits 0 alone, which is to be followed by 0 and is followed by 1 one time in three.

    See `test_dropping_what_is_carried_is_caught` in test_decode.py.
    """
    proof = prove(forgetful, **CARRYING, num_draft_tokens=2)
    assert (proof.exact, proof.distance) == (True, Fraction(1, 9))
    assert proof.worst.tokens[:2] == (0, 1)
    assert prove(forgetful, **CARRYING, num_draft_tokens=1).lossless, "one draft carries nothing"


def test_what_is_carried_for_ever_ends_at_the_horizon():
    """A verifier of nonsense: it carries on and on; the proof ends, and says what came out."""

    def endless(chance, draft, target_probs, carried=()):
        return Verdict((chance.pick(target_probs[0]),), 0, (Carried(1, Fraction(1), Fraction(1)),))

    proof = prove(endless, **CARRYING, num_draft_tokens=1, rounds=2)
    assert proof.lossless
    assert proof.horizon == 4
