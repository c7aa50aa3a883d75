"""Speculative decoding on the clock: a race against plain decoding, and the cost model's forecast of it.

`race` decodes prompts both ways in turn. `costs` times the parts of a round apart from one another: the
target's pass by its rows, the drafter's call, the rest of the loop. `measure` does both and puts them
together,

    speedup = tokens per round / (verification + k * cost)

(`speculative.cost`), with the tokens per round that the race counted and everything else from `costs`.
`compare_greedy` looks whether both ways write the same text at temperature 0.

Reading a prompt takes both ways the same time and is left out of both: before a clock starts, the models
have read the prompt but for its last token.
"""

from speculative.bench.contender import Contender, excerpts
from speculative.bench.costs import Costs, costs
from speculative.bench.greedy import Comparison, Difference, compare_greedy
from speculative.bench.measured import Measured, measure
from speculative.bench.race import Heat, Race, Spread, heat, race

__all__ = [
    "Comparison",
    "Contender",
    "Costs",
    "Difference",
    "Heat",
    "Measured",
    "Race",
    "Spread",
    "compare_greedy",
    "costs",
    "excerpts",
    "heat",
    "measure",
    "race",
]
