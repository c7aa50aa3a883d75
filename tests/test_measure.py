"""C21: what a pair does on a text, from the two laws, against enumeration of the rounds themselves."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative import draft as drafting
from speculative import from_probs, generate, law, point_mass, prove, rational, table, verify
from speculative.cost import tokens_from_survival, tokens_per_round
from speculative.measure import (
    Estimate,
    acceptance_on_text,
    drafted_survival,
    mean_with_interval,
    rounds_to_write,
    survival,
)

F = Fraction


def flat(*row):
    """An oracle without memory."""
    return from_probs(lambda context: rational(row), 3)


def spread(*seeds):
    """An oracle whose row of three Fractions depends on the whole context, with zeros and ties among them."""

    def row(context):
        weights = []
        for i, seed in enumerate(seeds):
            mixed = sum(seed * (token + 2) * (place + i + 3) for place, token in enumerate(context))
            weights.append(F((mixed + seed) % 5))
        whole = sum(weights)
        return rational([weight / whole for weight in weights]) if whole else rational(["1/3"] * 3)

    return from_probs(row, 3)


TARGET, DRAFT = spread(3, 1, 2), spread(1, 4, 2)
FLAT_TARGET, FLAT_DRAFT = flat("1/2", "3/10", "1/5"), flat("1/5", "3/10", "1/2")


def floats(oracle):
    return from_probs(lambda context: oracle(context).astype(float), oracle.vocab_size)


FLOAT_TARGET, FLOAT_DRAFT = floats(TARGET), floats(DRAFT)


def switching(context):
    """Agree with the target for as long as the last token was 0, and hardly at all otherwise."""
    return point_mass(0, 3) if context[-1:] in ((), (0,)) else point_mass(1, 3)


# ---------------------------------------------------------------- at one context


@pytest.mark.parametrize("context", [(), (0,), (1,), (2, 1), (0, 2, 1)])
@pytest.mark.parametrize("num_draft_tokens", [1, 2, 3])
def test_c21_survival_is_that_of_the_enumerated_round(context, num_draft_tokens):
    proof = prove(verify.token, TARGET, drafting.model(DRAFT), context, num_draft_tokens=num_draft_tokens)
    values = survival(TARGET, DRAFT, context, num_draft_tokens)
    assert proof.exact
    assert values == proof.survival
    assert tokens_from_survival(values) == proof.tokens_per_target_pass


@pytest.mark.parametrize(("length", "accepted"), [(2, F(119, 100)), (3, F(1533, 1000))])
def test_c21_without_context_survival_is_the_iid_formula(length, accepted):
    values = survival(FLAT_TARGET, FLAT_DRAFT, (), length)
    assert sum(values) == accepted == tokens_per_round(F(7, 10), length) - 1


@pytest.mark.parametrize("context", [(), (1,), (2, 1)])
def test_c21_a_drafted_path_is_unbiased_exactly(context):
    """The law of the estimator itself, enumerated: its mean is the survival, value 1 without any spread."""
    estimates = law(drafted_survival, TARGET, DRAFT, context, 3)
    exact = survival(TARGET, DRAFT, context, 3)
    assert estimates.exact
    assert tuple(estimates.mean(lambda values, i=i: values[i]) for i in range(3)) == exact
    assert len(estimates) > 1
    assert {values[0] for values in estimates} == {exact[0]}


def test_c21_faulty_estimators_are_biased():
    def upside_down(chance, target, draft, context, k):
        reached, values = F(1), []
        for _ in range(k):
            rows = target(context), draft(context)
            values.append(reached * np.minimum(*rows).sum())
            token = chance.pick(rows[1])
            if rows[0][token] == 0:
                return (*values, *[F(0)] * (k - len(values)))
            reached, context = reached * min(1, rows[1][token] / rows[0][token]), (*context, token)
        return tuple(values)

    def unweighted(chance, target, draft, context, k):
        values = []
        for _ in range(k):
            values.append(math.prod([*values[-1:], np.minimum(target(context), draft(context)).sum()]))
            context = (*context, chance.pick(draft(context)))
        return tuple(values)

    exact = survival(TARGET, DRAFT, (1,), 3)
    for fault in (upside_down, unweighted):
        estimates = law(fault, TARGET, DRAFT, (1,), 3)
        assert tuple(estimates.mean(lambda values, i=i: values[i]) for i in range(3)) != exact, fault


def test_survival_does_not_tell_target_from_draft():
    assert survival(TARGET, DRAFT, (1,), 3) == survival(DRAFT, TARGET, (1,), 3)


def test_one_hot_rows_stay_exact():
    always = from_probs(lambda context: point_mass(len(context) % 3, 3), 3)
    values = survival(always, always, (), 3)
    assert values == (1, 1, 1)
    assert all(isinstance(value, Fraction) for value in values)
    assert law(drafted_survival, always, always, (), 3) == {(1, 1, 1): 1}
    assert law(drafted_survival, always, always, (), 3).exact
    assert rounds_to_write(always, always, (0, 1, 2, 0), 1) == 2


def test_rounding_of_floats_never_lifts_survival_above_one_or_above_what_came_before():
    row = np.array([0.1] * 10)
    assert sum(row) != 1
    same = from_probs(lambda context: row, 10)
    above = from_probs(lambda context: np.array([0.7, 0.1, 0.2 + 3e-16]), 3)  # sums to 1 + 2^-52
    for oracle in (same, above):
        values = survival(oracle, oracle, (), 3)
        assert values == pytest.approx((1, 1, 1), abs=1e-15)
        assert 1 >= values[0] >= values[1] >= values[2]
        assert tokens_from_survival(values) == pytest.approx(4)
    assert above(()).sum() > 1
    (paths,) = {values[0] for values in law(drafted_survival, above, above, (), 2)}
    assert paths == 1.0


# ---------------------------------------------------------------- writing a text


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 3])
def test_c21_rounds_to_write_are_those_of_the_enumerated_decode_given_its_text(num_draft_tokens):
    run = partial(generate, max_new_tokens=3, num_draft_tokens=num_draft_tokens)
    everything = law(run, TARGET, drafting.model(DRAFT), (1,))
    assert everything.exact
    texts = {generation.tokens for generation in everything}
    assert len(texts) > 5
    for text in texts:
        given_text = everything.condition(lambda generation, text=text: generation.tokens == text)
        rounds = given_text.mean(lambda generation: len(generation.rounds))
        assert rounds_to_write(TARGET, DRAFT, (1, *text), num_draft_tokens, start=1) == rounds


def test_c21_rounds_to_write_by_hand():
    """One draft a round, kept with probability 2/5 where the token is 0 and always where it is 1."""
    assert rounds_to_write(FLAT_TARGET, FLAT_DRAFT, (1, 1), 1) == 1
    assert rounds_to_write(FLAT_TARGET, FLAT_DRAFT, (0, 1), 1) == 1 + F(3, 5)
    assert rounds_to_write(FLAT_TARGET, FLAT_DRAFT, (0,), 5) == 1
    assert rounds_to_write(FLAT_TARGET, FLAT_DRAFT, (0, 0, 0), 1) == F(2, 5) * 2 + F(3, 5) * (
        1 + F(2, 5) + F(3, 5) * 2
    )


def test_c21_a_long_text_takes_rounds_by_the_iid_formula_where_acceptance_is_the_same_everywhere():
    """Four drafts of two equal laws are always kept: five tokens a round, whatever the text."""
    text = [0, 1, 2, 1, 0] * 8
    target = flat("1/2", "1/4", "1/4")
    assert rounds_to_write(target, target, text, 4) == 8
    draft = flat("1/4", "1/2", "1/4")
    rounds = rounds_to_write(target, draft, [0] * 400, 2)  # each draft kept with probability 1/2
    assert float(400 / rounds) == pytest.approx(float(tokens_per_round(F(1, 2), 2)), rel=0.01)


def test_a_text_the_target_cannot_write_is_refused():
    never = from_probs(lambda context: point_mass(0, 3), 3)
    with pytest.raises(ValueError, match=r"^token 2 at position 1 has probability 0 under the target: give"):
        rounds_to_write(never, DRAFT, (0, 2), 2)


# ---------------------------------------------------------------- on a text

TEXT = (1, 0, 2, 1, 1, 0, 2, 2, 0, 1)


def test_c21_on_a_text_the_means_are_those_of_the_enumerated_rounds():
    found = acceptance_on_text(TARGET, DRAFT, TEXT, 3, start=2, batches=4)
    rounds = [survival(TARGET, DRAFT, TEXT[:end], 3) for end in range(2, 10)]
    means = [sum(values[i] for values in rounds) / 8 for i in range(3)]
    assert found.positions == 8
    assert found.acceptance.mean == means[0]
    assert [estimate.mean for estimate in found.survival] == means
    assert [estimate.mean for estimate in found.acceptance_by_position] == [
        means[0], means[1] / means[0], means[2] / means[1]
    ]  # fmt: skip
    assert found.tokens_per_round.mean == 1 + sum(means)
    assert isinstance(found.tokens_per_round.mean, Fraction)
    assert found.tokens_per_round_iid == tokens_per_round(means[0], 3)
    for estimate in (
        found.acceptance,
        found.tokens_per_round,
        *found.survival,
        *found.acceptance_by_position,
    ):
        assert estimate.low < estimate.mean < estimate.high


def test_c21_real_acceptance_is_not_iid():
    """Half of the contexts are followed by three sure drafts, the others by none: 2.5 tokens, not 1.875."""
    target = from_probs(lambda context: point_mass(0, 3), 3)
    draft = from_probs(switching, 3)
    text = (0, 1) * 10
    found = acceptance_on_text(target, draft, (1, *text), 3, start=1)
    assert found.acceptance.mean == F(1, 2)
    assert found.tokens_per_round.mean == F(5, 2)
    assert found.tokens_per_round_iid == F(15, 8)
    assert [estimate.mean for estimate in found.acceptance_by_position] == [F(1, 2), 1, 1]


def test_c21_sampled_paths_estimate_the_exact_means():
    exact = acceptance_on_text(TARGET, DRAFT, TEXT, 3, batches=5)
    sampled = acceptance_on_text(FLOAT_TARGET, FLOAT_DRAFT, TEXT, 3, batches=5, paths=100, rng=0)
    assert sampled.acceptance.mean == pytest.approx(float(exact.acceptance.mean), abs=1e-12)
    for ours, theirs in zip(sampled.survival, exact.survival, strict=True):
        assert ours.mean == pytest.approx(float(theirs.mean), abs=0.03)
    assert sampled.tokens_per_round.mean == pytest.approx(float(exact.tokens_per_round.mean), abs=0.03)
    again = acceptance_on_text(
        FLOAT_TARGET, FLOAT_DRAFT, TEXT, 3, batches=5, paths=100, rng=np.random.default_rng(0)
    )
    assert again == sampled


def test_positions_that_are_never_reached_have_no_acceptance():
    target, draft = from_probs(lambda c: point_mass(0, 3), 3), from_probs(lambda c: point_mass(1, 3), 3)
    found = acceptance_on_text(target, draft, TEXT, 3, batches=2)
    assert found.acceptance_by_position == ((0, 0.0, 0.0),)
    assert found.survival == ((0, 0.0, 0.0),) * 3
    assert found.tokens_per_round.mean == 1
    assert "<td>1</td>" in found._repr_html_()
    assert "<td>2</td>" not in found._repr_html_()


def test_a_window_hides_what_lies_further_back():
    limited = table({(): rational(["1/2", "1/4", "1/4"]), (0,): [0, 1, 0], (1,): [0, 0, 1], (2,): [1, 0, 0]})
    seen = []

    def row(context):
        seen.append(context)
        return limited(context)

    watched = from_probs(row, 3)
    found = acceptance_on_text(watched, limited, TEXT, 2, window=1, batches=2)
    assert found.acceptance.mean == 1
    assert {len(context) for context in seen} == {0, 1}
    seen.clear()
    assert rounds_to_write(watched, limited, (0, 1, 2, 0), 1, window=1) == 2
    assert seen == [(), (0,), (1,), (2,)]
    assert rounds_to_write(FLAT_TARGET, FLAT_DRAFT, (0, 1), 1, window=0) == 1 + F(3, 5)


def test_a_context_limit_asks_for_a_window():
    short = from_probs(lambda context: [0.5, 0.25, 0.25], 3, context_limit=9)
    assert acceptance_on_text(short, short, TEXT, 1, batches=2).acceptance.mean == 1
    with pytest.raises(
        ValueError, match=r"up to 10 tokens are over the target's limit of 9: give window=9 or less$"
    ):
        acceptance_on_text(short, FLOAT_DRAFT, TEXT, 2)
    with pytest.raises(ValueError, match=r"over the draft's limit of 9"):
        acceptance_on_text(FLOAT_TARGET, short, TEXT, 2)
    with pytest.raises(ValueError, match=r"up to 20 tokens are over the target's limit"):
        rounds_to_write(short, short, TEXT, 2, window=20)
    assert rounds_to_write(short, short, TEXT, 4) == 2
    assert acceptance_on_text(short, short, TEXT, 2, window=9, batches=2).survival[1].mean == 1


def test_repr_says_what_matters():
    found = acceptance_on_text(TARGET, DRAFT, TEXT, 2, batches=5)
    line = repr(found)
    assert "\n" not in line
    assert f"acceptance {float(found.acceptance.mean):.3f} [" in line
    assert f"tokens per round {float(found.tokens_per_round.mean):.3f} [" in line
    assert f"i.i.d. formula {float(found.tokens_per_round_iid):.3f}; 10 positions" in line
    assert f"<tr><td>2</td><td>{found.acceptance_by_position[1]}</td>" in found._repr_html_()


# ---------------------------------------------------------------- intervals


def test_interval_by_hand():
    """Batch means 1.5, 3.5, 8: mean 13/3, standard error 1.922, Student's 95 % point for 2 is 4.303."""
    values = [F(1), F(2), F(3), F(4), F(7), F(9)]
    estimate = mean_with_interval(values, batches=3)
    assert mean_with_interval(values * 4) == mean_with_interval(values * 4, batches=20, level=0.95)
    assert mean_with_interval(values * 4) != mean_with_interval(values * 4, batches=21)
    assert estimate.mean == F(13, 3)
    assert estimate.high - estimate.mean == pytest.approx(4.302653 * 1.9220938, rel=1e-6)
    assert estimate.mean - estimate.low == pytest.approx(estimate.high - estimate.mean)
    assert mean_with_interval(values, batches=3, level=0.9).high < estimate.high
    assert str(Estimate(F(1, 2), 0.25, 0.75)) == "0.500 [0.250, 0.750]"


