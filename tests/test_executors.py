"""Laws worked out by several workers: the same to the bit, in the same order, whoever does the work."""

from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from multiprocessing import get_context

import pytest

from speculative import (
    CannotEnumerateError,
    ImpureProgramError,
    TooManyPathsError,
    as_generator,
    law,
    law_of_process,
)

# Programs stand at the top of the file: a worker process looks them up by name.


def exact_program(chance, length):
    """A text whose rows and length depend on what was drawn before."""
    tokens = []
    while len(tokens) < length:
        tokens.append(chance.pick([1, len(tokens), 2 + sum(tokens)]))
        if chance.flip(Fraction(1, 5)):
            break
    return tuple(tokens)


def float_program(chance, length):
    return sum(chance.pick([0.1, 0.2, 0.3 + 0.01 * place]) for place in range(length)) % 4


def float_in_one_branch(chance):
    return chance.pick([0.1, 0.9]) if chance.flip(Fraction(1, 3)) else chance.pick([1, 2])


def one_path(chance):
    return "certain" if chance.flip(1) else "never"


def numpy_program(chance):
    rng = as_generator(chance)
    return tuple((rng.random(4) < 0.3).tolist())


def failing_program(chance, length):
    if sum(chance.flip(Fraction(1, 2)) for _ in range(length)) == length:
        raise ArithmeticError("the program's own")
    return 0


def unbounded_program(chance):
    return float(as_generator(chance).random())


def many_paths(chance, length):
    return sum(chance.flip(Fraction(1, 2)) for _ in range(length))


def grow(chance, tokens):
    kept = chance.pick([1, 2]) + 1
    return (*tokens, *(chance.pick([1, len(tokens) + 1]) for _ in range(kept)))


def grow_in_floats(chance, tokens):
    return (*tokens, chance.pick([0.1, 0.2, 0.7]), chance.flip(0.3))


def is_long(tokens):
    return len(tokens) >= 4


def failing_step(chance, state):
    if state == 2:
        raise ArithmeticError("the step's own")
    return state + 1 + chance.flip(Fraction(1, 2))


def many_steps(chance, state):
    chance.pick([1] * 10)
    return state + 1, chance.pick([1] * 3)


class InThisThread(ThreadPoolExecutor):
    """An executor that does the work at once and counts it."""

    def __init__(self):
        super().__init__(1)
        self.jobs = 0

    def submit(self, function, /, *args, **kwargs):
        self.jobs += 1
        future = Future()
        future.set_result(function(*args, **kwargs))
        return future


@pytest.fixture(scope="module", params=["here", "threads", "1 process", "2 processes", "3 processes", "dask"])
def executor(request):
    name = request.param
    if name == "here":
        yield InThisThread()
    elif name == "threads":
        with ThreadPoolExecutor(2) as pool:
            yield pool
    elif name == "dask":
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=False
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client.get_executor()
    else:
        with ProcessPoolExecutor(int(name[0]), mp_context=get_context("spawn")) as pool:
            yield pool


def identical(first, second):
    """Return whether two laws are the same to the bit, the types of their masses and the order included."""
    return [(outcome, mass, type(mass)) for outcome, mass in first.items()] == [
        (outcome, mass, type(mass)) for outcome, mass in second.items()
    ]


