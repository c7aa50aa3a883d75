"""The models of a command: text, tokenizer, target and draft."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from speculative.cli.own import OwnCodeError, load
from speculative.distribution import Context
from speculative.model import Characters, bundled_text, fit_ngram
from speculative.oracle import Oracle, check_vocabulary
from speculative.warp import Warp

BUNDLED, NGRAM = "bundled", "ngram"


class Pair(NamedTuple):
    """A target and a draft over the characters of a text, both warped."""

    target: Oracle
    draft: Oracle | None
    """None where no model drafts."""
    characters: Characters
    description: str
    seconds: float
    """Time it took to make them."""


def read_text(source: str) -> str:
    """Return the bundled text, or that of a file."""
    if source == BUNDLED:
        return bundled_text()
    try:
        text = Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"--text {source!r} cannot be read: {error.strerror}; give the path of a text file, or {BUNDLED}"
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"--text {source!r} is not UTF-8 at byte {error.start}: give a file of UTF-8 text"
        ) from None
    if not text:
        raise ValueError(f"--text {source!r} is empty: give a file with some text, or {BUNDLED}")
    return text


def make_pair(
    text: str, characters: Characters, warp: Warp, *, source: str, model: str, orders: tuple[int, int | None]
) -> Pair:
    """Fit the draft, where it has an order, and the target, unless it is the user's own, on a text.

    The orders are the target's and the draft's.
    """
    start = time.perf_counter()
    vocabulary = characters.vocabulary
    fit = partial(fit_ngram, characters.encode(text), vocab_size=len(vocabulary), vocabulary=vocabulary)
    draft = None if orders[1] is None else fit(order=orders[1])
    target = fit(order=orders[0]) if model == NGRAM else own_model(model, vocabulary)
    if draft is not None:
        check_vocabulary(target, draft)
    name = f"{orders[0]}-gram" if model == NGRAM else model
    drafted = "" if draft is None else f", draft {orders[1]}-gram"
    where = "the bundled text" if source == BUNDLED else source
    return Pair(
        target=warp(target),
        draft=None if draft is None else warp(draft),
        characters=characters,
        description=(
            f"target {name}{drafted}, fitted on {where} ({len(text):,} characters), "
            f"{warp.name.removeprefix('compose(').removesuffix(')')}"
        ),
        seconds=time.perf_counter() - start,
    )


def own_model(where: str, vocabulary: tuple[str, ...]) -> Oracle:
    """Return the oracle that a function of the user's own makes of the vocabulary."""
    if ":" not in where:
        raise ValueError(
            f"--model {where!r} is unknown: write {NGRAM}, or file.py:function for a model of your own"
        )
    oracle = load(where)(vocabulary)
    if not isinstance(oracle, Oracle):
        raise OwnCodeError(
            f"{where} returned a {type(oracle).__name__}: return an Oracle, made by from_logits or from_probs"
        )
    return oracle


def encode_prompt(prompt: str, characters: Characters) -> Context:
    """Return the tokens of a prompt."""
    for position, character in enumerate(prompt):
        if character not in characters.vocabulary:
            raise ValueError(
                f"the prompt has {character!r} at position {position}, which the text has nowhere: leave it "
                "out, or give --text FILE with a text that has it"
            )
    return characters.encode(prompt)
