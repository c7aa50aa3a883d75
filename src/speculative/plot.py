"""Pictures of the cost model and of laws. Each function takes `ax=None`, draws, and returns the Axes.

Colours are those of Okabe and Ito, told apart by readers of any colour vision. Nothing is shown or saved
here: `ax.figure.savefig("picture.png")` does that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from speculative._numbers import Number, count, positive
from speculative.cost import best_num_draft_tokens, break_even_cost, speedup
from speculative.distribution import Row, total_variation
from speculative.laws import Path
from speculative.roofline import Hardware, Model, break_even_batch, speedup_at_batch

try:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise ImportError('plots need matplotlib: pip install -e ".[plot]" in a checkout') from error

__all__ = [
    "decision_tree",
    "plot_acceptance",
    "plot_laws",
    "plot_roofline",
    "plot_speedup",
    "plot_speedup_map",
    "plot_trade_off",
]

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10}
INK, GREY, PALE = "#222222", "#767676", "#DDDDDD"
COLOUR_OF_ANSWER = {"pick": INK, "flip: yes": BLUE, "flip: no": VERMILION}

Prefix: TypeAlias = tuple[tuple[str, Any], ...]  # the first answers of a path


def plot_speedup(
    acceptances: Number | Sequence[Number],
    cost: Number,
    *,
    max_draft_tokens: int = 12,
    ax: Axes | None = None,
) -> Axes:
    """Speedup by draft length, a line per acceptance, the best length of each marked.

    Parameters
    ----------
    acceptances : number or sequence of numbers in [0, 1]
        Up to six.
    cost : number, at least 0
        Time of one draft pass over time of one target pass.
    max_draft_tokens : int, at least 1
        Longest draft shown; the best is the best up to it.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
    """
    values = _some(acceptances)
    lengths = range(1, count("max_draft_tokens", max_draft_tokens) + 1)
    curves = [[float(speedup(acceptance, length, cost)) for length in lengths] for acceptance in values]
    ax = _axes(ax, 6.4, 3.8)
    ax.set_title(f"a draft pass costs {_short(cost)} target passes", **TITLE)
    _plain_decoding(ax)
    for acceptance, speedups, colour in zip(values, curves, COLOURS, strict=False):
        ax.plot(
            lengths, speedups, "-o", color=colour, markersize=3.5, label=f"acceptance {_short(acceptance)}"
        )
        best = best_num_draft_tokens(acceptance, cost, limit=max_draft_tokens)
        if best.num_draft_tokens:
            highest = best.num_draft_tokens, float(best.speedup)
            _mark(ax, *highest, colour)
            ax.annotate(
                f"{highest[1]:.2f}x",
                highest,
                xytext=(0, 8),
                textcoords="offset points",
                color=colour,
                fontsize=9,
                ha="center",
            )
        ax.annotate(
            f"acceptance {_short(acceptance)}",
            (lengths[-1], speedups[-1]),
            xytext=(12, 0),
            textcoords="offset points",
            color=colour,
            va="center",
        )
    ax.set_xlabel("drafted tokens per round")
    ax.set_ylabel("speedup over plain decoding")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _from_zero(ax)
    return ax


def plot_speedup_map(
    *,
    num_draft_tokens: int | None = None,
    max_cost: Number = 0.6,
    limit: int = 64,
    ax: Axes | None = None,
) -> Axes:
    """Speedup over acceptance and cost, with the line on which it breaks even.

    Parameters
    ----------
    num_draft_tokens : int, at least 1, optional
        Draft length. By default the best one at each point, for which the break-even line is acceptance =
        cost.
    max_cost : number above 0
        Top of the map.
    limit : int, at least 1
        Longest draft allowed where the best length is taken.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
    """
    acceptances = np.linspace(0, 1, 121)
    costs = np.linspace(0, float(positive("max_cost", max_cost)), 73)

    def value(acceptance: float, cost: float) -> float:
        if num_draft_tokens is not None:
            return float(speedup(acceptance, num_draft_tokens, cost))
        return float(best_num_draft_tokens(acceptance, cost, limit=limit).speedup)

    speedups = np.array(
        [[value(float(a), float(c)) for a in acceptances] for c in costs]
    )  # [cost, acceptance]
    length = "best draft length" if num_draft_tokens is None else f"{num_draft_tokens} draft tokens"
    ax = _axes(ax, 6.4, 4.2)
    ax.set_title(f"speedup, {length}", **TITLE)
    levels = [1, 1.25, 1.5, 2, 2.5, 3, 4, 6]
    colours = plt.get_cmap("YlGnBu")(np.linspace(0.08, 0.92, len(levels)))
    ax.contourf(acceptances, costs, speedups, levels, colors=colours, extend="max")
    lines = ax.contour(acceptances, costs, speedups, levels[1:], colors="white", linewidths=0.7)
    ink = [INK if level < 2.5 else "white" for level in lines.levels]
    ax.clabel(lines, fmt=lambda level: f"{level:g}x", fontsize=8, colors=ink)
    even = [float(break_even_cost(float(a), num_draft_tokens or 1)) for a in acceptances]
    ax.fill_between(acceptances, even, max(1.0, costs[-1]), color="white")
    ax.annotate("does not pay", (0.06, 0.55), xycoords="axes fraction", color=GREY, fontsize=9)
    if num_draft_tokens is not None:
        ax.plot(acceptances, even, color=VERMILION, label=f"break-even with {length}")
    ax.plot(acceptances, acceptances, "--", color=INK, linewidth=1, label="acceptance = cost")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, costs[-1])
    ax.set_xlabel("acceptance")
    ax.set_ylabel("cost of a draft pass, in target passes")
    ax.legend(loc="upper left", frameon=False)
    return ax


def plot_roofline(
    acceptance: Number,
    num_draft_tokens: int | Sequence[int],
    cost: Number,
    target: Model,
    hardware: Hardware,
    *,
    context: int = 0,
    max_batch: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Speedup by batch size, a line per draft length, with the batch size marked from which it stops paying.

    Parameters
    ----------
    acceptance, cost, target, hardware, context
        As for `roofline.speedup_at_batch`.
    num_draft_tokens : int or sequence of ints
        Up to six draft lengths.
    max_batch : int, at least 1, optional
        Largest batch shown; by default four times the last crossing, or 1024 where there is none.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
    """
    lengths = _some(num_draft_tokens)
    ends = [
        break_even_batch(acceptance, length, cost, target, hardware, context=context) for length in lengths
    ]
    last = max((4 * end for end in ends if end is not None), default=1024)
    largest = max(last, 8) if max_batch is None else count("max_batch", max_batch)
    ax = _axes(ax, 6.4, 3.8)
    ax.set_title(f"acceptance {_short(acceptance)}, draft cost {_short(cost)}", **TITLE)
    _plain_decoding(ax)
    for length, end, colour in zip(lengths, ends, COLOURS, strict=False):
        batches = sorted(
            {*np.geomspace(1, largest, 120).round().astype(int).tolist(), min(end or 1, largest)}
        )
        speedups = [
            float(speedup_at_batch(acceptance, length, cost, target, hardware, batch=batch, context=context))
            for batch in batches
        ]
        until = {None: "pays at every size", 1: "never pays"}.get(end, f"stops paying at {end}")
        ax.plot(batches, speedups, color=colour, label=f"{length} drafted, {until}")
        if end is not None and end <= largest:
            _mark(ax, end, speedups[batches.index(end)], colour)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("batch size, sequences")
    ax.set_ylabel("speedup over plain decoding")
    _from_zero(ax)
    ax.legend(frameon=False)
    return ax


