"""Decoding on the clock: a clock of our own, so that every time is known beforehand."""

import math
from functools import partial
from itertools import count

import numpy as np
import pytest

from plain_llama import config_of, weights_of
from speculative import draft, temperature, verify
from speculative.bench import (
    Comparison,
    Contender,
    Costs,
    Difference,
    Measured,
    Race,
    Spread,
    compare_greedy,
    costs,
    excerpts,
    measure,
    race,
)
from speculative.distribution import point_mass
from speculative.draft import NO_DRAFT, Draft, Drafter
from speculative.metrics import Statistics
from speculative.model import CachedLlama, Llama
from speculative.model.tokens import common
from speculative.oracle import Oracle, from_probs

V = 5
COUNTING = tuple(i % V for i in range(200))  # what the target says: the next number
ROW, MORE_ROWS = 1.0, 0.125  # seconds of a pass over one row, and of each row more
DRAFT, VERIFY = 0.25, 0.0625  # seconds to draft a token, and of a verification


class Machine:
    """A clock that only models move, and a target on it that remembers what it has read."""

    def __init__(self, reading=0.0):
        self.now, self.reading, self.passes = 0.0, reading, []
        self.read, self.drafter_read = (), ()
        self.target = Oracle(self.row, V, self.rows)

    def clock(self):
        return self.now

    def row(self, context):
        return self.rows(context, (), ())[0]

    def rows(self, context, tokens, parents):
        unread = len(context) - common(self.read, context)
        self.read = context + tuple(tokens)
        self.passes.append((len(context), len(tokens)))
        self.now += ROW + MORE_ROWS * len(tokens) + self.reading * max(0, unread - 1)
        return [point_mass((last + 1) % V, V) for last in (context[-1], *tokens)]

    def verify(self, chance, drafted, target_probs):
        self.now += VERIFY
        return verify.token(chance, drafted, target_probs)

    def contender(self, num_draft_tokens=3, wrong=()):
        """A drafter that counts on, but for the places where it says something else."""

        def propose(chance, context, most):
            unread = len(context) - common(self.drafter_read, context)
            self.now += DRAFT * most + self.reading * max(0, unread - 1)
            self.drafter_read = context
            tokens = tuple(
                (context[-1] + i + (1 if len(context) + i - 1 in wrong else 0)) % V
                for i in range(1, most + 1)
            )
            self.drafter_read += tokens
            return Draft(tokens, tuple(point_mass(token, V) for token in tokens))

        return Contender(lambda: (self.target, Drafter(propose, V)), num_draft_tokens, self.verify)


def test_all_times_are_those_of_the_machine():
    machine = Machine()
    found = measure(
        machine.target,
        machine.contender(),
        [COUNTING[:4], COUNTING[2:6]],
        [COUNTING[i : 16 + i] for i in range(3)],
        max_new_tokens=12,
        clock=machine.clock,
    )
    a_round = ROW + 3 * MORE_ROWS + 3 * DRAFT + VERIFY
    assert found.race.statistics.tokens_per_target_pass == 4
    assert found.race.statistics.acceptance_by_position == (1, 1, 1)
    assert found.race.plain_seconds == Spread(ROW, ROW, ROW)
    assert found.race.seconds.median == pytest.approx(a_round / 4)
    assert found.race.speedup.median == pytest.approx(4 * ROW / a_round)
    assert found.costs == Costs(ROW, {4: ROW + 3 * MORE_ROWS}, 3 * DRAFT, VERIFY)
    assert found.cost == DRAFT / ROW
    assert found.verification == ROW + 3 * MORE_ROWS + VERIFY
    assert found.round_cost == a_round / ROW
    assert found.predicted == pytest.approx(found.race.speedup.median)
    assert found.error == pytest.approx(0, abs=1e-12)


def test_rejections_cost_rounds_in_the_race_and_in_the_forecast():
    """Every fifth place is drafted wrongly: rounds of different lengths, and a short one at the end."""
    machine = Machine()
    wrong = set(range(0, 200, 5))
    found = measure(
        machine.target,
        machine.contender(wrong=wrong),
        [COUNTING[:4]],
        [COUNTING[:44]] * 3,
        max_new_tokens=40,
        clock=machine.clock,
    )
    assert 1 < found.race.statistics.tokens_per_target_pass < 4
    assert min(found.race.drafted) < 3
    assert found.race.speedup.median > 1
    assert found.error == pytest.approx(0, abs=0.01)


