"""What an enumeration holds on to: nodes of the current path and the outcomes, never the paths."""

import tracemalloc

from speculative import law, paths


def coins(chance, depth):
    return sum(chance.flip(0.5) for _ in range(depth))


def peak(work, *args):
    work(*args)  # what is loaded and cached once is not what is measured
    tracemalloc.start()
    try:
        work(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_follows_depth_and_outcomes_not_the_number_of_paths():
    assert peak(law, coins, 12) < 3 * peak(law, coins, 6), "64 paths and 4096"


def test_holding_every_path_would_be_noticed():
    def hold(depth):
        return list(paths(coins, depth))

    assert peak(hold, 12) > 30 * peak(hold, 6)
