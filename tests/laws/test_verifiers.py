"""Every verifier of the table, crossed with every property."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import VERIFIERS, Draft, draft, law, point_mass, prove, rational, speculate, table, verify
from speculative.battery import BATTERY, TREE_BATTERY, proofs, random_instance
from speculative.draft import low_confidence, low_entropy_bound, model
from speculative.testing import pairs

LOSSLESS = [name for name, entry in VERIFIERS.items() if entry.lossless]
LOSSY = [name for name, entry in VERIFIERS.items() if not entry.lossless]


def reference(name, target):
    warp = VERIFIERS[name].target_warp
    return target if warp is None else warp(target)


def prove_pair(name, pair, drafter=None, **options):
    return prove(
        VERIFIERS[name].function,
        pair.target,
        drafter or VERIFIERS[name].make_drafter(pair.draft),
        num_draft_tokens=pair.num_draft_tokens,
        reference=reference(name, pair.target),
        **options,
    )


def for_a_chain(name):
    return VERIFIERS[name].make_drafter is model


def on_the_battery(name):
    """Return the drafter and the instances on which a verifier is proved."""
    entry = VERIFIERS[name]
    instances = BATTERY if name in QUICK else TREE_BATTERY
    return {"make_drafter": entry.make_drafter, "instances": instances}


CARRY_NOTHING = [name for name in LOSSLESS if not VERIFIERS[name].carries]
QUICK = [name for name in CARRY_NOTHING if for_a_chain(name)]
SLOW = [name for name in LOSSLESS if name not in QUICK]  # trees have more paths, and what is carried goes on


@pytest.mark.parametrize("name", QUICK)
@given(pair=pairs())
def test_a_lossless_block_has_exactly_the_law_of_the_target(name, pair):
    proof = prove_pair(name, pair)
    assert proof.exact
    assert proof.distance == 0


@pytest.mark.parametrize("name", SLOW)
@settings(max_examples=20)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 2)))
def test_so_has_a_short_one(name, pair):
    assert prove_pair(name, pair).lossless


ON_PATHS = [
    name for name, entry in VERIFIERS.items() if entry.make_drafter is VERIFIERS["recursive"].make_drafter
]


@pytest.mark.parametrize("name", ON_PATHS)
def test_so_has_a_block_of_three_paths(name):
    three_paths = partial(draft.paths, num_paths=3)
    proof = random_instance(0, 3, 2).prove(VERIFIERS[name].function, make_drafter=three_paths)
    assert proof.lossless


@pytest.mark.parametrize("name", LOSSLESS)
@settings(max_examples=8)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 2)))
def test_so_has_a_process_of_two_rounds(name, pair):
    assert prove_pair(name, pair, rounds=2).lossless


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_on_the_whole_battery(name):
    options = {"warp": VERIFIERS[name].target_warp, **on_the_battery(name)}
    assert all(proof.lossless for _, proof in proofs(VERIFIERS[name].function, **options))


def near_equal(seed, vocab_size=3):
    """Return a float target and a draft that is next to it at some contexts, and equal to it at others."""
    rng = np.random.default_rng(seed)
    contexts = [(), *((i,) for i in range(vocab_size))]
    target_rows = rng.dirichlet(np.ones(vocab_size), len(contexts))
    noise = 10.0 ** -rng.integers(12, 18, (len(contexts), 1)) * rng.integers(0, 2, (len(contexts), 1))
    draft_rows = target_rows * (1 + noise * rng.normal(size=target_rows.shape))
    draft_rows /= draft_rows.sum(axis=1, keepdims=True)
    return [table(dict(zip(contexts, rows, strict=True))) for rows in (target_rows, draft_rows)]


@pytest.mark.parametrize("name", LOSSLESS)
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32))
def test_in_floats_near_equal_rows_change_the_law_by_rounding_alone(name, seed):
    target, small = near_equal(seed)
    entry = VERIFIERS[name]
    options = {"num_draft_tokens": 2, "reference": reference(name, target)}
    assert prove(entry.function, target, entry.make_drafter(small), **options).distance < 1e-12


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("unlikely", [1e-100, 1e-200, 1e-300])
def test_in_floats_ratios_of_200_digits_do_no_harm(name, unlikely):
    """Joint ratios pass the range of a float64 after two drafts: a carried one had become inf * 0."""
    entry, target = VERIFIERS[name], table({(): np.array([1.0, 0.0, 0.0])})
    drafter = entry.make_drafter(table({(): np.array([unlikely, 1.0, 0.0])}))
    options = {"num_draft_tokens": 3 if for_a_chain(name) else 2, "reference": reference(name, target)}
    assert prove(entry.function, target, drafter, **options).distance < 1e-12


@pytest.mark.parametrize("name", LOSSLESS)
def test_the_float_sampler_follows_the_law_to_the_grid(name):
    """One round of `sample` on float rows, enumerated over its uniforms: a few 2**-53 a question."""
    target, small = near_equal(seed=1)
    entry = VERIFIERS[name]
    options = {"num_draft_tokens": 1, "reference": reference(name, target), "arithmetic": "float64"}
    assert prove(entry.function, target, entry.make_drafter(small), **options).distance < 1e-14


@pytest.mark.parametrize("name", LOSSY)
def test_a_lossy_verifier_is_reported_by_the_battery(name):
    distances = [proof.distance for _, proof in proofs(VERIFIERS[name].function, **on_the_battery(name))]
    assert all(isinstance(distance, Fraction) for distance in distances)
    assert max(distances) > Fraction(1, 10)


@pytest.mark.parametrize("name", CARRY_NOTHING)  # what is carried is of one draft model
@settings(max_examples=15)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)))
def test_lossless_with_a_deterministic_draft(name, pair):
    drafter = draft.lookup(pair.target.vocab_size)
    context = (0, 1, 2, 0, 1, 2, 0)
    assert prove_pair(name, pair, drafter, context=context).lossless


@pytest.mark.parametrize("name", CARRY_NOTHING)  # what is carried is of whole drafts
@pytest.mark.parametrize("stop", [low_confidence(0.5), low_entropy_bound(0.4), low_confidence(1)])
@settings(max_examples=10)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)))
def test_lossless_with_drafts_that_stop_early(name, stop, pair):
    assert prove_pair(name, pair, model(pair.draft, stop=stop)).lossless


@pytest.mark.parametrize("name", VERIFIERS)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)))
def test_a_verdict_is_accepted_drafts_and_one_more_token(name, pair):
    def drafted_and_verdict(chance):
        proposal = pair.drafter(chance, (), pair.num_draft_tokens)
        verdict = VERIFIERS[name].function(chance, proposal, pair.target.score((), proposal.tokens))
        return proposal.tokens, verdict

    for drafted, verdict in law(drafted_and_verdict):
        assert len(verdict.tokens) == verdict.accepted + 1
        assert drafted[: verdict.accepted] == verdict.tokens[: verdict.accepted]


@pytest.mark.parametrize("name", VERIFIERS)
def test_an_empty_draft_brings_one_token_with_the_law_of_the_target(name):
    target = table({(): rational([".10", ".60", ".30", "0"])})
    output = law(speculate, target, model(target), num_draft_tokens=0, verify=VERIFIERS[name].function)
    if name in ("greedy", "typical"):
        assert output.map(lambda one: one.tokens) == {(1,): 1}
    else:
        assert output.map(lambda one: one.tokens) == {
            (0,): Fraction(1, 10),
            (1,): Fraction(6, 10),
            (2,): Fraction(3, 10),
        }


@given(pairs(num_draft_tokens=(1, 1)))
def test_match_accepts_with_the_sum_of_products(pair):
    accepted = prove_pair("match", pair).survival[0]
    assert accepted == sum(pair.target(()) * pair.draft(()))
    assert accepted <= prove_pair("token", pair).survival[0]


@given(pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)))
def test_on_a_certain_draft_match_and_token_accept_alike(pair):
    drafter = draft.lookup(pair.target.vocab_size)
    context = (0, 1, 2, 0, 1, 2, 0)
    assert prove_pair("match", pair, drafter, context=context) == prove_pair(
        "token", pair, drafter, context=context
    )


@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)))
def test_lenience_one_is_token_verification(pair):
    def strict(chance, proposal, target_probs):
        return verify.lenient(chance, proposal, target_probs, lenience=1)

    options = {"num_draft_tokens": pair.num_draft_tokens}
    assert prove(strict, pair.target, pair.drafter, **options) == prove_pair("token", pair)


@given(pairs(num_draft_tokens=(1, 1)), st.fractions(Fraction(1, 10), 1))
def test_the_law_of_one_lenient_token(pair, lenience):
    def verifier(chance, proposal, target_probs):
        return verify.lenient(chance, proposal, target_probs, lenience=lenience)

    target, drafted = pair.target(()), pair.draft(())
    kept = np.minimum(drafted, target / lenience)
    left = np.maximum(target - drafted, 0)
    rest = 1 - kept.sum()
    expected = kept + rest * left / left.sum() if rest else kept
    output = law(speculate, pair.target, pair.drafter, num_draft_tokens=1, verify=verifier)
    first = output.map(lambda one: one.tokens[0])
    assert first == {token: probability for token, probability in enumerate(expected) if probability}


@pytest.mark.parametrize("lenience", [0, -1, Fraction(3, 2), float("nan")])
def test_a_lenience_outside_its_range_is_refused(lenience):
    with pytest.raises(ValueError, match="lenience"):
        verify.lenient(None, Draft((), ()), [], lenience=lenience)


def test_typical_reads_its_thresholds():
    target = table({(): rational([".10", ".60", ".30"])})
    certain = model(table({(): rational([0, 0, 1])}))
    entropy_bound = 0.4076  # exp(-entropy) of the row is 0.40745...

    def accepted(**thresholds):
        def verifier(*args):
            return verify.typical(*args, **thresholds)

        return prove(verifier, target, certain, num_draft_tokens=1).survival[0]

    assert accepted(epsilon=0.29, delta=10) == 1
    assert accepted(epsilon=0.3, delta=10) == 1, "0.3 as a float is a little less than 3/10"
    assert accepted(epsilon=0.31, delta=10) == 0
    assert accepted(epsilon=1, delta=0.30 / entropy_bound) == 1
    assert accepted(epsilon=1, delta=0.302 / entropy_bound) == 0


@pytest.mark.parametrize("name", VERIFIERS)
def test_inputs_are_left_as_they_were_and_may_be_read_only(name):
    target_row, draft_row = np.array([0.1, 0.6, 0.3]), np.array([0.5, 0.25, 0.25])
    rows = [target_row, target_row.copy()]
    for row in (*rows, draft_row):
        row.setflags(write=False)
    for drafted in range(3):
        output = law(VERIFIERS[name].function, Draft((drafted,), (draft_row,)), rows)
        assert all(len(verdict.tokens) == verdict.accepted + 1 for verdict in output)
    assert [row.tolist() for row in (*rows, draft_row)] == [
        [0.1, 0.6, 0.3],
        [0.1, 0.6, 0.3],
        [0.5, 0.25, 0.25],
    ]


def test_greedy_emits_the_first_token_of_the_target_that_differs():
    best = [1, 2, 3, 4, 6, 8]
    proposal = Draft((1, 2, 3, 5, 7), tuple(point_mass(token, 9) for token in (1, 2, 3, 5, 7)))
    target_probs = [point_mass(token, 9) for token in best]
    for verifier in (verify.greedy, verify.match, verify.token):
        assert law(verifier, proposal, target_probs).map(lambda verdict: verdict.tokens) == {(1, 2, 3, 4): 1}


def test_a_probability_at_the_threshold_is_not_typical():
    target = table({(): rational(["1/4", "1/4", "1/2"])})
    certain = model(table({(): rational([1, 0, 0])}))

    def accepted(epsilon):
        def verifier(*args):
            return verify.typical(*args, epsilon=epsilon, delta=10)

        return prove(verifier, target, certain, num_draft_tokens=1).survival[0]

    assert (accepted(0.25), accepted(0.2499)) == (0, 1)


@pytest.mark.parametrize(
    "thresholds", [{"epsilon": 0}, {"epsilon": float("nan")}, {"delta": -1}, {"delta": 0}]
)
def test_thresholds_that_are_not_positive_are_refused(thresholds):
    with pytest.raises(ValueError, match="positive thresholds"):
        verify.typical(None, Draft((), ()), [rational(["1/2", "1/4", "1/4"])], **thresholds)
