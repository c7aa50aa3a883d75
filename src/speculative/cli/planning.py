"""The figures of `speculative plan`."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from speculative.chance import Number
from speculative.cli.models import Pair, warped
from speculative.cost import (
    best_num_draft_tokens,
    break_even_cost,
    pays,
    rules_of_thumb,
    speedup,
    speedup_from_tokens,
    tokens_per_round,
)
from speculative.measure import TextAcceptance, acceptance_on_text
from speculative.oracle import cached
from speculative.roofline import Hardware, Model, break_even_batch, speedup_at_batch
from speculative.show import Batch, Length
from speculative.warp import Warp

HELD_OUT = 10  # one part in so many of a text is measured on, and the rest fitted on
SHORTEST_TEXT = 1000
BATCHES = tuple(2**i for i in range(11))


class Plan(NamedTuple):
    """Draft lengths and what they bring."""

    acceptance: Number
    cost: Number
    lengths: list[Length]
    best: int
    """The length of largest speedup; 0 where none beats plain decoding."""
    measured: TextAcceptance | None = None
    models: str = ""

    @property
    def speedup(self) -> Number:
        """That of the best length."""
        return self.lengths[self.best - 1].speedup if self.best else 1


class Machine(NamedTuple):
    """What a roofline is computed for."""

    model: Model
    hardware: Hardware
    name: str
    context: int


def plan_by_formula(acceptance: Number, cost: Number, longest: int) -> Plan:
    """Plan for an acceptance that is the same everywhere and independent."""
    lengths = [
        Length(
            k,
            tokens_per_round(acceptance, k),
            speedup(acceptance, k, cost),
            break_even_cost(acceptance, k),
        )
        for k in range(1, longest + 1)
    ]
    best = best_num_draft_tokens(acceptance, cost, limit=longest)
    return Plan(acceptance, cost, lengths, best.num_draft_tokens)


def plan_on_text(pair: Pair, warp: Warp, held_out: str, *, cost: Number, longest: int, window: int) -> Plan:
    """Plan for two models at the contexts of a text; each sees the last `window` characters."""
    assert pair.draft is not None
    measured = acceptance_on_text(
        cached(warp(pair.target)),
        cached(warp(pair.draft)),
        pair.characters.encode(held_out),
        longest,
        start=window,
        window=window,
        paths=1,
        rng=0,
    )
    tokens_by_length = list(accumulate((one.mean for one in measured.survival), initial=1))[1:]
    lengths = [
        Length(k, tokens, speedup_from_tokens(tokens, k, cost), (tokens - 1) / k, accepted)
        for k, (tokens, accepted) in enumerate(
            zip(tokens_by_length, measured.acceptance_by_position, strict=False), 1
        )
    ]
    fastest = max(lengths, key=lambda length: length.speedup)
    best = fastest.num_draft_tokens if fastest.speedup > 1 else 0
    return Plan(measured.acceptance.mean, cost, lengths, best, measured, warped(pair.description, warp))


def split_text(text: str, source: str, positions: int, window: int) -> tuple[str, str]:
    """Return the part to fit on and the part to measure on."""
    if len(text) < SHORTEST_TEXT:
        raise ValueError(
            f"--text {source!r} has {len(text)} characters: give a text of {SHORTEST_TEXT} or more"
        )
    cut = len(text) - max(len(text) // HELD_OUT, window + 20)
    return text[:cut], text[cut : cut + positions + window]


def batches_for(plan: Plan, machine: Machine) -> tuple[list[Batch], int | None]:
    """Return the speedup by batch size, and the size from which the plan's length stops paying."""
    model, hardware, _, context = machine
    lengths = range(1, len(plan.lengths) + 1)
    chosen = plan.best or 1

    def at(length: int, batch: int) -> Number:
        return speedup_at_batch(
            plan.acceptance, length, plan.cost, model, hardware, batch=batch, context=context
        )

    end = break_even_batch(plan.acceptance, chosen, plan.cost, model, hardware, context=context)
    rows = []
    for batch in sorted({*BATCHES, end or 1}):
        fastest = max(lengths, key=lambda length, batch=batch: at(length, batch))  # type: ignore[misc]
        gain = at(fastest, batch)
        rows.append(Batch(batch, at(chosen, batch), fastest if gain > 1 else 0, max(gain, 1)))
    return rows, end


def conclusions(plan: Plan) -> list[str]:
    """Say in words what to do, and what the rules of thumb would have said."""
    a, c = float(plan.acceptance), float(plan.cost)
    closed = best_num_draft_tokens(plan.acceptance, plan.cost, limit=len(plan.lengths))
    lines = [
        f"Best: {plan.best} drafts a round, {float(plan.speedup):.3f} times as fast as plain decoding."
        if plan.best
        else "Best: do not speculate; no draft length beats plain decoding.",
        f"Closed form, for acceptance {a:.3g} at every position: k* = {closed.real:.3f}, in whole drafts "
        f"{closed.num_draft_tokens}.",
        f"Break-even: some length pays exactly when acceptance > cost; {a:.3g} "
        f"{'>' if pays(plan.acceptance, plan.cost) else '<='} {c:.3g}.",
    ]
    for rule, says_no in zip(rules_of_thumb(), (c > 0.3, a < 0.4), strict=True):
        right = "wrongly" if pays(plan.acceptance, plan.cost) else "rightly"
        lines.append(
            f"Rule of thumb {rule.rule!r}: {f'says no here, {right}' if says_no else 'says nothing here'} "
            f"(it fails at acceptance {float(rule.acceptance):g} and cost {float(rule.cost):g}, "
            f"{float(rule.speedup):.2f} times as fast)."
        )
    return lines
