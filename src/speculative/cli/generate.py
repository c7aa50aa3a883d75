"""`speculative generate`: text from two models, round by round, and what the rounds amounted to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import typer

from speculative import show
from speculative.chance import sample
from speculative.cli import options
from speculative.cli.candidate import own_drafter
from speculative.cli.drafting import (
    CHAIN_DRAFTERS,
    Shape,
    blaming_the_shape,
    kind_of,
    shape_of,
    takes_chains,
    takes_its_time,
)
from speculative.cli.expectation import BATCHES, compare, recorded
from speculative.cli.models import BUNDLED, NGRAM, Pair, encode_prompt, make_pair, read_text
from speculative.decode import Round, autoregress, stream
from speculative.distribution import Context
from speculative.draft import DRAFTERS, Draft, Drafter, DraftTree
from speculative.metrics import statistics
from speculative.model import Characters
from speculative.verify import VERIFIERS

BUNDLED_PROMPT = "MACBETH:\n"
LONGEST_PROMPT = 60  # characters of a text's first line
LONGEST_MATCH = 8  # characters that prompt lookup compares
ASSUMED_COST = {"lookup": 0.0, "suffix": 0.0}  # of a draft pass, for what the rounds would be worth
COST_OF_A_MODEL = 0.1
EXPECTED = (
    "expected: by the exact formula, the probability that a draft is accepted given its context, from both "
    "models' laws, averaged over the contexts this run reached (unbiased); ±: one standard error."
)
MEASURED = (
    "No formula gives the acceptance of a single draft here. 95% interval: for what more text of the kind "
    f"would bring, from the means of {BATCHES} stretches of the run; of short runs it covers a little less."
)
EXAMPLES = """[bold]Examples[/bold]

speculative generate

speculative generate "LADY MACBETH:" --tokens 500 --seed 7

speculative generate --verifier match --draft-tokens 6 --top-p 0.9

speculative generate --verifier traversal --paths 3

speculative generate --verifier recursive --tree 3,2,1

speculative generate --verifier recursive --tree sequoia:16

speculative generate "Once " --text my.txt --drafter lookup

speculative generate --json --seed 0 > run.json"""


class Settings(NamedTuple):
    """What is run."""

    pair: Pair
    context: Context
    verifier: str
    drafter: str
    num_tokens: int
    num_draft_tokens: int
    seed: int
    shape: Shape | None = None
    """What is drafted, where it is not what the verifier's own drafter drafts."""
    heat: float = 1
    """The temperature of both models."""


class Outcome(NamedTuple):
    """What came of it."""

    rounds: tuple[Round, ...]
    tokens_per_pass: show.Comparison
    accepted: list[show.Comparison]
    draft_passes: int
    """Levels of all drafts: the passes of a draft model that draws a level at once."""
    seconds: float
    seconds_alone: float
    """What as many tokens take the target alone."""


def generate(
    called: typer.Context,
    prompt: options.Prompt = None,
    *,
    tokens: options.Tokens = 400,
    draft_tokens: options.DraftTokens = 4,
    verifier: options.VerifierName = "token",
    paths: options.Paths = None,
    tree: options.Tree = None,
    drafter: options.DrafterName = "model",
    model: options.Model = NGRAM,
    text: options.Text = BUNDLED,
    target_order: options.TargetOrder = 10,
    draft_order: options.DraftOrder = 5,
    temperature: options.Temperature = 0.7,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    seed: options.Seed = None,
    as_json: options.Json = False,
    no_color: options.NoColor = False,
) -> None:
    """Generate text and show where every token comes from: an accepted draft, a residual or a bonus."""
    options.one_of("--verifier", verifier, VERIFIERS)
    if ":" not in drafter:
        options.one_of("--drafter", drafter, CHAIN_DRAFTERS, ", or file.py:function for one of your own")
    if drafter != "model":
        options.refuse(called, "--drafter model", "draft_order", "paths", "tree")
    if drafter in DRAFTERS and drafter != "model" and VERIFIERS[verifier].carries:
        raise ValueError(
            f"--drafter {drafter}: {verifier} carries {VERIFIERS[verifier].carries} from round to round and "
            "needs the same model's drafts in each: write --drafter model"
        )
    shape = shape_of(verifier, paths, tree, VERIFIERS[verifier])
    if shape and shape.depth:
        options.refuse(called, f"a tree without widths: {shape.option} says how deep it is", "draft_tokens")
        draft_tokens = shape.depth
    if model != NGRAM:
        options.refuse(called, f"--model {NGRAM}", "target_order")
    warp = options.warp_of(temperature, top_k, top_p, min_p)
    body = read_text(text)
    characters = Characters.of(body)
    context = encode_prompt(default_prompt(text, body) if prompt is None else prompt, characters)
    if seed is None:
        seed = int(np.random.default_rng().integers(10**6))
    with options.only_json(as_json), options.blamed(model, drafter):
        orders = target_order, draft_order if drafter == "model" else None
        pair = make_pair(body, characters, warp, source=text, model=model, orders=orders)
        settings = Settings(pair, context, verifier, drafter, tokens, draft_tokens, seed, shape, temperature)
        outcome = run(settings) if as_json else run_before_reader(settings, show.terminal(no_color=no_color))
    if as_json:
        print(json.dumps(as_data(settings, outcome), indent=2))


