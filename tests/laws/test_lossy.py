"""Lossy rules: the exact law of one token of each, and where it stands above the line that no rule beats."""

from fractions import Fraction
from functools import partial
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from speculative import BATTERY, VERIFIERS, Draft, from_probs, prove, rational, table, total_variation, verify
from speculative.bound.trade_off import best_residual, least_distance, lowest_distance, position
from speculative.distribution import excess, residual
from speculative.draft import model, paths
from speculative.testing import pairs
from speculative.verify.cactus import raised_probability, raised_row
from speculative.verify.compromise import RowsBetween
from speculative.verify.verdict import Verdict

HALF, TENTH = Fraction(1, 2), Fraction(1, 10)
TARGET, DRAFT = rational([".5", ".3", ".2"]), rational([".2", ".3", ".5"])
F_TARGET, F_DRAFT = rational([".10", ".60", ".30", "0"]), rational([".50", ".05", ".25", ".20"])
one_token = pairs(vocab_sizes=(3, 5), num_draft_tokens=(1, 1))


def rows(pair):
    return pair.target(()), pair.draft(())


# The law of one token and the acceptance, written out for lists of Fractions


def kept_and_drawn(accept, after_refusal):
    """Return the law of one token from b(x) and, for each refused x, the law that is drawn from then."""

    def by_hand(q, p):
        tokens = range(len(q))
        b = [accept(q, p, x) if p[x] else Fraction(0) for x in tokens]
        out = [p[x] * b[x] for x in tokens]
        for x in tokens:
            if p[x] and b[x] < 1:
                weights = after_refusal(q, p, x)
                out = [o + p[x] * (1 - b[x]) * w / sum(weights) for o, w in zip(out, weights, strict=True)]
        return out, sum(p[x] * b[x] for x in tokens)

    return by_hand


def left(q, p):
    return [max(Fraction(0), a - b) for a, b in zip(q, p, strict=True)]


def sampled(mixture):
    """Return the law of a rule that samples a mixture exactly, and its acceptance sum(min(p, mixture))."""

    def by_hand(q, p):
        row = mixture(q, p)
        return row, sum(map(min, p, row))

    return by_hand


def without(q, x):
    return [Fraction(0) if y == x else probability for y, probability in enumerate(q)]


def tv(q, p):
    return sum(abs(a - b) for a, b in zip(q, p, strict=True)) / 2


def plausible(q, x):
    entropy = -sum(float(a) * log(a) for a in q if a)
    return Fraction(q[x] > min(0.3, sqrt(0.3) * exp(-entropy)))


def raised(q, x, delta=TENTH):
    g = min(Fraction(1), q[x] + Fraction(sqrt(2 * delta * q[x] * (1 - q[x]))))
    return g, [g if y == x else a * (1 - g) / (1 - q[x]) for y, a in enumerate(q)] if q[x] < 1 else q


def one_sided(q, p, alpha=HALF):
    kept = [b if a >= (1 - alpha) * max(q) else Fraction(0) for a, b in zip(q, p, strict=True)]
    return [k + (1 - sum(kept)) * a for k, a in zip(kept, q, strict=True)]


