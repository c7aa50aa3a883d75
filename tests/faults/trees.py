"""Wrong verification of trees, and trees that were not drawn as they are declared to be.

Distances are worked out on fixture F with two siblings: the first is accepted with .4, refused it is token 0
(.4) or token 3 (.2), and then (0, 11/12, 1/12, 0) of the target is left: the second is accepted if it is
token 1, with probability 1/3 if it is token 2, else only token 1 is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from speculative import Draft
from speculative.distribution import excess
from speculative.draft import DraftTree
from speculative.draft.siblings import (
    Siblings,
    draw_siblings,
    independent,
    top_and_one,
)
from speculative.verify.plan import refused

from .rules import ratio, token_rule

# Drafters


@dataclass(frozen=True, slots=True)
class Unchecked(DraftTree):
    """A tree as engines hand it on: nobody looks whether its tokens can come from the declared laws."""

    def __post_init__(self, sampled: bool) -> None:
        pass


def tree(oracle, *, drawn=independent, declared=None, counts=(2,)):
    """Return a drafter of `counts` siblings by depth, then one; drawn by one scheme and declared as another.

    A child that was drawn m times has m times as many draws below it.
    """

    def propose(chance, context, num_draft_tokens):
        tokens, parents, draws = (), (), {}
        level = {0: (context, 1)}
        for depth in range(num_draft_tokens):
            below = {}
            for node, (before, times) in level.items():
                row = oracle(before)
                count = times * counts[depth] if depth < len(counts) else times
                siblings = draw_siblings(chance, drawn if count > 1 else independent, row, count)
                children = {}
                for token in siblings:
                    if token not in children:
                        tokens, parents = (*tokens, token), (*parents, node)
                        children[token] = len(tokens)
                    below[children[token]] = ((*before, token), siblings.count(token))
                nodes = tuple(children[token] for token in siblings)
                draws[node] = Siblings(
                    nodes, siblings, row, (declared or drawn) if count > 1 else independent
                )
            level = below
        return Unchecked(tokens, parents, draws)

    return propose


def not_renormalised(row, drawn, count):
    """Without replacement, but the row keeps its values: the others do not sum to one.

    On F as far off as `independent` for what was drawn without replacement: the tested values are the same.
    """
    kept = row.copy()
    kept[list(drawn)] = 0
    return kept


def greedy_as_if_raw(row, drawn, count):
    """The one sampled beside the most probable tokens is judged by the whole row.

    On F it is token 1, 2 or 3 with .1, .5 or .4, judged by .05, .25 and .2. Tokens 1 and 2 are accepted for
    certain, token 3 is refused, then token 0, and (0, 11/12, 1/12, 0) is left: the law is (0, 7/15, 8/15, 0).
    """
    return top_and_one(row, drawn, count) if drawn else row


# The parts of a rule, at a node


def left_after(left, law, token):
    """Right: what is left of the target when a sibling of that law was refused."""
    return refused(left, law)


def as_declared(siblings):
    """Right: the draws with the law of each."""
    return list(zip(siblings.tokens, siblings.laws(), strict=True))


def row_of_the_node(draft, target_probs, node):
    """Right."""
    return target_probs[node]


def residual_or_target(left, target, row):
    """Right: the weights drawn from when every sibling was refused."""
    return left if left.any() else target


def until_accepted(chance, target, draws, after):
    """Right: the token of the first sibling that is accepted, or None, and what is left of the target."""
    left = target
    for token, law in draws:
        if chance.flip(ratio(left, law, token)):
            return token, left
        left = after(left, law, token)
    return None, left


def tree_rule(
    *, draws=as_declared, after=left_after, at=row_of_the_node, test=until_accepted, rest=residual_or_target,
    bonus=None,
):  # fmt: skip
    """Return recursive rejection with other parts."""

    def verify(chance, draft, target_probs):
        node, above, tokens = 0, None, ()
        while node is not None and (siblings := draft.siblings(node)) is not None:
            target = at(draft, target_probs, node)
            token, left = test(chance, target, draws(siblings), after)
            if token is None:
                token = chance.pick(rest(left, target, siblings.row))
            tokens, node, above = (*tokens, token), draft.child(node, token), siblings.row
        if node is None:
            return tokens
        return (*tokens, chance.pick(target_probs[node] if bonus is None or above is None else bonus(above)))

    return verify


# Wrong: after


def nothing_taken(left, law, token):
    """Every sibling is tested against the target itself, as if it were the only one.

    Two tests of .4, each with a law of (.1, .05, .25, 0), then the target: token 1 comes out with 1.6 * .05 +
    .36 * .6 = .296 instead of .6.
    """
    return left


def without_dividing(left, law, token):
    """The residual is not renormalised before the next sibling is tested against it.

    Token 2 then passes with .05 / .25 and not with 1/3: .6 * .25 * 2/15 = 1/50 too rarely.
    """
    return excess(left, law)


def without_the_token(left, law, token):
    """Right for certain siblings only: the refused token is taken out."""
    kept = left.copy()
    kept[token] = 0
    return kept / kept.sum() if kept.any() else kept


# Wrong: draws


def repeats_left_out(siblings):
    """A token drawn twice is tested once, and the laws stay those of independent draws.

    Refused and drawn again: .4 * .5 + .2 * .2 = .24. Then 1/12 of token 2 is left, and should not be: 1/50.
    """
    return [(token, siblings.row) for token in dict.fromkeys(siblings.tokens)]


def each_twice(siblings):
    """A sibling that two paths lead through is met once on each of them.

    A single one, refused on F with probability .6, cannot pass the second time, but 1/12 of token 2 is gone
    then: 1/20. So with two siblings.
    """
    return [draw for draw in as_declared(siblings) for _ in range(2)]


def most_probable_first(siblings):
    """Tested in the order of the draft's probability, not in the order drawn.

    Token 0 comes first with probability 3/4 and not 1/2, passes with 1/5, and never as a second: 1/20 too
    often.
    """
    return sorted(as_declared(siblings), key=lambda draw: -siblings.row[draw[0]])


def last_drawn_first(siblings):
    """Right for independent draws."""
    return as_declared(siblings)[::-1]


# Wrong: rest


def target_itself(left, target, row):
    """Both are refused with probability .6 * (1 - .05 - 1/12) = .52: token 1 is .52 * .4 = 26/125 short."""
    return target


def first_refusal_only(left, target, row):
    """The residual of one refused draft, however many were refused: on F .52 / 12 = 13/300 of token 2."""
    weights = excess(target, row)
    return weights if weights.any() else target


def with_a_little_everywhere(left, target, row):
    return residual_or_target(left, target, row) + Fraction(1, 10_000)


# Wrong: at


def row_of_the_parent(draft, target_probs, node):
    return target_probs[draft.parents[node - 1] if node else 0]


def row_of_a_sibling(draft, target_probs, node):
    """The row after the first child of the same parent."""
    return target_probs[draft.parents.index(draft.parents[node - 1]) + 1 if node else 0]


def row_of_the_next_node(draft, target_probs, node):
    """Row i is taken for node i + 1, as if the rows began with the first draft's."""
    return target_probs[min(node + 1, len(target_probs) - 1)]


