"""Speculative sampling: every algorithm in one readable file, with its exact output law."""

from speculative import draft, model, verify
from speculative.battery import BATTERY, Instance
from speculative.chance import Chance, sample, sample_exactly
from speculative.decode import Generation, Round, autoregress, generate, speculate, stream
from speculative.distribution import point_mass, rational, residual, total_variation
from speculative.draft import DRAFTERS, Draft, Drafter, DraftTree
from speculative.generator import as_generator, with_generator
from speculative.laws import Law, law, law_of_process, paths
from speculative.metrics import Statistics, statistics
from speculative.oracle import Oracle, cached, checked, from_logits, from_probs, table
from speculative.proof import Proof, prove
from speculative.replay import ImpureProgramError, TooManyPathsError
from speculative.undecided import CannotEnumerateError
from speculative.verify import VERIFIERS, Verdict, Verifier
from speculative.warp import Warp, compose, min_p, temperature, top_k, top_p

__version__ = "0.1.0"

__all__ = [
    "BATTERY",
    "DRAFTERS",
    "VERIFIERS",
    "CannotEnumerateError",
    "Chance",
    "Draft",
    "DraftTree",
    "Drafter",
    "Generation",
    "ImpureProgramError",
    "Instance",
    "Law",
    "Oracle",
    "Proof",
    "Round",
    "Statistics",
    "TooManyPathsError",
    "Verdict",
    "Verifier",
    "Warp",
    "as_generator",
    "autoregress",
    "cached",
    "checked",
    "compose",
    "draft",
    "from_logits",
    "from_probs",
    "generate",
    "law",
    "law_of_process",
    "min_p",
    "model",
    "paths",
    "point_mass",
    "prove",
    "rational",
    "residual",
    "sample",
    "sample_exactly",
    "speculate",
    "statistics",
    "stream",
    "table",
    "temperature",
    "top_k",
    "top_p",
    "total_variation",
    "verify",
    "with_generator",
]
