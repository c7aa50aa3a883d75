"""The options of the commands: how their values are read, and what they mean to the library."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from speculative.cli.drafting import GROWN, MOST_NODES, SCHEMES
from speculative.cli.models import NGRAM, SHAKESPEARE
from speculative.cli.own import blaming
from speculative.cli.trained import TRAINED
from speculative.roofline import HARDWARE
from speculative.verify import VERIFIERS
from speculative.warp import Warp, compose, min_p, temperature, top_k, top_p

LONGEST_ORDER = 32  # an n-gram model keeps a table of the whole text for every order
WARP, TWO_MODELS, ROOFLINE = "Warp of both models", "Two models", "Roofline"  # panels of the help
OF_A_TEXT = "n-grams of a text"
NAMES_FIRST = "A name goes before a folder of the same name, which is ./NAME."


def whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    """Return a parser of whole numbers from `low` to `high`."""

    def parse(text: Any) -> int:
        try:
            value = int(text)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r} is not a whole number; write one, such as {low + 4}"
            ) from None
        if value < low:
            raise typer.BadParameter(f"{value} is too small; write {low} or more")
        if high is not None and value > high:
            raise typer.BadParameter(f"{value} is too large; write {high} or less")
        return value

    return parse


def real(example: str, allowed: str, holds: Callable[[float], bool]) -> Callable[[Any], float]:
    """Return a parser of numbers, with an example of one and the range in words."""

    def parse(text: Any) -> float:
        try:
            value = float(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not a number; write one, such as {example}") from None
        if not holds(value):
            raise typer.BadParameter(f"{value:g} is out of range; write a number {allowed}")
        return value

    return parse


def share(example: str) -> Callable[[Any], float]:
    """Return a parser of numbers from 0 to 1."""
    return real(example, "from 0 to 1", lambda value: 0 <= value <= 1)


def positive(example: str) -> Callable[[Any], float]:
    """Return a parser of finite numbers above 0."""
    return real(example, "above 0", lambda value: 0 < value < math.inf)


def at_least_0(example: str) -> Callable[[Any], float]:
    """Return a parser of finite numbers that are not negative."""
    return real(example, "of 0 or more", lambda value: 0 <= value < math.inf)


def one_of(what: str, name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return `name` where it is known; otherwise refuse it and name those that are."""
    names = list(known)
    if name in names:
        return name
    close = get_close_matches(name, names, 1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise ValueError(f"{what} {name!r} is unknown: {meant}write one of {', '.join(names)}{otherwise}")


def refuse(called: typer.Context, needed: str, *names: str) -> None:
    """Refuse options that would be ignored, where they were given: they need another one."""
    for name in names:
        source = called.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"--{name.replace('_', '-')} needs {needed}")


Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
NoColor = Annotated[
    bool, typer.Option("--no-color", help="Marks instead of colours, as with NO_COLOR and in a pipe.")
]

# generate
Prompt = Annotated[
    str | None,
    typer.Argument(
        help="The text to continue; by default a speaker's name, or the first line of a text of your own."
    ),
]
Tokens = Annotated[int, typer.Option(parser=whole(1), metavar="N", help="How many tokens to generate.")]
DraftTokens = Annotated[
    int, typer.Option(parser=whole(1, MOST_NODES), metavar="K", help="Tokens drafted per target pass.")
]
VerifierName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help=f"One of {', '.join(VERIFIERS)}. By default token for chains, recursive for trees.",
    ),
]
DrafterName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help=(
            f"One of {', '.join(TRAINED)}: ngram is the default, suffix for a folder as target; or the path "
            "of a checkpoint folder, a Llama with the same vocabulary or heads; or file.py:function, a "
            "function of (chance, context, num_draft_tokens) that returns a Draft. "
            f"{NAMES_FIRST}"
        ),
    ),
]
Paths = Annotated[
    int | None,
    typer.Option(
        parser=whole(1, MOST_NODES),
        metavar="K",
        help="Draft so many independent paths, for a verifier of trees.",
    ),
]
Tree = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help=(
            "Draft a tree: so many siblings by depth, 3,2,1, or 3,2,1:SCHEME, drawn by one of "
            f"{', '.join(SCHEMES)}; or so many nodes, {' or '.join(f'{name}:16' for name in GROWN)}. Without "
            "a scheme siblings are drawn as the verifier's own drafts are: hub for spechub, independent for "
            "the others of the table, without-replacement for one of your own."
        ),
    ),
]
Seed = Annotated[
    int | None, typer.Option(parser=whole(0), metavar="N", help="Repeat the run with this seed.")
]

