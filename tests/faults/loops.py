"""Wrong decoding loops: a right loop in steps, each fault being one step exchanged.

Every loop is called like `speculative.generate`. `LOOPS` names them, each with the check of `checks.py` that
has to see it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from speculative import Generation, Round, as_generator, residual, stream, verify
from speculative.chance import Sampler
from speculative.draft import NO_DRAFT

from . import checks

MANY = 1000
WATCHDOG = 50  # rounds after which a loop that hangs is stopped


# The steps of a right loop


def as_many_as_fit(num_draft_tokens, left, room):
    """How many drafts to ask for: together with the token that follows them they still fit."""
    return min(num_draft_tokens, left - 1, room)


def all_of_it(context, rounds):
    """What of the context the drafter sees."""
    return context


def one_row_a_position(target, context, drafted):
    """The rows that drafts are judged by."""
    return target.score(context, drafted)


def as_decided(draft, verdict):
    """The tokens that a round emits."""
    return verdict.tokens


def up_to_the_first_stop(emitted, stop_tokens, left):
    """The tokens kept, and whether the text ends here."""
    for i, token in enumerate(emitted):
        if token in stop_tokens:
            return emitted[: i + 1], True
    return emitted, False


def what_is_kept(draft, verdict, kept, rows):
    """The record of a round."""
    probs = tuple(row[token] for row, token in zip(rows, kept, strict=False))
    if len(kept) <= verdict.accepted:
        return Round(kept, len(kept), len(kept), "draft", probs)
    return Round(kept, len(draft), verdict.accepted, kind_of_last(draft, verdict), probs)


def kind_of_last(draft, verdict):
    return "bonus" if verdict.accepted == len(draft) else "residual"


@dataclass(frozen=True)
class Loop:
    """A decoding loop; every step can be exchanged."""

    ask: Callable[..., int] = as_many_as_fit
    show: Callable[..., tuple[int, ...]] = all_of_it
    score: Callable[..., Any] = one_row_a_position
    emit: Callable[..., tuple[int, ...]] = as_decided
    cut: Callable[..., tuple[tuple[int, ...], bool]] = up_to_the_first_stop
    record: Callable[..., Round] = what_is_kept
    tries: int = 1  # of a round, of which the longest is kept
    unused: int = 0  # places of the context that are never filled
    least_rounds: int = 0

    def __call__(
        self, chance, target, drafter, context=(), *,
        max_new_tokens, num_draft_tokens=4, verify=verify.token, stop_tokens=(),
    ):  # fmt: skip
        tokens, rounds, stopped = (), (), False
        while not stopped and len(rounds) < WATCHDOG:
            left, now = max_new_tokens - len(tokens), tuple(context) + tokens
            room = MANY if target.context_limit is None else target.context_limit - len(now) - self.unused
            if (left <= 0 and len(rounds) >= self.least_rounds) or room < 0:
                break
            asked = self.ask(num_draft_tokens, left, room)
            plays = []
            for _ in range(self.tries):
                draft = drafter(chance, self.show(now, rounds), asked) if asked > 0 else NO_DRAFT
                rows = self.score(target, now, draft.tokens)
                plays.append((draft, rows, verify(chance, draft, rows)))
            draft, rows, verdict = max(plays, key=lambda play: len(play[2].tokens))
            kept, stopped = self.cut(self.emit(draft, verdict), stop_tokens, left)
            rounds, tokens = (*rounds, self.record(draft, verdict, kept, rows)), tokens + kept
        reason = "max_new_tokens" if len(tokens) >= max_new_tokens else "context_limit"
        return Generation(tokens, rounds, "stop_token" if stopped else reason)


# Wrong: ask


def one_more_than_fits(num_draft_tokens, left, room):
    return min(num_draft_tokens, left, room)


def always_the_same(num_draft_tokens, left, room):
    return min(num_draft_tokens, room)


def one_at_least(num_draft_tokens, left, room):
    return max(1, min(num_draft_tokens, left - 1, room))


def without_regard_to_room(num_draft_tokens, left, room):
    return min(num_draft_tokens, left - 1)


# Wrong: show


def last_token_missing(context, rounds):
    return context[:-1]


def bonus_missing(context, rounds):
    """After full acceptance the draft model has not read the bonus, nor its own last draft."""
    return context[:-1] if rounds and rounds[-1].last == "bonus" and rounds[-1].drafted else context


def rounds_without_drafts_missing(context, rounds):
    prompt = len(context) - sum(len(one.tokens) for one in rounds)
    read = [token for one in rounds if one.drafted for token in one.tokens]
    return context[:prompt] + tuple(read)


# Wrong: score


def stale(target, context, drafted):
    return target.score(context[:-1], drafted)


def one_position_on(target, context, drafted):
    """A token too many in front: right tokens at wrong places."""
    return target.score((0, *context), drafted)


def cut_at_the_front(target, context, drafted):
    return target.score(context[1:], drafted)


def one_row_late(target, context, drafted):
    rows = target.score(context, drafted)
    return [*rows[1:], rows[-1]]


def same_row_for_all(target, context, drafted):
    return [target(context)] * (len(drafted) + 1)


# Wrong: emit


def no_bonus(draft, verdict):
    return verdict.tokens[:-1] if verdict.accepted == len(draft) > 0 else verdict.tokens


def nothing_for_a_rejection(draft, verdict):
    return verdict.tokens if verdict.accepted == len(draft) else verdict.tokens[:-1]


def rejected_kept(draft, verdict):
    return (*draft.tokens[: verdict.accepted + 1], verdict.tokens[-1])


def all_drafts_kept(draft, verdict):
    return (*draft.tokens, verdict.tokens[-1])


def one_iteration_late(draft, verdict):
    """The rejected token is taken out, and the drafts that continued it stay."""
    late = draft.tokens[: verdict.accepted] + draft.tokens[verdict.accepted + 1 :]
    return late or verdict.tokens


def doubled_at_the_boundary(draft, verdict):
    accepted, tokens = verdict.accepted, verdict.tokens
    return tokens if accepted in (0, len(draft)) else (*tokens[:accepted], *tokens[accepted - 1 :])


def nothing_without_drafts(draft, verdict):
    return verdict.tokens if len(draft) else ()


# Wrong: cut


def only_the_last_looked_at(emitted, stop_tokens, left):
    return emitted, emitted[-1] in stop_tokens


def only_two_places_looked_at(emitted, stop_tokens, left):
    """As if a draft always had one token."""
    kept, stopped = up_to_the_first_stop(emitted[:2], stop_tokens, left)
    return (kept, True) if stopped else (emitted, False)


def all_kept_after_a_stop(emitted, stop_tokens, left):
    return emitted, any(token in stop_tokens for token in emitted)


def one_kept_after_a_stop(emitted, stop_tokens, left):
    kept, stopped = up_to_the_first_stop(emitted, stop_tokens, left)
    return emitted[: len(kept) + stopped], stopped


def stop_token_left_out(emitted, stop_tokens, left):
    kept, stopped = up_to_the_first_stop(emitted, stop_tokens, left)
    return (kept[:-1], True) if stopped else (kept, False)


def up_to_the_last_stop(emitted, stop_tokens, left):
    places = [i for i, token in enumerate(emitted) if token in stop_tokens]
    return (emitted[: places[-1] + 1], True) if places else (emitted, False)


def limit_first(emitted, stop_tokens, left):
    """Drafts beyond the limit are cut off, and only otherwise stop tokens are looked for."""
    return (
        (emitted[:left], False) if len(emitted) >= left else up_to_the_first_stop(emitted, stop_tokens, left)
    )


def limit_second(emitted, stop_tokens, left):
    """Right tokens, but drafted in vain."""
    kept, stopped = up_to_the_first_stop(emitted, stop_tokens, left)
    return (kept, True) if stopped and len(kept) <= left else (kept[:left], False)


def stop_built_in(emitted, stop_tokens, left):
    """A stop token of the model's own, whether asked for or not."""
    return up_to_the_first_stop(emitted, (*stop_tokens, 10), left)


