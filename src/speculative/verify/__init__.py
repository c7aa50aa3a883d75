"""Verifiers, one published rule a file, and the table of them.

A verifier is a program `(chance, draft, target_probs) -> Verdict` that never changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from speculative.draft import Drafter, hub, model, paths, tree
from speculative.oracle import Oracle
from speculative.verify.block import block, hsd
from speculative.verify.cactus import cactus
from speculative.verify.canonical import canonical, canonical_plan
from speculative.verify.cascade import (
    cascade,
    defer_by_confidence,
    defer_by_difference,
    defer_by_distance,
    ensemble,
    token_specific,
)
from speculative.verify.compromise import compromise
from speculative.verify.divergence import jensen_shannon, kullback_leibler
from speculative.verify.engine import from_numpy
from speculative.verify.fuzzy import fuzzy
from speculative.verify.greedy import greedy
from speculative.verify.greedy_block import greedy_block
from speculative.verify.gumbel import gumbel
from speculative.verify.k_seq import k_seq, k_seq_plan
from speculative.verify.lenient import lenient
from speculative.verify.match import match
from speculative.verify.mentored import mentored
from speculative.verify.minhash import minhash
from speculative.verify.multipath import multipath
from speculative.verify.plan import Plan, lift, walk
from speculative.verify.recursive import distinct_plan, recursive, recursive_distinct, recursive_plan
from speculative.verify.spechub import spechub, spechub_plan
from speculative.verify.threshold import threshold
from speculative.verify.token import token
from speculative.verify.transport import lifted_transport, transport, transport_plan
from speculative.verify.traversal import traversal
from speculative.verify.typical import typical
from speculative.verify.verdict import Carried, Verdict
from speculative.warp import Warp, temperature

__all__ = [
    "VERIFIERS",
    "Carried",
    "Plan",
    "Verdict",
    "Verifier",
    "block",
    "cactus",
    "canonical",
    "canonical_plan",
    "cascade",
    "compromise",
    "defer_by_confidence",
    "defer_by_difference",
    "defer_by_distance",
    "distinct_plan",
    "ensemble",
    "from_numpy",
    "fuzzy",
    "greedy",
    "greedy_block",
    "gumbel",
    "hsd",
    "jensen_shannon",
    "k_seq",
    "k_seq_plan",
    "kullback_leibler",
    "lenient",
    "lift",
    "lifted_transport",
    "match",
    "mentored",
    "minhash",
    "multipath",
    "recursive",
    "recursive_distinct",
    "recursive_plan",
    "spechub",
    "spechub_plan",
    "threshold",
    "token",
    "token_specific",
    "transport",
    "transport_plan",
    "traversal",
    "typical",
    "walk",
]


@dataclass(frozen=True)
class Verifier:
    """An entry of the table `VERIFIERS`.

    Parameters
    ----------
    function : callable
        The verifier.
    paper : str
        Where it is published.
    lossless : bool
        Whether its output has exactly the target's law.
    drafts : str
        What it needs of a draft: "tokens" of a chain or a tree, "tokens and laws" of a chain, "tree", or the
        kind of tree.
    make_drafter : callable
        Makes a drafter of the kind it is for from a draft model's oracle, as the battery and the tables do.
    carries : str or None
        State handed from round to round.
    target_warp : Warp or None
        The warp under which the target's law is reproduced, where it is not the target as it stands.
    """

    function: Callable[..., Verdict]
    paper: str
    lossless: bool
    drafts: str
    make_drafter: Callable[[Oracle], Drafter] = model
    carries: str | None = None
    target_warp: Warp | None = None


_two_paths = partial(paths, num_paths=2)

VERIFIERS = {
    "token": Verifier(
        token, "Leviathan et al. 2023; Chen et al. 2023", lossless=True, drafts="tokens and laws"
    ),
    "block": Verifier(block, "Sun et al. 2024", lossless=True, drafts="tokens and laws"),
    "greedy_block": Verifier(
        greedy_block,
        "Sun et al. 2024, appendix",
        lossless=True,
        drafts="tokens and laws",
        carries="changes of the target",
    ),
    "greedy": Verifier(
        greedy, "Leviathan et al. 2023", lossless=True, drafts="tokens", target_warp=temperature(0)
    ),
    "match": Verifier(match, "Miao et al. 2024 (naive sampling)", lossless=True, drafts="tokens"),
    "gumbel": Verifier(gumbel, "Daliri et al. 2025", lossless=True, drafts="tokens and laws"),
    "minhash": Verifier(minhash, "Daliri et al. 2025", lossless=True, drafts="tokens and laws"),
    "recursive": Verifier(
        recursive,
        "Miao et al. 2024 (SpecInfer)",
        lossless=True,
        drafts="tree",
        make_drafter=_two_paths,
    ),
    "recursive_distinct": Verifier(
        recursive_distinct,
        "Jeon et al. 2024 (RRSw)",
        lossless=True,
        drafts="tree",
        make_drafter=_two_paths,
    ),
    "k_seq": Verifier(
        k_seq,
        "Sun et al. 2023 (SpecTr)",
        lossless=True,
        drafts="tree of independent siblings",
        make_drafter=_two_paths,
    ),
    "canonical": Verifier(
        canonical,
        "Khisti et al. 2025",
        lossless=True,
        drafts="tree of independent siblings",
        make_drafter=_two_paths,
    ),
    "spechub": Verifier(
        spechub,
        "Sun et al. 2024 (SpecHub)",
        lossless=True,
        drafts="tree of pairs with the most probable token",
        make_drafter=partial(tree, branching=(2, 2), scheme=hub),
    ),
    "transport": Verifier(
        transport,
        "Sun et al. 2023; Hu et al. 2025",
        lossless=True,
        drafts="tree",
        make_drafter=_two_paths,
    ),
    "lifted_transport": Verifier(
        lifted_transport,
        "this library",
        lossless=True,
        drafts="tree",
        make_drafter=_two_paths,
    ),
    "traversal": Verifier(
        traversal,
        "Weng et al. 2025",
        lossless=True,
        drafts="tree",
        make_drafter=_two_paths,
    ),
    "multipath": Verifier(
        multipath,
        "Thomas and Pal 2026 (GBV)",
        lossless=True,
        drafts="independent paths",
        make_drafter=_two_paths,
    ),
    "mentored": Verifier(mentored, "Tran-Thien 2023", lossless=False, drafts="tokens and laws"),
    "cactus": Verifier(cactus, "Hao and Mou 2026", lossless=False, drafts="tokens and laws"),
    "fuzzy": Verifier(fuzzy, "Holsman et al. 2025", lossless=False, drafts="tokens and laws"),
    "cascade": Verifier(cascade, "Narasimhan et al. 2025", lossless=False, drafts="tokens and laws"),
    "threshold": Verifier(threshold, "SGLang", lossless=False, drafts="tokens"),
    "typical": Verifier(typical, "Cai et al. 2024", lossless=False, drafts="tokens"),
    "lenient": Verifier(lenient, "Leviathan et al. 2023, appendix", lossless=False, drafts="tokens and laws"),
}
"""Every verifier by name."""
