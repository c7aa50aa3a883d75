"""The walker: it visits every path once, in order, with its probability, and notices what is not pure."""

import contextlib
import math
import pickle
from collections import Counter
from fractions import Fraction
from itertools import chain, count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted import brute_force
from speculative import CannotEnumerateError, ImpureProgramError, TooManyPathsError, law, paths
from speculative.chance import Sampler
from speculative.replay import PROGRESS_EVERY, Run, mass, split, total, walk

THIRD = Fraction(1, 3)

# A program as a tree: a leaf is its outcome, a node (question, subtrees).
leaves = st.integers(0, 5)
probabilities = st.fractions(0, 1, max_denominator=12)
weights = st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any)


def flips(subtrees):
    return st.tuples(probabilities, st.tuples(subtrees, subtrees))


def picks(subtrees):
    return weights.flatmap(lambda row: st.tuples(st.just(tuple(row)), st.tuples(*[subtrees] * len(row))))


trees = st.recursive(leaves, lambda subtrees: flips(subtrees) | picks(subtrees), max_leaves=20)


def descend(chance, tree):
    """Run the program that a tree stands for."""
    while isinstance(tree, tuple):
        question, subtrees = tree
        if isinstance(question, tuple):
            tree = subtrees[chance.pick(question)]
        else:
            tree = subtrees[0] if chance.flip(question) else subtrees[1]
    return tree


def leaves_in_order(tree, probability=Fraction(1)):
    """Return (outcome, probability) of every leaf with mass, by recursion over the tree."""
    if not isinstance(tree, tuple):
        return [(tree, probability)]
    question, subtrees = tree
    if isinstance(question, tuple):
        shares = [Fraction(weight, sum(question)) for weight in question]
    else:
        shares = [question, 1 - question]
    return [
        leaf
        for share, subtree in zip(shares, subtrees, strict=True)
        if share
        for leaf in leaves_in_order(subtree, probability * share)
    ]


def run(program, *args, arithmetic=None, **kwargs):
    return Run(program, args, kwargs, arithmetic)


def walked(the_run, prefix=()):
    return [(outcome, mass(nodes)) for outcome, nodes in walk(the_run, prefix)]


# ---------------------------------------------------------------- every path, once, in order


@given(trees)
def test_paths_and_law_are_those_of_a_recursion_over_the_tree(tree):
    expected = leaves_in_order(tree)
    assert walked(run(descend, tree)) == expected
    assert [(path.outcome, path.probability) for path in paths(descend, tree)] == expected
    summed = Counter()
    for outcome, probability in expected:
        summed[outcome] += probability
    found = law(descend, tree)
    assert found == summed
    assert found.exact
    assert list(found) == list(summed), "outcomes in the order met"


def test_a_walk_that_drops_a_path_would_be_reported():
    tree = (THIRD, (0, ((1, 0, 2), (1, 2, 3))))
    expected = leaves_in_order(tree)
    assert expected == [(0, THIRD), (1, Fraction(2, 9)), (3, Fraction(4, 9))]
    assert walked(run(descend, tree))[:-1] != expected


@given(trees)
def test_a_program_runs_once_a_path(tree):
    runs = count()

    def program(chance):
        next(runs)
        return descend(chance, tree)

    total(run(program))
    assert next(runs) == len(leaves_in_order(tree))


@given(trees, st.integers(1, 12))
def test_a_split_parts_all_paths_in_order(tree, at_least):
    prefixes = split(run(descend, tree), at_least)
    parts = [walked(run(descend, tree), prefix) for prefix in prefixes]
    assert all(parts)
    assert list(chain(*parts)) == leaves_in_order(tree)
    assert len(prefixes) >= min(at_least, len(leaves_in_order(tree)))


