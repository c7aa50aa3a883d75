"""Claims C1 to C16 and C28, one test or more each; C17 to C22 are in tests/test_cost.py. C11 needs caches."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import (
    BATTERY,
    VERIFIERS,
    Draft,
    Oracle,
    Verdict,
    autoregress,
    checked,
    compose,
    draft,
    from_probs,
    generate,
    law,
    min_p,
    paths,
    prove,
    rational,
    residual,
    sample,
    speculate,
    table,
    temperature,
    top_k,
    top_p,
    total_variation,
    verify,
)
from speculative.draft import model
from speculative.testing import pairs

TARGET = table({(): rational([".10", ".60", ".30", "0"])})
DRAFT = table({(): rational([".50", ".05", ".25", ".20"])})
WARPS = [temperature(0), temperature(Fraction(1, 2)), top_k(2), top_p(Fraction(7, 10)), min_p(Fraction(1, 3))]
WARPS += [compose(top_k(3), temperature(Fraction(1, 2)))]

short_pairs = partial(pairs, vocab_sizes=(3, 4), num_draft_tokens=(1, 2))


def as_mapping(row):
    return {token: probability for token, probability in enumerate(row.tolist()) if probability}


def first_token_law(verifier, target=TARGET, drafter=None):
    drafter = drafter or model(DRAFT)
    return law(speculate, target, drafter, num_draft_tokens=1, verify=verifier).map(lambda one: one.tokens[0])


@given(pairs(num_draft_tokens=(1, 1)))
def test_c01_one_step_has_exactly_the_target_law(pair):
    output = first_token_law(verify.token, pair.target, pair.drafter)
    assert output.exact
    assert output == as_mapping(pair.target(()))


@given(pairs())
def test_c02_a_block_has_the_joint_law_of_the_target(pair):
    proof = prove(verify.token, pair.target, pair.drafter, num_draft_tokens=pair.num_draft_tokens)
    assert proof.exact
    assert proof.distance == 0
    alone = law(autoregress, pair.target, max_new_tokens=proof.horizon).map(lambda made: made.tokens)
    assert proof.output == alone


@settings(max_examples=20)
@given(short_pairs())
def test_c02_so_does_a_process_of_two_rounds(pair):
    proof = prove(verify.token, pair.target, pair.drafter, num_draft_tokens=pair.num_draft_tokens, rounds=2)
    assert proof.lossless


@pytest.mark.parametrize("k", range(1, 5))
def test_c03_all_accepted_brings_one_more_token_from_the_last_row(k):
    last = (2,) * k
    target = table({(): rational(["0", "0", "1"]), last: rational(["1/2", "1/2", "0"])})
    rounds = law(speculate, target, model(table({(): rational(["0", "0", "1"])})), num_draft_tokens=k)
    assert {one.tokens: probability for one, probability in rounds.items()} == {
        (*last, 0): Fraction(1, 2),
        (*last, 1): Fraction(1, 2),
    }
    assert {(one.accepted, one.last) for one in rounds} == {(k, "bonus")}


@given(pairs(num_draft_tokens=(1, 1)))
def test_c04_rejection_is_total_variation_and_so_is_the_mass_of_the_residual(pair):
    target_row, draft_row = pair.target(()), pair.draft(())
    distance = total_variation(target_row, draft_row)
    accepted = law(speculate, pair.target, pair.drafter, num_draft_tokens=1).mean(lambda one: one.accepted)
    assert 1 - accepted == distance
    assert accepted == sum(np.minimum(target_row, draft_row))
    if distance:
        assert sum(residual(target_row, draft_row)) == distance
        assert distance == sum(abs(target_row - draft_row)) / 2


def drafted_and_verdict(chance, target, drafter, num_draft_tokens, verifier=verify.token):
    proposal = drafter(chance, (), num_draft_tokens)
    return proposal.tokens, verifier(chance, proposal, target.score((), proposal.tokens))


@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)))
def test_c05_drafts_before_the_first_rejection_are_kept_and_a_round_always_brings_a_token(pair):
    for path in paths(drafted_and_verdict, pair.target, pair.drafter, pair.num_draft_tokens):
        drafted, verdict = path.outcome
        flips = [answer.answer for answer in path.answers if answer.kind == "flip"]
        assert verdict.accepted == (flips.index(False) if False in flips else len(drafted))
        assert verdict.tokens[: verdict.accepted] == drafted[: verdict.accepted]
        assert len(verdict.tokens) == verdict.accepted + 1


def test_c05_even_a_rejection_at_once_yields_one_token():
    never = table({(): rational(["0", "1/2", "1/2"])})
    always = table({(): rational(["1", "0", "0"])})
    rounds = law(speculate, never, model(always), num_draft_tokens=3)
    assert rounds.map(lambda one: (one.tokens, one.accepted)) == {
        ((1,), 0): Fraction(1, 2),
        ((2,), 0): Fraction(1, 2),
    }


@given(pairs())
def test_c06_a_draft_without_target_probability_is_always_rejected(pair):
    for one in law(speculate, pair.target, pair.drafter, num_draft_tokens=pair.num_draft_tokens):
        assert all(one.target_probs)


@given(pairs(vocab_sizes=(3, 3)))
def test_c06_equal_laws_accept_everything(pair):
    rounds = law(speculate, pair.target, model(pair.target), num_draft_tokens=pair.num_draft_tokens)
    assert {one.accepted for one in rounds} == {pair.num_draft_tokens}


def test_c07_the_target_is_scored_once_a_round_on_all_positions():
    calls = []

    def score(context, drafted):
        calls.append((context, drafted))
        return [TARGET(())] * (len(drafted) + 1)

    target = from_probs(lambda context: pytest.fail("one position at a time"), 4, score=score)
    made = next(iter(paths(generate, target, model(DRAFT), max_new_tokens=4, num_draft_tokens=3))).outcome
    assert len(calls) == len(made.rounds)
    assert [len(drafted) for _, drafted in calls] == [one.drafted for one in made.rounds]


def test_c07_a_row_that_depends_on_later_drafts_is_caught():
    def leaking(context, drafted):
        return [TARGET(()) if 1 in drafted else rational(["1", "0", "0", "0"])] * (len(drafted) + 1)

    target = checked(from_probs(lambda context: TARGET(()), 4, score=leaking))
    with pytest.raises(ValueError, match="score"):
        law(speculate, target, model(DRAFT), num_draft_tokens=2)


@pytest.mark.parametrize("draft_warp", [None, *WARPS], ids=repr)
@pytest.mark.parametrize("target_warp", WARPS, ids=repr)
@settings(max_examples=5)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 2)))
def test_c08_the_output_is_the_warped_target_however_the_draft_is_warped(target_warp, draft_warp, pair):
    target = target_warp(pair.target)
    drafter = model(draft_warp(pair.draft) if draft_warp else pair.draft)
    proof = prove(verify.token, target, drafter, num_draft_tokens=pair.num_draft_tokens)
    assert proof.lossless
    assert proof.output.exact


def test_c08_warping_the_draft_alike_changes_acceptance_only():
    warp = top_k(2)
    alike = prove(verify.token, warp(TARGET), model(warp(DRAFT)), num_draft_tokens=1)
    raw = prove(verify.token, warp(TARGET), model(DRAFT), num_draft_tokens=1)
    assert alike.lossless
    assert raw.lossless
    assert (alike.survival, raw.survival) == ((Fraction(1, 3),), (Fraction(3, 10),))


def declared_otherwise(sampled: Oracle, declared: Oracle):
    """A drafter that draws from one law and declares another."""

    def propose(chance, context, num_draft_tokens):
        drawn = model(sampled)(chance, context, num_draft_tokens)
        declared_rows = declared.score(context, drawn.tokens)[:-1]
        return Draft(drawn.tokens, tuple(declared_rows))

    return propose


@pytest.mark.parametrize(
    ("sampled", "declared", "distance"),
    [
        (top_k(2)(DRAFT), DRAFT, Fraction(1, 9)),
        (temperature(0)(DRAFT), DRAFT, Fraction(7, 30)),
    ],
    ids=["sampled top-2, declared raw", "argmax, declared soft"],
)
def test_c08_a_declared_law_that_was_not_sampled_changes_the_output(sampled, declared, distance):
    output = first_token_law(verify.token, drafter=declared_otherwise(sampled, declared))
    assert output.distance(as_mapping(TARGET(()))) == distance


@settings(max_examples=10)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)), st.integers(0, 4))  # at most 27 * 9 * 3 paths
def test_c09_greedy_is_token_for_token_plain_greedy_decoding(pair, length):
    greedy_target = temperature(0)(pair.target)
    alone = law(autoregress, greedy_target, max_new_tokens=length).map(lambda made: made.tokens)
    assert len(alone) == 1
    for target, verifier in [
        (pair.target, verify.greedy),
        (greedy_target, verify.greedy),
        (greedy_target, verify.token),
    ]:
        made = law(
            generate,
            target,
            pair.drafter,
            max_new_tokens=length,
            num_draft_tokens=pair.num_draft_tokens,
            verify=verifier,
        )
        assert made.map(lambda one: one.tokens) == alone


def test_c09_a_tie_goes_to_the_lowest_token_on_both_sides():
    tied = table({(): rational(["1/5", "2/5", "2/5"])})
    assert temperature(0)(tied)(()).tolist() == [0, 1, 0]
    for k in range(3):
        rounds = law(
            speculate,
            tied,
            model(table({(): rational(["0", "0", "1"])})),
            num_draft_tokens=k,
            verify=verify.greedy,
        )
        assert {one.tokens for one in rounds} == {(1,)}


@pytest.mark.parametrize(
    ("vocabulary", "draft_vocabulary"),
    [(None, 3), (("a", "b", "c", "d"), ("b", "a", "c", "d"))],
    ids=["other size", "same size, other tokens"],
)
def test_c10_another_vocabulary_is_refused(vocabulary, draft_vocabulary):
    target = table({(): TARGET(())}, vocabulary=vocabulary)
    if isinstance(draft_vocabulary, int):
        other = table({(): rational(["1/3"] * draft_vocabulary)})
    else:
        other = table({(): DRAFT(())}, vocabulary=draft_vocabulary)
    with pytest.raises(ValueError, match="vocabulary"):
        law(generate, target, model(other), max_new_tokens=3)


def test_c10_the_same_vocabulary_is_not():
    names = ("a", "b", "c", "d")
    target, other = (table({(): oracle(())}, vocabulary=names) for oracle in (TARGET, DRAFT))
    assert law(generate, target, model(other), max_new_tokens=2).exact


def test_c12_typical_acceptance_is_lossy_and_this_is_its_law():
    output = first_token_law(verify.typical)
    plausible = {1, 2}
    expected = {token: DRAFT(())[token] for token in plausible}
    expected[1] += 1 - sum(expected.values())
    assert output == expected == {1: Fraction(3, 4), 2: Fraction(1, 4)}
    assert output.distance(as_mapping(TARGET(()))) == Fraction(3, 20)


@pytest.mark.parametrize(
    ("text", "target", "fewer_bits", "agrees_more"),
    [
        (
            "1/2 1/4 1/4",
            "1/4 1/2 1/4",
            "1/2 1/4 1/4",
            "1/4 1/2 1/4",
        ),  # it knows the text, and copies the target
        ("9/20 9/20 1/10", "9/20 9/20 1/10", "3/5 3/10 1/10", "1/2 49/100 1/100"),  # on the target's own text
    ],
)
def test_c23_the_draft_with_fewer_bits_a_token_may_be_accepted_less(text, target, fewer_bits, agrees_more):
    """Fewer bits: a larger product of its probabilities over 20 tokens of the text."""
    text, target, fewer_bits, agrees_more = (
        rational(row.split()) for row in (text, target, fewer_bits, agrees_more)
    )
    times = [int(20 * mass) for mass in text]
    assert [Fraction(n, 20) for n in times] == list(text)
    likelihoods, accepted = [], []
    for probs in (fewer_bits, agrees_more):
        rounds = law(speculate, table({(): target}), model(table({(): probs})), num_draft_tokens=1)
        assert rounds.exact
        accepted.append(rounds.mean(lambda one: one.accepted))
        assert accepted[-1] == sum(np.minimum(target, probs))
        likelihoods.append(math.prod(p**n for p, n in zip(probs, times, strict=True)))
    assert likelihoods[0] > likelihoods[1]
    assert accepted[0] < accepted[1]


def test_c28_a_tree_is_scored_in_one_pass():
    calls = []

    def score_tree(context, tokens, parents):
        calls.append(len(tokens))
        return [TARGET(())] * (len(tokens) + 1)

    target = from_probs(lambda context: pytest.fail("one position at a time"), 4, score_tree=score_tree)
    options = {"max_new_tokens": 4, "num_draft_tokens": 3, "verify": verify.recursive, "rng": 0}
    made = sample(generate, target, draft.paths(DRAFT, 2), **options)
    assert calls == [one.drafted for one in made.rounds]
    assert max(calls) > 3


def deepest(tokens, parents, text):
    """Return how many tokens the deepest node has whose tokens from the root begin `text`."""
    strings = [()]
    for token, parent in zip(tokens, parents, strict=True):
        strings.append((*strings[parent], token))
    return max(len(string) for string in strings if string == text[: len(string)])


def drafted_and_accepted(chance, target, drafter, num_draft_tokens, verifier):
    tree = drafter(chance, (), num_draft_tokens)
    verdict = verifier(chance, tree, target.score_tree((), tree.tokens, tree.parents))
    return tree.tokens, tree.parents, verdict.accepted


KEEP_THE_DEEPEST = ["greedy", "match", "recursive", "traversal", "transport", "lifted_transport"]


@pytest.mark.parametrize("name", KEEP_THE_DEEPEST)
@settings(max_examples=15)
@given(pair=short_pairs())
def test_c28_the_deepest_branch_that_agrees_with_the_target_is_kept(name, pair):
    """The target is certain, so that there is one text to agree with; see C9 for where it is not."""
    target, drafter = temperature(0)(pair.target), draft.paths(pair.draft, 2)
    arguments = target, drafter, pair.num_draft_tokens, VERIFIERS[name].function
    [(text, _)] = law(autoregress, target, max_new_tokens=3).items()
    for *tree, accepted in law(drafted_and_accepted, *arguments):
        assert accepted == deepest(*tree, text.tokens)


def test_c28_a_rule_that_looks_at_one_branch_is_caught():
    def first_branch(chance, tree, target_probs):
        first = tree.tokens[:1]
        siblings = tree.siblings(0)._replace(nodes=(1,), tokens=first)
        return verify.recursive(chance, draft.DraftTree(first, (0,), {0: siblings}), target_probs)

    target = temperature(0)(TARGET)
    for function, kept in ((verify.recursive, True), (first_branch, False)):
        found = law(drafted_and_accepted, target, draft.paths(DRAFT, 2), 1, function)
        assert all(accepted == deepest(*tree, (1,)) for *tree, accepted in found) == kept


def wrong_token(accept, leftover):
    """Token verification with another acceptance probability or another law after a rejection."""

    def verifier(chance, proposal, target_probs):
        for i, drafted in enumerate(proposal.tokens):
            target_row, draft_row = target_probs[i], proposal.probs[i]
            if not chance.flip(accept(target_row[drafted], draft_row[drafted])):
                return Verdict((*proposal.tokens[:i], chance.pick(leftover(target_row, draft_row))), i)
        return Verdict((*proposal.tokens, chance.pick(target_probs[-1])), len(proposal))

    return verifier


def ratio(target, drafted):
    return min(1, target / drafted)


def upside_down(target, drafted):
    return min(1, drafted / target) if target else 1


def hard_threshold(target, drafted):
    return int(target > drafted)


def each_on_its_own(chance, proposal, target_probs):
    """C16: accept or replace every draft by its own test, whatever happened before it."""
    tokens = []
    for i, drafted in enumerate(proposal.tokens):
        target_row, draft_row = target_probs[i], proposal.probs[i]
        kept = chance.flip(ratio(target_row[drafted], draft_row[drafted]))
        tokens.append(drafted if kept else chance.pick(residual(target_row, draft_row)))
    return (*tokens, chance.pick(target_probs[-1]))


ON_ONE_TOKEN = {
    "C13, ratio upside down": (wrong_token(upside_down, residual), Fraction(3, 5)),
    "C14, after a rejection sample from the draft": (wrong_token(ratio, lambda q, p: p), Fraction(13, 25)),
    "C14, after a rejection sample from the target": (wrong_token(ratio, lambda q, p: q), Fraction(19, 100)),
    "C15, hard threshold": (wrong_token(hard_threshold, residual), Fraction(1, 10)),
}


@pytest.mark.parametrize("name", ON_ONE_TOKEN)
def test_c13_c14_c15_are_lossy_and_this_is_how_much(name):
    verifier, distance = ON_ONE_TOKEN[name]
    assert first_token_law(verifier).distance(as_mapping(TARGET(()))) == distance
    assert first_token_law(wrong_token(ratio, residual)) == as_mapping(TARGET(()))


def test_c16_checking_each_draft_on_its_own_is_lossy():
    by_name = {instance.name: instance for instance in BATTERY}
    instance = by_name["another law after every token"]
    assert prove(each_on_its_own, instance.target, instance.drafter, num_draft_tokens=2).distance == Fraction(
        229, 1000
    )


def test_c16_is_invisible_where_the_law_does_not_depend_on_the_context():
    assert prove(each_on_its_own, TARGET, model(DRAFT), num_draft_tokens=2).distance == 0