def test_reading_the_prompt_is_left_out_of_both_ways_and_of_the_costs():
    """Prompts in turn, so that each is read anew."""
    prompts, texts = [COUNTING[:64], COUNTING[1:65]], [COUNTING[i : 80 + i] for i in (0, 3, 1)]
    found = []
    for reading in (0, 100):
        machine = Machine(reading)
        found.append(
            measure(
                machine.target, machine.contender(), prompts, texts, max_new_tokens=16, clock=machine.clock
            )
        )
    assert found[0].race.speedup.median == pytest.approx(found[1].race.speedup.median)
    assert found[0].costs.plain == pytest.approx(found[1].costs.plain)
    assert found[0].costs.passes == pytest.approx(found[1].costs.passes)
    assert found[0].costs.drafting == pytest.approx(found[1].costs.drafting)


@pytest.mark.parametrize("with_costs", [False, True])
def test_either_way_is_first_as_often(with_costs):
    machine = Machine()
    asked = []

    def rows(context, tokens, parents):
        if tokens:
            asked.append("fast")
        return machine.rows(context, tokens, parents)

    def row(context):
        if len(context) >= 5:  # not the prompt, which is read before the clock starts
            asked.append("plain")
        return machine.row(context)

    contender = machine.contender()
    faster = contender._replace(
        make=lambda: (Oracle(machine.row, V, rows), contender.make()[1]), num_draft_tokens=3
    )
    prompts, options = [COUNTING[:5]] * 3, {"max_new_tokens": 4, "repeats": 4, "clock": machine.clock}
    if with_costs:
        measure(Oracle(row, V), faster, prompts, [COUNTING[:6]] * 4, **options)
        del asked[0], asked[15], asked[30], asked[45]  # one plain token of the text before each turn
        del asked[60:]  # passes over as many rows as the race had
    else:
        race(Oracle(row, V), faster, prompts, **options)
    # of each pair: four plain tokens, and one fast round
    assert len(asked) == 12 * 5
    assert asked[::5].count("plain") == asked[::5].count("fast") == 6
    assert {asked[0], asked[5]} == {asked[0], asked[15]} == {"plain", "fast"}  # by prompt, and by repeat


@pytest.mark.parametrize("busy", range(3))
def test_a_repeat_in_which_the_machine_was_busy_counts_little(busy):
    """One of three repeats, or of three texts, takes far longer at every look at the clock."""
    prompts, texts = [COUNTING[i : i + 4] for i in range(4)], [COUNTING[i : i + 16] for i in range(3)]

    def measured(looks_of_a_repeat=None):
        machine, looks = Machine(), []

        def clock():
            looks.append(None)
            if looks_of_a_repeat and (len(looks) - 1) // looks_of_a_repeat == busy:
                machine.now += 1000 * len(looks)
            return machine.now

        raced = race(machine.target, machine.contender(), prompts, max_new_tokens=12, clock=clock)
        of_race = len(looks)
        looks.clear()
        parts = costs(machine.target, machine.contender(), texts, start=4, clock=clock)
        return raced, parts, of_race // 3, len(looks) // 3

    calm, calm_parts, of_race, of_costs = measured()
    assert measured(of_race)[0] == calm
    found = measured(of_costs)[1]
    assert found.passes == pytest.approx(calm_parts.passes)
    assert found[0] == pytest.approx(calm_parts.plain)
    assert found[2:] == pytest.approx(calm_parts[2:])
    assert calm_parts == Costs(ROW, {4: ROW + 3 * MORE_ROWS}, 3 * DRAFT, VERIFY)


def test_speedups_are_taken_pair_by_pair():
    """The machine is slow for three decodes of six: a plain one, and two others of which one is beside it."""
    machine = Machine()
    looks, begun_at, lost = count(), [0.0], [0.0]

    def clock():
        decode, ended = divmod(next(looks), 2)
        if ended and decode in {2, 3, 4}:
            lost[0] += 9 * (machine.now - begun_at[0])
        begun_at[0] = machine.now
        return machine.now + lost[0]

    found = race(machine.target, machine.contender(), [COUNTING[:4]], max_new_tokens=12, clock=clock)
    a_round = ROW + 3 * MORE_ROWS + 3 * DRAFT + VERIFY
    assert found.plain_seconds.median == ROW
    assert found.seconds.median == pytest.approx(10 * a_round / 4)
    assert found.speedup.median == pytest.approx(4 * ROW / a_round)


