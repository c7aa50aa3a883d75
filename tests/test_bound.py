"""The optimum: formulas against programs, verifiers against both."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import VERIFIERS, prove, rational, sample, table, verify
from speculative.battery import random_instance
from speculative.bound import (
    expected_accepted,
    joint,
    prefix_formula,
    share,
    step_program,
    subset_formula,
    whole,
)
from speculative.bound.program import maximise
from speculative.draft import (
    hub,
    independent,
    lookup,
    model,
    paths,
    top,
    top_and_one,
    without_replacement,
)
from speculative.laws import law
from speculative.replay import PathTooLongError
from speculative.testing import near_rows, pairs, rows
from speculative.verify import Verdict

SCHEMES = [independent, without_replacement, top, top_and_one, hub]
TARGET, DRAFT = rational([".5", ".3", ".2"]), rational([".2", ".3", ".5"])
LOSSLESS = [name for name, entry in VERIFIERS.items() if entry.lossless and not entry.carries]


@st.composite
def steps(draw):
    """A draft row, target weights of sum 1 or less, and a number of siblings."""
    row = draw(st.integers(2, 5).flatmap(rows))
    target = draw(st.one_of(rows(len(row)), near_rows(row)))
    return (
        row,
        draw(st.sampled_from([Fraction(1), Fraction(2, 3), Fraction(1, 5)])) * target,
        draw(st.integers(1, 3)),
    )


# One step


@pytest.mark.parametrize(
    ("scheme", "count", "acceptance"),
    [
        (independent, 1, Fraction(7, 10)),
        (independent, 2, Fraction(86, 100)),
        (independent, 3, Fraction(988, 1000)),
        (without_replacement, 2, Fraction(69, 70)),
        (top_and_one, 2, Fraction(9, 10)),
        (hub, 2, Fraction(9, 10)),
    ],
)
def test_worked_examples(scheme, count, acceptance):
    """For q = (.5, .3, .2) and p = (.2, .3, .5) the order of rising q / p is 2, 1, 0.

    The set {2, 1} has q = .5 and p = .8, so it gives 1.5 - P(all siblings in it). That P is .8^K for
    independent ones: .7, .86, .988. For two without replacement it is .3 (.5/.7) + .5 (.3/.5) = 18/35, and
    3/2 - 18/35 = 69/70. With token 2 certain, the other is 1 with probability .3 / .5, which leaves 1.5 - .6.
    The other sets give no less: {2} 1.2 - .5^K for independent ones, the empty and the full one 1.
    """
    assert subset_formula(scheme, DRAFT, count, TARGET) == acceptance
    assert prefix_formula(scheme, DRAFT, count, TARGET) == acceptance
    assert step_program(scheme, DRAFT, count, TARGET).acceptance == pytest.approx(
        float(acceptance), abs=1e-12
    )


@pytest.mark.parametrize(("count", "printed"), [(1, ".25"), (2, ".4375"), (4, ".6836"), (8, ".8999")])
def test_a_target_on_a_quarter_of_what_is_drafted(count, printed):
    """With p uniform on 8 tokens and q uniform on 2 of them, at least one of K siblings is among the 2 with
    1 - (3/4)^K; whatever is drawn there can be kept, since q exceeds what is drawn of each."""
    draft_row = rational(["1/8"] * 8)
    target_row = rational(["1/2"] * 2 + ["0"] * 6)
    acceptance = prefix_formula(independent, draft_row, count, target_row)
    assert acceptance == 1 - Fraction(3, 4) ** count
    assert f"{float(acceptance):.4f}".rstrip("0") == f"0{printed}"


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=25)
@given(step=steps())
def test_the_three_formulas_agree(scheme, step):
    row, target, count = step
    acceptance = subset_formula(scheme, row, count, target)
    assert isinstance(acceptance, Fraction | int)
    assert prefix_formula(scheme, row, count, target) == acceptance
    assert step_program(scheme, row, count, target).acceptance == pytest.approx(float(acceptance), abs=1e-8)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=15)
@given(step=steps())
def test_in_floats_they_agree_too(scheme, step):
    row, target, count = step
    floats = row.astype(float), count, target.astype(float)
    for formula in (subset_formula, prefix_formula):
        assert formula(scheme, *floats) == pytest.approx(
            float(formula(scheme, row, count, target)), abs=1e-12
        )


@pytest.mark.parametrize("formula", [step_program, subset_formula, prefix_formula])
@pytest.mark.parametrize(
    ("row", "count", "target", "message"),
    [
        (DRAFT, 2, rational(["1/2", "1/2"]), r"row has 3 tokens and target 2: give both one vocabulary"),
        (
            [0.2, 0.3, 0.5],
            2,
            TARGET,
            r"row is \[0\.2, 0\.3, 0\.5\]: give an array of one probability a token",
        ),
        (DRAFT, 2, np.ones((3, 1)), r"target is of shape \(3, 1\): give an array"),
        (DRAFT * Fraction(9, 10), 2, TARGET, r"row sums to 9/10, not to 1: give the law that siblings are"),
        (DRAFT.astype(float) + 1e-8, 2, TARGET, r"row sums to 1\.00000003, not to 1"),
        (
            np.array([1.5, -0.5, 0]),
            2,
            TARGET,
            r"row has -0\.5 for token 1: give probabilities, none negative",
        ),
        (DRAFT, 2, np.array([0.5, 0.5, np.nan]), r"target has nan for token 2: give probabilities"),
        (DRAFT, 2, rational(["1/2", "-1/4", "3/4"]), r"target has -1/4 for token 1: give probabilities"),
        (DRAFT, 2, np.array([0.5, 0.5, np.inf]), r"target sums to inf, more than 1: give a law or a part"),
        (DRAFT, 2, TARGET * Fraction(1001, 1000), r"target sums to 1001/1000, more than 1"),
        (DRAFT, 0, TARGET, r"count = 0 is too small: give an int of at least 1"),
        (DRAFT, 1.5, TARGET, r"count = 1\.5 is not a whole number"),
    ],
)
def test_what_is_no_step_is_refused(formula, row, count, target, message):
    with pytest.raises(ValueError, match="^" + message):
        formula(independent, row, count, target)


def test_subsets_of_a_large_vocabulary_are_refused_at_once():
    row = rational(["1/21"] * 21)
    with pytest.raises(
        ValueError, match=r"^subset_formula goes through 2\^21 sets of 21 tokens: use prefix_for"
    ):
        subset_formula(independent, row, 1, row)
    assert prefix_formula(independent, row, 1, row) == 1


def test_prefixes_of_another_order_are_not_enough():
    """Of two siblings that come as (0, 1) or as (2, 3), half the time each, the set {0, 1} with q = 3/10
    gives 3/10 + 1 - 1/2 = 4/5. By rising q / p it is no prefix: the order is 0, 2, 1, 3, and the least is
    at the first three, 4/10 + 1 - 1/2."""

    def couples(row, drawn, count):
        return row if not drawn else np.eye(4, dtype=int)[drawn[0] ^ 1]

    row, target = rational(["1/4"] * 4), rational(["0", ".3", ".1", ".6"])
    assert subset_formula(couples, row, 2, target) == Fraction(4, 5)
    assert step_program(couples, row, 2, target).acceptance == pytest.approx(0.8, abs=1e-12)
    assert prefix_formula(couples, row, 2, target) == Fraction(9, 10)


def test_prefixes_serve_a_large_vocabulary():
    draft_row, target_row = np.random.default_rng(0).dirichlet(np.ones(2000), 2)
    one = prefix_formula(independent, draft_row, 1, target_row)
    assert one == pytest.approx(np.minimum(draft_row, target_row).sum(), abs=1e-12)
    assert one < prefix_formula(independent, draft_row, 2, target_row) < 1


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=10)
@given(step=steps())
def test_the_plan_of_the_program_is_one(scheme, step):
    row, target, count = step
    acceptance, plan = step_program(scheme, row, count, target)
    drawn = law(lambda chance: tuple(sorted(set(draw(chance, scheme, row, count)))))
    emitted = np.zeros(len(row))
    for group, shares in plan.items():
        assert tuple(shares) == group
        assert sum(shares.values()) < 1 + 1e-9
        for token, probability in shares.items():
            assert probability > -1e-9
            emitted[token] += float(drawn[group]) * probability
    assert (emitted < target.astype(float) + 1e-9).all()
    assert emitted.sum() == pytest.approx(acceptance, abs=1e-8)


def draw(chance, scheme, row, count):
    drawn = ()
    while len(drawn) < count and (following := scheme(row, drawn, count)) is not None:
        drawn = (*drawn, chance.pick(following))
    return drawn


def root_siblings(drafter):
    siblings = sample(drafter, (), 1, rng=0).siblings(0)
    return siblings.scheme, siblings.row, len(siblings.tokens)


@pytest.mark.parametrize("name", LOSSLESS)
@settings(max_examples=10)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 1)))
def test_no_step_accepts_more_than_the_formula(name, pair):
    entry = VERIFIERS[name]
    target = pair.target if entry.target_warp is None else entry.target_warp(pair.target)
    drafter = entry.make_drafter(pair.draft)
    accepted = expected_accepted(entry.function, pair.target, drafter, num_draft_tokens=1)
    assert accepted <= subset_formula(*root_siblings(drafter), target(())) + Fraction(1, 10**12)


def test_a_lossy_step_does():
    """Lenience 1/2 accepts sum min(p, 2q) = .2 + .3 + .4 where .7 is the most."""
    target, drafter = table(TARGET), model(table(DRAFT))
    accepted = expected_accepted(verify.lenient, target, drafter, num_draft_tokens=1)
    assert accepted == Fraction(9, 10) > subset_formula(*root_siblings(drafter), TARGET)


# A whole round


@pytest.mark.parametrize(
    ("drafter", "num_draft_tokens", "printed"),
    [
        (model(table(DRAFT)), 1, "0.7000"),
        (model(table(DRAFT)), 2, "1.2500"),
        (model(table(DRAFT)), 3, "1.6950"),
        (paths(table(DRAFT), num_paths=2), 1, "0.8600"),
        (paths(table(DRAFT), num_paths=2), 2, "1.5608"),
    ],
)
def test_worked_examples_of_a_round(drafter, num_draft_tokens, printed):
    """For one path these are block verification's: with r the joint ratio of a beginning, it is kept with
    P = r / max(1, largest r so far), and the sum of E[P] is .7 + .55 for two tokens, .7 + .55 + .445 for
    three. For one token they are the single step's. 1.5608 is what the plain program below finds, too."""
    optimum = whole(table(TARGET), drafter, num_draft_tokens=num_draft_tokens)
    assert f"{optimum.expected_accepted:.4f}" == printed