def test_a_split_grows_no_further_than_asked():
    def program(chance):
        return sum(chance.flip(THIRD) for _ in range(10))

    assert split(run(program), 4) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert split(run(program), 5) == [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    assert split(run(program), 1) == [()]
    assert split(run(lambda chance: "certain"), 9) == [()]
    assert split(run(lambda chance: chance.flip(1)), 9) == [()], "a certain answer splits nothing"


def test_certain_answers_before_a_split_cost_one_replay():
    replays = []

    def program(chance):
        replays.append(1)
        for _ in range(200):
            chance.pick([1])
        return chance.flip(THIRD)

    assert split(run(program), 2) == [(*(0,) * 200, 0), (*(0,) * 200, 1)]
    assert len(replays) == 1


# ---------------------------------------------------------------- what a program cannot do


@pytest.mark.parametrize("question", [lambda chance: chance.flip(2), lambda chance: chance.pick([0, -1])])
def test_an_error_from_chance_cannot_be_swallowed(question):
    def program(chance):
        with contextlib.suppress(ValueError):
            question(chance)
        return chance.flip(THIRD)

    with pytest.raises(ValueError, match=r"not a probability|weights must be"):
        list(walk(run(program)))


def test_nor_can_impurity():
    calls = []

    def program(chance):
        calls.append(1)
        with contextlib.suppress(ImpureProgramError):
            chance.flip(Fraction(1, len(calls) + 1))
        return chance.flip(THIRD)

    with pytest.raises(ImpureProgramError):
        list(walk(run(program)))


def test_a_path_without_an_end_is_given_up():
    def program(chance):
        while chance.flip(Fraction(1, 2)):
            pass

    with pytest.raises(TooManyPathsError, match="more than 10000 questions on one path: bound"):
        next(walk(run(program)))


def test_a_generator_is_no_outcome():
    with pytest.raises(TypeError, match=r"return what it yields, tuple"):
        total(run(lambda chance: (chance.flip(THIRD) for _ in range(2))))


def test_numpy_bools_are_weights_like_ints():
    [(_, nodes), _] = [
        (outcome, list(nodes)) for outcome, nodes in walk(run(lambda c: c.pick([np.True_, np.True_])))
    ]
    assert nodes[0].probabilities == [Fraction(1, 2)] * 2


def test_the_walker_holds_one_path():
    for _, nodes in walk(run(lambda chance: sum(chance.flip(THIRD) for _ in range(8)))):
        assert [node.answers for node in nodes] == [[True, False]] * 8


# ---------------------------------------------------------------- rational in, rational out


@pytest.mark.parametrize(
    "question",
    [
        lambda chance: chance.flip(1),
        lambda chance: chance.flip(np.int64(0)),
        lambda chance: chance.flip(THIRD),
        lambda chance: chance.flip(True),
        lambda chance: chance.pick([1, 2, 0]),
        lambda chance: chance.pick(np.array([1, 2, 0])),
        lambda chance: chance.pick(np.array([0, 1], dtype=np.uint8)),
        lambda chance: chance.pick(np.array([THIRD, 2 * THIRD], dtype=object)),
        lambda chance: chance.pick((np.int32(3), THIRD)),
        lambda chance: chance.pick([10**30, 1]),
    ],
)
def test_integers_and_fractions_give_fractions(question):
    found = law(question)
    assert found.exact
    assert all(type(probability) is Fraction for probability in found.values())
    assert sum(found.values()) == 1


def test_the_shares_of_integers_are_exact():
    assert law(lambda chance: chance.pick(np.array([1, 2, 0]))) == {0: THIRD, 1: 2 * THIRD}
    assert law(lambda chance: chance.pick([10**30, 1])) == {
        0: Fraction(10**30, 10**30 + 1),
        1: Fraction(1, 10**30 + 1),
    }


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
def test_a_float_makes_a_law_of_floats(kind):
    tenth = float(kind(0.1))
    expected = {True: tenth, False: 1 - tenth}
    found = law(lambda chance: chance.flip(kind(0.1)))
    assert found == expected
    assert not found.exact
    assert all(type(probability) is float for probability in found.values())
    for row in ([kind(0.25), kind(0.75)], np.array([0.25, 0.75], dtype=kind), [kind(1), 3]):
        assert law(lambda chance, row=row: chance.pick(row)) == {0: 0.25, 1: 0.75}


@pytest.mark.parametrize("certain", [1.0, 1 + 2.0**-52])
def test_a_certain_float_makes_the_law_float_too(certain):
    found = law(lambda chance: (chance.flip(certain), chance.flip(THIRD)))
    assert found == {(True, True): 1 / 3, (True, False): 2 / 3}
    assert not found.exact


def test_float_paths_are_added_without_rounding():
    weights = [0.1] * 10

    def program(chance):
        return chance.pick(weights) < 9 and chance.flip(0.3)

    found = law(program)
    exact = sum(Fraction(path.probability) for path in paths(program) if path.outcome)
    by_and_by = sum(path.probability for path in paths(program) if path.outcome)
    assert found[True] == float(exact)
    assert found[True] != by_and_by, "adding floats one by one would be seen"


# ---------------------------------------------------------------- what is not pure


def changing(*programs):
    """Return a program that is another one each time it runs."""
    order = count()

    def program(chance):
        return programs[min(next(order), len(programs) - 1)](chance)

    return program


def thrice(chance):
    return chance.flip(THIRD), chance.pick([1, 2]), chance.flip(THIRD)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            lambda chance: (chance.flip(THIRD), chance.pick([2, 1]), chance.flip(THIRD)),
            r"question 2 was \[1, 2\]",
        ),
        (lambda chance: (chance.flip(THIRD), chance.pick([1, 2, 3]), chance.flip(THIRD)), "question 2"),
        (lambda chance: (chance.pick([1, 2]), chance.flip(THIRD), chance.flip(THIRD)), "question 1 was 1/3"),
        (lambda chance: (chance.flip(THIRD), chance.flip(THIRD)), r"question 2 was \[1, 2\] and is now 1/3"),
        (lambda chance: chance.flip(THIRD), "3 questions before and 1 now"),
        (lambda chance: None, "3 questions before and 0 now"),
        (lambda chance: (chance.flip(0.5), *thrice(chance)), "question 1 was 1/3 and is now 0.5"),
        (lambda chance: (chance.flip(THIRD), *thrice(chance)), r"question 2 was \[1, 2\] and is now 1/3"),
    ],
)
def test_another_question_after_the_same_answers_is_noticed(other, message):
    with pytest.raises(ImpureProgramError, match=message + ".*draw from `chance` only"):
        law(changing(thrice, other))
    assert law(changing(thrice, thrice)) == law(thrice)