def plot_laws(
    laws: Mapping[str, Mapping[Hashable, Number]],
    *,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Laws side by side: a group of bars per outcome, a colour per law.

    Parameters
    ----------
    laws : mapping from name to law
        Up to six; a law is any mapping from outcome to probability. Outcomes stand in the order they are met.
    labels : sequence of str, optional
        Names of tokens, used for outcomes that are ints or tuples of ints.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
    """
    names = _some(list(laws))
    outcomes = list(dict.fromkeys(outcome for law in laws.values() for outcome in law))
    ax = _axes(ax, max(4.0, 1.2 + 0.3 * len(outcomes) * len(names)), 3.4)
    width = 0.8 / len(names)
    for place, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        heights = [float(laws[name].get(outcome, 0)) for outcome in outcomes]
        left = [position - 0.4 + (place + 0.5) * width for position in range(len(outcomes))]
        ax.bar(left, heights, 0.92 * width, color=colour, label=name)
    ax.set_xticks(range(len(outcomes)), [_outcome(outcome, labels) for outcome in outcomes])
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("outcome")
    ax.set_ylabel("probability")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2 if len(names) > 3 else 3, frameon=False)
    return ax


def plot_acceptance(
    measured: Sequence[Number | tuple[Number, float, float]],
    *,
    expected: Mapping[str, Sequence[Number]] | None = None,
    quantity: str = "probability of being accepted",
    ax: Axes | None = None,
) -> Axes:
    """Acceptance by position: measured, with intervals where there are any, beside what formulas say.

    Parameters
    ----------
    measured : sequence of k numbers or triples (value, low, high)
        For draft 1, 2, ...: the `survival` or `acceptance_by_position` of a `measure.TextAcceptance`, for
        example.
    expected : mapping from name to sequence of numbers, optional
        Lines to compare with, up to five.
    quantity : str
        What is measured: the label of the vertical axis.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
    """
    triples = [
        value if isinstance(value, tuple) else (value, value, value) for value in _some(measured, None)
    ]
    positions = range(1, len(triples) + 1)
    lines = expected or {}
    _some(["measured", *lines])
    ax = _axes(ax, 5.4, 3.6)
    for (name, line), colour in zip(lines.items(), COLOURS[1:], strict=False):
        ax.plot(range(1, len(line) + 1), [float(value) for value in line], "--", color=colour, label=name)
    means, lows, highs = np.array([[float(value) for value in triple] for triple in triples]).T
    ax.errorbar(
        positions,
        means,
        [means - lows, highs - means],
        fmt="o",
        color=BLUE,
        markersize=4,
        capsize=3,
        label="measured",
    )
    ax.set_xticks(positions)
    ax.set_xlabel("position in the draft")
    ax.set_ylabel(quantity)
    ax.set_ylim(0, 1)
    ax.legend(frameon=False)
    return ax


def plot_trade_off(
    target: Row,
    draft: Row,
    rules: Mapping[str, Sequence[tuple[Number, Number]]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Distance over acceptance of one token: the line that no rule is below, and rules as a parameter moves.

    Parameters
    ----------
    target, draft : ndarray, shape (V,)
        The two laws.
    rules : mapping from name to sequence of (acceptance, distance, ...)
        Up to six curves, of the `bound.position` of a rule for each value of its parameter. A curve of one
        point is a dot.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
    """
    _some(list(rules))
    apart = float(total_variation(target, draft))
    ax = _axes(ax, 6.4, 4.2)
    line = [0, 1 - apart, 1], [0, 0, apart]
    ax.fill_between(*line, color=PALE, linewidth=0, alpha=0.6)
    ax.plot(*line, color=INK, linewidth=2.2, label="least distance")
    ax.annotate("no rule", (0.97, 0.03), xycoords="axes fraction", color=GREY, ha="right")
    for (name, places), colour in zip(rules.items(), COLOURS, strict=False):
        acceptances, distances = ([float(place[i]) for place in places] for i in (0, 1))
        ax.plot(acceptances, distances, "-o", color=colour, markersize=3.5, linewidth=1.2, label=name)
    ax.set_xlim(0, 1.01)
    ax.set_ylim(-0.01, 1.3 * ax.get_ylim()[1])  # room for the legend
    ax.set_xlabel("probability that a draft is accepted")
    ax.set_ylabel("distance of a token's law from the target's")
    ax.legend(loc="upper left", frameon=False)
    return ax


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
    leaves = _in_order(_some(list(paths), None))
    below: dict[Prefix, list[int]] = {}  # the rows of the leaves that begin with a prefix
    for row, leaf in enumerate(leaves):
        for prefix in _prefixes(leaf):
            below.setdefault(prefix, []).append(row)
    branches = {}  # what is written on each
    for prefix, rows in below.items():
        if prefix:
            answer = leaves[rows[0]].answers[len(prefix) - 1]
            branches[prefix] = f"{_answer(answer.kind, answer.answer, labels)}  {_short(answer.probability)}"
    outcomes = [_outcome(leaf.outcome, labels) for leaf in leaves]
    depth = max(len(leaf.answers) for leaf in leaves)
    unit = max(1.5, 0.15 * max(map(len, branches.values()), default=0))  # inches a question
    room = 0.085 * max(map(len, outcomes)) / unit
    ax = _axes(ax, unit * (depth + 0.75 + room), 0.3 * len(leaves) + 0.9)
    ax.set_axis_off()
    ax.grid(visible=False)
    for prefix, text in branches.items():
        mass = float(sum(leaves[row].probability for row in below[prefix]))
        heights = _height(below[prefix[:-1]]), _height(below[prefix])
        colour = COLOUR_OF_ANSWER[_answer_name(*prefix[-1])]
        _branch(ax, len(prefix) - 1, heights, colour, 0.6 + 3.4 * mass)
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
        ax.text(depth + 0.55, -row, _short(leaf.probability), ha="right", va="center", color=GREY, fontsize=9)
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


def _branch(ax: Axes, left: float, heights: tuple[float, float], colour: str, linewidth: float) -> None:
    start, end = heights
    points = [(left, start), (left + 0.25, start), (left + 0.15, end), (left + 0.4, end), (left + 1, end)]
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4, Curve.LINETO]
    ax.add_patch(
        PathPatch(Curve(points, codes), fill=False, edgecolor=colour, linewidth=linewidth, capstyle="round")
    )


