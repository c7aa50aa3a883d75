"""`speculative verifiers`: every verifier of the table, what it takes, and what its rounds bring."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from statistics import mean
from typing import Any

from speculative import show
from speculative.battery import random_instance
from speculative.bound import expected_accepted, whole
from speculative.cli import options
from speculative.cli.drafting import BY_RACE, SMALL, kind_of, takes_chains
from speculative.draft import Drafter
from speculative.oracle import Oracle
from speculative.show import Listed
from speculative.verify import VERIFIERS, Verifier
from speculative.warp import Warp

INSTANCES = tuple(random_instance(seed, 3, 2) for seed in range(1, 5))
WIDE = 110  # columns in which there is room for the papers
MEANING = (
    f"tokens/pass: expected tokens of a round, the target's own included: exact, the mean over "
    f"{len(INSTANCES)} random pairs of models of 3 tokens with drafts 2 deep. Only figures of one section "
    "can be compared: others have other drafts. Of optimum: its accepted drafts by the most that any "
    "lossless verifier can accept of the same drafts, by linear program; one that carries can pass 100 %."
)
EXAMPLES = """[bold]Examples[/bold]

speculative verifiers

speculative verifiers --json"""


def verifiers(*, as_json: options.Json = False, no_color: options.NoColor = False) -> None:
    """List all verifiers: paper, drafts, losslessness, what they carry, tokens per target pass."""
    with show.progress(len(VERIFIERS)) as advance:
        listed = []
        for name, entry in VERIFIERS.items():
            listed.append(describe(name, entry))
            advance(name)
    listed = in_sections(listed)
    if as_json:
        print(json.dumps([as_data(one) for one in listed], indent=2))
        return
    console = show.terminal(no_color=no_color)
    console.print(show.verifier_table(listed, papers=console.width >= WIDE))
    console.paragraph(show.provisos(listed), "dim")
    console.paragraph(sections(listed), "dim")
    console.paragraph(MEANING, "dim")
    if slow := [one.name for one in listed if one.name in BY_RACE]:
        console.paragraph(SMALL.format(" or ".join(slow)), "dim")


def in_sections(listed: list[Listed]) -> list[Listed]:
    """Sort by what is drafted, chains first and lossy ones last; the most tokens per pass first in each."""
    kinds = list(dict.fromkeys(one.drafted for one in listed))
    return sorted(
        listed,
        key=lambda one: (
            not one.lossless,
            not one.chain,
            kinds.index(one.drafted),
            -one.tokens_per_target_pass,
        ),
    )


def sections(listed: list[Listed]) -> str:
    """Say what the verifiers of each section are given here, in the order of the table."""
    kinds = dict.fromkeys((one.drafted, "" if one.lossless else ", lossy") for one in listed)
    return f"Sections: {'; '.join(drafted + lossy for drafted, lossy in kinds)}."


def describe(name: str, entry: Verifier) -> Listed:
    """Return what the table says of a verifier, and its rounds on the instances."""
    accepted = [
        expected_accepted(
            entry.function,
            instance.target,
            entry.make_drafter(instance.draft),
            num_draft_tokens=instance.num_draft_tokens,
        )
        for instance in INSTANCES
    ]
    share = None
    if entry.lossless:
        share = float(sum(accepted)) / sum(optima(entry.target_warp, entry.make_drafter))
    return Listed(
        name,
        entry.paper,
        entry.drafts,
        takes_chains(entry),
        entry.lossless,
        entry.target_warp.name if entry.target_warp else "",
        entry.carries,
        1 + mean(accepted),
        share,
        str(kind_of(entry.make_drafter)),
    )


def optima(warp: Warp | None, make_drafter: Callable[[Oracle], Drafter]) -> tuple[float, ...]:
    """Return the most that can be accepted on each instance; computed once for each way to draft."""
    function = getattr(make_drafter, "func", make_drafter)
    keywords = getattr(make_drafter, "keywords", {})
    return _optima(warp, function, *sorted(keywords.items()))


@cache
def _optima(
    warp: Warp | None, make_drafter: Callable[..., Drafter], *keywords: tuple[str, Any]
) -> tuple[float, ...]:
    return tuple(
        whole(
            instance.target if warp is None else warp(instance.target),
            make_drafter(instance.draft, **dict(keywords)),
            num_draft_tokens=instance.num_draft_tokens,
        ).expected_accepted
        for instance in INSTANCES
    )


def as_data(one: Listed) -> dict[str, Any]:
    """Return what is known of a verifier, for JSON."""
    return {
        "verifier": one.name,
        "published": one.paper,
        "drafts": one.drafts,
        "drafted": one.drafted,
        "chain": one.chain,
        "lossless": one.lossless,
        "under": one.under or None,
        "carries": one.carries,
        "tokens_per_target_pass": str(one.tokens_per_target_pass),
        "tokens_per_target_pass_as_float": float(one.tokens_per_target_pass),
        "share_of_optimum": None if one.share is None else float(one.share),
    }
