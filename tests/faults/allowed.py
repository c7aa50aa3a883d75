"""What looks like a fault and is none: some of it is slow, all of it is exact and has to pass."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from speculative import Draft, draft, point_mass, verify
from speculative.draft import low_confidence, low_entropy_bound

from . import drafts, rules
from .blocks import block_rule
from .rules import token_rule
from .setups import Setup, drafting, greedy_rule, rule
from .table import WARPED_BY, wrong_draft


def accepted_half_as_often(chance, draft, target_probs):
    """Half the acceptance of token verification, with its own residual: target less what is accepted."""
    for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        target = target_probs[i]
        if not chance.flip(rules.ratio(target, row, drafted) / 2):
            kept = [min(p, q) / 2 for p, q in zip(target, row, strict=True)]
            return (*draft.tokens[:i], chance.pick(target - kept))
    return (*draft.tokens, chance.pick(target_probs[-1]))


def kept_then_stopped(oracle):
    """An improbable token is drawn and kept; the draft ends behind it."""
    row = drafts.after(oracle)

    def propose(chance, context, num_draft_tokens):
        tokens, probs = (), ()
        while len(tokens) < num_draft_tokens:
            probs = (*probs, row(context, tokens))
            tokens = (*tokens, chance.pick(probs[-1]))
            if probs[-1][tokens[-1]] < Fraction(22, 100):
                break
        return drafts.Unchecked(tokens, probs)

    return propose


def of_random_length(oracle):
    """A coin, not the tokens, decides before each token whether there is one more."""
    chain = drafts.chain(drafts.after(oracle), drafts.after(oracle))

    def propose(chance, context, num_draft_tokens):
        length = 0
        while length < num_draft_tokens and chance.flip(Fraction(2, 3)):
            length += 1
        return chain(chance, context, length)

    return propose


def stale_and_declared_so(oracle):
    return drafts.chain(drafts.one_token_behind(oracle), drafts.one_token_behind(oracle))


def all_positions_from_the_start(oracle):
    """Parallel heads: every position drawn from one law, which is declared."""
    return drafts.chain(drafts.without_the_drafts(oracle), drafts.without_the_drafts(oracle))


def certain(oracle):
    """The draft model's argmax, declared as the point mass it is."""
    best = drafts.after(drafts.best_token(oracle))
    return drafts.chain(best, best)


def draft_warped(warp):
    return lambda target, small: Setup(verify.token, target, draft.model(warp(small)), target)


def both_warped(warp):
    return lambda target, small: Setup(verify.token, warp(target), draft.model(warp(small)), warp(target))


def block_as_if_certain(chance, draft, target_probs):
    """Block verification of a sampled draft that is taken as certain, in the ratios and in the residuals."""
    certain = tuple(point_mass(token, len(target_probs[0])) for token in draft.tokens)
    return verify.block(chance, Draft(draft.tokens, certain), target_probs)


AS_IF_CERTAIN = token_rule(accept=rules.own_probability, rest=rules.without_drafted)

ALLOWED = {
    "token verification": rule(verify.token),
    "match verification": rule(verify.match),  # lablup/mlxcel#992, ml-explore/mlx-swift-lm#459
    "match of an argmax draft": drafting(certain, verify.match),  # z-lab/dflash#74
    "argmax draft with a point mass": wrong_draft(certain),  # SafeAILab/EAGLE#329, #221, #183
    "sampled draft judged as if it were certain": rule(AS_IF_CERTAIN),
    "block verification": rule(verify.block),
    "block verification, in parts": rule(block_rule()),
    "block verification of an argmax draft": drafting(certain, verify.block),
    "block verification of a sampled draft as if it were certain": rule(block_as_if_certain),
    "lenience 1": rule(partial(verify.lenient, lenience=1)),
    "half the acceptance with its own residual": rule(accepted_half_as_often),
    "stop before an uncertain token": drafting(partial(draft.model, stop=low_confidence(0.55))),
    "stop where entropy promises little": drafting(partial(draft.model, stop=low_entropy_bound(0.6))),
    "improbable token kept, then stopped": wrong_draft(kept_then_stopped),
    "random draft length": wrong_draft(of_random_length),
    "stale draft declared as such": wrong_draft(stale_and_declared_so),
    "parallel draft heads": wrong_draft(all_positions_from_the_start),
    "greedy verification": greedy_rule(verify.greedy),
    "greedy verification of an argmax draft": lambda target, small: greedy_rule(verify.greedy)(
        target, drafts.best_token(small)
    ),
    **{f"draft alone under {warp.name}": draft_warped(warp) for warp in WARPED_BY},  # vllm-project/vllm#56724
    **{f"both under {warp.name}": both_warped(warp) for warp in WARPED_BY},
}
"""By name, the setups that have to be lossless."""
