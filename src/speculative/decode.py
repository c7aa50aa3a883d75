"""The loop: draft, score, verify, again; and the target alone beside it.

`speculate`, `generate` and `autoregress` are programs: their first argument is a `chance`. So
`sample(generate, target, drafter, prompt, max_new_tokens=20, rng=0)` runs it and `law(generate, ...)` gives
its law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from speculative._checks import (
    as_verdict,
    check_draft,
    check_parts,
    check_stop_tokens,
    check_target,
)
from speculative._numbers import count
from speculative.chance import Chance, Number
from speculative.distribution import Context
from speculative.draft.proposal import NO_DRAFT, Draft, Drafter, Propose
from speculative.oracle import Oracle
from speculative.verify.token import token
from speculative.verify.verdict import Carried, Verdict

Verify = Callable[..., Verdict | Sequence[int]]

_UNLIMITED = 1 << 62


class Round(NamedTuple):
    """What one target pass brought.

    Parameters
    ----------
    tokens : tuple of int
        The tokens kept: accepted drafts and one more, or less where a stop token cut the block.
    drafted : int
        Drafts that were verified for keeping: all proposed ones, every node of a tree; but where a stop token
        cut the block, the ones before it.
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


def speculate(
    chance: Chance,
    target: Oracle,
    drafter: Propose,
    context: Context = (),
    *,
    num_draft_tokens: int = 4,
    verify: Verify = token,
    carried: tuple[Carried, ...] = (),
) -> Round:
    """Run one round: draft, score once, verify.

    Parameters
    ----------
    chance : Chance
        Asked by the drafter, then by the verifier.
    target : Oracle
        Scored once, on all k + 1 positions of a chain, or after every node of a tree.
    drafter : callable
        `drafter(chance, context, num_draft_tokens) -> Draft or DraftTree`; not called for 0 draft tokens.
    context : tuple of int
        The tokens so far.
    num_draft_tokens : int
        How many tokens to ask the drafter for, 0 or more; of a tree, on each path.
    verify : callable
        `verify(chance, draft, target_probs) -> Verdict`; a plain sequence of emitted tokens will do.
    carried : tuple of Carried
        The last round's `carried`; a verifier that carries takes it as a keyword.

    Returns
    -------
    Round

    Notes
    -----
    **Law.** With a lossless verifier, `tokens` continued by the target has the target's joint law given
    `context`. Where the verifier carries, further rounds have to continue them.
    """
    check_parts(target, drafter, verify)
    return _round(
        chance,
        target,
        drafter,
        target.tokens(context),
        num_draft_tokens=count("num_draft_tokens", num_draft_tokens, 0),
        verify=verify,
        carried=carried,
    )


def _round(
    chance: Chance,
    target: Oracle,
    drafter: Propose,
    context: Context,
    *,
    num_draft_tokens: int,
    verify: Verify,
    carried: tuple[Carried, ...],
) -> Round:
    """Run one round of parts and of a context that are checked; what the parts return is checked here."""
    propose = drafter.propose if isinstance(drafter, Drafter) else drafter
    draft = propose(chance, context, num_draft_tokens) if num_draft_tokens else NO_DRAFT
    check_draft(draft, num_draft_tokens, target.vocab_size, context)
    parents = range(len(draft)) if isinstance(draft, Draft) else draft.parents
    target_probs = target.rows_after(context, draft.tokens, parents)  # [n+1, V], in one pass
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
    carried: tuple[Carried, ...] = ()
    while left and (room := _room(target, context)) >= (needed := _needed(carried, left)):
        one = _round(
            chance,
            target,
            drafter,
            context,
            num_draft_tokens=max(needed, min(num_draft_tokens, left - 1, room)),
            verify=verify,
            carried=carried,
        )
        one = _cut(one, left, stop_tokens)
        yield one
        if one.tokens[-1] in stop_tokens:
            return
        context, left, carried = context + one.tokens, left - len(one.tokens), one.carried


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
    rounds: list[Round] = []
    while len(rounds) < max_new_tokens and _room(target, context) >= 0:
        row = target.row(context)
        drawn = chance.pick(row)
        context = (*context, drawn)
        rounds.append(Round((drawn,), 0, 0, "bonus", (row[drawn],)))
        if drawn in stop_tokens:
            break
    tokens = context[len(context) - len(rounds) :]
    return Generation(tokens, tuple(rounds), _stop_reason(tokens, max_new_tokens, stop_tokens))


def _cut(one: Round, left: int, stop_tokens: Collection[int]) -> Round:
    """End a round at its first stop token, or where enough came; drafts behind count as never verified."""
    if stop_tokens:
        left = next((i for i, emitted in enumerate(one.tokens[:left], 1) if emitted in stop_tokens), left)
    if left > one.accepted:
        return one
    return Round(one.tokens[:left], left, left, "draft", one.target_probs[:left])


def _needed(carried: tuple[Carried, ...], left: int) -> int:
    """Return how many drafts the round needs, for their laws, while a change of the target lasts."""
    return min(left, max([change.positions for change in carried], default=0))


def _room(target: Oracle, context: Context) -> int:
    """Return how many drafts the context limit leaves room for; negative where not even one token fits."""
    return _UNLIMITED if target.context_limit is None else target.context_limit - len(context)


def _stop_reason(tokens: Context, max_new_tokens: int, stop_tokens: Collection[int]) -> str:
    if tokens and tokens[-1] in stop_tokens:
        return "stop_token"
    return "max_new_tokens" if len(tokens) == max_new_tokens else "context_limit"


def _check_prompt(target: Oracle, context: Context) -> Context:
    """Return the prompt as a tuple of tokens that the target can be asked about."""
    check_target(target)
    if _room(target, context) < 0:
        raise ValueError(
            f"a prompt of {len(context)} tokens: the target's limit is {target.context_limit}; shorten it"
        )
    return target.tokens(context)