# Wrong: record


def draft_probabilities(draft, verdict, kept, rows):
    right = what_is_kept(draft, verdict, kept, rows)
    drafted = tuple(row[token] for row, token in zip(draft.probs, kept[: right.accepted], strict=False))
    return right._replace(target_probs=drafted + right.target_probs[len(drafted) :])


def residual_probability(draft, verdict, kept, rows):
    right = what_is_kept(draft, verdict, kept, rows)
    if right.last != "residual":
        return right
    weights = residual(rows[right.accepted], draft.probs[right.accepted])
    return right._replace(target_probs=(*right.target_probs[:-1], weights[kept[-1]] / weights.sum()))


def probabilities_one_row_late(draft, verdict, kept, rows):
    return what_is_kept(draft, verdict, kept, [*rows[1:], rows[-1]])


def discarded_counted(draft, verdict, kept, rows):
    right = what_is_kept(draft, verdict, kept, rows)
    return right._replace(drafted=len(draft), accepted=verdict.accepted)


def bonus_counted(draft, verdict, kept, rows):
    return what_is_kept(draft, verdict, kept, rows)._replace(accepted=len(kept))


def only_judged_counted(draft, verdict, kept, rows):
    right = what_is_kept(draft, verdict, kept, rows)
    return right._replace(drafted=min(right.drafted, right.accepted + 1))