def test_a_program_that_draws_by_itself_is_noticed():
    rng = np.random.default_rng(0)

    def program(chance):
        return chance.flip(rng.random()) and chance.flip(THIRD)

    with pytest.raises(ImpureProgramError, match="keeps state between runs or draws by itself"):
        law(program)


def test_a_row_that_is_changed_in_place_is_noticed():
    row = np.array([1, 2, 3])

    def program(chance):
        token = chance.pick(row)
        row[token] += 1
        return token

    with pytest.raises(ImpureProgramError, match=r"question 1 was \[1, 2, 3\] and is now \[2, 2, 3\]"):
        law(program)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda chance: None, "2 questions before and 0 now"),
        (lambda chance: chance.flip(THIRD), "2 questions before and 1 now"),
        (lambda chance: (chance.flip(THIRD), chance.flip(1)), "question 2 is now 1, with fewer answers"),
    ],
)
def test_a_subtree_that_is_no_longer_there_is_noticed(program, message):
    with pytest.raises(ImpureProgramError, match=message + ".*draw from `chance` only"):
        total(run(program), prefix=(0, 1))
    assert total(run(thrice), prefix=(0, 1)).masses == {
        (True, 1, True): Fraction(2, 27),
        (True, 1, False): Fraction(4, 27),
    }


# ---------------------------------------------------------------- limits, progress, errors


def coins(chance, number):
    return sum(chance.flip(Fraction(1, 2)) for _ in range(number))


def test_as_many_paths_as_allowed_and_no_more():
    assert total(run(coins, 6), max_paths=64).paths == 64
    with pytest.raises(TooManyPathsError, match=r"^more than 63 paths: make [^\n]*max_paths$"):
        total(run(coins, 6), max_paths=63)
    with pytest.raises(TooManyPathsError, match="more than 63 paths"):
        law(coins, 6, max_paths=63)
    assert law(coins, 6, max_paths=64)[0] == Fraction(1, 64)


def test_too_many_paths_are_noticed_before_they_are_walked():
    runs = count()

    def program(chance):
        next(runs)
        return coins(chance, 40)

    with pytest.raises(TooManyPathsError):
        law(program, max_paths=100)
    assert next(runs) == 101


def test_a_program_without_weights_is_refused():
    with pytest.raises(ValueError, match=r"^pick\(\[\]\): give a list"):
        total(run(lambda chance: chance.pick([])))


