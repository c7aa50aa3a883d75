"""Laws as mappings, the laws of programs and of processes, and decision trees."""

import re
from collections import Counter
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative import Law, TooManyPathsError, law, law_of_process, paths
from speculative.laws import Answer, Path

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


@st.composite
def laws(draw, outcomes=5):
    """Return an exact law on some of the integers below `outcomes`."""
    row = draw(st.lists(st.integers(0, 6), min_size=outcomes, max_size=outcomes).filter(any))
    return Law({outcome: Fraction(weight, sum(row)) for outcome, weight in enumerate(row)})


# ---------------------------------------------------------------- Law: a mapping


def test_a_law_is_a_mapping_without_the_impossible():
    coin = Law({"heads": THIRD, "edge": 0, "tails": 2 * THIRD})
    assert coin["heads"] == THIRD
    assert list(coin) == ["heads", "tails"]
    assert len(coin) == 2
    assert "edge" not in coin
    assert coin.get("edge", 0) == 0
    assert dict(coin) == {"heads": THIRD, "tails": 2 * THIRD} == coin
    assert coin == Law({"tails": 2 * THIRD, "heads": THIRD})
    assert coin != Law({"heads": HALF, "tails": HALF})
    with pytest.raises(KeyError, match="edge"):
        coin["edge"]


def test_a_law_cannot_be_changed():
    masses = {0: HALF, 1: HALF}
    coin = Law(masses)
    masses[0] = Fraction(1)
    assert coin == {0: HALF, 1: HALF}
    with pytest.raises(TypeError, match="does not support item assignment"):
        coin[0] = Fraction(1)
    with pytest.raises(AttributeError):
        coin.name = "coin"
    with pytest.raises(TypeError, match="unhashable"):
        hash(coin)


@pytest.mark.parametrize(
    "masses",
    [
        {},
        {0: THIRD},
        {0: 0},
        {0: HALF, 1: HALF + Fraction(1, 10**12)},
        {0: Fraction(3, 2), 1: Fraction(-1, 2)},
        {0: 0.5, 1: 0.5 + 2e-9},
        {0: 0.5, 1: 0.5 - 2e-9},
        {0: 1.5, 1: -0.5},
        {0: float("nan")},
        {0: 0.5, 1: float("nan")},
        {0: float("inf")},
    ],
)
def test_masses_that_are_no_law_are_refused(masses):
    with pytest.raises(
        ValueError, match=r"^Law: probabilities must not be negative and must sum to 1; [^\n]*$"
    ):
        Law(masses)


def test_the_refusal_says_the_sum():
    with pytest.raises(ValueError, match=r"these sum to 5/6$"):
        Law({0: HALF, 1: THIRD})


def test_floats_may_miss_one_by_their_rounding():
    assert len(Law(dict.fromkeys(range(10), 0.1))) == 10
    assert len(Law({0: 0.5, 1: 0.5 + 5e-10})) == 2


@pytest.mark.parametrize(
    ("masses", "exact"),
    [
        ({0: THIRD, 1: 2 * THIRD}, True),
        ({0: 1}, True),
        ({0: 1.0}, False),
        ({0: HALF, 1: 0.5}, False),
        ({0: np.float64(1)}, False),
        ({0: 1, 1: 0.0}, True),
    ],
)
def test_a_law_is_exact_when_every_mass_is_rational(masses, exact):
    assert Law(masses).exact is exact


# ---------------------------------------------------------------- Law: arithmetic


@given(laws())
def test_map_adds_what_becomes_equal(some):
    parity = some.map(lambda outcome: outcome % 2)
    assert parity == {
        rest: mass for rest in (0, 1) if (mass := sum(some.get(i, 0) for i in range(5) if i % 2 == rest))
    }
    assert parity.exact
    assert some.map(lambda outcome: outcome) == some
    assert some.map(lambda outcome: None) == {None: 1}


def test_map_keeps_the_order_met():
    assert list(Law({0: HALF, 1: THIRD, 2: THIRD / 2}).map(lambda i: "bab"[i])) == ["b", "a"]


@given(laws())
def test_mean_is_linear_and_exact(some):
    mean = some.mean()
    assert type(mean) is Fraction
    assert mean == sum(i * some.get(i, 0) for i in range(5))
    assert some.mean(lambda i: 3 * i + 1) == 3 * mean + 1
    assert some.mean(lambda i: i in (1, 2)) == some.get(1, 0) + some.get(2, 0)


