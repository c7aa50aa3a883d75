"""Verifiers, one published rule a file, and the table of them.

A verifier is a program `(chance, draft, target_probs) -> Verdict` that never changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from speculative.verify.engine import from_numpy
from speculative.verify.greedy import greedy
from speculative.verify.lenient import lenient
from speculative.verify.match import match
from speculative.verify.token import token
from speculative.verify.typical import typical
from speculative.verify.verdict import Verdict
from speculative.warp import Warp, temperature

__all__ = ["VERIFIERS", "Verdict", "Verifier", "from_numpy", "greedy", "lenient", "match", "token", "typical"]


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
        What it needs of a draft: "tokens and laws" or "tokens".
    carries : str or None
        State handed from round to round.
    target_warp : Warp or None
        The warp under which the target's law is reproduced, where it is not the target as it stands.
    """

    function: Callable[..., Verdict]
    paper: str
    lossless: bool
    drafts: str
    carries: str | None = None
    target_warp: Warp | None = None


VERIFIERS = {
    "token": Verifier(
        token, "Leviathan et al. 2023; Chen et al. 2023", lossless=True, drafts="tokens and laws"
    ),
    "greedy": Verifier(
        greedy, "Leviathan et al. 2023", lossless=True, drafts="tokens", target_warp=temperature(0)
    ),
    "match": Verifier(match, "Miao et al. 2024 (naive sampling)", lossless=True, drafts="tokens"),
    "typical": Verifier(typical, "Cai et al. 2024", lossless=False, drafts="tokens"),
    "lenient": Verifier(lenient, "Leviathan et al. 2023, appendix", lossless=False, drafts="tokens and laws"),
}
"""Every verifier by name."""
