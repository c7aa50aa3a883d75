"""What `speculative bench` measures: every drafter with every verifier that takes its drafts, by size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from speculative.bench import Contender
from speculative.cli.drafting import CHAINS, TREES, Shape, shape_of, takes_chains, takes_trees
from speculative.cli.fitting import check_fit, loop_of
from speculative.cli.trained import Kind, Source
from speculative.oracle import Oracle
from speculative.verify import VERIFIERS
from speculative.warp import Warp


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
        make = partial(loop_of, source, target, warp, make_drafter)
        return Contender(make, self.num_draft_tokens, entry.function)


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
