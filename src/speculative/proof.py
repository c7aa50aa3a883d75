"""The claim: a block, continued by the target, has exactly the target's joint law. Proved by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from html import escape
from typing import Any, NamedTuple

from speculative._checks import check_parts
from speculative._numbers import count
from speculative.chance import Chance, Number
from speculative.decode import Verify, speculate
from speculative.distribution import Context
from speculative.draft.proposal import Propose
from speculative.laws import MAX_PATHS, Answer, Law, Path, law, paths
from speculative.oracle import Oracle, cached, check_vocabulary
from speculative.replay import ImpureProgramError, Progress, add
from speculative.verify.verdict import Carried


class Block(NamedTuple):
    """What a proof looks at in one round."""

    tokens: tuple[int, ...]
    accepted: int
    last: str
    carried: tuple[Carried, ...]


class _Emitted(NamedTuple):
    """What rounds have emitted so far, and what the next one is to be given."""

    tokens: Context
    carried: tuple[Carried, ...]


class Worst(NamedTuple):
    """The tokens that come out too often by the most, and the likeliest path to them in the first round."""

    tokens: tuple[int, ...]
    probability: Number
    target_probability: Number
    path: tuple[Answer, ...]


@dataclass(frozen=True)
class Proof:
    """How the output law of a verifier compares with the target's, and what a round brings.

    Parameters
    ----------
    distance : Fraction or float
        Total variation distance between the joint law of the first tokens and the target's own.
    exact : bool
        Whether every probability was rational; only then is a distance of 0 a proof.
    horizon : int
        How many tokens the joint law covers.
    output : Law
        The joint law of those tokens.
    tokens_per_target_pass : Fraction or float
        Expected tokens of the first round.
    survival : tuple
        survival[i] is the probability that at least i + 1 drafts are accepted.
    reached : tuple
        reached[i] is the probability that i drafts are accepted and one more is there to be judged.
    worst : Worst or None
        None where the distance is 0.
    """

    distance: Number
    exact: bool
    horizon: int
    output: Law
    tokens_per_target_pass: Number
    survival: tuple[Number, ...]
    reached: tuple[Number, ...]
    worst: Worst | None

    @property
    def lossless(self) -> bool:
        """Whether the output law was shown to equal the target's, in exact arithmetic."""
        return self.exact and self.distance == 0

    @property
    def expected_accepted(self) -> Number:
        """Expected number of accepted drafts per round."""
        return sum(self.survival)

    @property
    def acceptance_by_position(self) -> tuple[Number, ...]:
        """Acceptance at position i given that all before it were accepted; as far as any was reached."""
        pairs = zip(self.survival, self.reached, strict=True)
        return tuple(survival / reached for survival, reached in pairs if reached)

    def __repr__(self) -> str:
        verdict = "lossless" if self.lossless else f"distance {_shown(self.distance)}"
        kind = "exact" if self.exact else "float"
        return (
            f"Proof({verdict} over {self.horizon} tokens, {kind}; "
            f"{_shown(self.tokens_per_target_pass)} tokens per target pass)"
        )

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>{self.output._repr_html_()}"


