"""Measure speculation in batches and write the page on it: `python docs/batch.py --text train.txt`."""

import argparse
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from speculative.batch import each, generate_batch
from speculative.chance import Sampler
from speculative.cost import tokens_per_round
from speculative.decode import Round
from speculative.draft import Drafter, model
from speculative.model import CachedLlama, Llama, LlamaConfig, bundled_text, fit_ngram, load, weight_shapes
from speculative.model.batched import BatchedLlama
from speculative.model.blocks import block_width, blocked, product
from speculative.plot import plot_roofline
from speculative.plot.style import COLOURS
from speculative.roofline import Hardware, Model, pass_time, speedup_at_batch

DOCS = Path(__file__).parent
PAGE, PICTURE = DOCS / "explanation" / "batches.md", DOCS / "_static" / "batches.png"
BATCHES = (1, 2, 4, 8, 16, 32, 64)
LENGTHS = (2, 4)
"""Drafted tokens per round."""
PROMPT, NEW_TOKENS = 64, 96
MIDDLE = PROMPT + NEW_TOKENS // 2
"""The length of a context in the middle of a text."""


class Bench(NamedTuple):
    """What is measured: a target, the same with next to no weights, a drafter, and texts to continue."""

    target: CachedLlama
    empty: Llama
    drafter: Drafter
    texts: Sequence[tuple[int, ...]]


class Measured(NamedTuple):
    """By drafted tokens per round, 0 for plain decoding: seconds of each repetition, and all rounds."""

    decodes: dict[int, list[float]]
    passes: dict[int, list[float]]
    calls: dict[int, list[float]]
    """Passes of a model with next to no weights: the time of the calls alone."""
    rounds: dict[int, list[Round]]


class Prediction(NamedTuple):
    """What the predictions are made from."""

    acceptance: float
    draft_seconds: float
    cost: float
    size: Model
    hardware: Hardware

    def roofline(self, batch: int, length: int) -> float:
        """The speedup that the peaks of the machine allow."""
        parts = self.acceptance, length, self.cost, self.size, self.hardware
        return float(speedup_at_batch(*parts, batch=batch, context=MIDDLE))

    def floor(self, batch: int, length: int) -> float:
        """The time of a pass at the peaks of the machine."""
        positions = length + 1
        return float(pass_time(self.size, self.hardware, batch=batch, positions=positions, context=MIDDLE))

    def with_calls(self, batch: int, length: int, measured: Measured) -> float:
        """The speedup if passes take what the peaks allow and the time of the calls besides."""
        plain, verification = (self.floor(batch, k) + median(measured.calls[k]) for k in (0, length))
        return self._speedup(batch, length, plain, verification)

    def of_passes(self, batch: int, length: int, measured: Measured) -> float:
        """The speedup by the times of passes as measured."""
        return self._speedup(batch, length, *(median(measured.passes[k]) for k in (0, length)))

    def _speedup(self, batch: int, length: int, plain: float, verification: float) -> float:
        drafting = length * batch * self.draft_seconds
        return float(tokens_per_round(self.acceptance, length)) * plain / (drafting + verification)


def bench(target: str, text: str) -> Bench:
    """Load the target, fit the draft, a 5-gram, and take beginnings from plays that neither has read."""
    llama = load(target)
    tokens, plays = llama.tokenizer.encode(text), llama.tokenizer.encode(bundled_text())
    ngram = fit_ngram(tokens, order=5, vocab_size=llama.oracle.vocab_size, vocabulary=llama.oracle.vocabulary)
    step = len(plays) // max(BATCHES)
    return Bench(
        llama,
        emptied(llama.llama.config),
        model(ngram),
        [plays[i * step :][:MIDDLE] for i in range(max(BATCHES))],
    )


def emptied(config: LlamaConfig) -> Llama:
    """A model that makes the same calls as one of that configuration, on rows of eight numbers."""
    sizes = {"hidden_size": 8, "intermediate_size": 8, "head_dim": 2}
    small = replace(config, **sizes)
    rng = np.random.default_rng(0)
    return Llama.of(small, {name: rng.normal(size=shape) for name, shape in weight_shapes(small).items()})


def timed(work: Callable[..., Any], *args: Any, **options: Any) -> tuple[float, Any]:
    """Time of this process, which others on the machine lengthen less than the clock's, and the result."""
    start = time.process_time()
    result = work(*args, **options)
    return time.process_time() - start, result


