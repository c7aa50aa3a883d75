"""`speculative bench`: drafters, verifiers and draft lengths on the clock, beside their forecasts."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from speculative import model, show
from speculative.bench import Measured, Spread, excerpts, measure
from speculative.cli import options
from speculative.cli.cases import Case, cases_of
from speculative.cli.drafting import GROWN, MOST_NODES, SCHEMES, blaming_the_shape
from speculative.cli.models import BUNDLED, SHAKESPEARE, read_text
from speculative.cli.picture import check_suffix, drawing, save_panels
from speculative.cli.threads import begin_with
from speculative.cli.trained import TRAINED, kind_named, load_drafter
from speculative.verify import VERIFIERS

PROMPT = 64  # tokens
TEXTS = 4  # in each repeat, to time the parts of a round on: a prompt's tokens and those decoded behind it
OF_SHAKESPEARE = "ngram", "neural", "medusa", "eagle"
OF_ANY = "lookup", "suffix"
K = "k: the most tokens drafted on a path"
EXAMPLES = """[bold]Examples[/bold]

speculative bench

speculative bench --drafter eagle --draft-tokens 2 --draft-tokens 4 --temperature 0 --plot eagle.png

speculative bench --drafter ngram --verifier token --verifier block --threads 2

speculative bench --drafter medusa --verifier recursive --verifier traversal --tree best-first:8

