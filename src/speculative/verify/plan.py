"""From one step to a tree: a plan says what one target row makes of one node's siblings.

Two ways to run a plan on a tree. `walk` goes from the root down and keeps what each step decides. `lift` goes
from the leaves up, so that a child is not accepted alone but together with what its own subtree can follow it
with: block verification for trees. For recursive rejection and transport it accepted no less in any case
tried; a plan whose leftover can draw a sibling again loses, lifted, the hits from which a walk goes on.

The frame is that of optimal transport with membership cost (Sun et al. 2023, SpecTr; Hu et al. 2025). The
lifting is derived here; it is what Weng et al. 2025 (traversal verification) do to recursive rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from speculative.chance import Chance, Number
from speculative.distribution import Row, excess
from speculative.draft.proposal import Draft, DraftTree
from speculative.draft.siblings import Siblings
from speculative.verify.verdict import Verdict

Step = tuple[int, Number] | tuple[None, Row]
Plan = Callable[[Siblings, Row], Iterator[Step]]
"""`plan(siblings, target)` for weights `target` (V,) of sum w <= 1 yields, lazily and in this order,

- `(child, acceptance)`, each child at most once with an acceptance above 0: its probability, given that those
  before it were refused;
- `(None, left)`: the weights to draw from when all were refused. They sum to the probability of emitting
  anything then, which is 1 for w = 1.

**Law.** Accepting a child is emitting its token. Over the draws of the siblings, token i is then emitted with
probability target[i].
"""

UNFINISHED = "the plan ended without (None, left): yield last what to draw from when all siblings are refused"


def walk(plan: Plan) -> Callable[..., Verdict]:
    """Return the verifier that runs a plan from the root down.

    Parameters
    ----------
    plan : callable
        See `Plan`.

    Returns
    -------
    callable
        `(chance, draft, target_probs) -> Verdict`, for chains and trees. It goes on from the child that a
        step emits, whether a test accepted it or it was drawn from what was left.

    Notes
    -----
    **Law.** The target's: every token is emitted with the law of its step, and the subtree below it is drawn
    as declared, given all that came before.
    """
    return partial(_walk, plan)


def _walk(plan: Plan, chance: Chance, draft: Draft | DraftTree, target_probs: list[Row]) -> Verdict:
    node: int | None = 0
    tokens: tuple[int, ...] = ()
    while node is not None:
        emitted = _step(plan, chance, draft.siblings(node), target_probs[node])
        tokens, node = (*tokens, emitted), draft.child(node, emitted)
    return Verdict(tokens, accepted=len(tokens) - 1)


def _step(plan: Plan, chance: Chance, siblings: Siblings | None, target: Row) -> int:
    if siblings is None:
        return chance.pick(target)
    for child, value in plan(siblings, target):
        if child is None:
            return chance.pick(_or_target(value, target))
        if chance.flip(value):
            return siblings.tokens[siblings.nodes.index(child)]
    raise ValueError(UNFINISHED)


def lift(plan: Plan) -> Callable[..., Verdict]:
    """Return the verifier that runs a plan from the leaves up.

    Parameters
    ----------
    plan : callable
        See `Plan`.

    Returns
    -------
    callable
        `(chance, draft, target_probs) -> Verdict`, for chains and trees.

    Notes
    -----
    A node is visited with a weight w, the probability that it is to be accepted, with the draws below it not
    looked at. It passes w times the target's row to its plan, visits the children with the acceptances of
    the plan as weights, and only when none of their subtrees accepts is it accepted itself, with the
    probability that is left. The root has weight 1.

    **Law.** The target's. By induction from the leaves: over the draws below a node, its subtree emits each
    continuation with w times the target's probability of it. It needs subtrees that are independent of one
    another given the siblings.
    """
    return partial(_lift, plan)


def _lift(plan: Plan, chance: Chance, draft: Draft | DraftTree, target_probs: list[Row]) -> Verdict:
    def visit(node: int, weight: Number) -> tuple[int, ...]:
        """Return what the subtree of `node` emits after it; nothing where it is refused."""
        siblings, target = draft.siblings(node), target_probs[node]
        if siblings is None:
            return (chance.pick(target),) if chance.flip(weight) else ()
        for child, value in plan(siblings, weight * target):
            if child is None:
                left = value
                break
            if below := visit(child, value):
                return (siblings.tokens[siblings.nodes.index(child)], *below)
        else:
            raise ValueError(UNFINISHED)
        if node == 0:
            return (chance.pick(_or_target(left, target)),)
        return (chance.pick(left),) if chance.flip(min(1, left.sum())) else ()  # rounding: a bit above 1

    tokens = visit(0, 1)
    return Verdict(tokens, accepted=len(tokens) - 1)


def _or_target(left: Row, target: Row) -> Row:
    """Return what is left, or the target where rounding has left nothing; see `residual`."""
    return left if left.any() else target


def in_turn(shares: Mapping[int, Number]) -> Iterator[tuple[int, Number]]:
    """Yield children with their acceptances, given the ones before refused, from their shares of one choice.

    `shares[child]` is the probability that `child` is the one accepted; they sum to 1 at most.
    """
    used: Number = 0
    for child, share in shares.items():
        if share > 0 and used < 1:
            yield child, min(1, share / (1 - used))
            used += share


def refused(target: Row, draft: Row) -> Row:
    """Return the weights that are left when a draft drawn from `draft` was refused.

    Parameters
    ----------
    target : ndarray, shape (V,)
        Weights of sum w <= 1; the draft was accepted with probability min(1, target / draft).
    draft : ndarray, shape (V,)
        The law it was drawn from.

    Returns
    -------
    ndarray, shape (V,)
        max(0, target - draft), divided by the probability of refusal.
    """
    return when_refused(target, excess(target, draft))


def when_refused(target: Row, left: Row) -> Row:
    """Return the weights left of the target, divided by the probability that all siblings are refused."""
    refusal = 1 - target.sum() + left.sum()
    return left / refusal if refusal > 0 else left
