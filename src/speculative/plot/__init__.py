"""Pictures: the cost model, laws, trees, caches, rounds. Each function takes `ax=None` and returns the Axes.

Colours are those of Okabe and Ito, told apart by readers of any colour vision. Nothing is shown or saved
here: `ax.figure.savefig("picture.png")` does that.
"""

try:
    import matplotlib.pyplot  # noqa: F401 - only to see whether it is there
except ImportError as error:
    raise ImportError('plots need matplotlib: pip install -e ".[plot]" in a checkout') from error

from speculative.plot.bench import plot_acceptance_by_position, plot_race
from speculative.plot.cache import plot_cache
from speculative.plot.clock import plot_roofline, plot_speedup, plot_speedup_map
from speculative.plot.decisions import decision_tree
from speculative.plot.draft_tree import plot_tree
from speculative.plot.laws import plot_acceptance, plot_laws, plot_trade_off
from speculative.plot.round import plot_round, plot_rounds
from speculative.plot.style import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    TITLE,
    VERMILION,
)

__all__ = [
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "PALE",
    "PURPLE",
    "SKY",
    "TITLE",
    "VERMILION",
    "decision_tree",
    "plot_acceptance",
    "plot_acceptance_by_position",
    "plot_cache",
    "plot_laws",
    "plot_race",
    "plot_roofline",
    "plot_round",
    "plot_rounds",
    "plot_speedup",
    "plot_speedup_map",
    "plot_trade_off",
    "plot_tree",
]
