"""The named faults of trees: wrong verifiers, and siblings not drawn as declared.

Each line: what is wrong; how it is built; how far the law of the first token is off on fixture F with two
siblings; where it was reported; how far the joint law of the block is off on `TWO_DRAFTS`, where two siblings
follow the context and one draft follows each.
"""

from __future__ import annotations

from speculative import verify
from speculative.draft.siblings import hub, independent, top, top_and_one, without_replacement

from . import trees
from .setups import Fault, Setup
from .trees import lifted, tree, tree_rule


def on_trees(function=verify.recursive, **options):
    """Return the setup of a verifier on trees of two independent siblings, or of others, by `options`."""
    return lambda target, small: Setup(function, target, tree(small, **options), target)


def recursion(**parts):
    """Return the setup of recursive rejection with other parts."""
    return on_trees(tree_rule(**parts))


def as_if_certain(siblings):
    """Siblings with point masses for laws."""
    return [(token, 0 * siblings.row + 1) for token in siblings.tokens]


RECURSION = (
    Fault(
        "each sibling tested against the whole target", recursion(after=trees.nothing_taken), "38/125",
        joint="41/256",
    ),
    Fault(
        "the same, then the residual of one",
        recursion(after=trees.nothing_taken, rest=trees.first_refusal_only), "19/100",
        "NJUNLP/MCSD#5, as it was read", joint="41/512",
    ),
    Fault(
        "residual not renormalised for the next sibling", recursion(after=trees.without_dividing), "1/50",
        joint="3/64",
    ),
    Fault(
        "refused: target without the token", recursion(after=trees.without_the_token), "32/125",
        "right for certain siblings only", joint="67/1024",
    ),
    Fault(
        "all refused: sampled from the target", recursion(rest=trees.target_itself), "26/125",
        joint="231/2048",
    ),
    Fault(
        "all refused: residual of one draft", recursion(rest=trees.first_refusal_only), "13/300",
        joint="9/256",
    ),
    Fault(
        "tree: residual plus 1e-4", recursion(rest=trees.with_a_little_everywhere), "39/250100",
        "multi-path code", joint="1670519/25615362304",
    ),
    Fault(
        "repeats left out, laws left alone", recursion(draws=trees.repeats_left_out), "1/50", joint="9/256",
    ),
    Fault(
        "siblings met once a path", recursion(draws=trees.each_twice), "1/20",
        "EAGLE's evaluation leaves repeats out", joint="29/384",
    ),
    Fault(
        "trunk met once a path", on_trees(tree_rule(draws=trees.each_twice), counts=(1, 2)), "1/20",
        "EAGLE's evaluation leaves repeats out", joint="5/64",
    ),
    Fault(
        "most probable sibling first", recursion(draws=trees.most_probable_first), "1/20", joint="131/1024",
    ),
    Fault("tests go on after acceptance", recursion(test=trees.on_after_acceptance), "1/75", joint="1/8"),
    Fault(
        "tests go on after acceptance, without replacement",
        on_trees(
            tree_rule(test=trees.on_after_acceptance_with_the_same_left), drawn=without_replacement
        ),
        "1/100", joint="1/16",
    ),
    Fault("one uniform for all siblings", recursion(test=trees.by_one_uniform), "1/60", joint="0"),
    Fault("tree: row of the parent", recursion(at=trees.row_of_the_parent), "0", joint="7/32"),
    Fault("tree: row of a sibling", recursion(at=trees.row_of_a_sibling), "0", joint="7/128"),
    Fault("tree: row of the next node", recursion(at=trees.row_of_the_next_node), "4/5", joint="59/128"),
    Fault("tree: bonus drawn from the draft", recursion(bonus=lambda row: row), "0", joint="617/4096"),
    Fault(
        "each path verified alone, the longest kept", on_trees(trees.longest_of_all_paths), "23/150",
        joint="223/4096",
    ),
)  # fmt: skip
"""Recursive rejection with one part exchanged."""

LIFTED = (
    Fault(
        "lifted: each sibling weighed against the whole target",
        on_trees(lifted(plan=trees.plan_that_takes_nothing)), "19/100", joint="223/2304",
    ),
    Fault(
        "lifted: what is left not divided", on_trees(lifted(plan=trees.plan_without_dividing)), "1/50",
        joint="41013/524288",
    ),
    Fault(
        "lifted: a node accepted with its weight",
        on_trees(lifted(plan=verify.recursive_plan, accept=lambda weight, left: weight)), "0",
        joint="53/512",
    ),
    Fault(
        "lifted: all refused: sampled from the target",
        on_trees(lifted(plan=verify.recursive_plan, rest=lambda left, target: target)), "26/125",
        joint="203/2048",
    ),
)  # fmt: skip
"""Verification from the leaves up (traversal) with one part exchanged."""

DECLARED = (
    Fault(
        "without replacement, declared independent",
        on_trees(drawn=without_replacement, declared=independent), "3/80", "SafeAILab/EAGLE#74",
        joint="1/16",
    ),
    Fault(
        "independent, declared without replacement",
        on_trees(tree_rule(), declared=without_replacement), "6/25", "NJUNLP/MCSD#5", joint="155/1024",
    ),
    Fault(
        "without replacement, the row not renormalised",
        on_trees(drawn=without_replacement, declared=trees.not_renormalised), "3/80", "SafeAILab/EAGLE#74",
        joint="1/16",
    ),
    Fault(
        "most probable siblings with the soft law", on_trees(drawn=top, declared=independent), "1/10",
        "apple/ml-recurrent-drafter#6", joint="1/4",
    ),
    Fault(
        "most probable siblings, declared without replacement",
        on_trees(drawn=top, declared=without_replacement), "1/6", "apple/ml-recurrent-drafter#6",
        joint="1/4",
    ),
    Fault(
        "hub pairs, declared without replacement", on_trees(drawn=hub, declared=without_replacement), "1/60",
        joint="0",
    ),
    Fault(
        "greedy drafts with the raw law", on_trees(drawn=top_and_one, declared=trees.greedy_as_if_raw),
        "7/30", joint="1/4",
    ),
)  # fmt: skip
"""Siblings that were not drawn as they are declared; the rule is right."""

TREES = (*RECURSION, *LIFTED, *DECLARED)

ALLOWED_TREES = {
    "recursive rejection, in parts": recursion(),
    "lifted, in parts": on_trees(lifted(plan=verify.recursive_plan)),
    "last drawn sibling first": recursion(draws=trees.last_drawn_first),  # ggml-org/llama.cpp#5625
    "tests go on after acceptance, independent siblings": recursion(
        test=trees.on_after_acceptance_with_the_same_left
    ),
    "certain siblings met twice": on_trees(tree_rule(draws=trees.each_twice), drawn=top, counts=(2, 2)),
    "certain siblings, the refused one taken out": on_trees(
        tree_rule(draws=as_if_certain, after=trees.without_the_token), drawn=top
    ),  # SafeAILab/EAGLE#329
    "sampled siblings as if certain": recursion(draws=as_if_certain, after=trees.without_the_token),
    "a trunk and branches": on_trees(counts=(1, 2)),
    "without replacement": on_trees(drawn=without_replacement),
}
"""By name, the setups that have to be lossless."""
