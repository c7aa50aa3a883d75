"""`speculative generate`: text from a target and a drafter, round by round, and what the rounds brought."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import typer

from speculative import show
from speculative.chance import sample
from speculative.cli import options
from speculative.cli.drafting import (
    Shape,
    blaming_the_shape,
    check_takes_certain_trees,
    kind_of,
    shape_of,
    takes_chains,
    takes_its_time,
)
from speculative.cli.expectation import BATCHES, Watched, compare
from speculative.cli.models import (
    BUNDLED,
    NGRAM,
    SHAKESPEARE,
    Ready,
    check_drafter,
    drafter_for,
    encode_prompt,
    fit_on_text,
    is_checkpoint,
    load_checkpoint,
    warped,
)
from speculative.cli.pieces import Pieces
from speculative.cli.timing import Timing, measure
from speculative.cli.trained import Kind, Loop
from speculative.decode import Round, stream
from speculative.distribution import Context
from speculative.metrics import statistics
from speculative.verify import VERIFIERS
from speculative.warp import Warp

COST_OF_A_MODEL = 0.1  # of a draft pass assumed, for what rounds would be worth with a target that takes time
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

speculative generate --verifier recursive --tree 3,2,1

speculative generate --drafter lookahead --temperature 0

speculative generate "Once upon a time" --target path/of/a/llama --drafter path/of/a/smaller/one

speculative generate "Once " --target ngram --text my.txt

speculative generate --json --seed 0 > run.json"""


class Settings(NamedTuple):
    """What is run."""

    ready: Ready
    warp: Warp
    context: Context
    verifier: str
    drafter: str
    kind: Kind
    num_tokens: int
    num_draft_tokens: int
    seed: int
    shape: Shape | None = None
    """What is drafted, where it is not what the verifier's own drafter drafts."""
    heat: float = 1
    """The temperature of both models."""

    def loop(self) -> Loop:
        """Return the target and a drafter that has seen no text."""
        make_drafter = (self.shape or VERIFIERS[self.verifier]).make_drafter
        return self.ready.source(self.ready.target, self.warp, make_drafter)


class Outcome(NamedTuple):
    """What came of it."""

    rounds: tuple[Round, ...]
    tokens_per_pass: show.Comparison
    accepted: list[show.Comparison]
    draft_passes: int
    """Levels of all drafts: the passes of a draft model that draws a level at once."""
    seconds: float
    """What the rounds took, without what was told of them."""
    timing: Timing
    """The same beside the target alone, in turns."""


def generate(
    called: typer.Context,
    prompt: options.Prompt = None,
    *,
    tokens: options.Tokens = 400,
    draft_tokens: options.DraftTokens = 3,
    target: options.GenerateTarget = SHAKESPEARE,
    drafter: options.DrafterName = None,
    verifier: options.VerifierName = None,
    paths: options.Paths = None,
    tree: options.Tree = None,
    temperature: options.Temperature = 0.7,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    text: options.Text = BUNDLED,
    target_order: options.TargetOrder = 10,
    draft_order: options.DraftOrder = 5,
    seed: options.Seed = None,
    as_json: options.Json = False,
    no_color: options.NoColor = False,
) -> None:
    """Generate text and show where every token comes from: an accepted draft, a residual or a bonus."""
    drafter = drafter_for(target) if drafter is None else drafter
    kind = check_drafter(target, drafter)
    verifier = ("recursive" if kind.made_of == "target" else "token") if verifier is None else verifier
    options.one_of("--verifier", verifier, VERIFIERS)
    check_fit(drafter, kind, verifier)
    if is_checkpoint(target):
        options.refuse(called, f"--target {NGRAM}", "text", "target_order", "draft_order")
    elif target != NGRAM:
        options.refuse(called, f"--target {NGRAM}", "target_order")
    if drafter != NGRAM:
        options.refuse(called, f"--drafter {NGRAM}", "draft_order")
    if not kind.shaped:
        options.refuse(called, f"--drafter {NGRAM}, or another one that has a model", "paths", "tree")
    shape = shape_of(verifier, paths, tree, VERIFIERS[verifier])
    if shape and shape.depth:
        options.refuse(called, f"a tree without widths: {shape.option} says how deep it is", "draft_tokens")
        draft_tokens = shape.depth
    warp = options.warp_of(temperature, top_k, top_p, min_p)
    if seed is None:
        seed = int(np.random.default_rng().integers(10**6))
    with options.only_json(as_json):
        if is_checkpoint(target):
            ready = load_checkpoint(target, drafter)
        else:
            ready = fit_on_text(text, target, drafter, (target_order, draft_order))
        context = encode_prompt(ready.prompt if prompt is None else prompt, ready)
        settings = Settings(
            ready, warp, context, verifier, drafter, kind, tokens, draft_tokens, seed, shape, temperature
        )
        console = show.terminal(no_color=no_color)
        with options.blamed(target, drafter):
            outcome = run(settings) if as_json else run_before_reader(settings, console)
    if as_json:
        print(json.dumps(as_data(settings, outcome), indent=2))