def test_quartiles_are_over_prompts():
    """Five prompts, each with one wrong draft more in what comes behind it."""
    machine = Machine()
    wrong = {100 * i + 6 + j for i in range(5) for j in range(i)}
    prompts = [tuple(j % V for j in range(100 * i + 4)) for i in range(5)]
    alone = [
        race(machine.target, machine.contender(wrong=wrong), [each], max_new_tokens=12, clock=machine.clock)
        for each in prompts
    ]
    slowest_first = sorted(each.speedup.median for each in alone)
    assert len(set(slowest_first)) == 5
    found = race(
        machine.target, machine.contender(wrong=wrong), prompts, max_new_tokens=12, clock=machine.clock
    )
    assert found.speedup == pytest.approx(slowest_first[1:4])
    assert found.seconds == pytest.approx(sorted(each.seconds.median for each in alone)[1:4])
    assert str(Spread(1, 2, 3.456)) == "2.00 [1.00, 3.46]"


def sampled(strength=0.7):
    target = from_probs(lambda context: np.full(V, 0.2), V)
    drafting = from_probs(lambda context: np.array([strength, *[(1 - strength) / 4] * 4]), V)
    return target, drafting


def test_repeats_are_other_decodes_and_so_are_other_seeds():
    """Rows that the drafter kept from the same decode would be there already."""
    target, drafting = sampled()
    contender = Contender(lambda: (target, draft.model(drafting)), 3)
    once, again, twice, other = (
        race(target, contender, [(0, 1), (2, 3)], max_new_tokens=20, repeats=repeats, seed=seed)
        for repeats, seed in ((1, 0), (1, 0), (2, 0), (1, 1))
    )
    assert once.statistics == again.statistics
    assert twice.statistics.accepted != 2 * once.statistics.accepted
    assert other.statistics != once.statistics


def test_each_prompt_has_random_numbers_of_its_own():
    target, drafting = sampled()
    contender = Contender(lambda: (target, draft.model(drafting)), 3)
    one, two, other = (
        race(target, contender, prompts, max_new_tokens=20, repeats=1).statistics
        for prompts in ([(0, 1)], [(0, 1), (0, 1)], [(0, 1), (2, 3)])
    )
    assert two.passed != tuple(2 * times for times in one.passed)
    assert other == two  # the laws do not depend on the prompt


def test_prompts_and_texts_are_any_sequences_of_tokens():
    machine = Machine()
    as_tuples = race(machine.target, machine.contender(), [COUNTING[:4]], clock=machine.clock)
    for kind in (list, np.array):
        given = map(kind, [COUNTING[:4]])
        assert race(machine.target, machine.contender(), given, clock=machine.clock) == as_tuples
    of_a_list = costs(machine.target, machine.contender(), [[*COUNTING[:16]]], start=4, clock=machine.clock)
    of_a_tuple = costs(machine.target, machine.contender(), [COUNTING[:16]], start=4, clock=machine.clock)
    assert of_a_list == of_a_tuple
    ((piece,),) = (excerpts(np.arange(3), 1, 3),)
    assert [type(token) for token in piece] == [int] * 3


def test_both_ways_have_read_the_prompt_when_the_clock_starts():
    """Also where the target that decodes plainly has a cache of its own."""
    log = []

    def recorded(name):
        def row(context):
            log.append((name, len(context)))
            return np.full(V, 0.2)

        return from_probs(row, V)

    plain, fast = recorded("plain"), recorded("fast")
    contender = Contender(lambda: (fast, draft.model(sampled()[1])), 3)

    def clock():
        log.append("clock")
        return float(len(log))

    race(plain, contender, [(0, 1, 2)] * 2, max_new_tokens=4, repeats=1, clock=clock)
    asked, stopped = set(), True
    for entry in log:
        if entry != "clock":
            asked.add(entry)
            continue
        if stopped:  # it starts now
            assert {("plain", 2), ("fast", 2)} <= asked
        asked, stopped = set(), not stopped
    assert log.count("clock") == 8


