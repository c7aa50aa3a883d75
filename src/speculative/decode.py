"""The loop: draft, score, verify, again; and the target alone beside it.

`speculate`, `generate` and `autoregress` are programs: their first argument is a `chance`. So
`sample(generate, target, drafter, prompt, max_new_tokens=20, rng=0)` runs it and `law(generate, ...)` gives
its law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from speculative._checks import as_verdict, check_draft, check_parts, check_stop_tokens
from speculative._numbers import count
from speculative.chance import Chance, Number
from speculative.distribution import Context
from speculative.draft.proposal import NO_DRAFT, Draft
from speculative.oracle import Oracle
from speculative.verify.token import token
from speculative.verify.verdict import Verdict

Propose = Callable[[Any, Context, int], Draft]
Verify = Callable[..., Verdict | Sequence[int]]

_UNLIMITED = 1 << 62


class Round(NamedTuple):
    """What one target pass brought.

    Parameters
    ----------
    tokens : tuple of int
        The tokens kept: accepted drafts and one more, or less where a stop token cut the block.
    drafted : int
        Drafts that were verified for keeping: all proposed ones, but for those behind a stop token.
    accepted : int
        How many of `tokens` are drafts; they come first.
    last : {"residual", "bonus", "draft"}
        What the last token is: drawn after a rejection, drawn after all drafts were accepted, or a draft (a
        stop token).
    target_probs : tuple
        The target's probability of each token at its place.
    """

    tokens: tuple[int, ...]
    drafted: int
    accepted: int
    last: str
    target_probs: tuple[Number, ...]

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


def speculate(
    chance: Chance,
    target: Oracle,
    drafter: Propose,
    context: Context = (),
    *,
    num_draft_tokens: int = 4,
    verify: Verify = token,
) -> Round:
    """Run one round: draft, score once, verify.

    Parameters
    ----------
    chance : Chance
        Asked by the drafter, then by the verifier.
    target : Oracle
        Scored once, on all k + 1 positions.
    drafter : callable
        `drafter(chance, context, num_draft_tokens) -> Draft`; not called for 0 draft tokens.
    context : tuple of int
        The tokens so far.
    num_draft_tokens : int
        How many tokens to ask the drafter for, 0 or more.
    verify : callable
        `verify(chance, draft, target_probs) -> Verdict`; a plain sequence of emitted tokens will do.

    Returns
    -------
    Round

    Notes
    -----
    **Law.** With a lossless verifier, `tokens` continued by the target has the target's joint law given
    `context`.
    """
    check_parts(target, drafter, verify)
    context, num_draft_tokens = target.tokens(context), count("num_draft_tokens", num_draft_tokens, 0)
    draft = drafter(chance, context, num_draft_tokens) if num_draft_tokens else NO_DRAFT
    check_draft(draft, num_draft_tokens, target.vocab_size)
    target_probs = target.score(context, draft.tokens)  # [k+1, V]
    verdict = as_verdict(verify(chance, draft, target_probs), draft.tokens, target.vocab_size)
    rows = [
        row
        if i <= verdict.accepted
        else target(context + verdict.tokens[:i])  # off the draft: a row of its own
        for i, row in enumerate(target_probs[: len(verdict.tokens)])
    ]
    return Round(
        tokens=verdict.tokens,
        drafted=len(draft),
        accepted=verdict.accepted,
        last="bonus" if verdict.accepted == len(draft) else "residual",
        target_probs=tuple(row[emitted] for row, emitted in zip(rows, verdict.tokens, strict=True)),
    )


def stream(
    chance: Chance,
    target: Oracle,
    drafter: Propose,
    context: Context = (),
    *,
    max_new_tokens: int,
    num_draft_tokens: int = 4,
    verify: Verify = token,
    stop_tokens: Collection[int] = (),
) -> Iterator[Round]:
    """Yield the rounds of `generate` as they are made; see there."""
    check_parts(target, drafter, verify)
    context, left = _check_prompt(target, context), count("max_new_tokens", max_new_tokens, 0)
    num_draft_tokens = count("num_draft_tokens", num_draft_tokens, 0)
    stop_tokens = check_stop_tokens(stop_tokens, target.vocab_size)
    while left and (room := _room(target, context)) >= 0:
        one = speculate(
            chance,
            target,
            drafter,
            context,
            num_draft_tokens=min(num_draft_tokens, left - 1, room),
            verify=verify,
        )
        one = _cut(one, stop_tokens)
        yield one
        if one.tokens[-1] in stop_tokens:
            return
        context, left = context + one.tokens, left - len(one.tokens)


def generate(
    chance: Chance,
    target: Oracle,
    drafter: Propose,
    context: Context = (),
    *,
    max_new_tokens: int,
    num_draft_tokens: int = 4,
    verify: Verify = token,
    stop_tokens: Collection[int] = (),
) -> Generation:
    """Generate tokens speculatively.

    Parameters
    ----------
    chance, target, drafter, verify
        As for `speculate`.
    context : tuple of int
        The prompt.
    max_new_tokens : int
        Exactly so many tokens come out unless a stop token or the context limit ends it before. No round
        drafts more than can still be kept.
    num_draft_tokens : int
        The most tokens drafted per round.
    stop_tokens : collection of int
        The first of them, wherever in a block it stands, is the last token generated.

    Returns
    -------
    Generation

    Raises
    ------
    ValueError
        For negative counts, a vocabulary that is not the target's, or a context longer than the target's
        limit.

    Notes
    -----
    **Law.** With a lossless verifier, `tokens` has the same law as `autoregress(target, context, ...)`.
    """
    check_parts(target, drafter, verify)
    stop_tokens = check_stop_tokens(stop_tokens, target.vocab_size)
    rounds = tuple(
        stream(
            chance,
            target,
            drafter,
            context,
            max_new_tokens=max_new_tokens,
            num_draft_tokens=num_draft_tokens,
            verify=verify,
            stop_tokens=stop_tokens,
        )
    )
    tokens = tuple(emitted for one in rounds for emitted in one.tokens)
    return Generation(tokens, rounds, _stop_reason(tokens, max_new_tokens, stop_tokens))


def autoregress(
    chance: Chance,
    target: Oracle,
    context: Context = (),
    *,
    max_new_tokens: int,
    stop_tokens: Collection[int] = (),
) -> Generation:
    """Generate tokens with the target alone, one per pass: what speculation has to reproduce.

    Parameters and the result are those of `generate`; every round is one bonus token.

    Notes
    -----
    **Law.** Token i is drawn from `target(context + tokens[:i])`.
    """
    context, max_new_tokens = _check_prompt(target, context), count("max_new_tokens", max_new_tokens, 0)
    stop_tokens = check_stop_tokens(stop_tokens, target.vocab_size)
    tokens: Context = ()
    rounds: tuple[Round, ...] = ()
    while len(tokens) < max_new_tokens and _room(target, context + tokens) >= 0:
        row = target(context + tokens)
        drawn = chance.pick(row)
        tokens, rounds = (*tokens, drawn), (*rounds, Round((drawn,), 0, 0, "bonus", (row[drawn],)))
        if drawn in stop_tokens:
            break
    return Generation(tokens, rounds, _stop_reason(tokens, max_new_tokens, stop_tokens))


def _cut(one: Round, stop_tokens: Collection[int]) -> Round:
    """End a round at its first stop token; drafts behind it count as never verified."""
    kept = next((i + 1 for i, emitted in enumerate(one.tokens) if emitted in stop_tokens), len(one.tokens))
    if kept > one.accepted:
        return one
    return Round(one.tokens[:kept], kept, kept, "draft", one.target_probs[:kept])


def _room(target: Oracle, context: Context) -> int:
    """Return how many drafts the context limit leaves room for; negative where not even one token fits."""
    return _UNLIMITED if target.context_limit is None else target.context_limit - len(context)


def _stop_reason(tokens: Context, max_new_tokens: int, stop_tokens: Collection[int]) -> str:
    if tokens and tokens[-1] in stop_tokens:
        return "stop_token"
    return "max_new_tokens" if len(tokens) == max_new_tokens else "context_limit"


def _check_prompt(target: Oracle, context: Context) -> Context:
    """Return the prompt as a tuple of tokens that the target can be asked about."""
    if not isinstance(target, Oracle):
        raise ValueError("the target is no oracle: make one, from_probs(function, vocab_size)")
    if _room(target, context) < 0:
        raise ValueError(
            f"a prompt of {len(context)} tokens: the target's limit is {target.context_limit}; shorten it"
        )
    return target.tokens(context)