RULES = {
    "token": (
        verify.token,
        kept_and_drawn(lambda q, p, x: min(1, q[x] / p[x]), lambda q, p, x: left(q, p)),
    ),
    "lenient": (
        verify.lenient,
        kept_and_drawn(lambda q, p, x: min(1, 2 * q[x] / p[x]), lambda q, p, x: left(q, p)),
    ),
    "cactus": (
        partial(verify.cactus, delta=TENTH),
        kept_and_drawn(
            lambda q, p, x: min(1, raised(q, x)[0] / p[x]), lambda q, p, x: left(raised(q, x)[1], p)
        ),
    ),
    "fuzzy, TV < 1/3": (
        partial(verify.fuzzy, threshold=Fraction(1, 3), divergence=total_variation),
        sampled(lambda q, p: p if tv(q, p) < Fraction(1, 3) else q),
    ),
    "Chow": (
        partial(verify.cascade, mixture=verify.defer_by_confidence, alpha=HALF),
        sampled(lambda q, p: p if max(p) >= HALF else q),
    ),
    "Diff": (
        partial(verify.cascade, mixture=verify.defer_by_difference, alpha=TENTH),
        sampled(lambda q, p: p if max(p) >= max(q) - TENTH else q),
    ),
    "OPT": (
        partial(verify.cascade, mixture=verify.defer_by_distance, alpha=HALF),
        sampled(lambda q, p: p if max(p) >= max(q) - tv(q, p) / 2 else q),
    ),
    "ensemble": (
        partial(verify.cascade, mixture=verify.ensemble, alpha=Fraction(1, 3)),
        sampled(lambda q, p: [(2 * a + b) / 3 for a, b in zip(q, p, strict=True)]),
    ),
    "mentored": (
        verify.mentored,
        sampled(lambda q, p: list(verify.compromise(rational(q), rational(p), budget=0.1))),
    ),
    "token-specific": (
        partial(verify.cascade, mixture=verify.token_specific, alpha=HALF),
        sampled(one_sided),
    ),
    "match": (verify.match, kept_and_drawn(lambda q, p, x: q[x], lambda q, p, x: without(q, x))),
    "thresholds 1 and 1": (
        partial(verify.threshold, threshold_single=1, threshold_acc=1),
        kept_and_drawn(lambda q, p, x: q[x], lambda q, p, x: without(q, x)),
    ),
    "thresholds 1/2": (
        verify.threshold,
        kept_and_drawn(lambda q, p, x: min(1, 2 * q[x]), lambda q, p, x: without(q, x)),
    ),
    "typical": (
        verify.typical,
        kept_and_drawn(
            lambda q, p, x: plausible(q, x),
            lambda q, p, x: [Fraction(y == q.index(max(q))) for y in range(len(q))],
        ),
    ),
}
ON_THE_LINE = ["token", "lenient", "cactus", "fuzzy, TV < 1/3", "Chow", "Diff", "OPT", "ensemble", "mentored"]
OFF_THE_LINE = {  # the slack on (.5, .3, .2) and (.2, .3, .5), where TV is .3
    "token-specific": ".25",  # kept are .2 + .3; mixture (.45, .45, .1), off by .15; min with p sums to .6
    "match": ".41",  # acceptance .1 + .09 + .1 = .29, distance 0
    "thresholds 1 and 1": ".41",
    "thresholds 1/2": "27/175",  # acceptance .58, distance 6/175: see test_the_law_of_thresholds_by_hand
}


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=20)
@given(pair=one_token)
def test_one_token_has_the_law_and_the_acceptance_that_are_claimed(name, pair):
    verifier, by_hand = RULES[name]
    target, drafted = rows(pair)
    expected, acceptance = by_hand(target.tolist(), drafted.tolist())
    proof = prove(verifier, pair.target, pair.drafter, num_draft_tokens=1)
    first = proof.output.map(lambda tokens: tokens[0])
    assert proof.exact
    assert [first.get(x, 0) for x in range(len(target))] == expected
    assert proof.survival[0] == acceptance
    distance = tv(target.tolist(), expected)
    slack = 1 - acceptance + distance - tv(target.tolist(), drafted.tolist())
    assert position(verifier, target, drafted) == (acceptance, distance, slack)
    assert slack == 0 if name in ON_THE_LINE else slack >= 0
    assert slack > 0 or distance == lowest_distance(target, drafted, acceptance)


CHAINS = [name for name, entry in VERIFIERS.items() if entry.make_drafter is model]


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=10)
@given(pair=one_token)
def test_every_verifier_is_on_the_line_or_above(name, pair):
    place = position(VERIFIERS[name].function, *rows(pair))
    assert place.slack >= (0 if isinstance(place.slack, Fraction) else -1e-12)
    assert place.distance >= lowest_distance(*rows(pair), place.acceptance) - Fraction(1, 10**12)