def test_each_text_is_gone_along_once_whatever_the_repeats():
    machine, asked = Machine(), []

    def row(context):
        asked.append(context)
        return machine.row(context)

    texts = [COUNTING[i : 8 + i] for i in range(3)]
    options = {"max_new_tokens": 2, "repeats": 2, "clock": machine.clock}
    measure(Oracle(row, V), machine.contender(), [COUNTING[4:8]], texts, **options)
    assert [asked.count(text[:7]) for text in texts] == [1, 1, 1]


def test_rounds_without_drafts_are_priced_as_such():
    """A drafter that has something to say at every other place only."""
    machine = Machine()
    contender = machine.contender()
    counts = contender.make()[1].propose

    def sometimes(chance, context, most):
        return counts(chance, context, most) if len(context) % 2 else NO_DRAFT

    silent = contender._replace(make=lambda: (machine.target, sometimes))
    found = measure(
        machine.target, silent, [COUNTING[:4]], [COUNTING[:44]] * 3, max_new_tokens=40, clock=machine.clock
    )
    assert found.costs.passes[1] == ROW
    assert found.costs.passes[4] == ROW + 3 * MORE_ROWS
    assert set(found.race.drafted) >= {0, 3}
    assert found.error == pytest.approx(0, abs=0.01)


def test_each_round_is_priced_by_its_rows_and_what_was_not_timed_is_refused():
    parts = Costs(1.0, {1: 1.0, 3: 2.0}, 0.5, 0.25)
    assert parts.verification([0]) == 1.25
    assert parts.verification([0, 2]) == 1.75
    assert parts.verification([2, 0, 2, 2]) == 2.0
    with pytest.raises(ValueError, match=r"^no pass over 2 rows was timed, only over 1, 3: give costs rows="):
        parts.verification([1, 2, 7])


@pytest.mark.parametrize(("length", "passes"), [(44, 6), (10, 1)])
def test_rows_that_no_round_had_are_timed_by_themselves(length, passes):
    """Also where the text is no longer behind its prompt: then from further in front."""
    machine = Machine(reading=100)
    texts = [COUNTING[:length], COUNTING[3 : length + 3]]
    parts = costs(machine.target, machine.contender(), texts, start=4, rows=[6, 4], clock=machine.clock)
    assert parts.passes[4] == ROW + 3 * MORE_ROWS
    assert parts.passes[6] == ROW + 5 * MORE_ROWS
    assert machine.passes.count((4, 5)) == 2
    assert sum(drafted == 5 for _, drafted in machine.passes) == 2 * passes
    with pytest.raises(
        ValueError, match=rf"^a pass over 99 rows along a text of {length} tokens: give longer"
    ):
        costs(machine.target, machine.contender(), texts, start=4, rows=[99], clock=machine.clock)


def test_rows_that_only_the_race_had_are_timed_too():
    """The drafter drafts three tokens behind the texts' contexts, and two behind the prompt's."""
    machine = Machine()
    counts = machine.contender().make()[1].propose

    def propose(chance, context, most):
        return counts(chance, context, min(most, 2 if context[0] else 3))

    contender = machine.contender()._replace(make=lambda: (machine.target, Drafter(propose, V)))
    found = measure(
        machine.target,
        contender,
        [COUNTING[1:5]],
        [COUNTING[:12]],
        max_new_tokens=6,
        repeats=1,
        clock=machine.clock,
    )
    assert set(found.race.drafted) == {2}
    assert found.costs.passes == {4: ROW + 3 * MORE_ROWS, 3: ROW + 2 * MORE_ROWS}
    assert found.verification == ROW + 2 * MORE_ROWS + VERIFY


def test_the_forecast_is_tokens_over_what_a_round_costs():
    spread = Spread(2.0, 2.0, 2.0)
    counted = Statistics(10, 25, 30, 15, (10,), (8,))
    found = Measured(Race(spread, spread, spread, counted, (3,) * 10), Costs(2.0, {4: 2.5}, 0.9, 0.1), 3)
    assert found.predicted == pytest.approx(2.5 / ((2.5 + 0.9 + 0.1) / 2.0))
    assert found.error == pytest.approx(found.predicted / 2 - 1)
    assert found.cost == pytest.approx(0.9 / 3 / 2.0)
    assert found.verification == pytest.approx(1.3)


def test_the_loop_is_timed_without_the_models():
    machine = Machine()

    def slow(chance, drafted, target_probs):
        machine.now += 10
        return verify.token(chance, drafted, target_probs)

    contender = machine.contender()._replace(verify=slow)
    parts = costs(machine.target, contender, [COUNTING[:16]], start=4, clock=machine.clock)
    assert parts.loop == 10
    assert parts.drafting == 3 * DRAFT
    assert machine.passes  # the models were asked, and only before


