"""The picture that `speculative plan --plot FILE` saves."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from speculative.cli.planning import Machine, Plan


def check_suffix(file: str) -> None:
    """Refuse a file name whose suffix is no picture format."""
    _drawing()
    from matplotlib.figure import Figure  # noqa: PLC0415 - matplotlib is optional

    known = sorted(Figure().canvas.get_supported_filetypes())
    if Path(file).suffix[1:].lower() not in known:
        raise ValueError(f"--plot {file!r} has no known suffix: write one of .{', .'.join(known)}")


def save(file: str, plan: Plan, machine: Machine | None) -> None:
    """Draw the speedup by draft length; the acceptance where it was measured; the roofline of a machine."""
    drawing = _drawing()
    from matplotlib.figure import Figure  # noqa: PLC0415 - matplotlib is optional

    panels: list[Any] = [
        lambda ax: drawing.plot_speedup(
            float(plan.acceptance), float(plan.cost), max_draft_tokens=len(plan.lengths), ax=ax
        )
    ]
    if plan.measured is not None:
        measured = plan.measured.survival
        formula = [float(plan.acceptance) ** k for k in range(1, len(measured) + 1)]
        panels.append(
            lambda ax: drawing.plot_acceptance(measured, expected={"i.i.d. formula": formula}, ax=ax)
        )
    if machine is not None:
        panels.append(
            lambda ax: drawing.plot_roofline(
                float(plan.acceptance), plan.best or 1, float(plan.cost), machine.model, machine.hardware,
                context=machine.context, ax=ax,
            )
        )  # fmt: skip
    figure = Figure(figsize=(6.4 * len(panels), 4), layout="constrained")
    for panel, ax in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        panel(ax)
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise ValueError(
            f"--plot {file!r} cannot be written: {error.strerror}; name a file in a folder you can write to"
        ) from None


def _drawing() -> ModuleType:
    try:
        from speculative import plot  # noqa: PLC0415 - matplotlib is optional
    except ImportError as error:
        raise ValueError(f"--plot: {error}") from None
    return plot