def plain_program(target, drafter, num_draft_tokens):
    """Variables (draft, node, token); the output continued by the target is compared string by string."""
    strings = list(product(range(target.vocab_size), repeat=num_draft_tokens + 1))

    def continued(tokens, string):
        steps = range(len(tokens), len(string))
        return np.prod([float(target(string[:i])[string[i]]) for i in steps])

    def nodes(chance):
        draft = drafter(chance, (), num_draft_tokens)
        found = [()]
        for node in range(len(draft.tokens) + 1):
            siblings = draft.siblings(node)
            if siblings:
                found += [(*found[node], token) for token in dict.fromkeys(siblings.tokens)]
        return tuple(found)

    drafts = law(nodes)
    names = [(draft, node, token) for draft in drafts for node in draft for token in range(target.vocab_size)]
    conditions = [({name: 1 for name in names if name[0] == draft}, mass) for draft, mass in drafts.items()]
    for string in strings[:-1]:  # the last follows from the others
        ending = {(*node, token): () for _, node, token in names if (*node, token) == string[: len(node) + 1]}
        terms = {
            name: continued((*name[1], name[2]), string) for name in names if (*name[1], name[2]) in ending
        }
        conditions.append((terms, continued((), string)))
    return maximise({name: len(name[1]) for name in names}, at_most=[], equal=conditions)[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("vocab_size", "num_draft_tokens"), [(2, 1), (3, 1), (2, 2), (3, 2)])
