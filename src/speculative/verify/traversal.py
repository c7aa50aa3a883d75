"""Traversal verification: judge a tree from its leaves to its root, deleting each leaf that is refused.

Weng et al. 2025, "Traversal verification for speculative tree decoding". Siblings are taken as drawn without
replacement, as in the paper; deterministic and other siblings by the laws they declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from speculative.chance import Chance, Number
from speculative.distribution import Row, excess
from speculative.draft.proposal import Draft, DraftTree
from speculative.verify.verdict import Verdict


def traversal(chance: Chance, draft: Draft | DraftTree, target_probs: Sequence[Row]) -> Verdict:
    """Accept the first leaf that passes, with all that leads to it; delete those that do not.

    Parameters
    ----------
    chance : Chance
        One `flip` per leaf that is judged, the root left out, then one `pick`.
    draft : DraftTree or Draft
        Siblings drawn without replacement, independently (repeats are left out), or as they declare.
    target_probs : sequence of n + 1 rows, each (V,)
        Row i is the target's law after node i.

    Returns
    -------
    Verdict

    Notes
    -----
    The weight of a node is the paper's acceptance rate of the sequence that ends there, min(1, weight of the
    parent * target / draft). Deleting a leaf leaves its parent another weight, another row of the target and
    another law of the draft, so that the weights of the siblings to come are theirs. A node whose children
    are all deleted is a leaf.

    **Law.** The target's. It equals `lift(distinct_plan)`, and on a chain `block`, verdict by verdict; it
    accepts at least as many drafts as `block` does on the first path alone.
    """
    weights: list[Number] = [1]  # of the nodes from the root to where we are
    rows = [target_probs[0]]  # what is left of the target's law after each
    untried = [_children(draft, 0)]  # what is left below each
    tokens: list[int] = []  # the token of each but the root
    laws: list[Row] = []  # what each of these was drawn from, given the deleted siblings
    while True:
        child = next(untried[-1], None)
        if child is not None:  # no leaf: go down
            node, token, law = child
            weights.append(min(1, weights[-1] * rows[-1][token] / law[token]))
            rows.append(target_probs[node])
            untried.append(_children(draft, node))
            tokens.append(token)
            laws.append(law)
        elif not tokens or chance.flip(weights[-1]):  # a leaf is accepted, the root always
            return Verdict((*tokens, chance.pick(rows[-1])), accepted=len(tokens))
        else:  # delete it, and change its parent
            for path in (weights, rows, untried, tokens):
                path.pop()
            weights[-1], rows[-1] = _without_leaf(weights[-1], rows[-1], laws.pop())


def _children(draft: Draft | DraftTree, node: int) -> Iterator[tuple[int, int, Row]]:
    """Yield the children of a node, each with its token and the law it was drawn from."""
    siblings = draft.siblings(node)
    if siblings is not None:
        distinct = siblings.distinct()
        yield from zip(distinct.nodes, distinct.tokens, distinct.laws(), strict=True)


def _without_leaf(weight: Number, target: Row, law: Row) -> tuple[Number, Row]:
    """Return the weight of a node, and what is left of its row, when a leaf drawn from `law` was refused."""
    left = excess(weight * target, law)
    mass = left.sum()
    if mass == 0:  # nothing left to accept; with a weight of 1 only rounding leads here
        return (0, target) if weight < 1 else (1, target)
    return mass / (mass + (1 - weight)), left / mass
