"""An n-gram distilled from the target: the mean of the target's rows after each context, in few bytes.

Counting what came next after a context and averaging the target's rows there estimate the same law; the mean
has far less noise, and is what minimises KL(target || n-gram). Let h be a context, h' the same without its
first token, S(h) the sum of the target's rows at the c(h) places where h occurs. The row is

    r(h) = (S(h) + a r(h')) / (c(h) + a)        r of nothing = 1/V

Contexts that gain too little over h' are left out, and a row that is kept is written as its difference: some
tokens with their probabilities, and for the others the row of h' (as it is read back), scaled to fill up to
one. An entry takes two bytes and a context three; each has to save `price` drafts per byte from being
rejected, over the training text.

`speculative.model.distilled` says what the file holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speculative.model.distilled import LEAST, TENSORS

BURN_IN = 16  # places at the start of a window whose rows saw too little before them
SHORTEST = 4  # occurrences of a context that is considered at all


class Level(NamedTuple):
    """The contexts of one length. A key is a number in base V whose first digit is the last token."""

    keys: NDArray[np.int64]  # [C] sorted
    parents: NDArray[np.int64]  # [C] the places of h' in the level before
    counts: NDArray[np.int64]  # [C]
    rows: NDArray[np.float32]  # [C, V]


def nothing(vocab: int) -> Level:
    """What the empty context is an extension of: the uniform law."""
    zero = np.zeros(1, np.int64)
    return Level(zero, zero, zero, np.full((1, vocab), 1 / vocab, np.float32))


def keys_of(windows: NDArray, length: int, first: int, vocab: int) -> NDArray[np.int64]:
    """The keys of the contexts that end at the places from `first` on, shape [N, T - first]."""
    stop = windows.shape[1] - 1
    keys = np.zeros((len(windows), stop - first), np.int64)
    for back in range(length):
        keys = keys * vocab + windows[:, first - back : stop - back]
    return keys


def fit(windows: NDArray, rows: NDArray, longest: int, weight: float) -> list[Level]:
    """The smoothed model, before anything is left out; `weight` is a."""
    vocab, places = rows.shape[-1], rows.shape[1] - BURN_IN
    keys = keys_of(windows, longest, BURN_IN, vocab).ravel()
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, counts = keys[starts], np.diff(starts, append=len(keys))
    sums = np.empty((len(keys), vocab), np.float32)
    for some in np.array_split(np.arange(len(keys)), len(keys) // 50_000 + 1):
        here = order[starts[some[0]] : starts[some[-1]] + counts[some[-1]]]
        found = rows[here // places, here % places + BURN_IN].astype(np.float32)
        sums[some] = np.add.reduceat(found, starts[some] - starts[some[0]])
    levels = [(keys, counts, sums)]
    for _ in range(longest):
        keys, counts, sums = levels[-1]
        starts = np.flatnonzero(np.diff(keys // vocab, prepend=-1))
        shorter = keys[starts] // vocab, np.add.reduceat(counts, starts), np.add.reduceat(sums, starts)
        levels[-1] = tuple(each[counts >= SHORTEST] for each in levels[-1])
        levels.append(shorter)
    model = [nothing(vocab)]
    for keys, counts, sums in reversed(levels):
        parents = np.searchsorted(model[-1].keys, keys // vocab)
        smoothed = (sums + weight * model[-1].rows[parents]) / (counts + weight)[:, None]
        model.append(Level(keys, parents, counts, smoothed))
    return model[1:]


def with_rows(level: Level, oracle: Callable, length: int) -> Level:
    """The same contexts, all of one length, with the rows of another model."""
    vocab = level.rows.shape[1]
    contexts = level.keys[:, None] // vocab ** np.arange(length) % vocab
    rows = [oracle(tuple(context)) for context in contexts.tolist()]
    return level._replace(rows=np.array(rows, np.float32))


def encode_within(levels: list[Level], limit: int) -> dict[str, NDArray[np.uint8]]:
    """The tensors at the lowest price, to a tenth, at which they take `limit` bytes or less."""
    low, high = 1e-3, 1e2
    while high > 1.1 * low:
        middle = (low * high) ** 0.5
        if sum(each.nbytes for each in encode(levels, middle).values()) <= limit:
            high = middle
        else:
            low = middle
    return encode(levels, high)


def encode(levels: list[Level], price: float) -> dict[str, NDArray[np.uint8]]:
    """The tensors of the file: what is worth its bytes at this price."""
    keep = worth(levels, price)
    vocab = levels[0].rows.shape[1]
    columns: dict[str, list[NDArray]] = {name: [] for name in TENSORS}
    before, place = nothing(vocab).rows, np.zeros(1, np.int64)
    for level, kept in zip(levels, keep, strict=True):
        parents, rows = place[level.parents[kept]], level.rows[kept]
        if columns["tokens"]:
            columns["children"].append(np.bincount(parents, minlength=len(before)))
        written = difference(rows, before[parents], level.counts[kept], price)
        which, token = np.nonzero(written)
        roots = np.maximum(np.rint(255 * np.sqrt(rows[which, token])), 1)
        columns["tokens"].append(level.keys[kept] % vocab)
        columns["entries"].append(written.sum(1))
        columns["entry_tokens"].append(token)
        columns["entry_roots"].append(roots)
        before = rebuilt(before[parents], which, token, roots)
        place = np.cumsum(kept) - 1
    columns["children"].append(np.zeros(len(before)))
    return {name: np.concatenate(parts).astype(np.uint8) for name, parts in columns.items()}


def worth(levels: list[Level], price: float) -> list[NDArray[np.bool_]]:
    """Which contexts are kept: those that gain their bytes, and all that a kept one is an extension of."""
    keep = [np.ones(1, bool)]
    for level, shorter in zip(levels[1:], levels, strict=False):
        before = shorter.rows[level.parents]
        written = difference(level.rows, before, level.counts, price)
        gain = level.counts * np.abs(level.rows - before).sum(1) / 2
        keep.append(gain >= price * (3 + 2 * written.sum(1)))
    for level, kept, shorter in zip(levels[:0:-1], keep[:0:-1], keep[-2::-1], strict=True):
        shorter[level.parents[kept]] = True
    return keep


def difference(rows: NDArray, before: NDArray, counts: NDArray, price: float) -> NDArray[np.bool_]:
    """Which tokens of each row are written, shape [C, V]."""
    written = np.zeros(rows.shape, bool)
    for _ in range(3):  # the factor of the others depends on which these are
        factor = (1 - (rows * written).sum(1)) / (1 - (before * written).sum(1)).clip(1e-6)
        written = counts[:, None] * np.abs(rows - factor[:, None] * before) >= 4 * price
    return written


def rebuilt(before: NDArray, which: NDArray, token: NDArray, roots: NDArray) -> NDArray[np.float32]:
    """Rows as they are read back, from the rows of h' and the entries, token by token."""
    rows = before.astype(np.float32)
    rows[which, token] = 0
    probs = (roots.astype(np.float32) / 255) ** 2
    left = (1 - np.bincount(which, probs, len(rows))).clip(LEAST)
    rows *= (left / rows.sum(1).clip(1e-9))[:, None]
    rows[which, token] = probs
    return rows / rows.sum(1, keepdims=True)


