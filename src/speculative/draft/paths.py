"""Draft several independent chains of one model, merged where they begin alike.

Miao et al. 2024, SpecInfer; Sun et al. 2023, SpecTr. A trunk before the branches is delayed expansion (Thomas
et al. 2026).
"""
from __future__ import annotations

from functools import partial

from speculative.chance import Chance
from speculative.distribution import Context
from speculative.draft.proposal import Drafter, DraftTree
from speculative.draft.siblings import Siblings, draw_siblings, independent
from speculative.oracle import Oracle


def paths(oracle: Oracle, num_paths: int) -> Drafter:
    return Drafter(partial(_paths, oracle, num_paths), oracle.vocab_size, oracle.vocabulary)


def _paths(oracle: Oracle, num_paths: int, chance: Chance, context: Context, num_draft_tokens: int) -> DraftTree:
    tokens: Context = ()
    parents: Context = ()
    draws: dict[int, Siblings] = {}
    level = {0: (context, num_paths)}  # node: the tokens before, how many paths go through it
    for _ in range(num_draft_tokens):
        below = {}
        for node, (before, count) in level.items():
            row = oracle(before)
            drawn = draw_siblings(chance, independent, row, count)
            children = {}
            for token in drawn:
                if token not in children:
                    tokens, parents = (*tokens, token), (*parents, node)
                    children[token] = len(tokens)
                below[children[token]] = (before + (token,), drawn.count(token))
            draws[node] = Siblings(tuple(children[token] for token in drawn), drawn, row, independent)
        level = below
    return DraftTree(tokens, parents, draws)
