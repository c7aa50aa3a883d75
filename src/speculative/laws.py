"""The exact law of a program, and of a process: outcome -> probability."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from fractions import Fraction
from functools import partial
from html import escape
from typing import Any, NamedTuple

from speculative.chance import Number
from speculative.replay import Progress, Run, TooManyPathsError, Totals, add, mass, split, total, walk

MAX_PATHS = 10_000_000
_SUBTREES = 64  # handed to an executor, at least


class Law(Mapping[Any, Any]):
    """A probability law: an immutable mapping from outcome to probability, in the order they were met.

    Probabilities are Fractions where everything asked was rational (`exact`), floats otherwise. Looking up an
    outcome that cannot happen raises KeyError; `law.get(outcome, 0)` gives 0.
    """

    __slots__ = ("_masses",)

    def __init__(self, masses: Mapping[Any, Number]) -> None:
        self._masses = {outcome: probability for outcome, probability in masses.items() if probability != 0}
        whole = sum(self._masses.values())
        negative = any(probability < 0 for probability in self._masses.values())
        if negative or not (whole == 1 if self.exact else abs(whole - 1) < 1e-9):
            raise ValueError(
                f"Law: probabilities must not be negative and must sum to 1; these sum to {whole}"
            )

    def __getitem__(self, outcome: Any) -> Number:
        return self._masses[outcome]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._masses)

    def __len__(self) -> int:
        return len(self._masses)

    @property
    def exact(self) -> bool:
        """Whether every probability is rational: only then does `==` prove anything."""
        return all(isinstance(probability, (Fraction, int)) for probability in self._masses.values())

    def map(self, function: Callable[[Any], Hashable]) -> Law:
        """Return the law of `function(outcome)`."""
        masses: dict[Any, Number] = {}
        for outcome, probability in self._masses.items():
            add(masses, function(outcome), probability)
        return Law(masses)

    def mean(self, function: Callable[[Any], Number] = lambda outcome: outcome) -> Number:
        """Return the expected value of `function(outcome)`, exact where law and function are."""
        return sum(probability * function(outcome) for outcome, probability in self._masses.items())

    def distance(self, other: Mapping[Any, Number]) -> Number:
        """Return the total variation distance: half the sum of the absolute differences, from 0 to 1."""
        outcomes = {**self._masses, **other}
        return sum(
            abs(self._masses.get(outcome, 0) - other.get(outcome, 0)) for outcome in outcomes
        ) * Fraction(1, 2)

    def condition(self, predicate: Callable[[Any], bool]) -> Law:
        """Return the law given that `predicate(outcome)` holds; ValueError where it never does."""
        kept = {outcome: probability for outcome, probability in self._masses.items() if predicate(outcome)}
        whole = sum(kept.values())
        if not whole:
            raise ValueError("condition(): no outcome of this law satisfies the predicate")
        return Law({outcome: probability / whole for outcome, probability in kept.items()})

    def top(self, count: int) -> list[tuple[Any, Number]]:
        """Return the `count` most probable outcomes with their probabilities, equal ones in the order met."""
        return sorted(self._masses.items(), key=lambda item: -item[1])[:count]

    def __repr__(self) -> str:
        shown = ", ".join(f"{outcome!r}: {_number(probability)}" for outcome, probability in self.top(4))
        more = f", ... {len(self) - 4} more" if len(self) > 4 else ""
        return f"Law({{{shown}{more}}}{'' if self.exact else ', float'})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(repr(outcome))}</td><td>{_number(probability)}</td><td>{float(probability):.6f}</td></tr>"
            for outcome, probability in self.top(20)
        )
        more = f"<tr><td colspan=3>... {len(self) - 20} more</td></tr>" if len(self) > 20 else ""
        return f"<table><tr><th>outcome</th><th>probability</th><th></th></tr>{rows}{more}</table>"


class Answer(NamedTuple):
    """One answer on a path: the kind of question ("flip" or "pick"), the answer, and its probability."""

    kind: str
    answer: Any
    probability: Number


class Path(NamedTuple):
    """One way a program can run: what it returned, how probable that was, and the answers that led there."""

    outcome: Any
    probability: Number
    answers: tuple[Answer, ...]


def law(
    program: Callable[..., Hashable],
    *args: Any,
    arithmetic: str | None = None,
    max_paths: int = MAX_PATHS,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **kwargs: Any,
) -> Law:
    """Return the exact law of `program(chance, *args, **kwargs)`.

    Parameters
    ----------
    program : callable
        Any pure function of a `Chance` and its arguments; what it returns must be hashable. The keywords
        below are `law`'s own: bind a program's of the same name with `functools.partial`.
    arithmetic : {None, "float64", "float32", "float16"}
        None answers each question with its ideal law. A name enumerates `sample`'s own float code instead,
        over every uniform on that grid (multiples of 2**-53, 2**-24, 2**-11), and gives the rational law of
        what that code does.
    max_paths : int
        Give up with `TooManyPathsError` beyond this many paths.
    executor : concurrent.futures.Executor, optional
        Runs subtrees side by side; the program and its arguments must then be picklable. The result is the
        same, to the bit, whatever the executor and its number of workers.
    progress : callable, optional
        Called now and then with the probability covered so far and the number of paths.

    Returns
    -------
    Law
        Outcome -> probability. Rational questions give a rational law; one float makes all of it float, each
        probability the correctly rounded sum over its paths.

    Raises
    ------
    ImpureProgramError
        A replay met another question after the same answers.
    TooManyPathsError
        See `max_paths`.
    CannotEnumerateError
        The program asked a stand-in generator for something that has no finite law.

    Notes
    -----
    Time is proportional to the number of paths; memory to depth times branching, plus the outcomes.
    """
    run = Run(program, args, kwargs, arithmetic)
    if executor is None:
        return _as_law(total(run, (), max_paths, progress))
    masses: dict[Any, Fraction] = {}
    exact, paths_done, covered = True, 0, Fraction(0)
    prefixes = split(run, _SUBTREES)
    for part in executor.map(partial(total, run, max_paths=max_paths), prefixes):
        exact, paths_done = exact and part.exact, paths_done + part.paths
        if paths_done > max_paths:
            raise TooManyPathsError(max_paths)
        for outcome, probability in part.masses.items():
            add(masses, outcome, probability)
            covered += probability
        if progress is not None:
            progress(min(1.0, float(covered)), paths_done)
    return _as_law(Totals(masses, exact, paths_done))


def paths(
    program: Callable[..., Any], *args: Any, arithmetic: str | None = None, **kwargs: Any
) -> Iterator[Path]:
    """Yield every path of a program, depth first: the decision tree whose leaves `law` adds up."""
    for outcome, nodes in walk(Run(program, args, kwargs, arithmetic)):
        answers = tuple(
            Answer(node.kind, node.answers[node.place], node.probabilities[node.place]) for node in nodes
        )
        yield Path(outcome, mass(nodes), answers)


def law_of_process(
    step: Callable[..., Hashable],
    start: Hashable,
    until: Callable[[Any], bool],
    *,
    arithmetic: str | None = None,
    max_paths: int = MAX_PATHS,
    max_steps: int = 10_000,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Law:
    """Return the law of the state in which a process stops.

    Parameters
    ----------
    step : callable
        `step(chance, state) -> state`, a pure program; states are hashable.
    start : hashable
        The first state.
    until : callable
        `until(state)` is True where the process stops.
    arithmetic, max_paths, executor, progress
        As for `law`; `max_paths` counts the paths of all steps together, and an executor works on several
        states at a time.
    max_steps : int
        Give up with RuntimeError when the process can still go on after this many steps.

    Returns
    -------
    Law
        Final state -> probability.

    Notes
    -----
    Equal states are merged after each step and each state is enumerated once: the cost is one enumeration per
    distinct state, not per history.
    """
    known: dict[Any, Law] = {}
    finished: dict[Any, Number] = {}
    pending: dict[Any, Number] = {}
    add(pending, start, Fraction(1))
    paths_done, steps = 0, 0
    while True:
        running: dict[Any, Number] = {}
        for state, probability in pending.items():
            add(finished if until(state) else running, state, probability)
        if not running:
            return Law(finished)
        if steps == max_steps:
            raise RuntimeError(
                f"the process can still go on after {max_steps} steps; see that `until` can become True"
            )
        steps += 1
        fresh = [state for state in running if state not in known]
        runs = [Run(step, (state,), {}, arithmetic) for state in fresh]
        mapped: Iterable[Totals] = (executor.map if executor else map)(
            partial(total, max_paths=max_paths), runs
        )
        for state, part in zip(fresh, mapped, strict=True):
            paths_done += part.paths
            if paths_done > max_paths:
                raise TooManyPathsError(max_paths)
            known[state] = _as_law(part)
            if progress is not None:
                progress(min(1.0, float(sum(finished.values()))), paths_done)
        pending = {}
        for state, probability in running.items():
            for following, share in known[state].items():
                add(pending, following, probability * share)


def _as_law(totals: Totals) -> Law:
    if totals.exact:
        return Law(totals.masses)
    return Law({outcome: float(probability) for outcome, probability in totals.masses.items()})


def _number(probability: Number) -> str:
    if isinstance(probability, Fraction) and probability.denominator > 10**9:
        return f"{float(probability):.6g}"
    return str(probability) if isinstance(probability, Fraction) else f"{probability:.6g}"