# models
GenerateTarget = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=(
            f"The target: {SHAKESPEARE}, which comes with the package; the path of a checkpoint folder of a "
            f"Llama; {NGRAM}, fitted on a text; or file.py:function, which makes an Oracle of the text's "
            f"characters. {NAMES_FIRST}"
        ),
    ),
]
PlanTarget = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"The target: {NGRAM}; or file.py:function, which makes an Oracle of the text's characters.",
    ),
]
Text = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="What n-grams are fitted on; bundled: two plays of Shakespeare's.",
        rich_help_panel=OF_A_TEXT,
    ),
]
TargetOrder = Annotated[
    int,
    typer.Option(
        parser=whole(1, LONGEST_ORDER),
        metavar="N",
        help="Order of the target n-gram model.",
        rich_help_panel=OF_A_TEXT,
    ),
]
DraftOrder = Annotated[
    int,
    typer.Option(
        parser=whole(1, LONGEST_ORDER),
        metavar="N",
        help="Order of the draft n-gram model.",
        rich_help_panel=OF_A_TEXT,
    ),
]
Temperature = Annotated[
    float,
    typer.Option(
        parser=at_least_0("0.7"), metavar="T", help="0 is greedy; 1 changes nothing.", rich_help_panel=WARP
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(parser=whole(1), metavar="K", help="Keep the K likeliest tokens.", rich_help_panel=WARP),
]
TopP = Annotated[
    float | None,
    typer.Option(
        parser=real("0.9", "above 0 and at most 1", lambda value: 0 < value <= 1),
        metavar="P",
        help="Keep the likeliest tokens of mass P.",
        rich_help_panel=WARP,
    ),
]
MinP = Annotated[
    float | None,
    typer.Option(
        parser=share("0.05"),
        metavar="P",
        help="Keep those of P times the largest mass.",
        rich_help_panel=WARP,
    ),
]

# prove
VerifierNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="VERIFIER", help=f"Some of {', '.join(VERIFIERS)}; all by default."),
]
OwnVerifier = Annotated[
    str | None,
    typer.Option(
        "--verifier",
        metavar="WHERE",
        help=(
            "One of your own: file.py:function or module:function. It is called with 0 drafts too, when "
            "draft.probs is empty."
        ),
    ),
]
Lossy = Annotated[bool, typer.Option("--lossy", help="Yours is not meant to be lossless.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Yours is meant for temperature 0.")]
Tolerance = Annotated[
    float | None,
    typer.Option(
        parser=share("1e-6"),
        metavar="X",
        help="A distance of yours that counts as none. By default 0; for code in floats 2^-40.",
    ),
]
MaxPaths = Annotated[
    int, typer.Option(parser=whole(1), metavar="N", help="Give up beyond so many paths in a round.")
]

# plan
Alpha = Annotated[
    float | None,
    typer.Option(
        parser=share(".8"), metavar="A", help="Probability that a draft is accepted, at every position."
    ),
]
MeasuredText = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="FILE",
        help="Instead of it: measure two models on this text, or on the bundled one.",
    ),
]
Cost = Annotated[
    float, typer.Option(parser=at_least_0(".1"), metavar="C", help="Time of a draft pass in target passes.")
]
MaxDraftTokens = Annotated[
    int, typer.Option(parser=whole(1, 64), metavar="K", help="Longest draft considered.")
]
Plot = Annotated[str | None, typer.Option(metavar="FILE", help="Save a picture: .png, .pdf, .svg.")]
Positions = Annotated[
    int,
    typer.Option(parser=whole(20), metavar="N", help="Contexts measured at.", rich_help_panel=TWO_MODELS),
]
Batches = Annotated[
    bool, typer.Option("--batch", help="Add the speedup by batch size.", rich_help_panel=ROOFLINE)
]
HardwareName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help=f"One of {', '.join(HARDWARE)}: data-sheet peaks.", rich_help_panel=ROOFLINE
    ),
]
Parameters = Annotated[
    float,
    typer.Option(
        parser=positive("8e9"),
        metavar="N",
        show_default=False,
        help="Weights of the target; 8e9 by default.",
        rich_help_panel=ROOFLINE,
    ),
]
BytesPerParameter = Annotated[
    float, typer.Option(parser=positive("2"), metavar="B", help="2 for 16 bits.", rich_help_panel=ROOFLINE)
]
ContextTokens = Annotated[
    int, typer.Option(parser=whole(0), metavar="N", help="Tokens of context.", rich_help_panel=ROOFLINE)
]
CacheBytes = Annotated[
    float,
    typer.Option(
        parser=at_least_0("131072"),
        metavar="B",
        show_default=False,
        help="Bytes of keys and values per token of context; 131072 by default.",
        rich_help_panel=ROOFLINE,
    ),
]


def warp_of(heat: float, most: int | None, nucleus: float | None, least: float | None) -> Warp:
    """Return one warp of the given options, applied in this order: temperature, top-k, top-p, min-p."""
    warps = [temperature(heat)]
    warps += [] if most is None else [top_k(most)]
    warps += [] if nucleus is None else [top_p(nucleus)]
    warps += [] if least is None else [min_p(least)]
    return compose(*warps)


@contextmanager
def only_json(wanted: bool) -> Iterator[None]:
    """Keep standard output free of what code of the user's own prints."""
    with redirect_stdout(sys.stderr) if wanted else nullcontext():
        yield


def blamed(*names: str) -> AbstractContextManager[None]:
    """Name code of the user's own, which has a colon in its name, in whatever is raised."""
    own = [name for name in names if ":" in name]
    return blaming(*own) if own else nullcontext()