def test_the_program_is_the_plain_one(seed, vocab_size, num_draft_tokens):
    one = random_instance(seed, vocab_size, num_draft_tokens)
    for drafter in (one.drafter, paths(one.draft, num_paths=2)):
        optimum = whole(one.target, drafter, num_draft_tokens=num_draft_tokens)
        assert optimum.expected_accepted == pytest.approx(
            plain_program(one.target, drafter, num_draft_tokens), abs=1e-8
        )


def test_a_worked_example_by_the_plain_program():
    drafter = paths(table(DRAFT), num_paths=2)
    assert plain_program(table(TARGET), drafter, 2) == pytest.approx(1.5608, abs=1e-8)


@settings(max_examples=20)
@given(pairs(vocab_sizes=(2, 3), num_draft_tokens=(1, 3)))
def test_for_one_path_block_verification_reaches_the_optimum(pair):
    drafter = model(pair.draft)
    accepted = expected_accepted(verify.block, pair.target, drafter, num_draft_tokens=pair.num_draft_tokens)
    optimum = whole(pair.target, drafter, num_draft_tokens=pair.num_draft_tokens)
    assert optimum.expected_accepted == pytest.approx(float(accepted), abs=1e-8)


@settings(max_examples=20)
@given(pairs(vocab_sizes=(2, 4), num_draft_tokens=(1, 1)))
def test_for_one_token_it_is_that_of_the_step(pair):
    optimum = whole(pair.target, paths(pair.draft, num_paths=2), num_draft_tokens=1)
    step = prefix_formula(independent, pair.draft(()), 2, pair.target(()))
    assert optimum.expected_accepted == pytest.approx(float(step), abs=1e-8)