def default_prompt(source: str, text: str) -> str:
    """Return a line to start from: a speaker's name for the bundled text, else the text's first line."""
    return BUNDLED_PROMPT if source == BUNDLED else text.partition("\n")[0][:LONGEST_PROMPT]


def make_drafter(settings: Settings) -> Drafter:
    """Return the drafter of that name, or the user's own."""
    target, draft, name = settings.pair.target, settings.pair.draft, settings.drafter
    if ":" in name:
        return own_drafter(name, target)
    if draft is None:
        make = DRAFTERS[name].function
        return make(target.vocab_size, max_match=LONGEST_MATCH, vocabulary=target.vocabulary)
    return (settings.shape or VERIFIERS[settings.verifier]).make_drafter(draft)


def nobody(_: Round) -> None:
    """Tell nobody of a round."""


def run(settings: Settings, tell: Callable[[Round], None] = nobody) -> Outcome:
    """Generate, telling of each round; then as many tokens by the target alone, for the time that takes."""
    target, context = settings.pair.target, settings.context
    drafts: dict[int, Draft | DraftTree] = {}
    rounds: list[Round] = []
    seconds, start = 0.0, time.perf_counter()
    program = sample(
        stream,
        target,
        recorded(make_drafter(settings), drafts),
        context,
        max_new_tokens=settings.num_tokens,
        num_draft_tokens=settings.num_draft_tokens,
        verify=VERIFIERS[settings.verifier].function,
        rng=settings.seed,
    )
    with blaming_the_shape(settings.shape, VERIFIERS[settings.verifier]):
        for one in program:
            seconds += time.perf_counter() - start
            rounds.append(one)
            tell(one)
            start = time.perf_counter()
    start = time.perf_counter()
    sample(autoregress, target, context, max_new_tokens=settings.num_tokens, rng=settings.seed)
    alone = time.perf_counter() - start
    compared = compare(settings.verifier, target, context, rounds, drafts)
    draft_passes = sum(draft.depth for draft in drafts.values())
    return Outcome(tuple(rounds), *compared, draft_passes, seconds, alone)


def run_before_reader(settings: Settings, console: show.Terminal) -> Outcome:
    """Generate and print round by round, then the figures."""
    decode = settings.pair.characters.decode
    transcript = show.Transcript(console)
    begun: list[Round] = []

    def tell(one: Round) -> None:
        if not begun:  # nothing is printed before the first round has shown that all fits together
            waiting.stop()
            console.paragraph(title(settings), "dim")
            for note in notes(settings):
                console.paragraph(note, "yellow")
            transcript.legend()
            console.print()
            transcript.write(decode(settings.context), "prompt")
        begun.append(one)
        transcript.write(decode(one.tokens[: one.accepted]), "accepted")
        transcript.write(decode(one.tokens[one.accepted :]), one.last)

    with show.waiting("the first round") as waiting:
        outcome = run(settings, tell)
    transcript.end()
    console.print(show.figures_table(outcome.tokens_per_pass, outcome.accepted))
    console.paragraph(MEASURED if outcome.tokens_per_pass.expected is None else EXPECTED, "dim")
    console.paragraph(time_line(settings, outcome), "dim")
    return outcome