speculative bench --target path/of/a/llama --drafter path/of/a/smaller/one --json > bench.json"""

Target = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=(
            f"The target: {SHAKESPEARE}, which comes with the package; or the path of a checkpoint folder. "
            f"{options.NAMES_FIRST}"
        ),
    ),
]
Drafters = Annotated[
    list[str] | None,
    typer.Option(
        "--drafter",
        metavar="NAME",
        show_default=False,
        help=(
            f"Some of {', '.join(TRAINED)}; or paths of checkpoint folders, or file.py:function. By default "
            f"{', '.join(OF_SHAKESPEARE)}; for a target of your own {' and '.join(OF_ANY)}."
        ),
    ),
]
Verifiers = Annotated[
    list[str] | None,
    typer.Option(
        "--verifier",
        metavar="NAME",
        show_default=False,
        help=f"Some of {', '.join(VERIFIERS)}. By default token for chains, recursive for trees.",
    ),
]
Lengths = Annotated[
    list[int],
    typer.Option(
        "--draft-tokens", parser=options.whole(1, MOST_NODES), metavar="K", help="Tokens drafted on a path."
    ),
]
Trees = Annotated[
    list[str] | None,
    typer.Option(
        "--tree",
        metavar="SPEC",
        help=(
            "Draft trees besides chains: so many siblings by depth, 3,2,1, or 3,2,1:SCHEME, drawn by one of "
            f"{', '.join(SCHEMES)}; or so many nodes, {' or '.join(f'{name}:8' for name in GROWN)}."
        ),
    ),
]
HeldOut = Annotated[
    str,
    typer.Option(
        "--text",
        metavar="FILE",
        help="Where prompts are cut from; bundled: two plays that the models were not trained on.",
    ),
]
Prompts = Annotated[
    int, typer.Option(parser=options.whole(2), metavar="N", help=f"How many, of {PROMPT} tokens each.")
]
NewTokens = Annotated[
    int, typer.Option("--tokens", parser=options.whole(8), metavar="N", help="Decoded of each prompt.")
]
Repeats = Annotated[
    int, typer.Option(parser=options.whole(1), metavar="N", help="Times that everything is measured.")
]
Threads = Annotated[int, typer.Option(parser=options.whole(1), metavar="N", help="Threads of BLAS.")]
Seed = Annotated[int, typer.Option(parser=options.whole(0), metavar="N", help="Of prompts and samples.")]


def bench(
    *,
    target: Target = SHAKESPEARE,
    drafter: Drafters = None,
    verifier: Verifiers = None,
    draft_tokens: Lengths = [3, 5],  # noqa: B006 - typer copies it
    tree: Trees = None,
    temperature: options.Temperature = 1.0,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    prompts: Prompts = 20,
    tokens: NewTokens = 128,
    repeats: Repeats = 3,
    text: HeldOut = BUNDLED,
    threads: Threads = 1,
    seed: Seed = 0,
    plot: options.Plot = None,
    as_json: options.Json = False,
    no_color: options.NoColor = False,
) -> None:
    """Measure what drafters bring on this machine, in turns with plain decoding, and what was to be expected.

    Prompts are cut from a text that the models were not trained on. Each is decoded plainly and speculatively
    in turn; the time of reading it is left out. The forecast is the cost model's, from the tokens a target
    pass brought and from the times of a pass, a draft and the loop, each measured by itself.
    """
    names = drafter or (OF_SHAKESPEARE if target == SHAKESPEARE else OF_ANY)
    for name in verifier or ():
        options.one_of("--verifier", name, VERIFIERS)
    cases = [
        case
        for name in names
        for case in cases_of(name, kind_named(name), verifier or (), tree or (), draft_tokens)
    ]
    warp = options.warp_of(temperature, top_k, top_p, min_p)
    if plot is not None:
        check_suffix(plot)
    begin_with(threads, sys.argv[1:])
    with options.only_json(as_json), options.blamed(*names), show.progress(len(cases) + 1) as advance:
        advance(f"loading {target}")
        try:
            llama = model.load(target, sliding=True)
        except (ValueError, ImportError) as error:
            raise ValueError(f"--target {target}: {error}") from None
        assert llama.tokenizer is not None  # it was loaded with one
        held_out = llama.tokenizer.encode(read_text(text))
        begun = excerpts(held_out, prompts, PROMPT, seed=seed)
        along = excerpts(held_out, TEXTS * repeats, PROMPT + tokens, seed=seed + 1)
        for name in dict.fromkeys(names):  # what is wrong with one is said before any is timed
            load_drafter(name, llama)
        found: list[tuple[Case, Measured]] = []
        for case in cases:
            advance(str(case))
            with blaming_the_shape(case.shape, VERIFIERS[case.verifier]):
                contender = case.contender(load_drafter(case.drafter, llama), llama.oracle, warp)
                measured = measure(
                    warp(llama.oracle),
                    contender,
                    begun,
                    along,
                    max_new_tokens=tokens,
                    repeats=repeats,
                    seed=seed,
                )
            found.append((case, measured))
    title = (
        f"target {target}, {warp.name.removeprefix('compose(').removesuffix(')')}; {prompts} prompts of "
        f"{PROMPT} tokens, {tokens} decoded of each, {repeats} times, {threads} "
        f"{'thread' if threads == 1 else 'threads'}"
    )
    lines = [as_line(case, measured) for case, measured in found]
    if plot is not None:
        draw(plot, found, title)
    if as_json:
        settings = {
            "target": target,
            "temperature": temperature,
            "warp": warp.name,
            "text": text,
            "prompts": prompts,
            "prompt_tokens": PROMPT,
            "tokens": tokens,
            "repeats": repeats,
            "seed": seed,
            "threads": threads,
        }
        made = {"measured": title, **settings, "machine": machine(), "cases": as_data(found), "plot": plot}
        print(json.dumps(made, indent=2))
        return
    console = show.terminal(no_color=no_color)
    console.paragraph(title, "dim")
    console.print(show.bench_table(lines))
    for line in show.explained(lines):
        console.paragraph(line, "dim")
    if plot is not None:
        console.paragraph(f"Saved {plot}.")


def draw(file: str, found: list[tuple[Case, Measured]], title: str) -> None:
    """Save the picture: speedups, and acceptance by position in the longest drafts of each kind."""
    raced = {str(case): measured for case, measured in found}
    by_length = sorted((case for case, _ in found), key=lambda case: case.num_draft_tokens)
    last = {str(case._replace(num_draft_tokens=0)): str(case) for case in by_length}
    longest = {name: measured for name, measured in raced.items() if name in last.values()}
    plot = drawing()

    def speedups(ax: Any) -> None:
        plot.plot_race(raced, ax=ax)

    def acceptance(ax: Any) -> None:
        plot.plot_acceptance_by_position(longest, ax=ax)

    save_panels(file, [speedups, acceptance], height=1.9 + 0.3 * max(8, len(found)), title=f"{title}; {K}")


def as_line(case: Case, measured: Measured) -> show.BenchLine:
    """Return what the table shows of a case."""
    return show.BenchLine(
        case.drafter,
        case.verifier,
        case.num_draft_tokens,
        case.shape.option.removeprefix("--tree ") if case.shape else "",
        measured,
    )


def machine() -> dict[str, str]:
    """Return what the times depend on, for JSON."""
    blas: Any = np.show_config(mode="dicts")
    return {
        "processor": processor(Path("/proc/cpuinfo")),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": blas["Build Dependencies"]["blas"]["name"],
    }


def processor(described: Path) -> str:
    """Return the processor's name, from the file where Linux describes it; elsewhere its kind."""
    lines = described.read_text(encoding="utf-8").splitlines() if described.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def as_data(found: list[tuple[Case, Measured]]) -> list[dict[str, Any]]:
    """Return everything that was measured, for JSON; times in seconds."""
    return [
        {
            "drafter": case.drafter,
            "verifier": case.verifier,
            "draft_tokens": case.num_draft_tokens,
            "tree": case.shape.option.removeprefix("--tree ") if case.shape else None,
            "acceptance_by_position": measured.race.statistics.acceptance_by_position,
            "tokens_per_target_pass": measured.race.statistics.tokens_per_target_pass,
            "drafted_per_target_pass": measured.race.statistics.drafted_per_round,
            "seconds_per_token": _spread(measured.race.seconds),
            "seconds_per_token_plain": _spread(measured.race.plain_seconds),
            "speedup": _spread(measured.race.speedup),
            "predicted_speedup": measured.predicted,
            "verification": measured.verification,
            "cost": measured.cost,
            "parts": {
                "plain_token": measured.costs.plain,
                "passes_by_rows": measured.costs.passes,
                "drafting": measured.costs.drafting,
                "loop": measured.costs.loop,
            },
        }
        for case, measured in found
    ]


def _spread(spread: Spread) -> dict[str, float]:
    return {"low": spread.low, "median": spread.median, "high": spread.high}
