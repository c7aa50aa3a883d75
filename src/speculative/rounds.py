"""Rounds: what a target pass brought, how a draft becomes one, and when a text of them ends.

Decoding one text (`speculative.decode`) and several (`speculative.batch`) are made of this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from speculative._checks import as_verdict, check_stop_tokens, check_target
from speculative._numbers import count
from speculative.chance import Chance, Number
from speculative.distribution import Context
from speculative.draft.proposal import Draft, DraftTree
from speculative.oracle import Oracle
from speculative.oracle.interface import as_tokens
from speculative.verify.verdict import Carried, Verdict

__all__ = ["Generation", "Round", "Text", "Verify", "begin", "room", "verified"]

Verify = Callable[..., Verdict | Sequence[int]]

UNLIMITED = 1 << 62


class Round(NamedTuple):
    """What one target pass brought.

    Parameters
    ----------
    tokens : tuple of int
        The tokens kept: accepted drafts and one more, or less where a stop token cut the block.
    drafted : int
        Drafts that were verified for keeping: all proposed ones, every node of a tree; but of a block that
        was cut, at a stop token or where there were enough tokens, those that were kept.
    accepted : int
        How many of `tokens` are drafts; they come first.
    last : {"residual", "bonus", "draft"}
        What the last token is: drawn where drafts were rejected, drawn where none was left to judge, or a
        draft (a stop token).
    target_probs : tuple
        The target's probability of each token at its place.
    carried : tuple of Carried
        What the verifier hands to the next round.
    """

    tokens: tuple[int, ...]
    drafted: int
    accepted: int
    last: str
    target_probs: tuple[Number, ...]
    carried: tuple[Carried, ...] = ()

    @property
    def log_probs(self) -> tuple[float, ...]:
        """Natural logarithms of the target's probabilities; -inf for a token the target rules out."""
        return tuple(math.log(probability) if probability else -math.inf for probability in self.target_probs)


class Generation(NamedTuple):
    """What was generated: the new tokens, the rounds they came in, and why it ended.

    `stop_reason` is "stop_token", "max_new_tokens" or "context_limit".
    """

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...]
    stop_reason: str

    @property
    def log_probs(self) -> tuple[float, ...]:
        """Natural logarithms of the target's probability of each token."""
        return tuple(value for one in self.rounds for value in one.log_probs)


def verified(
    chance: Chance,
    target: Oracle,
    draft: Draft | DraftTree,
    context: Context,
    *,
    verify: Verify,
    carried: tuple[Carried, ...] = (),
) -> Round:
    """Score a draft in one pass of the target and verify it.

    Parameters
    ----------
    chance : Chance
        Asked by the verifier.
    target : Oracle
    draft : Draft or DraftTree
        Checked, by `check_draft`. What the verifier makes of it is checked here.
    context : tuple of int
        Checked, by the target.
    verify, carried
        As of `decode.speculate`.

    Returns
    -------
    Round

    Raises
    ------
    ValueError
        For a verifier that returns what cannot come of the draft.

    Notes
    -----
    **Law.** That of `decode.speculate` given the draft.
    """
    target_probs = target.rows_after(context, draft.tokens, draft.parents)  # [n+1, V], in one pass
    returned = verify(chance, draft, target_probs, **({"carried": carried} if carried else {}))
    (tokens, accepted, carried), nodes = as_verdict(returned, draft, target.vocab_size)
    rows = [target_probs[node] for node in nodes]
    rows += [target(context + tokens[:i]) for i in range(len(nodes), len(tokens))]  # off the draft
    return Round(
        tokens,
        len(draft),
        accepted,
        "bonus" if draft.siblings(nodes[-1]) is None else "residual",
        tuple([row[emitted] for row, emitted in zip(rows, tokens, strict=True)]),
        carried,
    )


def begin(
    target: Oracle, context: Context, *, max_new_tokens: int, stop_tokens: Collection[int] = ()
) -> Text:
    """Return the text that a prompt begins.

    Parameters
    ----------
    target : Oracle
    context : sequence of int
        The prompt.
    max_new_tokens, stop_tokens
        As of `decode.generate`.

    Returns
    -------
    Text

    Raises
    ------
    ValueError
        For anything but an oracle, for a prompt that is none or longer than the target's limit, a negative
        number, and stop tokens that are no tokens.
    """
    check_target(target)
    context = as_tokens(context, target.vocab_size)
    if room(target, context) < 0:
        raise ValueError(
            f"a prompt of {len(context)} tokens: the target's limit is {target.context_limit}; shorten it"
        )
    left, stop = count("max_new_tokens", max_new_tokens, 0), check_stop_tokens(stop_tokens, target.vocab_size)
    return Text(context, left, stop)


@dataclass(slots=True)
class Text:
    """A text on its way, made by `begin`: what there is, what is carried, and how much is to come.

    Parameters
    ----------
    context : tuple of int
        The prompt, and all tokens since.
    left : int
        How many tokens are to come at most.
    stop_tokens : frozenset of int
        The first of them ends the text.
    carried : tuple of Carried
        The last round's.
    rounds : list of Round
        Those that were taken.
    """

    context: Context
    left: int
    stop_tokens: frozenset[int]
    carried: tuple[Carried, ...] = ()
    rounds: list[Round] = field(default_factory=list)

    def wants(self, target: Oracle, num_draft_tokens: int) -> int | None:
        """How many tokens are to be drafted for the next round; None where the text has ended.

        No more than `num_draft_tokens` and than can be kept, but as many as carried changes of the target
        hold for: the draft's laws are needed there.
        """
        fitting = room(target, self.context)
        needed = min(self.left, max([change.positions for change in self.carried], default=0))
        if not self.left or fitting < needed:
            return None
        return max(needed, min(num_draft_tokens, self.left - 1, fitting))

    def take(self, one: Round) -> Round:
        """Go on by a round, and return what is kept of it: up to a stop token, or where enough came."""
        one = _cut(one, self.left, self.stop_tokens)
        self.rounds.append(one)
        self.context, self.carried = self.context + one.tokens, one.carried
        self.left = 0 if one.tokens[-1] in self.stop_tokens else self.left - len(one.tokens)
        return one

    def generation(self) -> Generation:
        """The text so far, as `decode.generate` returns it when it has ended."""
        tokens = tuple([emitted for one in self.rounds for emitted in one.tokens])
        if tokens and tokens[-1] in self.stop_tokens:
            return Generation(tokens, tuple(self.rounds), "stop_token")
        return Generation(tokens, tuple(self.rounds), "context_limit" if self.left else "max_new_tokens")


def _cut(one: Round, left: int, stop_tokens: Collection[int]) -> Round:
    """End a round at its first stop token, or where enough came; drafts behind count as never verified."""
    if stop_tokens:
        left = next((i for i, emitted in enumerate(one.tokens[:left], 1) if emitted in stop_tokens), left)
    if left > one.accepted:
        return one
    return Round(one.tokens[:left], left, left, "draft", one.target_probs[:left])


def room(target: Oracle, context: Context) -> int:
    """How many drafts the context limit leaves room for; negative where not even one token fits."""
    return UNLIMITED if target.context_limit is None else target.context_limit - len(context)
