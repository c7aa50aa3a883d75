"""`speculative prove`: the exact output law of every verifier, or of one of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, NamedTuple

import typer

from speculative import TooManyPathsError, show
from speculative.battery import BATTERY, Instance
from speculative.chance import sample
from speculative.cli import options, snippet
from speculative.cli.candidate import Candidate, candidate, reads
from speculative.cli.drafting import (
    ONE_PATH,
    TWO_PATHS,
    Shape,
    TooMuchError,
    blaming_the_shape,
    kind_of,
    other_schemes,
    shape_of,
)
from speculative.cli.own import blaming
from speculative.cli.reason import reason
from speculative.draft import Drafter, model
from speculative.oracle import Oracle
from speculative.proof import Proof
from speculative.show import Examined
from speculative.verify import VERIFIERS, Verifier, from_numpy
from speculative.warp import Warp, temperature

FAILED = 1
WIDE = 100  # columns in which there is room for the drafts
ROUNDING = Fraction(1, 2**40)  # more than float64 can be off on the battery, less than any fault
MOST_DRAFTS, MOST_IN_FLOATS, MOST_IN_BRIEF = 1000, 100, 16  # ways to draft a tree, for seconds a verifier
OVERVIEW = tuple(
    replace(one, rounds=1) for one in BATTERY if one.target.vocab_size**one.num_draft_tokens <= 9
)
MEANING = (
    "{proved}. On each the law of the tokens of {rounds}, continued by the target, "
    "is computed over every path, {how}, and compared with the target's own law; distances are total "
    "variation, the largest of all."
)
IN_FLOAT64 = (
    " In float64: the law of the same code on float64 uniforms and rows, for trees on small instances."
)
BRIEF = " For an overview the instances are few and small: name a verifier to prove it on all that fit it."
NO_DRAFTS = "; no token is drafted there: k can be 0, and draft.tokens and draft.probs are then empty"
LOOKS = (
    "; it looks at its drafts as trees, so it is proved on 2 independent paths too: write --paths 1 where it "
    "is for chains alone, or --tree with the trees it is for"
)
BOTH = (
    " {name} looks at its drafts as trees: it has to hold on chains, its first row, and on 2 independent "
    "paths, its second."
)
EXAMPLES = """[bold]Examples[/bold]

speculative prove

speculative prove token match

speculative prove recursive --paths 3

speculative prove --verifier mine.py:verify

speculative prove --verifier mypackage.kernels:verify --lossy --json

speculative prove --verifier mine.py:verify_tree --tree 2,2

[bold]A verifier of your own[/bold]

A function of (chance, draft, target_probs), which asks chance.flip(p) and chance.pick(weights); or numpy code
as it stands, (rng, draft, target_probs), which draws from a numpy Generator and is given rows of float64.
draft.tokens holds k tokens, draft.probs the row each was drawn from, target_probs the target's k + 1 rows; k
can be 0. It returns the tokens it emits, or a Verdict.

Without --paths and --tree yours is proved on chains, and where it is seen to look at a tree (draft.siblings,
child, parents or draws) on two independent paths too; what it was proved on is always said.

With --paths or --tree yours is given a DraftTree of n nodes, where something is drafted. Node 0 is the
context; draft.tokens and draft.parents say of nodes 1 to n which token each is and which node it follows;
draft.siblings(node) tells what was drawn below a node, from which row and how, None below a leaf; and
target_probs holds n + 1 rows, the target's law after each node."""
Advance = Callable[[str], None]


