"""Worked numbers from reports, each as it was given."""

from __future__ import annotations

from fractions import Fraction

import pytest

from speculative import (
    Draft,
    Round,
    autoregress,
    draft,
    from_logits,
    generate,
    law,
    point_mass,
    prove,
    rational,
    sample,
    statistics,
    table,
    temperature,
    top_k,
    verify,
)
from speculative.draft import NO_DRAFT, low_confidence
from speculative.testing import by_context

from . import drafts, rules
from .allowed import certain
from .setups import DRAFT, TARGET
from .table import wrong_draft

F_TARGET, F_DRAFT = table(TARGET), table(DRAFT)


def acceptance(function, target, drafter):
    (position,) = prove(function, target, drafter, num_draft_tokens=1).acceptance_by_position
    return position


# Acceptance


def test_acceptance_of_each_rule_on_f():
    assert acceptance(verify.token, F_TARGET, draft.model(F_DRAFT)) == Fraction(4, 10)
    assert acceptance(verify.match, F_TARGET, draft.model(F_DRAFT)) == Fraction(155, 1000)
    assert acceptance(verify.token, F_TARGET, certain(F_DRAFT)) == Fraction(1, 10)
    assert acceptance(verify.match, F_TARGET, certain(F_DRAFT)) == Fraction(1, 10)  # z-lab/dflash#74


def test_a_certain_draft_accepts_less_than_the_ratio_of_sglang_10308():
    target = table(rational([".6", ".2", ".1", ".1"]))
    small = table(rational([".7", ".2", ".05", ".05"]))
    assert acceptance(verify.token, target, draft.model(small)) == Fraction(9, 10)
    assert acceptance(verify.token, target, certain(small)) == Fraction(6, 10)


def test_a_filtered_draft_has_another_acceptance_and_the_same_law_as_in_vllm_56724():
    proofs = [
        prove(verify.token, F_TARGET, draft.model(small), num_draft_tokens=1)
        for small in (F_DRAFT, top_k(1)(F_DRAFT), top_k(3)(F_DRAFT))
    ]
    assert all(proof.lossless for proof in proofs)
    assert [proof.acceptance_by_position for proof in proofs] == [
        (Fraction(4, 10),),
        (Fraction(1, 10),),
        (Fraction(69, 190),),
    ]


def test_a_wrong_law_raises_acceptance_so_that_it_looks_like_progress_as_in_transformers_47932():
    wrong = wrong_draft(drafts.warped_but_declared_raw(top_k(2)))(F_TARGET, F_DRAFT).prove(1)
    right = prove(verify.token, F_TARGET, draft.model(top_k(2)(F_DRAFT)), num_draft_tokens=1)
    assert (wrong.acceptance_by_position, wrong.lossless) == ((Fraction(7, 15),), False)
    assert (right.acceptance_by_position, right.lossless) == ((Fraction(6, 15),), True)


def test_the_bonus_of_vllm_5765():
    """Identical models and one draft: two tokens a round, and one where the bonus is switched off."""
    assert (
        prove(verify.token, F_TARGET, draft.model(F_TARGET), num_draft_tokens=1).tokens_per_target_pass == 2
    )

    def switched_off(chance, one, target_probs):
        return verify.token(chance, one, target_probs).tokens[:1]

    assert (
        prove(switched_off, F_TARGET, draft.model(F_TARGET), num_draft_tokens=1).tokens_per_target_pass == 1
    )


def test_tokens_per_pass_at_acceptance_four_fifths_and_five_drafts_as_in_eagle_169():
    target, small = table(rational(["1/2", "3/10", "1/5"])), table(rational(["3/10", "1/2", "1/5"]))
    proof = prove(verify.token, target, draft.model(small), num_draft_tokens=5)
    assert proof.acceptance_by_position == (Fraction(4, 5),) * 5
    assert proof.tokens_per_target_pass == Fraction("3.68928")


# Temperature 0


def emitted(tokens, best, vocab_size=16):
    """Return what greedy verification emits for a draft and the target's argmax at every position."""
    draft_rows = tuple(point_mass(token, vocab_size) for token in tokens)
    return verify.greedy(None, Draft(tokens, draft_rows), [point_mass(token, vocab_size) for token in best])


def test_the_first_mismatch_emits_the_targets_token_as_in_vllm_8320():
    assert emitted((1, 2, 3, 5, 7), (1, 2, 3, 4, 6, 8)).tokens == (1, 2, 3, 4)


