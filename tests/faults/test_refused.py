"""What is refused: faults that end in an error which names them, because no token could be right."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from speculative import (
    VERIFIERS,
    Draft,
    ImpureProgramError,
    Verdict,
    draft,
    from_logits,
    from_probs,
    generate,
    law,
    point_mass,
    rational,
    sample,
    speculate,
    table,
    verify,
)
from speculative.battery import proofs

from . import checks, drafts, rules
from .setups import DRAFT, TARGET, on_f, rule

F_TARGET, F_DRAFTER = table(TARGET), draft.model(table(DRAFT))


# Rows (youssofal/MTPLX#82, vllm-project/vllm#53029, #42722, vllm-project/vllm-ascend#14116)


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (from_logits(lambda context: [0.0, np.nan, 1.0], 3), "have nan for token 1"),
        (from_logits(lambda context: [-np.inf] * 3, 3), "are all -inf"),
        (from_logits(lambda context: [0.0, np.inf, 1.0], 3), "have inf for token 1"),
        (from_probs(lambda context: [0.5, np.nan, 0.5], 3), "has nan for token 1"),
        (from_probs(lambda context: [0.5, 0.25, 0.5], 3), "sums to 1.25"),
        (from_probs(lambda context: [0.75, -0.25, 0.5], 3), "has the negative -0.25 for token 1"),
        (from_probs(lambda context: [0.5, 0.5], 3), "has 2 probabilities for a vocabulary of 3"),
    ],
)
@pytest.mark.parametrize("verifier", VERIFIERS)
def test_a_row_that_is_no_law_gives_no_token(oracle, message, verifier):
    drafter = draft.model(table([1 / 4, 1 / 4, 1 / 2]))
    with pytest.raises(ValueError, match=message):
        sample(generate, oracle, drafter, max_new_tokens=4, verify=VERIFIERS[verifier].function, rng=0)


def sanitised(context):
    return np.nan_to_num([0.0, np.nan, 1.0])


def test_logits_set_to_zero_for_nan_have_mass_and_those_set_to_minus_infinity_have_none():
    assert from_logits(sanitised, 3)(())[1] > 0.2  # why nothing is repaired
    assert from_logits(lambda context: [0.0, -np.inf, 1.0], 3)(())[1] == 0


# A residual without mass, which float noise can ask for (jaymody/speculative-sampling#5, duoan/TorchCode#16)


class Rejecting:
    """Chance that rejects even what is certain, as rounding may."""

    def __init__(self, chance):
        self.chance = chance

    def flip(self, probability):
        return False

    def pick(self, weights):
        return self.chance.pick(weights)


def nothing_to_fall_back_on(target, small, drafted):
    return np.maximum(target - small, 0)


def any_token_to_fall_back_on(target, small, drafted):
    weights = np.maximum(target - small, 0)
    return weights if weights.any() else np.ones(len(target), dtype=int)


def forced(function, row):
    """Return the law of the token when a draft with the target's own row is rejected all the same."""
    drafted = Draft((int(row.argmax()),), (row,))
    return law(lambda chance: function(Rejecting(chance), drafted, [row, row])[0])


ROWS = [point_mass(1, 3), rational(["1/2", "1/2", "0"]), np.array([0.25, 0.0, 0.75])]


@pytest.mark.parametrize("row", ROWS)
def test_a_residual_without_mass_falls_back_on_the_target(row):
    tokens = forced(lambda *of: verify.token(*of).tokens, row)
    assert {token: float(probability) for token, probability in tokens.items()} == {
        token: float(row[token]) for token in np.flatnonzero(row).tolist()
    }


@pytest.mark.parametrize("row", ROWS)
def test_other_fallbacks_are_reported(row):
    with pytest.raises(ValueError, match="not all zero"):
        forced(rules.token_rule(rest=nothing_to_fall_back_on), row)
    uniform = forced(rules.token_rule(rest=any_token_to_fall_back_on), row)
    assert any(row[token] == 0 for token in uniform)


# Verifiers


def writing_into_the_target(chance, drafted, target_probs):
    """The residual is made in place (NJUNLP/MCSD#5)."""
    target_probs[0] -= drafted.probs[0]
    return (chance.pick(np.maximum(target_probs[0], 0)),)


def silent(chance, drafted, target_probs):
    """vllm-project/vllm#42722."""
    return ()


def talkative(chance, drafted, target_probs):
    return (*drafted.tokens, 0, 0)


class Counting:
    """A rule that changes from call to call: every second draft is accepted unseen."""

    def __init__(self):
        self.calls = count()

    def __call__(self, chance, drafted, target_probs):
        if next(self.calls) % 2:
            return Verdict((*drafted.tokens, chance.pick(target_probs[-1])), len(drafted))
        return verify.token(chance, drafted, target_probs)