def check_fit(drafter: str, kind: Kind, verifier: str) -> None:
    """Refuse a verifier that cannot judge what is drafted."""
    carries = VERIFIERS[verifier].carries
    if carries and kind.made_of not in {"model", "own code"}:
        raise ValueError(
            f"--drafter {drafter}: {verifier} carries {carries} from round to round and needs the same "
            f"model's drafts in each: write --drafter {NGRAM}"
        )
    if kind.made_of == "target":
        check_takes_certain_trees(drafter, verifier)


def nobody(_: Round) -> None:
    """Tell nobody of a round."""


def no_wait() -> None:
    """Say nothing before the time is measured."""


def run(
    settings: Settings, tell: Callable[[Round], None] = nobody, before_timing: Callable[[], None] = no_wait
) -> Outcome:
    """Generate, telling of each round; then measure the time of as many tokens beside the target alone."""
    watched = Watched(settings.verifier)
    decode = partial(
        stream,
        max_new_tokens=settings.num_tokens,
        num_draft_tokens=settings.num_draft_tokens,
        verify=watched,
    )
    rounds: list[Round] = []
    loop = settings.loop()
    seconds, start = 0.0, time.perf_counter()
    with blaming_the_shape(settings.shape, VERIFIERS[settings.verifier]):
        for one in sample(decode, *loop, settings.context, rng=settings.seed):
            seconds += time.perf_counter() - start
            rounds.append(one)
            watched.look(one)
            tell(one)
            start = time.perf_counter()
    before_timing()
    timing = measure(
        settings.loop,
        settings.context,
        settings.num_tokens,
        seed=settings.seed + 1,
        num_draft_tokens=settings.num_draft_tokens,
        verify=VERIFIERS[settings.verifier].function,
    )
    return Outcome(tuple(rounds), *compare(rounds, watched), sum(watched.depths), seconds, timing)


def run_before_reader(settings: Settings, console: show.Terminal) -> Outcome:
    """Generate and print round by round, then the figures."""
    transcript, pieces = show.Transcript(console), Pieces(settings.ready.tokenizer.decode)
    begun: list[Round] = []

    def write(tokens: Sequence[int], origin: str) -> None:
        transcript.write("".join(map(pieces.add, tokens)), origin)

    def tell(one: Round) -> None:
        if not begun:  # nothing is printed before the first round has shown that all fits together
            waiting.stop()
            console.paragraph(title(settings), "dim")
            for note in notes(settings):
                console.paragraph(note, "yellow")
            transcript.legend()
            console.print()
            write(settings.context, "prompt")
        begun.append(one)
        write(one.tokens[: one.accepted], "accepted")
        write(one.tokens[one.accepted :], one.last)

    def end() -> None:
        transcript.write(pieces.rest(), begun[-1].last)
        transcript.end()
        waiting.update("the time of plain decoding")
        waiting.start()

    with show.waiting("the first round") as waiting:
        outcome = run(settings, tell, end)
    console.print(show.figures_table(outcome.tokens_per_pass, outcome.accepted))
    console.paragraph(MEASURED if outcome.tokens_per_pass.expected is None else EXPECTED, "dim")
    console.paragraph(time_line(outcome))
    console.paragraph(how_measured(settings, outcome), "dim")
    return outcome


