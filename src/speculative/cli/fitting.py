"""Which drafter fits a verifier, and the loop that is made of it: which laws are warped in it."""

from __future__ import annotations

from collections.abc import Callable

from speculative import draft
from speculative.cli.drafting import check_takes_certain_trees
from speculative.cli.models import NGRAM
from speculative.cli.trained import Kind, Loop, MakeDrafter, Source
from speculative.draft import Drafter
from speculative.oracle import Oracle
from speculative.verify import VERIFIERS
from speculative.warp import Warp, temperature


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


def loop_of(source: Source, target: Oracle, warp: Warp, make_drafter: MakeDrafter) -> Loop:
    """Return what a source makes of a target that is not warped yet, and of what is to be drafted.

    Target and draft are warped alike, so that a sampled token has the law that is declared for it. A tree of
    the most probable tokens is drafted from the draft as it is: nothing of it is drawn, and a warp would take
    tokens away; at temperature 0 it would leave a chain of the tree.
    """
    if is_certain(make_drafter):
        target, warp = warp(target), temperature(1)
    return source(target, warp, make_drafter)


def is_certain(make_drafter: Callable[..., Drafter]) -> bool:
    """Whether a tree is of the most probable tokens, and nothing of it drawn."""
    function, given = getattr(make_drafter, "func", make_drafter), getattr(make_drafter, "keywords", {})
    return function is draft.best_first or given.get("scheme") is draft.top