class DrawingByItself:
    """A rule with a generator of its own."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, chance, drafted, target_probs):
        return (
            verify.greedy(chance, drafted, target_probs)
            if self.rng.random() < 0.5
            else (chance.pick(target_probs[0]),)
        )


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (writing_into_the_target, ValueError, "read-only"),
        (silent, ValueError, "emitted 0 tokens for 1 drafts"),
        (talkative, ValueError, "emitted 3 tokens for 1 drafts"),
        (Counting(), ImpureProgramError, "after the same answers"),
        (DrawingByItself(), ImpureProgramError, "after the same answers"),
    ],
)
def test_a_verifier_that_breaks_the_contract_is_refused(function, error, message):
    with pytest.raises(error, match=message):
        on_f(rule(function))


def in_floats(chance, drafted, target_probs):
    """Right, but for its numbers: the probabilities are made floats on the way."""
    drafted = Draft(drafted.tokens, tuple(row.astype(float) for row in drafted.probs))
    return verify.token(chance, drafted, [row.astype(float) for row in target_probs])


def test_what_was_computed_in_floats_or_not_at_all_is_not_proved():
    found = [proof for _, proof in proofs(in_floats)]
    assert all(proof.distance < 1e-12 for proof in found)
    assert not any(proof.lossless for proof in found)
    assert not list(proofs(verify.token, instances=()))  # mlc-ai/mlc-llm#2824: what never ran has no proof


# Drafts


def more_than_asked(chance, context, num_draft_tokens):
    return F_DRAFTER(chance, context, num_draft_tokens + 1)


def another_vocabulary(chance, context, num_draft_tokens):
    return draft.model(table(rational(["1/2", "1/2"])))(chance, context, 1)


def unlikely_by_its_own_law(chance, context, num_draft_tokens):
    """A random token where the law has none (junhyukso/GSD#1)."""
    return Draft((3,), (rational(["1/2", "1/2", "0", "0"]),))


@pytest.mark.parametrize(
    ("drafter", "message"),
    [
        (more_than_asked, "proposed 2 tokens where 1 were asked for"),
        (another_vocabulary, "share a vocabulary"),
        (unlikely_by_its_own_law, "has probability 0 in its own law"),
    ],
)
def test_a_drafter_that_breaks_the_contract_is_refused(drafter, message):
    with pytest.raises(ValueError, match=message):
        law(speculate, F_TARGET, drafter, num_draft_tokens=1)


def test_a_token_that_the_target_rules_out_is_rejected_without_nan():
    """junhyukso/GSD#1: the draft proposes what a mask of the target forbids."""

    def forbidden(chance, context, num_draft_tokens):
        return Draft((3,), (point_mass(3, 4),))

    tokens = law(speculate, F_TARGET, forbidden, num_draft_tokens=1).map(lambda one: one.tokens)
    assert tokens == {(token,): TARGET[token] for token in range(3)}


def test_a_draft_model_at_its_context_limit_leaves_the_rest_to_the_target():
    """vllm-project/vllm#5342, #24662, #22935: the target holds 64 tokens and the draft 16."""
    small = from_probs(checks.COUNTING, checks.WORDS, context_limit=16)
    target = from_probs(checks.COUNTING, checks.WORDS, context_limit=64)
    made = sample(generate, target, draft.model(small), (0,), max_new_tokens=30, rng=0)
    assert made.tokens == tuple(range(1, 31))
    assert all(one.drafted == 0 for one in made.rounds[5:])
    with pytest.raises(ValueError, match="over the limit of 16"):
        sample(
            generate, target, drafts.chain(drafts.after(small), drafts.after(small)), (0,), max_new_tokens=30
        )


ANOTHER_SIZE = table([1 / 4, 1 / 4, 1 / 4, 1 / 4])  # vllm-project/vllm#13849
ANOTHER_ORDER = table([1 / 4, 1 / 4, 1 / 2], vocabulary=("a", "c", "b"))  # ggml-org/llama.cpp#3812


@pytest.mark.parametrize(
    ("small", "message"),
    [(ANOTHER_SIZE, "3 tokens and the draft 4"), (ANOTHER_ORDER, "token 1 is 'b' to the target")],
)
def test_a_draft_of_another_vocabulary_is_refused(small, message):
    target = table([1 / 2, 1 / 4, 1 / 4], vocabulary=("a", "b", "c"))
    with pytest.raises(ValueError, match=message):
        sample(generate, target, draft.model(small), max_new_tokens=4, rng=0)
    same = table([1 / 4, 1 / 4, 1 / 2], vocabulary=("a", "b", "c"))
    assert len(sample(generate, target, draft.model(same), max_new_tokens=4, rng=0).tokens) == 4
