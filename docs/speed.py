"""Measure what verifying costs and write the tables of the page on speed: `python docs/speed.py`."""

import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from speculative import (
    Oracle,
    autoregress,
    from_logits,
    from_probs,
    generate,
    law,
    rational,
    sample,
    speculate,
)
from speculative import paths as walks
from speculative.chance import Sampler
from speculative.distribution import Context, Row, point_mass
from speculative.draft import Draft, Drafter, DraftTree, model, paths, tree
from speculative.oracle import cached, softmax
from speculative.verify import VERIFIERS, Verifier
from speculative.warp import temperature

PAGE = Path(__file__).parent / "explanation" / "speed.md"
VOCAB_SIZES = (32, 32_000)
DEPTH = 4
"""k, the drafts on a path."""
NODES = (16, 64)
"""The sizes of trees: 4 and 16 paths of k drafts, less where they begin alike."""
ROUNDS = 5
"""How many drafts a verifier is measured on."""
SPEND = 0.5
"""Seconds for each figure."""
PROVED = {
    "token, a chain": ("token", model, 3),
    "recursive, 2 paths": ("recursive", partial(paths, num_paths=2), 2),
    "recursive, 3 paths": ("recursive", partial(paths, num_paths=3), 2),
    "recursive, 2 paths, depth 3": ("recursive", partial(paths, num_paths=2), 3),
    "recursive, pairs without replacement": ("recursive", partial(tree, branching=(2, 2)), 2),
    "transport, 2 paths": ("transport", partial(paths, num_paths=2), 2),
    "traversal, 2 paths": ("traversal", partial(paths, num_paths=2), 2),
}
"""What the exact law's time is measured on: the verifier, the drafter, the depth."""
LOOPS = {
    "`token`, 4 drafts": ("token", 4, "rows"),
    "`token`, 6 drafts": ("token", 6, "rows"),
    "`block`, 4 drafts": ("block", 4, "rows"),
    "`match`, 4 certain drafts": ("match", 4, "certain"),
    "`token`, 4 drafts, `from_logits`": ("token", 4, "logits"),
    "`token`, 4 drafts, `temperature(0.8)`": ("token", 4, "warped"),
    "the target alone": (None, 0, "rows"),
}
"""What the loop's time is measured on: the verifier, the drafts asked for, the models."""
LOOP_VOCAB_SIZE = 65
PROMPTS = (0, 70, 140, 210)
NEW_TOKENS = 32
LOOP_SPEND = 4.0
"""Seconds for each line, of short decodes, so that some are undisturbed by what else the processor does."""


class Drafted(NamedTuple):
    """What a verifier is given."""

    draft: Draft | DraftTree
    target_probs: Sequence[Row]


def pair(vocab_size: int, seed: int) -> tuple[Oracle, Oracle]:
    """Return a target and a draft that share most of their logits, another row after every context."""

    def logits(context: Context, of: int) -> Row:
        return np.random.default_rng((seed, of, *(token + 1 for token in context))).normal(size=vocab_size)

    def probs(context: Context, error: float) -> Row:
        weights = np.exp(2.5 * logits(context, 0) + error * logits(context, 1))
        return weights / weights.sum()

    return tuple(cached(from_probs(partial(probs, error=error), vocab_size)) for error in (0.0, 0.8))


