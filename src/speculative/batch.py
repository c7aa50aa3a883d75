"""Several texts decoded side by side: drafted together, scored in one stacked pass, each verified on its own.

A text keeps what it got: it has its own chance, its own drafts, its own length, and waits for no other. Where
one ends, the next one in the queue takes its place. Each text is the one that it would be alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from speculative._checks import check_draft, check_parts, check_stop_tokens, check_texts, kind_of
from speculative._numbers import count
from speculative.chance import Chance
from speculative.decode import Generation, Verify
from speculative.distribution import Context
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter, DraftTree
from speculative.oracle import Oracle
from speculative.rounds import Text, begin, room, verified
from speculative.verify.token import token

__all__ = ["Batch", "BatchDrafter", "Wanted", "chains", "each", "generate_batch"]

Question: TypeAlias = tuple[Context, Context, Context]
"""A context, the tokens of a tree behind it, and their parents, as `Oracle.score_tree` takes them."""


def _nothing(questions: Mapping[int, Question]) -> None:
    """Compute nothing ahead."""


@dataclass(frozen=True)
class Batch:
    """Oracles for several texts, a slot each, that can be computed together.

    Parameters
    ----------
    oracles : tuple of Oracle
        The oracle of slot i answers about the text in slot i. Any oracle will do, in any number of slots:
        ``Batch((oracle,) * 8)``.
    ahead : callable, optional
        `ahead(questions)` computes what slots are about to be asked, in one pass: a mapping from slots to
        questions ``(context, tokens, parents)``. It changes how soon the oracles answer, and no answer.

    Raises
    ------
    ValueError
        For anything but a tuple of oracles, for none, and for oracles of other vocabularies or limits.
    """

    oracles: tuple[Oracle, ...]
    ahead: Callable[[Mapping[int, Question]], None] = field(default=_nothing, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.oracles, tuple):
            raise ValueError(f"Batch of {kind_of(self.oracles)}: give a tuple, Batch((oracle,) * 8)")
        if not self.oracles:
            raise ValueError("Batch of no oracle: give a tuple with one a slot, Batch((oracle,) * 8)")
        first = self.oracles[0]
        for slot, oracle in enumerate(self.oracles):
            if not isinstance(oracle, Oracle):
                raise ValueError(f"slot {slot} has {kind_of(oracle)}: give oracles, Batch((oracle,) * 8)")
            if (oracle.vocab_size, oracle.context_limit) != (first.vocab_size, first.context_limit):
                raise ValueError(f"slot {slot} has {oracle} and slot 0 {first}: give oracles of one model")


class Wanted(NamedTuple):
    """What a text wants drafted: by which chance, behind which context, how many tokens at most.

    `kept` is what the drafter keeps of this text from one round to the next, under keys of its own: empty at
    the text's beginning, and gone with it.
    """

    chance: Chance
    context: Context
    num_draft_tokens: int
    kept: dict[Any, Any]


Drafts: TypeAlias = Mapping[int, Draft | DraftTree]


@dataclass(frozen=True)
class BatchDrafter:
    """A program that drafts for several texts, with its vocabulary; made by `each` and `chains`.

    Parameters
    ----------
    propose : callable
        `propose(wanted) -> drafts`: mappings from slots to `Wanted` and from the same slots to drafts.
    vocab_size : int
        V.
    vocabulary : tuple of str, optional
        What each token stands for.
    """

    propose: Callable[[Mapping[int, Wanted]], Drafts] = field(repr=False)
    vocab_size: int
    vocabulary: tuple[str, ...] | None = field(default=None, repr=False)

    def __call__(self, wanted: Mapping[int, Wanted]) -> Drafts:
        """Propose for each slot at most what it wants."""
        return self.propose(wanted)


def each(make: Callable[[int], Drafter]) -> BatchDrafter:
    """Draft for each text on its own, one after the other, with a drafter of its own.

    Parameters
    ----------
    make : callable
        `make(slot)` returns a new drafter: ``lambda slot: draft.lookup(vocab_size)``, or ``lambda slot:
        draft.lookahead(target.oracles[slot])``. Called for each text when it is first drafted for, since a
        drafter may remember its text; and twice for slot 0 at once.

    Returns
    -------
    BatchDrafter

    Raises
    ------
    ValueError
        For anything but a function that returns another drafter at each call.

    Notes
    -----
    **Law.** That of the drafter for each text, alone.
    """
    if isinstance(make, Drafter) or not callable(make):
        raise ValueError(
            f"each of {kind_of(make)}: give a function that makes a drafter for each text, "
            "each(lambda slot: draft.model(oracle))"
        )
    first = _made(make, 0)
    if _made(make, 0) is first:
        raise ValueError(
            "each of a function that returned the same drafter twice: make a new one at each call, "
            "each(lambda slot: draft.model(oracle))"
        )
    return BatchDrafter(partial(_each, make), first.vocab_size, first.vocabulary)


def _made(make: Callable[[int], Drafter], slot: int) -> Drafter:
    drafter = make(slot)
    if not isinstance(drafter, Drafter):
        raise ValueError(
            f"each of a function that returned {kind_of(drafter)}: let it return a drafter, "
            "each(lambda slot: draft.model(oracle))"
        )
    return drafter


def _each(make: Callable[[int], Drafter], wanted: Mapping[int, Wanted]) -> Drafts:
    drafts = {}
    for slot, want in wanted.items():
        if make not in want.kept:
            want.kept[make] = _made(make, slot)
        drafts[slot] = want.kept[make].propose(want.chance, want.context, want.num_draft_tokens)
    return drafts


def chains(draft: Batch) -> BatchDrafter:
    """Draft chains from a model: the next token of every text in one stacked pass, then the one after it.

    Parameters
    ----------
    draft : Batch
        The draft model, with a slot for each of the target's.

    Returns
    -------
    BatchDrafter

    Raises
    ------
    ValueError
        For anything but a batch; at a call, for a slot that it has not.

    Notes
    -----
    **Law.** That of `draft.model` for each text; a text's own chance is asked what it would be asked alone.
    """
    if not isinstance(draft, Batch):
        raise ValueError(f"chains of {kind_of(draft)}: give a batch, chains(Batch((oracle,) * 8))")
    first = draft.oracles[0]
    return BatchDrafter(partial(_chains, draft), first.vocab_size, first.vocabulary)


def _chains(draft: Batch, wanted: Mapping[int, Wanted]) -> Drafts:
    if (last := max(wanted, default=0)) >= len(draft.oracles):
        raise ValueError(f"the draft has {len(draft.oracles)} slots, and slot {last} is asked: give more")
    drafts = dict.fromkeys(wanted, NO_DRAFT)
    for length in range(max((want.num_draft_tokens for want in wanted.values()), default=0)):
        contexts = {
            slot: want.context + drafts[slot].tokens
            for slot, want in wanted.items()
            if length < want.num_draft_tokens and length <= room(draft.oracles[slot], want.context)
        }
        draft.ahead({slot: (context, (), ()) for slot, context in contexts.items()})
        for slot, context in contexts.items():
            row, before = draft.oracles[slot].row(context), drafts[slot]
            drawn = wanted[slot].chance.pick(row)
            drafts[slot] = Draft((*before.tokens, drawn), (*before.probs, row))
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
        As many texts are on their way at once as it has slots; those behind wait for a free one.
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
        As of `generate`; for parts that are made for a single text; for another number of chances than of
        prompts; and for a drafter that drafts for slots it was not asked for.

    Notes
    -----
    **Law.** Each text has the law of `generate(target, drafter, context, ...)`, and is independent of the
    others where its chance is. More than that: it is the same text, asked for from the same chance; but where
    the rows of a stacked pass are rounded otherwise than those of a pass alone, only up to that.
    """
    _check_kinds(target, drafter)
    check_texts(chances, contexts)
    for oracle in target.oracles:
        check_parts(oracle, drafter, verify)
    num_draft_tokens, vocab_size = count("num_draft_tokens", num_draft_tokens, 0), drafter.vocab_size
    stop_tokens = check_stop_tokens(stop_tokens, vocab_size)
    texts = [
        _Text(
            chance, begin(target.oracles[0], context, max_new_tokens=max_new_tokens, stop_tokens=stop_tokens)
        )
        for chance, context in zip(chances, contexts, strict=True)
    ]
    waiting = iter(texts)
    slots = [next(waiting, None) for _ in target.oracles]
    while seated := _seated(target, slots, waiting, num_draft_tokens):
        drafts = _drafts(drafter, {slot: want for slot, (_, want) in seated.items()}, vocab_size)
        target.ahead(
            {
                slot: (want.context, drafts[slot].tokens, drafts[slot].parents)
                for slot, (_, want) in seated.items()
            }
        )
        for slot, (text, want) in seated.items():
            parts = want.chance, target.oracles[slot], drafts[slot], want.context
            text.take(verified(*parts, verify=verify, carried=text.carried))
    return [one.text.generation() for one in texts]


