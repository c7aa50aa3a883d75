"""C22: verification is one pass while traffic decides, and speculation stops paying where arithmetic does."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative.cost import operations_factor, pays, speedup
from speculative.roofline import HARDWARE, Hardware, Model, break_even_batch, pass_time, speedup_at_batch

# weights take 10 s to read, the cache 1 s a sequence at context 5, one position's arithmetic 2 s
MODEL = Model(parameters=10, bytes_per_parameter=2, cache_bytes_per_token=Fraction(2, 5))
MACHINE = Hardware(bandwidth=2, flops=10)

probabilities = st.fractions(0, 1, max_denominator=12)
costs = st.fractions(0, 1, max_denominator=12)
lengths = st.integers(1, 5)
models = st.builds(
    Model, st.integers(1, 20), st.sampled_from([Fraction(1, 2), 1, 2]), st.fractions(0, 2, max_denominator=8)
)
machines = st.builds(Hardware, st.integers(1, 9), st.integers(1, 400))


@pytest.mark.parametrize(
    ("batch", "positions", "context", "seconds"),
    [
        (1, 1, 0, 10),  # traffic
        (5, 1, 0, 10),  # both, to the second
        (1, 5, 0, 10),  # positions of one sequence cost what sequences of one position cost
        (6, 1, 0, 12),  # arithmetic
        (2, 3, 0, 12),
        (3, 1, 5, 13),  # the cache of three sequences is read too
        (1, 5, 5, 11),  # and once, however many positions look at it
        (10, 1, 5, 20),
    ],
)
def test_c22_pass_time_by_hand(batch, positions, context, seconds):
    time = pass_time(MODEL, MACHINE, batch=batch, positions=positions, context=context)
    assert time == seconds
    assert isinstance(time, Fraction)


def test_c22_a_real_model_by_hand():
    """7e9 weights of 2 bytes on an A100: 6.87 ms for up to 153 tokens at once, then 44.9 us a token."""
    peaks = {name: (machine.bandwidth, machine.flops) for name, machine in HARDWARE.items()}
    assert peaks == {"A100": (2.039e12, 312e12), "H100": (3.35e12, 989e12)}
    model = Model(7e9)
    assert model == Model(7e9, bytes_per_parameter=2, cache_bytes_per_token=0)
    assert pass_time(model, HARDWARE["A100"]) == pytest.approx(14e9 / 2.039e12)
    assert pass_time(model, HARDWARE["A100"], batch=153) == pass_time(model, HARDWARE["A100"])
    assert pass_time(model, HARDWARE["A100"], batch=154) == pytest.approx(154 * 14e9 / 312e12)
    assert pass_time(model, HARDWARE["A100"], batch=154) > pass_time(model, HARDWARE["A100"])


@given(probabilities, lengths, costs)
def test_c22_small_batches_get_the_full_speedup(acceptance, num_draft_tokens, cost):
    machine = Hardware(bandwidth=2, flops=1000)
    assert speedup_at_batch(acceptance, num_draft_tokens, cost, MODEL, machine) == speedup(
        acceptance, num_draft_tokens, cost
    )


@given(probabilities, lengths, costs)
def test_c22_large_batches_pay_for_every_operation(acceptance, num_draft_tokens, cost):
    value = speedup_at_batch(acceptance, num_draft_tokens, cost, MODEL, MACHINE, batch=5)
    assert value == 1 / operations_factor(acceptance, num_draft_tokens, cost) <= 1


def test_c22_between_the_two_by_hand():
    """Batch 3, 2 drafts at cost 1/10: a pass takes 10 s, verification 18 s, a round 20 s for 7/4 tokens."""
    assert speedup_at_batch(Fraction(1, 2), 2, Fraction(1, 10), MODEL, MACHINE, batch=3) == Fraction(7, 8)
    assert speedup_at_batch(Fraction(1, 2), 2, Fraction(1, 10), MODEL, MACHINE, batch=2) == Fraction(
        7, 4
    ) / Fraction(14, 10)
    assert break_even_batch(Fraction(1, 2), 2, Fraction(1, 10), MODEL, MACHINE) == 3


@given(st.tuples(probabilities, lengths, costs, models, machines), st.integers(0, 4))
def test_c22_break_even_batch_is_the_first_that_does_not_pay(setting, context):
    speedups = [speedup_at_batch(*setting, batch=batch, context=context) for batch in range(1, 61)]
    assert speedups == sorted(speedups, reverse=True)
    expected = next((batch for batch, value in enumerate(speedups, 1) if value <= 1), None)
    found = break_even_batch(*setting, context=context)
    if expected is None:
        assert found is None or found > 60
    else:
        assert found == expected


def test_one_sequence_one_position_and_no_context_are_meant_where_nothing_is_said():
    """Weights take 10 s to read, the cache 10 s a token of context."""
    lively, slow = Model(10, Fraction(1, 10), 1), Hardware(bandwidth=Fraction(1, 10), flops=10**9)
    assert pass_time(lively, slow) == 10
    assert pass_time(lively, slow, context=1) == 20
    assert pass_time(MODEL, Hardware(10**9, 10)) == 2
    setting = (Fraction(4, 5), 2, Fraction(1, 10), MODEL, MACHINE)
    assert (
        speedup_at_batch(*setting)
        == speedup_at_batch(*setting, batch=1)
        != speedup_at_batch(*setting, batch=2)
    )


def test_c22_what_does_not_pay_alone_does_not_pay_in_a_batch():
    assert not pays(Fraction(1, 5), Fraction(1, 4))
    assert break_even_batch(Fraction(1, 5), 3, Fraction(1, 4), MODEL, MACHINE) == 1


def test_c22_a_long_context_can_keep_speculation_paying_at_every_batch():
    """The cache read per sequence outgrows the arithmetic per sequence: the pass stays bound by traffic."""
    assert break_even_batch(Fraction(4, 5), 2, Fraction(1, 10), MODEL, MACHINE, context=0) == 4
    assert break_even_batch(Fraction(4, 5), 2, Fraction(1, 10), MODEL, MACHINE, context=20) is None
    value = speedup_at_batch(Fraction(4, 5), 2, Fraction(1, 10), MODEL, MACHINE, batch=10**9, context=20)
    assert value > 1


def test_c22_perfect_free_drafts_only_break_even_once_arithmetic_decides():
    assert break_even_batch(1, 3, 0, MODEL, MACHINE) == 5
    assert speedup_at_batch(1, 3, 0, MODEL, MACHINE, batch=5) == 1
    assert speedup_at_batch(1, 3, 0, MODEL, MACHINE, batch=4) == Fraction(4 * 10, 32)


@pytest.mark.parametrize(
    ("fault", "wrong_time"),
    [
        ("one operation a weight", lambda b, n: max(10, b * n)),
        ("batch forgotten", lambda b, n: max(10, 2 * n)),
        ("weights read by every sequence", lambda b, n: max(10 * b, 2 * b * n)),
        ("traffic and arithmetic in turn", lambda b, n: 10 + 2 * b * n),
    ],
)
def test_c22_faulty_clocks_are_told_apart_by_the_hand_computed_times(fault, wrong_time):
    cases = [(1, 1, 10), (5, 1, 10), (6, 1, 12), (2, 3, 12)]
    assert any(wrong_time(batch, positions) != seconds for batch, positions, seconds in cases), fault


@pytest.mark.parametrize("bad", [0, -1, math.nan, True, "7B"])
@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("parameters", Model),
        ("bytes_per_parameter", lambda value: Model(7, value)),
        ("bandwidth", lambda value: Hardware(value, 1)),
        ("flops", lambda value: Hardware(1, value)),
    ],
)
def test_what_must_be_positive(name, build, bad):
    with pytest.raises(ValueError, match=rf"^{name} = .*: give a"):
        build(bad)


def test_other_bad_input():
    with pytest.raises(ValueError, match=r"^cache_bytes_per_token = -1 is too small"):
        Model(7, 2, -1)
    for name in ("batch", "positions"):
        with pytest.raises(ValueError, match=rf"^{name} = 0 is too small: give an int of at least 1$"):
            pass_time(MODEL, MACHINE, **{name: 0})
    with pytest.raises(ValueError, match=r"^context = -1 is too small: give an int of at least 0$"):
        pass_time(MODEL, MACHINE, context=-1)
    with pytest.raises(ValueError, match=r"^context = 1\.5 is not a whole number"):
        break_even_batch(0.5, 2, 0.1, MODEL, MACHINE, context=1.5)
    for function in (speedup_at_batch, break_even_batch):
        with pytest.raises(ValueError, match=r"^acceptance = 1\.5 is out of range"):
            function(1.5, 2, 0.1, MODEL, MACHINE)
        with pytest.raises(ValueError, match=r"^num_draft_tokens = 0 is too small"):
            function(0.5, 0, 0.1, MODEL, MACHINE)
        with pytest.raises(ValueError, match=r"^cost = -1 is too small"):
            function(0.5, 2, -1, MODEL, MACHINE)