def test_the_laws_are_those_after_the_temperature_as_in_jaymody_speculative_sampling_9():
    """draft(a) = .2 and target(a) = .3, but target(b) = .5: a must not come out, however it was drafted."""
    a, b = 0, 1
    target, small = table(rational([".3", ".5", ".2"])), table(rational([".2", ".1", ".7"]))
    drafted = Draft((a,), (small(()),))
    for function, scored in ((verify.greedy, target), (verify.token, temperature(0)(target))):
        tokens = law(lambda chance, f=function, s=scored: f(chance, drafted, [s(()), s(())]).tokens)
        assert tokens == {(b,): 1}
    assert rules.greedy_by_unwarped_ratio(None, drafted, [target(())] * 2)[0] == a


def test_ties_go_to_the_token_that_plain_greedy_decoding_takes_as_in_lattice_284():
    logits = [0.0, 0.5, 1.0, -1.0, 0.5, 1.0]
    target = temperature(0)(from_logits(lambda context: logits, 6))
    plain = sample(autoregress, target, max_new_tokens=4, rng=0).tokens
    assert plain == (2, 2, 2, 2)
    for drafted in range(6):
        drafter = draft.model(table(point_mass(drafted, 6)))
        for function in (verify.greedy, verify.token):
            assert sample(generate, target, drafter, max_new_tokens=4, verify=function, rng=0).tokens == plain


# Stop tokens: (tokens of the target, stop tokens, most tokens, tokens out, reason)


@pytest.mark.parametrize("num_draft_tokens", range(1, 7))
@pytest.mark.parametrize(
    ("text", "stop_tokens", "most", "kept", "reason"),
    [
        ((9, 5, 9, 7, 43, 5), (9,), 6, 1, "stop_token"),  # vllm-project/vllm#12193
        ((4, 5, 43, 7, 43, 5), (43,), 2, 2, "max_new_tokens"),  # the same
        ((4, 5, 43, 7, 43, 5), (43,), 6, 3, "stop_token"),
        ((10, 11, 12, 20, 21, 22), (12,), 5, 3, "stop_token"),  # sgl-project/sglang#31599
    ],
)
def test_where_a_text_ends(text, stop_tokens, most, kept, reason, num_draft_tokens):
    target = table([point_mass(token, 44) for token in (*text, 0)])
    options = {"max_new_tokens": most, "stop_tokens": stop_tokens, "num_draft_tokens": num_draft_tokens}
    made = sample(generate, target, draft.model(target), (), rng=0, **options)
    assert (made.tokens, made.stop_reason) == (text[:kept], reason)


# Figures


def test_figures_of_three_rounds_that_accept_3_1_and_0_of_3():
    def made(accepted):
        last = "bonus" if accepted == 3 else "residual"
        return Round((0,) * (accepted + 1), 3, accepted, last, (1,) * (accepted + 1))

    figures = statistics([made(3), made(1), made(0)])
    assert figures.acceptance == pytest.approx(4 / 9)
    assert figures.tokens_per_target_pass == pytest.approx(7 / 3)
    assert figures.acceptance_by_position == pytest.approx((2 / 3, 1 / 2, 1 / 1))


def test_full_acceptance_of_few_drafts_shows_in_the_drafts_per_round_as_in_llama_cpp_3919():
    rows = [rational(row) for row in (["1", "0", "0"], ["1/3", "1/3", "1/3"], ["1/2", "1/4", "1/4"])]
    target = by_context(rows)
    options = {"max_new_tokens": 300, "num_draft_tokens": 4, "rng": 0}
    cautious = statistics(
        sample(generate, target, draft.model(target, stop=low_confidence(1)), **options).rounds
    )
    bold = statistics(sample(generate, target, draft.model(table(rows[1])), **options).rounds)
    assert cautious.acceptance == 1 > bold.acceptance
    assert cautious.drafted_per_round < 1 < bold.drafted_per_round


def test_no_drafts_at_all_leave_no_figure_to_divide_by():
    """vllm-project/vllm#4724, #13363: every proposal is empty."""
    made = sample(generate, F_TARGET, lambda *_: NO_DRAFT, max_new_tokens=5, rng=0)
    figures = statistics(made.rounds)
    assert len(made.tokens) == 5
    assert (figures.acceptance, figures.acceptance_by_position, figures.tokens_per_target_pass) == (
        None,
        (),
        1,
    )