PROGRAMS = {
    "fractions": (exact_program, (4,), {}),
    "floats": (float_program, (6,), {}),
    "floats in one branch": (float_in_one_branch, (), {}),
    "one path": (one_path, (), {}),
    "a numpy function": (numpy_program, (), {}),
    "the float code": (exact_program, (2,), {"arithmetic": "float64"}),
    "keywords": (exact_program, (), {"length": 3}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_law_is_the_same_to_the_bit_and_in_the_same_order(executor, name):
    program, args, kwargs = PROGRAMS[name]
    assert identical(law(program, *args, executor=executor, **kwargs), law(program, *args, **kwargs))


@pytest.mark.parametrize("step", [grow, grow_in_floats])
@pytest.mark.parametrize("arithmetic", [None, "float64"])
def test_a_process_is_the_same_to_the_bit_and_in_the_same_order(executor, step, arithmetic):
    alone = law_of_process(step, (), is_long, arithmetic=arithmetic)
    assert identical(law_of_process(step, (), is_long, arithmetic=arithmetic, executor=executor), alone)


def is_negative(state):
    return state < 0


def test_an_error_of_the_program_comes_through(executor):
    with pytest.raises(ArithmeticError, match=r"^the program's own$"):
        law(failing_program, 8, executor=executor)
    with pytest.raises(ArithmeticError, match=r"^the step's own$"):
        law_of_process(failing_step, 0, is_negative, executor=executor)
    with pytest.raises(CannotEnumerateError, match=r"^float\(\) of an undecided number has no law"):
        law(unbounded_program, executor=executor)


def test_paths_are_counted_over_all_workers(executor):
    assert law(many_paths, 9, executor=executor, max_paths=512)[0] == Fraction(1, 512)
    with pytest.raises(TooManyPathsError, match=r"^more than 511 paths: make"):
        law(many_paths, 9, executor=executor, max_paths=511)
    with pytest.raises(TooManyPathsError, match=r"^more than 5 paths: make"):
        law(many_paths, 9, executor=executor, max_paths=5)


def two_steps(state):
    return state in {(1, 0), (1, 1), (1, 2)}


def test_paths_of_a_process_are_counted_over_all_workers(executor):
    assert len(law_of_process(many_steps, 0, two_steps, executor=executor, max_paths=30)) == 3
    with pytest.raises(TooManyPathsError, match=r"^more than 29 paths: make"):
        law_of_process(many_steps, 0, two_steps, executor=executor, max_paths=29)


def test_progress_grows_to_one(executor):
    calls = []
    law(many_paths, 9, executor=executor, progress=lambda covered, paths: calls.append((covered, paths)))
    assert calls == [(part / 64, part * 8) for part in range(1, 65)]
    calls.clear()
    law(float_program, 6, executor=executor, progress=lambda covered, paths: calls.append(covered))
    assert calls == sorted(calls)
    assert 1 - 1e-9 < calls[-1] <= 1


def fifths(chance):
    return chance.pick([1.0] * 5) * 0 + chance.pick([1.0] * 5) * 0


def test_progress_of_rounded_shares_is_held_at_one():
    calls = []
    found = law(fifths, executor=InThisThread(), progress=lambda covered, paths: calls.append(covered))
    assert found[0] == 1 + 2.0**-52
    assert calls[-1] == 1
    assert calls == sorted(calls)


def test_the_work_is_shared_out():
    for program, args in ((many_paths, (9,)), (exact_program, (4,))):
        pool = InThisThread()
        law(program, *args, executor=pool)
        assert pool.jobs >= 64
    pool = InThisThread()
    law(one_path, executor=pool)
    assert pool.jobs == 1
    pool = InThisThread()
    law_of_process(grow, (), is_long, executor=pool)
    assert pool.jobs == len({(), (0,), (1,)} | {(a, b) for a in (0, 1) for b in (0, 1)}) + 8, "one a state"


def test_a_law_that_is_not_the_same_is_reported():
    alone = law(float_in_one_branch)
    swapped = type(alone)(dict(reversed(list(alone.items()))))
    assert swapped == alone
    assert not identical(swapped, alone), "another order is seen"
    nudged = type(alone)({0: alone[0] * (1 + 2**-52), 1: alone[1]})
    assert not identical(nudged, alone), "another last bit is seen"
    assert not identical(law(one_path), type(alone)({"certain": 1.0})), "another type is seen"


class Forgetful:
    """An impure program: it asks fewer questions once it has been looked at often enough."""

    def __init__(self):
        self.runs = 0

    def __call__(self, chance):
        self.runs += 1
        return [chance.flip(Fraction(1, 2)) for _ in range(7 if self.runs < 100 else 2)] and 0


def test_a_program_that_changes_between_workers_is_noticed():
    with pytest.raises(ImpureProgramError, match="questions before and 2 now"):
        law(Forgetful(), executor=InThisThread())
