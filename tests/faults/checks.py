"""What a decoding loop has to satisfy. Each check takes a loop that is called like `speculative.generate`."""

from __future__ import annotations

from itertools import count as count_from

from speculative import Draft, autoregress, draft, from_probs, law, point_mass, rational, sample, statistics
from speculative.draft import NO_DRAFT
from speculative.testing import by_context

ROWS = [
    rational(row.split()) for row in ("1/2 1/4 1/4", "0 2/3 1/3", "1/5 1/5 3/5", "1/3 1/3 1/3", "3/4 0 1/4")
]
TARGET = by_context(ROWS)
SMALL = by_context([ROWS[2], ROWS[3], ROWS[0], ROWS[4], ROWS[2]])
"""Laws that depend on every token of the context and on its place."""

WORDS = 40
COUNTING = from_probs(lambda context: point_mass((context[-1] + 1) % WORDS, WORDS), WORDS)
"""A language without chance: each token is the one before it plus one."""


def counting_up_to(wrong_at):
    """Return a drafter that counts too, but for one wrong token at position `wrong_at` of each draft."""

    def propose(chance, context, num_draft_tokens):
        tokens = [(context[-1] + 1 + i) % WORDS for i in range(num_draft_tokens)]
        if wrong_at < num_draft_tokens:
            tokens[wrong_at] = (tokens[wrong_at] + 7) % WORDS
        return Draft(tuple(tokens), tuple(point_mass(token, WORDS) for token in tokens))

    return propose


ALL_RIGHT = counting_up_to(WORDS)


def count(decode, drafter=ALL_RIGHT, **options):
    """Continue the context (0,) in the counting language."""
    return sample(decode, COUNTING, drafter, (0,), rng=0, **options)


def same_law_as_the_target(decode):
    """Tokens and the reason to stop have the law of plain decoding, stop tokens or not."""
    for stop_tokens in ((), (1,), (0, 2)):
        options = {"max_new_tokens": 3, "stop_tokens": stop_tokens}
        ours = law(decode, TARGET, draft.model(SMALL), (2,), num_draft_tokens=2, **options)
        plain = law(autoregress, TARGET, (2,), **options)
        distance = ours.map(lambda one: (one.tokens, one.stop_reason)).distance(
            plain.map(lambda one: (one.tokens, one.stop_reason))
        )
        assert distance < 1e-12, f"the law is {float(distance):.3g} off"


def stops_at_the_first_stop_token(decode):
    """Wherever in a block it stands, after drafts or as the bonus, for every length of draft."""
    for num_draft_tokens in range(1, 6):
        for stop in range(1, 9):
            for more in ((), (stop + 1,), (stop + 2,)):
                made = count(
                    decode,
                    max_new_tokens=12,
                    num_draft_tokens=num_draft_tokens,
                    stop_tokens=(*more, stop),
                )
                assert made.tokens == tuple(range(1, stop + 1)), "it does not end at the first stop token"
                assert made.stop_reason == "stop_token", "the reason is not told"


def stops_before_the_limit_counts(decode):
    """A stop token and the most tokens in one block: the stop token comes first."""
    made = count(decode, max_new_tokens=5, num_draft_tokens=8, stop_tokens=(3,))
    assert (made.tokens, made.stop_reason) == ((1, 2, 3), "stop_token"), "the limit hides the stop token"


def runs_on_without_stop_tokens(decode):
    made = count(decode, max_new_tokens=12)
    assert (made.tokens, made.stop_reason) == (tuple(range(1, 13)), "max_new_tokens"), "it stops unasked"


def makes_exactly_as_many_tokens(decode):
    for num_draft_tokens in range(6):
        for wanted in range(num_draft_tokens + 4):
            made = count(decode, max_new_tokens=wanted, num_draft_tokens=num_draft_tokens)
            assert len(made.tokens) == wanted, f"{len(made.tokens)} tokens for {wanted}"


def drafts_no_more_than_fits(decode):
    """With r tokens to go at most r - 1 drafts are of use; for the last token the drafter is left alone."""

    def spy(chance, context, num_draft_tokens):
        left = 7 - (len(context) - 1)
        assert 1 <= num_draft_tokens <= left - 1, f"{num_draft_tokens} drafts for {left} tokens to go"
        return ALL_RIGHT(chance, context, num_draft_tokens)

    for num_draft_tokens in range(1, 9):
        made = count(decode, spy, max_new_tokens=7, num_draft_tokens=num_draft_tokens)
        assert made.tokens == tuple(range(1, 8)), "not the tokens asked for"