@pytest.mark.parametrize("name", OFF_THE_LINE)
def test_these_are_above_the_line_by_so_much(name):
    assert position(RULES[name][0], TARGET, DRAFT).slack == Fraction(OFF_THE_LINE[name])


def test_typical_acceptance_is_above_the_line():
    """On F the target's entropy is 0.898 nats and the threshold 0.223, so tokens 1 and 2 are plausible.

    They are accepted with .05 + .25 = .30, the other .70 goes to token 1: (0, .75, .25, 0), off by .15. TV is
    .6, so the slack is .7 + .15 - .6.
    """
    assert position(verify.typical, F_TARGET, F_DRAFT) == (Fraction(".3"), Fraction(".15"), Fraction(".25"))


def test_the_law_of_thresholds_by_hand():
    """(.5, .3, .2), (.2, .3, .5) at 1/2: b = (1, .6, .4), accepted (.2, .18, .2), refused (0, .12, .3).

    Refused token 1: 5/7 of .12 to token 0, 2/7 to 2. Refused token 2: 5/8 of .3 to 0, 3/8 to 1. Token 0 gets
    .2 + .6/7 + .1875, token 1 .18 + .1125, token 2 .2 + .24/7; those above the target are 2 alone, by .24/7.
    """
    acceptance, distance, _ = position(verify.threshold, TARGET, DRAFT)
    assert acceptance == Fraction(".58")
    assert distance == Fraction(".24") / 7


@settings(max_examples=15)
@given(st.integers(0, 3), one_token)
def test_thresholds_on_a_certain_draft_are_on_the_line(token, pair):
    """A point mass at x has min(target, draft) = target(x), and b(x) is not below it."""
    target = pair.target(())
    certain = rational([int(x == token % len(target)) for x in range(len(target))])
    assert position(verify.threshold, target, certain).slack == 0


@settings(max_examples=15)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 2)))
def test_thresholds_are_lossless_at_one_and_one_on_trees_too(pair):
    rule = partial(verify.threshold, threshold_single=1, threshold_acc=1)
    drafter = paths(pair.draft, num_paths=2)
    assert prove(rule, pair.target, drafter, num_draft_tokens=pair.num_draft_tokens).lossless


@pytest.mark.parametrize("lower", [{"threshold_single": HALF}, {"threshold_acc": HALF}])
def test_thresholds_are_lossless_at_nothing_else(lower):
    rule = partial(verify.threshold, **{"threshold_single": 1, "threshold_acc": 1, **lower})
    assert position(rule, TARGET, DRAFT).distance > Fraction(1, 30)


# The line itself


@settings(max_examples=20)
@given(one_token, st.lists(st.fractions(0, 1, max_denominator=6), min_size=5, max_size=5))
def test_the_least_distance_is_the_papers_formula_and_its_residual_reaches_it(pair, levels):
    target, drafted = rows(pair)
    b = np.array(levels[: len(target)], dtype=object)
    least = least_distance(target, drafted, b)
    assert least == (sum(abs(target - b * drafted)) - sum((1 - b) * drafted)) / 2

    def rule(chance, draft, target_probs):
        if chance.flip(b[draft.tokens[0]]):
            return Verdict((draft.tokens[0], 0), 1)
        return Verdict((chance.pick(best_residual(target_probs[0], draft.probs[0], b)),), 0)

    assert position(rule, target, drafted).distance == least


