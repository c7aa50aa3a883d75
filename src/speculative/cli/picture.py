"""The pictures that `--plot FILE` saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap
from types import ModuleType
from typing import Any

from speculative.cli.planning import Machine, Plan
from speculative.measure import Estimate

SUFFIXES = (".png", ".pdf", ".svg")
LETTERS_OF_A_PANEL = 75  # in a line of the title


def check_suffix(file: str) -> None:
    """Refuse a file name whose suffix is no picture format, and any where nothing can be drawn."""
    drawing()
    if Path(file).suffix.lower() not in SUFFIXES:
        raise ValueError(f"--plot {file!r} has no known suffix: write one of {', '.join(SUFFIXES)}")


def save(file: str, plan: Plan, machine: Machine | None) -> None:
    """Draw a plan: the speedup by draft length, the acceptance where it was measured, the roofline."""
    plot = drawing()
    acceptance, cost = float(plan.acceptance), float(plan.cost)

    def by_length(ax: Any) -> None:
        plot.plot_speedup(acceptance, cost, max_draft_tokens=len(plan.lengths), ax=ax)

    def by_position(ax: Any, measured: Sequence[Estimate]) -> None:
        formula = [acceptance**k for k in range(1, len(measured) + 1)]
        plot.plot_acceptance(measured, expected={"the same everywhere, the formula": formula}, ax=ax)

    def by_batch(ax: Any, machine: Machine) -> None:
        plot.plot_roofline(
            acceptance, plan.best or 1, cost, machine.model, machine.hardware, context=machine.context, ax=ax
        )

    panels: list[Callable[[Any], None]] = [by_length]
    if plan.measured is not None:
        panels.append(partial(by_position, measured=plan.measured.survival))
    if machine is not None:
        panels.append(partial(by_batch, machine=machine))
    save_panels(file, panels)


def save_panels(
    file: str, panels: Sequence[Callable[[Any], None]], *, height: float = 4, title: str = ""
) -> None:
    """Save a picture of panels side by side, each drawn by a function of its Axes, under a title."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - matplotlib is optional

    figure = Figure(figsize=(6.4 * len(panels), height), layout="constrained")
    for panel, ax in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        panel(ax)
    if title:
        lines = wrap(title, LETTERS_OF_A_PANEL * len(panels), break_on_hyphens=False)
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10, parse_math=False)
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise ValueError(
            f"--plot {file!r} cannot be written: {error.strerror}; name a file in a folder you can write to"
        ) from None


def drawing() -> ModuleType:
    """Return `speculative.plot`, or say what it needs."""
    try:
        from speculative import plot  # noqa: PLC0415 - matplotlib is optional
    except ImportError as error:
        raise ValueError(f"--plot: {error}") from None
    return plot
