"""The parts of a round, each on a clock of its own: the target's pass, the drafter's call, the loop."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from speculative._numbers import count
from speculative.bench.contender import Clock, Contender, begun, check_prompts
from speculative.chance import Sampler, sample
from speculative.decode import autoregress, stream
from speculative.distribution import Context, Row
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter, DraftTree
from speculative.oracle import Oracle

UNLIMITED = 1 << 62
Times: TypeAlias = dict[tuple[int, ...], list[float]]


class Costs(NamedTuple):
    """Seconds of the parts, each timed by itself on text that none of the models wrote."""

    plain: float
    """Of a token by plain decoding: a pass over one row, and the loop."""
    passes: Mapping[int, float]
    """Of the target's pass in a round, by the number of its rows: the drafts, and one."""
    drafting: float
    """Of a call of the drafter."""
    loop: float
    """Of what else there is in a round: verification, and the loop itself."""

    def verification(self, drafted: Sequence[int]) -> float:
        """Seconds of the target's pass and the loop, the mean over rounds of so many drafts each."""
        sizes = sorted(self.passes)
        rows = 1 + np.asarray(drafted)
        return float(np.interp(rows, sizes, [self.passes[size] for size in sizes]).mean()) + self.loop


def costs(
    target: Oracle,
    contender: Contender,
    texts: Sequence[Context],
    *,
    start: int,
    repeats: int = 3,
    seed: int = 0,
    clock: Clock = time.perf_counter,
) -> Costs:
    """Time the parts of a round, and a plain token, along texts.

    Parameters
    ----------
    target, contender, repeats, seed, clock
        As for `race`.
    texts : sequence of tuples of int
        What is gone along. A round is where the one before it would have ended, had the target said what
        the text says: after the drafts that agree with it, and one token more. So models have as much to
        read as in a decode, and the contexts grow as they do there.
    start : int
        How many tokens of each text are its prompt, 2 or more.

    Returns
    -------
    Costs
        Of each place the median over the repeats is taken, and the mean of these over places. The loop is
        timed on the drafts and rows that were met, handed out again without the models.

    Raises
    ------
    ValueError
        As of `race`; for texts that are no longer than their prompt.
    """
    check_texts(target, texts, start)
    found = Survey()
    for _ in range(count("repeats", repeats)):
        found.add(target, contender, texts, start=start, seed=seed, clock=clock)
    return found.costs()


def check_texts(target: Oracle, texts: Sequence[Context], start: int) -> None:
    """Raise for texts that nothing can be timed along."""
    shortest = min(map(len, texts), default=0)
    if shortest <= start:
        raise ValueError(f"texts of {shortest} tokens with start={start}: give texts that are longer")
    check_prompts(target, [text[:start] for text in texts], max(map(len, texts)) - start)


class Survey:
    """Times of all parts, by the place they were taken at."""

    def __init__(self) -> None:
        self._plain: Times = defaultdict(list)
        self._drafting: Times = defaultdict(list)
        self._scoring: Times = defaultdict(list)
        self._loops: list[tuple[float, float]] = []

    def add(
        self,
        target: Oracle,
        contender: Contender,
        texts: Sequence[Context],
        *,
        start: int,
        seed: int,
        clock: Clock,
    ) -> None:
        """Go along all texts once."""
        visits: list[Visit] = []
        rows: list[Row] = []
        for number, text in enumerate(texts):
            for at, seconds, row in _singles(target, contender, text, start, clock):
                self._plain[number, at].append(seconds)
                rows.append(row)
            for one in _walk(contender, text, start, seed, clock):
                self._drafting[number, one.at].append(one.drafting)
                self._scoring[number, one.at, 1 + len(one.draft)].append(one.scoring)
                visits.append(one)
        begin = texts[0][:start]
        self._loops.append((_plain_loop(rows, begin, clock), _loop(contender, visits, begin, clock)))

    def costs(self) -> Costs:
        """The medians over times, and their means over places."""
        plain_loop, loop = np.median(self._loops, axis=0).tolist()
        by_size: dict[int, Times] = defaultdict(dict)
        for (*place, size), repeated in self._scoring.items():
            by_size[size][tuple(place)] = repeated
        return Costs(
            plain=_mean_of_medians(self._plain) + plain_loop,
            passes={size: _mean_of_medians(times) for size, times in sorted(by_size.items())},
            drafting=_mean_of_medians(self._drafting),
            loop=loop,
        )


class Visit(NamedTuple):
    """A round at a place of a text, as far as it does not depend on verification."""

    at: int
    draft: Draft | DraftTree
    rows: list[Row]
    drafting: float
    scoring: float


def _walk(contender: Contender, text: Context, start: int, seed: int, clock: Clock) -> Iterator[Visit]:
    """Yield the rounds along a text."""
    target, drafter = begun(contender, text[:start])
    propose = drafter.propose if isinstance(drafter, Drafter) else drafter
    chance, at = Sampler(np.random.default_rng(seed)), start
    while at < len(text):
        context, most = text[:at], min(contender.num_draft_tokens, len(text) - at - 1)
        before = clock()
        draft = propose(chance, context, most) if most else NO_DRAFT
        between = clock()
        parents = range(len(draft)) if isinstance(draft, Draft) else draft.parents
        rows = target.rows_after(context, draft.tokens, parents)
        yield Visit(at, draft, rows, between - before, clock() - between)
        node = 0
        while at < len(text) and (child := draft.child(node, text[at])) is not None:
            node, at = child, at + 1
        at += 1


def _singles(
    target: Oracle, contender: Contender, text: Context, start: int, clock: Clock
) -> Iterator[tuple[int, float, Row]]:
    """Yield the places of a text, with the time of a pass over one row there, and the row."""
    begun(contender, text[:start])
    target.row(text[: start - 1])  # it may have a cache of its own
    for at in range(start, len(text)):
        context = text[:at]
        before = clock()
        row = target.row(context)
        yield at, clock() - before, row


def _loop(contender: Contender, visits: list[Visit], context: Context, clock: Clock) -> float:
    """Return the time a round takes beside drafting and scoring, from rounds handed out again."""
    handed = cycle(visits)
    now = [visits[0]]

    def propose(*_: Any) -> Draft | DraftTree:
        now[0] = next(handed)
        return now[0].draft

    vocab_size = len(visits[0].rows[0])
    target = Oracle(lambda _: now[0].rows[0], vocab_size, lambda *_: now[0].rows)
    rounds = sample(
        stream,
        target,
        Drafter(propose, vocab_size),
        context,
        max_new_tokens=UNLIMITED,
        num_draft_tokens=contender.num_draft_tokens,
        verify=contender.verify,
        rng=0,
    )
    start = clock()
    deque(islice(rounds, len(visits)), maxlen=0)
    return (clock() - start) / len(visits)


def _plain_loop(rows: list[Row], context: Context, clock: Clock) -> float:
    """Return the time a token takes beside the pass, from rows handed out again."""
    handed = cycle(rows)
    target = Oracle(lambda _: next(handed), len(rows[0]))
    start = clock()
    sample(autoregress, target, context, max_new_tokens=len(rows), rng=0)
    return (clock() - start) / len(rows)


def _mean_of_medians(seconds: Times) -> float:
    return float(np.mean([np.median(each) for each in seconds.values()]))
