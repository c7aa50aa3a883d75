"""Wrong samplers: how a uniform becomes an answer, and what should have been refused.

`SAMPLERS` names them, each with the check that has to see it. The checks enumerate every uniform of the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from speculative import as_generator, law
from speculative.chance import Sampler

ULP = Fraction(1, 2**53)


class AtMost(Sampler):
    def flip(self, probability, /):
        return bool(self._rng.random() <= probability)


class InLogarithms(Sampler):
    """log u <= log p: at u = 0 and p = 0 both are minus infinity."""

    def flip(self, probability, /):
        with np.errstate(divide="ignore"):
            return bool(np.log(self._rng.random()) <= np.log(np.float64(probability)))


class AlwaysZero(Sampler):
    """A uniform that was never drawn."""

    def flip(self, probability, /):
        return bool(probability >= 0)


class ClippedProbability(Sampler):
    def flip(self, probability, /):
        return super().flip(min(1, max(0, probability)))


class SearchedFromTheLeft(Sampler):
    def pick(self, weights, /):
        shares = np.cumsum(np.asarray(weights, dtype=float))
        return int(np.searchsorted(shares / shares[-1], self._rng.random(), side="left"))


class NotNormalised(Sampler):
    def pick(self, weights, /):
        shares = np.cumsum(np.asarray(weights, dtype=float))
        return min(int(np.searchsorted(shares, self._rng.random(), side="right")), len(shares) - 1)


class ClippedToTheLast(Sampler):
    """Divided by another sum than the last cumulated one, so that a uniform may lie above them all."""

    def pick(self, weights, /):
        weights = np.asarray(weights, dtype=float)
        shares = np.cumsum(weights) / (weights.sum() * (1 + 2.0**-52))
        return min(int(np.searchsorted(shares, self._rng.random(), side="right")), len(shares) - 1)


class ALittleEverywhere(Sampler):
    def pick(self, weights, /):
        return super().pick(np.asarray(weights, dtype=float) + 1e-10)


class Softmaxed(Sampler):
    def pick(self, weights, /):
        return super().pick(np.exp(np.asarray(weights, dtype=float)))


class CumulatedInHalfPrecision(Sampler):
    def pick(self, weights, /):
        shares = np.cumsum(np.asarray(weights, dtype=np.float16)).astype(float)
        return int(np.searchsorted(shares / shares[-1], self._rng.random(), side="right"))


class CoarseUniforms(Sampler):
    """Uniforms in the precision of the model."""

    def __init__(self, rng):
        super().__init__(rng, np.float16)


class UniformWithoutMass(Sampler):
    def pick(self, weights, /):
        weights = np.asarray(weights, dtype=float)
        return super().pick(weights if weights.any() else np.ones_like(weights))


class NaNPassed(Sampler):
    """The guard `total <= 0` is false for NaN."""

    def pick(self, weights, /):
        shares = np.cumsum(np.asarray(weights, dtype=float))
        if shares[-1] <= 0:
            raise ValueError("pick() got no mass")
        return min(
            int(np.searchsorted(shares / shares[-1], self._rng.random(), side="right")), len(shares) - 1
        )


class NaNToZero(Sampler):
    def pick(self, weights, /):
        return super().pick(np.nan_to_num(np.asarray(weights, dtype=float)))


class NegativeClipped(Sampler):
    def pick(self, weights, /):
        return super().pick(np.maximum(np.asarray(weights, dtype=float), 0))


# Checks


def law_of(sampler, question, *asked):
    """Return the exact law of the float code's answer, over every uniform of its grid."""
    return law(lambda chance: getattr(sampler(as_generator(chance)), question)(*asked))


def never_gives_an_answer_without_mass(sampler):
    assert set(law_of(sampler, "flip", 0.0)) == {False}
    assert set(law_of(sampler, "flip", 1.0)) == {True}
    assert set(law_of(sampler, "pick", [0, 0.5, 0, 0.5, 0])) == {1, 3}
    assert set(law_of(sampler, "pick", [0.1] * 10 + [0])) == set(range(10))


def is_a_few_ulps_from_the_law(sampler):
    assert abs(law_of(sampler, "flip", 0.3)[True] - Fraction(3, 10)) <= ULP
    for weights in ([0.1, 0.6, 0.3, 0], [1, 2, 5], [0.05, 0.25]):
        exact = {i: Fraction(str(w)) / sum(Fraction(str(v)) for v in weights) for i, w in enumerate(weights)}
        assert law_of(sampler, "pick", weights).distance(exact) <= 4 * ULP


