"""An n-gram distilled from a model: for each context the mean of the model's rows after it, in few bytes.

What comes after a context in a text is one draw; the model's row there is the whole law. So the mean of its
rows is the same estimate as counts give, with far less noise, and of all n-grams it is the one with the least
KL(model || n-gram). `examples/training/ngram.py` makes the file.

The file holds the contexts as a tree that grows into the past from the empty one, level by level: `children`
is how many contexts one token longer each has, `tokens` that token, their first, in ascending order. A row is
written as its difference from the row of the context without its first token: of `entries` tokens, which are
`entry_tokens` in ascending order, the probability is (`entry_roots` / 255) squared; the others share what is
left as they do there, or 1e-4 where less is left. The row is divided by its sum, which is one but for the
rounding of the roots to bytes. Before the empty context all tokens are alike. All are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from speculative.distribution import Context, Row

__all__ = ["DistilledNgram", "read_distilled"]

KEPT = 20_000  # rows that are kept, made when they are first asked for
LEAST = 1e-4  # what the tokens that are not written share, if the others leave less
SLACK = 1e-3  # of a sum, for rows that were float32 before they were written

Bytes = NDArray[np.uint8]
TENSORS = ("children", "tokens", "entries", "entry_tokens", "entry_roots")


@dataclass(frozen=True, eq=False, repr=False)
class DistilledNgram:
    """A function from contexts to rows. Read by `read_distilled`."""

    vocab_size: int
    tokens: bytes  # [C]
    first: NDArray[np.intp]  # [C + 1] where the children of each context begin
    starts: NDArray[np.intp]  # [C + 1] where the entries of each context begin
    parents: NDArray[np.intp]  # [C] the context without its first token
    entry_tokens: NDArray[np.intp]  # [E]
    entry_probs: Row  # [E] as they are in the row
    shares: Row  # [C] what the tokens that are not written share in the row
    rows: dict[int, Row] = field(default_factory=dict)

    def __call__(self, context: Context) -> Row:
        """The law of the token after `context`, shape (V,), read-only."""
        node = 0
        for token in reversed(context):
            begin, end = self.first.item(node), self.first.item(node + 1)
            if (longer := self.tokens.find(token, begin, end)) < 0:
                break
            node = longer
        return self._row(node)

    def _row(self, node: int) -> Row:
        row = self.rows.get(node)
        if row is None:
            if len(self.rows) >= KEPT:
                self.rows.clear()
            row = self.rows[node] = self._made(node)
        return row

    def _made(self, node: int) -> Row:
        row: Row = self._row(self.parents.item(node)).copy() if node else np.ones(self.vocab_size)
        entries = slice(self.starts.item(node), self.starts.item(node + 1))
        written = self.entry_tokens[entries]
        row[written] = 0
        row *= self.shares.item(node) / (np.add.reduce(row) or 1)  # 0 where all tokens are written
        row[written] = self.entry_probs[entries]
        row.flags.writeable = False
        return row

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs; rows that are kept it makes itself."""
        return {**self.__dict__, "rows": {}}


def read_distilled(path: Path, vocab_size: int) -> DistilledNgram:
    """Read a file of a distilled n-gram.

    Parameters
    ----------
    path : Path
        A safetensors file with the five tensors of bytes.
    vocab_size : int
        Number of tokens V, 256 at most.

    Returns
    -------
    DistilledNgram

    Raises
    ------
    ValueError
        One line, for a file that is missing or damaged, for tensors that make no tree of contexts, and with
        the row's number for tokens that are outside the vocabulary, twice or out of order, and for
        probabilities that sum to more than one, or where all tokens are written to less.
    """
    if vocab_size > 256:
        raise ValueError(f"{path}: a vocabulary of {vocab_size} tokens: give 256 at most, tokens are bytes")
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} cannot be read ({error}): give the file of a distilled n-gram") from None
    for name in TENSORS:
        if name not in tensors or tensors[name].dtype != np.uint8 or tensors[name].ndim != 1:
            raise ValueError(f"{path} has no bytes named {name}: give the file of a distilled n-gram")
    children, tokens, entries, entry_tokens, entry_roots = (tensors[name] for name in TENSORS)
    first = np.concatenate([[1], 1 + np.cumsum(children, dtype=np.intp)])
    starts = np.concatenate([[0], np.cumsum(entries, dtype=np.intp)])
    contexts = len(tokens)
    if not contexts or len(children) != contexts or len(entries) != contexts or first[-1] != contexts:
        raise ValueError(f"{path}: children, tokens and entries make no tree of {contexts} contexts")
    if len(entry_tokens) != starts[-1] or len(entry_roots) != starts[-1] or not entry_roots.all():
        raise ValueError(f"{path}: entry_tokens and entry_roots are not {starts[-1]} positive entries each")
    for name in ("tokens", "entry_tokens"):
        if (largest := tensors[name].max(initial=0)) >= vocab_size:
            raise ValueError(f"{path}: {name} has the token {largest}, but the vocabulary has {vocab_size}")
    parents = np.repeat(np.arange(contexts), children)
    if (parents > np.arange(contexts - 1)).any():
        raise ValueError(f"{path}: children come before their contexts")
    _check_ascending(f"{path}: tokens behind context", first - 1, tokens[1:])
    _check_ascending(f"{path}: entry_tokens of row", starts, entry_tokens)
    _check_sums(f"{path}: entry_roots of row", starts, entry_roots, vocab_size)
    probs, counts = (entry_roots / 255) ** 2, np.diff(starts)
    sums = np.where(counts, np.add.reduceat(np.append(probs, 0), starts[:-1]), 0)
    shares = np.where(counts == vocab_size, 0, np.maximum(1 - sums, LEAST))
    shares, probs = shares / (sums + shares), probs / np.repeat(sums + shares, counts)
    parents = np.append(0, parents)
    return DistilledNgram(
        vocab_size, tokens.tobytes(), first, starts, parents, entry_tokens.astype(np.intp), probs, shares
    )


def _check_ascending(where: str, starts: NDArray[np.intp], tokens: Bytes) -> None:
    """Raise where the tokens of one row, which begins at its start, do not ascend."""
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    wrong = np.flatnonzero((tokens[1:] <= tokens[:-1]) & (row[1:] == row[:-1]))
    if len(wrong):
        place = wrong[0]
        raise ValueError(
            f"{where} {row[place]} have {tokens[place + 1]} behind {tokens[place]}: give each token once, in "
            "ascending order"
        )


def _check_sums(where: str, starts: NDArray[np.intp], roots: Bytes, vocab_size: int) -> None:
    """Raise where no law has probabilities that round to the ones written."""
    ends = [roots.astype(np.float64) + up for up in (-0.5, 0.5)]
    ends[0][roots == 1] = 0  # what is less is rounded up to 1
    least, most = (np.diff(np.append(0, np.cumsum((each / 255) ** 2))[starts]) for each in ends)
    full = np.diff(starts) == vocab_size
    wrong = np.flatnonzero((least > 1 + SLACK) | (full & (most < 1 - SLACK)))
    if len(wrong):
        row = wrong[0]
        raise ValueError(
            f"{where} {row} make probabilities that sum to {least[row]:.3f} at least and {most[row]:.3f} at "
            f"most: give {'a sum of 1' if full[row] else '1 or less'}"
        )