@given(laws(), laws(), laws())
def test_distance_is_a_metric(first, second, third):
    distance = first.distance(second)
    assert distance == second.distance(first)
    assert type(distance) is Fraction
    assert 0 <= distance <= 1
    assert (distance == 0) == (first == second)
    assert first.distance(third) <= distance + second.distance(third)


@given(laws(), laws())
def test_distance_is_the_largest_difference_of_an_event(first, second):
    events = [[i for i in range(5) if mask >> i & 1] for mask in range(32)]
    largest = max(sum(first.get(i, 0) - second.get(i, 0) for i in event) for event in events)
    assert first.distance(second) == largest


def test_distance_takes_any_mapping_and_floats():
    coin = Law({0: HALF, 1: HALF})
    assert coin.distance({0: 1}) == HALF
    assert coin.distance({2: 1}) == 1
    assert coin.distance({0: 0.75, 1: 0.25}) == 0.25
    assert coin.distance({0: HALF}) == Fraction(1, 4), "what is missing counts"


@given(laws(), st.sets(st.integers(0, 4)))
def test_conditioning(some, event):
    mass = sum(some.get(i, 0) for i in event)
    if not mass:
        with pytest.raises(
            ValueError, match=r"^condition\(\): no outcome of this law satisfies the predicate$"
        ):
            some.condition(lambda i: i in event)
        return
    given_event = some.condition(lambda i: i in event)
    assert given_event == {i: some[i] / mass for i in event if i in some}
    assert given_event.exact


def test_top_is_by_probability_then_by_order():
    some = Law({"a": Fraction(1, 8), "b": HALF, "c": Fraction(1, 8), "d": Fraction(1, 4)})
    assert some.top(3) == [("b", HALF), ("d", Fraction(1, 4)), ("a", Fraction(1, 8))]
    assert some.top(9) == [*some.top(3), ("c", Fraction(1, 8))]


# ---------------------------------------------------------------- Law: what people see


def test_repr_shows_the_most_probable():
    assert repr(Law({0: THIRD, "x": 2 * THIRD})) == "Law({'x': 2/3, 0: 1/3})"
    assert repr(Law({0: 1})) == "Law({0: 1})"
    assert repr(Law(dict.fromkeys(range(5), 0.2))) == (
        "Law({0: 0.2, 1: 0.2, 2: 0.2, 3: 0.2, ... 1 more}, float)"
    )
    assert repr(Law(dict.fromkeys(range(4), 0.25))) == "Law({0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25}, float)"


def test_repr_of_long_fractions_is_short():
    tiny = Fraction(1, 10**9 + 1)
    assert repr(Law({0: tiny, 1: 1 - tiny})) == "Law({1: 1, 0: 1e-09})"
    billionth = Fraction(1, 10**9)
    assert repr(Law({0: billionth, 1: 1 - billionth})) == "Law({1: 999999999/1000000000, 0: 1/1000000000})"