class Told:
    """A generator with one uniform, which is given."""

    def __init__(self, uniform):
        self.uniform = uniform

    def random(self, dtype=None):
        return self.uniform


def puts_edges_into_the_piece_above(sampler):
    """A piece is closed below and open above, down to u = 0 and up to the largest uniform."""
    for uniform, answer in ((0.0, 1), (0.25, 2), (0.5, 4), (1 - 2.0**-53, 4), (0.25 - 2.0**-54, 1)):
        assert sampler(Told(uniform)).pick([0, 0.25, 0.25, 0, 0.5, 0]) == answer
    assert [sampler(Told(u)).flip(0.25) for u in (0.0, 0.25 - 2.0**-54, 0.25)] == [True, True, False]


def refuses_what_is_no_law(sampler):
    for weights in ([0, 0, 0], [0.5, np.nan, 0.5], [np.inf, 1], [1, -0.5, 0.5], [np.nan] * 3):
        assert refused(sampler(Told(0.5)).pick, weights)
    for probability in (np.nan, -0.25, 1.5):
        assert refused(sampler(Told(0.5)).flip, probability)


def refused(question, asked):
    try:
        question(asked)
    except ValueError as error:
        return question.__name__ in str(error)
    return False


ALL = (
    never_gives_an_answer_without_mass,
    is_a_few_ulps_from_the_law,
    puts_edges_into_the_piece_above,
    refuses_what_is_no_law,
)


class WrongSampler(NamedTuple):
    """A wrong sampler, and the check that has to see it."""

    name: str
    sampler: Callable[..., Sampler]
    check: Callable[..., None]
    reported: str = ""

    def __str__(self) -> str:
        return self.name


SAMPLERS = (
    WrongSampler(
        "u <= p", AtMost, never_gives_an_answer_without_mass, "sgl-project/sglang#35771, #35798",
    ),
    WrongSampler(
        "log u <= log p", InLogarithms, never_gives_an_answer_without_mass, "sgl-project/sglang#35771",
    ),
    WrongSampler(
        "u = 0 throughout", AlwaysZero, never_gives_an_answer_without_mass, "vllm-project/vllm-ascend#13766",
    ),
    WrongSampler("u <= p at the edge", AtMost, puts_edges_into_the_piece_above, "sgl-project/sglang#35771"),
    WrongSampler(
        "cumulated weights searched from the left", SearchedFromTheLeft, never_gives_an_answer_without_mass,
        "sgl-project/sglang#35771, #35798",
    ),
    WrongSampler(
        "an edge put into the piece below", SearchedFromTheLeft, puts_edges_into_the_piece_above,
        "sgl-project/sglang#35771, #35798",
    ),
    WrongSampler("weights not normalised", NotNormalised, is_a_few_ulps_from_the_law),
    WrongSampler(
        "clipped to the last token", ClippedToTheLast, never_gives_an_answer_without_mass,
        "vllm-project/vllm#53029",
    ),
    WrongSampler("1e-10 added to every weight", ALittleEverywhere, never_gives_an_answer_without_mass),
    WrongSampler(
        "weights softmaxed", Softmaxed, is_a_few_ulps_from_the_law, "huggingface/transformers#28508",
    ),
    WrongSampler("cumulated in half precision", CumulatedInHalfPrecision, is_a_few_ulps_from_the_law),
    WrongSampler("uniforms in half precision", CoarseUniforms, is_a_few_ulps_from_the_law),
    WrongSampler(
        "any token where there is no mass", UniformWithoutMass, refuses_what_is_no_law, "duoan/TorchCode#16",
    ),
    WrongSampler(
        "a token for NaN", NaNPassed, refuses_what_is_no_law,
        "vllm-project/vllm#53029, youssofal/MTPLX#82, jaymody/speculative-sampling#5",
    ),
    WrongSampler("NaN taken for zero", NaNToZero, refuses_what_is_no_law, "vllm-project/vllm-ascend#14116"),
    WrongSampler("negative weights taken for zero", NegativeClipped, refuses_what_is_no_law),
    WrongSampler("a probability above 1 taken for 1", ClippedProbability, refuses_what_is_no_law),
)  # fmt: skip
"""Named wrong samplers."""
