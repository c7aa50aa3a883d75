"""What speculation brings by draft length and by batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.table import Table

from speculative.chance import Number
from speculative.measure import Estimate
from speculative.show.console import table

BEST = "best"


class Length(NamedTuple):
    """A draft length and what it brings."""

    num_draft_tokens: int
    tokens_per_round: Number
    speedup: Number
    break_even_cost: Number
    """The cost of a draft pass below which this length pays."""
    acceptance: Estimate | None = None
    """Acceptance of the last of its drafts, given that it is reached; None where it is the same for all."""


class Batch(NamedTuple):
    """A batch size, the speedup at a given draft length, and the best length there."""

    batch: int
    speedup: Number
    best: int
    best_speedup: Number


def length_table(lengths: Sequence[Length], best: int) -> Table:
    """Return the table of draft lengths, the best one marked."""
    measured = any(one.acceptance is not None for one in lengths)
    by_position = ["accepted at k,\nif reached"] * measured
    made = table("drafts k", *by_position, "tokens per round", "speedup", "pays below cost", "")
    made.columns[-1].justify = "left"
    made.columns[1].no_wrap = measured  # intervals
    for one in lengths:
        accepted = [str(one.acceptance)] * measured
        figures = [f"{float(x):.3f}" for x in (one.tokens_per_round, one.speedup, one.break_even_cost)]
        chosen = one.num_draft_tokens == best
        style = "bold" if chosen else ""
        made.add_row(str(one.num_draft_tokens), *accepted, *figures, BEST * chosen, style=style)
    return made


def batch_table(batches: Iterable[Batch], num_draft_tokens: int) -> Table:
    """Return the table of batch sizes."""
    made = table("batch", f"speedup with {num_draft_tokens} drafts", "best drafts", "speedup there")
    for one in batches:
        best = str(one.best) if one.best else "none"
        made.add_row(str(one.batch), f"{float(one.speedup):.3f}", best, f"{float(one.best_speedup):.3f}")
    return made
