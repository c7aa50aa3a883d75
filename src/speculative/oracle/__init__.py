"""Oracles: the law of the next token as a function of the tokens before it.

An oracle is a pure function of the context. It holds no state that a caller could forget to rewind, and a
model with a cache behind it makes the cache invisible. Rows are checked where an oracle is made, so that
nothing after it needs to; whether a model gives probabilities or logits is said by name, never guessed.
"""

from speculative.oracle.function import from_logits, from_probs, path_by_path, softmax
from speculative.oracle.interface import Oracle, check_vocabulary
from speculative.oracle.last_pass import keep_last_pass
from speculative.oracle.table import table
from speculative.oracle.wrapper import cached, checked, map_rows, reachable

__all__ = [
    "Oracle",
    "cached",
    "check_vocabulary",
    "checked",
    "from_logits",
    "from_probs",
    "keep_last_pass",
    "map_rows",
    "path_by_path",
    "reachable",
    "softmax",
    "table",
]