def decode(tensors: dict[str, NDArray[np.uint8]], vocab: int) -> list[Level]:
    """The model as it is read back."""
    children, tokens, entries, entry_tokens, entry_roots = (tensors[name] for name in TENSORS)
    ends = np.cumsum(entries, dtype=np.int64)
    levels, parents, start = [nothing(vocab)], np.zeros(1, np.int64), 0
    while len(parents):
        here = slice(start, start + len(parents))
        mine = slice(ends[start] - entries[start], ends[here.stop - 1])
        which = np.repeat(np.arange(len(parents)), entries[here])
        rows = rebuilt(levels[-1].rows[parents], which, entry_tokens[mine], entry_roots[mine])
        keys = levels[-1].keys[parents] * vocab + tokens[here]
        levels.append(Level(keys, parents, np.zeros(len(keys)), rows))
        parents, start = np.repeat(np.arange(len(parents)), children[here]), here.stop
    return levels[1:]


def look_up(levels: list[Level], windows: NDArray, first: int) -> NDArray[np.float32]:
    """The rows at the places from `first` on, shape [N, T - first, V]."""
    vocab = levels[0].rows.shape[1]
    longest = len(levels) - 1
    keys = keys_of(windows, longest, first, vocab)
    rows = np.empty((*keys.shape, vocab), np.float32)
    for length, level in enumerate(levels):
        wanted = keys // vocab ** (longest - length)
        places = np.searchsorted(level.keys, wanted).clip(max=len(level.keys) - 1)
        known = level.keys[places] == wanted
        rows[known] = level.rows[places[known]]
    return rows