def prove(
    called: typer.Context,
    verifiers: options.VerifierNames = None,
    *,
    verifier: options.OwnVerifier = None,
    paths: options.Paths = None,
    tree: options.Tree = None,
    lossy: options.Lossy = False,
    greedy: options.Greedy = False,
    tolerance: options.Tolerance = None,
    max_paths: options.MaxPaths = 200_000,
    as_json: options.Json = False,
    no_color: options.NoColor = False,
) -> None:
    """Compare the exact law of what verifiers emit with the target's. Exit code 1: not lossless."""
    if not verifier:
        options.refuse(called, "--verifier", "lossy", "greedy", "tolerance")
        if not verifiers:
            options.refuse(called, "--verifier, or the names of verifiers", "paths", "tree")
    names = verifiers or ([] if verifier else list(VERIFIERS))
    entries = {name: VERIFIERS[options.one_of("verifier", name, VERIFIERS)] for name in names}
    brief = not verifiers and not verifier
    subjects = [
        subject(name, entry, shape_of(name, paths, tree, entry, before=""), brief=brief)
        for name, entry in entries.items()
    ]
    own_shape = shape_of(verifier, paths, tree) if verifier else None
    allowed = None if tolerance is None else Fraction(tolerance)
    with options.only_json(as_json):
        own: list[Claim] = []
        if verifier:
            claim = Claim(candidate(verifier), not lossy, temperature(0) if greedy else None, allowed)
            own = claims(claim, own_shape)
        steps = sum(2 * len(one.instances) for one in subjects) + sum(len(one.instances) for one in own)
        with show.progress(steps) as advance:
            examined = [examine(one, max_paths, advance) for one in subjects]
            examined += [examine_own(str(verifier), one, max_paths, advance) for one in own]
    failed = [one for one in examined if one.claimed and one.failures]
    if as_json:
        print(json.dumps([as_data(one) for one in examined], indent=2))
    else:
        report(examined, failed, show.terminal(no_color=no_color), brief=brief)
    if failed:
        raise typer.Exit(FAILED)


def proved(instance: Instance, verify: Callable[..., Any], **more: Any) -> Proof:
    """Prove a verifier on an instance; where it has too many paths, name the option."""
    try:
        return instance.prove(verify, **more)
    except TooManyPathsError as error:
        raise TooMuchError(
            f"more than {error.args[0]} paths: ask fewer questions, or raise --max-paths"
        ) from None


class Subject(NamedTuple):
    """A verifier of the table, and what it is proved on."""

    name: str
    entry: Verifier
    instances: Sequence[Instance]
    make_drafter: Callable[[Oracle], Drafter]
    shape: Shape | None
    most_in_floats: int
    """Its float64 code is proved where there are at most so many ways to draft."""
    brief: bool
    """Whether this is an overview, for which the instances were chosen beforehand."""


def subject(name: str, entry: Verifier, shape: Shape | None, *, brief: bool) -> Subject:
    """Return what a verifier is proved on: all that fits it, or for an overview what is quickly done."""
    make_drafter = (shape or entry).make_drafter
    if brief:
        return Subject(name, entry, OVERVIEW, make_drafter, shape, MOST_IN_BRIEF, brief)
    instances = fitting(make_drafter)
    return Subject(name, entry, instances, make_drafter, shape, MOST_IN_FLOATS, brief)


def fitting(make_drafter: Callable[[Oracle], Drafter]) -> tuple[Instance, ...]:
    """Return the instances on which all drafts can be gone through."""
    return tuple(one for one in BATTERY if ways_to_draft(one, make_drafter) <= MOST_DRAFTS)


def left_out(instances: Sequence[Instance]) -> tuple[str, ...]:
    """Return the names of the instances of the battery that are not among these."""
    return tuple(one.name for one in BATTERY if one not in instances)


def drafts_in(make_drafter: Callable[[Oracle], Drafter], instances: Sequence[Instance]) -> str:
    """Say what is drafted on these instances: chains of up to 5 drafts; 2 independent paths of up to 3."""
    kind, deepest = kind_of(make_drafter), max(one.num_draft_tokens for one in instances)
    if kind.depth is not None:
        return str(kind) if deepest >= kind.depth else f"{kind}, no draft deeper than {deepest}"
    return f"{kind} of up to {deepest} draft{'s' * (deepest != 1)}"