@pytest.mark.parametrize("error", [TooManyPathsError(7), CannotEnumerateError("sum()", "do not")])
def test_errors_pass_from_process_to_process(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_progress_is_the_probability_covered_and_the_paths_walked():
    calls = []
    total(run(coins, 12), progress=lambda covered, paths: calls.append((covered, paths)))
    assert calls == [(paths / 4096, paths) for paths in range(512, 4097, 512)]
    assert PROGRESS_EVERY == 512


@settings(max_examples=10)
@given(st.lists(st.integers(1, 1000).map(lambda n: n / 7), min_size=40, max_size=40))
def test_progress_never_passes_one(row):
    calls = []
    program = run(lambda chance: (chance.pick(row), chance.pick(row)))
    total(program, progress=lambda covered, paths: calls.append(covered))
    assert len(calls) == 40 * 40 // 512
    assert 0 < calls[0] <= calls[1] <= calls[2] <= 1


def test_progress_of_rounded_shares_is_held_at_one():
    row = [2.0] * 3 + [7.0] * (PROGRESS_EVERY - 3)
    assert sum(weight / sum(row) for weight in row) > 1, "rounded shares can add up to more"
    calls = []
    total(run(lambda chance: chance.pick(row)), progress=lambda covered, paths: calls.append(covered))
    assert calls == [1.0]


@pytest.mark.parametrize("outcome", [[1], {1: 2}, {1}, np.array([1]), ([1],)], ids=str)
def test_an_outcome_that_cannot_be_a_key_is_named(outcome):
    with pytest.raises(
        TypeError, match=r"cannot be an outcome \(unhashable type: .*\): return numbers"
    ) as refusal:
        law(lambda chance: outcome)
    assert repr(outcome) in str(refusal.value)
    with pytest.raises(TypeError, match="cannot be an outcome"):
        law(lambda chance: 0).map(lambda zero: outcome)


def test_an_error_of_the_program_comes_through():
    def program(chance):
        if not chance.flip(THIRD):
            raise ArithmeticError("the program's own")
        return 1

    with pytest.raises(ArithmeticError, match="the program's own"):
        law(program)


# ---------------------------------------------------------------- the float code


def test_another_arithmetic_is_refused():
    with pytest.raises(
        ValueError, match=r"^arithmetic='float8': write one of float64, float32, float16, or None$"
    ):
        law(coins, 1, arithmetic="float8")


def sampled(question):
    """Return a question of a program as a function of a generator that draws on the grid of float16."""
    return lambda rng: question(Sampler(rng, np.float16))


@given(st.floats(0, 1) | st.fractions(0, 1))
def test_a_flip_by_float16_uniforms_is_counted_exactly(probability):
    expected = brute_force(sampled(lambda chance: chance.flip(probability)), 11)
    found = law(lambda chance: chance.flip(probability), arithmetic="float16")
    assert found == expected
    assert found.exact


@given(st.lists(st.just(0.0) | st.floats(1e-6, 1e6) | st.fractions(0, 9), min_size=1, max_size=6).filter(any))
def test_a_pick_by_float16_uniforms_is_counted_exactly(row):
    expected = brute_force(sampled(lambda chance: chance.pick(row)), 11)
    found = law(lambda chance: chance.pick(row), arithmetic="float16")
    assert found == expected
    assert found.exact


@settings(max_examples=15)
@given(trees)
def test_each_question_of_a_program_is_rounded_by_itself(tree):
    """The law of the float code is that of the tree whose shares are counted question by question."""

    def rounded(tree):
        if not isinstance(tree, tuple):
            return tree
        question, subtrees = tree
        ask = Sampler.pick if isinstance(question, tuple) else Sampler.flip
        counted = brute_force(lambda rng: ask(Sampler(rng, np.float16), question), 11)
        answers = range(len(question)) if isinstance(question, tuple) else (True, False)
        shares = tuple(int(counted.get(answer, 0) * 2**11) for answer in answers)
        return shares, tuple(map(rounded, subtrees))

    assert law(descend, tree, arithmetic="float16") == law(descend, rounded(tree))


def test_a_sampler_that_rounds_otherwise_is_reported():
    class NotStrict(Sampler):
        def flip(self, probability):
            return bool(self._rng.random(dtype=self._dtype) <= float(probability))

    found = brute_force(lambda rng: NotStrict(rng, np.float16).flip(0.25), 11)
    assert law(lambda chance: chance.flip(0.25), arithmetic="float16") != found
    assert found[True] - Fraction(1, 4) == Fraction(1, 2**11)


@pytest.mark.parametrize(("arithmetic", "bits"), [("float64", 53), ("float32", 24), ("float16", 11)])
@pytest.mark.parametrize("probability", [THIRD, Fraction(1, 10), 0.7, 2.0**-60, Fraction(1, 2), 0, 1])
def test_a_float_flip_is_rounded_up_to_the_grid(arithmetic, bits, probability):
    exact = Fraction(float(probability))
    accepted = Fraction(math.ceil(exact * 2**bits), 2**bits)
    found = law(lambda chance: chance.flip(probability), arithmetic=arithmetic)
    assert found.get(True, 0) == accepted
    assert found.exact
    assert abs(accepted - exact) <= Fraction(1, 2**bits)
    pair = law(lambda chance: chance.flip(probability) + chance.flip(probability), arithmetic=arithmetic)
    assert pair.get(2, 0) == accepted**2


@pytest.mark.parametrize(("arithmetic", "bits"), [("float64", 53), ("float32", 24), ("float16", 11)])
def test_a_float_pick_has_edges_at_the_float_shares_rounded_up(arithmetic, bits):
    row = [0.1, 0.0, 0.7, 0.3, 1e-30]
    shares = np.cumsum(row) / np.cumsum(row)[-1]
    edges = [0, *(Fraction(math.ceil(Fraction(share) * 2**bits), 2**bits) for share in shares)]
    found = law(lambda chance: chance.pick(row), arithmetic=arithmetic)
    assert found == {0: edges[1], 2: edges[3] - edges[2], 3: edges[4] - edges[3]}
    assert edges[2] == edges[1], "no mass"
    assert edges[5] == edges[4], "lost to rounding"
