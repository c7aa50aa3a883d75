"""Wrong drafters: the declared law is not the one that the tokens were drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from speculative import Draft, Oracle, cached, point_mass
from speculative.oracle import map_rows


@dataclass(frozen=True, slots=True)
class Unchecked(Draft):
    """A draft as engines hand it on: nobody looks whether the tokens can come from the declared law."""

    def __post_init__(self) -> None:
        pass


def chain(sampled, declared, keep=lambda token, row: True):
    """Return a drafter that draws from `sampled`, declares `declared`, and ends before a token not to `keep`.

    Both are functions of the round's context and of the tokens drafted so far.
    """

    def propose(chance, context, num_draft_tokens):
        tokens, probs = (), ()
        for _ in range(num_draft_tokens):
            token, row = chance.pick(sampled(context, tokens)), declared(context, tokens)
            if not keep(token, row):
                break
            tokens, probs = (*tokens, token), (*probs, row)
        return Unchecked(tokens, probs)

    return propose


def after(oracle):
    """Right: the law after the context and the tokens drafted so far."""
    row = cached(oracle)
    return lambda context, tokens: row(context + tokens)


def one_token_behind(oracle):
    """The law that held before the last token."""
    return lambda context, tokens: oracle((context + tokens)[:-1])


def without_the_drafts(oracle):
    """The law at the start of the round."""
    return lambda context, tokens: oracle(context)


def warped_but_declared_raw(warp):
    return lambda oracle: chain(after(warp(oracle)), after(oracle))


def raw_but_declared_warped(warp):
    return lambda oracle: chain(after(oracle), after(warp(oracle)))


def best_token(oracle: Oracle) -> Oracle:
    """Return the draft model's argmax as an oracle."""
    return map_rows(oracle, lambda context, row: point_mass(int(row.argmax()), len(row)))


def argmax_with_soft_law(oracle):
    return chain(after(best_token(oracle)), after(oracle))


def soft_with_argmax_law(oracle):
    return chain(after(oracle), after(best_token(oracle)))


def dropped_when_improbable(oracle):
    """A token is drawn, and the draft ends without it where its probability is below a threshold."""
    return chain(after(oracle), after(oracle), keep=lambda token, row: row[token] >= Fraction(22, 100))


def dropped_when_not_the_best(oracle):
    return chain(after(oracle), after(oracle), keep=lambda token, row: token == row.argmax())


def in_bfloat16(context, row):
    """Probabilities rounded to the 8 significant bits of bfloat16."""
    mantissas, exponents = np.frexp(row.astype(float))
    weights = [
        Fraction(round(256 * mantissa)) * Fraction(2) ** int(exponent)
        for mantissa, exponent in zip(mantissas, exponents, strict=True)
    ]
    return np.array([weight / sum(weights) for weight in weights], dtype=object)


def sampled_in_bfloat16(oracle):
    return chain(after(map_rows(oracle, in_bfloat16)), after(oracle))


def declared_one_token_behind(oracle):
    return chain(after(oracle), one_token_behind(oracle))


def declared_from_the_start_of_the_round(oracle):
    return chain(after(oracle), without_the_drafts(oracle))


def sampled_one_token_behind(oracle):
    return chain(one_token_behind(oracle), after(oracle))


def sampled_from_the_start_of_the_round(oracle):
    return chain(without_the_drafts(oracle), after(oracle))
