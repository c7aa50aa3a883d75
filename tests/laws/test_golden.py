"""Golden values: numbers of papers and worked examples, to the digits printed, each derived in its test.

Two of them are with the closed forms that they belong to: Leviathan et al. 2023, table 1, and the best draft
length by Lambert's W are in `tests/test_cost.py`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from speculative import Draft, draft, law, prove, rational, table, verify
from speculative.bound import joint, prefix_formula, step_program, subset_formula, whole
from speculative.draft import hub, independent, paths, top_and_one, tree, without_replacement
from speculative.verify.k_seq import scale
from speculative.verify.transport import transport, transport_plan
from speculative.verify.transport_program import program_plan

TARGET, SMALL = rational([".5", ".3", ".2"]), rational([".2", ".3", ".5"])
"""The pair of most values below; with no context, the same rows everywhere."""


def accepted(function, drafter, k, target=TARGET):
    """Return the expected number of accepted drafts of a round, the output's law having been proved."""
    proof = prove(function, table(target), drafter, num_draft_tokens=k)
    assert proof.lossless or not proof.exact
    assert proof.distance < 1e-12
    return proof.expected_accepted


def chain(row=SMALL):
    return draft.model(table(row))


def siblings(count, scheme=independent, row=SMALL):
    return tree(table(row), (count,), scheme=scheme)


def near(value, digits=6):
    """Equal to the digits that are printed."""
    return pytest.approx(value, abs=0.5 * 10**-digits)


# One path


def test_the_motivating_example_of_block_verification():
    """Sun et al. 2024: target (1/3, 2/3), draft (2/3, 1/3), two drafts; Zhou et al. 2026 have the same 11/9.

    Token by token a draft is accepted with 2/3, so 2/3 + 4/9 = 10/9 on average. As a block, the weights are
    1/2 and 1 after one token; 1/4 (00), 1 (01), 1/2 (10), 1 (11) after two: 2/3 + (1/9 + 2/9 + 1/9 + 1/9) =
    11/9. No verifier can accept more than the sum of min(target, draft), 2/3 + 1/9 + 2/9 + 2/9 + 1/9 = 12/9.
    """
    target, small = rational(["1/3", "2/3"]), rational(["2/3", "1/3"])
    assert accepted(verify.token, chain(small), 2, target) == Fraction(10, 9)
    assert accepted(verify.block, chain(small), 2, target) == Fraction(11, 9)
    assert accepted(verify.hsd, chain(small), 2, target) == Fraction(11, 9)
    assert joint(table(target), table(small), num_draft_tokens=2) == Fraction(12, 9)
    one = prove(verify.greedy_block, table(target), chain(small), num_draft_tokens=2)
    assert one.expected_accepted == Fraction(12, 9)


def test_the_path_of_traversal_verification():
    """Weng et al. 2025, figure: ratios 1/2, then 4/3. Together 2/3; token by token min(1, 1/2) * 1 = 1/2."""
    first, second = rational(["1/2", "1/4", "1/4"]), rational(["1/2", "3/8", "1/8"])
    target = [rational(["1/4", "1/4", "1/2"]), rational(["2/3", "1/6", "1/6"]), rational(["1", "0", "0"])]
    drafted = Draft((0, 0), (first, second))

    def both(function):
        return law(function, drafted, target).map(lambda verdict: verdict.accepted).get(2, 0)

    assert both(verify.token) == Fraction(1, 2)
    assert both(verify.block) == both(verify.traversal) == Fraction(2, 3)


def test_the_example_of_hierarchical_verification():
    """Zhou et al. 2026, a text of GSM8K: joint probabilities of the target .7156 four times, then 0.

    Those of the draft are .8771, .6929, .4513, .1170. The ratios are .8159, 1.0328, 1.5856 and 6.116 (printed
    1.0327, 1.5855 and 6.117, of unrounded probabilities). Only the first is below 1, and once the second is
    not, nothing can be refused: four drafts are always kept as a block, with .8159 token by token. The fifth
    has no probability.
    """
    joint_target = list(map(Fraction, ("1", ".7156", ".7156", ".7156", ".7156", "0")))
    joint_draft = list(map(Fraction, ("1", ".8771", ".6929", ".4513", ".1170", ".1000")))
    ratios = [float(q / p) for q, p in zip(joint_target, joint_draft, strict=True)][1:]
    assert ratios == pytest.approx([0.8159, 1.0327, 1.5855, 6.117, 0], abs=0.001)

    def rows(joints):
        steps = [after / before for before, after in pairwise(joints)]
        return [rational([step, (1 - step) / 2, (1 - step) / 2]) for step in steps]

    target = [*rows(joint_target), rational([1, 0, 0])]
    drafted = Draft((0,) * 5, rows(joint_draft))
    kept = {
        name: law(getattr(verify, name), drafted, target).map(lambda verdict: verdict.accepted)
        for name in ("token", "block", "hsd")
    }
    assert kept["block"] == kept["hsd"] == {4: 1}
    assert kept["token"] == {4: joint_target[1] / joint_draft[1], 0: 1 - joint_target[1] / joint_draft[1]}


