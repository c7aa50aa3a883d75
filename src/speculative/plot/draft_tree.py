"""Picture of a draft: its tokens from left to right as a tree, and what a round made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from speculative.draft.proposal import Draft, DraftTree
from speculative.plot.style import BLUE, GREY, INK, VERMILION, branch, new_axes, outcome_name, short


class Child(NamedTuple):
    """A node below another one: its token's name, and what is written on the way to it."""

    node: int
    name: str
    text: str


def plot_tree(
    draft: Draft | DraftTree,
    emitted: Sequence[int] = (),
    *,
    labels: Sequence[str] | None = None,
    notes: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A draft tree from left to right, each token with the probability that it was drawn with.

    Parameters
    ----------
    draft : DraftTree or Draft
        Siblings stand in the order drawn, each with its probability given the ones before it; a token that
        came m times is marked so. Some thirty leaves are still readable.
    emitted : sequence of int
        What a round made of it, the `tokens` of a Verdict or a Round: the accepted drafts are filled, and the
        last token, which is no draft, is added.
    labels : sequence of str, optional
        Names of tokens.
    notes : mapping from node to str, optional
        What to write below nodes; node 0 is the context, node i + 1 has the token `draft.tokens[i]`.
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        Where the emitted tokens but the last are no path of the draft.
    """
    below = {node: list(_children(draft, node, labels)) for node in range(len(draft) + 1)}
    kept, added = _path(draft, emitted), len(draft) + 1
    below[added] = []
    if emitted:
        below[kept[-1]].append(Child(added, outcome_name(emitted[-1], labels), ""))
    order = list(_depth_first(below))
    leaves = [node for node in order if not below[node]]
    height = {node: -float(row) for row, node in enumerate(leaves)}
    for node in reversed(order):
        if node not in height:
            height[node] = (height[below[node][0].node] + height[below[node][-1].node]) / 2
    written = [len(child.text) + 1.3 * len(child.name) for node in order for child in below[node]]
    unit = 0.75 + 0.07 * max(written, default=0)  # inches a level
    depth = {0: 0}
    for node in order:
        depth.update((child.node, depth[node] + 1) for child in below[node])
    columns = max(depth.values()) + 1
    width, row = unit * columns, 0.52 if notes else 0.34  # inches
    ax = new_axes(ax, max(width, 4.4) if emitted else width, row * len(leaves) + 0.7)  # room for the legend
    ax.set_axis_off()
    ax.grid(visible=False)
    ax.text(0, height[0], "context", **_box(BLUE if emitted else GREY, filled=False))
    for node in order:
        for child, name, text in below[node]:
            colour = VERMILION if child == added else BLUE if child in kept else GREY
            heights, width = (height[node], height[child]), 1.0 if colour == GREY else 2.2
            branch(ax, depth[node], heights, colour, width, dashed=child == added)
            ax.annotate(
                text,
                (depth[node] + 0.42, height[child]),
                xytext=(0, 2.5),
                textcoords="offset points",
                color=GREY,
                fontsize=8,
            )
            ax.text(depth[child], height[child], name, **_box(colour, filled=child in kept))
    for node, note in (notes or {}).items():
        ax.annotate(
            note,
            (depth[node], height[node]),
            xytext=(0, -9),
            textcoords="offset points",
            color=VERMILION,
            fontsize=8,
            ha="center",
            va="top",
        )
    ax.set_xlim(-0.4, columns - 0.6)
    ax.set_ylim(min(height.values()) - 0.6, 0.6)
    if emitted:
        _legend(ax)
    return ax


def _children(draft: Draft | DraftTree, node: int, labels: Sequence[str] | None) -> Iterator[Child]:
    """Yield the children of a node in the order drawn, each once."""
    siblings = draft.siblings(node)
    if siblings is not None:
        draws = list(zip(siblings.nodes, siblings.tokens, siblings.laws(), strict=True))
        for i, (child, token, law) in enumerate(draws):
            if child not in siblings.nodes[:i]:
                times = siblings.nodes.count(child)
                text = short(law[token]) + (f", {times} times" if times > 1 else "")
                yield Child(child, outcome_name(token, labels), text)


def _path(draft: Draft | DraftTree, emitted: Sequence[int]) -> list[int]:
    """Return the nodes that the emitted tokens but the last lead through, the root first."""
    nodes = [0]
    for token in emitted[:-1]:
        child = draft.child(nodes[-1], token)
        if child is None:
            raise ValueError(
                f"emitted = {tuple(emitted)}: token {token} is not drafted below node {nodes[-1]}; give the "
                "tokens of a round, accepted drafts and one more"
            )
        nodes.append(child)
    return nodes


def _depth_first(below: Mapping[int, Sequence[Child]], node: int = 0) -> Iterator[int]:
    yield node
    for child in below[node]:
        yield from _depth_first(below, child.node)


def _box(colour: str, *, filled: bool) -> dict[str, Any]:
    face = colour if filled else "white"
    return {
        "ha": "center",
        "va": "center",
        "fontsize": 9,
        "color": "white" if filled else INK,
        "bbox": {"boxstyle": "round,pad=0.35", "facecolor": face, "edgecolor": colour},
    }


def _legend(ax: Axes) -> None:
    names = {"accepted": BLUE, "emitted last, no draft": VERMILION, "not kept": GREY}
    handles = [Line2D([], [], color=colour, label=name) for name, colour in names.items()]
    handles[1].set_linestyle("--")
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 0.98), ncols=3, frameon=False, fontsize=8)
