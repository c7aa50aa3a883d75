"""Several texts decoded side by side: drafted together, scored in one stacked pass, each verified on its own.

A text keeps what it got: it has its own chance, its own drafts, its own length, and waits for no other. Where
one ends, the next one in the queue takes its place. Each text is the one that it would be alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from speculative._checks import check_draft, check_parts, check_stop_tokens
from speculative._numbers import count
from speculative.chance import Chance
from speculative.decode import (
    Generation,
    Round,
    Verify,
    _check_prompt,
    _cut,
    _needed,
    _room,
    _round,
    _stop_reason,
)
from speculative.distribution import Context
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter, DraftTree
from speculative.oracle import Oracle
from speculative.verify.token import token
from speculative.verify.verdict import Carried

__all__ = ["Batch", "BatchDrafter", "Wanted", "chains", "each", "generate_batch"]

Question: TypeAlias = tuple[Context, Context, Context]
"""A context, the tokens of a tree behind it, and their parents, as `Oracle.score_tree` takes them."""


def _nothing(questions: Mapping[int, Question]) -> None:
    """Compute nothing ahead."""


@dataclass(frozen=True)
class Batch:
    """Oracles for several texts, a lane each, that can be computed together.

    Parameters
    ----------
    oracles : tuple of Oracle
        The oracle of lane i answers about the text in lane i. Any oracle will do, in any number of lanes:
        ``Batch((oracle,) * 8)``.
    ahead : callable, optional
        `ahead(questions)` computes what lanes are about to be asked, in one pass: a mapping from lanes to
        questions ``(context, tokens, parents)``. It changes how soon the oracles answer, and no answer.

    Raises
    ------
    ValueError
        For no lane, and for lanes of other vocabularies or limits.
    """

    oracles: tuple[Oracle, ...]
    ahead: Callable[[Mapping[int, Question]], None] = field(default=_nothing, repr=False)

    def __post_init__(self) -> None:
        if not self.oracles:
            raise ValueError("a batch with no lane: give an oracle a lane, Batch((oracle,) * 8)")
        first = self.oracles[0]
        for lane, oracle in enumerate(self.oracles):
            if (oracle.vocab_size, oracle.context_limit) != (first.vocab_size, first.context_limit):
                raise ValueError(f"lane {lane} has {oracle} and lane 0 {first}: give lanes of one model")


class Wanted(NamedTuple):
    """What a text wants drafted: by which chance, behind which context, how many tokens at most."""

    chance: Chance
    context: Context
    num_draft_tokens: int


Drafts: TypeAlias = Mapping[int, Draft | DraftTree]


@dataclass(frozen=True)
class BatchDrafter:
    """A program that drafts for several texts, with its vocabulary; made by `each` and `chains`.

    Parameters
    ----------
    propose : callable
        `propose(wanted) -> drafts`: mappings from lanes to `Wanted` and from the same lanes to drafts.
    vocab_size : int
        V.
    vocabulary : tuple of str, optional
        What each token stands for.
    """

    propose: Callable[[Mapping[int, Wanted]], Drafts] = field(repr=False)
    vocab_size: int
    vocabulary: tuple[str, ...] | None = field(default=None, repr=False)

    def __call__(self, wanted: Mapping[int, Wanted]) -> Drafts:
        """Propose for each lane at most what it wants."""
        return self.propose(wanted)


def each(*drafters: Drafter) -> BatchDrafter:
    """Draft for each text on its own, one after the other.

    Parameters
    ----------
    *drafters : Drafter
        Lane i has drafter i, counted round: one alone drafts for all. Those that remember their text, such
        as `draft.lookup`, are faster with a drafter a lane.

    Returns
    -------
    BatchDrafter

    Raises
    ------
    ValueError
        For no drafter.
    """
    if not drafters:
        raise ValueError("each() of no drafter: give one for all lanes, or one a lane")
    first = drafters[0]
    return BatchDrafter(partial(_each, drafters), first.vocab_size, first.vocabulary)


def _each(drafters: Sequence[Drafter], wanted: Mapping[int, Wanted]) -> Drafts:
    return {lane: drafters[lane % len(drafters)].propose(*want) for lane, want in wanted.items()}


def chains(draft: Batch) -> BatchDrafter:
    """Draft chains from a model: the next token of every text in one stacked pass, then the one after it.

    Parameters
    ----------
    draft : Batch
        The draft model, with a lane for each of the target's.

    Returns
    -------
    BatchDrafter

    Notes
    -----
    **Law.** That of `draft.model` for each text; a text's own chance is asked what it would be asked alone.
    """
    first = draft.oracles[0]
    return BatchDrafter(partial(_chains, draft), first.vocab_size, first.vocabulary)


def _chains(draft: Batch, wanted: Mapping[int, Wanted]) -> Drafts:
    if (last := max(wanted)) >= len(draft.oracles):
        raise ValueError(f"the draft has {len(draft.oracles)} lanes, and lane {last} is asked: give more")
    drafts = dict.fromkeys(wanted, NO_DRAFT)
    for length in range(max(want.num_draft_tokens for want in wanted.values())):
        contexts = {
            lane: want.context + drafts[lane].tokens
            for lane, want in wanted.items()
            if length < want.num_draft_tokens and length <= _room(draft.oracles[lane], want.context)
        }
        draft.ahead({lane: (context, (), ()) for lane, context in contexts.items()})
        for lane, context in contexts.items():
            row, before = draft.oracles[lane].row(context), drafts[lane]
            drawn = wanted[lane].chance.pick(row)
            drafts[lane] = Draft((*before.tokens, drawn), (*before.probs, row))
    return drafts


def generate_batch(
    chances: Sequence[Chance],
    target: Batch,
    drafter: BatchDrafter,
    contexts: Sequence[Context],
    *,
    max_new_tokens: int,
    num_draft_tokens: int = 4,
    verify: Verify = token,
    stop_tokens: Collection[int] = (),
) -> list[Generation]:
    """Generate several texts side by side.

    Parameters
    ----------
    chances : sequence of Chance
        One a text: ``[Sampler(np.random.default_rng(seed)) for seed in seeds]``, with `chance.Sampler`.
    target : Batch
        As many texts are on their way at once as it has lanes; those behind wait for a free one.
    drafter : BatchDrafter
        Made by `each` or `chains`; not asked for texts that want 0 draft tokens.
    contexts : sequence of tuples of int
        The prompts.
    max_new_tokens, num_draft_tokens, verify, stop_tokens
        As of `generate`, the same for all texts.

    Returns
    -------
    list of Generation
        In the order of the prompts.

    Raises
    ------
    ValueError
        As of `generate`, and for another number of chances than of prompts.

    Notes
    -----
    **Law.** Each text has the law of `generate(target, drafter, context, ...)`, and is independent of the
    others where its chance is. More than that: it is the same text, asked for from the same chance; but where
    the rows of a stacked pass are rounded otherwise than those of a pass alone, only up to that.
    """
    if len(chances) != len(contexts):
        raise ValueError(f"{len(chances)} chances for {len(contexts)} prompts: give each text its own")
    for oracle in target.oracles:
        check_parts(oracle, drafter, verify)
    vocab_size = target.oracles[0].vocab_size
    num_draft_tokens = count("num_draft_tokens", num_draft_tokens, 0)
    max_new_tokens = count("max_new_tokens", max_new_tokens, 0)
    stop_tokens = check_stop_tokens(stop_tokens, vocab_size)
    texts = [
        _Text(chance, _check_prompt(target.oracles[0], context), max_new_tokens)
        for chance, context in zip(chances, contexts, strict=True)
    ]
    waiting = iter(texts)
    lanes = [next(waiting, None) for _ in target.oracles]
    while wanted := _seated(target, lanes, waiting, num_draft_tokens):
        asking = {lane: want for lane, (_, want) in wanted.items() if want.num_draft_tokens}
        proposed = drafter.propose(asking) if asking else {}
        drafts: dict[int, Any] = {lane: proposed.get(lane) if lane in asking else NO_DRAFT for lane in wanted}
        target.ahead({lane: _question(drafts[lane], want, vocab_size) for lane, (_, want) in wanted.items()})
        for lane, (text, want) in wanted.items():
            text.take(_verified(target.oracles[lane], drafts[lane], want, verify, text.carried), stop_tokens)
    return [text.generation(max_new_tokens, stop_tokens) for text in texts]


@dataclass
class _Text:
    """A text on its way."""

    chance: Chance
    context: Context
    left: int
    rounds: list[Round] = field(default_factory=list)
    carried: tuple[Carried, ...] = ()

    def wants(self, target: Oracle, num_draft_tokens: int) -> Wanted | None:
        """What is to be drafted for the next round; None where the text has ended."""
        room, needed = _room(target, self.context), _needed(self.carried, self.left)
        if not self.left or room < needed:
            return None
        return Wanted(self.chance, self.context, max(needed, min(num_draft_tokens, self.left - 1, room)))

    def take(self, one: Round, stop_tokens: frozenset[int]) -> None:
        """Go on by a round."""
        one = _cut(one, self.left, stop_tokens)
        self.rounds.append(one)
        self.context, self.carried = self.context + one.tokens, one.carried
        self.left = 0 if one.tokens[-1] in stop_tokens else self.left - len(one.tokens)

    def generation(self, max_new_tokens: int, stop_tokens: frozenset[int]) -> Generation:
        """The text as `generate` returns it."""
        tokens = tuple(emitted for one in self.rounds for emitted in one.tokens)
        return Generation(tokens, tuple(self.rounds), _stop_reason(tokens, max_new_tokens, stop_tokens))


def _seated(
    target: Batch, lanes: list[_Text | None], waiting: Iterator[_Text], num_draft_tokens: int
) -> dict[int, tuple[_Text, Wanted]]:
    """The text in each lane and what it wants; those that have ended make room for those that wait."""
    found = {}
    for lane, oracle in enumerate(target.oracles):
        while (text := lanes[lane]) is not None:
            if (want := text.wants(oracle, num_draft_tokens)) is not None:
                found[lane] = text, want
                break
            lanes[lane] = next(waiting, None)
    return found


def _question(draft: Any, want: Wanted, vocab_size: int) -> Question:
    """What the target will be asked about a draft, or raise where it is none."""
    check_draft(draft, want.num_draft_tokens, vocab_size, want.context)
    parents = tuple(range(len(draft))) if isinstance(draft, Draft) else draft.parents
    return want.context, draft.tokens, parents


def _verified(
    target: Oracle, draft: Draft | DraftTree, want: Wanted, verify: Verify, carried: tuple[Carried, ...]
) -> Round:
    """Run a round whose draft is made."""
    return _round(
        want.chance,
        target,
        lambda *_: draft,
        want.context,
        num_draft_tokens=want.num_draft_tokens,
        verify=verify,
        carried=carried,
    )
