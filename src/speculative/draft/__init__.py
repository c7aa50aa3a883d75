"""Drafters: where proposed tokens come from, each in a file of its own, and the table of them.

A drafter is a program `(chance, context, num_draft_tokens) -> Draft or DraftTree`. It may propose fewer
tokens than asked, and none at all. What it returns holds the tokens together with the law each was *actually
drawn from*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from speculative.draft.best_first import best_first
from speculative.draft.eagle import eagle
from speculative.draft.lookahead import lookahead
from speculative.draft.lookup import lookup
from speculative.draft.medusa import medusa
from speculative.draft.model import model
from speculative.draft.paths import paths
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter, DraftTree
from speculative.draft.sequoia import sequoia
from speculative.draft.shape import TreeShape, sequoia_shape
from speculative.draft.siblings import (
    Siblings,
    draw_siblings,
    hub,
    independent,
    top,
    top_and_one,
    without_replacement,
)
from speculative.draft.stop import low_confidence, low_entropy_bound
from speculative.draft.suffix import suffix, suffix_tree
from speculative.draft.tree import tree

__all__ = [
    "DRAFTERS",
    "NO_DRAFT",
    "Draft",
    "DraftTree",
    "Drafter",
    "DrafterEntry",
    "Siblings",
    "TreeShape",
    "best_first",
    "draw_siblings",
    "eagle",
    "hub",
    "independent",
    "lookahead",
    "lookup",
    "low_confidence",
    "low_entropy_bound",
    "medusa",
    "model",
    "paths",
    "sequoia",
    "sequoia_shape",
    "suffix",
    "suffix_tree",
    "top",
    "top_and_one",
    "tree",
    "without_replacement",
]


@dataclass(frozen=True)
class DrafterEntry:
    """An entry of the table `DRAFTERS`, true of a drafter that is made with its defaults.

    Parameters
    ----------
    function : callable
        Makes a `Drafter`.
    source : str
        Where it is published.
    deterministic : bool or None
        Whether nothing is drawn, so that every declared law is a point mass, or a ranking whose first tokens
        are taken. None where that is decided by what makes a drafter of an oracle, `make_drafter`.
    tree : bool or None
        Whether it proposes a `DraftTree`, for the verifiers of trees. None as above.
    keeps_rounds : bool
        Whether a draft depends on the rounds before it, and not on the text alone: such a drafter goes with
        one text, so make one for each.
    made_of : str
        What the function's first argument is: "oracle", a draft model; "text", the size of the vocabulary,
        for what copies; "heads" on the target's states; "target", the target itself.
    """

    function: Callable[..., Drafter]
    source: str
    deterministic: bool | None
    tree: bool | None = False
    keeps_rounds: bool = False
    made_of: str = "oracle"


DRAFTERS = {
    "model": DrafterEntry(model, "Leviathan et al. 2023; Chen et al. 2023", deterministic=False),
    "lookup": DrafterEntry(lookup, "Saxena 2023 (prompt lookup)", deterministic=True, made_of="text"),
    "suffix": DrafterEntry(suffix, "Oliaro et al. 2024 (SuffixDecoding)", deterministic=True, made_of="text"),
    "suffix_tree": DrafterEntry(
        suffix_tree, "Oliaro et al. 2024 (SuffixDecoding)", deterministic=True, tree=True, made_of="text"
    ),
    "paths": DrafterEntry(
        paths, "Sun et al. 2023 (SpecTr); Miao et al. 2024 (SpecInfer)", deterministic=False, tree=True
    ),
    "tree": DrafterEntry(tree, "Jeon et al. 2024 (RSD-C)", deterministic=False, tree=True),
    "sequoia": DrafterEntry(sequoia, "Chen et al. 2024 (Sequoia)", deterministic=False, tree=True),
    "best_first": DrafterEntry(best_first, "Li et al. 2024 (EAGLE-2)", deterministic=True, tree=True),
    "medusa": DrafterEntry(
        medusa, "Cai et al. 2024 (Medusa)", deterministic=None, tree=None, made_of="heads"
    ),
    "eagle": DrafterEntry(
        eagle, "Li et al. 2024 (EAGLE, EAGLE-2)", deterministic=None, tree=None, made_of="heads"
    ),
    "lookahead": DrafterEntry(
        lookahead,
        "Fu et al. 2024 (lookahead decoding)",
        deterministic=True,
        tree=True,
        keeps_rounds=True,
        made_of="target",
    ),
}
"""Every drafter by name."""