def prove(
    verify: Verify,
    target: Oracle,
    drafter: Propose,
    context: Context = (),
    *,
    num_draft_tokens: int,
    rounds: int = 1,
    reference: Oracle | None = None,
    arithmetic: str | None = None,
    max_paths: int = MAX_PATHS,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Proof:
    """Compute the exact output law of a verifier and compare it with the target's.

    Parameters
    ----------
    verify : callable
        `verify(chance, draft, target_probs) -> Verdict`, or a plain sequence of the tokens emitted. Code
        written for a numpy generator becomes one through `with_generator`.
    target : Oracle
        The target; give rows of Fractions for an exact proof.
    drafter : callable
        The drafter, as for `speculate`.
    context : tuple of int
        Where the first round starts.
    num_draft_tokens : int
        Drafts per round, k.
    rounds : int
        Rounds before the target takes over. The joint law of `rounds * (k + 1)` tokens is compared. Where a
        verifier carries a change of the target, rounds go on until that is used up.
    reference : Oracle, optional
        The oracle whose law the output should have; the target itself by default. `temperature(0)(target)`
        for greedy verification, the exact target for a target in floats.
    arithmetic, max_paths, executor, progress
        As for `law`, for each round's enumeration.

    Returns
    -------
    Proof
    """
    num_draft_tokens, rounds = count("num_draft_tokens", num_draft_tokens, 0), count("rounds", rounds)
    check_parts(target, drafter, verify)
    target, context = cached(target), target.tokens(context)
    if reference is not None:
        check_vocabulary(target, reference)
    reference = target if reference is None else cached(reference)
    program = partial(
        _block, target=target, drafter=drafter, num_draft_tokens=num_draft_tokens, verify=verify
    )
    enumerate_round = partial(
        law, arithmetic=arithmetic, max_paths=max_paths, executor=executor, progress=progress
    )
    first = enumerate_round(program, context)
    emitted: Mapping[_Emitted, Number] = first.map(_emitted)
    known = {_Emitted((), ()): emitted}

    def following(past: _Emitted) -> Mapping[_Emitted, Number]:
        if past not in known:
            known[past] = enumerate_round(program, context + past.tokens, carried=past.carried).map(_emitted)
        return known[past]

    for _ in range(rounds - 1):
        emitted = _continued(emitted, following)
    horizon = rounds * (num_draft_tokens + 1)
    output = _topped_up(_settled(emitted, following, horizon), reference, context, horizon)
    wanted = _topped_up({(): Fraction(1)}, reference, context, horizon)
    distance = output.distance(wanted)
    return Proof(
        distance=distance,
        exact=output.exact and wanted.exact,
        horizon=horizon,
        output=output,
        tokens_per_target_pass=first.mean(lambda block: len(block.tokens)),
        survival=tuple(
            _share(first, i, lambda block, i: block.accepted > i) for i in range(num_draft_tokens)
        ),
        reached=tuple(
            _share(first, i, lambda block, i: block.accepted + (block.last == "residual") > i)
            for i in range(num_draft_tokens)
        ),
        worst=_worst(output, wanted, paths(program, context, arithmetic=arithmetic)) if distance else None,
    )


def _share(blocks: Law, position: int, condition: Callable[[Block, int], bool]) -> Number:
    return blocks.mean(lambda block: condition(block, position))


def _emitted(block: Block) -> _Emitted:
    return _Emitted(block.tokens, block.carried)


def _block(chance: Chance, context: Context, *, target: Oracle, drafter: Propose, **options: Any) -> Block:
    one = speculate(chance, target, drafter, context, **options)
    return Block(one.tokens, one.accepted, one.last, one.carried)


def _continued(
    emitted: Mapping[_Emitted, Number], following: Callable[[_Emitted], Mapping[_Emitted, Number]]
) -> dict[_Emitted, Number]:
    masses: dict[_Emitted, Number] = {}
    for past, probability in emitted.items():
        for more, share in following(past).items():
            add(masses, _Emitted(past.tokens + more.tokens, more.carried), probability * share)
    return masses


def _settled(
    emitted: Mapping[_Emitted, Number],
    following: Callable[[_Emitted], Mapping[_Emitted, Number]],
    horizon: int,
) -> Law:
    """Run rounds until nothing is carried or the horizon is reached; return the law of the tokens."""
    masses: dict[Context, Number] = {}
    while emitted:
        open_ended: dict[_Emitted, Number] = {}
        for past, probability in emitted.items():
            if past.carried and len(past.tokens) < horizon:
                open_ended[past] = probability
            else:
                add(masses, past.tokens[:horizon], probability)
        emitted = _continued(open_ended, following)
    return Law(masses)


def _topped_up(emitted: Mapping[Context, Number], reference: Oracle, context: Context, horizon: int) -> Law:
    """Let the reference continue every sequence shorter than the horizon, one token at a time."""
    masses = dict(emitted)
    for length in range(horizon):
        for tokens in [tokens for tokens in masses if len(tokens) == length]:
            probability = masses.pop(tokens)
            for following, share in enumerate(reference(context + tokens).tolist()):
                if share:
                    add(masses, (*tokens, following), probability * share)
    return Law(masses)


def _worst(output: Law, wanted: Law, walks: Iterator[Path]) -> Worst:
    tokens = max(output, key=lambda tokens: output[tokens] - wanted.get(tokens, 0))
    leading = [path for path in walks if path.outcome.tokens == tokens[: len(path.outcome.tokens)]]
    if not leading:
        raise ImpureProgramError(
            f"a second run down every path never emitted {tokens}, as the first one did: the verifier or "
            "the drafter keeps state between runs or draws by itself; draw from `chance` only"
        )
    likeliest = max(leading, key=lambda path: path.probability)
    return Worst(tokens, output[tokens], wanted.get(tokens, Fraction(0)), likeliest.answers)


def _shown(number: Number) -> str:
    text, decimal = str(number), f"{float(number):.6g}"
    as_fraction = "/" in text and len(text) <= 12
    return f"{text} = {decimal}" if as_fraction else decimal
