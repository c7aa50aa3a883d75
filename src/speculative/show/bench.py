"""What decoding on the clock came to: a table of cases, the forecast beside the measured speedup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from speculative.bench import Measured
from speculative.show.console import table

CLOSE = 0.1
"""A forecast within this share of the measured speedup is taken to have come true."""


class BenchLine(NamedTuple):
    """A case and what was measured of it."""

    drafter: str
    verifier: str
    num_draft_tokens: int
    tree: str
    """As it was asked for; empty for a chain."""
    measured: Measured


def bench_table(lines: Sequence[BenchLine]) -> Table:
    """Return the table, a line for each case, the fastest in bold."""
    made = table(
        "drafter",
        "verifier",
        "k",
        "accepted at\n1, 2, ..",
        "tokens\na pass",
        "µs a\ntoken",
        "a round\ncosts",
        "speedup\nquartiles",
        "forecast",
    )
    for place in (1, 3):
        made.columns[place].justify = "left"
    for place in (0, 2, *range(4, 9)):
        made.columns[place].no_wrap = True
    made.columns[1].overflow = "fold"
    made.pad_edge, made.collapse_padding = False, True
    fastest = max(line.measured.race.speedup.median for line in lines)
    for drafter, verifier, k, tree, measured in lines:
        raced, counted = measured.race, measured.race.statistics
        made.add_row(
            drafter,
            f"{verifier}\n{tree}".rstrip(),
            str(k),
            " ".join(f"{share:.2f}".lstrip("0") for share in counted.acceptance_by_position),
            f"{counted.tokens_per_target_pass:.2f}",
            f"{1e6 * raced.seconds.median:.0f}",
            f"{measured.round_cost:.2f}",
            f"{raced.speedup.median:.2f}\n{raced.speedup.low:.2f}-{raced.speedup.high:.2f}",
            f"{measured.predicted:.2f}\n{100 * measured.error:+.0f} %",
            style="bold" if raced.speedup.median == fastest else "",
        )
    return made


def explained(lines: Sequence[BenchLine]) -> list[str]:
    """Say what the columns are, and how far the forecasts were off."""
    plain = sorted(line.measured.race.plain_seconds.median for line in lines)
    missed = [line for line in lines if abs(line.measured.error) > CLOSE]
    verdict = "all within" if not missed else f"{len(lines) - len(missed)} of {len(lines)} within"
    return [
        f"A token by plain decoding took {1e6 * plain[len(plain) // 2]:.0f} µs. Accepted: where it "
        "is reached. A round costs its target pass, its draft and the loop, each timed by itself, in plain "
        "tokens; the forecast is tokens a pass over that, and below it how far it is off. Speedups are "
        "medians over prompts.",
        f"Forecasts: {verdict} {100 * CLOSE:.0f} % of the measured speedup.",
    ]