def measure(on: Bench, batch: int, repeats: int) -> Measured:
    """Decode a batch plainly and with drafts, in turn, and time single passes in between."""
    lanes, empty = BatchedLlama(on.target.llama, batch), BatchedLlama(on.empty, batch)
    prompts = [text[:PROMPT] for text in on.texts[:batch]]
    found = Measured(*({length: [] for length in (0, *LENGTHS)} for _ in Measured._fields))
    for repeat in range(repeats + 1):
        for length in (0, *LENGTHS):
            lanes.read({lane: (prompt, (), ()) for lane, prompt in enumerate(prompts)})
            took, made = timed(
                generate_batch,
                [Sampler(np.random.default_rng((repeat, lane))) for lane in range(batch)],
                lanes.batch,
                each(lambda _: replace(on.drafter)),
                prompts,
                max_new_tokens=NEW_TOKENS,
                num_draft_tokens=length,
            )
            passes = [pass_seconds(model, on.texts[:batch], length) for model in (lanes, empty)]
            if repeat:  # the first one warms up
                found.decodes[length].append(took)
                found.passes[length].append(passes[0])
                found.calls[length].append(passes[1])
                found.rounds[length] += [one for text in made for one in text.rounds]
    return found


def pass_seconds(lanes: BatchedLlama, texts: Sequence[tuple[int, ...]], length: int) -> float:
    """The least time of a pass over one token and so many drafts in each lane, in the middle of a text."""
    drafted, chain = tuple(range(length)), tuple(range(length))
    took = [
        timed(lanes.read, {lane: ((*text, turn % 2), drafted, chain) for lane, text in enumerate(texts)})[0]
        for turn in range(9)
    ]
    return min(took[1:])  # the first one reads the texts


def draft_seconds(on: Bench) -> float:
    """The time of a drafted token."""
    chance, length = Sampler(np.random.default_rng(0)), max(LENGTHS)
    propose = on.drafter.propose
    return min(timed(lambda: [propose(chance, text, length) for text in on.texts])[0] for _ in range(20)) / (
        length * len(on.texts)
    )


