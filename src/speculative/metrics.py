"""What a run of rounds amounts to, each figure defined once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from speculative.decode import Round


class Statistics(NamedTuple):
    """Counts over rounds, all of retained tokens; ratios are None where nothing was counted.

    Parameters
    ----------
    rounds : int
        Target passes.
    tokens : int
        Tokens kept.
    drafted : int
        Drafts verified.
    accepted : int
        Drafts kept.
    reached, passed : tuple of int
        At draft position i: how many drafts were judged there (all before them accepted), and how many
        accepted.
    """

    rounds: int
    tokens: int
    drafted: int
    accepted: int
    reached: tuple[int, ...]
    passed: tuple[int, ...]

    @property
    def acceptance(self) -> float | None:
        """Accepted drafts per verified draft, drafts behind a rejection included: the usual figure."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def acceptance_by_position(self) -> tuple[float, ...]:
        """Acceptance at position i given that all before it were accepted; as far as any was reached."""
        return tuple(passed / reached for passed, reached in zip(self.passed, self.reached, strict=True))

    @property
    def tokens_per_target_pass(self) -> float | None:
        """Tokens kept per round, the last one of each round included."""
        return self.tokens / self.rounds if self.rounds else None

    @property
    def drafted_per_round(self) -> float | None:
        """Drafts verified per round: high acceptance of few drafts shows here."""
        return self.drafted / self.rounds if self.rounds else None


def statistics(rounds: Iterable[Round]) -> Statistics:
    """Count over rounds.

    Parameters
    ----------
    rounds : iterable of Round
        As `generate` or `stream` made them.

    Returns
    -------
    Statistics
    """
    rounds = tuple(rounds)
    depth = max((_judged(one) for one in rounds), default=0)
    reached = tuple(sum(_judged(one) > i for one in rounds) for i in range(depth))
    passed = tuple(sum(one.accepted > i for one in rounds) for i in range(depth))
    return Statistics(
        rounds=len(rounds),
        tokens=sum(len(one.tokens) for one in rounds),
        drafted=sum(one.drafted for one in rounds),
        accepted=sum(one.accepted for one in rounds),
        reached=reached,
        passed=passed,
    )


def _judged(one: Round) -> int:
    """At how many positions of a round drafts were judged: those accepted, and the one rejected."""
    return one.accepted + (one.last == "residual")