def _check_kinds(target: Any, drafter: Any) -> None:
    """Raise where a batch is given what is made for a single text."""
    if not isinstance(target, Batch):
        raise ValueError(
            f"the target is {kind_of(target)}: give a batch, Batch((oracle,) * 8), or that of a BatchedLlama"
        )
    if not isinstance(drafter, BatchDrafter):
        raise ValueError(
            f"the drafter is {kind_of(drafter)}: make one for batches, "
            "each(lambda slot: draft.model(oracle)) or chains(Batch((oracle,) * 8))"
        )


@dataclass
class _Text:
    """A text in a slot, or in the queue, and what goes with it."""

    chance: Chance
    text: Text
    kept: dict[Any, Any] = field(default_factory=dict)


def _seated(
    target: Batch, slots: list[_Text | None], waiting: Iterator[_Text], num_draft_tokens: int
) -> dict[int, tuple[Text, Wanted]]:
    """The text in each slot and what it wants; those that have ended make room for those that wait."""
    found = {}
    for slot, oracle in enumerate(target.oracles):
        while (one := slots[slot]) is not None:
            if (drafts := one.text.wants(oracle, num_draft_tokens)) is not None:
                found[slot] = one.text, Wanted(one.chance, one.text.context, drafts, one.kept)
                break
            slots[slot] = next(waiting, None)
    return found


def _drafts(drafter: BatchDrafter, wanted: Mapping[int, Wanted], vocab_size: int) -> Drafts:
    """A checked draft for each slot; the drafter is asked for those that want tokens."""
    asked = {slot: want for slot, want in wanted.items() if want.num_draft_tokens}
    proposed: Any = drafter.propose(asked) if asked else {}
    if not isinstance(proposed, Mapping):
        raise ValueError(f"the drafter returned {kind_of(proposed)}: return a mapping from slots to drafts")
    if proposed.keys() != asked.keys():
        raise ValueError(
            f"the drafter was asked for slots {list(asked)} and drafted for {list(proposed)}: draft for "
            "each, NO_DRAFT where there is nothing to draft"
        )
    for slot, want in asked.items():
        check_draft(proposed[slot], want.num_draft_tokens, vocab_size, want.context)
    return {slot: proposed.get(slot, NO_DRAFT) for slot in wanted}
