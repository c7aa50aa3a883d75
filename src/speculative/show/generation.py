"""Generated text with the origin of every token, and the figures of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from speculative.show.console import Terminal, table

STYLES = {
    "prompt": "bold",
    "accepted": "green",
    "residual": "bold white on red",
    "bonus": "bold white on blue",
    "undrafted": "bold white on bright_black",
}
MARKS = {
    "prompt": ("", ""),
    "accepted": ("", ""),
    "residual": ("[", "]"),
    "bonus": ("{", "}"),
    "undrafted": ("<", ">"),
}
MEANINGS = {
    "accepted": "accepted draft",
    "residual": "residual: after a rejection",
    "bonus": "bonus: all drafts accepted",
    "undrafted": "nothing drafted",
}
BETWEEN = "   "
ONE_A_PASS = "Every token but an accepted draft is the last one of a target pass."


class Comparison(NamedTuple):
    """A measured figure with its standard error and the expected one; or with an interval."""

    measured: float
    events: int
    """How many it is the mean of."""
    expected: float | None = None
    error: float | None = None
    low: float | None = None
    high: float | None = None


class Transcript:
    """Prints text piece by piece, each in the colour, or between the marks, of its origin."""

    def __init__(self, console: Terminal) -> None:
        self._console = console
        self._newline = "↵" if console.encoding.startswith("utf") else "\\n"

    def legend(self) -> None:
        """Print what the colours or marks mean, in as many lines as the width asks for."""
        used = 0
        for origin, meaning in MEANINGS.items():
            width = len(meaning) + (0 if self._console.colourful else len("".join(MARKS[origin])))
            if used and used + len(BETWEEN) + width > self._console.width:
                self.end()
                used = 0
            between = BETWEEN if used else ""
            self.write(between, "accepted")
            self.write(meaning, origin)
            used += len(between) + width
        self.end()
        self._console.paragraph(ONE_A_PASS, "dim")

    def write(self, text: str, origin: str) -> None:
        """Print a piece of text without ending the line; the origins are the keys of `STYLES`.

        A token that is a line break is shown before the break.
        """
        if not text:
            return
        before, after = MARKS[origin]
        shown = text.replace("\n", self._newline) if before else text
        breaks = "\n" * text.count("\n") if before else ""
        if self._console.colourful:
            self._print(Text.assemble((shown, STYLES[origin]), breaks))
        else:
            self._print(Text(f"{before}{shown}{after}{breaks}"))

    def end(self) -> None:
        """End the line."""
        self._print(Text("\n"))

    def _print(self, text: Text) -> None:
        self._console.print(text, end="", soft_wrap=True)


def figures_table(tokens_per_pass: Comparison, accepted: Sequence[Comparison]) -> Table:
    """Return the table of figures, with acceptance by depth: expected, or with intervals where not."""
    beside = "95% interval" if tokens_per_pass.expected is None else "expected"
    made = table("", "measured", beside, "of")
    made.add_row("tokens per target pass", *_cells(tokens_per_pass, "passes"))
    for depth, one in enumerate(accepted, 1):
        made.add_row(f"draft {depth} accepted{', if reached' * (depth > 1)}", *_cells(one, "times"))
    return made


def _cells(one: Comparison, unit: str) -> tuple[str, str, str]:
    if one.expected is not None:
        return f"{one.measured:.3f} ± {one.error:.3f}", f"{one.expected:.3f}", f"{one.events} {unit}"
    beside = "too few" if one.low is None else f"{one.low:.3f} to {one.high:.3f}"
    return f"{one.measured:.3f}", beside, f"{one.events} {unit}"
