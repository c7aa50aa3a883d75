"""Wrong oracles: caches not cut back, penalties and grammars that follow other tokens than those accepted.

Each is made from a right oracle and should be it. `ORACLES` names them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from speculative import Oracle
from speculative.constraint import balanced_brackets, constrain, repetition_penalty
from speculative.oracle import path_by_path
from speculative.testing import by_context

from . import checks

# Caches: a model that holds the tokens it has read, and is told which to keep before it reads on


class Model:
    """Reads tokens, one pass at a time, into a list; its law is that of the list."""

    def __init__(self, oracle: Oracle, keep: Callable[[list[int], tuple[int, ...]], list[int]]) -> None:
        self.oracle, self.keep, self.held = oracle, keep, []

    def score(self, context, drafted):
        wanted = (*context, *drafted)
        kept = self.keep(self.held, wanted)[: len(context)]
        self.held = kept + list(wanted[len(kept) :])
        start = len(self.held) - len(drafted)
        return [self.oracle(tuple(self.held[:end])) for end in range(start, len(self.held) + 1)]


def common(held, wanted):
    """Return how many tokens two sequences begin with together."""
    pairs = zip(held, wanted, strict=False)
    return next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), min(len(held), len(wanted)))


def cut_to_the_common_prefix(held, wanted):
    """Right."""
    return held[: common(held, wanted)]


def never_cut(held, wanted):
    return held


def cut_one_too_few(held, wanted):
    return held[: common(held, wanted) + 1]


def cut_and_shifted(held, wanted):
    """One token too many is cut, and its place is taken by the one before it."""
    kept = common(held, wanted)
    return held[: kept - 1] + held[kept - 2 : kept - 1] if 2 <= kept < len(held) else held[:kept]


def newest_in_a_ring(held, wanted):
    """A ring of two places: what drafts have overwritten does not come back."""
    kept = held[: common(held, wanted)]
    overwritten = max(0, len(held) - 2)
    return [1] * min(overwritten, len(kept)) + kept[overwritten:]


def caching(keep):
    def make(oracle):
        model = Model(oracle, keep)
        return replace(
            oracle, row=lambda context: model.score(context, ())[0], score_rows=path_by_path(model.score)
        )

    return make


def with_a_second_cache(oracle):
    """The main cache is cut back, the other one, which every second row comes from, is not."""
    main, other = Model(oracle, cut_to_the_common_prefix), Model(oracle, never_cut)

    def score(context, drafted):
        ours, theirs = main.score(context, drafted), other.score(context, drafted)
        return [theirs[i] if (len(context) + i) % 2 else ours[i] for i in range(len(ours))]

    return replace(oracle, row=lambda context: score(context, ())[0], score_rows=path_by_path(score))


# Rows of one pass that look at other tokens than those before them


def looking_at(history):
    """Return what scores position i with the law after `history(context, drafted, i)`."""

    def make(oracle):
        def score(context, drafted):
            return [oracle(history(context, drafted, i)) for i in range(len(drafted) + 1)]

        return replace(oracle, score_rows=path_by_path(score))

    return make


def before_it(context, drafted, i):
    """Right."""
    return context + drafted[:i]


def the_next_draft_too(context, drafted, i):
    return context + drafted[: i + 1]


def all_drafts(context, drafted, i):
    return context + drafted


def no_drafts(context, drafted, i):
    return context


def all_but_the_first_draft(context, drafted, i):
    return context + drafted[1:i]


def the_last_draft_only(context, drafted, i):
    return context + drafted[max(0, i - 1) : i]


def the_last_draft_twice(context, drafted, i):
    return context + drafted[:i] + drafted[max(0, i - 1) : i]


# Penalties and grammars that are shown other tokens than the model


class Ledger:
    """Counts tokens as they are scored; nobody tells it which of them were rejected."""

    def __init__(self, oracle):
        self.oracle, self.seen = oracle, set()

    def score(self, context, drafted):
        rows = []
        for i in range(len(drafted) + 1):
            self.seen |= {*context, *drafted[:i]}
            rows.append(self._penalised(self.oracle(context + drafted[:i])))
        return rows

    def _penalised(self, row):
        weights = np.array([p / 2 if token in self.seen else p for token, p in enumerate(row)], dtype=object)
        return weights / weights.sum()


def penalised(oracle):
    """Right: half the probability for tokens that have come before."""
    return repetition_penalty(oracle, 2)


def penalised_by_a_ledger(oracle):
    ledger = Ledger(oracle)
    return replace(
        oracle, row=lambda context: ledger.score(context, ())[0], score_rows=path_by_path(ledger.score)
    )


def penalised_for(history):
    """Return a penalty that is shown `history(context, drafted, i)` at position i."""

    def make(oracle):
        def penalty(seen, row):
            weights = np.array([p / 2 if token in seen else p for token, p in enumerate(row)], dtype=object)
            return weights / weights.sum()

        def score(context, drafted):
            return [
                penalty(history(context, drafted, i), oracle(context + drafted[:i]))
                for i in range(len(drafted) + 1)
            ]

        return replace(
            oracle, row=lambda context: penalty(context, oracle(context)), score_rows=path_by_path(score)
        )

    return make


BRACKETS = balanced_brackets(0, 1, 2, max_depth=2)
BRACKETED = by_context([np.array([Fraction(n, 6) for n in row]) for row in ((3, 2, 1), (2, 2, 2), (1, 3, 2))])
"""Tokens 0 and 1 open and close, 2 ends; every one of them is always possible to the model itself."""


def grammatical(oracle):
    """Right: only texts of balanced brackets."""
    return constrain(oracle, BRACKETS)


def grammar_at_the_first_position_only(oracle):
    right = grammatical(oracle)

    def score(context, drafted):
        return [right(context), *(oracle(context + drafted[: i + 1]) for i in range(len(drafted)))]

    return replace(right, score_rows=path_by_path(score))


def grammar_one_token_behind(oracle):
    right = grammatical(oracle)

    def mask(context):
        try:
            return right(context[:-1])
        except ValueError:
            return oracle(context)

    def score(context, drafted):
        rows = [right(context)]
        for i in range(len(drafted)):
            weights = oracle(context + drafted[: i + 1]) * (mask(context + drafted[: i + 1]) > 0)
            rows.append(weights / weights.sum() if weights.any() else oracle(context))
        return rows

    return replace(right, score_rows=path_by_path(score))


class WrongOracle(NamedTuple):
    """A wrong oracle, and the right one that it is an attempt at."""

    name: str
    make: Callable[[Oracle], Oracle]
    right: Callable[[Oracle], Oracle]
    reported: str = ""
    plain: Oracle = checks.TARGET

    def __str__(self) -> str:
        return self.name


def itself(oracle):
    return oracle


ORACLES = (
    # Caches
    WrongOracle(
        "a cache never cut back", caching(never_cut), itself,
        "lablup/mlxcel#994, ml-explore/mlx-lm#1109, lucidrains/speculative-decoding#3",
    ),
    WrongOracle(
        "a cache cut by one too few", caching(cut_one_too_few), itself, "ml-explore/mlx-examples#149",
    ),
    WrongOracle(
        "a cache cut by one too many", caching(cut_and_shifted), itself, "vllm-project/vllm#9730",
    ),
    WrongOracle(
        "a ring cache that overwrites", caching(newest_in_a_ring), itself,
        "ml-explore/mlx-lm#1427, #1423, #1446, paiml/aprender#2014",
    ),
    WrongOracle(
        "a second cache not cut back", with_a_second_cache, itself, "ml-explore/mlx-swift-lm#308",
    ),
    # Rows of one pass
    WrongOracle(
        "a row that sees the next draft", looking_at(the_next_draft_too), itself,
        "feifeibear/LLMSpeculativeSampling#29",
    ),
    WrongOracle(
        "rows that see all drafts", looking_at(all_drafts), itself, "feifeibear/LLMSpeculativeSampling#29",
    ),
    WrongOracle("rows that see no drafts", looking_at(no_drafts), itself),
    WrongOracle("rows without the first draft", looking_at(all_but_the_first_draft), itself),
    # Penalties and grammars
    WrongOracle(
        "a penalty for rejected drafts", penalised_by_a_ledger, penalised, "osaurus-ai/vmlx-swift#357, #361",
    ),
    WrongOracle(
        "a penalty that sees the last draft only", penalised_for(the_last_draft_only), penalised,
        "sgl-project/sglang#33643",
    ),
    WrongOracle(
        "a penalty at the first position only", penalised_for(no_drafts), penalised,
        "sgl-project/sglang#28242, #28200",
    ),
    WrongOracle(
        "a penalty for drafts still to come", penalised_for(all_drafts), penalised, "vllm-project/vllm#33251",
    ),
    WrongOracle("a penalty left out", itself, penalised, "NVIDIA/TensorRT-LLM#17701"),
    WrongOracle(
        "a grammar at the first position only", grammar_at_the_first_position_only, grammatical,
        "vllm-project/vllm#46272, #53777, #34241", BRACKETED,
    ),
    WrongOracle(
        "a grammar one token behind", grammar_one_token_behind, grammatical,
        "openvinotoolkit/openvino.genai#4081, Avarok-Cybersecurity/atlas#39", BRACKETED,
    ),
)  # fmt: skip
"""Named wrong oracles."""

RIGHT = (
    WrongOracle("no cache", itself, itself),
    WrongOracle("a cache cut to the common prefix", caching(cut_to_the_common_prefix), itself),
    WrongOracle("rows that see what is before them", looking_at(before_it), itself),
    WrongOracle("a penalty for what is before", penalised_for(before_it), penalised),
    WrongOracle("the library's penalty", penalised, penalised),
    WrongOracle("the library's grammar", grammatical, grammatical, "", BRACKETED),
)
"""What the same checks let pass."""
