"""What an enumeration holds on to: nodes of the current path and the outcomes, never the paths."""

import tracemalloc

import pytest

from speculative import law, paths


def coins(chance, depth):
    return sum(chance.flip(0.5) for _ in range(depth))


def peak(work, *args):
    tracemalloc.start()
    try:
        work(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("depth", [8, 13])
def test_memory_follows_depth_and_outcomes_not_the_number_of_paths(depth):
    assert peak(law, coins, depth) < 1_000 * depth, "256 paths or 8192"


def test_holding_every_path_would_be_noticed():
    assert peak(lambda: list(paths(coins, 13))) > 1_000 * 13
