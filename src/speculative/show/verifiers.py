"""The table of all verifiers: what each takes, keeps and carries, and what a round of it brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from speculative.chance import Number
from speculative.show.console import plain, table


class Listed(NamedTuple):
    """A verifier of the table, and what its rounds bring on average."""

    name: str
    paper: str
    drafts: str
    """What it takes."""
    chain: bool
    """Whether it is given one path, and not a tree."""
    lossless: bool
    under: str
    """The warp whose law is reproduced, where it is not the target as it stands."""
    carries: str | None
    tokens_per_target_pass: Number
    share: Number | None
    """Of the optimum, where there is one to compare with."""
    drafted: str = ""
    """What it is given here."""


def verifier_table(listed: Sequence[Listed], *, papers: bool = True) -> Group:
    """Return the table; with `papers` False the papers come below it, for a narrow terminal."""
    made = table("verifier", "drafts", "lossless", "tokens/pass", "of optimum")
    for column in made.columns[1:3]:
        column.justify = "left"
    made.columns[0].no_wrap = True
    if papers:
        made.add_column("published")
    for place, one in enumerate(listed):
        if place and _group(one) != _group(listed[place - 1]):
            made.add_section()
        cells = [_lossless(one), *_figures(one), plain(one.paper)]
        made.add_row(plain(one.name), plain(one.drafts), *cells[: None if papers else -1])
    return Group(made) if papers else Group(made, _papers(listed))


def _group(one: Listed) -> tuple[bool, bool, str]:
    """Lossless ones stand together, and among them those that are given the same kind of drafts."""
    return one.lossless, one.chain, one.drafted


def _lossless(one: Listed) -> Text:
    if not one.lossless:
        return Text("no", "yellow")
    return Text(f"yes{' *' * bool(one.under or one.carries)}", "green")


def provisos(listed: Sequence[Listed]) -> str:
    """Say of lossless verifiers what they need to be so, where they need anything."""
    needs = [f"{one.name} at {one.under}" for one in listed if one.lossless and one.under]
    needs += [f"{one.name} carrying {one.carries} to the next round" for one in listed if one.carries]
    return f"* {'; '.join(needs)}." if needs else ""


def _figures(one: Listed) -> tuple[Text, Text]:
    share = "" if one.share is None else f"{float(100 * one.share):.1f} %"
    return plain(f"{float(one.tokens_per_target_pass):.3f}"), plain(share)


def _papers(listed: Sequence[Listed]) -> Table:
    made = table("verifier", "published")
    made.columns[0].no_wrap = True
    made.columns[1].justify = "left"
    for one in listed:
        made.add_row(plain(one.name), plain(one.paper))
    return made