def program_for_one_token(target, drafted, b=None, acceptance=None):
    """Solve: least sum(over) with accepted + drawn - target <= over, for given b or a given acceptance."""
    v = len(target)
    cost = [*[0] * 2 * v, *[1] * v]  # accepted, drawn, over
    equal = [[*[1] * 2 * v, *[0] * v]]
    values = [1.0]
    if acceptance is not None:
        equal.append([*[1] * v, *[0] * 2 * v])
        values.append(acceptance)
    accepted = (
        [(0, p) for p in drafted] if b is None else [(p * a,) * 2 for p, a in zip(drafted, b, strict=True)]
    )
    eye = np.eye(v)
    return linprog(
        cost,
        A_ub=np.hstack([eye, eye, -eye]),
        b_ub=target,
        A_eq=equal,
        b_eq=values,
        bounds=[*accepted, *[(0, None)] * 2 * v],
    ).fun


def test_both_bounds_are_those_of_a_linear_program():
    rng = np.random.default_rng(0)
    for size in (2, 3, 4, 6) * 5:
        target, drafted = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        b, acceptance = rng.random(size), rng.random()
        assert least_distance(target, drafted, b) == pytest.approx(
            program_for_one_token(target, drafted, b=b), abs=1e-9
        )
        assert lowest_distance(target, drafted, acceptance) == pytest.approx(
            program_for_one_token(target, drafted, acceptance=acceptance), abs=1e-9
        )


# Lenience


def leniently(left_by, lenience=HALF):
    """Return lenient verification with another residual."""

    def rule(chance, draft, target_probs):
        for i, (x, p) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
            if not chance.flip(min(1, target_probs[i][x] / (lenience * p[x]))):
                drawn = chance.pick(left_by(target_probs[i], p, lenience))
                return Verdict((*draft.tokens[:i], drawn), i)
        return Verdict((*draft.tokens, chance.pick(target_probs[-1])), len(draft))

    return rule


STOCK = leniently(lambda q, p, lenience: residual(q, p))
LENIENT_TOO = leniently(lambda q, p, lenience: residual(q, lenience * p))


@settings(max_examples=20)
@given(one_token)
def test_both_residuals_keep_lenience_below_its_ceiling_and_one_is_on_the_line(pair):
    target, drafted = rows(pair)
    stock, too = (prove(rule, pair.target, pair.drafter, num_draft_tokens=1) for rule in (STOCK, LENIENT_TOO))
    assert stock == prove(verify.lenient, pair.target, pair.drafter, num_draft_tokens=1)
    assert stock.survival == too.survival == (np.minimum(drafted, 2 * target).sum(),)
    for proof in (stock, too):
        first = proof.output.map(lambda tokens: tokens[0])
        assert all(first[x] <= 2 * target[x] for x in first)
    assert position(STOCK, target, drafted).slack == 0 <= position(LENIENT_TOO, target, drafted).slack


def test_a_lenient_residual_is_above_the_line():
    """On F min(p, 2q) = (.2, .05, .25, 0), refused .5. (q - p/2)+ = (0, .575, .175, 0), of sum .75.

    Token 0 is above the target by .1, token 2 is .25 + .5 * .175 / .75 = .3667, above by 1/15; the stock
    residual (0, .55, .05, 0) leaves token 2 at .25 + .5 / 12 = .2917, and the distance at .1.
    """
    assert position(STOCK, F_TARGET, F_DRAFT).distance == TENTH
    assert position(LENIENT_TOO, F_TARGET, F_DRAFT) == (HALF, Fraction(1, 6), Fraction(1, 15))


# Mentored


