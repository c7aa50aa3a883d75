"""Pictures of laws: outcomes side by side, acceptance by position, distance over acceptance."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from speculative._numbers import Number
from speculative.distribution import Row, total_variation
from speculative.plot.style import BLUE, COLOURS, GREY, INK, PALE, new_axes, outcome_name, some


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
    names = some(list(laws))
    outcomes = list(dict.fromkeys(outcome for law in laws.values() for outcome in law))
    ax = new_axes(ax, max(4.0, 1.2 + 0.3 * len(outcomes) * len(names)), 3.4)
    width = 0.8 / len(names)
    for place, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        heights = [float(laws[name].get(outcome, 0)) for outcome in outcomes]
        left = [position - 0.4 + (place + 0.5) * width for position in range(len(outcomes))]
        ax.bar(left, heights, 0.92 * width, color=colour, label=name)
    ax.set_xticks(range(len(outcomes)), [outcome_name(outcome, labels) for outcome in outcomes])
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
    triples = [value if isinstance(value, tuple) else (value, value, value) for value in some(measured, None)]
    positions = range(1, len(triples) + 1)
    lines = expected or {}
    some(["measured", *lines])
    ax = new_axes(ax, 5.4, 3.6)
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
    some(list(rules))
    apart = float(total_variation(target, draft))
    ax = new_axes(ax, 6.4, 4.2)
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
