"""How long a pass takes, and from which batch size speculation stops paying.

Verifying k + 1 positions costs about what one position costs as long as a pass is bound by reading the
weights: they are read once, however many positions use them. The arithmetic grows with every position of
every sequence, and from some batch size on it is what a pass waits for. Then drafting adds work and saves
nothing.

Units: bytes, floating-point operations (a multiplication and an addition are two), seconds.
"""

import math
from dataclasses import dataclass

from speculative._numbers import Number, count, number, positive
from speculative.cost import speedup, tokens_per_round

__all__ = ["HARDWARE", "Hardware", "Model", "break_even_batch", "pass_time", "speedup_at_batch"]


@dataclass(frozen=True)
class Model:
    """A model, as far as the time of a pass depends on it."""

    parameters: Number
    """Number of weights."""
    bytes_per_parameter: Number = 2
    """Bytes a weight takes in memory: 2 for 16-bit floats, 0.5 for 4-bit integers."""
    cache_bytes_per_token: Number = 0
    """Bytes of keys and values kept per token of context, all layers together."""

    def __post_init__(self) -> None:
        positive("parameters", self.parameters)
        positive("bytes_per_parameter", self.bytes_per_parameter)
        number("cache_bytes_per_token", self.cache_bytes_per_token, 0)


@dataclass(frozen=True)
class Hardware:
    """A machine, as far as the time of a pass depends on it."""

    bandwidth: Number
    """Bytes read from memory per second."""
    flops: Number
    """Operations per second in the number format of the model."""

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)
        positive("flops", self.flops)


HARDWARE = {
    "A100": Hardware(bandwidth=2.039e12, flops=312e12),
    "H100": Hardware(bandwidth=3.35e12, flops=989e12),
}
"""Data-sheet peaks of two accelerators (80 GB, SXM, dense 16-bit arithmetic); programs reach less."""


def _seconds(model: Model, hardware: Hardware, context: int) -> tuple[Number, Number, Number]:
    """Return the time to read the weights, to read one sequence's cache, and of one position's arithmetic."""
    parameters, bandwidth = number("parameters", model.parameters), number("bandwidth", hardware.bandwidth)
    weights = parameters * number("bytes_per_parameter", model.bytes_per_parameter) / bandwidth
    cache = count("context", context, 0) * number("cache", model.cache_bytes_per_token) / bandwidth
    return weights, cache, 2 * parameters / number("flops", hardware.flops)


def pass_time(
    model: Model, hardware: Hardware, *, batch: int = 1, positions: int = 1, context: int = 0
) -> Number:
    """Seconds for one forward pass: the longer of memory traffic and arithmetic.

    Parameters
    ----------
    model : Model
        Its weights and cache.
    hardware : Hardware
        Its bandwidth and arithmetic.
    batch : int, at least 1
        Sequences computed together.
    positions : int, at least 1
        New tokens per sequence: 1 in plain decoding, `num_draft_tokens + 1` in verification.
    context : int, at least 0
        Earlier tokens per sequence, whose keys and values are read.

    Returns
    -------
    number
        `max(w + batch * m, batch * positions * f)`, with w = parameters * bytes_per_parameter / bandwidth,
        m = context * cache_bytes_per_token / bandwidth and f = 2 * parameters / flops.

    Notes
    -----
    A floor, not a forecast. Every weight is used for every token (no mixture of experts); traffic and
    arithmetic overlap perfectly; the arithmetic of attention, activations, writing the cache, communication
    between devices and launch times are left out. The roofline model is Williams, Waterman and Patterson
    2009.
    """
    weights, cache, arithmetic = _seconds(model, hardware, context)
    batch = count("batch", batch)
    return max(weights + batch * cache, batch * count("positions", positions) * arithmetic)


def speedup_at_batch(
    acceptance: Number,
    num_draft_tokens: int,
    cost: Number,
    target: Model,
    hardware: Hardware,
    *,
    batch: int = 1,
    context: int = 0,
) -> Number:
    """Speed over plain decoding of the same batch, each pass taking its `pass_time`.

    Parameters
    ----------
    acceptance : number in [0, 1]
        Probability that a draft is accepted, the same at every position and independent.
    num_draft_tokens : int, at least 1
        Drafted tokens per round and sequence, k.
    cost : number, at least 0
        Time of one draft pass over time of one target pass over one position, at the same batch size. A
        draft with a tenth of the weights and a tenth of the cache moves and computes a tenth: 0.1 at every
        batch size.
    target, hardware, batch, context
        As in `pass_time`.

    Returns
    -------
    number
        `tokens_per_round * t(1) / (k * cost * t(1) + t(k + 1))`, where t(n) is the time of a target pass
        over n positions per sequence. It is `cost.speedup` while verification is bound by traffic, and `1 /
        cost.operations_factor(acceptance, k, cost)` once plain decoding is bound by arithmetic.

    Notes
    -----
    Every sequence keeps the tokens it got: none waits for the shortest of the batch.
    """
    drafted = count("num_draft_tokens", num_draft_tokens)
    plain = pass_time(target, hardware, batch=batch, context=context)
    verification = pass_time(target, hardware, batch=batch, positions=drafted + 1, context=context)
    return speedup(acceptance, drafted, cost, verification=verification / plain)


def break_even_batch(
    acceptance: Number,
    num_draft_tokens: int,
    cost: Number,
    target: Model,
    hardware: Hardware,
    *,
    context: int = 0,
) -> int | None:
    """The batch size from which speculation stops paying.

    Parameters
    ----------
    acceptance, num_draft_tokens, cost, target, hardware, context
        As in `speedup_at_batch`.

    Returns
    -------
    int or None
        The smallest batch size with `speedup_at_batch <= 1`: 1 if it does not even pay for one sequence,
        None if it pays at every size (a long context keeps the pass bound by traffic, which grows with the
        batch too).

    Notes
    -----
    With the w, m and f of `pass_time` and T tokens per round, speculation pays while verification
    takes less than `T - k * cost` plain passes. What it takes never falls as the batch B grows. Where it
    takes just that, and that is more than 1, verification waits for arithmetic and plain decoding for
    traffic, so `B (k + 1) f = (T - k * cost) (w + B m)`, which is solved for B.
    """
    drafted = count("num_draft_tokens", num_draft_tokens)
    budget = tokens_per_round(acceptance, drafted) - drafted * number("cost", cost, 0)
    weights, cache, arithmetic = _seconds(target, hardware, context)
    if budget <= 1:
        return 1
    slope = (drafted + 1) * arithmetic - budget * cache
    return math.ceil(budget * weights / slope) if slope > 0 else None
