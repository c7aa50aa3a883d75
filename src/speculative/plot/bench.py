"""Pictures of decoding on the clock: speedups with their forecasts, and acceptance by position."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from speculative.bench import Measured
from speculative.plot.style import BLUE, COLOURS, GREY, INK, PALE, TITLE, new_axes, some

FORMS = ("-", "--", ":")


def plot_race(cases: Mapping[str, Measured], *, ax: Axes | None = None) -> Axes:
    """Measured speedups with their quartiles, and the cost model's forecasts beside them.

    Parameters
    ----------
    cases : mapping from str to Measured
        What each is called; the first is drawn on top.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
    """
    names = some(cases, most=None)
    ax = new_axes(ax, 6.4, 1.2 + 0.3 * len(names))
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", color=PALE, linewidth=0.6)
    places = range(len(names))
    spreads = [cases[name].race.speedup for name in names]
    middles = [one.median for one in spreads]
    arms = [[one.median - one.low for one in spreads], [one.high - one.median for one in spreads]]
    ax.axvline(1, color=GREY, linewidth=1, linestyle=":")
    ax.errorbar(
        middles, places, xerr=arms, fmt="o", color=BLUE, markersize=5, label="measured, with quartiles"
    )
    forecasts = [cases[name].predicted for name in names]
    ax.plot(
        forecasts,
        places,
        "D",
        color="none",
        markeredgecolor=INK,
        markersize=7,
        label="forecast of the cost model",
    )
    ax.set_yticks(places, names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, 1.08 * max(1, *forecasts, *(one.high for one in spreads)))
    ax.set_xlabel("speedup over plain decoding")
    ax.set_title("on the clock", **TITLE)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.4, 1), fontsize=8, borderaxespad=0.2)
    return ax


def plot_acceptance_by_position(cases: Mapping[str, Measured], *, ax: Axes | None = None) -> Axes:
    """How often a draft was accepted at each position, if those before it were.

    Parameters
    ----------
    cases : mapping from str to Measured
        What each is called; up to 18. Those without any draft have no line.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
    """
    looks = product(FORMS, COLOURS)
    names = some(cases, most=len(FORMS) * len(COLOURS))
    ax = new_axes(ax, 6.4, 3.8)
    for name, (form, colour) in zip(names, looks, strict=False):
        shares = cases[name].race.statistics.acceptance_by_position
        positions = range(1, len(shares) + 1)
        ax.plot(positions, shares, form, marker="o", markersize=3.5, color=colour, label=name)
    ax.set_ylim(0, 1.02)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("position of the draft")
    ax.set_ylabel("accepted, if reached")
    ax.set_title("acceptance by position", **TITLE)
    ax.legend(frameon=False, fontsize=8, ncols=2)
    return ax