# Wrong: test


def on_after_acceptance(chance, target, draws, after):
    """The loop over siblings is not left: the last one that is accepted against the residual wins.

    A first one of (.1, .05, .25) gives way to token 1 with .05 and to token 2 with 1/12: .4 * .05 - .05 *
    2/15 = 1/75 of token 1 too much, and as much of token 0 too little.
    """
    left, accepted = target, None
    for token, law in draws:
        if chance.flip(ratio(left, law, token)):
            accepted = token
        left = after(left, law, token)
    return accepted, left


def on_after_acceptance_with_the_same_left(chance, target, draws, after):
    """The same, but what is left of the target is that before the acceptance.

    Right for two independent draws: both, where accepted, have a law proportional to min(target, draft).
    """
    left, accepted = target, None
    for token, law in draws:
        if chance.flip(ratio(left, law, token)):
            accepted = token
        else:
            left = after(left, law, token)
    return accepted, left


def by_one_uniform(chance, target, draws, after):
    """One uniform for all siblings of a node: after a refusal it is known to lie above the ratio.

    After token 0 token 2 passes with (1/3 - 1/5) / (4/5) = 1/6 and not 1/3: .4 * .25 / 6 = 1/60 too rarely.
    """
    left, above = target, Fraction(0)
    for token, law in draws:
        here = ratio(left, law, token)
        if above < 1 and chance.flip(max(0, here - above) / (1 - above)):
            return token, left
        left, above = after(left, law, token), max(above, here)
    return None, left


# Rules with another shape


def longest_of_all_paths(chance, draft, target_probs):
    """Token verification of every path by itself; the longest result is kept, the first among equals."""
    leaves = [node for node in range(len(draft) + 1) if draft.siblings(node) is None]
    results = []
    for leaf in leaves:
        nodes = [leaf]
        while nodes[0]:
            nodes.insert(0, draft.parents[nodes[0] - 1])
        path = Draft(
            tuple(draft.tokens[node - 1] for node in nodes[1:]),
            [draft.siblings(node).row for node in nodes[:-1]],
        )
        results.append(token_rule()(chance, path, [target_probs[node] for node in nodes]))
    return max(results, key=len)


def lifted(*, plan, accept=lambda weight, left: left.sum(), rest=lambda left, target: left):
    """Return verification from the leaves up, `lift(plan)`, with other parts."""

    def visit(chance, draft, target_probs, node, weight):
        target, siblings = target_probs[node], draft.siblings(node)
        if siblings is None:
            return (chance.pick(target),) if chance.flip(weight) else ()
        left = weight * target
        for child, value in plan(siblings, left):
            if child is None:
                left = value
                break
            below = visit(chance, draft, target_probs, child, value)
            if below:
                return (siblings.tokens[siblings.nodes.index(child)], *below)
        if node and not chance.flip(accept(weight, left)):
            return ()
        weights = rest(left, target)
        return (chance.pick(weights if weights.any() else target),)

    return lambda chance, draft, target_probs: visit(chance, draft, target_probs, 0, 1)


def plan_that_takes_nothing(siblings, target):
    """Each sibling is weighed against the whole target, also after others were refused."""
    for child, token, law in zip(siblings.nodes, siblings.tokens, siblings.laws(), strict=True):
        yield child, min(1, target[token] / law[token])
    yield None, refused(target, law)


def plan_without_dividing(siblings, target):
    """What is left is not divided by the probability of the refusal."""
    left = target
    for child, token, law in zip(siblings.nodes, siblings.tokens, siblings.laws(), strict=True):
        yield child, min(1, left[token] / law[token])
        left = excess(left, law)
    yield None, left