def keeps_to_the_context_limit(decode):
    """The target is asked about no longer context than it can hold, and about that one still."""
    for limit in range(1, 8):
        for num_draft_tokens in range(1, 5):
            target = from_probs(COUNTING, WORDS, context_limit=limit)
            options = {"max_new_tokens": 20, "num_draft_tokens": num_draft_tokens, "rng": 0}
            try:
                made = sample(decode, target, ALL_RIGHT, (0,), **options)
            except ValueError as error:
                raise AssertionError(f"the limit is overrun: {error}") from error
            assert made.tokens == tuple(range(1, limit + 1)), "it ends too early or too late"
            assert made.stop_reason == "context_limit", "the reason is not told"


def keeps_the_chain_whole(decode):
    """A rejection at each position in turn: nothing is lost, doubled or left over."""
    for num_draft_tokens in range(1, 6):
        for wrong_at in range(num_draft_tokens + 1):
            drafter = counting_up_to(wrong_at)
            made = count(decode, drafter, max_new_tokens=12, num_draft_tokens=num_draft_tokens)
            assert made.tokens == tuple(range(1, 13)), f"{made.tokens} for a rejection at {wrong_at}"


def a_rejection_brings_one_token(decode):
    made = count(decode, counting_up_to(0), max_new_tokens=5)
    assert [one.tokens for one in made.rounds] == [(1,), (2,), (3,), (4,), (5,)], "not one token per round"


def accepts_its_own_drafts(decode):
    """The target as its own draft: all is accepted, with a bonus, be there drafts in every round or not."""
    own = draft.model(TARGET)

    def not_in_every_round():
        rounds = count_from(0)
        return lambda chance, context, num_draft_tokens: (
            NO_DRAFT if next(rounds) % 4 in (1, 2) else own(chance, context, num_draft_tokens)
        )

    for num_draft_tokens in range(1, 9):
        for drafter in (own, not_in_every_round()):
            options = {"max_new_tokens": 30, "num_draft_tokens": num_draft_tokens, "rng": num_draft_tokens}
            made = sample(decode, TARGET, drafter, (2,), **options)
            assert all(one.accepted == one.drafted for one in made.rounds), "a draft of its own is rejected"
            assert all(len(one.tokens) == one.drafted + 1 for one in made.rounds), "the bonus is missing"


def reports_the_targets_probabilities(decode):
    """For accepted, recovered and bonus tokens alike."""
    for seed in range(5):
        made = sample(
            decode, TARGET, draft.model(SMALL), (2,), max_new_tokens=20, num_draft_tokens=3, rng=seed
        )
        told = [probability for one in made.rounds for probability in one.target_probs]
        true = [TARGET((2, *made.tokens[:i]))[token] for i, token in enumerate(made.tokens)]
        assert told == true, "a probability is not the target's"


def counts_what_is_kept(decode):
    """Counts are of tokens that came out, also where a stop token cuts a block of accepted drafts."""
    made = count(decode, max_new_tokens=12, num_draft_tokens=3, stop_tokens=(6,))
    assert [(one.drafted, one.accepted, one.last) for one in made.rounds] == [
        (3, 3, "bonus"), (2, 2, "draft"),
    ], "counts of a block cut by a stop token"  # fmt: skip
    made = count(decode, counting_up_to(1), max_new_tokens=6, num_draft_tokens=3)
    assert [(one.drafted, one.accepted, one.last) for one in made.rounds] == [
        (3, 1, "residual"), (3, 1, "residual"), (1, 1, "bonus"),
    ], "counts of a rejection"  # fmt: skip
    figures = statistics(made.rounds)
    assert (figures.tokens, figures.drafted, figures.accepted) == (6, 7, 3), "figures"


ALL = (
    same_law_as_the_target,
    stops_at_the_first_stop_token,
    stops_before_the_limit_counts,
    runs_on_without_stop_tokens,
    makes_exactly_as_many_tokens,
    drafts_no_more_than_fits,
    keeps_to_the_context_limit,
    keeps_the_chain_whole,
    a_rejection_brings_one_token,
    accepts_its_own_drafts,
    reports_the_targets_probabilities,
    counts_what_is_kept,
)
