"""`speculative generate`: text from a target and a drafter, round by round, and what the rounds brought."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import typer

from speculative import show
from speculative.cli import account, options
from speculative.cli.drafting import CHAINS, TREES, shape_of
from speculative.cli.fitting import check_fit
from speculative.cli.models import (
    BUNDLED,
    NGRAM,
    SHAKESPEARE,
    check_drafter,
    drafter_for,
    encode_prompt,
    fit_on_text,
    is_checkpoint,
    load_checkpoint,
)
from speculative.cli.pieces import Pieces
from speculative.cli.record import as_data
from speculative.cli.run import Outcome, Settings, run
from speculative.decode import Round
from speculative.verify import VERIFIERS

EXAMPLES = """[bold]Examples[/bold]

speculative generate

speculative generate "LADY MACBETH:" --tokens 500 --seed 7

speculative generate --verifier match --draft-tokens 6 --top-p 0.9

speculative generate --tree 3,2,1

speculative generate --drafter lookahead --temperature 0

speculative generate "Once upon a time" --target path/of/a/llama --drafter path/of/a/smaller/one

speculative generate "Once " --target ngram --text my.txt

speculative generate --json --seed 0 > run.json"""


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
    """Generate text and show where every token comes from: an accepted draft, or the target and why."""
    drafter = drafter_for(target) if drafter is None else drafter
    kind = check_drafter(target, drafter)
    if verifier is None:
        trees = tree is not None or (paths or 1) > 1 or kind.made_of == "target"
        verifier = TREES if trees else CHAINS
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


def run_before_reader(settings: Settings, console: show.Terminal) -> Outcome:
    """Generate and print round by round, then the figures."""
    transcript, pieces = show.Transcript(console), Pieces(settings.ready.tokenizer.decode)
    begun: list[Round] = []

    def write(tokens: Sequence[int], origin: str) -> None:
        transcript.write("".join(map(pieces.add, tokens)), origin)

    def tell(one: Round) -> None:
        if not begun:  # nothing is printed before the first round has shown that all fits together
            waiting.stop()
            console.paragraph(account.title(settings), "dim")
            for note in account.notes(settings):
                console.paragraph(note, "yellow")
            transcript.legend()
            console.print()
            write(settings.context, "prompt")
        begun.append(one)
        write(one.tokens[: one.accepted], "accepted")
        write(one.tokens[one.accepted :], account.last_origin(one))

    def end() -> None:
        transcript.write(pieces.rest(), account.last_origin(begun[-1]))
        transcript.end()
        waiting.update("the time of plain decoding")
        waiting.start()

    with show.waiting("the first round") as waiting:
        outcome = run(settings, tell, end)
    console.print(show.figures_table(outcome.tokens_per_pass, outcome.accepted))
    console.paragraph(account.how_computed(outcome), "dim")
    console.paragraph(account.time_line(outcome))
    console.paragraph(account.how_measured(settings, outcome), "dim")
    return outcome
