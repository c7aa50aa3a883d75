"""`speculative plan`: what speculation will bring, by draft length and by batch size."""

from __future__ import annotations

import json
from typing import Any

import typer

from speculative import show
from speculative.cli import options
from speculative.cli.models import NGRAM, make_pair, read_text
from speculative.cli.picture import check_suffix, save
from speculative.cli.planning import (
    Machine,
    Plan,
    batches_for,
    conclusions,
    plan_by_formula,
    plan_on_text,
    split_text,
)
from speculative.measure import TextAcceptance
from speculative.model import Characters
from speculative.roofline import HARDWARE, Model

EXAMPLES = """[bold]Examples[/bold]

speculative plan --alpha .8 --cost .1

speculative plan --alpha .8 --cost .1 --plot speedup.png

speculative plan --alpha .8 --batch --parameters 70e9 --hardware A100

speculative plan --text bundled --target-order 10 --draft-order 5 --cost .1"""
OF_TEXT = "target", "target_order", "draft_order", "positions", "temperature", "top_k", "top_p", "min_p"
OF_BATCH = "hardware", "parameters", "bytes_per_parameter", "context", "cache_bytes"


def plan(
    called: typer.Context,
    *,
    alpha: options.Alpha = None,
    text: options.MeasuredText = None,
    cost: options.Cost = 0.1,
    max_draft_tokens: options.MaxDraftTokens = 12,
    plot: options.Plot = None,
    as_json: options.Json = False,
    no_color: options.NoColor = False,
    target: options.PlanTarget = NGRAM,
    target_order: options.TargetOrder = 10,
    draft_order: options.DraftOrder = 5,
    positions: options.Positions = 1000,
    temperature: options.Temperature = 0.7,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    batch: options.Batches = False,
    hardware: options.HardwareName = "H100",
    parameters: options.Parameters = 8e9,
    bytes_per_parameter: options.BytesPerParameter = 2.0,
    context: options.ContextTokens = 0,
    cache_bytes: options.CacheBytes = 131072.0,
) -> None:
    """Tell what speculation brings by draft length, from an acceptance and a cost or from two models."""
    if (alpha is None) == (text is None):
        raise ValueError("give either --alpha or --text: write --alpha .8, or --text bundled")
    if text is None:
        options.refuse(called, "--text", *OF_TEXT)
    if not batch:
        options.refuse(called, "--batch", *OF_BATCH)
    if not context:
        options.refuse(called, "--context", "cache_bytes")
    if plot is not None:
        check_suffix(plot)
    size = Model(parameters, bytes_per_parameter, cache_bytes)
    chip = HARDWARE[options.one_of("--hardware", hardware, HARDWARE)]
    machine = Machine(size, chip, hardware, context) if batch else None
    warp = options.warp_of(temperature, top_k, top_p, min_p)
    if alpha is not None:
        made = plan_by_formula(alpha, cost, max_draft_tokens)
    else:
        source, window = str(text), max(target_order, draft_order) - 1
        body = read_text(source)
        fitted, held_out = split_text(body, source, positions, window)
        with options.only_json(as_json), options.blamed(target):
            pair = make_pair(
                fitted,
                Characters.of(body),
                source=source,
                target=target,
                orders=(target_order, draft_order),
            )
            made = plan_on_text(pair, warp, held_out, cost=cost, longest=max_draft_tokens, window=window)
    if plot is not None:
        save(plot, made, machine)
    if as_json:
        print(json.dumps({**as_data(made, machine), "plot": plot}, indent=2))
    else:
        report(made, machine, plot, show.terminal(no_color=no_color))


def report(plan: Plan, machine: Machine | None, plot: str | None, console: show.Terminal) -> None:
    """Print the tables, what follows from them, and where the picture was saved."""
    if plan.measured is not None:
        console.paragraph(text_line(plan, plan.measured), "dim")
    console.print(show.length_table(plan.lengths, plan.best))
    for line in conclusions(plan):
        console.paragraph(line)
    if machine is not None:
        batches, end = batches_for(plan, machine)
        console.print()
        console.paragraph(machine_line(machine), "dim")
        console.print(show.batch_table(batches, plan.best or 1))
        console.paragraph(end_line(plan, end))
    if plot is not None:
        console.paragraph(f"Saved {plot}.")


def text_line(plan: Plan, measured: TextAcceptance) -> str:
    """Say what was measured, and where."""
    by_formula = f"{float(measured.tokens_per_round_iid):.3f}"
    return (
        f"{plan.models}. Measured at {measured.positions:,} contexts of the last part of the text, which "
        "they were not fitted on: the acceptance of the first draft, 1 - TV of the two laws, is exact at "
        "each; that of further drafts is estimated without bias from one drafted path each. In brackets: "
        f"95-percent intervals for more text of the kind. {len(plan.lengths)} drafts make "
        f"{measured.tokens_per_round} tokens per round; the formula makes it {by_formula} from the first "
        "draft's acceptance."
    )


def machine_line(machine: Machine) -> str:
    """Name every assumption of the roofline."""
    model, hardware = machine.model, machine.hardware
    weights = (
        f"{float(model.parameters) / 1e9:g} billion weights of {float(model.bytes_per_parameter):g} bytes"
    )
    peaks = f"{float(hardware.bandwidth) / 1e12:g} TB/s and {float(hardware.flops) / 1e12:g} Tflop/s"
    each = f"{float(model.cache_bytes_per_token):,.0f} bytes"
    caches = f"{machine.context:,} tokens of context of {each} each" if machine.context else "no caches read"
    return (
        f"Roofline: {weights} on one {machine.name}, data-sheet peaks {peaks}, {caches}. "
        "A floor on the time of a pass, not a forecast."
    )


def end_line(plan: Plan, end: int | None) -> str:
    """Say from which batch size speculation stops paying."""
    drafts = f"With {plan.best or 1} drafts it"
    if end is None:
        return f"{drafts} pays at every batch size: reading the caches takes longer than the arithmetic."
    return f"{drafts} stops paying from a batch of {end:,}, where verification waits for arithmetic."


def as_data(plan: Plan, machine: Machine | None) -> dict[str, Any]:
    """Return the plan, for JSON."""
    data: dict[str, Any] = {
        "acceptance": float(plan.acceptance),
        "cost": float(plan.cost),
        "best_draft_tokens": plan.best,
        "best_speedup": float(plan.speedup),
        "lengths": [
            {
                "draft_tokens": one.num_draft_tokens,
                "tokens_per_round": float(one.tokens_per_round),
                "speedup": float(one.speedup),
                "break_even_cost": float(one.break_even_cost),
                "acceptance": None if one.acceptance is None else [float(value) for value in one.acceptance],
            }
            for one in plan.lengths
        ],
        "conclusions": conclusions(plan),
    }
    if plan.measured is not None:
        data["measured"] = text_line(plan, plan.measured)
    if machine is not None:
        batches, end = batches_for(plan, machine)
        data["roofline"] = machine_line(machine)
        data["break_even_batch"] = end
        data["batches"] = [
            {
                "batch": one.batch,
                "speedup": float(one.speedup),
                "best_draft_tokens": one.best,
                "best_speedup": float(one.best_speedup),
            }
            for one in batches
        ]
    return data
