"""Verifiers, one published rule a file, and the table of them.

A verifier is a program `(chance, draft, target_probs) -> Verdict` that never changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from speculative.draft import Drafter, model, paths
from speculative.oracle import Oracle
from speculative.verify.block import block, hsd
from speculative.verify.engine import from_numpy
from speculative.verify.greedy import greedy
from speculative.verify.greedy_block import greedy_block
from speculative.verify.gumbel import gumbel
from speculative.verify.lenient import lenient
from speculative.verify.match import match
from speculative.verify.minhash import minhash
from speculative.verify.plan import Plan, lift, walk
from speculative.verify.recursive import distinct_plan, recursive, recursive_distinct, recursive_plan
from speculative.verify.token import token
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
    "distinct_plan",
    "from_numpy",
    "greedy",
    "greedy_block",
    "gumbel",
    "hsd",
    "lenient",
    "lift",
    "match",
    "minhash",
    "recursive",
    "recursive_distinct",
    "recursive_plan",
    "token",
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
        What it needs of a draft: "tokens" or "tokens and laws" of a chain, "tree", or the kind of tree.
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
        make_drafter=partial(paths, num_paths=2),
    ),
    "recursive_distinct": Verifier(
        recursive_distinct,
        "Jeon et al. 2024 (RRSw)",
        lossless=True,
        drafts="tree",
        make_drafter=partial(paths, num_paths=2),
    ),
    "typical": Verifier(typical, "Cai et al. 2024", lossless=False, drafts="tokens"),
    "lenient": Verifier(lenient, "Leviathan et al. 2023, appendix", lossless=False, drafts="tokens and laws"),
}
"""Every verifier by name."""
