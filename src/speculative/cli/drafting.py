"""What a verifier is given to verify: drafts of its own kind, so many paths, or a tree of a stated shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple

from speculative import draft
from speculative.chance import sample
from speculative.cli.own import OwnCodeError
from speculative.decode import speculate
from speculative.distribution import rational
from speculative.draft import Draft, Drafter, DraftTree
from speculative.draft.siblings import Scheme
from speculative.laws import law
from speculative.oracle import Oracle, table
from speculative.verify import VERIFIERS, Verifier

SCHEMES: dict[str, Scheme] = {
    "independent": draft.independent,
    "without-replacement": draft.without_replacement,
    "top": draft.top,
    "top-and-one": draft.top_and_one,
    "hub": draft.hub,
}
DRAWN = {
    draft.independent: "drawn independently",
    draft.without_replacement: "drawn without replacement",
    draft.top: "made of the most probable tokens",
    draft.top_and_one: "made of the most probable tokens and one drawn",
    draft.hub: "in pairs with the most probable token",
}
"""The same schemes, in words that follow a tree."""
CHAINS, TREES = "token", "recursive"  # what verifies them where nothing is said
MOST_NODES = 1024
RATES = (0.6, 0.24, 0.096, 0.0384, 0.01536)  # of siblings in their order: six in ten of what is left
GROWN: dict[str, Callable[..., Drafter]] = {
    "sequoia": partial(draft.sequoia, rates=RATES),
    "best-first": draft.best_first,
}
SPEC = "write widths by depth such as 3,2,1, or " + ", or ".join(f"{name}:16" for name in GROWN)
BY_RACE = "transport", "lifted_transport"
SMALL = (
    "With siblings that are not independent {} takes a linear program at each node, and a small vocabulary."
)
_COINS = table({(): rational(["1/2", "1/2"])})


class TooMuchError(ValueError):
    """More paths than are gone through: nothing that a verifier has against a draft."""


class Shape(NamedTuple):
    """Drafts of the user's choice, and not the verifier's own."""

    option: str
    """As it was given: --paths 3."""
    make_drafter: partial[Drafter]
    depth: int | None = None
    """How deep they are, where the shape says so."""


ONE_PATH = Shape("--paths 1", partial(draft.paths, num_paths=1))
TWO_PATHS = Shape("--paths 2", partial(draft.paths, num_paths=2))


class Kind(NamedTuple):
    """What is drafted, in words."""

    what: str
    """2 independent paths; tree 3,2,1."""
    drawn: str = ""
    """How siblings of a tree are drawn."""
    depth: int | None = None
    """How deep they are, where that is said."""

    def __str__(self) -> str:
        return f"{self.what} {self.drawn}".rstrip()


def kind_of(make_drafter: Callable[..., Drafter]) -> Kind:
    """Say what a maker of drafters drafts: chains, paths, a tree; its own name for another one."""
    function = getattr(make_drafter, "func", make_drafter)
    given = getattr(make_drafter, "keywords", {})
    if function is draft.model:
        return Kind("chains")
    if function is draft.paths:
        count = given["num_paths"]
        return Kind(f"{count} independent paths" if count > 1 else "trees of one path")
    if function is draft.tree:
        widths = given["branching"]
        scheme = given.get("scheme", draft.without_replacement)
        drawn = DRAWN.get(scheme, f"drawn by {getattr(scheme, '__name__', 'a scheme of its own')}")
        return Kind(f"tree {','.join(map(str, widths))}", drawn, len(widths))
    if function is draft.sequoia:
        return Kind(f"tree sequoia:{given['num_nodes']}", DRAWN[draft.without_replacement])
    if function is draft.best_first:
        return Kind(f"tree best-first:{given['num_nodes']}", "made of the most probable paths")
    return Kind(f"drafts of {getattr(function, '__name__', 'its own drafter')}")


def takes_its_time(name: str, make_drafter: Callable[..., Drafter]) -> str:
    """Say that a verifier solves a program at each node, where it does on such drafts; or nothing."""
    if name == "canonical":
        return "canonical solves a linear program at each node; transport accepts about as often without one."
    drawn = kind_of(make_drafter).drawn
    if name in BY_RACE and drawn not in {"", DRAWN[draft.independent]}:
        return SMALL.format(name)
    return ""


def other_schemes(shape: Shape | None) -> str:
    """Name the other ways to draw siblings, for a verifier that fails on those of a shape; or nothing."""
    if shape is None or shape.make_drafter.func not in {draft.tree, draft.paths} or shape == ONE_PATH:
        return ""
    now = shape.make_drafter.keywords.get("scheme", draft.independent)
    spec = shape.option.partition(":")[0] if shape.option.startswith("--tree") else "--tree 2,2"
    others = ", ".join(f"{spec}:{name}" for name, scheme in SCHEMES.items() if scheme is not now)
    return f"its siblings were {DRAWN[now]}; others are drawn with {others}"


def own_draft(entry: Verifier) -> Draft | DraftTree:
    """Return a small draft of the kind that a verifier is proved with."""
    return sample(entry.make_drafter(_COINS), (), 1, rng=0)


def takes_chains(entry: Verifier) -> bool:
    """Whether a verifier is given one path, and not a tree."""
    return isinstance(own_draft(entry), Draft)


def takes_trees(entry: Verifier) -> bool:
    """Whether a verifier takes a tree too, of some kind: its own, or two paths that are tried on it."""
    return not takes_chains(entry) or _takes(entry, TWO_PATHS.make_drafter)


def shape_of(
    name: str,
    paths: int | None,
    tree: str | None,
    entry: Verifier | None = None,
    *,
    before: str = "--verifier ",
) -> Shape | None:
    """Return the drafts that `--paths` and `--tree` say; None where they leave a verifier its own.

    Parameters
    ----------
    name : str
        The verifier's.
    paths, tree
        The options.
    entry : Verifier, optional
        Its entry; none for a verifier of the user's own, which is given any.
    before : str, optional
        What stands before a verifier's name in the command.

    Raises
    ------
    ValueError
        For both options at once, a specification that is none, and a verifier of chains.
    """
    if paths is None and tree is None:
        return None
    if paths is not None and tree is not None:
        raise ValueError("--paths and --tree are two ways to say what is drafted: give one of them")
    option = f"--paths {paths}" if tree is None else f"--tree {tree}"
    if entry is not None and paths == 1 and takes_chains(entry):
        return None
    if entry is not None and not takes_trees(entry):
        others = ", ".join(other for other in VERIFIERS if other != TREES and takes_trees(VERIFIERS[other]))
        raise ValueError(
            f"{option}: {name} takes one path: write {before}{TREES}, or another verifier for trees: {others}"
        )
    if paths is not None:
        shape = Shape(option, _make_paths(entry, paths))
    else:
        assert tree is not None  # one of the two is given
        shape = _shape_of_tree(option, tree, entry)
    if entry is not None and not _takes(entry, shape.make_drafter):
        raise ValueError(f"{option}: {name} takes {_kind_taken(entry)}: {_instead(shape, entry)}")
    return shape


@contextmanager
def blaming_the_shape(shape: Shape | None, entry: Verifier, option: str = "--verifier ") -> Iterator[None]:
    """Say what drafts a verifier takes and which options give them, where it refuses those it was given.

    `option` is what stands before a verifier's name in the command.
    """
    try:
        yield
    except (OwnCodeError, TooMuchError):
        raise
    except ValueError as error:
        message = _spoken(str(error), option)
        wrong, _, remedy = message.rpartition(": ")
        if shape is None or not wrong:
            raise ValueError(message) from None
        remedy = _instead(shape, entry) or remedy
        raise ValueError(f"{shape.option}: {wrong}, and takes {_kind_taken(entry)}: {remedy}") from None


def check_takes_certain_trees(drafter: str, name: str) -> None:
    """Refuse a verifier that takes no tree of point masses, for a drafter that drafts nothing else."""
    entry = VERIFIERS[name]
    if not _takes(entry, partial(draft.tree, branching=(2, 2), scheme=draft.top)):
        taken = "one path" if not takes_trees(entry) else _kind_taken(entry)
        raise ValueError(
            f"--drafter {drafter} drafts trees of likely tokens, and {name} takes {taken}: write --verifier "
            "recursive"
        )


def _kind_taken(entry: Verifier) -> str:
    return f"{'a ' if entry.drafts.startswith('tree') else ''}{entry.drafts}"


def _spoken(message: str, option: str) -> str:
    """Say in options of the command what an error of the library says in functions."""
    for function, written in (
        (r"draft\.tree\(oracle, \(2, 2\), scheme=draft\.hub\)", "--tree 2,2:hub"),
        (r"draft\.paths", "--paths 2"),
        (r"draft\.model", "--drafter ngram"),
        (r"\b(use|or|as) verify\.(\w+)", rf"\1 {option}\2"),
        (r"\bverify\.(\w+)", r"\1"),
    ):
        message = re.sub(function, written, message)
    return message


def _instead(shape: Shape, entry: Verifier) -> str:
    """Name an option that gives what the verifier takes; nothing where none of the likely ones does."""
    fitting = (
        f"write {other.option}" for other in _likely(shape, entry) if _takes(entry, other.make_drafter)
    )
    return next(fitting, "")


def _likely(shape: Shape, entry: Verifier) -> Iterator[Shape]:
    """Yield shapes that the verifier may take instead: a tree drawn as its own is, paths."""
    given, own = shape.make_drafter, _own_scheme(entry)
    name = next((name for name, scheme in SCHEMES.items() if scheme is own), "")
    if name and own is not given.keywords.get("scheme", draft.independent):
        spec = shape.option.partition(":")[0] if given.func is draft.tree else "--tree 2,2"
        widths = given.keywords.get("branching", (2, 2))
        yield Shape(f"{spec}:{name}", partial(draft.tree, branching=widths, scheme=own))
    if given.func is not draft.paths:
        yield TWO_PATHS


def _takes(entry: Verifier, make_drafter: Callable[[Oracle], Drafter]) -> bool:
    """Whether a verifier takes such drafts, as found by trying two levels of at most two siblings."""
    given = getattr(make_drafter, "keywords", {})
    fewer: dict[str, Any] = {}
    if "branching" in given:
        fewer["branching"] = [min(width, 2) for width in given["branching"]]
    if "num_paths" in given:
        fewer["num_paths"] = min(given["num_paths"], 2)
    options: dict[str, Any] = {"num_draft_tokens": 2, "verify": entry.function}
    try:
        law(speculate, _COINS, partial(make_drafter, **fewer)(_COINS), **options)
    except ValueError:
        return False
    return True


def _make_paths(entry: Verifier | None, num_paths: int) -> partial[Drafter]:
    """Return the verifier's own way to draft paths, if it has one."""
    make: Callable[..., Drafter] = draft.paths
    if entry is not None and "num_paths" in getattr(entry.make_drafter, "keywords", {}):
        make = entry.make_drafter
    return partial(make, num_paths=num_paths)


