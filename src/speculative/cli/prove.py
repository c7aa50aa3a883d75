"""`speculative prove`: the exact output law of every verifier, or of one of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import typer

from speculative import show
from speculative._numbers import number
from speculative.battery import BATTERY
from speculative.cli import options
from speculative.cli.candidate import candidate, in_floats
from speculative.cli.own import blaming
from speculative.cli.reason import reason
from speculative.show import Examined
from speculative.verify import VERIFIERS, Verifier
from speculative.warp import Warp, temperature

FAILED = 1
WIDE = 100  # columns in which there is room for the papers
ROUNDING = Fraction(1, 2**40)  # more than float64 can be off on the battery, less than any fault
MEANING = (
    f"{len(BATTERY)} instances. On each the law of the tokens of one or two rounds, continued by the target, "
    "is computed over every path, in fractions, and compared with the target's own law; distances are total "
    "variation, the largest of all."
)
IN_FLOAT64 = " In float64: the law of the same code on float64 uniforms and rows."
EXAMPLES = """[bold]Examples[/bold]

speculative prove

speculative prove token match

speculative prove --verifier mine.py:verify

speculative prove --verifier mypackage.kernels:verify --lossy --json

[bold]A verifier of your own[/bold]

A function of (chance, draft, target_probs), which asks chance.flip(p) and chance.pick(weights); or numpy code
as it stands, (rng, draft, target_probs), which draws from a numpy Generator. draft.tokens holds k tokens,
draft.probs the row each was drawn from, target_probs the target's k + 1 rows. It returns the tokens it emits,
or a Verdict."""
Advance = Callable[[str], None]


def prove(
    verifiers: options.VerifierNames = None,
    *,
    verifier: options.OwnVerifier = None,
    lossy: options.Lossy = False,
    greedy: options.Greedy = False,
    tolerance: options.Tolerance = None,
    max_paths: options.MaxPaths = 1_000_000,
    as_json: options.Json = False,
    no_color: options.NoColor = False,
) -> None:
    """Compare the exact law of what verifiers emit with the target's. Exit code 1: not lossless."""
    names = verifiers or ([] if verifier else list(VERIFIERS))
    entries = {name: VERIFIERS[options.one_of("verifier", name, VERIFIERS)] for name in names}
    allowed = None if tolerance is None else Fraction(number("--tolerance", tolerance, 0, 1))
    steps = len(BATTERY) * (2 * len(entries) + bool(verifier))
    with options.only_json(as_json), show.progress(steps) as advance:
        examined = [examine(name, entry, max_paths, advance) for name, entry in entries.items()]
        if verifier:
            claim = Claim(not lossy, temperature(0) if greedy else None, allowed)
            examined.append(examine_own(verifier, claim, max_paths, advance))
    failed = [one for one in examined if one.claimed and one.failures]
    if as_json:
        print(json.dumps([as_data(one) for one in examined], indent=2))
    else:
        report(examined, failed, show.terminal(no_color=no_color))
    if failed:
        raise typer.Exit(FAILED)


def examine(name: str, entry: Verifier, max_paths: int, advance: Advance) -> Examined:
    """Prove a verifier of the table on the battery: exactly, and its float64 code where it is lossless."""
    proofs, rounding = [], Fraction(0)
    options: dict[str, Any] = {"warp": entry.target_warp, "max_paths": max_paths}
    for instance in BATTERY:
        proofs.append((instance, instance.prove(entry.function, **options)))
        advance(name)
        if entry.lossless:
            floats = instance.prove(in_floats(entry.function), arithmetic="float64", **options)
            rounding = max(rounding, floats.distance)
        advance(name)
    under = entry.target_warp.name if entry.target_warp else ""
    found = Examined(name, entry.paper, entry.lossless, tuple(proofs), Fraction(0), under)
    again = f"verify.VERIFIERS[{name!r}].function, warp=verify.VERIFIERS[{name!r}].target_warp"
    found = explained(found, entry.function, entry.target_warp, again)
    return found._replace(rounding=rounding) if entry.lossless else found


class Claim(NamedTuple):
    """What the user says of a verifier."""

    lossless: bool
    warp: Warp | None
    tolerance: Fraction | None


def examine_own(where: str, claim: Claim, max_paths: int, advance: Advance) -> Examined:
    """Prove a verifier of the user's own on the battery."""
    verify, proofs = candidate(where), []
    for instance in BATTERY:
        with blaming(where, f", proved on {instance.name!r}"):
            proofs.append((instance, instance.prove(verify, warp=claim.warp, max_paths=max_paths)))
        advance(where)
    rational = all(proof.exact for _, proof in proofs) and not verify.floats
    tolerance = (Fraction(0) if rational else ROUNDING) if claim.tolerance is None else claim.tolerance
    under = claim.warp.name if claim.warp else ""
    found = Examined(where, "your own", claim.lossless, tuple(proofs), tolerance, under)
    again = f"candidate({where!r}){f', warp={under}' if under else ''}"
    imports = "from speculative import temperature\n" if under else ""
    imports += "from speculative.cli.candidate import candidate\n"
    return explained(found, verify, claim.warp, again, imports)


def explained(
    found: Examined, verify: Callable[..., Any], warp: Warp | None, again: str, imports: str = ""
) -> Examined:
    """Add why a claim fails, and code that shows it: what it imports, and how it calls `Instance.prove`."""
    if not (found.claimed and found.failures):
        return found
    instance, proof = found.failures[0]
    reference = instance.target if warp is None else warp(instance.target)
    return found._replace(
        reason=reason(instance, proof, verify, reference), code=imports + instance.code(again)
    )


def report(examined: list[Examined], failed: list[Examined], console: show.Terminal) -> None:
    """Print the table, and how a claim fails where one does."""
    console.print(show.proof_table(examined, papers=console.width >= WIDE))
    in_float64 = IN_FLOAT64 if any(one.rounding is not None for one in examined) else ""
    under = "".join(f" {one.name} reproduces the target at {one.under}." for one in examined if one.under)
    console.print(show.plain(MEANING + in_float64 + under, "dim"))
    for one in failed:
        console.print()
        console.print(show.plain(show.failure_report(one)))
        console.print("\nTo see it again, paste:\n")
        console.print(show.plain(one.code or ""), soft_wrap=True)


def as_data(one: Examined) -> dict[str, Any]:
    """Return what was found of a verifier, for JSON."""
    return {
        "verifier": one.name,
        "published": one.paper,
        "claimed_lossless": one.claimed,
        "lossless": not one.failures,
        "exact": one.exact,
        "distance": str(one.distance),
        "distance_as_float": float(one.distance),
        "tolerance": float(one.tolerance),
        "tokens_per_target_pass": one.tokens_per_target_pass,
        "float64_distance": None if one.rounding is None else float(one.rounding),
        "instances": [
            {
                "name": instance.name,
                "draft_tokens": instance.num_draft_tokens,
                "distance": str(proof.distance),
                "tokens_per_target_pass": float(proof.tokens_per_target_pass),
                "acceptance_by_position": [float(value) for value in proof.acceptance_by_position],
            }
            for instance, proof in one.proofs
        ],
        "failure": None if one.code is None else show.failure_report(one),
        "code": one.code,
    }