def test_the_loop_is_timed_on_the_drafts_and_rows_that_were_met():
    """A verification takes a second for each draft that it accepts."""
    machine = Machine()

    def counted(chance, drafted, target_probs):
        verdict = verify.token(chance, drafted, target_probs)
        machine.now += verdict.accepted
        return verdict

    contender = machine.contender(wrong={6})._replace(verify=counted)
    for length in (11, 13):  # of the longer text a round is left that asks for one draft only
        parts = costs(machine.target, contender, [COUNTING[:length]], start=4, clock=machine.clock)
        assert parts.loop == 5 / 2  # 2 of 3, and 3 of 3


def test_a_clock_that_only_ticks_when_it_is_looked_at_shows_each_part_once():
    machine, ticks = Machine(), count()
    parts = costs(
        machine.target, machine.contender(), [COUNTING[:16]], start=4, clock=lambda: float(next(ticks))
    )
    assert parts == Costs(1 + 1 / 12, {4: 1}, 1, 1 / 3)  # 12 tokens, or 3 rounds


@pytest.mark.parametrize(
    ("make_drafter", "rule"),
    [
        (draft.model, verify.token),
        (draft.model, verify.block),
        (draft.model, verify.greedy_block),
        (partial(draft.best_first, num_nodes=5), verify.recursive),
        (partial(draft.tree, branching=(2, 2)), verify.traversal),
        (partial(draft.paths, num_paths=2), verify.multipath),
    ],
)
def test_a_real_model_with_chains_and_trees(make_drafter, rule):
    config = config_of(vocab_size=V, bos_token_id=0)
    target, drafting = (CachedLlama(Llama.of(config, weights_of(config, seed))).oracle for seed in (0, 1))
    contender = Contender(lambda: (target, make_drafter(drafting)), 2, rule)
    found = measure(
        target, contender, [(1, 2, 3), (3, 1, 2)], [(1, 2, 3, 4, 1, 2, 0)], max_new_tokens=6, repeats=1
    )
    assert found.race.statistics.tokens == 12
    assert found.predicted > 0
    assert min(found.costs.plain, found.costs.drafting, found.costs.loop, *found.costs.passes.values()) > 0
    assert max(found.costs.passes) > 2


def test_greedy_texts_are_compared_token_for_token():
    machine = Machine()
    prompts = [COUNTING[:4], COUNTING[:6]]
    same = compare_greedy(machine.target, machine.contender(wrong={7}), prompts, max_new_tokens=20)
    assert same == Comparison(40, ())


def near_tie(odd):
    """A law that says token 1 by a little, less and less, and in a pass after `odd` tokens token 2."""

    def row(context, sign=1):
        little = sign * 1e-6 / len(context)
        return np.array([0.1, 0.3 + little, 0.3 - little, 0.2, 0.1])

    def rows(context, tokens, parents):
        return [row(context, -1 if len(context) == odd else 1) for _ in range(len(tokens) + 1)]

    return Oracle(row, V, rows)


def test_a_difference_is_found_with_the_gap_of_its_logits():
    oracle = near_tie(odd=7)
    contender = Contender(lambda: (temperature(0)(oracle), lambda chance, context, most: NO_DRAFT), 2)
    found = compare_greedy(oracle, contender, [(1, 1), (1, 1, 1)], max_new_tokens=9)
    assert (found.tokens, found.identical) == (18, 16)
    assert [each[:4] for each in found.differences] == [(0, 5, 1, 2), (1, 4, 1, 2)]
    assert found.differences[0].gap == pytest.approx(2e-6 / 7 / 0.3, rel=1e-3)


def test_another_model_differs_by_infinitely_much_where_it_says_what_cannot_be():
    """After each difference it is compared behind the plain text, up to the last token."""
    counting, still = Machine().target, from_probs(lambda context: point_mass(0, V), V)
    contender = Contender(lambda: (still, lambda chance, context, most: NO_DRAFT), 2)
    found = compare_greedy(counting, contender, [(0, 1)], max_new_tokens=6)
    assert found == Comparison(
        6,
        tuple(Difference(0, at, plain, 0, math.inf) for at, plain in enumerate((2, 3, 4, 0, 1, 2)) if plain),
    )
    assert found.identical == 1


