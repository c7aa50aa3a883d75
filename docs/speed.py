"""Measure what verifying costs and write the tables of the page on speed: `python docs/speed.py`."""

import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from speculative import Oracle, from_probs, law, rational, sample, speculate
from speculative import paths as walks
from speculative.chance import Sampler
from speculative.distribution import Context, Row
from speculative.draft import Draft, Drafter, DraftTree, model, paths, tree
from speculative.oracle import cached
from speculative.verify import VERIFIERS, Verifier

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


TABLES = {"chains": of_chains, "trees": of_trees, "proofs": of_proofs}


def with_table(page: str, name: str, text: str) -> str:
    """Return the page with the text between the comments of that name."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


def keep_freed_memory() -> None:
    """Free a large array: from then on the allocator keeps what is freed, as it does beside any model."""
    np.empty(3_000_000)


def main() -> None:
    """Measure, and put the tables into the page."""
    keep_freed_memory()
    for name, made in TABLES.items():
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), name, made()), encoding="utf-8")


if __name__ == "__main__":
    main()
