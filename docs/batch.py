"""Measure speculation in batches and write the page on it: `python docs/batch.py`, four minutes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from textwrap import fill
from typing import Any, NamedTuple, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from speed import keep_freed_memory, with_table

from speculative.batch import Batch, BatchDrafter, Wanted, chains, each, generate_batch
from speculative.chance import Sampler
from speculative.cli.threads import VARIABLES
from speculative.decode import Round
from speculative.draft import Draft, model
from speculative.model import (
    BatchedLlama,
    CachedLlama,
    Llama,
    LlamaConfig,
    bundled_text,
    load,
    load_ngram,
    weight_shapes,
)
from speculative.model.blocks import block_width, blocked, product
from speculative.oracle import Oracle
from speculative.plot.style import COLOURS, TITLE, new_axes
from speculative.roofline import Hardware, Model, pass_time, speedup_at_batch

DOCS = Path(__file__).parent
PAGE, PICTURE = DOCS / "explanation" / "batches.md", DOCS / "_static" / "batches.png"
NAMES = {"shakespeare-ngram": "The n-gram", "shakespeare-draft-kl": "The distilled draft"}
THREADS = (1, 2)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
LENGTHS = (2, 4)
"""Drafted tokens per round."""
TURNS = 7
"""How often a part is timed in each repetition; the first time is for reading."""
PROMPT, NEW_TOKENS = 64, 96
MIDDLE = PROMPT + NEW_TOKENS // 2
"""The length of a context in the middle of a text."""

Way: TypeAlias = tuple[str, int]
"""What drafts, and how many tokens; ("", 0) is plain decoding."""
PLAIN: Way = ("", 0)


class Bench(NamedTuple):
    """What is measured: a target, the same with next to no weights, texts to continue, and drafters."""

    target: CachedLlama
    empty: Llama
    texts: Sequence[tuple[int, ...]]
    drafters: Mapping[str, Callable[[int], BatchDrafter]]
    """By name, a function from the number of slots."""

    @property
    def ways(self) -> list[Way]:
        """Plainly, and with each drafter and length."""
        return [PLAIN, *((name, length) for name in self.drafters for length in LENGTHS)]


class Decodes(NamedTuple):
    """One way to decode a batch: by repetition, seconds, and the texts that were there in each round."""

    seconds: list[float]
    texts: list[list[int]]
    passing: list[float]
    """Seconds of a pass over one token and the drafts of each text, made after the drafter was called."""
    drafting: list[float]
    """Seconds of a call of the drafter, for all texts, after a pass."""
    accepted: list[int]
    judged: list[int]


class Passes(NamedTuple):
    """Passes over so many positions of each text: seconds, by repetition."""

    whole: list[float]
    calls: list[float]
    """Of the model with next to no weights: the time of the calls alone."""


class Measured(NamedTuple):
    """All that one process has measured."""

    threads: int
    bandwidth: float
    flops: float
    size: Model
    loops: dict[int, dict[int, float]]
    """Seconds that a round takes beside the pass and drafting, by texts and drafted tokens."""
    decodes: dict[int, dict[Way, Decodes]]
    passes: dict[int, dict[int, Passes]]

    def speedups(self, batch: int, way: Way) -> list[float]:
        """How many times as fast as plain decoding in the same repetition."""
        pairs = zip(self.decodes[batch][PLAIN].seconds, self.decodes[batch][way].seconds, strict=True)
        return [plain / drafted for plain, drafted in pairs]

    def by_parts(self, batch: int, way: Way) -> float:
        """The speedup by the times of the parts."""
        return self._seconds(batch, PLAIN) / self._seconds(batch, way)

    def _seconds(self, batch: int, way: Way) -> float:
        """Passes of the sizes that there were, their drafting, and the loop."""
        batches, (_, length) = sorted(self.decodes), way
        one_round = [
            median(self.decodes[size][way].passing)
            + median(self.decodes[size][way].drafting)
            + self.loops[size][length]
            for size in batches
        ]
        repeats = self.decodes[batch][way].texts
        taken = [np.interp(texts, batches, one_round).sum() for texts in repeats]
        return float(np.mean(taken))

    def acceptance(self, drafter: str) -> float:
        """How often a draft was accepted, if those before it were."""
        ways = [(way, one) for decodes in self.decodes.values() for way, one in decodes.items()]
        both = [one for (name, _), one in ways if name == drafter]
        return sum(sum(one.accepted) for one in both) / sum(sum(one.judged) for one in both)

    @property
    def hardware(self) -> Hardware:
        """The machine as the roofline knows it."""
        return Hardware(self.bandwidth, self.flops)

    def floor(self, batch: int, positions: int) -> float:
        """The time of a pass at the peaks of the machine."""
        options: Any = {"batch": batch, "positions": positions, "context": MIDDLE}
        return float(pass_time(self.size, self.hardware, **options))

    def roofline(self, batch: int, way: Way) -> float:
        """The speedup that the peaks of the machine allow."""
        drafter, length = way
        cost = median(self.decodes[batch][way].drafting) / length / self.floor(batch, 1)
        options: Any = {"batch": batch, "context": MIDDLE}
        acceptance = self.acceptance(drafter)
        return float(speedup_at_batch(acceptance, length, cost, self.size, self.hardware, **options))


def bench(target: str, drafters: Sequence[str]) -> Bench:
    """Load the models, and take beginnings of texts from plays that none of them has read."""
    llama = load(target)
    tokens = llama.tokenizer.encode(bundled_text())
    step = len(tokens) // max(BATCHES)
    texts = [tokens[i * step :][:MIDDLE] for i in range(max(BATCHES))]
    return Bench(llama, emptied(llama.llama.config), texts, {name: drafter(name) for name in drafters})


def drafter(name: str) -> Callable[[int], BatchDrafter]:
    """Return what makes the drafter of a bundled model, or of a folder, for so many slots."""
    if name.endswith("ngram"):
        oracle = load_ngram(name)
        return lambda _: each(lambda _: model(oracle))
    llama = load(name).llama
    return lambda slots: chains(BatchedLlama(llama, slots).batch)


def emptied(config: LlamaConfig) -> Llama:
    """A model that makes the same calls as one of that configuration, on rows of eight numbers."""
    small = replace(config, hidden_size=8, intermediate_size=8, head_dim=2)
    rng = np.random.default_rng(0)
    return Llama.of(small, {name: rng.normal(size=shape) for name, shape in weight_shapes(small).items()})


def timed(work: Callable[..., Any], *args: Any, **options: Any) -> tuple[float, Any]:
    """Seconds by the clock on the wall, and the result."""
    start = time.perf_counter()
    result = work(*args, **options)
    return time.perf_counter() - start, result


def samplers(seed: int, number: int) -> list[Sampler]:
    """A chance for each of several texts."""
    return [Sampler(np.random.default_rng((seed, i))) for i in range(number)]


def measure(on: Bench, batch: int, repeats: int) -> tuple[dict[Way, Decodes], dict[int, Passes]]:
    """Decode a batch plainly and with drafts, in turn, and time passes and drafting in between."""
    slots, empty = BatchedLlama(on.target.llama, batch), BatchedLlama(on.empty, batch)
    drafters = {name: make(batch) for name, make in on.drafters.items()}
    decodes = {way: Decodes([], [], [], [], [], []) for way in on.ways}
    passes = {length: Passes([], []) for length in (0, *LENGTHS)}
    idle = each(lambda _: model(on.target.oracle))
    for repeat in range(-1, repeats):  # the first one warms up
        texts = [on.texts[((repeat + 1) * batch + i) % len(on.texts)] for i in range(batch)]
        prompts = [text[:PROMPT] for text in texts]
        if repeat == 0:
            for one in (*decodes.values(), *passes.values()):
                for listed in one:
                    listed.clear()
        for way in on.ways if repeat % 2 else on.ways[::-1]:
            name, length = way
            slots.batch.ahead({slot: (prompt[:-1], (), ()) for slot, prompt in enumerate(prompts)})
            using = drafters.get(name, idle)
            using.propose(wanted(prompts, min(1, length)))  # a model reads the prompts
            took, made = timed(
                generate_batch,
                samplers(repeat + 1, batch),
                slots.batch,
                using,
                prompts,
                max_new_tokens=NEW_TOKENS,
                num_draft_tokens=length,
            )
            note(decodes[way], took, [text.rounds for text in made])
            passing, drafting = in_turn(slots, using, texts, length)
            decodes[way].passing.append(passing)
            decodes[way].drafting.append(drafting)
        for length, one in passes.items():
            one.whole.append(least(partial(one_pass, slots, texts, length)))
            one.calls.append(least(partial(one_pass, empty, texts, length)))
    return decodes, passes


def note(found: Decodes, took: float, texts: Sequence[Sequence[Round]]) -> None:
    """Keep what a decode has taken and brought."""
    rounds = [one for text in texts for one in text]
    found.seconds.append(took)
    found.texts.append([sum(len(text) > i for text in texts) for i in range(max(map(len, texts)))])
    found.accepted.append(sum(one.accepted for one in rounds))
    found.judged.append(found.accepted[-1] + sum(one.last == "residual" for one in rounds))


def wanted(texts: Sequence[tuple[int, ...]], length: int) -> dict[int, Wanted]:
    """What is asked of a drafter."""
    return {
        slot: Wanted(chance, text, length, {})
        for slot, (chance, text) in enumerate(zip(samplers(0, len(texts)), texts, strict=True))
    }


def in_turn(
    slots: BatchedLlama, using: BatchDrafter, texts: Sequence[tuple[int, ...]], length: int
) -> tuple[float, float]:
    """Seconds of a pass, and of the drafter's call before it, as they follow one another in rounds.

    Behind other contexts each turn, whose rows an n-gram makes then.
    """
    passing, drafting = [], []
    for turn in range(TURNS):
        asked = wanted([text[: len(text) - turn] for text in texts], length)
        drafting.append(timed(using.propose, asked)[0] if length else 0.0)
        passing.append(timed(one_pass, slots, texts, length, turn)[0])
    return median(passing[1:]), median(drafting[1:])


def one_pass(slots: BatchedLlama, texts: Sequence[tuple[int, ...]], length: int, turn: int) -> None:
    """Make a pass over one token and so many drafts in each slot, and take its rows, as a round does."""
    drafted = tuple(range(length))
    questions = {slot: ((*text, turn % 2), drafted, drafted) for slot, text in enumerate(texts)}
    slots.batch.ahead(questions)
    for slot, question in questions.items():
        slots.batch.oracles[slot].rows_after(*question)


def least(work: Callable[[int], Any]) -> float:
    """The least time of some turns."""
    return min([timed(work, turn)[0] for turn in range(TURNS)][1:])


def loop_seconds(on: Bench, batch: int, length: int) -> float:
    """What a round takes beside the pass and drafting: both are handed out again."""
    texts, (name, *_) = on.texts[:batch], on.drafters
    drafts = on.drafters[name](len(texts)).propose(wanted(texts, length))
    vocab_size, oracles = on.target.oracle.vocab_size, []
    for slot, text in enumerate(texts):
        rows = on.target.oracle.score(text, drafts[slot].tokens)
        oracles.append(Oracle(lambda _, rows=rows: rows[0], vocab_size, partial(first_rows, rows)))

    def propose(asked: Mapping[int, Wanted]) -> dict[int, Draft]:
        kept = {slot: want.num_draft_tokens for slot, want in asked.items()}
        return {slot: Draft(drafts[slot].tokens[:n], drafts[slot].probs[:n]) for slot, n in kept.items()}

    def turn(seed: int) -> float:
        took, made = timed(
            generate_batch,
            samplers(seed, len(texts)),
            Batch(tuple(oracles)),
            BatchDrafter(propose, vocab_size),
            texts,
            max_new_tokens=NEW_TOKENS,
            num_draft_tokens=length,
        )
        return took / sum(len(text.rounds) for text in made)  # of one text

    return batch * median(turn(seed) for seed in range(9))


def first_rows(rows: Sequence[Any], _: Any, tokens: Sequence[int], __: Any) -> Sequence[Any]:
    """Rows made before, as many as are asked for."""
    return rows[: 1 + len(tokens)]


def peaks(size: int, width: int) -> tuple[float, float]:
    """Bytes and operations a second in products with a matrix of as many weights as the model has.

    Each is the best of several numbers of rows: with many of them a product is not the fastest.
    """
    matrix = blocked(np.ones((width, size // width)), block_width())
    inputs = [np.ones((rows, width), dtype=np.float32) for rows in (1, 2, 4, 8, 16, 32)]
    seconds = {len(x): least(partial(times, x, matrix)) for x in inputs}
    flops = max(2 * rows * matrix.size / took for rows, took in seconds.items())
    return matrix.nbytes / min(seconds.values()), flops


def times(x: np.ndarray, matrix: np.ndarray, _: int) -> np.ndarray:
    """Multiply."""
    return product(x, matrix)


def weights_read(target: CachedLlama) -> int:
    """How many weights a pass reads: all but the embedding, of which it looks rows up."""
    llama = target.llama
    return sum(matrix.size for layer in llama.layers for matrix in layer) + llama.head.size


def measure_all(on: Bench, threads: int, repeats: int) -> Measured:
    """Measure all batches in this process."""
    config = on.target.llama.config
    keys = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    size = Model(weights_read(on.target), bytes_per_parameter=4, cache_bytes_per_token=4 * keys)
    before = peaks(size.parameters, config.hidden_size)
    both = {batch: measure(on, batch, repeats * (3 if batch <= 8 else 1)) for batch in BATCHES}
    bandwidth, flops = map(max, before, peaks(size.parameters, config.hidden_size))
    loops = {
        batch: {length: loop_seconds(on, batch, length) for length in (0, *LENGTHS)} for batch in BATCHES
    }
    decodes, passes = ({batch: one[i] for batch, one in both.items()} for i in (0, 1))
    return Measured(threads, bandwidth, flops, size, loops, decodes, passes)


def row(*cells: str) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def speedup_tables(runs: Sequence[Measured]) -> str:
    """Speedups, measured with quartiles and predicted: a table for each drafter and number of threads."""
    return "\n\n".join(speedup_table(run, name) for name in drafters_of(runs) for run in runs)


def drafters_of(runs: Sequence[Measured]) -> list[str]:
    """Names of the drafters, in order."""
    return [name for name in dict.fromkeys(name for name, _ in next(iter(runs[0].decodes.values()))) if name]


def caption(run: Measured, name: str) -> str:
    """What a table or a picture is about."""
    return f"{NAMES.get(name, name)}, {threads_of(run)}, acceptance {run.acceptance(name):.2f}"


def threads_of(run: Measured) -> str:
    """How many threads, in words."""
    return f"{run.threads} thread{'s' * (run.threads > 1)}"


def speedup_table(run: Measured, name: str) -> str:
    """The table of one drafter and number of threads."""
    columns = [part for k in LENGTHS for part in (f"k = {k}", "parts", "roofline")]
    lines = [f"{caption(run, name)}:", "", row("batch", "plain, tokens a second", *columns)]
    lines.append("|--:" * (2 + len(columns)) + "|")
    for batch, decodes in run.decodes.items():
        cells = [f"{batch}", f"{batch * NEW_TOKENS / median(decodes[PLAIN].seconds):,.0f}"]
        for length in LENGTHS:
            low, middle, high = quantiles(run.speedups(batch, (name, length)), n=4)
            predicted = run.by_parts(batch, (name, length)), run.roofline(batch, (name, length))
            cells += [f"{middle:.2f} ({low:.2f} to {high:.2f})", *(f"{speedup:.2f}" for speedup in predicted)]
        lines.append(row(*cells))
    return "\n".join(lines)


def bias(runs: Sequence[Measured]) -> str:
    """How far the parts are from what was measured, over all cases."""
    ratios = [
        run.by_parts(batch, (name, length)) / median(run.speedups(batch, (name, length)))
        for run in runs
        for name in drafters_of(runs)
        for batch in run.decodes
        for length in LENGTHS
    ]
    above, middle = sum(ratio > 1 for ratio in ratios), 100 * (median(ratios) - 1)
    cases = f"{above} of {len(ratios)} cases"
    return f"The parts are above what was measured in {cases}, by {middle:.0f} % in the middle."


def turns(runs: Sequence[Measured]) -> str:
    """The table of the last batch of those measured up to which drafts pay."""
    lines = [row("drafter", "threads", "k", "measured", "parts", "roofline"), "|---" + "|--:" * 5 + "|"]
    for name in drafters_of(runs):
        for run, length in ((run, length) for run in runs for length in LENGTHS):
            way = name, length
            by = (
                lambda batch, run=run, way=way: median(run.speedups(batch, way)),
                partial(run.by_parts, way=way),
                partial(run.roofline, way=way),
            )
            ends = [last_that_pays(run.decodes, speedup) for speedup in by]
            lines.append(row(NAMES.get(name, name), f"{run.threads}", f"{length}", *ends))
    return "\n".join(lines)


def last_that_pays(batches: Iterator[int] | Mapping[int, Any], speedup: Callable[[int], float]) -> str:
    """The last batch before the first that does not pay."""
    last = "none"
    for batch in batches:
        if speedup(batch) <= 1:
            break
        last = f"{batch}"
    return last


def pass_tables(runs: Sequence[Measured]) -> str:
    """Milliseconds of a pass, of its calls, and of its floor: a table for each number of threads."""
    names = [f"{1 + k} position{'s' * (k > 0)}" for k in (0, *LENGTHS)]
    tables = []
    for run in runs:
        lines = [f"{threads_of(run)}:", ""]
        lines.append(row("batch", *(f"{name} | calls | floor" for name in names)))
        lines.append("|--:" * (1 + 3 * len(names)) + "|")
        for batch, passes in run.passes.items():
            cells = [
                f"{1e3 * seconds:.2f}"
                for length, one in passes.items()
                for seconds in (median(one.whole), median(one.calls), run.floor(batch, 1 + length))
            ]
            lines.append(row(f"{batch}", *cells))
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def machine(runs: Sequence[Measured]) -> str:
    """The figures that the predictions are made from, in sentences."""
    told = []
    for run in runs:
        reading, computing = run.floor(1, 1), 2 * run.size.parameters / run.flops
        calls, loop = median(run.passes[1][0].calls), run.loops[1]
        told.append(
            f"With {threads_of(run)}, products read {run.bandwidth / 1e9:.0f} GB of weights a second or do "
            f"{run.flops / 1e9:.0f} billion operations; so a pass waits for arithmetic from "
            f"{reading / computing:.1f} positions on, and with the {1e6 * calls:.0f} µs of its calls from "
            f"{(reading + calls) / computing:.1f}. The loop takes {1e6 * loop[0]:.0f} µs a round of one "
            f"text plainly and {' or '.join(f'{1e6 * loop[k]:.0f}' for k in LENGTHS)} µs with "
            f"{' or '.join(map(str, LENGTHS))} drafts."
        )
    weights = f"The target has {runs[0].size.parameters / 1e6:.2f} million weights of 4 bytes."
    return fill(" ".join([weights, *told]), width=128)


def picture(runs: Sequence[Measured]) -> None:
    """Draw the measured speedups, and the two predictions beside them."""
    names = drafters_of(runs)
    figure, panels = plt.subplots(
        len(names),
        len(runs),
        figsize=(4.6 * len(runs), 3.4 * len(names)),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for (name, run), ax in zip(((name, run) for name in names for run in runs), panels.flat, strict=True):
        new_axes(ax, 0, 0)
        ax.axhline(1, color="black", linewidth=0.8)
        for length, colour in zip(LENGTHS, COLOURS, strict=False):
            way, batches = (name, length), list(run.decodes)
            found = np.array([quantiles(run.speedups(batch, way), n=4) for batch in batches])  # [batches, 3]
            arms = np.abs(found[:, [0, 2]] - found[:, [1]]).T
            look: Any = {"fmt": "o-", "markersize": 4, "capsize": 3, "color": colour}
            ax.errorbar(batches, found[:, 1], arms, label=f"{length} drafted", **look)
            ax.plot(batches, [run.by_parts(batch, way) for batch in batches], ":", color=colour)
            ax.plot(batches, [run.roofline(batch, way) for batch in batches], "--", color=colour)
        ax.set_xscale("log", base=2)
        ax.set_xticks(batches, map(str, batches))
        ax.set_title(caption(run, name), **TITLE)
        ax.legend(frameon=False)
    for ax in panels[:, 0]:
        ax.set_ylim(bottom=0)  # of its row, when all of it is drawn
    for ax in panels[-1]:
        ax.set_xlabel("texts side by side")
    figure.supylabel("speedup over plain decoding", fontsize=10)
    figure.savefig(PICTURE, dpi=120)
    plt.close(figure)


def to_json(run: Measured) -> str:
    """What a process hands on; ways become strings."""
    decodes = {
        batch: {f"{name} {length}": one for (name, length), one in ways.items()}
        for batch, ways in run.decodes.items()
    }
    size = run.size.parameters, run.size.bytes_per_parameter, run.size.cache_bytes_per_token
    return json.dumps(run._replace(decodes=decodes, size=size))


def of_json(text: str) -> Measured:
    """What a process has handed on."""
    threads, bandwidth, flops, size, loops, decodes, passes = json.loads(text)
    ways = {
        int(batch): {
            (name, int(length)): Decodes(*one)
            for way, one in found.items()
            for name, length in [way.rsplit(" ", 1)]
        }
        for batch, found in decodes.items()
    }
    by_length = {
        int(batch): {int(length): Passes(*one) for length, one in found.items()}
        for batch, found in passes.items()
    }
    numbers = {int(batch): {int(k): each for k, each in one.items()} for batch, one in loops.items()}
    return Measured(threads, bandwidth, flops, Model(*size), numbers, ways, by_length)


def run_with(threads: int, arguments: Sequence[str]) -> Measured:
    """Measure in a process whose BLAS has so many threads."""
    command = [sys.executable, __file__, "--measure-with", str(threads), *arguments]
    environment = {**os.environ, **dict.fromkeys(VARIABLES, str(threads))}
    return of_json(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    """Measure, draw, and put the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="shakespeare", help="a model's name, or a checkpoint folder")
    parser.add_argument("--drafters", nargs="+", default=list(NAMES), help="bundled models")
    parser.add_argument("--repeats", type=int, default=4, help="three times as many of batches up to 8")
    parser.add_argument("--measure-with", type=int, help="print what a process with so many threads measures")
    options = parser.parse_args()
    if options.measure_with:
        keep_freed_memory()
        on = bench(options.target, options.drafters)
        sys.stdout.write(to_json(measure_all(on, options.measure_with, options.repeats)))
        return
    runs = [run_with(threads, sys.argv[1:]) for threads in THREADS]
    picture(runs)
    blocks = {
        "machine": machine(runs),
        "speedups": speedup_tables(runs),
        "turns": turns(runs),
        "bias": bias(runs),
        "passes": pass_tables(runs),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, text in blocks.items():
        page = with_table(page, name, text)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
