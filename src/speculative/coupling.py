"""Couplings by shared noise: a seed fixes the text, and the drafter only how fast it comes.

Daliri, Musco and Suresh 2025, "Coupling without communication and drafter-invariant speculative decoding";
for several drafts Rowan, Phan and Khisti 2025, "List-level distribution coupling with applications to
speculative decoding and lossy compression". Noise depends on the seed and the position alone. With it an
oracle is certain of its token, and speculation is greedy decoding:

    generate(chance, race(seed)(target), draft.model(race(seed)(small)), verify=verify.greedy, ...)

Warps come before the noise, `race(seed)(temperature(0.7)(target))`, and each text has a seed of its own:
texts with one seed are not independent. `verify.gumbel` and `verify.minhash` accept by the same laws, worked
out, and draw from `chance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from speculative._numbers import count
from speculative.chance import Chance
from speculative.distribution import Context, Row, conditioned, point_mass
from speculative.draft.model import model
from speculative.draft.proposal import Drafter, DraftTree
from speculative.draft.siblings import Siblings
from speculative.oracle import Oracle, map_rows

__all__ = ["darts", "exponentials", "race", "race_paths"]

_WORDS = 1 << 64  # how many seeds there are, positions, and lanes


def race(seed: int, lanes: Sequence[int] = (0,)) -> Callable[[Oracle], Oracle]:
    """Return what makes an oracle certain of the token that wins a race of exponential times.

    Parameters
    ----------
    seed : int
        From 0 to 2^64 - 1.
    lanes : sequence of int
        Each lane has noise of its own. A token runs in all of them and its best time counts: a target that is
        to meet the drafts of `race_paths` with K oracles takes range(K).

    Returns
    -------
    callable
        Oracle -> oracle. At a context of n tokens, the token with the least time of position n over its
        probability gets probability 1.

    Raises
    ------
    ValueError
        For a seed or a lane that is none, and for no lanes.

    Notes
    -----
    **Law.** Over seeds, the token at each position has the law of the oracle's row there, given those before
    it, up to the grid of the noise, see `exponentials`. A token without probability never wins.
    """
    lanes = tuple(_word("lane", lane) for lane in lanes)
    if not lanes:
        raise ValueError("race got no lanes: give one or more, for example (0,)")
    return partial(map_rows, function=partial(_race, _word("seed", seed), lanes))


def darts(seed: int) -> Callable[[Oracle], Oracle]:
    """Return what makes an oracle certain of the token of the first dart that falls below its row.

    Parameters
    ----------
    seed : int
        From 0 to 2^64 - 1.

    Returns
    -------
    callable
        Oracle -> oracle. Darts are uniform on (token, height), the height from 0 to 1; on average V of them
        are thrown at a position.

    Notes
    -----
    **Law.** That of `race`: over seeds, the law of the row, up to the grid of the heights, 2^-52.
    """
    return partial(map_rows, function=partial(_first_dart, _word("seed", seed)))


def race_paths(seed: int, oracles: Sequence[Oracle]) -> Drafter:
    """Return a drafter of one chain per oracle, the k-th raced in lane k, merged where they begin alike.

    Parameters
    ----------
    seed : int
        That of the target, which is `race(seed, lanes=range(K))(target)`.
    oracles : sequence of K oracles
        Draft models of one vocabulary; K times the same one for K chains of it.

    Returns
    -------
    Drafter
        Of trees of at most K leaves; an oracle call per token of each chain.

    Raises
    ------
    ValueError
        For no oracles, and for different vocabularies.

    Notes
    -----
    **Law.** Given the seed every token is certain, and declared so. Over seeds the chains are independent,
    each with the law of its oracle. At the root some chain has the target's token with probability at least
    sum over j of K / (sum(max(p / p[j], q / q[j])) + (K - 1) / q[j]), p being the draft's row and q the
    target's (list matching lemma). Lanes whose chain has left the text go on running in the target's race, so
    that the text depends on the seed and on K, and on nothing else of the drafts. A target that dropped them
    would meet the drafts more often and write a text that depends on them.
    """
    if len({(oracle.vocab_size, oracle.vocabulary) for oracle in oracles}) != 1:
        sizes = [oracle.vocab_size for oracle in oracles]
        raise ValueError(f"race_paths got oracles of {sizes} tokens: give one or more, of one vocabulary")
    chains = [model(race(seed, (lane,))(oracle)) for lane, oracle in enumerate(oracles)]
    propose = partial(_merged, chains, oracles[0].vocab_size)
    return Drafter(propose, oracles[0].vocab_size, oracles[0].vocabulary)


def exponentials(seed: int, position: int, vocab_size: int, lane: int = 0) -> NDArray[np.float64]:
    """Return the times of all tokens at a position, (V,), finite and above 0.

    Parameters
    ----------
    seed, position, lane : int
        From 0 to 2^64 - 1. They alone say what the times are; token i has the same one in any vocabulary.
    vocab_size : int
        V.

    Raises
    ------
    ValueError
        For a seed, a position or a lane that is none.

    Notes
    -----
    **Law.** Over seeds independent, -log(u) with u uniform on the midpoints of 2^52 equal cells of (0, 1):
    exponential with mean 1 up to that grid. u is never 0 and never 1, so no time is infinite, and none is 0,
    with which a token without probability could win.
    """
    times: NDArray[np.float64] = -np.log(_uniforms(_noise(seed, position, lane).random_raw(vocab_size)))
    return times


def _noise(seed: int, position: int, lane: int) -> np.random.Philox:
    """Return a counter-based stream: keyed by seed and position, counted from the lane on."""
    key = np.array([_word("seed", seed), _word("position", position)], dtype=np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, 0, _word("lane", lane)], dtype=np.uint64))


def _uniforms(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    cells: NDArray[np.float64] = (words >> np.uint64(12)).astype(np.float64)
    return (cells + 0.5) * 2.0**-52


def _race(seed: int, lanes: Sequence[int], context: Context, row: Row) -> Row:
    times = np.min([exponentials(seed, len(context), len(row), lane) for lane in lanes], axis=0)
    with np.errstate(divide="ignore", over="ignore"):  # no probability, or next to none: infinitely late
        winner = (times / row.astype(np.float64)).argmin()
    return conditioned(row, np.array([winner]))


def _first_dart(seed: int, context: Context, row: Row) -> Row:
    noise, heights = _noise(seed, len(context), 0), row.astype(np.float64)
    while True:
        words = noise.random_raw((4 * len(row), 2))  # how many at a time changes nothing
        tokens = words[:, 0] % np.uint64(len(row))
        below = _uniforms(words[:, 1]) < heights[tokens]
        if below.any():
            return conditioned(row, tokens[[below.argmax()]])


def _merged(
    chains: Sequence[Drafter], vocab_size: int, chance: Chance, context: Context, num_draft_tokens: int
) -> DraftTree:
    nodes: dict[Context, int] = {(): 0}
    below: dict[int, dict[int, int]] = {}  # node: token: child
    for chain in chains:
        tokens = tuple(chain(chance, context, num_draft_tokens).tokens)
        for depth, token in enumerate(tokens):
            child = nodes.setdefault(tokens[: depth + 1], len(nodes))
            below.setdefault(nodes[tokens[:depth]], {})[token] = child
    parents = tuple(nodes[path[:-1]] for path in nodes if path)
    draws = {node: _certain(children, vocab_size) for node, children in below.items()}
    return DraftTree(tuple(path[-1] for path in nodes if path), parents, draws)


def _certain(children: dict[int, int], vocab_size: int) -> Siblings:
    """Return siblings none of which is drawn: the next is certain, whatever the row."""
    tokens = tuple(children)
    return Siblings(
        tuple(children.values()), tokens, point_mass(tokens[0], vocab_size), partial(_next, tokens)
    )


def _next(tokens: Context, row: Row, drawn: Sequence[int], _count: int) -> Row | None:
    return point_mass(tokens[len(drawn)], len(row)) if len(drawn) < len(tokens) else None


def _word(name: str, number: object) -> int:
    checked = count(name, number, 0)
    if checked >= _WORDS:
        raise ValueError(f"{name} = {number!r} is too large: give an int of at most 2^64 - 1")
    return checked
