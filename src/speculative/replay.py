"""Walk every path of a program by replaying it from its start.

A path is a sequence of answers. The walker follows a known sequence, takes the first answer with mass at
every new question, and then moves on to the next sequence, depth first. It needs nothing of the program but
that it is pure: the same answers must lead to the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from speculative.chance import ARITHMETIC, Number, Sampler, check_list, check_probability, check_weights
from speculative.generator import as_generator

Progress = Callable[[float, int], None]
Prefix = tuple[int, ...]
PROGRESS_EVERY = 512  # paths
MAX_QUESTIONS = 10_000
"""The most questions on one path: a loop that goes on until a coin says otherwise has no last one."""

_IMPURE = "keeps state between runs or draws by itself; draw from `chance` only"


class ImpureProgramError(RuntimeError):
    """A replay of the same answers met another question: the program keeps state or draws by itself."""


class TooManyPathsError(RuntimeError):
    """The program has more paths than the number it was allowed."""

    def __str__(self) -> str:
        return f"more than {self.args[0]} paths: make the vocabulary or the draft smaller, or raise max_paths"


class PathTooLongError(TooManyPathsError):
    """One path of the program asks more questions than a program with an end does."""

    def __str__(self) -> str:
        return f"more than {self.args[0]} questions on one path: bound the program's loops"


class Run(NamedTuple):
    """A program with its arguments, and whether its questions are answered by the float sampler."""

    program: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arithmetic: str | None

    def __call__(self, chance: Any) -> Any:
        """Run the program, answered by `chance`."""
        if self.arithmetic is not None:
            if self.arithmetic not in ARITHMETIC:
                raise ValueError(
                    f"arithmetic={self.arithmetic!r}: write one of {', '.join(ARITHMETIC)}, or None"
                )
            chance = Sampler(as_generator(chance), ARITHMETIC[self.arithmetic])
        return self.program(chance, *self.args, **self.kwargs)


class Node:
    """A question met on the current path: its answers with mass, and which of them the path takes."""

    __slots__ = ("answers", "before", "kind", "place", "probabilities", "question")

    def __init__(
        self, kind: str, question: Any, answers: list[Any], probabilities: list[Number], before: Number
    ):
        self.kind, self.question, self.answers = kind, question, answers
        self.probabilities, self.before, self.place = probabilities, before, 0

    def mass(self) -> Number:
        """Return the probability of the path up to and including this answer."""
        return self.before * self.probabilities[self.place]


class _Replay:
    """The `Chance` of one replay: answers what is known, and opens a node for each new question."""

    __slots__ = ("depth", "nodes", "prefix", "refusal")

    def __init__(self, nodes: list[Node], prefix: Prefix) -> None:
        self.nodes, self.prefix, self.depth = nodes, prefix, 0
        self.refusal: Exception | None = None

    def flip(self, probability: Number, /) -> bool:
        node = self._known(probability) or self._open("flip", probability, _sides)
        return bool(node.answers[node.place])

    def pick(self, weights: Any, /) -> int:
        try:
            question = check_list(weights)
        except ValueError as error:
            raise self._refused(error) from None
        question = question.tolist() if isinstance(question, np.ndarray) else list(question)
        node = self._known(question) or self._open("pick", question, _shares)
        return int(node.answers[node.place])

    def _known(self, question: Any) -> Node | None:
        self.depth += 1
        if self.depth > len(self.nodes):
            return None
        node = self.nodes[self.depth - 1]
        if node.question != question:
            raise self._refused(
                ImpureProgramError(
                    f"question {self.depth} was {node.question} and is now {question} after the same "
                    f"answers: the program {_IMPURE}"
                )
            )
        return node

    def _refused(self, refusal: Exception) -> Exception:
        """Keep an error, so that a program which catches it does not run on with a law of its own."""
        self.refusal = refusal
        return refusal

    def _open(self, kind: str, question: Any, answers_to: Callable[[Any], list[tuple[Any, Number]]]) -> Node:
        if self.depth > MAX_QUESTIONS:
            raise self._refused(PathTooLongError(MAX_QUESTIONS))
        try:
            answers = answers_to(question)
        except (TypeError, ValueError) as error:
            raise self._refused(error) from None
        before = self.nodes[-1].mass() if self.nodes else Fraction(1)
        node = Node(
            kind, question, [answer for answer, _ in answers], [share for _, share in answers], before
        )
        if self.depth <= len(self.prefix):
            node.place = self.prefix[self.depth - 1]
            if node.place >= len(node.answers):
                raise self._refused(
                    ImpureProgramError(
                        f"question {self.depth} is now {question}, with fewer answers than before: the "
                        f"program {_IMPURE}"
                    )
                )
        self.nodes.append(node)
        return node


def _sides(probability: Number) -> list[tuple[Any, Number]]:
    heads = _number(check_probability(probability))
    return [(side, share) for side, share in ((True, heads), (False, 1 - heads)) if share]


def _shares(weights: list[Number]) -> list[tuple[Any, Number]]:
    exact = [_number(weight) for weight in weights]
    total = sum(exact)
    check_weights(min(exact), total, weights)
    return [(i, weight / total) for i, weight in enumerate(exact) if weight]


def _number(number: Number) -> Number:
    """Return a Fraction where the number is rational, so that dividing stays exact, and else a float."""
    if isinstance(number, Fraction):
        return number
    return Fraction(int(number)) if isinstance(number, (int, np.integer, np.bool_)) else float(number)


def walk(run: Run, prefix: Prefix = ()) -> Iterator[tuple[Any, list[Node]]]:
    """Yield (outcome, nodes) for every path that begins with `prefix`; the walker keeps the nodes."""
    nodes: list[Node] = []
    while True:
        replay = _Replay(nodes, prefix)
        outcome = run(replay)
        if replay.refusal is not None:
            raise replay.refusal
        if replay.depth < (asked := max(len(nodes), len(prefix))):
            raise ImpureProgramError(
                f"{asked} questions before and {replay.depth} now after the same answers: "
                f"the program {_IMPURE}"
            )
        yield outcome, nodes
        while len(nodes) > len(prefix) and nodes[-1].place + 1 == len(nodes[-1].answers):
            nodes.pop()
        if len(nodes) <= len(prefix):
            return
        nodes[-1].place += 1


def mass(nodes: list[Node]) -> Number:
    """Return the probability of the path through these nodes."""
    return nodes[-1].mass() if nodes else Fraction(1)


class Totals(NamedTuple):
    """The probability of each outcome below a prefix, summed without rounding, and how it was come by."""

    masses: dict[Hashable, Fraction]
    exact: bool
    paths: int


def total(run: Run, prefix: Prefix = (), max_paths: int = 10**7, progress: Progress | None = None) -> Totals:
    """Add up every path that begins with `prefix`.

    Float probabilities are added as the rational numbers they are: no order of summation changes the result.
    """
    masses: dict[Hashable, Fraction] = {}
    exact, count = True, 0
    for outcome, nodes in walk(run, prefix):
        count += 1
        if count > max_paths:
            raise TooManyPathsError(max_paths)
        probability = mass(nodes)
        if not isinstance(probability, Fraction):
            exact, probability = False, Fraction(probability)
        add(masses, outcome, probability)
        if progress is not None and count % PROGRESS_EVERY == 0:
            progress(_covered(nodes), count)
    return Totals(masses, exact, count)


def add(masses: dict[Any, Number], outcome: Any, probability: Number) -> None:
    """Add to the probability of an outcome; TypeError where it cannot be the key of a law."""
    try:
        before = masses.get(outcome)
    except TypeError as error:
        raise TypeError(
            f"{outcome!r} cannot be an outcome ({error}): return numbers, strings, or tuples of them"
        ) from None
    if before is None and isinstance(outcome, Iterator):
        raise TypeError(f"{outcome!r} cannot be an outcome: return what it yields, tuple(...)")
    masses[outcome] = probability if before is None else before + probability


def _covered(nodes: list[Node]) -> float:
    """Return the probability of the current path and of all before it."""
    earlier = (float(node.before) * float(sum(node.probabilities[: node.place])) for node in nodes)
    return min(1.0, float(mass(nodes)) + sum(earlier))


def split(run: Run, at_least: int) -> list[Prefix]:
    """Return prefixes that partition all paths, in order, `at_least` so many where there are as many."""
    prefixes: list[Prefix] = [()]
    grown = True
    while grown and len(prefixes) < at_least:
        grown = False
        following: list[Prefix] = []
        for prefix in prefixes:
            _, nodes = next(walk(run, prefix))
            depth = next((i for i in range(len(prefix), len(nodes)) if len(nodes[i].answers) > 1), None)
            if depth is None:
                following.append(prefix)
                continue
            grown = True
            forced = (*prefix, *(0 for _ in range(len(prefix), depth)))
            following += [(*forced, place) for place in range(len(nodes[depth].answers))]
        prefixes = following
    return prefixes