class Cells(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_a_table_with_everything_escaped():
    cells = Cells(Law({"<script>alert('&')</script>": THIRD, "b": 2 * THIRD})._repr_html_())
    assert cells.texts == [
        "outcome", "probability",
        repr("b"), "2/3", "0.666667",
        repr("<script>alert('&')</script>"), "1/3", "0.333333",
    ]  # fmt: skip
    assert set(cells.tags) == {"table", "tr", "th", "td"}


def test_html_shows_twenty_rows():
    def texts(count):
        return Cells(Law({i: Fraction(1, count) for i in range(count)})._repr_html_()).texts

    assert len(texts(20)) == 2 + 20 * 3
    assert len(texts(23)) == 2 + 20 * 3 + 1
    assert texts(23)[-1] == "... 3 more"
    assert texts(23)[2:5] == ["0", "1/23", "0.043478"]


# ---------------------------------------------------------------- law and paths


def two_rows(chance, first, second=(1, 1)):
    token = chance.pick(first)
    return (token, chance.pick(second)) if chance.flip(THIRD) else (token,)


def test_law_passes_arguments_on():
    assert law(two_rows, [1, 3]) == {
        (0, 0): Fraction(1, 24),
        (0, 1): Fraction(1, 24),
        (0,): Fraction(1, 6),
        (1, 0): Fraction(1, 8),
        (1, 1): Fraction(1, 8),
        (1,): HALF,
    }
    assert law(two_rows, [1], second=[0, 5]) == {(0, 1): THIRD, (0,): 2 * THIRD}


def test_a_program_that_asks_nothing_has_a_certain_outcome():
    assert law(lambda chance: "always") == {"always": 1}
    assert law(lambda chance: "always").exact
    assert list(paths(lambda chance: "always")) == [Path("always", Fraction(1), ())]


def test_paths_are_the_decision_tree():
    heads, tails, certain = (
        Answer("flip", True, THIRD),
        Answer("flip", False, 2 * THIRD),
        Answer("pick", 0, 1),
    )
    one, two = Answer("pick", 1, 2 * THIRD), Answer("pick", 2, THIRD)
    assert list(paths(two_rows, [0, 2, 1], second=[1])) == [
        Path((1, 0), Fraction(2, 9), (one, heads, certain)),
        Path((1,), Fraction(4, 9), (one, tails)),
        Path((2, 0), Fraction(1, 9), (two, heads, certain)),
        Path((2,), Fraction(2, 9), (two, tails)),
    ]


def test_paths_add_up_to_the_law():
    for arithmetic in (None, "float64", "float16"):
        summed = Counter()
        for path in paths(two_rows, [1, 3, 3], arithmetic=arithmetic):
            summed[path.outcome] += path.probability
            product = Fraction(1)
            for answer in path.answers:
                product *= answer.probability
            assert path.probability == product
        assert summed == law(two_rows, [1, 3, 3], arithmetic=arithmetic)


def test_law_reports_progress():
    def coins(chance):
        return sum(chance.flip(HALF) for _ in range(10))

    calls = []
    law(coins, progress=lambda covered, paths: calls.append((covered, paths)))
    assert calls == [(0.5, 512), (1.0, 1024)]


# ---------------------------------------------------------------- processes


def steps_of(step, until, number):
    """Return the program of all steps at once, without merging: state, or None where it can still go on."""

    def program(chance, state):
        for _ in range(number):
            if until(state):
                return state
            state = step(chance, state)
        return state if until(state) else None

    return program


def grow(chance, tokens):
    """One round of a process whose states are texts: one or two tokens a step."""
    kept = chance.pick([1, 2]) + 1
    return (*tokens, *(chance.pick([1, len(tokens) + 1]) for _ in range(kept)))


def is_long(tokens):
    return len(tokens) >= 4


def test_a_process_has_the_law_of_its_steps_taken_together():
    merged = law_of_process(grow, (), is_long)
    assert merged == law(steps_of(grow, is_long, 4), ())
    assert merged.exact
    assert {len(tokens) for tokens in merged} == {4, 5}


def test_a_wrong_process_is_told_from_the_right_one():
    def wrong(chance, tokens):
        kept = chance.pick([1, 2]) + 1
        return (*tokens, *(chance.pick([1, len(tokens) + i + 1]) for i in range(kept)))

    assert law_of_process(wrong, (), is_long).distance(law_of_process(grow, (), is_long)) > 0


def test_equal_states_are_merged_and_each_is_enumerated_once():
    asked = Counter()

    def step(chance, state):
        if not asked[state]:
            asked[state] = 0
        asked[state] += 1
        number, total = state
        return number + 1, total + chance.flip(THIRD)

    found = law_of_process(step, (0, 0), lambda state: state[0] == 12)
    assert asked == {(number, total): 2 for number in range(12) for total in range(number + 1)}, (
        "two paths each"
    )
    assert found[(12, 12)] == THIRD**12
    assert found == law(lambda chance: (12, sum(chance.flip(THIRD) for _ in range(12))))


def test_a_state_that_is_met_again_later_is_not_enumerated_again():
    runs = Counter()

    def step(chance, state):
        runs[state] += 1
        return 1 - state if chance.flip(Fraction(9, 10)) else "home"

    with pytest.raises(RuntimeError, match=r"can still go on after 50 steps"):
        law_of_process(step, 0, lambda state: state == "home", max_steps=50)
    assert runs == {0: 2, 1: 2}


def test_a_process_that_has_stopped_takes_no_step():
    def never(chance, state):
        raise AssertionError("a step was taken")

    assert law_of_process(never, "here", lambda state: True) == {"here": 1}
    assert law_of_process(never, "here", lambda state: True, max_steps=1) == {"here": 1}


def test_steps_are_counted():
    def step(chance, state):
        return state + 1 + chance.flip(HALF)

    until = range(3, 9).__contains__
    assert law_of_process(step, 0, until, max_steps=3) == {3: Fraction(5, 8), 4: Fraction(3, 8)}
    with pytest.raises(RuntimeError, match=r"^the process can still go on after 2 steps; [^\n]*$"):
        law_of_process(step, 0, until, max_steps=2)


def test_the_paths_of_all_steps_are_counted_together():
    def count(chance, state):
        chance.pick([1, 1, 1])
        return state + 1

    assert law_of_process(count, 0, lambda state: state == 4, max_paths=12) == {4: 1}
    with pytest.raises(TooManyPathsError, match="more than 11 paths"):
        law_of_process(count, 0, lambda state: state == 4, max_paths=11)
    with pytest.raises(TooManyPathsError, match="more than 2 paths"):
        law_of_process(count, 0, lambda state: state == 4, max_paths=2)


def test_a_process_in_floats_is_float_and_near():
    def step(chance, tokens):
        return (*tokens, chance.pick([0.1, 0.2, 0.7]))

    found = law_of_process(step, (), lambda tokens: len(tokens) == 3)
    exact = law_of_process(
        lambda chance, tokens: (*tokens, chance.pick([1, 2, 7])), (), lambda tokens: len(tokens) == 3
    )
    assert not found.exact
    assert exact.exact
    assert 0 < found.distance(exact) < 1e-15


@pytest.mark.parametrize(("arithmetic", "bits"), [("float64", 53), ("float32", 24), ("float16", 11)])
def test_a_process_of_the_float_code(arithmetic, bits):
    def step(chance, tokens):
        return (*tokens, chance.flip(THIRD))

    found = law_of_process(step, (), lambda tokens: len(tokens) == 2, arithmetic=arithmetic)
    accepted = Fraction(-(-(2**bits) // 3), 2**bits)
    assert found.exact
    assert found[(True, True)] == accepted**2 != Fraction(1, 9)


def test_progress_of_a_process_is_the_mass_that_has_stopped():
    calls = []

    def step(chance, state):
        return "stopped" if chance.flip(THIRD) else state + 1

    law_of_process(
        step,
        0,
        lambda state: state in ("stopped", 3),
        progress=lambda covered, paths: calls.append((covered, paths)),
    )
    assert calls == [(0.0, 2), (1 / 3, 4), (5 / 9, 6)]


def test_progress_of_rounded_shares_is_held_at_one():
    """A mass of 1/5 in floats is a little more: 25 paths of two such answers sum to 1 + 2**-52."""

    def step(chance, state):
        if state == "start":
            return "rare" if chance.flip(1e-300) else "usual"
        if state == "usual":
            chance.pick([1.0] * 5)
            chance.pick([1.0] * 5)
            return "done"
        return {"rare": "rarer", "rarer": "done"}[state]

    def is_done(state):
        return state == "done"

    calls = []
    found = law_of_process(step, "start", is_done, progress=lambda covered, paths: calls.append(covered))
    assert found["done"] == 1 + 2.0**-52
    assert calls == [0.0, 0.0, 0.0, 1.0]


def test_an_unhashable_state_is_named():
    with pytest.raises(TypeError, match=re.escape("[] cannot be an outcome")):
        law_of_process(lambda chance, state: state, [], lambda state: False)
    with pytest.raises(TypeError, match=re.escape("[1] cannot be an outcome")):
        law_of_process(lambda chance, state: [1], (), lambda state: False)


def test_a_table_of_one_outcome_too_many_says_so():
    some = {i: Fraction(1, 21) for i in range(21)}
    assert "1 more" in Law(some)._repr_html_()
    assert "more" not in Law({i: Fraction(1, 20) for i in range(20)})._repr_html_()


def test_floats_are_shown_to_six_digits():
    assert repr(Law({0: 1 / 3, 1: 2 / 3})) == "Law({1: 0.666667, 0: 0.333333}, float)"


def test_as_many_steps_as_allowed_may_be_needed():
    def step(chance, state):
        return state + 1

    assert law_of_process(step, 0, lambda state: state == 2, max_steps=2) == {2: 1}
    assert law_of_process(step, 0, lambda state: state == 0, max_steps=0) == {0: 1}
    with pytest.raises(RuntimeError, match="after 0 steps"):
        law_of_process(step, 0, lambda state: state == 1, max_steps=0)
