"""Pictures of rounds: one of them token by token, and a text as the staircase of its rounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from speculative._numbers import Number
from speculative.decode import Round
from speculative.distribution import Row
from speculative.draft.proposal import Draft
from speculative.plot.cache import kept_nodes
from speculative.plot.style import BLUE, GREY, INK, PALE, VERMILION, new_axes, outcome_name, short, some


def plot_round(
    draft: Draft,
    target_probs: Sequence[Row],
    emitted: Sequence[int],
    *,
    uniforms: Sequence[Number] = (),
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Token verification of a chain: min(1, target / draft) of each drafted token, and what became of it.

    Parameters
    ----------
    draft : Draft
        k tokens, one or more.
    target_probs : sequence of k or k + 1 rows, each (V,)
        Row i is the target's law after draft.tokens[:i].
    emitted : sequence of int
        What the round made of it, the `tokens` of a Verdict or a Round. Where the last of them is a draft, a
        stop token, the drafts behind it count as never judged.
    uniforms : sequence of numbers, optional
        The numbers between 0 and 1 that decided, one a draft that was judged: accepted if below the bar's
        top.
    labels : sequence of str, optional
        Names of tokens.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
        Below each token its two probabilities, the target's over the draft's.
    """
    accepted = len(kept_nodes(draft, emitted))
    judged = accepted + (accepted < len(emitted))  # another token stands where a draft was refused
    ax = new_axes(ax, 1.0 + 0.78 * len(some(draft.tokens, None)), 3.2)
    names = []
    for place, (token, drawn_from) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        wanted, given = target_probs[place][token], drawn_from[token]
        acceptance = min(1, wanted / given)
        ax.bar(place, float(acceptance), 0.62, color=_fate(place, accepted, judged))
        ax.annotate(
            _written(acceptance),
            (place, float(acceptance)),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            color=INK,
            fontsize=9,
        )
        names.append(f"{outcome_name(token, labels)}\n{_written(wanted)}\n{_written(given)}")
    for place, uniform in enumerate(uniforms):
        ax.plot([place - 0.4, place + 0.4], [float(uniform)] * 2, color=INK, linewidth=1.6)
    ax.set_xticks(range(len(draft)), names)
    for place, tick in enumerate(ax.get_xticklabels()):
        tick.set(color=_fate(place, accepted, judged, GREY), fontsize=9)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(draft) - 0.4)
    ax.set_ylim(0, 1.1)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    ax.set_ylabel("min(1, target / draft)")
    ax.set_xlabel("drafted token, its probability by the target, and by the draft", fontsize=8, color=GREY)
    colours = {"accepted": BLUE, "refused": VERMILION, "not judged": PALE}
    handles: list[Patch | Line2D] = [Patch(color=colour, label=name) for name, colour in colours.items()]
    if len(uniforms):
        handles.append(Line2D([], [], color=INK, linewidth=1.6, label="uniform number"))
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=8)
    return ax


def plot_rounds(
    rounds: Sequence[Round], *, labels: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """A text as it was written: a line for each round, a cell for each token, next to plain decoding.

    Parameters
    ----------
    rounds : sequence of Round
        In order, of chains. Some thirty are still readable.
    labels : sequence of str, optional
        Names of tokens.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
        Drafts that were discarded behind a refused one, whose place the residual has, stand pale behind a
        round's tokens, without names: what they were is not in a Round. The dotted line is where plain
        decoding would be, with a token a pass.
    """
    some(rounds, None)
    total = sum(len(one.tokens) for one in rounds)
    widest = max(one.drafted for one in rounds)
    ax = new_axes(ax, 0.155 * (total + widest) + 0.8, 0.17 * len(rounds) + 0.9)
    ax.grid(visible=False)
    start = 0
    for number, one in enumerate(rounds, start=1):
        for place, token in enumerate(one.tokens):
            colour = BLUE if place < one.accepted else VERMILION if one.last == "residual" else INK
            ax.add_patch(Rectangle((start + place, number - 0.45), 1, 0.9, color=colour, linewidth=0))
            ax.text(
                start + place + 0.5,
                number,
                outcome_name(token, labels),
                ha="center",
                va="center",
                color="white",
                fontsize=7,
            )
        ends = start + len(one.tokens)
        width = max(one.drafted - len(one.tokens), 0)
        ax.add_patch(Rectangle((ends, number - 0.45), width, 0.9, color=PALE, alpha=0.7, linewidth=0))
        start = ends
    ax.plot([0, len(rounds)], [0.5, len(rounds) + 0.5], ":", color=GREY, label="plain decoding")
    ax.set_xlim(0, total + widest)
    ax.set_ylim(len(rounds) + 0.6, 0.4)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("tokens written")
    ax.set_ylabel("pass of the target")
    colours = {"accepted draft": BLUE, "residual": VERMILION, "bonus": INK, "discarded draft": PALE}
    handles: list[Patch | Line2D] = [Patch(color=colour, label=name) for name, colour in colours.items()]
    handles.append(Line2D([], [], color=GREY, linestyle=":", label="plain decoding"))
    ax.legend(handles=handles, frameon=False, fontsize=8, loc="upper right")
    return ax


def _fate(place: int, accepted: int, judged: int, otherwise: str = PALE) -> str:
    return BLUE if place < accepted else VERMILION if place < judged else otherwise


def _written(value: Number) -> str:
    """A number in as many letters as there is room for under a bar."""
    return f"{value:.3f}" if isinstance(value, float) else short(value)