def _answer_name(kind: str, answer: Any) -> str:
    return f"flip: {'yes' if answer else 'no'}" if kind == "flip" else "pick"


def _answer(kind: str, answer: Any, labels: Sequence[str] | None) -> str:
    return ("yes" if answer else "no") if kind == "flip" else _outcome(answer, labels)


def _outcome(outcome: Any, labels: Sequence[str] | None) -> str:
    """An outcome in few letters: tokens by their names, everything else as it prints."""
    outcome = getattr(outcome, "tokens", outcome)
    if isinstance(outcome, tuple):
        return " ".join(_outcome(part, labels) for part in outcome) or "()"
    if labels is not None and type(outcome) is int and 0 <= outcome < len(labels):
        return labels[outcome]
    return str(outcome)


def _short(value: Number) -> str:
    """A number in few letters: a fraction as such where its parts are small."""
    exact = isinstance(value, Fraction | int) and len(str(value)) < 10
    return str(value) if exact else f"{float(value):.3g}"


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    return ax


def _plain_decoding(ax: Axes) -> None:
    ax.axhline(1, color=GREY, linewidth=1, linestyle=":")
    ax.annotate(
        "plain decoding",
        (1, 1),
        xycoords=("axes fraction", "data"),
        xytext=(-2, -3),
        textcoords="offset points",
        color=GREY,
        fontsize=8,
        ha="right",
        va="top",
    )


def _mark(ax: Axes, x: float, y: float, colour: str) -> None:
    ax.plot([x], [y], "o", color="white", markeredgecolor=colour, markeredgewidth=1.8, markersize=8)


def _from_zero(ax: Axes) -> None:
    ax.set_ylim(0, max(1.2, 1.07 * ax.get_ylim()[1]))  # room above the highest mark


def _some(values: Any, most: int | None = len(COLOURS)) -> list[Any]:
    """A value or several as a list; refuse none, and more than there are colours for."""
    listed = list(values) if isinstance(values, Iterable) else [values]
    if not listed:
        raise ValueError("there is nothing to draw: give at least one value")
    if most is not None and len(listed) > most:
        raise ValueError(f"{len(listed)} in one picture cannot be told apart: give up to {most}")
    return listed