def title(settings: Settings) -> str:
    """Say in one line what is run."""
    lossy = "" if VERIFIERS[settings.verifier].lossless else "lossy "
    return (
        f"{warped(settings.ready.description, settings.warp)}; {drafted(settings)}, {lossy}"
        f"{settings.verifier} verification, seed {settings.seed}"
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
    if settings.kind.shaped and (slow := takes_its_time(name, (settings.shape or entry).make_drafter)):
        told.append(slow)
    return told


def drafted(settings: Settings) -> str:
    """Say what is drafted each round."""
    entry, depth = VERIFIERS[settings.verifier], settings.num_draft_tokens
    fitted = settings.drafter == NGRAM and not settings.ready.checkpoint  # which the description tells
    by = "" if fitted else f" by {settings.drafter}"
    if settings.kind.made_of == "target":
        return f"a tree of guesses a round{by}, at most {depth} deep"
    if not settings.kind.shaped or (settings.shape is None and takes_chains(entry)):
        return f"{depth} drafts a round{by}"
    kind = kind_of((settings.shape or entry).make_drafter)
    drawn = f"{kind.drawn}, " if kind.drawn else ""
    return f"{kind.what} a round{by}, {drawn}at most {min(depth, kind.depth or depth)} deep"


def time_line(outcome: Outcome) -> str:
    """Say how long a token takes beside plain decoding, and what that saved."""
    timing, count = outcome.timing, statistics(outcome.rounds).tokens
    low, high = min(timing.by_stretch), max(timing.by_stretch)
    spread = f" ({low:.2f} to {high:.2f})" if len(timing.by_stretch) > 1 else ""
    saved = (timing.per_token_alone - timing.per_token) * count
    return (
        f"{1000 * timing.per_token:.3f} ms a token, and {1000 * timing.per_token_alone:.3f} ms by plain "
        f"decoding: {timing.speedup:.2f} times as fast{spread}, {abs(saved):.2f} s "
        f"{'saved' if saved > 0 else 'lost'} on {count} tokens."
    )


def how_measured(settings: Settings, outcome: Outcome) -> str:
    """Say what the times are of; and what rounds on n-grams, which are as quick as drafts, would be worth."""
    timing, figures = outcome.timing, statistics(outcome.rounds)
    parts, seconds = len(timing.stretches), outcome.seconds
    each = timing.tokens // parts
    turns = f" in turns of about {each}; in brackets the least and the most" if parts > 1 else ""
    told = (
        f"Models ready in {settings.ready.seconds:.2f} s, the text above in {seconds:.2f} s. Measured on "
        f"{timing.tokens} other tokens after the same prompt, by both ways{turns}."
    )
    if settings.ready.checkpoint:
        return told
    cost = 0 if settings.kind.made_of == "text" else COST_OF_A_MODEL
    worth = figures.tokens / (figures.rounds + outcome.draft_passes * cost)
    counted = ", a target pass counted as one whatever the size of its tree, a draft pass for each level"
    tree = settings.kind.shaped and (settings.shape or not takes_chains(VERIFIERS[settings.verifier]))
    return (
        f"{told} Were a draft pass to cost {cost:g} target passes, the rounds above would be {worth:.2f} "
        f"times as fast as the target alone{counted if tree else ''}."
    )


def as_data(settings: Settings, outcome: Outcome) -> dict[str, Any]:
    """Return everything about a run, for JSON."""
    decode = settings.ready.tokenizer.decode
    pieces, counts, timing = Pieces(decode), statistics(outcome.rounds), outcome.timing
    prompt = "".join(map(pieces.add, settings.context))
    rounds: list[dict[str, Any]] = [
        {
            "tokens": [pieces.add(token) for token in one.tokens],
            "drafted": one.drafted,
            "accepted": one.accepted,
            "last": one.last,
            "target_probs": [float(probability) for probability in one.target_probs],
        }
        for one in outcome.rounds
    ]
    return {
        "models": warped(settings.ready.description, settings.warp),
        "verifier": settings.verifier,
        "keeps_target_law": keeps_law(settings),
        "drafter": settings.drafter,
        "drafts": drafted(settings),
        "draft_tokens": settings.num_draft_tokens,
        "seed": settings.seed,
        "prompt": prompt,
        "text": "".join(piece for one in rounds for piece in one["tokens"]) + pieces.rest(),
        "tokens": counts.tokens,
        "target_passes": counts.rounds,
        "drafted": counts.drafted,
        "draft_passes": outcome.draft_passes,
        "accepted": counts.accepted,
        "tokens_per_target_pass": outcome.tokens_per_pass._asdict(),
        "acceptance_by_position": [one._asdict() for one in outcome.accepted],
        "seconds": {"models": settings.ready.seconds, "rounds": outcome.seconds},
        "timing": {
            "tokens": timing.tokens,
            "seconds_per_token": timing.per_token,
            "seconds_per_token_alone": timing.per_token_alone,
            "speedup": timing.speedup,
            "speedup_by_stretch": timing.by_stretch,
        },
        "rounds": rounds,
    }
