"""Small exact instances on which verifiers are proved, and the check over all of them.

No single pair of laws sees every fault: with some, a reused uniform is invisible, with others a residual
from the wrong row. So there is a battery: zeros, ties, near-equal and equal rows, one-hot rows, disjoint
supports, at least three tokens, and another law after every context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from speculative.decode import Verify
from speculative.distribution import Context, rational
from speculative.draft import Drafter, model
from speculative.draft.proposal import Propose
from speculative.laws import MAX_PATHS
from speculative.oracle import Oracle, table
from speculative.proof import Proof, prove
from speculative.replay import Progress
from speculative.warp import Warp

Laws = Mapping[Context, str]


@dataclass(frozen=True)
class Instance:
    """A target and a draft given by tables, and how many tokens are drafted.

    Parameters
    ----------
    name : str
        What it is there for.
    target_laws, draft_laws : mapping from context to str
        One row each, its probabilities as fractions with spaces between: "1/2 1/3 1/6". A context is looked
        up by its longest suffix in the table.
    num_draft_tokens : int
        k.
    rounds : int
        How many rounds are proved.
    """

    name: str
    target_laws: Laws
    draft_laws: Laws
    num_draft_tokens: int
    rounds: int = 1

    @property
    def target(self) -> Oracle:
        """The target as an oracle with exact rows."""
        return _oracle(self.target_laws)

    @property
    def draft(self) -> Oracle:
        """The draft model as an oracle with exact rows."""
        return _oracle(self.draft_laws)

    @property
    def drafter(self) -> Drafter:
        """The draft model as a drafter that samples a chain."""
        return model(self.draft)

    def prove(
        self,
        verify: Verify,
        *,
        warp: Warp | None = None,
        make_drafter: Callable[[Oracle], Propose] = model,
        **options: Any,
    ) -> Proof:
        """Return `prove` of a verifier on this instance; the arguments are those of `proofs`."""
        return prove(
            verify,
            self.target,
            make_drafter(self.draft),
            num_draft_tokens=self.num_draft_tokens,
            rounds=self.rounds,
            reference=None if warp is None else warp(self.target),
            **options,
        )

    def code(self, verify: str = "verify.token") -> str:
        """Return Python source that proves a verifier on this instance, to be pasted."""
        return (
            "from speculative import verify\n"
            "from speculative.battery import Instance\n\n"
            f"instance = Instance(\n    {self.name!r},\n    target_laws={dict(self.target_laws)!r},\n"
            f"    draft_laws={dict(self.draft_laws)!r},\n    num_draft_tokens={self.num_draft_tokens},\n"
            f"    rounds={self.rounds},\n)\nprint(instance.prove({verify}))\n"
        )


def _oracle(laws: Laws) -> Oracle:
    return table({context: rational(row.split()) for context, row in laws.items()})


def random_instance(seed: int, vocab_size: int, num_draft_tokens: int, *, rounds: int = 1) -> Instance:
    """Return an instance with small random laws, another one after every last two tokens.

    Zeros and ties are frequent; the same seed gives the same instance.
    """
    rng = np.random.default_rng(seed)
    contexts: list[Context] = [(), *((i,) for i in range(vocab_size))]
    contexts += [(i, j) for i in range(vocab_size) for j in range(vocab_size)]

    def laws() -> dict[Context, str]:
        rows = {}
        for context in contexts:
            weights = rng.integers(0, 6, vocab_size)
            weights[rng.integers(vocab_size)] += 1
            rows[context] = " ".join(f"{weight}/{weights.sum()}" for weight in weights)
        return rows

    name = f"random, V={vocab_size}, k={num_draft_tokens}"
    return Instance(name, laws(), laws(), num_draft_tokens, rounds)


BATTERY = (
    Instance("no drafts", {(): "1/2 1/3 1/6"}, {(): "1/3 1/3 1/3"}, 0),
    Instance("four tokens, disjoint in part", {(): ".10 .60 .30 0"}, {(): ".50 .05 .25 .20"}, 1),
    Instance("four tokens, overlapping", {(): ".10 .60 .30 0"}, {(): ".50 .20 .10 .20"}, 1),
    Instance("disjoint supports", {(): "0 0 1/3 2/3"}, {(): "1/4 3/4 0 0"}, 1),
    Instance("equal laws", {(): "1/5 1/5 3/5"}, {(): "1/5 1/5 3/5"}, 2),
    Instance(
        "all but equal",
        {(): "333333/1000000 333333/1000000 333334/1000000"},
        {(): "333334/1000000 333333/1000000 333333/1000000"},
        2,
    ),
    Instance(
        "one-hot rows",
        {(): "0 1 0", (1,): "1/2 0 1/2", (0,): "0 0 1", (2,): "1/3 1/3 1/3"},
        {(): "1/3 1/3 1/3", (1,): "1 0 0", (0,): "1/4 1/4 1/2", (2,): "0 1 0"},
        2,
    ),
    Instance(
        "another law after every token",
        {(): "1/2 3/10 1/5", (0,): "1/5 1/5 3/5", (1,): "0 7/10 3/10", (2,): "2/5 2/5 1/5"},
        {(): "1/5 3/10 1/2", (0,): "3/5 1/5 1/5", (1,): "1/3 1/3 1/3", (2,): "1/10 1/10 4/5"},
        2,
        rounds=2,
    ),
    Instance(
        "eight tokens",
        {(): "1/36 2/36 3/36 4/36 5/36 6/36 7/36 8/36"},
        {(): "0 0 0 1/10 2/10 2/10 2/10 3/10"},
        1,
    ),
    Instance(
        "a law that looks three tokens back",
        {(): "1/2 1/4 1/4", (0, 0, 0): "0 1/2 1/2"},
        {(): "1/2 1/2 0"},
        3,
    ),
    Instance(
        "ratios near zero",
        {(): "1/1000000000 1/100 989999999/1000000000 0"},
        {(): "1/3 1/3 1/6 1/6"},
        1,
    ),
    Instance(
        "a draft that is all but certain",
        {(): "1/2 3/10 1/5"},
        {(): "9995/10000 3/10000 2/10000"},
        2,
    ),
    Instance(
        "drafts of small probability",
        {(): "4/4000 8/4000 1988/4000 2000/4000"},
        {(): "2/4000 1/4000 1997/4000 2000/4000"},
        1,
    ),
    Instance(
        "a first draft that is mostly refused",
        {(): "1/40 1/2 19/40", (0,): "1/2 1/4 1/4", (1,): "1/5 2/5 2/5", (2,): "1/50 24/50 1/2"},
        {(): "1/2 1/4 1/4", (0,): "1/10 3/10 3/5", (1,): "3/5 1/5 1/5", (2,): "2/5 2/5 1/5"},
        2,
    ),
    random_instance(1, 3, 2, rounds=2),
    random_instance(2, 3, 3),
    random_instance(3, 4, 3),
    random_instance(4, 5, 2),
    Instance("five drafts", {(): "1/2 1/2 0"}, {(): "1/4 3/4 0"}, 5),
    random_instance(5, 3, 5),
    random_instance(6, 9, 2),
)
"""From small to large, so that the first one a verifier fails on is the simplest."""

TREE_BATTERY = tuple(
    replace(instance, rounds=1)
    for instance in BATTERY
    if instance.num_draft_tokens <= 3 and instance.target.vocab_size * instance.num_draft_tokens <= 10
)
"""Those that can be enumerated on a tree of two paths in seconds, for one round each."""


def proofs(
    verify: Verify,
    *,
    warp: Warp | None = None,
    make_drafter: Callable[[Oracle], Propose] = model,
    instances: Iterable[Instance] = BATTERY,
    max_paths: int = MAX_PATHS,
    progress: Callable[[Instance], Progress | None] = lambda _: None,
) -> Iterator[tuple[Instance, Proof]]:
    """Prove a verifier on each instance, one after the other.

    Parameters
    ----------
    verify : callable
        A verifier, as for `prove`.
    warp : Warp, optional
        The warp under which the target is to be reproduced: `temperature(0)` for greedy verification.
    make_drafter : callable
        Makes a drafter of the draft model's oracle: `draft.model`, or your own to prove that the laws it
        declares are the ones it draws from. A rule for trees needs one that drafts trees: on chains alone
        nothing is proved of it.
    instances : iterable of Instance
        The battery by default.
    max_paths : int
        As for `law`.
    progress : callable
        `progress(instance)` gives the progress callback for that instance's enumeration.

    Yields
    ------
    instance, proof
    """
    for instance in instances:
        proof = instance.prove(
            verify, warp=warp, make_drafter=make_drafter, max_paths=max_paths, progress=progress(instance)
        )
        yield instance, proof
