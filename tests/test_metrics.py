import pytest

from speculative import generate, rational, sample, statistics, table
from speculative.decode import Round
from speculative.draft import low_confidence, model


def rounds(*counts):
    """Rounds of chains, as (drafted, accepted): what follows a chain accepted whole is a bonus."""
    return [
        Round((0,) * (accepted + 1), drafted, accepted, "residual" if accepted < drafted else "bonus", ())
        for drafted, accepted in counts
    ]


def test_each_figure_on_a_worked_example():
    figures = statistics(rounds((3, 3), (3, 1), (3, 0)))
    assert figures.acceptance == 4 / 9
    assert figures.tokens_per_target_pass == 7 / 3
    assert figures.acceptance_by_position == (2 / 3, 1 / 2, 1 / 1)
    assert (figures.rounds, figures.tokens, figures.drafted, figures.accepted) == (3, 7, 9, 4)


def test_accepted_is_not_tokens_and_a_rate_over_all_drafts_is_not_a_conditional_rate():
    figures = statistics(rounds((4, 1), (4, 1)))
    assert figures.acceptance == 1 / 4
    assert figures.acceptance_by_position == (1, 0)
    assert figures.tokens_per_target_pass == 2


def test_nothing_counted_is_no_number():
    figures = statistics([])
    assert (figures.acceptance, figures.tokens_per_target_pass, figures.drafted_per_round) == (
        None,
        None,
        None,
    )
    assert statistics(rounds((0, 0))).acceptance is None
    assert statistics(rounds((0, 0))).acceptance_by_position == ()


def test_full_acceptance_of_few_drafts_is_visible():
    figures = statistics(rounds((1, 1), (0, 0), (0, 0), (0, 0)))
    assert figures.acceptance == 1
    assert figures.drafted_per_round == 1 / 4


def test_a_short_draft_counts_only_where_it_was_judged():
    figures = statistics(rounds((3, 1), (1, 1), (2, 2)))
    assert (figures.reached, figures.passed) == ((3, 2), (3, 1))


def test_in_a_tree_a_position_is_judged_where_drafts_were_left_to_judge():
    """A tree of 0 and 1, and 2 below 1: after 0 comes a bonus, after 1 one more draft is judged."""
    kept = [((0, 0), "bonus"), ((1, 2, 0), "bonus"), ((1, 0), "residual"), ((2,), "residual")]
    figures = statistics([Round(tokens, 3, len(tokens) - 1, last, ()) for tokens, last in kept])
    assert (figures.reached, figures.passed) == ((4, 2), (3, 1))
    assert figures.acceptance_by_position == (3 / 4, 1 / 2)
    assert figures.acceptance == 4 / 12
    assert figures.tokens_per_target_pass == 8 / 4
    assert figures.drafted_per_round == 3


def test_a_draft_that_ended_the_text_was_judged_and_nothing_behind_it():
    figures = statistics([Round((1,), 1, 1, "draft", ()), Round((1, 2), 2, 2, "draft", ())])
    assert (figures.reached, figures.passed) == ((2, 1), (2, 1))


def test_drafts_behind_a_stop_token_count_nowhere():
    stop = table({(): rational([1, 0, 0])})
    made = sample(generate, stop, model(stop), max_new_tokens=9, num_draft_tokens=4, stop_tokens={0}, rng=0)
    figures = statistics(made.rounds)
    assert (figures.tokens, figures.drafted, figures.accepted) == (1, 1, 1)


@pytest.mark.parametrize("threshold", [0.4, 0.6])
def test_counts_are_never_larger_than_what_they_are_part_of(threshold):
    target = table({(): rational(["1/2", "1/4", "1/4"]), (1,): rational(["1/3", "1/3", "1/3"])})
    drafter = model(target, stop=low_confidence(threshold))
    figures = statistics(sample(generate, target, drafter, max_new_tokens=200, rng=1).rounds)
    assert figures.accepted <= figures.drafted
    assert figures.tokens == figures.accepted + figures.rounds == 200
    assert all(passed <= reached for passed, reached in zip(figures.passed, figures.reached, strict=True))
    assert sum(figures.passed) == figures.accepted
    assert figures.rounds >= max(figures.reached, default=0)