@settings(max_examples=25)
@given(one_token, st.fractions(0, 1, max_denominator=12))
def test_a_compromise_is_a_law_between_the_rows_with_two_scales(pair, share):
    target, drafted = rows(pair)
    mass = share * total_variation(target, drafted)
    row = RowsBetween(target, drafted).row(mass)
    assert sum(row) == 1
    assert np.minimum(drafted, row).sum() == 1 - mass
    assert ((np.minimum(target, drafted) <= row) & (row <= np.maximum(target, drafted))).all()
    cut = {q / r for q, p, r in zip(target, drafted, row, strict=True) if r < p and q > 0}
    filled = {q / r for q, p, r in zip(target, drafted, row, strict=True) if r > p}
    assert all(len(scales) <= 1 for scales in (cut, filled))
    assert all(a <= 1 for a in cut)
    assert all(b >= 1 for b in filled)
    untouched = [q / p for q, p, r in zip(target, drafted, row, strict=True) if r == p > 0]
    assert all(max(cut, default=0) <= ratio <= min(filled, default=ratio) for ratio in untouched if ratio)


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.1])
@pytest.mark.parametrize(
    ("target", "drafted"),
    [
        ((0.5, 0.3, 0.2), (0.2, 0.3, 0.5)),
        ((0.5, 0.25, 0.125, 0.125), (0.1, 0.3, 0.2, 0.4)),
        ((0.1, 0.6, 0.3), (0.6, 0.3, 0.1)),
    ],
)
def test_the_compromise_is_the_optimum_of_a_nonlinear_program(budget, target, drafted):
    """Maximise sum(common) over row and common <= row, draft, with KL(target, row) <= budget."""
    q, p = np.array(target), np.array(drafted)
    v = len(q)
    found = minimize(
        lambda x: -x[v:].sum(),
        np.concatenate([q, np.minimum(q, p)]),
        constraints=[
            {"type": "eq", "fun": lambda x: x[:v].sum() - 1},
            {"type": "ineq", "fun": lambda x: budget - (q * np.log(q / x[:v])).sum()},
            {"type": "ineq", "fun": lambda x: x[:v] - x[v:]},
        ],
        bounds=[*[(1e-9, 1)] * v, *[(0, a) for a in p]],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success or found.status == 8  # no better direction
    row = verify.compromise(q, p, budget=budget)
    assert np.minimum(p, row).sum() == pytest.approx(-found.fun, abs=1e-6)
    assert verify.kullback_leibler(q, row) == pytest.approx(budget, abs=1e-12)
    exact = verify.compromise(rational(target), rational(drafted), budget=budget)
    assert exact.astype(float) == pytest.approx(row, abs=1e-9)


@pytest.mark.parametrize(
    ("budget", "wanted"), [(0, TARGET), (0.27, None), (0.275, DRAFT), (10, DRAFT)]
)  # KL(target, draft) = .5 log 2.5 + .2 log .4 = .3 log 2.5 = 0.27489
def test_the_budget_decides_between_target_and_draft(budget, wanted):
    row = verify.compromise(TARGET, DRAFT, budget=budget)
    assert ((row == TARGET).all(), (row == DRAFT).all()) == (wanted is TARGET, wanted is DRAFT)


def test_tokens_that_the_target_rules_out_go_first():
    """With budget 0.6 the draft keeps some of token 2, which the target rules out, and all of the others.

    KL is then only in token 0, which gets all that is refused: .5 log(.5 / (.1 + m)) + .3 log 1.5 = .6 gives
    m = .5 exp(2 (.3 log 1.5 - .6)) - .1 = .0920753.
    """
    target, drafted = rational([".5", ".3", "0", ".2"]), rational([".1", ".2", ".5", ".2"])
    row = verify.compromise(target, drafted, budget=0.6)
    refused = 0.5 * exp(2 * (0.3 * log(1.5) - 0.6)) - 0.1
    assert row.astype(float) == pytest.approx([0.1 + refused, 0.2, 0.5 - refused, 0.2], abs=1e-12)
    assert sum(row) == 1


def test_a_budget_below_the_rounding_of_floats_is_none():
    assert (verify.compromise(TARGET, DRAFT, budget=1e-300) == TARGET).all()


def test_certain_rows_make_exact_compromises():
    """KL((0, 0, 1), (m, 0, 1 - m)) = -log(1 - m) = 0.1."""
    certain, other = np.array([0, 0, 1]), np.array([1, 0, 0])
    row = verify.compromise(certain, other, budget=0.1)
    assert row.astype(float) == pytest.approx([1 - exp(-0.1), 0, exp(-0.1)])
    assert (sum(row), type(row[0])) == (1, Fraction)
    assert verify.compromise(certain, certain, budget=0.1).tolist() == [0, 0, 1]


# What a cascade samples


@pytest.mark.parametrize("name", ["Chow", "Diff", "OPT", "ensemble", "token-specific"])
@settings(max_examples=10)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)))
def test_a_cascade_is_lossless_for_its_mixture(name, pair):
    rule, k = RULES[name][0], pair.num_draft_tokens
    mixture, alpha = rule.keywords["mixture"], rule.keywords["alpha"]

    def mixed(context):
        row = pair.target(context)
        return mixture(row, pair.draft(context), alpha) if len(context) < k else row

    reference = from_probs(mixed, pair.target.vocab_size)
    assert prove(rule, pair.target, pair.drafter, num_draft_tokens=k, reference=reference).lossless