def ways_to_draft(instance: Instance, make_drafter: Callable[[Oracle], Drafter]) -> int:
    """Return about how many drafts there are: as many as if all were drawn like one of them.

    Chains count as one: all of the battery can be gone through.
    """
    if make_drafter is model:
        return 1
    draft = sample(make_drafter(instance.draft), (), instance.num_draft_tokens, rng=0)
    draws = (draft.siblings(node) for node in range(len(draft) + 1))
    return prod(int((law > 0).sum()) for one in draws if one is not None for law in one.laws())


def examine(one: Subject, max_paths: int, advance: Advance) -> Examined:
    """Prove a verifier of the table: exactly, and its float64 code where it is lossless."""
    name, entry = one.name, one.entry
    proofs, rounding = [], Fraction(0)
    more: dict[str, Any] = {
        "warp": entry.target_warp,
        "max_paths": max_paths,
        "make_drafter": one.make_drafter,
    }
    in_float64 = from_numpy(partial(_sampled, entry.function))
    for instance in one.instances:
        with blaming_the_shape(one.shape, entry, option=""):
            proofs.append((instance, proved(instance, entry.function, **more)))
        advance(name)
        if entry.lossless and ways_to_draft(instance, one.make_drafter) <= one.most_in_floats:
            rounding = max(rounding, proved(instance, in_float64, **more).distance)
        advance(name)
    tolerance = Fraction(0) if all(proof.exact for _, proof in proofs) else ROUNDING
    under = entry.target_warp.name if entry.target_warp else ""
    found = Examined(
        name,
        entry.paper,
        entry.lossless,
        tuple(proofs),
        tolerance,
        under,
        drafts=drafts_in(one.make_drafter, one.instances),
        left_out=() if one.brief else left_out(one.instances),
    )
    found = explained(found, entry.function, entry.target_warp, one.make_drafter)
    if found.reason is not None:
        found = found._replace(code=snippet.of_table(found.failures[0][0], name, one.shape))
    return found._replace(rounding=rounding) if entry.lossless else found


def _sampled(verify: Callable[..., Any], rng: Any, *given: Any, **carried: Any) -> Any:
    return sample(verify, *given, rng=rng, **carried)


class Claim(NamedTuple):
    """What the user says of a verifier, and what it is proved on."""

    verify: Candidate
    lossless: bool
    warp: Warp | None
    tolerance: Fraction | None
    shape: Shape | None = None
    instances: Sequence[Instance] = ()
    hint: str = ""
    """What to write instead, where it raises."""
    both: bool = False
    """Whether it is proved on chains and on trees because it looks at trees."""

    @property
    def make_drafter(self) -> Callable[[Oracle], Drafter]:
        """What makes the drafts."""
        return self.shape.make_drafter if self.shape else model

    def on(self, shape: Shape | None, hint: str, *, both: bool = False) -> Claim:
        """Return the claim on drafts of a shape."""
        claim = self._replace(shape=shape, hint=hint, both=both)
        return claim._replace(instances=fitting(claim.make_drafter))


def claims(claim: Claim, shape: Shape | None) -> list[Claim]:
    """Return the claim on the drafts that were asked for; else on chains, and on paths if it reads trees."""
    if shape is not None:
        others = other_schemes(shape)
        return [claim.on(shape, f"; {others}" if others else "")]
    found = reads(claim.verify)
    chains = ONE_PATH if found.only_trees else None
    if not found.trees:
        return [claim.on(chains, "")]
    return [claim.on(chains, "", both=True), claim.on(TWO_PATHS, LOOKS, both=True)]


