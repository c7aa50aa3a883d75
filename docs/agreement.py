"""Measure how good drafts are and how much they agree, and write the page: `python docs/agreement.py`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":  # before numpy is loaded
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ[variable] = "1"

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from speed import with_table

from speculative import Oracle, autoregress, from_probs, model, sample
from speculative.bench import excerpts
from speculative.distribution import Context, Row
from speculative.measure import Estimate, mean_with_interval
from speculative.plot.style import BLUE, GREY, VERMILION, new_axes

DOCS = Path(__file__).parent
PAGE, PICTURE = DOCS / "explanation" / "agreement.md", DOCS / "_static" / "agreement.png"
PROMPT, NEW_TOKENS = 64, 128
MODELS, NGRAMS, OTHERS = ("draft", "draft-kl", "draft-tv"), ("5gram", "ngram"), ("neural",)
"""Of models, and of n-grams, the first was trained on the text alone, the others on the target."""
BLOCKS = "drafts", "pairs", "picture"
LABELS = {"draft": (14, -8, "left"), "draft-kl": (14, 1, "left"), "5gram": (-8, -12, "right")}
"""Where names stand that would be in the way of others: points to the right, and upwards."""
ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3, "4-gram": 4}
"""The n-gram with less of the context, so that it is an n-gram of that order."""


class Figures(NamedTuple):
    """Of a draft; each array has one number for each prompt."""

    bits: NDArray[np.float64]
    """Bits a character on the text as it was written: how well the draft does the target's own task."""
    acceptance: NDArray[np.float64]
    """The mean of Σ min(target, draft) over the contexts of a text that the target sampled."""
    same_choice: NDArray[np.float64]
    """How often both have the same most probable character there."""


class Texts(NamedTuple):
    """A prompt, how it goes on in the play, and how by the target."""

    prompt: Context
    written: Context
    sampled: Context


def drafts() -> dict[str, Oracle]:
    """Load the drafts."""
    found = {name: model.load(f"shakespeare-{name}", sliding=True).oracle for name in MODELS}
    found |= {name: model.load_ngram(f"shakespeare-{name}") for name in (*NGRAMS, *OTHERS)}
    return found | {name: shortened(found["ngram"], order) for name, order in ORDERS.items()}


def shortened(ngram: Oracle, order: int) -> Oracle:
    """The n-gram that sees the last `order` - 1 tokens."""

    def row(context: Context) -> Row:
        return ngram(context[max(0, len(context) - order + 1) :])

    return from_probs(row, ngram.vocab_size, vocabulary=ngram.vocabulary)


def texts_of(target: Oracle, held_out: Sequence[int], prompts: int, seed: int) -> list[Texts]:
    """Cut pieces out of a text, and let the target go on from their beginnings."""
    pieces = excerpts(held_out, prompts, PROMPT + NEW_TOKENS, seed=seed)
    return [
        Texts(
            piece[:PROMPT],
            piece[PROMPT:],
            sample(autoregress, target, piece[:PROMPT], max_new_tokens=NEW_TOKENS, rng=(seed, number)).tokens,
        )
        for number, piece in enumerate(pieces)
    ]


def rows_of(oracle: Oracle, prompt: Context, text: Context) -> NDArray[np.float64]:
    """The laws of every token of a text, shape (tokens, V), from one pass where the model makes one."""
    return np.array(oracle.score(prompt, text)[:-1], dtype=np.float64)


def figures(target: Oracle, draft: Oracle, texts: Sequence[Texts]) -> Figures:
    """Measure a draft on texts."""
    found = []
    for prompt, written, sampled in texts:
        own = rows_of(draft, prompt, written)[np.arange(len(written)), list(written)]
        ours, theirs = (rows_of(oracle, prompt, sampled) for oracle in (target, draft))
        found.append(
            (
                -np.log2(own).mean(),
                np.minimum(ours, theirs).sum(axis=1).mean(),
                (ours.argmax(axis=1) == theirs.argmax(axis=1)).mean(),
            )
        )
    return Figures(*np.array(found).T)


def over_prompts(values: NDArray[np.float64]) -> Estimate:
    """The mean with Student's 95 % interval, prompts being drawn at random."""
    return mean_with_interval(values.tolist(), batches=len(values))


def told(values: NDArray[np.float64], form: str = ".3f") -> str:
    """Write a mean and half of its interval."""
    mean, _, high = over_prompts(values)
    return f"{float(mean):{form}} ± {high - float(mean):.3f}"


def of_drafts(found: Mapping[str, Figures]) -> str:
    """Return the table of drafts, the target's own bits first."""
    lines = ["| | bits a character | acceptance | same first choice |", "|---|--:|--:|--:|"]
    for name, one in found.items():
        agreement = ["", ""] if name == "target" else [told(one.acceptance), told(one.same_choice)]
        lines.append(f"| {' | '.join([name, told(one.bits), *agreement])} |")
    return "\n".join(lines)


def of_pairs(found: Mapping[str, Figures]) -> str:
    """Return the table of differences to the draft of the kind that was trained on the text, by prompt."""
    lines = ["| | bits a character | acceptance | same first choice |", "|---|--:|--:|--:|"]
    for of_text, *of_target in (MODELS, NGRAMS):
        for name in of_target:
            pairs = zip(found[name], found[of_text], strict=True)
            cells = [told(one - other, "+.3f") for one, other in pairs]
            lines.append(f"| {' | '.join([f'{name} against {of_text}', *cells])} |")
    return "\n".join(lines)


def picture(found: Mapping[str, Figures]) -> plt.Axes:
    """Draw agreement against task quality, with the intervals; to the left is better, and up agrees more."""
    axes = new_axes(None, 6.4, 4.4)
    bits = found["target"].bits.mean()
    axes.axvline(bits, color=GREY, linewidth=1, linestyle=":")
    axes.annotate("the target", (bits, 0), (3, 4), ("data", "axes fraction"), "offset points", color=GREY)
    for kind, colour in ((MODELS, VERMILION), ((*NGRAMS, *OTHERS, *ORDERS), BLUE)):
        for name in kind:
            x, y = (over_prompts(values) for values in found[name][:2])
            middle = float(x.mean), float(y.mean)
            arms = {"xerr": x.high - middle[0], "yerr": y.high - middle[1]}
            axes.errorbar(*middle, fmt="o", color=colour, markersize=5, elinewidth=1, **arms)
            *away, side = LABELS.get(name, (6, 5, "left"))
            axes.annotate(name, middle, away, textcoords="offset points", fontsize=9, ha=side)
    axes.margins(x=0.12)
    axes.set_xlabel("bits a character on held-out plays")
    axes.set_ylabel("acceptance on the target's text")
    return axes


def main() -> None:
    """Measure, draw, and put the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    llama = model.load("shakespeare", sliding=True)
    assert llama.tokenizer is not None
    held_out = llama.tokenizer.encode(model.bundled_text())
    texts = texts_of(llama.oracle, held_out, options.prompts, options.seed)
    measured: Callable[[Oracle], Figures] = partial(figures, llama.oracle, texts=texts)
    found = {name: measured(oracle) for name, oracle in {"target": llama.oracle, **drafts()}.items()}
    axes = picture(found)
    axes.figure.savefig(PICTURE, dpi=120)
    plt.close(axes.figure)
    page = PAGE.read_text(encoding="utf-8")
    shown = f"![Acceptance on the target's text against bits on held-out plays](../_static/{PICTURE.name})"
    for name, text in zip(BLOCKS, (of_drafts(found), of_pairs(found), shown), strict=True):
        page = with_table(page, name, text)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