@pytest.mark.parametrize(("k", "values"), [(2, ("1.19", "1.25", "1.31")), (3, ("1.533", "1.695", "1.833"))])
def test_token_block_and_greedy_block_without_context(k, values):
    """Token by token .7 + .49 (+ .343). The others by the weights of the 9 (27) paths.

    Weights are 1, 1, 2/5 after one draft and 1, 1, 2/5; 1, 1, 2/5; 1, 2/5, 4/25 after two: as a block .7 +
    .55, where .55 = .2 * .7 + .3 * .7 + .5 * (.2 + .12 + .08). The joint bound of two is .7 + .61.
    """
    token, block, greedy = map(Fraction, values)
    assert accepted(verify.token, chain(), k) == token
    assert accepted(verify.block, chain(), k) == accepted(verify.traversal, chain(), k) == block
    assert joint(table(TARGET), table(SMALL), num_draft_tokens=k) == greedy
    one = prove(verify.greedy_block, table(TARGET), chain(), num_draft_tokens=k)
    assert one.expected_accepted == greedy


@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_verifier_of_one_path_beats_block_verification(k):
    """Thomas and Pal 2026: the program over all verifiers, which see the laws off the path, finds no more."""
    target = table({(): TARGET, (0,): rational([".2", ".2", ".6"]), (1,): SMALL})
    small = table({(): SMALL, (1,): rational([".6", ".1", ".3"])})
    block = prove(verify.block, target, draft.model(small), num_draft_tokens=k).expected_accepted
    assert whole(target, draft.model(small), num_draft_tokens=k).expected_accepted == near(float(block), 9)


# One step


@pytest.mark.parametrize(("count", "value"), [(1, 0.25), (2, 0.4375), (4, 0.6836), (8, 0.8999)])
def test_a_target_on_a_quarter_of_a_uniform_draft(count, value):
    """Sun et al. 2023, SpecTr: accepted wherever one of the drafts is in the quarter, 1 - (3/4)^K."""
    target, small = rational(["1/2", "1/2", *["0"] * 6]), rational(["1/8"] * 8)
    exact = 1 - Fraction(3, 4) ** count
    assert float(exact) == near(value, 4)
    assert prefix_formula(independent, small, count, target) == exact
    if count < 4:
        assert subset_formula(independent, small, count, target) == exact
        assert accepted(transport, siblings(count, row=small), 1, target) == exact


def test_couplings():
    """Daliri et al. 2025. Gumbel: sum_j 1 / sum_i max(p_i / p_j, q_i / q_j).

    For j = 0: 1 / (1 + 3/2 + 5/2) = 1/5, and so for j = 2; for j = 1: 1 / (5/3 + 1 + 5/3) = 3/13: 41/65.
    Never less than (1 - TV) / (1 + TV) = .7 / 1.3 = 7/13, which is how often both take the same dart of a
    weighted MinHash. The *token* is the same as often as in the race here: min(p, q) (1 + |p - q|) / 1.3 is
    .2, 3/13 and .2.
    """
    gumbel = accepted(verify.gumbel, chain(), 1)
    assert gumbel == Fraction(41, 65) == near(0.630769)
    same_dart = np.minimum(SMALL, TARGET).sum() / np.maximum(SMALL, TARGET).sum()
    assert same_dart == Fraction(7, 13) == near(0.538462)
    assert accepted(verify.minhash, chain(), 1) == Fraction(41, 65)


def test_the_bound_of_list_matching():
    """Rowan et al. 2025, two drafts: sum_j K / (sum_i max(q_i / q_j, p_i / p_j) + (K - 1) / q_j).

    2 / (5 + 2) + 2 / (13/3 + 10/3) + 2 / (5 + 5) = 2/7 + 6/23 + 1/5.
    """
    value = sum(
        2 / (np.maximum(TARGET / TARGET[j], SMALL / SMALL[j]).sum() + 1 / TARGET[j]) for j in range(3)
    )
    assert value == Fraction(2, 7) + Fraction(6, 23) + Fraction(1, 5) == near(0.746584)
    assert value <= subset_formula(independent, SMALL, 2, TARGET)


def test_one_draft():
    """The sum of min(target, draft), .2 + .3 + .2."""
    assert accepted(verify.token, chain(), 1) == Fraction("0.7")
    assert accepted(transport, siblings(1), 1) == Fraction("0.7")