def series(rng, size):
    """0 and 1, each kept with probability 0.95: half of all values are 1."""
    return (np.cumsum(rng.random(size) < 0.05) + rng.integers(2)) % 2.0


def test_interval_covers_despite_serial_correlation_and_the_naive_one_does_not():
    """500 series of 2,000 values: nominal 95 %, in fact 93 %; independent values would make it 35 %."""
    rng, covered, naively = np.random.default_rng(1), 0, 0
    for _ in range(500):
        values = series(rng, 2000)
        estimate = mean_with_interval(values)
        covered += estimate.low <= 0.5 <= estimate.high
        naively += abs(values.mean() - 0.5) <= 1.96 * values.std(ddof=1) / math.sqrt(2000)
    assert 0.90 < covered / 500 < 0.97
    assert naively / 500 < 0.45


def test_interval_of_a_conditional_acceptance_is_that_of_a_ratio():
    """By linearisation: the spread of (a - r b) / mean(b), of those who got there b and one further a."""
    found = acceptance_on_text(TARGET, DRAFT, TEXT, 2, batches=5, max_rows=40)
    reached, passed = np.array([survival(TARGET, DRAFT, TEXT[:end], 2) for end in range(10)], dtype=float).T
    ratio = passed.mean() / reached.mean()
    spread = ((passed - ratio * reached) / reached.mean()).reshape(5, 2).mean(axis=1).std(ddof=1)
    margin = 2.7764451 * spread / math.sqrt(5)  # Student's 95 % point for 4 degrees of freedom
    expected = (ratio, ratio - margin, ratio + margin)
    assert [float(value) for value in found.acceptance_by_position[1]] == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.fractions(0, 1, max_denominator=9), min_size=2, max_size=40), st.integers(2, 40))
