"""What `speculative bench` measures: every drafter with every verifier that takes its drafts, by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from speculative import draft
from speculative.bench import Contender
from speculative.cli.drafting import Shape, shape_of, takes_chains, takes_trees
from speculative.cli.generate import check_fit
from speculative.cli.trained import Kind, Source
from speculative.draft import Drafter
from speculative.oracle import Oracle
from speculative.verify import VERIFIERS
from speculative.warp import Warp, temperature

CHAINS, TREES = "token", "recursive"  # what verifies them where nothing is said


class Case(NamedTuple):
    """A drafter with a verifier, and what is drafted."""

    drafter: str
    verifier: str
    num_draft_tokens: int
    shape: Shape | None = None
    """A tree; None for a chain, and for what drafters without a model draft."""

    def __str__(self) -> str:
        tree = f" {self.shape.option.removeprefix('--')}" if self.shape else ""
        return f"{self.drafter} {self.verifier}{tree} k={self.num_draft_tokens}"

    def contender(self, source: Source, target: Oracle, warp: Warp) -> Contender:
        """Return what is raced, of a target that is not warped yet."""
        entry = VERIFIERS[self.verifier]
        make_drafter = (self.shape or entry).make_drafter
        if is_certain(make_drafter):  # a warp of the draft would cut the tree down, and its law needs none
            target, warp = warp(target), temperature(1)
        return Contender(partial(source, target, warp, make_drafter), self.num_draft_tokens, entry.function)


def is_certain(make_drafter: Callable[..., Drafter]) -> bool:
    """Whether a tree is of the most probable tokens, and nothing of it drawn."""
    function, given = getattr(make_drafter, "func", make_drafter), getattr(make_drafter, "keywords", {})
    return function is draft.best_first or given.get("scheme") is draft.top


def cases_of(
    drafter: str, kind: Kind, verifiers: Sequence[str], trees: Sequence[str], lengths: Sequence[int]
) -> list[Case]:
    """Return the cases of one drafter.

    Parameters
    ----------
    drafter, kind
        Its name, and what it is.
    verifiers : sequence of str
        Names; of these the ones that take its drafts. None: one for chains, and one for trees where these are
        drafted.
    trees : sequence of str
        Trees that a model or heads draft besides chains, as `--tree` says them.
    lengths : sequence of int
        The most tokens on a path; a tree of widths has its own depth.

    Raises
    ------
    ValueError
        Where none of the verifiers takes the drafts, or a tree that is asked for.
    """
    names = list(verifiers) or [CHAINS, *[TREES] * (bool(trees) or kind.made_of == "target")]
    fitting = [name for name in names if _fits(drafter, kind, name)]
    if not fitting:
        check_fit(drafter, kind, names[0])
    if not kind.shaped:
        of_chains = [name for name in fitting if takes_chains(VERIFIERS[name])]
        return [Case(drafter, name, length) for name in of_chains or fitting for length in lengths]
    cases = []
    for name in fitting:
        entry = VERIFIERS[name]
        shapes = [shape_of(name, None, tree, entry) for tree in trees] if takes_trees(entry) else []
        if takes_chains(entry) or not shapes:
            cases += [Case(drafter, name, length) for length in lengths]
        for shape in shapes:
            assert shape is not None  # a tree was asked for
            depths = [shape.depth] if shape.depth else lengths
            cases += [Case(drafter, name, depth, shape) for depth in depths]
    if trees and not any(case.shape for case in cases):
        shape_of(names[0], None, trees[0], VERIFIERS[names[0]])  # which says what takes trees
    return cases


def _fits(drafter: str, kind: Kind, verifier: str) -> bool:
    try:
        check_fit(drafter, kind, verifier)
    except ValueError:
        return False
    return True
