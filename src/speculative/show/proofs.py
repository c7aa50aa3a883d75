"""What was proved of verifiers: a table, and for a claim that fails how it fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from speculative.battery import Instance
from speculative.chance import Number
from speculative.draft import Draft, DraftTree
from speculative.laws import Answer
from speculative.proof import Proof
from speculative.show.console import exact, table

UNIT = Fraction(1, 2**53)
MOST_WAYS = 6
LONGEST_NAME = 24  # that stands in one line of a narrow table


class Reason(NamedTuple):
    """Tokens that come out too often, and how."""

    tokens: tuple[int, ...]
    probability: Number
    target_probability: Number
    ways: list[tuple[str, Number]]
    """In words, with their probabilities."""
    likeliest: str
    """In words, the likeliest way to the tokens that are over-produced by the most."""
    path: str
    """The answers of that way, in words."""


class Examined(NamedTuple):
    """A verifier, what is claimed of it, and its proofs on the battery."""

    name: str
    paper: str
    claimed: bool
    """Whether it is said to be lossless."""
    proofs: tuple[tuple[Instance, Proof], ...]
    tolerance: Fraction
    """The distance that still counts as none: above 0 for code in floats only."""
    under: str = ""
    """The warp whose law is reproduced, where it is not the target as it stands."""
    floats: bool = False
    """Whether its own code computes in floats."""
    rounding: Fraction | None = None
    """Largest distance of the float64 code from the target, where that was computed."""
    reason: Reason | None = None
    """Why it fails on the simplest instance it fails on."""
    code: str | None = None
    """Python source that shows it."""
    drafts: str = ""
    """What it was proved on."""
    left_out: tuple[str, ...] = ()
    """The instances of the battery that have too many drafts."""
    both: bool = False
    """Whether it was proved on chains and on trees, as two of these, because it looks at trees."""
    hint: str = ""
    """Other drafts to prove it on, where it fails on these."""

    @property
    def distance(self) -> Number:
        """The largest distance on the battery."""
        return max(proof.distance for _, proof in self.proofs)

    @property
    def exact(self) -> bool:
        """Whether every probability was rational."""
        return all(proof.exact for _, proof in self.proofs)

    @property
    def failures(self) -> list[tuple[Instance, Proof]]:
        """The instances on which it is not lossless, the simplest first."""
        return [(instance, proof) for instance, proof in self.proofs if proof.distance > self.tolerance]

    @property
    def tokens_per_target_pass(self) -> float:
        """Mean over the battery."""
        return sum(float(proof.tokens_per_target_pass) for _, proof in self.proofs) / len(self.proofs)


def proof_table(examined: Sequence[Examined], *, drafts: bool = True) -> Table:
    """Return the table of verdicts, with or without what was drafted; names are never cut."""
    with_floats = any(one.rounding is not None for one in examined)
    made = table("verifier", "verdict", "distance", "tokens/pass", *["in float64"] * with_floats)
    made.columns[1].justify = "left"
    for column in made.columns:
        column.overflow = "fold"
    made.columns[0].no_wrap = max(len(short(one.name)) for one in examined) <= LONGEST_NAME
    if drafts:
        made.add_column("drafts")
    for one in examined:
        found, style = verdict(one)
        distance = exact(one.distance) if one.failures else in_units(one.distance)
        floats = ["" if one.rounding is None else in_units(one.rounding)] * with_floats
        tokens = f"{one.tokens_per_target_pass:.3f}"
        made.add_row(
            short(one.name),
            Text(found, style),
            Text(distance, style),
            tokens,
            *floats,
            *[one.drafts] * drafts,
        )
    return made


def short(name: str) -> str:
    """Leave out the folders of a file's name."""
    return name.rpartition("/")[2]


def verdict(one: Examined) -> tuple[str, str]:
    """Say in few words what was found, and in which colour."""
    if one.failures:
        return ("NOT LOSSLESS", "bold red") if one.claimed else ("lossy", "yellow")
    rational = one.distance == 0 and one.exact
    return "lossless" if rational else "lossless but for rounding", "green"


def in_units(distance: Number) -> str:
    """Write a distance in units of 2^-53, half the space between floats just below 1."""
    return f"{float(distance / UNIT):.2f} x 2^-53" if distance else "0"


def failure_report(one: Examined) -> str:
    """Say where a claim fails first, and how."""
    instance, proof = one.failures[0]
    worst = proof.worst
    assert worst is not None  # the distance is not 0
    on = f" on {one.drafts}" if one.drafts else ""
    lines = [
        f"{one.name} is not lossless{on}: it fails on {len(one.failures)} of {len(one.proofs)} instances.",
        f"The simplest is {instance.name!r}: the law of its first {proof.horizon} tokens is "
        f"{exact(proof.distance)} away from the target's.",
        f"Most over-produced: {worst.tokens}, with probability {exact(worst.probability)} where the target "
        f"has {exact(worst.target_probability)}.",
    ]
    if one.reason is not None:
        tokens, made, wanted, ways, likeliest, path = one.reason
        lines.append(f"Likeliest way there: {path}. That is: {likeliest}.")
        lines.append(f"Already {tokens} comes first with {exact(made)} where the target has {exact(wanted)}:")
        lines += [f"  {exact(share):>20}  {way}" for way, share in ways[:MOST_WAYS]]
        lines += [f"  and {len(ways) - MOST_WAYS} ways more"] * (len(ways) > MOST_WAYS)
    lines += [f"{one.hint[0].upper()}{one.hint[1:]}."] if one.hint else []
    return "\n".join(lines)


def in_words(path: Sequence[Answer], drafting: int, draft: Draft | DraftTree) -> str:
    """Tell the answers of a path: the first `drafting` ones, which made the draft, then what was asked."""
    if isinstance(draft, Draft):
        drafted = ", then ".join(f"{one.answer} ({_of(one)})" for one in path[:drafting]) or "empty"
    else:
        probability = math.prod(one.probability for one in path[:drafting])
        drafted = f"the tree {_below(draft, 0)} (probability {exact(probability)})"
    asked = (
        f"; a pick gives {one.answer} ({_of(one)})"
        if one.kind == "pick"
        else f"; a flip says {'yes' if one.answer else 'no'} ({_of(one)})"
        for one in path[drafting:]
    )
    return f"the draft is {drafted}{''.join(asked)}"


def _below(draft: DraftTree, node: int) -> str:
    """Write the draws below a node, each with what was drawn below it in brackets; a repeat without."""
    siblings = draft.siblings(node)
    assert siblings is not None  # it is asked of nodes with children
    written = []
    for place, (child, token) in enumerate(zip(siblings.nodes, siblings.tokens, strict=True)):
        leaf = draft.siblings(child) is None or child in siblings.nodes[:place]
        written.append(f"{token}" if leaf else f"{token} ({_below(draft, child)})")
    return ", ".join(written)


def _of(answer: Answer) -> str:
    return f"probability {exact(answer.probability)}"