@pytest.mark.parametrize("name", LOSSLESS)
@settings(max_examples=5)
@given(pair=pairs(vocab_sizes=(3, 3), num_draft_tokens=(2, 2)))
def test_no_verifier_is_above_the_optimum(name, pair):
    entry = VERIFIERS[name]
    target = pair.target if entry.target_warp is None else entry.target_warp(pair.target)
    drafter = entry.make_drafter(pair.draft)
    accepted = expected_accepted(entry.function, pair.target, drafter, num_draft_tokens=2)
    assert accepted <= whole(target, drafter, num_draft_tokens=2).expected_accepted + 1e-9


def uncapped(chance, draft, target_probs):
    """Block verification, but the whole draft is judged by its joint ratio without the cap."""
    ratio = Fraction(1)
    for drafted, row, target_row in zip(draft.tokens, draft.probs, target_probs, strict=False):
        ratio = ratio * target_row[drafted] / row[drafted]
    if chance.flip(min(1, ratio)):
        return Verdict((*draft.tokens, chance.pick(target_probs[-1])), len(draft))
    return verify.block(chance, draft, target_probs)


def test_a_lossy_one_is():
    """Two tokens of q = (.5, .3, .2), p = (.2, .3, .5): the optimum is 1.25."""
    target, drafter = table(TARGET), model(table(DRAFT))
    assert not prove(uncapped, target, drafter, num_draft_tokens=2).lossless
    assert share(uncapped, target, drafter, num_draft_tokens=2) > 1.05


def test_shares():
    """Token verification accepts .7 + .49 of two drafts, block verification the most, 1.25; what is carried
    to later rounds is not counted against greedy block verification, which accepts 1.31."""
    target, drafter = table(TARGET), model(table(DRAFT))
    for verifier, accepted in [(verify.token, 1.19), (verify.block, 1.25), (verify.greedy_block, 1.31)]:
        reached = share(verifier, target, drafter, num_draft_tokens=2)
        assert reached == pytest.approx(accepted / 1.25, abs=1e-8)


@pytest.mark.parametrize("num_draft_tokens", [0, 2])
def test_where_nothing_can_be_accepted_every_verifier_reaches_all_of_it(num_draft_tokens):
    target = table({(): rational(["0", "0", "1"])})
    drafter = model(table({(): rational(["1/2", "1/2", "0"])}))
    assert whole(target, drafter, num_draft_tokens=num_draft_tokens) == (0, 1, 4)
    assert share(verify.match, target, drafter, num_draft_tokens=num_draft_tokens) == 1


def test_the_context_is_where_the_round_starts():
    target = table({(): DRAFT, (1,): TARGET})
    drafter = model(table({(): DRAFT}))
    options = {"context": (1,), "num_draft_tokens": 1}
    assert whole(target, drafter, **options).expected_accepted == pytest.approx(0.7, abs=1e-12)
    assert joint(target, table({(): DRAFT}), **options) == Fraction(7, 10)
    assert share(verify.token, target, drafter, **options) == pytest.approx(1, abs=1e-12)


def test_a_certain_draft_over_many_tokens_is_a_small_program():
    """A drafter that copies proposes one chain, 0 1, accepted as far as the target goes along: .3 + .09."""
    row = np.full(1000, 0.4 / 998)
    row[:2] = 0.3
    optimum = whole(table(row), lookup(1000), (0, 1, 0, 1), num_draft_tokens=2)
    assert optimum.expected_accepted == pytest.approx(0.3 + 0.09, abs=1e-8)
    assert optimum.drafts == 1


def test_progress_is_that_of_drafting():
    seen = []
    whole(
        table(TARGET),
        model(table(DRAFT)),
        num_draft_tokens=6,
        progress=lambda covered, paths: seen.append((covered, paths)),
    )
    assert [count for _, count in seen] == [512]  # of 729 paths
    assert 0 < seen[0][0] < 1


def test_a_program_that_is_too_large_is_refused():
    message = (
        r"^the program has 70 variables for 9 drafts, more than 69: take fewer draft tokens, paths or tokens "
        r"of vocabulary, or raise max_variables$"
    )
    target, drafter = table(TARGET), model(table(DRAFT))
    with pytest.raises(ValueError, match=message):
        whole(target, drafter, num_draft_tokens=2, max_variables=69)
    with pytest.raises(ValueError, match=message):
        share(verify.token, target, drafter, num_draft_tokens=2, max_variables=69)
    assert whole(target, drafter, num_draft_tokens=2, max_variables=70).variables == 70


