"""The parts of a round, each on a clock of its own: the target's pass, the drafter's call, the loop."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np

from speculative._numbers import count
from speculative.bench.contender import Clock, Contender, as_prompts, begun
from speculative.chance import Sampler, sample
from speculative.decode import autoregress, stream
from speculative.distribution import Context, Row
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter, DraftTree
from speculative.oracle import Oracle
from speculative.oracle.interface import as_tokens
from speculative.rounds import UNLIMITED


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
        """Seconds of the target's pass and the loop, the mean over rounds of so many drafts each.

        Raises
        ------
        ValueError
            For a number of rows that no pass was timed over.
        """
        rows = Counter(1 + drafts for drafts in drafted)
        if missing := sorted(rows.keys() - self.passes.keys()):
            raise ValueError(
                f"no pass over {missing[0]} rows was timed, only over {', '.join(map(str, self.passes))}: "
                f"give costs rows={missing}"
            )
        return sum(self.passes[size] * times for size, times in rows.items()) / len(drafted) + self.loop


def costs(
    target: Oracle,
    contender: Contender,
    texts: Sequence[Context],
    *,
    start: int,
    rows: Collection[int] = (),
    seed: int = 0,
    clock: Clock = time.perf_counter,
) -> Costs:
    """Time the parts of a round, and a plain token, along texts.

    Parameters
    ----------
    target, contender, seed, clock
        As for `race`.
    texts : sequence of tuples of int
        What is gone along, each once: a drafter that keeps the rows it has made would find them all there the
        next time. A round is where the one before it would have ended, had the target said what the text
        says: after the drafts that agree with it, and one token more. So models have as much to read as in a
        decode, and the contexts grow as they do there.
    start : int
        How many tokens of each text are its prompt, 2 or more.
    rows : collection of int
        Passes over so many rows are timed too, where no round had them: over what the text says.

    Returns
    -------
    Costs
        Of each text the mean over its places is taken, and the median of these over texts. The loop is timed
        on the drafts and rows that were met, handed out again without the models.

    Raises
    ------
    ValueError
        As of `race`; for texts that are no longer than their prompt, or too short for so many rows.
    """
    texts = as_texts(target, texts, start)
    found = Survey()
    for number, text in enumerate(texts):
        found.add(target, contender, text, start=start, seed=(seed, number), clock=clock)
    found.add_rows(contender, texts, rows, start=start, clock=clock)
    return found.costs()


def as_texts(target: Oracle, texts: Iterable[Sequence[int]], start: int) -> list[Context]:
    """Return texts as tuples of ints, or raise for those that nothing can be timed along."""
    found = [as_tokens(text, target.vocab_size, "text") for text in texts]
    shortest = min(map(len, found), default=0)
    if shortest <= count("start", start):
        raise ValueError(f"texts of {shortest} tokens with start={start}: give texts that are longer")
    as_prompts(target, [text[:start] for text in found], max(map(len, found)) - start)
    return found


class Survey:
    """Times of all parts, of each text the mean."""

    def __init__(self) -> None:
        self._plain: list[float] = []
        self._drafting: list[float] = []
        self._loop: list[float] = []
        self._passes: dict[int, list[float]] = defaultdict(list)

    def add(
        self,
        target: Oracle,
        contender: Contender,
        text: Context,
        *,
        start: int,
        seed: tuple[int, ...],
        clock: Clock,
    ) -> None:
        """Go along a text once."""
        seconds, rows = zip(*_singles(target, contender, text, start, clock), strict=True)
        visits = list(_walk(contender, text, start, seed, clock))
        by_size: dict[int, list[float]] = defaultdict(list)
        for one in visits:
            by_size[1 + len(one.draft)].append(one.scoring)
        for size, scoring in by_size.items():
            self._passes[size].append(_mean(scoring))
        self._plain.append(_mean(seconds) + _plain_loop(rows, text[:start], clock))
        self._drafting.append(_mean([one.drafting for one in visits]))
        self._loop.append(_loop(contender, visits, text[:start], clock))

    def add_rows(
        self,
        contender: Contender,
        texts: Sequence[Context],
        rows: Collection[int],
        *,
        start: int,
        clock: Clock,
    ) -> None:
        """Time passes over numbers of rows that were not met, along all texts."""
        for size in sorted({count("rows", size) for size in rows} - self._passes.keys()):
            self._passes[size] = [_mean(_chains(contender, text, start, size, clock)) for text in texts]

    def costs(self) -> Costs:
        """The medians over texts."""
        passes = {size: _median(times) for size, times in sorted(self._passes.items())}
        return Costs(_median(self._plain), passes, _median(self._drafting), _median(self._loop))


class Visit(NamedTuple):
    """A round at a place of a text, as far as it does not depend on verification."""

    most: int
    """Drafts that were asked for: fewer at the end of the text."""
    draft: Draft | DraftTree
    rows: list[Row]
    drafting: float
    scoring: float


def _walk(
    contender: Contender, text: Context, start: int, seed: tuple[int, ...], clock: Clock
) -> Iterator[Visit]:
    """Yield the rounds along a text."""
    target, drafter = begun(contender, text[:start])
    propose = drafter.propose if isinstance(drafter, Drafter) else drafter
    chance, at = Sampler(np.random.default_rng(seed)), start
    while at < len(text):
        context, most = text[:at], min(contender.num_draft_tokens, len(text) - at - 1)
        before = clock()
        draft = propose(chance, context, most) if most else NO_DRAFT
        between = clock()
        rows = target.rows_after(context, draft.tokens, draft.parents)
        yield Visit(most, draft, rows, between - before, clock() - between)
        node = 0
        while at < len(text) and (child := draft.child(node, text[at])) is not None:
            node, at = child, at + 1
        at += 1


def _chains(contender: Contender, text: Context, start: int, rows: int, clock: Clock) -> Iterator[float]:
    """Yield the times of passes over so many rows along a text: one token that is new, and drafts.

    The text's last token is not read, as in a decode, for which there may be no room.
    """
    first, last = min(start, len(text) - rows), len(text) - rows
    if first < 2:
        raise ValueError(f"a pass over {rows} rows along a text of {len(text)} tokens: give longer texts")
    target, _ = begun(contender, text[:first])
    for at in range(first, last + 1, rows):
        context, drafts = text[:at], text[at : at + rows - 1]
        before = clock()
        target.rows_after(context, drafts, range(len(drafts)))
        yield clock() - before


def _singles(
    target: Oracle, contender: Contender, text: Context, start: int, clock: Clock
) -> Iterator[tuple[float, Row]]:
    """Yield the time of a pass over one row at each place of a text, and the row."""
    begun(contender, text[:start], target)
    for at in range(start, len(text)):
        context = text[:at]
        before = clock()
        row = target.row(context)
        yield clock() - before, row


def _loop(contender: Contender, visits: list[Visit], context: Context, clock: Clock) -> float:
    """Return the time a round takes beside drafting and scoring, from rounds handed out again.

    From whole ones where there are any: a verifier that carries changes wants drafts as long as it asked for.
    """
    visits = [one for one in visits if one.most == contender.num_draft_tokens] or visits
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


def _plain_loop(rows: Sequence[Row], context: Context, clock: Clock) -> float:
    """Return the time a token takes beside the pass, from rows handed out again."""
    handed = cycle(rows)
    target = Oracle(lambda _: next(handed), len(rows[0]))
    start = clock()
    sample(autoregress, target, context, max_new_tokens=len(rows), rng=0)
    return (clock() - start) / len(rows)


def _mean(seconds: Iterable[float]) -> float:
    return float(np.mean([*seconds]))


def _median(seconds: Sequence[float]) -> float:
    return float(np.median(seconds))