def all_last_called_bonus(draft, verdict, kept, rows):
    return what_is_kept(draft, verdict, kept, rows)._replace(last="bonus")


# Wrong: randomness


class Recycled:
    """A generator that begins again with the same uniforms whenever it is rewound."""

    def __init__(self, rng):
        self.rng, self.uniforms, self.place = rng, [], 0

    def random(self, dtype=None):
        if self.place == len(self.uniforms):
            self.uniforms.append(self.rng.random())
        self.place += 1
        return self.uniforms[self.place - 1]


def with_numpy(rewind):
    """Return the library's own loop on a generator that is seeded once, or anew in every round."""

    def decode(chance, target, drafter, context=(), **options):
        rng, rounds = Recycled(as_generator(chance)), ()
        for one in stream(Sampler(rng), target, drafter, context, **options):
            rounds = (*rounds, one)
            if rewind:
                rng.place = 0
        tokens = tuple(token for one in rounds for token in one.tokens)
        stopped = tokens[-1] in options["stop_tokens"]
        return Generation(tokens, rounds, "stop_token" if stopped else "max_new_tokens")

    return decode


class WrongLoop(NamedTuple):
    """A wrong loop, and the check that has to see it."""

    name: str
    decode: Callable[..., Generation]
    check: Callable[..., None]
    reported: str = ""

    def __str__(self) -> str:
        return self.name