def test_drafts_that_are_wrong_are_no_differences_and_a_rule_that_keeps_them_is_found_out():
    machine = Machine()

    def trusting(chance, drafted, target_probs):
        return verify.token(chance, drafted, drafted.probs + tuple(target_probs[-1:]))

    contender = machine.contender(wrong={7, 10, 11})
    assert compare_greedy(machine.target, contender, [COUNTING[:4]], max_new_tokens=20) == Comparison(20, ())
    found = compare_greedy(
        machine.target, contender._replace(verify=trusting), [COUNTING[:4]], max_new_tokens=20
    )
    assert [each.position for each in found.differences] == [6, 7]  # at 3 was a bonus


def test_excerpts_are_pieces_of_the_text_at_places_of_their_own():
    text = list(range(50))
    pieces = excerpts(text, 41, 10, seed=3)
    assert sorted(pieces) == [tuple(range(start, start + 10)) for start in range(41)]
    assert pieces == excerpts(text, 41, 10, seed=3)
    assert pieces != excerpts(text, 41, 10, seed=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: excerpts(range(50), 42, 10),
            "a text of 50 tokens does not have 42 places for pieces of 10: ",
        ),
        (lambda m: race(m.target, m.contender(), []), "no prompts: give prompts of two tokens or more"),
        (
            lambda m: race(m.target, m.contender(), [(1, 2), (1,)]),
            "a prompt of 1 tokens: give prompts of two",
        ),
        (
            lambda m: race(m.target, m.contender(), [(1, 2)], max_new_tokens=0),
            "max_new_tokens = 0 is too small",
        ),
        (lambda m: race(m.target, m.contender(), [(1, 2)], repeats=0), "repeats = 0 is too small"),
        (lambda m: costs(m.target, m.contender(), [(1, 2)], start=2), "texts of 2 tokens with start=2: give"),
        (
            lambda m: costs(m.target, m.contender(), [(1, 2, -1)], start=2),
            r"token -1 in text \(1, 2, -1\) is",
        ),
        (lambda m: race(m.target, m.contender(), [(1, V)]), r"token 5 in prompt \(1, 5\) is outside"),
        (lambda m: race(m.target, m.contender(), [5]), "the prompt 5 is not made of tokens: give a tuple"),
        (lambda m: costs(m.target, m.contender(), [(1, 2, 3)], start=-1), "start = -1 is too small"),
        (lambda m: costs(m.target, m.contender(), [], start=2), "texts of 0 tokens with start=2: give"),
        (lambda m: compare_greedy(m.target, m.contender(), []), "no prompts"),
        (
            lambda m: measure(m.target, m.contender(), [(1, 2), (1,)], [(1, 2, 3)]),
            "a prompt of 1 tokens: give prompts",
        ),
        (lambda m: measure(m.target, m.contender(), [(1, 2)], []), "texts of 0 tokens with start=2: give"),
        (lambda m: measure(m.target, m.contender(), [(1, 2)], [(1, 2, 3)], repeats=0), "repeats = 0 is too"),
        (
            lambda m: measure(m.target, m.contender(), [(1, 2)], [(1, 2, 3)] * 2, max_new_tokens=4),
            "2 texts for 3 repeats: give one for each or more",
        ),
        (
            lambda m: measure(m.target, m.contender(0), [(1, 2)], [(1, 2, 3)]),
            "num_draft_tokens = 0 is too small",
        ),
        (
            lambda m: costs(m.target, m.contender(), [(1, 2, 3)], start=2, rows=[0]),
            "rows = 0 is too small",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call(Machine())


@pytest.mark.parametrize("what", ["race", "costs"])
def test_the_target_has_room_for_its_limit_and_no_more(what):
    def decoded(new_tokens):
        target = from_probs(lambda context: np.full(V, 0.2), V, context_limit=7)
        contender = Contender(lambda: (target, draft.model(target)), 2)
        if what == "race":
            return race(target, contender, [(1, 2, 3)], max_new_tokens=new_tokens, repeats=1)
        return costs(target, contender, [(1, 2, 3, *(0,) * new_tokens)], start=3, rows=[6])

    decoded(5)
    with pytest.raises(
        ValueError, match=r"^prompts and new tokens make 9 together, and the target's limit is 7:"
    ):
        decoded(6)
