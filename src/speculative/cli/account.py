"""What `speculative generate` says of a run: what is drafted, which law comes out, how long it took."""

from __future__ import annotations

from speculative.cli.drafting import kind_of, takes_chains, takes_its_time
from speculative.cli.expectation import BATCHES
from speculative.cli.models import NGRAM, warped
from speculative.cli.run import Outcome, Settings
from speculative.decode import Round
from speculative.metrics import statistics
from speculative.verify import VERIFIERS

COST_OF_A_MODEL = 0.1  # of a draft pass assumed, for what rounds would be worth with a target that takes time
EXPECTED = (
    "expected: by the exact formula, the probability that a draft is accepted given its context, from both "
    "models' laws, averaged over the contexts this run reached (unbiased); ±: one standard error."
)
MEASURED = (
    "No formula gives the acceptance of a single draft here. 95% interval: for what more text of the kind "
    f"would bring, from the means of {BATCHES} stretches of the run; of short runs it covers a little less."
)


def last_origin(one: Round) -> str:
    """Say what the last token of a round is: what `Round.last` says, or "undrafted" where nothing was."""
    return one.last if one.drafted else "undrafted"


def title(settings: Settings) -> str:
    """Say in one line what is run."""
    lossy = "" if VERIFIERS[settings.verifier].lossless else "lossy "
    return (
        f"{warped(settings.ready.description, settings.warp)}; {drafted(settings)}, {lossy}"
        f"{settings.verifier} verification, seed {settings.seed}"
    )


def keeps_law(settings: Settings) -> bool:
    """Whether the text has the law of the target as it is warped here."""
    entry = VERIFIERS[settings.verifier]
    return entry.lossless and (entry.target_warp is None or settings.heat == 0)


def notes(settings: Settings) -> list[str]:
    """Say whether the text has another law than the target's, and what takes its time."""
    name, entry = settings.verifier, VERIFIERS[settings.verifier]
    told = []
    if not entry.lossless:
        told.append(f"lossy: with {name} the text does not have the target's law.")
    elif not keeps_law(settings):
        told.append(f"{name} gives the target's law at temperature 0 only, and here it is {settings.heat:g}.")
    if settings.kind.shaped and (slow := takes_its_time(name, (settings.shape or entry).make_drafter)):
        told.append(slow)
    return told


def drafted(settings: Settings) -> str:
    """Say what is drafted each round."""
    entry, depth = VERIFIERS[settings.verifier], settings.num_draft_tokens
    fitted = settings.drafter == NGRAM and not settings.ready.checkpoint  # which the description tells
    by = "" if fitted else f" by {settings.drafter}"
    if settings.kind.made_of == "target":
        return f"a tree of guesses a round{by}, at most {depth} deep"
    if not settings.kind.shaped or (settings.shape is None and takes_chains(entry)):
        fewer = "" if settings.kind.made_of == "model" else "at most "
        return f"{fewer}{depth} drafts a round{by}"
    kind = kind_of((settings.shape or entry).make_drafter)
    drawn = f"{kind.drawn}, " if kind.drawn else ""
    return f"{kind.what} a round{by}, {drawn}at most {min(depth, kind.depth or depth)} deep"


def how_computed(outcome: Outcome) -> str:
    """Say where the figures beside the measured ones are from."""
    return MEASURED if outcome.tokens_per_pass.expected is None else EXPECTED


def time_line(outcome: Outcome) -> str:
    """Say how long a token takes beside plain decoding, and what that saved."""
    timing, count = outcome.timing, statistics(outcome.rounds).tokens
    low, high = min(timing.by_stretch), max(timing.by_stretch)
    spread = f" ({low:.2f} to {high:.2f})" if len(timing.by_stretch) > 1 else ""
    saved = (timing.per_token_alone - timing.per_token) * count
    return (
        f"{1000 * timing.per_token:.3f} ms a token, and {1000 * timing.per_token_alone:.3f} ms by plain "
        f"decoding: {timing.speedup:.2f} times as fast{spread}, {abs(saved):.2f} s "
        f"{'saved' if saved > 0 else 'lost'} on {count} tokens."
    )


def how_measured(settings: Settings, outcome: Outcome) -> str:
    """Say what the times are of; and what rounds on n-grams, which are as quick as drafts, would be worth."""
    timing, figures = outcome.timing, statistics(outcome.rounds)
    parts, seconds = len(timing.stretches), outcome.seconds
    each = timing.tokens // parts
    turns = f" in turns of about {each}; in brackets the least and the most" if parts > 1 else ""
    told = (
        f"Models ready in {settings.ready.seconds:.2f} s, the text above in {seconds:.2f} s. Measured on "
        f"{timing.tokens} other tokens after the same prompt, by both ways{turns}."
    )
    if settings.ready.checkpoint:
        return told
    cost = 0 if settings.kind.made_of in {"text", "target"} else COST_OF_A_MODEL
    worth = figures.tokens / (figures.rounds + outcome.draft_passes * cost)
    counted = ", a target pass counted as one whatever the size of its tree, a draft pass for each level"
    tree = settings.kind.shaped and (settings.shape or not takes_chains(VERIFIERS[settings.verifier]))
    return (
        f"{told} Were a draft pass to cost {cost:g} target passes, the rounds above would be {worth:.2f} "
        f"times as fast as the target alone{counted if tree else ''}."
    )
