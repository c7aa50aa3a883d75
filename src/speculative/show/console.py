"""The console everything is printed to, and how numbers are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

WIDTH_OF_A_PIPE = 110


class Terminal(Console):
    """A rich console that leaves a closed pipe to its caller."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, where rich would end the process."""
        raise BrokenPipeError

    def paragraph(self, text: str, style: str = "") -> None:
        """Print text as it stands, wrapped between words only: a long path stays in one piece."""
        lines = wrap(text, self.width, break_long_words=False, break_on_hyphens=False)
        self.print(Text("\n".join(lines), style=style), soft_wrap=True)

    @property
    def colourful(self) -> bool:
        """Whether colours can be told apart here."""
        return self.color_system is not None and not self.no_color


def terminal(*, no_color: bool = False) -> Terminal:
    """Return the console of standard output, without colours where they are unwanted or cannot be seen.

    Characters that its encoding lacks are replaced from now on.
    """
    with suppress(AttributeError):  # what stands in for a stream, in a notebook for example
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_OF_A_PIPE
    return Terminal(no_color=no_color or None, width=wide, highlight=False)


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on standard error while the context lasts, if that is a terminal.

    Yields
    ------
    callable
        `advance(label)`: one of `total` steps is done, and the next one is called `label`.
    """
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def advance(label: str) -> None:
            bar.update(task, advance=1, description=label)

        yield advance


def waiting(what: str) -> Status:
    """Return a context that shows on standard error what is waited for, if that is a terminal; see `stop`."""
    return Console(stderr=True).status(what)


def table(*columns: str, title: str | None = None, caption: str | None = None) -> Table:
    """Return an empty table: the first column to the left, figures to the right."""
    made = Table(box=SIMPLE_HEAD, title=title, caption=caption, title_justify="left", caption_justify="left")
    made.title_style = made.header_style = "bold"
    made.caption_style = "dim"
    for place, name in enumerate(columns):
        made.add_column(name, justify="right" if place else "left")
    return made


def exact(number: Fraction | float, digits: int = 6) -> str:
    """Write a number as a fraction where that is short, and as a decimal."""
    decimal = f"{float(number):.{digits}g}"
    fraction = str(number)
    short = isinstance(number, Fraction) and len(fraction) <= 9 and fraction != decimal
    return f"{fraction} = {decimal}" if short else decimal


def plain(text: str, style: str = "") -> Text:
    """Return text as it stands: brackets in it are no markup."""
    return Text(text, style=style)
