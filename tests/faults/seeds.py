"""Wrong use of seeds when several texts are made: each should be what its seed alone decides.

A decoder here takes a list of seeds, some of them None, and gives one text for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from speculative import draft, generate, sample

from . import checks

LENGTH = 12


def text(rng):
    """Return one text of the library's loop."""
    drafter = draft.model(checks.SMALL)
    made = sample(generate, checks.TARGET, drafter, (2,), max_new_tokens=LENGTH, num_draft_tokens=3, rng=rng)
    return made.tokens


def one_generator_each(seeds):
    """Right."""
    return [text(np.random.default_rng(seed)) for seed in seeds]


def the_librarys_own(seeds):
    """Right."""
    return [text(seed) for seed in seeds]


def one_generator_for_all(seeds):
    rng = np.random.default_rng(seeds[0])
    return [text(rng) for _ in seeds]


def seeds_by_place(seeds):
    """The seeds are passed, and moved by the text's place among the others."""
    return [text(None if seed is None else seed + place) for place, seed in enumerate(seeds)]


def unseeded_never_written(seeds):
    """Where some texts have seeds, those without are left as they were."""
    texts = [() for _ in seeds]
    for place, seed in enumerate(seeds):
        if seed is not None or all(other is None for other in seeds):
            texts[place] = text(seed)
    return texts


def unseeded_means_zero(seeds):
    return [text(seed or 0) for seed in seeds]


class StepsCounted:
    """The number of texts made so far goes into the seed."""

    def __init__(self):
        self.made = 0

    def __call__(self, seeds):
        texts = []
        for seed in seeds:
            self.made += 1
            texts.append(text(None if seed is None else (seed, self.made)))
        return texts


def alone_as_beside_others(decode):
    assert decode([3, 4, 5]) == [*decode([3]), *decode([4]), *decode([5])], "a text depends on its neighbours"
    assert decode([5, 4, 3]) == decode([3, 4, 5])[::-1], "a text depends on its place"


def every_text_is_made(decode):
    texts = decode([3, None, 4])
    assert [len(made) for made in texts] == [LENGTH] * 3, "a text is missing"
    assert [texts[0], texts[2]] == [*decode([3]), *decode([4])], "a seeded text is another one"


def unseeded_texts_differ(decode):
    """Sixty texts of twelve tokens of probability 3/4 at most: all alike by chance below 1e-88."""
    assert len(set(decode([None] * 60))) > 1, "all unseeded texts are one"


def the_same_again(decode):
    assert decode([3]) == decode([3]), "a seed does not decide its text"


ALL = (alone_as_beside_others, every_text_is_made, unseeded_texts_differ, the_same_again)


class WrongSeeds(NamedTuple):
    """A wrong use of seeds, and the check that has to see it."""

    name: str
    decode: Callable[..., list[tuple[int, ...]]]
    check: Callable[..., None]
    reported: str = ""

    def __str__(self) -> str:
        return self.name


SEEDS = (
    WrongSeeds(
        "one generator for all texts", one_generator_for_all, alone_as_beside_others,
        "vllm-project/vllm#6038, #6034",
    ),
    WrongSeeds(
        "seeds moved by the place", seeds_by_place, alone_as_beside_others,
        "vllm-project/vllm#35398, HabanaAI/vllm-fork#1780",
    ),
    WrongSeeds(
        "unseeded texts never written", unseeded_never_written, every_text_is_made,
        "vllm-project/vllm#9441, #10863",
    ),
    WrongSeeds(
        "no seed means seed 0", unseeded_means_zero, unseeded_texts_differ, "NVIDIA/TensorRT-LLM#19487",
    ),
    WrongSeeds(
        "steps counted into the seed", StepsCounted(), the_same_again, "NVIDIA/TensorRT-LLM#17599",
    ),
)  # fmt: skip
"""Named wrong uses of seeds."""