def title(settings: Settings) -> str:
    """Say in one line what is run."""
    lossy = "" if VERIFIERS[settings.verifier].lossless else "lossy "
    return (
        f"{settings.pair.description}; {drafted(settings)}, {lossy}{settings.verifier} verification, seed "
        f"{settings.seed}"
    )


def keeps_law(settings: Settings) -> bool:
    """Whether the text has the law of the target as it is warped here."""
    entry = VERIFIERS[settings.verifier]
    return entry.lossless and (entry.target_warp is None or settings.heat == 0)


def notes(settings: Settings) -> list[str]:
    """Say whether the text has another law than the target's, and what takes its time."""
    name, entry = settings.verifier, VERIFIERS[settings.verifier]
    told = []
    if not entry.lossless:
        told.append(f"lossy: with {name} the text does not have the target's law.")
    elif not keeps_law(settings):
        told.append(f"{name} gives the target's law at temperature 0 only, and here it is {settings.heat:g}.")
    if settings.drafter == "model" and (slow := takes_its_time(name, (settings.shape or entry).make_drafter)):
        told.append(slow)
    return told


def drafted(settings: Settings) -> str:
    """Say what is drafted each round."""
    entry, depth = VERIFIERS[settings.verifier], settings.num_draft_tokens
    if settings.drafter != "model":
        return f"{depth} drafts a round by {settings.drafter}"
    if settings.shape is None and takes_chains(entry):
        return f"{depth} drafts a round"
    kind = kind_of((settings.shape or entry).make_drafter)
    drawn = f"{kind.drawn}, " if kind.drawn else ""
    return f"{kind.what} a round, {drawn}at most {min(depth, kind.depth or depth)} deep"


def time_line(settings: Settings, outcome: Outcome) -> str:
    """Say what the run took, and what its rounds would be worth with a target that takes its time."""
    figures = statistics(outcome.rounds)
    if outcome.seconds < outcome.seconds_alone:
        verdict = f"{outcome.seconds_alone / outcome.seconds:.2f} times as fast"
    else:
        verdict = "with a target this quick, drafting saves passes and no time"
    cost = ASSUMED_COST.get(settings.drafter, COST_OF_A_MODEL)
    worth = figures.tokens / (figures.rounds + outcome.draft_passes * cost)
    tree = settings.drafter == "model" and (settings.shape or not takes_chains(VERIFIERS[settings.verifier]))
    counted = ", a target pass counted as one whatever the size of its tree, a draft pass for each level"
    return (
        f"time: {settings.pair.seconds:.2f} s for the models, {outcome.seconds:.2f} s for {figures.tokens} "
        f"tokens, {outcome.seconds_alone:.2f} s by the target alone: {verdict}. Were a draft pass to cost "
        f"{cost:g} target passes, these rounds would be {worth:.2f} times as fast as the target alone"
        f"{counted if tree else ''}."
    )


def as_data(settings: Settings, outcome: Outcome) -> dict[str, Any]:
    """Return everything about a run, for JSON."""
    decode = settings.pair.characters.decode
    counts = statistics(outcome.rounds)
    return {
        "models": settings.pair.description,
        "verifier": settings.verifier,
        "keeps_target_law": keeps_law(settings),
        "drafter": settings.drafter,
        "drafts": drafted(settings),
        "draft_tokens": settings.num_draft_tokens,
        "seed": settings.seed,
        "prompt": decode(settings.context),
        "text": "".join(decode(one.tokens) for one in outcome.rounds),
        "tokens": counts.tokens,
        "target_passes": counts.rounds,
        "drafted": counts.drafted,
        "draft_passes": outcome.draft_passes,
        "accepted": counts.accepted,
        "tokens_per_target_pass": outcome.tokens_per_pass._asdict(),
        "acceptance_by_position": [one._asdict() for one in outcome.accepted],
        "seconds": {
            "models": settings.pair.seconds,
            "rounds": outcome.seconds,
            "target_alone": outcome.seconds_alone,
        },
        "rounds": [
            {
                "tokens": [decode([token]) for token in one.tokens],
                "drafted": one.drafted,
                "accepted": one.accepted,
                "last": one.last,
                "target_probs": [float(probability) for probability in one.target_probs],
            }
            for one in outcome.rounds
        ],
    }
