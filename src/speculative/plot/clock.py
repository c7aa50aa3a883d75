"""Pictures of the cost model: speedup by draft length, by acceptance and cost, and by batch size."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from speculative._numbers import Number, count, positive
from speculative.cost import best_num_draft_tokens, break_even_cost, speedup
from speculative.plot.style import COLOURS, GREY, INK, TITLE, VERMILION, mark, new_axes, short, some
from speculative.roofline import Hardware, Model, break_even_batch, speedup_at_batch


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
    values = some(acceptances)
    lengths = range(1, count("max_draft_tokens", max_draft_tokens) + 1)
    curves = [[float(speedup(acceptance, length, cost)) for length in lengths] for acceptance in values]
    ax = new_axes(ax, 6.4, 3.8)
    ax.set_title(f"a draft pass costs {short(cost)} target passes", **TITLE)
    _plain_decoding(ax)
    for acceptance, speedups, colour in zip(values, curves, COLOURS, strict=False):
        ax.plot(
            lengths, speedups, "-o", color=colour, markersize=3.5, label=f"acceptance {short(acceptance)}"
        )
        best = best_num_draft_tokens(acceptance, cost, limit=max_draft_tokens)
        if best.num_draft_tokens:
            highest = best.num_draft_tokens, float(best.speedup)
            mark(ax, *highest, colour)
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
            f"acceptance {short(acceptance)}",
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
    ax = new_axes(ax, 6.4, 4.2)
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
    lengths = some(num_draft_tokens)
    ends = [
        break_even_batch(acceptance, length, cost, target, hardware, context=context) for length in lengths
    ]
    last = max((4 * end for end in ends if end is not None), default=1024)
    largest = max(last, 8) if max_batch is None else count("max_batch", max_batch)
    ax = new_axes(ax, 6.4, 3.8)
    ax.set_title(f"acceptance {short(acceptance)}, draft cost {short(cost)}", **TITLE)
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
            mark(ax, end, speedups[batches.index(end)], colour)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("batch size, sequences")
    ax.set_ylabel("speedup over plain decoding")
    _from_zero(ax)
    ax.legend(frameon=False)
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


def _from_zero(ax: Axes) -> None:
    ax.set_ylim(0, max(1.2, 1.07 * ax.get_ylim()[1]))  # room above the highest mark
