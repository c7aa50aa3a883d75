"""The strategies do make the hard cases they promise: `find` fails where one cannot be found."""

from fractions import Fraction

from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from speculative import rational
from speculative.testing import by_context, near_rows, pairs, rows


@given(pairs())
def test_pairs_are_exact_laws_within_the_ranges(pair):
    assert 3 <= pair.target.vocab_size <= 5
    assert pair.draft.vocab_size == pair.target.vocab_size
    assert 1 <= pair.num_draft_tokens <= 4
    for context in [(), (0,), (1, 2), (2, 1)]:
        for oracle in (pair.target, pair.draft):
            assert all(isinstance(probability, Fraction) for probability in oracle(context))
            assert sum(oracle(context)) == 1
    assert pair.drafter.vocab_size == pair.target.vocab_size


def test_zeros_ties_one_hot_rows_equal_and_near_equal_laws_are_all_found():
    short = pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 1))
    find(rows(4), lambda row: 0 in row.tolist() and 1 not in row.tolist())
    find(rows(4), lambda row: 1 in row.tolist())
    find(rows(4), lambda row: len({*row.tolist()} - {0}) < sum(row > 0) and max(row) < 1)
    quickly = settings(max_examples=2000, phases=[Phase.generate])  # found is enough: no need of the smallest
    find(short, lambda pair: all(pair.target(()) == pair.draft(())), settings=quickly)
    find(short, lambda pair: 0 < abs(pair.target(()) - pair.draft(())).sum() < 1e-6, settings=quickly)
    find(short, lambda pair: (pair.target(()) * pair.draft(())).sum() == 0, settings=quickly)


def test_rows_differ_from_position_to_position_and_with_every_token():
    oracle = by_context([rational([Fraction(i, 7), 1 - Fraction(i, 7), 0]) for i in range(7)])
    assert all(
        (oracle(context) != oracle((*context, token))).any()
        for context in [(0,), (1, 2)]
        for token in range(2)
    )
    assert all(
        (oracle((first, 0)) != oracle((second, 0))).any() for first, second in [(0, 1), (1, 2), (0, 2)]
    )
    assert (oracle((0, 1)) != oracle((1, 0))).any()


@given(rows(4).flatmap(lambda row: st.tuples(st.just(row), near_rows(row))))
def test_near_rows_are_near(both):
    row, near = both
    assert sum(abs(row - near)) < Fraction(1, 10**7)