def test_the_bonus_token_is_the_targets_not_the_mixtures():
    rule = partial(verify.cascade, mixture=verify.ensemble, alpha=1)  # the draft, always accepted
    proof = prove(rule, table(TARGET), model(table(DRAFT)), num_draft_tokens=1, reference=table(DRAFT))
    assert proof.distance == total_variation(TARGET, DRAFT)


def test_the_token_specific_mixture_of_equal_rows_is_another_row():
    """(.5, .3, .2) at 1/2 keeps tokens 0 and 1 and deals out the other .2 by the row: (.6, .36, .04)."""
    mixed = verify.token_specific(TARGET, TARGET, HALF)
    assert mixed.tolist() == [Fraction(".6"), Fraction(".36"), Fraction(".04")]


# Cactus


@settings(max_examples=20)
@given(one_token, st.fractions(0, 2, max_denominator=10))
def test_a_raised_row_is_a_law_within_its_divergence(pair, delta):
    """KL is at most log(1 + chi-square), and the chi-square of two laws on {x, not x} is 2 delta or less."""
    target = pair.target(())
    for x in range(len(target)):
        row = raised_row(target, x, raised_probability(target, x, delta))
        assert sum(row) == 1
        assert row[x] >= target[x]
        assert verify.kullback_leibler(row, target) <= log(1 + 2 * delta) + 1e-12


def test_a_certain_token_is_not_raised_and_leaves_the_row_alone():
    """Floats may refuse it all the same, where the draft's row sums to a little more than 1."""

    class Refuse:
        def flip(self, probability):
            return False

        def pick(self, weights):
            return weights.tolist()

    certain, half = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    verdict = verify.cactus(Refuse(), Draft((0,), (half,)), [certain, certain])
    assert verdict.tokens == ([0.5, 0.0],)


# Divergences


def test_divergences_by_hand():
    certain, other = np.array([1, 0]), rational(["0", "1"])
    assert verify.kullback_leibler(rational(["1/2", "1/2"]), rational(["1/4", "3/4"])) == pytest.approx(
        log(2) / 2 + log(2 / 3) / 2
    )
    assert verify.kullback_leibler(certain, other) == float("inf")
    assert verify.kullback_leibler(certain, certain) == verify.jensen_shannon(other, other) == 0
    assert verify.jensen_shannon(certain, other) == pytest.approx(log(2))


def test_no_divergence_is_negative():
    """Of these pairs of rows equal but for 2^-40, some sums of first * log(first / second) are below 0."""
    rng = np.random.default_rng(0)
    first = rng.dirichlet(np.ones(5), size=50)
    second = first * (1 + rng.integers(-1, 2, first.shape) * 2.0**-40)
    second /= second.sum(1, keepdims=True)
    assert ((first * np.log(first / second)).sum(1) < 0).any()
    for divergence in (verify.kullback_leibler, verify.jensen_shannon):
        assert all(divergence(*both) >= 0 for both in zip(first, second, strict=True))