@pytest.mark.parametrize(
    ("make", "k", "max_variables", "runs", "message"),
    [
        (model, 5, 100, 21, "the program has more than 100 variables"),
        (lambda oracle: paths(oracle, 4), 1, 60, 60, "drafts come in more than 60 ways"),
        (model, 10, 30_000, 3_001, "the program has more than 30000 variables"),
    ],
    ids=["variables", "ways", "as it is without a word"],
)
def test_drafts_that_are_too_many_are_refused_before_all_are_made(make, k, max_variables, runs, message):
    """Chains of k tokens bring k variables each: the 21st of 5 makes 105, the 3001st of 10 makes 30010. Four
    paths of one token each come in 81 ways, and as at most 7 drafts, the sets of some of three tokens."""
    made = []

    def drafter(chance, context, num_draft_tokens):
        made.append(context)
        return make(table(DRAFT))(chance, context, num_draft_tokens)

    with pytest.raises(
        ValueError, match=f"^{message}: take fewer draft tokens, paths or tokens of vocabulary"
    ):
        whole(table(TARGET), drafter, num_draft_tokens=k, max_variables=max_variables)
    assert runs <= len(made) <= runs + 1  # the first may be run twice


def test_a_drafter_without_an_end_is_told_so():
    def endless(chance, context, num_draft_tokens):
        while True:
            chance.flip(Fraction(1, 2))

    with pytest.raises(PathTooLongError, match="bound the program's loops"):
        whole(table(TARGET), endless, num_draft_tokens=1)


def test_parts_are_checked():
    with pytest.raises(ValueError, match="the drafter is an Oracle: make a drafter"):
        whole(table(TARGET), table(DRAFT), num_draft_tokens=2)
    with pytest.raises(ValueError, match="is too small"):
        whole(table(TARGET), model(table(DRAFT)), num_draft_tokens=-1)
    with pytest.raises(ValueError, match="vocabular"):
        joint(table(TARGET), table(rational(["1/2", "1/2"])), num_draft_tokens=1)
    with pytest.raises(ValueError, match="proposed 3 tokens where 2 were asked for"):
        whole(
            table(TARGET),
            lambda chance, context, k: model(table(DRAFT))(chance, context, 3),
            num_draft_tokens=2,
        )


# One path, jointly coupled


@pytest.mark.parametrize(
    ("laws", "num_draft_tokens", "accepted"),
    [
        ((TARGET, DRAFT), 2, Fraction(131, 100)),
        ((TARGET, DRAFT), 3, Fraction(1833, 1000)),
        ((rational(["1/3", "2/3"]), rational(["2/3", "1/3"])), 2, Fraction(12, 9)),
    ],
)
def test_joint_coupling_worked_examples(laws, num_draft_tokens, accepted):
    """Of two tokens of (1/3, 2/3) and (2/3, 1/3): 2/3 for the first, and for the pairs min(1, 4)/9 twice,
    from 00 and 11, and 2/9 twice, from 01 and 10: 2/3 + 6/9 = 12/9. The others are summed alike."""
    target, draft = map(table, laws)
    assert joint(target, draft, num_draft_tokens=num_draft_tokens) == accepted


@settings(max_examples=20)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 3)))
def test_greedy_block_verification_reaches_joint_coupling(pair):
    bound = joint(pair.target, pair.draft, num_draft_tokens=pair.num_draft_tokens)
    options = {"num_draft_tokens": pair.num_draft_tokens}
    assert expected_accepted(verify.greedy_block, pair.target, pair.drafter, **options) == bound
    assert expected_accepted(verify.block, pair.target, pair.drafter, **options) <= bound


@settings(max_examples=10)
@given(pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 2)))
def test_expected_accepted_is_that_of_the_proof(pair):
    options = {"num_draft_tokens": pair.num_draft_tokens}
    proof = prove(verify.token, pair.target, pair.drafter, **options)
    assert expected_accepted(verify.token, pair.target, pair.drafter, **options) == proof.expected_accepted


# Programs


def test_a_linear_program():
    """x + 2y under x + y at most 3 and x = 1: y = 2, so 5."""
    value, variables = maximise({"x": 1, "y": 2}, at_most=[({"x": 1, "y": 1}, 3)], equal=[({"x": 1}, 1)])
    assert value == pytest.approx(5)
    assert variables == pytest.approx({"x": 1, "y": 2})


def test_a_program_without_solution_says_so():
    with pytest.raises(RuntimeError, match=r"^HiGHS found no solution of the program: .*nfeasible"):
        maximise({"x": 1}, at_most=[({"x": 1}, 1)], equal=[({"x": 1}, 2)])