def peaks(size: int, width: int) -> Hardware:
    """Bandwidth, by one row times a matrix of as many weights as the model has; operations, by 256 rows."""
    matrix = blocked(np.ones((width, size // width)), block_width())
    few, many = (np.ones((rows, width), dtype=np.float32) for rows in (1, 256))
    reading = min(timed(product, few, matrix)[0] for _ in range(60))
    computing = min(timed(product, many, matrix)[0] for _ in range(20))
    return Hardware(bandwidth=matrix.nbytes / reading, flops=2 * len(many) * matrix.size / computing)


def prediction(on: Bench, measured: dict[int, Measured], hardware: Hardware) -> Prediction:
    """What the roofline model needs of the target, and of the draft's agreement with it."""
    rounds = [one for each_batch in measured.values() for k in LENGTHS for one in each_batch.rounds[k]]
    accepted = sum(one.accepted for one in rounds)
    rejected = sum(one.last == "residual" for one in rounds)
    config, drafting = on.target.llama.config, draft_seconds(on)
    keys = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    size = Model(weights_read(on.target), bytes_per_parameter=4, cache_bytes_per_token=4 * keys)
    cost = drafting / float(pass_time(size, hardware, context=MIDDLE))
    return Prediction(accepted / (accepted + rejected), drafting, cost, size, hardware)


def weights_read(target: CachedLlama) -> int:
    """How many weights a pass reads: all but the embedding, of which it looks rows up."""
    llama = target.llama
    return sum(matrix.size for layer in llama.layers for matrix in layer) + llama.head.size


def speedups(measured: Measured, length: int) -> list[float]:
    """How many times as fast as plain decoding in the same repetition."""
    pairs = zip(measured.decodes[0], measured.decodes[length], strict=True)
    return [plain / drafted for plain, drafted in pairs]


def speedup_table(measured: dict[int, Measured], by: Prediction) -> str:
    """The table of speedups: measured, with quartiles, and predicted."""
    lines = [
        "| batch | plain, tokens a second | "
        + " | ".join(f"k = {k} | passes | with calls | roofline" for k in LENGTHS)
    ]
    lines = [lines[0] + " |", "|--:|--:" + "|--:|--:|--:|--:" * len(LENGTHS) + "|"]
    for batch, one in measured.items():
        cells = [f"{batch}", f"{batch * NEW_TOKENS / median(one.decodes[0]):,.0f}"]
        for length in LENGTHS:
            low, middle, high = quantiles(speedups(one, length), n=4)
            cells += [
                f"{middle:.2f} ({low:.2f} to {high:.2f})",
                f"{by.of_passes(batch, length, one):.2f}",
                f"{by.with_calls(batch, length, one):.2f}",
                f"{by.roofline(batch, length):.2f}",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def pass_table(measured: dict[int, Measured], by: Prediction) -> str:
    """The table of passes: milliseconds of one, of its calls, and of its floor."""
    names = [f"{1 + k} position{'s' * (k > 0)}" for k in (0, *LENGTHS)]
    lines = ["| batch | " + " | ".join(f"{name} | calls | floor" for name in names) + " |"]
    lines.append("|--:" + "|--:|--:|--:" * len(names) + "|")
    for batch, one in measured.items():
        cells = [f"{batch}"]
        for k in (0, *LENGTHS):
            parts = median(one.passes[k]), median(one.calls[k]), by.floor(batch, k)
            cells += [f"{1e3 * seconds:.2f}" for seconds in parts]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def machine(by: Prediction) -> str:
    """The figures that the predictions are made from, as a sentence."""
    bandwidth, flops = by.hardware.bandwidth / 1e9, by.hardware.flops / 1e9
    weights, drafting = by.size.parameters / 1e6, 1e6 * by.draft_seconds
    return fill(
        f"One core reads {bandwidth:.0f} GB of weights a second (one row times a matrix of the model's size) "
        f"and does {flops:.0f} billion operations (256 rows). The target has {weights:.2f} million weights "
        f"of 4 bytes. A token is accepted with probability {by.acceptance:.2f}, and drafting it takes "
        f"{drafting:.0f} µs.",
        width=120,
    )


def picture(measured: dict[int, Measured], by: Prediction) -> None:
    """Draw the roofline's speedups and the measured ones beside them."""
    axes = plot_roofline(
        by.acceptance, LENGTHS, by.cost, by.size, by.hardware, context=MIDDLE, max_batch=max(BATCHES)
    )
    for line in axes.get_lines():
        line.set_linestyle("--")
    top = max(np.max(line.get_ydata()) for line in axes.get_lines())
    for length, colour in zip(LENGTHS, COLOURS, strict=False):
        calls = [by.with_calls(batch, length, one) for batch, one in measured.items()]
        axes.plot(list(measured), calls, ":", color=colour)
        found = np.array([quantiles(speedups(one, length), n=4) for one in measured.values()])  # [batches, 3]
        axes.errorbar(
            list(measured),
            found[:, 1],
            np.abs(found[:, [0, 2]] - found[:, [1]]).T,
            fmt="o-",
            markersize=4,
            capsize=3,
            color=colour,
            label=f"{length} drafted, measured",
        )
        top = max(top, found.max(), *calls)
    axes.set_ylim(0, 1.05 * top)
    axes.legend(frameon=False)
    axes.set_title(
        f"acceptance {by.acceptance:.2f}; dashed: the roofline, dotted: with calls", loc="left", fontsize=10
    )
    for note in axes.texts:  # "plain decoding": above its line, where no other is
        note.set(y=1, verticalalignment="bottom")
    axes.figure.savefig(PICTURE, dpi=120)
    plt.close(axes.figure)


def with_block(page: str, name: str, text: str) -> str:
    """Return the page with the text between the comments of that name."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


def main() -> None:
    """Measure, draw, and put the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="shakespeare", help="a model's name, or a checkpoint folder")
    parser.add_argument(
        "--text", type=Path, required=True, help="what the 5-gram is fitted on: a training text"
    )
    parser.add_argument("--characters", type=int, default=2_000_000, help="how much of it is read")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    np.empty(3_000_000)  # from now on the allocator keeps what is freed
    on = bench(options.target, options.text.read_text(encoding="ascii")[: options.characters])
    shape = weights_read(on.target), on.target.llama.config.hidden_size
    before = peaks(*shape)
    measured = {batch: measure(on, batch, options.repeats * (3 if batch <= 8 else 1)) for batch in BATCHES}
    after = peaks(*shape)
    hardware = Hardware(max(before.bandwidth, after.bandwidth), max(before.flops, after.flops))
    by = prediction(on, measured, hardware)
    picture(measured, by)
    blocks = {
        "speedups": speedup_table(measured, by),
        "passes": pass_table(measured, by),
        "machine": machine(by),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, text in blocks.items():
        page = with_block(page, name, text)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