LOOPS = (
    # Stop tokens
    WrongLoop(
        "only the last token looked at for a stop", Loop(cut=only_the_last_looked_at),
        checks.stops_at_the_first_stop_token,
        "huggingface/transformers#47912, #48981, LostRuins/koboldcpp#1276",
    ),
    WrongLoop(
        "a stop looked for at two fixed places", Loop(cut=only_two_places_looked_at),
        checks.stops_at_the_first_stop_token, "HabanaAI/vllm-fork#1435",
    ),
    WrongLoop(
        "the block kept behind a stop", Loop(cut=all_kept_after_a_stop),
        checks.stops_at_the_first_stop_token, "vllm-project/vllm#12193",
    ),
    WrongLoop(
        "one more token after a stop", Loop(cut=one_kept_after_a_stop), checks.stops_at_the_first_stop_token,
        "vllm-project/vllm#12193",
    ),
    WrongLoop("the stop token left out", Loop(cut=stop_token_left_out), checks.stops_at_the_first_stop_token),
    WrongLoop(
        "the block kept to its last stop", Loop(cut=up_to_the_last_stop),
        checks.stops_at_the_first_stop_token, "vllm-project/vllm#12193",
    ),
    WrongLoop(
        "the limit before the stop", Loop(ask=always_the_same, cut=limit_first),
        checks.stops_before_the_limit_counts, "sgl-project/sglang#31599",
    ),
    WrongLoop(
        "a stop nobody asked for", Loop(cut=stop_built_in), checks.runs_on_without_stop_tokens,
        "LostRuins/koboldcpp#1276",
    ),
    # Lengths
    WrongLoop(
        "one draft more than fits", Loop(ask=one_more_than_fits), checks.makes_exactly_as_many_tokens,
        "ohdearquant/lattice#242, #245",
    ),
    WrongLoop(
        "whole blocks only", Loop(ask=always_the_same), checks.makes_exactly_as_many_tokens,
        "rohitg00/ai-engineering-from-scratch#185",
    ),
    WrongLoop(
        "a token where none was asked for", Loop(least_rounds=1), checks.makes_exactly_as_many_tokens,
        "ohdearquant/lattice#242",
    ),
    WrongLoop(
        "drafts beyond the limit, cut off later", Loop(ask=always_the_same, cut=limit_second),
        checks.drafts_no_more_than_fits, "huggingface/transformers#28555",
    ),
    WrongLoop(
        "a draft for the last token", Loop(ask=one_at_least, cut=limit_second),
        checks.drafts_no_more_than_fits, "huggingface/transformers#28555",
    ),
    WrongLoop(
        "the context limit overrun", Loop(ask=without_regard_to_room), checks.keeps_to_the_context_limit,
        "vllm-project/vllm#53812, predibase/lorax#474, NVIDIA/TensorRT-LLM#16826",
    ),
    WrongLoop(
        "the last place of the context never filled", Loop(unused=1), checks.keeps_to_the_context_limit,
        "snowflakedb/ArcticInference#151",
    ),
    # What a round emits
    WrongLoop("no bonus", Loop(emit=no_bonus), checks.accepts_its_own_drafts, "vllm-project/vllm#5765"),
    WrongLoop(
        "nothing for a rejection", Loop(emit=nothing_for_a_rejection), checks.a_rejection_brings_one_token,
        "vllm-project/vllm#42722",
    ),
    WrongLoop(
        "nothing without drafts", Loop(emit=nothing_without_drafts), checks.makes_exactly_as_many_tokens,
        "vllm-project/vllm#4724, #13363",
    ),
    WrongLoop("the rejected draft kept", Loop(emit=rejected_kept), checks.keeps_the_chain_whole),
    WrongLoop(
        "all rejected drafts kept", Loop(emit=all_drafts_kept), checks.a_rejection_brings_one_token,
        "lucidrains/speculative-decoding#3",
    ),
    WrongLoop(
        "the rejection one iteration late", Loop(emit=one_iteration_late), checks.keeps_the_chain_whole,
        "openvinotoolkit/openvino.genai#4190",
    ),
    WrongLoop(
        "a token doubled at the boundary", Loop(emit=doubled_at_the_boundary), checks.keeps_the_chain_whole,
        "kekzl/imp#667",
    ),
    WrongLoop("the longer of two tries", Loop(tries=2), checks.same_law_as_the_target),
    # What the models see
    WrongLoop(
        "the draft one token behind", Loop(show=last_token_missing), checks.accepts_its_own_drafts,
        "ml-explore/mlx-examples#149, vllm-project/vllm#9730",
    ),
    WrongLoop(
        "the draft without the bonus", Loop(show=bonus_missing), checks.accepts_its_own_drafts,
        "lablup/mlxcel#994, #1002",
    ),
    WrongLoop(
        "the draft without the rounds it sat out", Loop(show=rounds_without_drafts_missing),
        checks.accepts_its_own_drafts, "vllm-project/vllm-metal#716, vllm-project/vllm#52942, #56531, #39273",
    ),
    WrongLoop("the target one token behind", Loop(score=stale), checks.same_law_as_the_target),
    WrongLoop(
        "the target one place on", Loop(score=one_position_on), checks.same_law_as_the_target,
        "huggingface/transformers#30042, #30413",
    ),
    WrongLoop(
        "the target cut at the wrong end", Loop(score=cut_at_the_front), checks.same_law_as_the_target,
        "feifeibear/LLMSpeculativeSampling#34",
    ),
    WrongLoop(
        "rows one position late", Loop(score=one_row_late), checks.same_law_as_the_target,
        "feifeibear/LLMSpeculativeSampling#29",
    ),
    WrongLoop("one row for all positions", Loop(score=same_row_for_all), checks.same_law_as_the_target),
    # What is told
    WrongLoop(
        "log-probabilities of the draft", Loop(record=draft_probabilities),
        checks.reports_the_targets_probabilities, "z-lab/dflash#39, ggml-org/llama.cpp#27972",
    ),
    WrongLoop(
        "log-probabilities of the residual", Loop(record=residual_probability),
        checks.reports_the_targets_probabilities, "vllm-project/vllm#4378, dphnAI/sonar#904",
    ),
    WrongLoop(
        "log-probabilities of the next row", Loop(record=probabilities_one_row_late),
        checks.reports_the_targets_probabilities, "ggml-org/llama.cpp#27196",
    ),
    WrongLoop(
        "discarded drafts counted", Loop(record=discarded_counted), checks.counts_what_is_kept,
        "sgl-project/sglang#39826, #37450",
    ),
    WrongLoop(
        "the bonus counted as accepted", Loop(record=bonus_counted), checks.counts_what_is_kept,
        "vllm-project/vllm#17908",
    ),
    WrongLoop(
        "only judged drafts counted", Loop(record=only_judged_counted), checks.counts_what_is_kept,
        "vllm-project/vllm#39359",
    ),
    WrongLoop("residual tokens called bonus", Loop(record=all_last_called_bonus), checks.counts_what_is_kept),
    # Randomness
    WrongLoop(
        "the generator seeded anew in every round", with_numpy(rewind=True), checks.same_law_as_the_target,
        "NVIDIA/TensorRT-LLM#17599",
    ),
)  # fmt: skip
"""Named wrong loops."""
