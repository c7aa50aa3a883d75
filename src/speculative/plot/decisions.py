"""Picture of a program: every way it can run, as a tree of questions and answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from speculative.laws import Path
from speculative.plot.style import (
    BLUE,
    GREY,
    INK,
    PALE,
    VERMILION,
    branch,
    new_axes,
    outcome_name,
    short,
    some,
)

COLOUR_OF_ANSWER = {"pick": INK, "flip: yes": BLUE, "flip: no": VERMILION}

Prefix: TypeAlias = tuple[tuple[str, Any], ...]  # the first answers of a path


def decision_tree(paths: Iterable[Path], labels: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """Every way a program can run: questions from left to right, a row per path.

    Parameters
    ----------
    paths : iterable of Path
        As `speculative.paths` yields them. Some thirty are still readable.
    labels : sequence of str, optional
        Names of tokens: used for what is picked, and for outcomes that are ints, tuples of ints or have
        `tokens`.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
        Common beginnings are drawn once; the thicker a line, the more probable it is to be passed.
    """
    leaves = _in_order(some(list(paths), None))
    below: dict[Prefix, list[int]] = {}  # the rows of the leaves that begin with a prefix
    for row, leaf in enumerate(leaves):
        for prefix in _prefixes(leaf):
            below.setdefault(prefix, []).append(row)
    branches = {}  # what is written on each
    for prefix, rows in below.items():
        if prefix:
            answer = leaves[rows[0]].answers[len(prefix) - 1]
            branches[prefix] = f"{_answer(answer.kind, answer.answer, labels)}  {short(answer.probability)}"
    outcomes = [outcome_name(leaf.outcome, labels) for leaf in leaves]
    depth = max(len(leaf.answers) for leaf in leaves)
    unit = max(1.5, 0.15 * max(map(len, branches.values()), default=0))  # inches a question
    room = 0.085 * max(map(len, outcomes)) / unit
    ax = new_axes(ax, unit * (depth + 0.75 + room), 0.3 * len(leaves) + 0.9)
    ax.set_axis_off()
    ax.grid(visible=False)
    for prefix, text in branches.items():
        mass = float(sum(leaves[row].probability for row in below[prefix]))
        heights = _height(below[prefix[:-1]]), _height(below[prefix])
        colour = COLOUR_OF_ANSWER[_answer_name(*prefix[-1])]
        branch(ax, len(prefix) - 1, heights, colour, 0.6 + 3.4 * mass)
        ax.annotate(
            text,
            (len(prefix) - 0.52, heights[1]),
            xytext=(0, 2 + 1.7 * mass),
            textcoords="offset points",
            color=colour,
            fontsize=8,
        )
    for row, (leaf, outcome) in enumerate(zip(leaves, outcomes, strict=True)):
        ax.plot([len(leaf.answers), depth + 0.15], [-row, -row], ":", color=PALE, linewidth=1, zorder=0)
        ax.text(depth + 0.55, -row, short(leaf.probability), ha="right", va="center", color=GREY, fontsize=9)
        ax.text(depth + 0.65, -row, outcome, va="center", color=INK, fontsize=9, fontweight="bold")
    ax.text(depth + 0.55, 1, "probability", ha="right", va="center", color=GREY, fontsize=8)
    ax.text(depth + 0.65, 1, "outcome", va="center", color=GREY, fontsize=8)
    ax.set_xlim(-0.05, depth + 0.65 + max(room, 0.3))
    ax.set_ylim(0.5 - len(leaves), 1.5)
    met = {_answer_name(*prefix[-1]) for prefix in branches}
    ax.legend(
        handles=[
            Line2D([], [], color=colour, label=name)
            for name, colour in COLOUR_OF_ANSWER.items()
            if name in met
        ],
        loc="lower left",
        bbox_to_anchor=(0, 0.98),
        ncols=3,
        frameon=False,
        fontsize=8,
    )
    return ax


def _prefixes(path: Path) -> Iterator[Prefix]:
    answers = tuple((answer.kind, answer.answer) for answer in path.answers)
    return (answers[:length] for length in range(len(answers) + 1))


def _in_order(leaves: Sequence[Path]) -> list[Path]:
    """The same paths, those with a common beginning made neighbours; depth-first they stay as they are."""
    met: dict[Prefix, int] = {}
    for leaf in leaves:
        for prefix in _prefixes(leaf):
            met.setdefault(prefix, len(met))
    return sorted(leaves, key=lambda leaf: [met[prefix] for prefix in _prefixes(leaf)])


def _height(rows: Sequence[int]) -> float:
    return -(rows[0] + rows[-1]) / 2


def _answer_name(kind: str, answer: Any) -> str:
    return f"flip: {'yes' if answer else 'no'}" if kind == "flip" else "pick"


def _answer(kind: str, answer: Any, labels: Sequence[str] | None) -> str:
    return ("yes" if answer else "no") if kind == "flip" else outcome_name(answer, labels)