def _shape_of_tree(option: str, spec: str, entry: Verifier | None) -> Shape:
    """Read WIDTHS, WIDTHS:SCHEME or NAME:SIZE; without a scheme it is that of the verifier's own drafter."""
    first, _, second = spec.partition(":")
    if first in GROWN:
        if not (second.isdecimal() and 0 < int(second) <= MOST_NODES):
            raise ValueError(f"{option}: say how many nodes it has, 1 to {MOST_NODES}, such as {first}:16")
        return Shape(option, partial(GROWN[first], num_nodes=int(second)))
    widths = [int(one) if one.strip().isdecimal() else 0 for one in first.split(",")]
    if 0 in widths:
        raise ValueError(f"{option} is no tree: {SPEC}")
    if sum(accumulate(widths, mul)) > MOST_NODES:
        raise ValueError(
            f"{option} has {sum(accumulate(widths, mul))} nodes: write a tree of {MOST_NODES} or less"
        )
    if second and second not in SCHEMES:
        raise ValueError(f"{option}: no such way to draw siblings: write one of {', '.join(SCHEMES)}")
    scheme = SCHEMES[second] if second else _own_scheme(entry)
    return Shape(option, partial(draft.tree, branching=widths, scheme=scheme), len(widths))


def _own_scheme(entry: Verifier | None) -> Scheme:
    siblings = None if entry is None else own_draft(entry).siblings(0)
    return draft.without_replacement if siblings is None else siblings.scheme