@pytest.mark.parametrize(
    ("function", "count", "scheme", "value"),
    [
        (verify.match, 2, independent, ".483"),
        (verify.recursive, 2, independent, ".76"),
        (transport, 2, independent, ".86"),
        (verify.canonical, 2, independent, ".86"),
        (verify.recursive, 2, without_replacement, ".82"),
        (transport, 2, without_replacement, "69/70"),
        (verify.spechub, 2, hub, ".9"),
        (verify.recursive, 2, top_and_one, ".9"),
        (transport, 2, hub, ".9"),
        (transport, 2, top_and_one, ".9"),
        (verify.recursive, 3, independent, ".808"),
        (transport, 3, independent, ".988"),
        (verify.recursive, 3, without_replacement, "1"),
    ],
)
def test_several_drafts_of_one_step(function, count, scheme, value):
    """Each worked out from the pair.

    - match: .5 (1 - .8^2) + .3 (1 - .7^2) + .2 (1 - .5^2) = .483.
    - recursive: after one refusal token 0 alone is left, so a draw passes with .2 then: 1 - .3 * .8 = .76
      and 1 - .3 * .8^2 = .808. Without replacement the token refused was 2, so the next is 0 with
      probability .4: 1 - .3 * .6 = .82; if it was 1, the third is 0.
    - best, independent: the least of target(H) + 1 - draft(H)^K is at H = {1, 2}: .5 + 1 - .8^2 = .86 and .5
      + 1 - .8^3 = .988. Without replacement {1, 2} is drawn with .3 * .5 / .7 + .5 * .3 / .5 = 18/35: 69/70.
    - hub and greedy drafts: token 2 always, with it token 0 (.4) or 1 (.6): .2 + min(.5, .4) + min(.3, .6).
    """
    value = Fraction(value)
    assert accepted(function, siblings(count, scheme), 1) == value
    if function is transport:
        assert subset_formula(scheme, SMALL, count, TARGET) == value
        assert prefix_formula(scheme, SMALL, count, TARGET) == value
        assert step_program(scheme, SMALL, count, TARGET).acceptance == near(float(value), 9)


@pytest.mark.parametrize(("count", "rho", "value"), [(2, 1.456776, 0.791355), (3, None, 0.858519)])
def test_k_seq(count, rho, value):
    """Sun et al. 2023, SpecTr: beta = sum of min(draft, target / rho), and 1 - (1 - beta)^K = rho beta.

    With beta = .2 + .5 / rho that is 1 - (.8 - .5 / rho)^K = .2 rho + .5. For K = 2, times rho^2: .2 rho^3 +
    .14 rho^2 - .8 rho + .25 = 0, whose root between 1 and 2 is 1.456776, so rho beta = .791355.
    """
    exact = scale(SMALL, TARGET, count)
    assert accepted(verify.k_seq, siblings(count), 1) == near(value)
    assert float(exact / 5 + Fraction(1, 2)) == near(value)
    if rho is not None:
        assert float(exact) == near(rho)
        assert 0.2 * rho**3 + 0.14 * rho**2 - 0.8 * rho + 0.25 == pytest.approx(0, abs=1e-6)


# Two paths


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (verify.recursive, 1.3058),
        (verify.recursive_distinct, 1.3058),
        (verify.traversal, 1.3598),
        (verify.lift(verify.recursive_plan), 1.3598),
        (verify.multipath, 1.5508),
    ],
)
def test_two_paths_of_two_drafts(function, value):
    """The pair at both places. Recursion accepts .76 at first: .7 by the first draw, .06 by the second.

    The second place has two draws where the second draw repeats an accepted first one, with probability .2 *
    .2 + .3 * .3 + .2 * .5 = .23, and accepts .76 there; one draw in the other .47 + .06, and accepts .7:
    .5458. The values of the other rules come from the enumeration alone.
    """
    assert float(accepted(function, paths(table(SMALL), 2), 2)) == near(value, 4)
    if value == 1.3058:
        assert accepted(function, paths(table(SMALL), 2), 2) == Fraction("1.3058")


@pytest.mark.parametrize(
    ("plan", "value"), [(program_plan, 1.5338), (transport_plan, 1.5513), (verify.canonical_plan, 1.5523)]
)
def test_a_lifted_optimal_step_is_not_one_number(plan, value):
    """Optimal plans of a step are many, all accept .86 in it, and lifted they differ.

    Another plan, of a linear program, gave 1.5184. What holds for each: more than traversal, less than the
    best.
    """
    lifted = accepted(verify.lift(plan), paths(table(SMALL), 2), 2)
    assert accepted(verify.lift(plan), siblings(2), 1) == Fraction("0.86")
    assert float(lifted) == near(value, 4)
    assert 1.3598 < lifted < 1.5608


def test_the_best_of_two_paths_of_two_drafts():
    """No verifier of them accepts more than the program over all verifiers finds."""
    best = whole(table(TARGET), paths(table(SMALL), 2), num_draft_tokens=2).expected_accepted
    assert best == near(1.5608, 4)
