"""Picture of a cache: its rows by position, after a pass, cut back to what was kept, and at the next pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MultipleLocator

from speculative._numbers import count
from speculative.draft.proposal import Draft, DraftTree
from speculative.plot.style import BLUE, GREY, INK, PALE, SKY, VERMILION, new_axes, outcome_name

HEIGHTS = (0.0, -1.7, -3.4)  # of the strips, in cells

Strip: TypeAlias = dict[int, tuple[str, str | None]]  # position -> what stands there, and its colour


def plot_cache(
    context: Sequence[int],
    draft: Draft | DraftTree,
    emitted: Sequence[int],
    *,
    labels: Sequence[str] | None = None,
    last: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """What a round leaves of a cache: three strips of cells, one cell a position.

    Parameters
    ----------
    context : sequence of int
        The tokens read before the round, a first token of the model's own included.
    draft : Draft or DraftTree
        What was scored behind them. Node i + 1 has its row i positions behind the context's end.
    emitted : sequence of int
        What the round made of it, the `tokens` of a Verdict or a Round.
    labels : sequence of str, optional
        Names of tokens.
    last : int
        How many cells of the context are shown.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
        Of the nodes, those on the emitted path are kept. An arrow moves the row of a kept node that does not
        stand where its token will stand. A thick line ends each strip's text: the length, all that is set.
        Rows behind it are still there, and the next pass writes over them, first the row of the emitted
        token that had none.

    Raises
    ------
    ValueError
        For an empty context, and where no token was emitted.
    """
    if not context or not emitted:
        missing = "tokens in the context" if not context else "emitted tokens"
        raise ValueError(f"there are no {missing}: give those of a round, one or more")
    length, nodes = len(context), kept_nodes(draft, emitted)
    first, end = max(0, length - count("last", last)), length + max(len(draft), len(emitted)) + 1
    drafted = [outcome_name(token, labels) for token in draft.tokens]
    empty: Strip = dict.fromkeys(range(first, end), ("", None))
    before: Strip = {place: (outcome_name(context[place], labels), SKY) for place in range(first, length)}
    scored: Strip = {length + i: (name, BLUE if i + 1 in nodes else PALE) for i, name in enumerate(drafted)}
    still_there: Strip = {place: (name, None) for place, (name, _) in scored.items()}
    kept: Strip = {length + i: (drafted[node - 1], BLUE) for i, node in enumerate(nodes)}
    cut = empty | before | still_there | kept
    new: Strip = {
        length + i: (outcome_name(emitted[i], labels), VERMILION) for i in range(len(nodes), len(emitted))
    }
    ax = new_axes(ax, 0.36 * (end - first) + 1.7, 2.9)
    ax.grid(visible=False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ends = length, length + len(nodes), length + len(emitted)
    for height, strip, ending in zip(HEIGHTS, (empty | before | scored, cut, cut | new), ends, strict=True):
        for position, (name, colour) in strip.items():
            _cell(ax, (position, height), name, colour)
        line = [height - 0.66, height + 0.66]
        ax.plot([ending - 0.5] * 2, line, color=INK, linewidth=2.6, solid_capstyle="butt")
    for place, node in enumerate(nodes, start=1):
        if node != place:
            _arrow(ax, length + node - 1, length + place - 1)
    ax.set_xlim(first - 0.6, end - 0.4)
    ax.set_ylim(HEIGHTS[-1] - 0.75, HEIGHTS[0] + 0.75)
    ax.set_yticks(HEIGHTS, ("after the pass", "cut back", "next pass"))
    ax.xaxis.set_major_locator(MultipleLocator(2))
    ax.tick_params(length=0, labelsize=8, labelcolor=GREY)
    ax.tick_params(axis="y", labelsize=9, labelcolor=INK)
    ax.set_xlabel("position", color=GREY, fontsize=8)
    _legend(ax)
    return ax


def kept_nodes(draft: Draft | DraftTree, emitted: Sequence[int]) -> list[int]:
    """The nodes that emitted tokens lead through, from the first one on as far as they do."""
    nodes = [0]
    for token in emitted:
        child = draft.child(nodes[-1], token)
        if child is None:
            break
        nodes.append(child)
    return nodes[1:]


def _cell(ax: Axes, centre: tuple[float, float], name: str, colour: str | None) -> None:
    """Draw a row of the cache; without a colour, one that the text does not count."""
    x, y = centre
    ink = "white" if colour in {BLUE, VERMILION} else INK if colour else GREY
    cell = Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, linestyle="-" if colour else ":")
    cell.set(facecolor=colour or "white", edgecolor=colour or GREY, linewidth=0.8)
    ax.add_patch(cell)
    ax.text(x, y, name, ha="center", va="center", fontsize=9, color=ink)


def _arrow(ax: Axes, start: int, end: int) -> None:
    """Draw where a row is moved to, from the first strip to the second."""
    style = {"arrowstyle": "-|>", "color": BLUE, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (end, HEIGHTS[1] + 0.47), xytext=(start, HEIGHTS[0] - 0.47), arrowprops=style)


def _legend(ax: Axes) -> None:
    colours = {"context": SKY, "kept": BLUE, "refused": PALE, "read next": VERMILION}
    handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
    handles.append(Patch(facecolor="white", edgecolor=GREY, linestyle=":", label="not counted"))
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 5}
    ax.legend(handles=handles, **place, frameon=False, fontsize=8, handlelength=1.1, columnspacing=1.2)