def test_interval_is_centred_on_the_exact_mean(values, batches):
    if batches > len(values):
        with pytest.raises(
            ValueError, match=rf"^batches = {batches} for {len(values)} values: give 2 or more"
        ):
            mean_with_interval(values, batches=batches)
    else:
        estimate = mean_with_interval(values, batches=batches)
        assert estimate.mean == sum(values) / len(values)
        assert estimate.low <= float(estimate.mean) <= estimate.high


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_draft_tokens": 0}, r"^num_draft_tokens = 0 is too small"),
        ({"tokens": ()}, r"^start = 0 in a text of 0 tokens: give a position inside the text$"),
        ({"start": 10}, r"^start = 10 in a text of 10 tokens"),
        ({"start": -1}, r"^start = -1 is too small"),
        ({"window": -1}, r"^window = -1 is too small"),
        ({"paths": 0}, r"^paths = 0 is too small"),
        ({"batches": 1}, r"^batches = 1 for 10 values"),
        ({"batches": 2.0}, r"^batches = 2\.0 is not a whole number"),
        ({"level": 1}, r"^level = 1: give a coverage between 0 and 1"),
        ({"level": 0}, r"^level = 0: give a coverage between 0 and 1"),
        ({"level": math.nan}, r"^level = nan is not finite"),
        (
            {"max_rows": 129},
            r"^exact acceptance takes 130 rows of each model, over max_rows = 129: give paths",
        ),
        ({"tokens": (0, 5, 1)}, r"token 5"),
        ({"draft": from_probs(lambda context: [0.5, 0.5], 2)}, r"3 tokens and the draft 2"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, message):
    arguments = {
        "target": TARGET,
        "draft": DRAFT,
        "tokens": TEXT,
        "num_draft_tokens": 3,
        "batches": 5,
        **change,
    }
    with pytest.raises(ValueError, match=message) as error:
        acceptance_on_text(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("function", [survival, partial(law, drafted_survival)])
def test_bad_draft_lengths_are_refused(function):
    with pytest.raises(ValueError, match=r"^num_draft_tokens = 0 is too small"):
        function(TARGET, DRAFT, (), 0)


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match=r"^value 1 = nan is not finite"):
        mean_with_interval([0.5, math.nan, 0.5], batches=2)
