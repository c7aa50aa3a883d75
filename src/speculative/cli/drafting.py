"""What a verifier is given to verify: drafts of its own kind, so many paths, or a tree of a stated shape."""

from __future__ import annotations

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
from speculative.draft import DRAFTERS, Draft, Drafter, DraftTree
from speculative.draft.siblings import Scheme
from speculative.laws import law
from speculative.oracle import table
from speculative.verify import VERIFIERS, Verifier

SCHEMES: dict[str, Scheme] = {
    "independent": draft.independent,
    "without-replacement": draft.without_replacement,
    "top": draft.top,
    "top-and-one": draft.top_and_one,
    "hub": draft.hub,
}
MOST_NODES = 1024
RATES = (0.6, 0.24, 0.096, 0.0384, 0.01536)  # of siblings in their order: six in ten of what is left
GROWN: dict[str, Callable[..., Drafter]] = {
    "sequoia": partial(draft.sequoia, rates=RATES),
    "best-first": draft.best_first,
}
SPEC = "write widths by depth such as 3,2,1, or " + ", or ".join(f"{name}:16" for name in GROWN)
CHAIN_DRAFTERS = [name for name, entry in DRAFTERS.items() if not entry.tree]
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


def own_draft(entry: Verifier) -> Draft | DraftTree:
    """Return a small draft of the kind that a verifier is proved with."""
    return sample(entry.make_drafter(_COINS), (), 1, rng=0)


def takes_chains(entry: Verifier) -> bool:
    """Whether a verifier is given one path, and not a tree."""
    return isinstance(own_draft(entry), Draft)


def takes_trees(entry: Verifier) -> bool:
    """Whether a verifier takes a tree too, of some kind: its own, or two paths that are tried on it."""
    if not takes_chains(entry):
        return True
    options: dict[str, Any] = {"num_draft_tokens": 1, "verify": entry.function}
    try:
        law(speculate, _COINS, draft.paths(_COINS, 2), **options)
    except ValueError:
        return False
    return True


def shape_of(name: str, paths: int | None, tree: str | None, entry: Verifier | None = None) -> Shape | None:
    """Return the drafts that `--paths` and `--tree` say; None where they leave a verifier its own.

    Parameters
    ----------
    name : str
        The verifier's.
    paths, tree
        The options.
    entry : Verifier, optional
        Its entry; none for a verifier of the user's own, which is given any.

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
        trees = ", ".join(name for name, entry in VERIFIERS.items() if takes_trees(entry))
        raise ValueError(f"{option}: {name} takes one path; verifiers for trees are {trees}")
    if paths is not None:
        return Shape(option, _make_paths(entry, paths))
    assert tree is not None  # one of the two is given
    return _shape_of_tree(option, tree, entry)


@contextmanager
def blaming_the_shape(shape: Shape | None, name: str, entry: Verifier) -> Iterator[None]:
    """Say what drafts a verifier takes, where it refuses those of the user's choice."""
    try:
        yield
    except (OwnCodeError, TooMuchError):
        raise
    except ValueError as error:
        if shape is None:
            raise
        raise ValueError(f"{shape.option}: {name} takes {entry.drafts}: {error}") from None


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
