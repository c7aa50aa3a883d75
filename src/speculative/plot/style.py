"""What the pictures share: colours, axes, names of outcomes, and refusal of what cannot be drawn.

Colours are those of Okabe and Ito, told apart by readers of any colour vision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve

from speculative._numbers import Number

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
INK, GREY, PALE = "#222222", "#767676", "#DDDDDD"
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10}


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the Axes given, or those of a new figure of so many inches, without a frame."""
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    return ax


def mark(ax: Axes, x: float, y: float, colour: str) -> None:
    """Draw a white ring."""
    ax.plot([x], [y], "o", color="white", markeredgecolor=colour, markeredgewidth=1.8, markersize=8)


def branch(
    ax: Axes,
    left: float,
    heights: tuple[float, float],
    colour: str,
    linewidth: float,
    *,
    dashed: bool = False,
) -> None:
    """Draw a line one to the right that bends at its beginning to another height."""
    start, end = heights
    points = [(left, start), (left + 0.25, start), (left + 0.15, end), (left + 0.4, end), (left + 1, end)]
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4, Curve.LINETO]
    shape = PathPatch(Curve(points, codes), fill=False, edgecolor=colour, capstyle="round")
    shape.set(linewidth=linewidth, linestyle="--" if dashed else "-")
    ax.add_patch(shape)


def some(values: Any, most: int | None = len(COLOURS)) -> list[Any]:
    """Return a value or several as a list; refuse none, and more than there are colours for."""
    listed = list(values) if isinstance(values, Iterable) else [values]
    if not listed:
        raise ValueError("there is nothing to draw: give at least one value")
    if most is not None and len(listed) > most:
        raise ValueError(f"{len(listed)} in one picture cannot be told apart: give up to {most}")
    return listed


def short(value: Number) -> str:
    """Return a number in few letters: a fraction as such where its parts are small."""
    exact = isinstance(value, Fraction | int) and len(str(value)) < 10
    return str(value) if exact else f"{float(value):.3g}"


def outcome_name(outcome: Any, labels: Sequence[str] | None) -> str:
    """Return an outcome in few letters: tokens by their names, everything else as it prints."""
    outcome = getattr(outcome, "tokens", outcome)
    if isinstance(outcome, tuple):
        return " ".join(outcome_name(part, labels) for part in outcome) or "()"
    if labels is not None and type(outcome) is int and 0 <= outcome < len(labels):
        return labels[outcome]
    return str(outcome)