def of_size(entry: Verifier, nodes: int) -> tuple[Callable[[Oracle], Drafter], int]:
    """Return the entry's own kind of drafter, made for about so many nodes, and its depth.

    A drafter of chains and one that is neither `paths` nor `tree` are taken as they are.
    """
    make = entry.make_drafter
    function, options = getattr(make, "func", make), getattr(make, "keywords", {})
    if function is paths:
        return partial(make, num_paths=nodes // DEPTH), DEPTH
    if function is tree and set(options.get("branching", ())) == {2}:
        depth = nodes.bit_length() - 2  # 2 + 4 + ... nodes: 14 and 62
        return partial(make, branching=(2,) * depth), depth
    return make, DEPTH


def is_of_trees(entry: Verifier) -> bool:
    """Whether the entry is measured on trees."""
    return entry.make_drafter is not model


@cache
def drafted(name: str, vocab_size: int, nodes: int, rounds: int = ROUNDS) -> tuple[Drafted, ...]:
    """Return drafts of the size for a verifier, each with the target's rows."""
    same = next(other for other in VERIFIERS if _kind(other) == _kind(name))
    if same != name:
        return drafted(same, vocab_size, nodes, rounds)
    make, depth = of_size(VERIFIERS[name], nodes)
    return tuple(_drafted(make, vocab_size, depth, seed) for seed in range(rounds))


def _kind(name: str) -> object:
    """Return what verifiers that can be measured on the same drafts have in common."""
    make = VERIFIERS[name].make_drafter
    return repr(make) if isinstance(make, partial) else make


def _drafted(make: Callable[[Oracle], Drafter], vocab_size: int, depth: int, seed: int) -> Drafted:
    target, small = pair(vocab_size, seed)
    draft = sample(make(small), (), depth, rng=seed)
    parents = draft.parents if isinstance(draft, DraftTree) else tuple(range(len(draft)))
    return Drafted(draft, target.score_tree((), draft.tokens, parents))


class Uniforms:
    """A generator's uniforms, drawn before the clock runs; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._left = iter(np.random.default_rng(seed).random(1_000).tolist())

    def random(self, dtype: object = None) -> float:  # noqa: ARG002 - as a generator has it
        """Return the next."""
        return next(self._left)


def seconds(name: str, one: Drafted, seed: int) -> float:
    """Return the time of one verification, in time of this process alone; its rows are new to it."""
    forget()
    verify, chance = VERIFIERS[name].function, Sampler(Uniforms(seed))
    start = time.process_time()
    verify(chance, *one)
    return time.process_time() - start


def forget() -> None:
    """Clear what verifiers remember of rows, which helps an enumeration and no generation."""
    for cached_function in _caches():
        cached_function.cache_clear()


@cache
def _caches() -> list[Any]:
    modules = [module for name, module in sys.modules.items() if name.startswith("speculative.verify.")]
    return [value for module in modules for value in vars(module).values() if hasattr(value, "cache_clear")]


def microseconds(name: str, rounds: Sequence[Drafted]) -> float:
    """Return the time of one verification, the mean over rounds of the least of many."""
    least = [seconds(name, one, seed) for seed, one in enumerate(rounds)]
    for _ in range(min(1_000, int(SPEND / sum(least)))):
        least = [
            min(before, seconds(name, one, seed))
            for seed, (before, one) in enumerate(zip(least, rounds, strict=True))
        ]
    return 1e6 * sum(least) / len(rounds)


def cell(name: str, vocab_size: int, nodes: int) -> str:
    """Return the time of a verifier, and how many times that of `token` it is, measured just before."""
    once = microseconds("token", drafted("token", vocab_size, DEPTH))
    try:
        took = microseconds(name, drafted(name, vocab_size, nodes))
    except ValueError:
        return "refused"
    times = took / once
    return f"{took:,.0f} ({times:.1f})" if times < 10 else f"{took:,.0f} ({times:,.0f})"


def of_chains() -> str:
    """Return the table of verifiers of chains."""
    names = [name for name, entry in VERIFIERS.items() if not is_of_trees(entry)]
    return _table(names, {f"V = {v:,}": partial(cell, vocab_size=v, nodes=DEPTH) for v in VOCAB_SIZES})


def of_trees() -> str:
    """Return the table of verifiers of trees."""
    names = [name for name, entry in VERIFIERS.items() if is_of_trees(entry)]
    columns = {
        f"V = {v:,}, {n} nodes": partial(cell, vocab_size=v, nodes=n) for v in VOCAB_SIZES for n in NODES
    }
    return _table(names, columns)


def _table(names: Sequence[str], columns: dict[str, Callable[[str], str]]) -> str:
    lines = ["| | " + " | ".join(columns) + " |", "|---" + "|--:" * len(columns) + "|"]
    for name in names:
        lines.append(f"| `{name}` | " + " | ".join(of(name) for of in columns.values()) + " |")
    return "\n".join(lines)


def dense_oracle(seed: int, vocab_size: int) -> Oracle:
    """Return an oracle of exact positive rows, another one after every context: every path has mass."""

    def row(context: Context) -> Row:
        weights = np.random.default_rng((seed, *(token + 1 for token in context))).integers(1, 20, vocab_size)
        return rational([f"{weight}/{weights.sum()}" for weight in weights])

    return cached(from_probs(row, vocab_size))


def proved(case: str, vocab_size: int = 3) -> tuple[Callable[[], object], int]:
    """Return a function that enumerates a round of the case, and how many paths it has."""
    name, make, depth = PROVED[case]
    options = {"num_draft_tokens": depth, "verify": VERIFIERS[name].function}
    parts = dense_oracle(1, vocab_size), make(dense_oracle(2, vocab_size))
    return partial(law, _tokens, *parts, **options), sum(1 for _ in walks(_tokens, *parts, **options))


def _tokens(*args: object, **options: object) -> Context:
    return speculate(*args, **options).tokens


def of_proofs() -> str:
    """Return the table of exact laws."""
    lines = ["| | depth | paths | paths per second | µs a path |", "|---|--:|--:|--:|--:|"]
    for case, (_, _, depth) in PROVED.items():
        enumerate_round, count = proved(case)
        took = []
        for _ in range(3):
            start = time.process_time()
            enumerate_round()
            took.append(time.process_time() - start)
        each = min(took) / count
        lines.append(f"| {case} | {depth} | {count:,} | {1 / each:,.0f} | {1e6 * each:.0f} |")
    return "\n".join(lines)


class Models(NamedTuple):
    """A target and a drafter that take no time: their rows are made before, one for each length."""

    target: Oracle
    drafter: Drafter


@cache
def instant(kind: str) -> Models:
    """Return models that agree on about .8 of the drafts.

    Of kind "rows" they hand out laws; of "logits", logits, one array for a pass, so that the softmax is in
    the loop's time; of "warped", laws to which temperature(0.8) is put; "certain" drafts the target's most
    probable tokens.
    """
    rng, length = (
        np.random.default_rng(0),
        PROMPTS[-1] + NEW_TOKENS + max(drafts for _, drafts, _ in LOOPS.values()),
    )
    logits = (8 if kind == "certain" else 2.5) * rng.normal(size=(length + 1, LOOP_VOCAB_SIZE))
    noisy = logits + 0.55 * rng.normal(size=logits.shape)
    if kind == "logits":
        parts = [
            from_logits(partial(_at, values), LOOP_VOCAB_SIZE, score_tree=partial(_from, values))
            for values in (logits, noisy)
        ]
    else:
        laws = [[softmax(row) for row in values] for values in (logits, noisy)]
        parts = [Oracle(partial(_at, rows), LOOP_VOCAB_SIZE, partial(_from, rows)) for rows in laws]
    if kind == "warped":
        parts = [temperature(0.8)(oracle) for oracle in parts]
    if kind == "certain":
        best = [int(row.argmax()) for row in logits]
        masses = [point_mass(token, LOOP_VOCAB_SIZE) for token in best]
        return Models(parts[0], Drafter(partial(_certain, best, masses), LOOP_VOCAB_SIZE))
    return Models(parts[0], model(parts[1]))


def _at(rows: Sequence[Row], context: Context) -> Row:
    return rows[len(context)]


def _from(rows: Sequence[Row], context: Context, tokens: Context, _parents: Context) -> Sequence[Row]:
    return rows[len(context) : len(context) + len(tokens) + 1]


def _certain(best: list[int], masses: list[Row], _: object, context: Context, num_draft_tokens: int) -> Draft:
    start = len(context)
    return Draft(tuple(best[start : start + num_draft_tokens]), masses[start : start + num_draft_tokens])


class Timed:
    """A function, and how long it ran for in all."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.seconds = function, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        start = time.perf_counter()
        returned = self._function(*args, **kwargs)
        self.seconds += time.perf_counter() - start
        return returned


class LoopTime(NamedTuple):
    """Seconds of one decode, by part, and what came out."""

    drafting: float
    verifying: float
    rest: float
    tokens: int
    rounds: int

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.drafting + self.verifying + self.rest


def decoded(case: str, prompt: int, seed: int) -> LoopTime:
    """Return the time of one decode."""
    name, num_draft_tokens, kind = LOOPS[case]
    models, context = instant(kind), tuple(token % LOOP_VOCAB_SIZE for token in range(prompt))
    if name is None:
        start = time.perf_counter()
        done = sample(autoregress, models.target, context, max_new_tokens=NEW_TOKENS, rng=seed)
        return LoopTime(0, 0, time.perf_counter() - start, len(done.tokens), len(done.rounds))
    propose, verify = Timed(models.drafter.propose), Timed(VERIFIERS[name].function)
    options = {"max_new_tokens": NEW_TOKENS, "num_draft_tokens": num_draft_tokens, "verify": verify}
    drafter = Drafter(propose, LOOP_VOCAB_SIZE)
    start = time.perf_counter()
    done = sample(generate, models.target, drafter, context, rng=seed, **options)
    whole = time.perf_counter() - start
    parts = propose.seconds, verify.seconds, whole - propose.seconds - verify.seconds
    return LoopTime(*parts, len(done.tokens), len(done.rounds))


def loop_time(case: str) -> LoopTime:
    """Return the sum over prompts of the least time of many decodes."""
    jobs = [(prompt, seed) for prompt in PROMPTS for seed in range(4)]
    least = {job: decoded(case, *job) for job in jobs}
    for _ in range(min(1_000, int(LOOP_SPEND / sum(each.seconds for each in least.values())))):
        for job in jobs:
            least[job] = min(least[job], decoded(case, *job), key=lambda one: one.seconds)
    return LoopTime(*map(sum, zip(*least.values(), strict=True)))


def of_loops() -> str:
    """Return the table of the loop's own time."""
    lines = [
        "| | tokens a round | drafting | verifying | the rest | together |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for case in LOOPS:
        took = loop_time(case)
        cells = [f"{1e6 * part / took.tokens:.1f}" for part in (*took[:3], took.seconds)]
        lines.append(f"| {case} | {took.tokens / took.rounds:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


TABLES = {"loops": of_loops, "chains": of_chains, "trees": of_trees, "proofs": of_proofs}


def with_table(page: str, name: str, text: str) -> str:
    """Return the page with the text between the comments of that name."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


def keep_freed_memory() -> None:
    """Free a large array: from then on the allocator keeps what is freed, as it does beside any model."""
    np.empty(3_000_000)


def main(*names: str) -> None:
    """Measure, and put the tables into the page; of all, or of those named."""
    keep_freed_memory()
    for name, made in TABLES.items():
        if not names or name in names:
            PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), name, made()), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