def test_fuzzy_compares_with_its_threshold_from_below():
    """The total variation of the rows is 3/10."""
    below, at = (
        position(partial(verify.fuzzy, threshold=limit, divergence=total_variation), TARGET, DRAFT).acceptance
        for limit in (Fraction(31, 100), Fraction(3, 10))
    )
    assert (below, at) == (1, Fraction(7, 10))
    assert position(partial(verify.fuzzy, threshold=0), DRAFT, DRAFT).distance == 0


# At one end of its parameter each rule is token verification, and out of range it is refused


STRICT = {
    "mentored": partial(verify.mentored, budget=0),
    "cactus": partial(verify.cactus, delta=0),
    "fuzzy": partial(verify.fuzzy, threshold=0),
    "ensemble": partial(verify.cascade, mixture=verify.ensemble, alpha=0),
    "Chow": partial(verify.cascade, mixture=verify.defer_by_confidence, alpha=-1),
    "Diff": partial(verify.cascade, mixture=verify.defer_by_difference, alpha=-2),
    "lenient": partial(verify.lenient, lenience=1),
}


@pytest.mark.parametrize("name", STRICT)
@settings(max_examples=12)
@given(pair=pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 2)))
def test_at_its_strict_end_a_rule_is_token_verification(name, pair):
    options = {"num_draft_tokens": pair.num_draft_tokens}
    assert prove(STRICT[name], pair.target, pair.drafter, **options) == prove(
        verify.token, pair.target, pair.drafter, **options
    )


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (verify.mentored, {"budget": -1}, "budget = -1 is too small"),
        (verify.mentored, {"budget": float("nan")}, "budget = nan is not finite"),
        (verify.cactus, {"delta": -0.1}, "delta = -0.1 is too small"),
        (verify.fuzzy, {"threshold": "0.4"}, "threshold = '0.4' is not a number"),
        (verify.fuzzy, {"threshold": -1}, "threshold = -1 is too small"),
        (verify.cascade, {"alpha": float("inf")}, "alpha = inf is not finite"),
        (verify.cascade, {"alpha": 2, "mixture": verify.ensemble}, "alpha = .*2.* is out of range"),
        (verify.threshold, {"threshold_single": 2}, "threshold_single = 2 is out of range"),
        (verify.threshold, {"threshold_acc": 0}, "threshold_acc = .*0.* is not positive"),
        (verify.threshold, {"threshold_acc": 1.5}, "threshold_acc = 1.5 is out of range"),
    ],
)
def test_a_parameter_out_of_range_is_refused_in_one_line(rule, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        rule(None, Draft((0,), (DRAFT,)), [TARGET, TARGET], **options)
    assert "\n" not in str(caught.value)


# Floats


def in_floats(instance):
    """Return the instance's target and draft as oracles with float64 rows."""
    return (
        from_probs(lambda context, oracle=oracle: oracle(context).astype(np.float64), oracle.vocab_size)
        for oracle in (instance.target, instance.draft)
    )


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    "instance", [i for i in BATTERY if i.num_draft_tokens in (1, 2)][:8], ids=lambda i: i.name
)
def test_float_rows_have_the_same_law_up_to_rounding(name, instance):
    target, drafted = in_floats(instance)
    options = {"num_draft_tokens": instance.num_draft_tokens}
    rounded = prove(RULES[name][0], target, model(drafted), **options)
    exact = prove(RULES[name][0], instance.target, instance.drafter, **options)
    assert not rounded.exact
    assert rounded.output.distance(exact.output) < 1e-12


@pytest.mark.parametrize("name", RULES)
def test_float_rows_that_are_all_but_equal_are_no_obstacle(name):
    rng = np.random.default_rng(1)
    for _ in range(20):
        row = rng.dirichlet(np.ones(4))
        near = row * (1 + rng.integers(-2, 3, 4) * 2.0**-52)
        proof = prove(RULES[name][0], table(row), model(table(near)), num_draft_tokens=1)
        if name in (*ON_THE_LINE, "match", "thresholds 1 and 1"):
            assert proof.distance < 1e-12


