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

from speculative.chance import ARITHMETIC, Number, Sampler, check_probability, check_weights
from speculative.generator import as_generator

Progress = Callable[[float, int], None]
Prefix = tuple[int, ...]
PROGRESS_EVERY = 512  # paths
_IMPURE = "keeps state between runs or draws by itself; draw from `chance` only"


class ImpureProgramError(RuntimeError):
    """A replay of the same answers met another question: the program keeps state or draws by itself."""


class TooManyPathsError(RuntimeError):
    """The program has more paths than the number it was allowed."""

    def __str__(self) -> str:
        return f"more than {self.args[0]} paths: make the vocabulary or the draft smaller, or raise max_paths"


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

    __slots__ = ("depth", "nodes", "prefix")

    def __init__(self, nodes: list[Node], prefix: Prefix) -> None:
        self.nodes, self.prefix, self.depth = nodes, prefix, 0

    def flip(self, probability: Number, /) -> bool:
        node = self._known(probability)
        if node is None:
            heads = _number(check_probability(probability))
            both = [(True, heads), (False, 1 - heads)]
            node = self._open("flip", probability, [pair for pair in both if pair[1]])
        return bool(node.answers[node.place])

    def pick(self, weights: Any, /) -> int:
        question = weights.tolist() if isinstance(weights, np.ndarray) else list(weights)
        node = self._known(question)
        if node is None:
            if not question:
                raise ValueError("pick() got no weights; a choice needs at least one")
            exact = [_number(weight) for weight in question]
            total = sum(exact)
            check_weights(min(exact), total, question)
            node = self._open(
                "pick", question, [(i, weight / total) for i, weight in enumerate(exact) if weight]
            )
        return int(node.answers[node.place])

    def _known(self, question: Any) -> Node | None:
        self.depth += 1
        if self.depth > len(self.nodes):
            return None
        node = self.nodes[self.depth - 1]
        if node.question != question:
            raise ImpureProgramError(
                f"question {self.depth} was {node.question} and is now {question} after the same answers: "
                f"the program {_IMPURE}"
            )
        return node

    def _open(self, kind: str, question: Any, answers: list[tuple[Any, Number]]) -> Node:
        before = self.nodes[-1].mass() if self.nodes else Fraction(1)
        node = Node(
            kind, question, [answer for answer, _ in answers], [share for _, share in answers], before
        )
        if self.depth <= len(self.prefix):
            node.place = self.prefix[self.depth - 1]
            if node.place >= len(node.answers):
                raise ImpureProgramError(
                    f"question {self.depth} is now {question}, with fewer answers than before: the program "
                    f"{_IMPURE}"
                )
        self.nodes.append(node)
        return node


def _number(number: Number) -> Number:
    """Return a Fraction where the number is rational, so that dividing stays exact, and else a float."""
    if isinstance(number, Fraction):
        return number
    return Fraction(int(number)) if isinstance(number, (int, np.integer)) else float(number)


def walk(run: Run, prefix: Prefix = ()) -> Iterator[tuple[Any, list[Node]]]:
    """Yield (outcome, nodes) for every path that begins with `prefix`; the walker keeps the nodes."""
    nodes: list[Node] = []
    while True:
        replay = _Replay(nodes, prefix)
        outcome = run(replay)
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
        masses[outcome] = masses.get(outcome, 0) + probability
    except TypeError as error:
        raise TypeError(
            f"{outcome!r} cannot be an outcome ({error}): return numbers, strings, or tuples of them"
        ) from None


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
            if len(nodes) > len(prefix):
                grown = True
                following += [(*prefix, place) for place in range(len(nodes[len(prefix)].answers))]
            else:
                following.append(prefix)
        prefixes = following
    return prefixes
