"""A run of `speculative generate` as data: everything about it, for JSON."""

from __future__ import annotations

from typing import Any

from speculative.cli.account import drafted, keeps_law, last_origin
from speculative.cli.models import warped
from speculative.cli.pieces import Pieces
from speculative.cli.run import Outcome, Settings
from speculative.metrics import statistics


def as_data(settings: Settings, outcome: Outcome) -> dict[str, Any]:
    """Return everything about a run, for JSON."""
    decode = settings.ready.tokenizer.decode
    pieces, counts, timing = Pieces(decode), statistics(outcome.rounds), outcome.timing
    prompt = "".join(map(pieces.add, settings.context))
    rounds: list[dict[str, Any]] = [
        {
            "tokens": [pieces.add(token) for token in one.tokens],
            "drafted": one.drafted,
            "accepted": one.accepted,
            "last": last_origin(one),
            "target_probs": [float(probability) for probability in one.target_probs],
        }
        for one in outcome.rounds
    ]
    return {
        "models": warped(settings.ready.description, settings.warp),
        "verifier": settings.verifier,
        "keeps_target_law": keeps_law(settings),
        "drafter": settings.drafter,
        "drafts": drafted(settings),
        "draft_tokens": settings.num_draft_tokens,
        "seed": settings.seed,
        "prompt": prompt,
        "text": "".join(piece for one in rounds for piece in one["tokens"]) + pieces.rest(),
        "tokens": counts.tokens,
        "target_passes": counts.rounds,
        "drafted": counts.drafted,
        "draft_passes": outcome.draft_passes,
        "accepted": counts.accepted,
        "tokens_per_target_pass": outcome.tokens_per_pass._asdict(),
        "acceptance_by_position": [one._asdict() for one in outcome.accepted],
        "seconds": {"models": settings.ready.seconds, "rounds": outcome.seconds},
        "timing": {
            "tokens": timing.tokens,
            "seconds_per_token": timing.per_token,
            "seconds_per_token_alone": timing.per_token_alone,
            "speedup": timing.speedup,
            "speedup_by_stretch": timing.by_stretch,
        },
        "rounds": rounds,
    }