# Faults that were published


def forked(chance, draft, target_probs, budget=0.1):
    """Verify as a public fork of an engine does, `MentoredSampler`: its search, its fallback."""
    for i, (x, p) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        q = target_probs[i]
        alpha = fork_search(q.astype(float), p.astype(float), budget)
        if not chance.flip(min(1, q[x] / (alpha * p[x]))):
            return Verdict((*draft.tokens[:i], chance.pick(excess(q, alpha * p))), i)
    return Verdict((*draft.tokens, chance.pick(target_probs[-1])), len(draft))


def fork_search(q, p, budget):
    """Halve towards the a with sum(q log(q / min(p, q / a))) within a tenth of the budget, in ten steps."""
    low, high, a = Fraction(0), Fraction(1), HALF
    for _ in range(10):
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = (q * np.log(q / np.minimum(p, q / float(a)))).sum()
        if kl > 1.1 * budget:
            high = a
        elif kl < 0.9 * budget:
            low = a
        else:
            break
        if np.isnan(kl):  # both comparisons are false: taken for the right a, at once
            break
        a = (low + high) / 2
    return a


def test_the_fork_ignores_the_budget():
    """Its KL is that of no law, grows with a and is never below KL(target, draft) = 0.275, here over budget.

    So a is halved ten times, to 2^-11; then every draft is accepted: the law is the draft's, off by .3.
    The right rule with the budget is off by 0.185.
    """
    assert fork_search(TARGET.astype(float), DRAFT.astype(float), 0.1) == Fraction(1, 2**11)
    assert position(forked, TARGET, DRAFT) == (1, Fraction(3, 10), 0)
    assert float(position(verify.mentored, TARGET, DRAFT).distance) == pytest.approx(0.184970, abs=1e-6)


def test_a_zero_in_the_target_stops_the_forks_search_at_one_half():
    """0 log 0 is NaN. What is left is lenience 1/2 with the lenient residual, off by 1/6 on F."""
    assert fork_search(F_TARGET.astype(float), F_DRAFT.astype(float), 0.1) == HALF
    place = position(forked, F_TARGET, F_DRAFT)
    assert place == position(LENIENT_TOO, F_TARGET, F_DRAFT) == (HALF, Fraction(1, 6), Fraction(1, 15))


def test_medusas_exchanged_thresholds_accept_what_its_own_do_not():
    """The entropy of (.88, .07, .03, .02) is 0.4822 nats, exp(-entropy) 0.6174.

    With threshold .09 and alpha .3 the limit is min(.09, .1852) = .09: only token 0 is plausible, and all
    else goes to it: (1, 0, 0, 0), off by .12. Exchanged it is min(.3, .0556): token 1 is let through too, and
    from a uniform draft the law is (.75, .25, 0, 0), off by .18.
    """
    target, uniform = rational([".88", ".07", ".03", ".02"]), rational(["1/4"] * 4)
    own = position(partial(verify.typical, epsilon=0.09, delta=0.3), target, uniform)
    exchanged = position(partial(verify.typical, epsilon=0.3, delta=0.09), target, uniform)
    assert (own.acceptance, own.distance) == (Fraction(1, 4), Fraction(".12"))
    assert (exchanged.acceptance, exchanged.distance) == (HALF, Fraction(".18"))


@settings(max_examples=10)
@given(one_token)
def test_the_line_notices_a_rule_that_says_it_accepts_more_than_it_does(pair):
    """A rule that calls its residual draws accepted has acceptance 1 and distance 0: below the line."""
    target, drafted = rows(pair)
    assume(total_variation(target, drafted) > 0)

    def boasting(chance, draft, target_probs):
        verdict = verify.token(chance, draft, target_probs)
        return Verdict((verdict.tokens[0], 0), 1)

    assert position(boasting, target, drafted).slack == -total_variation(target, drafted)