def examine_own(where: str, claim: Claim, max_paths: int, advance: Advance) -> Examined:
    """Prove a verifier of the user's own."""
    verify, make_drafter, proofs = claim.verify, claim.make_drafter, []
    more: dict[str, Any] = {"warp": claim.warp, "max_paths": max_paths, "make_drafter": make_drafter}
    for instance in claim.instances:
        hint = claim.hint if instance.num_draft_tokens else NO_DRAFTS
        with blaming(where, doing=f", proved on {instance.name!r}", hint=hint):
            proofs.append((instance, proved(instance, verify, **more)))
        advance(where)
    floats = verify.numpy or not all(proof.exact for _, proof in proofs)
    tolerance = (ROUNDING if floats else Fraction(0)) if claim.tolerance is None else claim.tolerance
    found = Examined(
        where,
        "your own",
        claim.lossless,
        tuple(proofs),
        tolerance,
        under=claim.warp.name if claim.warp else "",
        floats=floats,
        drafts=drafts_in(make_drafter, claim.instances),
        left_out=left_out(claim.instances),
        both=claim.both,
        hint=other_schemes(claim.shape),
    )
    with blaming(where):
        found = explained(found, verify, claim.warp, make_drafter)
    if found.reason is None:
        return found
    code = snippet.of_own(found.failures[0][0], where, claim.shape, numpy=verify.numpy, under=found.under)
    return found._replace(code=code)


def explained(
    found: Examined,
    verify: Callable[..., Any],
    warp: Warp | None,
    make_drafter: Callable[[Oracle], Drafter],
) -> Examined:
    """Add why a claim fails, where it does."""
    if not (found.claimed and found.failures):
        return found
    instance, proof = found.failures[0]
    reference = instance.target if warp is None else warp(instance.target)
    return found._replace(reason=reason(instance, proof, verify, reference, make_drafter(instance.draft)))


def report(examined: list[Examined], failed: list[Examined], console: show.Terminal, *, brief: bool) -> None:
    """Print the table, and how a claim fails where one does."""
    console.print(show.proof_table(examined, drafts=console.width >= WIDE))
    console.paragraph(meaning(examined) + BRIEF * brief, "dim")
    for one in failed:
        console.print()
        for line in show.failure_report(one).splitlines():
            console.paragraph(line)
        console.print("\nTo see it again, paste:\n")
        console.print(show.plain(one.code or ""), soft_wrap=True)


def meaning(examined: list[Examined]) -> str:
    """Say what was computed, and on what."""
    in_floats = list(dict.fromkeys(one.name for one in examined if one.floats))
    how = f"as the code of {in_floats[0]} computes it" if in_floats else "in fractions"
    if any(one.name not in in_floats for one in examined) and in_floats:
        how = f"in fractions except where {in_floats[0]} computes in floats"
    in_float64 = IN_FLOAT64 if any(one.rounding is not None for one in examined) else ""
    under = {one.name: one.under for one in examined if one.under}
    notes = "".join(f" {name} reproduces the target at {warp}." for name, warp in under.items())
    notes += "".join(BOTH.format(name=name) for name in {one.name for one in examined if one.both})
    several = any(instance.rounds > 1 for one in examined for instance, _ in one.proofs)
    rounds = "one or two rounds" if several else "a round"
    return MEANING.format(proved=proved_on(examined), rounds=rounds, how=how) + in_float64 + notes


def proved_on(examined: list[Examined]) -> str:
    """Say which drafts the verifiers were given, on how many instances, and how many were too large."""
    groups: dict[tuple[str, int, int], list[str]] = {}
    for one in examined:
        groups.setdefault((one.drafts, len(one.proofs), len(one.left_out)), []).append(one.name)
    parts = []
    for (drafts, count, rest), names in groups.items():
        who = f" ({', '.join(names)})" if len({tuple(group) for group in groups.values()}) > 1 else ""
        larger = f" and {rest} left out as too large, with more than {MOST_DRAFTS} drafts" if rest else ""
        parts.append(f"on {drafts}{who}: {count} instances{larger}")
    return f"Proved {'; '.join(parts)}"


def as_data(one: Examined) -> dict[str, Any]:
    """Return what was found of a verifier, for JSON."""
    return {
        "verifier": one.name,
        "published": one.paper,
        "drafts": one.drafts,
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
        "left_out": list(one.left_out),
        "failure": None if one.code is None else show.failure_report(one),
        "code": one.code,
    }
