"""Optima to compare verifiers with, by formula and by linear program, and the share of them one reaches."""

from speculative.bound.joint import joint
from speculative.bound.share import expected_accepted, share
from speculative.bound.single_step import StepProgram, prefix_formula, step_program, subset_formula
from speculative.bound.trade_off import Position, best_residual, least_distance, lowest_distance, position
from speculative.bound.whole import Optimum, whole

__all__ = [
    "Optimum",
    "Position",
    "StepProgram",
    "best_residual",
    "expected_accepted",
    "joint",
    "least_distance",
    "lowest_distance",
    "position",
    "prefix_formula",
    "share",
    "step_program",
    "subset_formula",
    "whole",
]
