"""The loop: draft, score, verify, again; and the target alone beside it.

`speculate`, `generate` and `autoregress` are programs: their first argument is a `chance`. So
`sample(generate, target, drafter, prompt, max_new_tokens=20, rng=0)` runs it and `law(generate, ...)` gives
its law.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

from speculative._checks import check_draft, check_parts
from speculative._numbers import count
from speculative.chance import Chance
from speculative.distribution import Context
from speculative.draft.proposal import NO_DRAFT, Drafter, Propose
from speculative.oracle import Oracle
from speculative.rounds import Generation, Round, Text, Verify, begin, verified
from speculative.verify.token import token
from speculative.verify.verdict import Carried

__all__ = ["Generation", "Round", "Verify", "autoregress", "generate", "speculate", "stream"]


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
    return verified(chance, target, draft, context, verify=verify, carried=carried)


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
    text = begin(target, context, max_new_tokens=max_new_tokens, stop_tokens=stop_tokens)
    num_draft_tokens = count("num_draft_tokens", num_draft_tokens, 0)
    return _rounds(chance, target, drafter, text, num_draft_tokens=num_draft_tokens, verify=verify)


def _rounds(
    chance: Chance, target: Oracle, drafter: Propose, text: Text, *, num_draft_tokens: int, verify: Verify
) -> Iterator[Round]:
    """Go on with a text to its end, and yield its rounds."""
    while (wanted := text.wants(target, num_draft_tokens)) is not None:
        one = _round(
            chance,
            target,
            drafter,
            text.context,
            num_draft_tokens=wanted,
            verify=verify,
            carried=text.carried,
        )
        yield text.take(one)


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
    text = begin(target, context, max_new_tokens=max_new_tokens, stop_tokens=stop_tokens)
    num_draft_tokens = count("num_draft_tokens", num_draft_tokens, 0)
    rounds = _rounds(chance, target, drafter, text, num_draft_tokens=num_draft_tokens, verify=verify)
    deque(rounds, maxlen=0)
    return text.generation()


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
    text = begin(target, context, max_new_tokens=max_new_tokens, stop_tokens=stop_tokens)
    while text.wants(target, 0) is not None:
        row = target.row(text.context)
        drawn = chance.pick(row)
        text.take(Round((drawn,), 0, 0, "bonus", (row[drawn],)))
    return text.generation()
