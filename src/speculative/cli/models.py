"""The models of a command: a checkpoint, or n-grams fitted on a text, and what reads and writes text."""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from speculative import model
from speculative.cli import trained
from speculative.cli.own import blaming, load
from speculative.cli.trained import Source
from speculative.distribution import Context
from speculative.model import Characters, Subwords, bundled_text, fit_ngram, weight_shapes
from speculative.model.bundle import folder_of
from speculative.oracle import Oracle
from speculative.warp import Warp

BUNDLED, NGRAM, SHAKESPEARE = "bundled", "ngram", "shakespeare"
BUNDLED_PROMPT = "MACBETH:\n"
LONGEST_PROMPT = 60  # characters of a text's first line


class Pair(NamedTuple):
    """A target and a draft over the characters of a text."""

    target: Oracle
    draft: Oracle | None
    """None where no model drafts."""
    characters: Characters
    description: str


class Ready(NamedTuple):
    """A target and where drafts for it come from, neither warped yet."""

    target: Oracle
    source: Source
    tokenizer: Characters | Subwords
    prompt: str
    """What to start from where nothing else is said."""
    description: str
    seconds: float
    """Time it took to make them."""
    checkpoint: bool
    """Whether the target is one, and not a model of a text."""


def is_checkpoint(target: str) -> bool:
    """Whether a target is a checkpoint, bundled or a folder, and not fitted on a text."""
    return target != NGRAM and (Path(target).is_dir() or ":" not in target)


def drafter_for(target: str) -> str:
    """Return the drafter where none is named: one that fits any checkpoint, where the bundled one may not."""
    return "suffix" if is_checkpoint(target) and target != SHAKESPEARE else NGRAM


def check_drafter(target: str, drafter: str) -> trained.Kind:
    """Return what a drafter is made of; refuse one that needs a checkpoint for its target and has none."""
    kind = trained.kind_named(drafter)
    if not is_checkpoint(target) and drafter != NGRAM and kind.shaped:
        raise ValueError(
            f"--drafter {drafter} needs a target that is a checkpoint: write --target {SHAKESPEARE}, or "
            f"--drafter {NGRAM}"
        )
    return kind


def load_checkpoint(target: str, drafter: str) -> Ready:
    """Load a target by name or folder, and a drafter for it.

    Texts that are longer than the model's positions are read from a later beginning.
    """
    start = time.perf_counter()
    try:
        folder_of(target)
    except ValueError:
        raise ValueError(
            f"--target {target!r} is unknown: write {SHAKESPEARE}, the path of a checkpoint folder, {NGRAM}, "
            "or file.py:function for a model of your own"
        ) from None
    try:
        llama = model.load(target, sliding=True)
    except (ValueError, ImportError) as error:  # the package for a tokenizer may be missing
        raise ValueError(f"--target {target}: {error}") from None
    source = trained.load_drafter(drafter, llama)
    assert llama.tokenizer is not None  # it was loaded with one
    weights = sum(math.prod(shape) for shape in weight_shapes(llama.llama.config).values())
    return Ready(
        target=llama.oracle,
        source=source,
        tokenizer=llama.tokenizer,
        prompt=BUNDLED_PROMPT if target == SHAKESPEARE else "",
        description=f"target {target}, {weights:,} weights",
        seconds=time.perf_counter() - start,
        checkpoint=True,
    )


def fit_on_text(text: str, target: str, drafter: str, orders: tuple[int, int]) -> Ready:
    """Fit n-grams on a text, or make the user's own target for its characters; the orders are those of both.

    Parameters
    ----------
    text : str
        BUNDLED, or a file.
    target : str
        NGRAM, or `file.py:function`.
    drafter : str
        Checked: see `check_drafter`.
    orders : tuple of int
        The target's and the draft's.
    """
    body = read_text(text)
    characters = Characters.of(body)
    start = time.perf_counter()
    drafted = orders[1] if drafter == NGRAM else None
    pair = make_pair(body, characters, source=text, target=target, orders=(orders[0], drafted))
    if pair.draft is not None:
        source: Source = partial(trained.of_model, pair.draft)
    elif drafter in trained.WITHOUT_MODEL:
        source = trained.WITHOUT_MODEL[drafter][1]
    else:
        source = trained.own_source(drafter, pair.target)
    return Ready(
        target=pair.target,
        source=source,
        tokenizer=characters,
        prompt=BUNDLED_PROMPT if text == BUNDLED else body.partition("\n")[0][:LONGEST_PROMPT],
        description=pair.description,
        seconds=time.perf_counter() - start,
        checkpoint=False,
    )


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
    text: str, characters: Characters, *, source: str, target: str, orders: tuple[int, int | None]
) -> Pair:
    """Fit the draft, where it has an order, and the target, unless it is the user's own, on a text.

    The orders are the target's and the draft's.
    """
    vocabulary = characters.vocabulary
    fit = partial(fit_ngram, characters.encode(text), vocab_size=len(vocabulary), vocabulary=vocabulary)
    draft = None if orders[1] is None else fit(order=orders[1])
    oracle = fit(order=orders[0]) if target == NGRAM else own_model(target, vocabulary)
    name = f"{orders[0]}-gram" if target == NGRAM else target
    drafted = "" if draft is None else f", draft {orders[1]}-gram"
    where = "the bundled text" if source == BUNDLED else source
    description = f"target {name}{drafted}, fitted on {where} ({len(text):,} characters)"
    return Pair(oracle, draft, characters, description)


def own_model(where: str, vocabulary: tuple[str, ...]) -> Oracle:
    """Return the oracle that a function of the user's own makes of the vocabulary."""
    if ":" not in where:
        raise ValueError(
            f"--target {where!r} is unknown: write {NGRAM}, or file.py:function for a model of your own"
        )
    make = load(where)
    with blaming(where):
        oracle = make(vocabulary)
        if not isinstance(oracle, Oracle):
            kind = type(oracle).__name__
            raise ValueError(f"it returned a {kind}: return an Oracle, made by from_logits or from_probs")
        if oracle.vocab_size != len(vocabulary):
            raise ValueError(
                f"it has {oracle.vocab_size} tokens for a text of {len(vocabulary)} different characters: "
                "make one of the vocabulary it is given"
            )
    return oracle


def warped(description: str, warp: Warp) -> str:
    """Add a warp to a description."""
    return f"{description}, {warp.name.removeprefix('compose(').removesuffix(')')}"


def encode_prompt(prompt: str, ready: Ready) -> Context:
    """Return the tokens of a prompt."""
    tokenizer = ready.tokenizer
    if isinstance(tokenizer, Subwords):
        return tokenizer.encode(prompt)
    if ready.checkpoint:
        nowhere, instead = "which the target has no token for", "leave it out"
    else:
        nowhere = "which the text has nowhere"
        instead = "leave it out, or give --text FILE with a text that has it"
    for position, character in enumerate(prompt):
        if character not in tokenizer.vocabulary:
            raise ValueError(f"the prompt has {character!r} at position {position}, {nowhere}: {instead}")
    return tokenizer.encode(prompt)
