"""Verifiers of trees: golden values, optima, orderings, and faults that published rules came with."""

import sys
from fractions import Fraction
from functools import partial
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import VERIFIERS, Draft, draft, law, prove, rational, table, verify
from speculative.distribution import is_exact, normalised
from speculative.draft import Siblings, hub, independent, top, top_and_one, without_replacement
from speculative.draft.siblings import draw_siblings
from speculative.testing import pairs, rows
from speculative.verify.plan import lift, walk

k_seq_file = sys.modules["speculative.verify.k_seq"]

TARGET = table({(): rational([".5", ".3", ".2"])})
DRAFT = table({(): rational([".2", ".3", ".5"])})
SCHEMES = [independent, without_replacement, top, top_and_one, hub]
PLANS = {
    "recursive": (verify.recursive_plan, SCHEMES),
    "distinct": (verify.distinct_plan, SCHEMES),
    "k_seq": (verify.k_seq_plan, [independent]),
    "spechub": (verify.spechub_plan, [hub]),
}
PLANS_AND_SCHEMES = [(name, scheme) for name, (_, schemes) in PLANS.items() for scheme in schemes]
ROUNDING_OF_THE_SCALE = Fraction(1, 2**20)  # far above its 2^-30, far below what a test distinguishes

two_rows = st.sampled_from([3, 4]).flatmap(lambda size: st.tuples(rows(size), rows(size)))
small_pairs = partial(pairs, vocab_sizes=(3, 3), num_draft_tokens=(2, 2))


def accepted(verifier, drafter, num_draft_tokens=1, target=TARGET):
    """Return the expected number of accepted drafts of a rule that is proved lossless on the way."""
    proof = prove(verifier, target, drafter, num_draft_tokens=num_draft_tokens)
    assert proof.lossless
    return proof.expected_accepted


def distance(verifier, drafter, num_draft_tokens=1, target=TARGET):
    proof = prove(verifier, target, drafter, num_draft_tokens=num_draft_tokens)
    assert proof.exact
    return proof.distance


def tree_of(scheme, oracle):
    """Return a drafter of two siblings a node, of two paths where they are independent."""
    return draft.paths(oracle, 2) if scheme is independent else draft.tree(oracle, (2, 2), scheme=scheme)


def draws(scheme, row, count):
    """Return the law of the tokens that a scheme draws together."""
    return law(lambda chance: draw_siblings(chance, scheme, row, count))


def step_of(plan, target, scheme, row, count):
    """Return what a plan emits by accepting siblings and by drawing from what is left, (V,) each."""
    accepted, drawn = 0 * target, 0 * target
    for tokens, probability in draws(scheme, row, count).items():
        children = {token: node for node, token in enumerate(dict.fromkeys(tokens), start=1)}
        token_of = {node: token for token, node in children.items()}
        siblings = Siblings(tuple(children[token] for token in tokens), tokens, row, scheme)
        here = probability  # of being at this step of the plan
        for child, value in plan(siblings, target):
            if child is not None:
                assert 0 <= value <= 1
                accepted[token_of[child]] += here * value
                here *= 1 - value
            elif here:
                assert (value >= 0).all()
                drawn += here * value
        assert child is None
    return accepted, drawn


def optimum(target, scheme, row, count):
    """Return the highest acceptance of a lossless step: min over sets of 1 + target(set) - P(draws in it)."""
    drawn, tokens = draws(scheme, row, count), range(len(row))
    return min(
        1
        + sum(target[token] for token in inside)
        - sum(probability for some, probability in drawn.items() if set(some) <= set(inside))
        for inside in chain.from_iterable(combinations(tokens, size) for size in range(len(row) + 1))
    )


# Golden values, and every rule on more kinds of drafts


def test_one_step_of_two_and_of_three_draws():
    """Target (.5, .3, .2), draft (.2, .3, .5): one draw is accepted with .2 + .3 + .2 = .7.

    Recursive: only token 2 is refused, and then (1, 0, 0) is left of the target, so that each further draw is
    accepted with .2: 1 - .3 * .8 = .76, 1 - .3 * .8 * .8 = .808.
    Without replacement: the second draw comes from (.4, .6, 0): .7 + .3 * .4 = .82. The third is what is
    left, token 0: 1.
    Multi-path: the highest of K draws in the order 2, 1, 0, cumulative (.5, .8, 1), has for K = 2 the law
    (.36, .39, .25), of which the target has .36 + .3 + .2 = .86; for K = 3 (.488, .387, .125), .488 + .3 +
    .125 = .913.
    With the most probable token, 2, beside one of the others, drawn from (.4, .6, 0): .2 + .4 + .3 = .9.
    """
    for num_paths, recursive, multipath in ((2, "0.76", "0.86"), (3, "0.808", "0.913")):
        drafter = draft.paths(DRAFT, num_paths)
        assert accepted(verify.recursive, drafter) == Fraction(recursive)
        assert accepted(verify.multipath, drafter) == Fraction(multipath)
    for count, probability in ((2, "0.82"), (3, "1")):
        assert accepted(verify.recursive, draft.tree(DRAFT, (count,))) == Fraction(probability)
        assert accepted(verify.traversal, draft.tree(DRAFT, (count,))) == Fraction(probability)
    assert accepted(verify.spechub, draft.tree(DRAFT, (2,), scheme=hub)) == Fraction("0.9")
    assert accepted(verify.recursive, draft.tree(DRAFT, (2,), scheme=top_and_one)) == Fraction("0.9")


def test_one_step_of_k_seq():
    """For rho from 1 to 2.5 beta is .2 + .3 / rho + .2 / rho, and 1 - (1 - beta)^K is accepted.

    The best rho is where that equals rho beta = .2 rho + .5. For K = 2 it solves .2 rho^3 + .14 rho^2 -
    .8 rho + .25 = 0: rho = 1.456776, and .2 rho + .5 = .791355. For K = 3: 1.792593 and .858519.
    """
    assert np.roots([0.2, 0.14, -0.8, 0.25]).max() == pytest.approx(1.456776, abs=5e-7)
    for num_paths, rho, probability in ((2, 1.456776, 0.791355), (3, 1.792593, 0.858519)):
        found = k_seq_file.scale(DRAFT(()), TARGET(()), num_paths)
        beta = Fraction("0.2") + Fraction("0.5") / found
        by_tests, _ = step_of(verify.k_seq_plan, TARGET(()), independent, DRAFT(()), num_paths)
        assert by_tests.sum() == 1 - (1 - beta) ** num_paths
        assert (round(float(found), 6), round(float(by_tests.sum()), 6)) == (rho, probability)
        in_the_tree = accepted(verify.k_seq, draft.paths(DRAFT, num_paths))
        assert 0 < in_the_tree - by_tests.sum() < 2 * ROUNDING_OF_THE_SCALE, "rho is a little too large"


def test_two_levels_of_two_paths():
    """The target and the draft are those above at every node.

    Recursive: the first level accepts .76. Below it one draw is accepted with .7 and two with .76; there are
    two where both paths began with the accepted token, .2 * .2 + .3 * .3 + .5 * .5 * .4 = .23 of the cases:
    .76 + .76 * .7 + .23 * .06 = 1.3058. Leaving repeats out changes nothing: only token 0 is left.

    Traversal: tokens 0 and 1 have weight 1 and are accepted, the draws below them with .7 or .76: .5 + .2 *
    (.2 * .76 + .8 * .7) + .3 * (.3 * .76 + .7 * .7) = .8578. Token 2 has weight .4, and .4 * (.5, .3, .2) is
    nowhere above the draft: it is accepted together with a leaf or not at all, .5 * .4 * 2 = .4. If not,
    token 0 may be the second draw: .5 * .6 * .2 * (1 + .7) = .102. In all 1.3598.

    Multi-path: the second token of the top path has, in the order 2, 1, 0, the law (.17, .1116, .0784) / .36
    after token 0, (.1725, .1251, .0924) / .39 after 1, (.0625, .0975, .09) / .25 after 2. Block verification
    keeps .36, .3 and .2 of the first tokens, .86, and of the second the minima of the numbers above with
    those times (.2, .3, .5): .2584 + .2424 + .19 = .6908. In all 1.5508.
    """
    drafter = draft.paths(DRAFT, 2)
    assert accepted(verify.recursive, drafter, 2) == Fraction("1.3058")
    assert accepted(verify.recursive_distinct, drafter, 2) == Fraction("1.3058")
    assert accepted(verify.traversal, drafter, 2) == Fraction("1.3598")
    assert accepted(verify.multipath, drafter, 2) == Fraction("1.5508")


@pytest.mark.parametrize(
    ("name", "depth"),
    [("recursive", 2), ("recursive_distinct", 2), ("traversal", 2), ("multipath", 2), ("k_seq", 1)],
)
@settings(max_examples=3)
@given(small_pairs())
def test_three_paths(name, depth, pair):
    accepted(VERIFIERS[name].function, draft.paths(pair.draft, 3), depth, pair.target)


@pytest.mark.parametrize("name", ["recursive_distinct", "traversal", "multipath", "k_seq"])
@settings(max_examples=3)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(3, 3)))
def test_a_trunk_before_two_paths(name, pair):
    accepted(VERIFIERS[name].function, draft.paths(pair.draft, 2, trunk=1), 3, pair.target)


@settings(max_examples=5)
@given(pairs(vocab_sizes=(4, 4), num_draft_tokens=(2, 2)), st.sampled_from(SCHEMES))
def test_traversal_of_siblings_drawn_in_any_way(pair, scheme):
    accepted(verify.traversal, draft.tree(pair.draft, (2, 2), scheme=scheme), 2, pair.target)


# Plans keep their contract, for targets of a mass below one as well


@pytest.mark.parametrize(("name", "scheme"), PLANS_AND_SCHEMES)
@settings(max_examples=15)
@given(two_rows, st.integers(1, 3), st.sampled_from([Fraction(1), Fraction(2, 3), Fraction(1, 100)]))
def test_a_plan_emits_each_token_with_its_weight(name, scheme, laws, count, weight):
    target, row = weight * laws[0], laws[1]
    accepted, drawn = step_of(PLANS[name][0], target, scheme, row, count)
    assert is_exact(accepted + drawn)
    assert (accepted + drawn == target).all()


@pytest.mark.parametrize(("name", "scheme"), PLANS_AND_SCHEMES)
@settings(max_examples=5)
@given(small_pairs())
def test_both_ways_to_run_a_plan_are_lossless_and_the_lifted_one_accepts_no_less(name, scheme, pair):
    drafter = tree_of(scheme, pair.draft)
    lifted, walked = (accepted(way(PLANS[name][0]), drafter, 2, pair.target) for way in (lift, walk))
    assert lifted >= walked - (ROUNDING_OF_THE_SCALE if name == "k_seq" else 0)


# Traversal


def drafted_and_verdict(verifier, pair, drafter):
    """Return the joint law of the drafts and of what a verifier makes of them."""

    def program(chance):
        proposal = drafter(chance, (), pair.num_draft_tokens)
        parents = proposal.parents if isinstance(proposal, draft.DraftTree) else None
        scored = (
            pair.target.score((), proposal.tokens)
            if parents is None
            else pair.target.score_tree((), proposal.tokens, parents)
        )
        return proposal.tokens, parents, verifier(chance, proposal, scored)

    return law(program)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=5)
@given(small_pairs())
def test_traversal_is_the_lifted_recursive_rule_verdict_by_verdict(scheme, pair):
    drafter = draft.tree(pair.draft, (2, 2), scheme=scheme)
    traversed = drafted_and_verdict(verify.traversal, pair, drafter)
    assert traversed == drafted_and_verdict(lift(verify.distinct_plan), pair, drafter)


@settings(max_examples=25)
@given(pairs(vocab_sizes=(3, 4), num_draft_tokens=(1, 3)))
def test_of_one_path_traversal_and_multipath_are_block(pair):
    blocks = drafted_and_verdict(verify.block, pair, pair.drafter)
    assert drafted_and_verdict(verify.traversal, pair, pair.drafter) == blocks
    assert drafted_and_verdict(verify.multipath, pair, pair.drafter) == blocks


@settings(max_examples=15)
@given(small_pairs())
def test_traversal_never_accepts_less_than_block_on_one_of_the_paths(pair):
    traversed = accepted(verify.traversal, draft.paths(pair.draft, 2), 2, pair.target)
    assert traversed >= accepted(verify.block, pair.drafter, 2, pair.target)


# k-SEQ


@given(two_rows, st.integers(1, 3))
def test_k_seq_accepts_what_its_scale_says_and_a_share_of_the_optimum(laws, count):
    target, row = laws
    rho = k_seq_file.scale(row, target, count)
    beta = sum(np.minimum(row, target / rho))
    step = step_of(verify.k_seq_plan, target, independent, row, count)[0].sum()
    best = optimum(target, independent, row, count)
    assert step == 1 - (1 - beta) ** count
    assert step <= best
    assert step >= (1 - (1 - Fraction(1, count)) ** count) * best - ROUNDING_OF_THE_SCALE


@given(two_rows, st.integers(2, 3))
def test_no_smaller_scale_would_do(laws, count):
    target, row = laws
    rho = k_seq_file.scale(row, target, count)
    enough, smaller = (k_seq_file._suffices(row, target, count, r) for r in (rho, rho - Fraction(1, 2**12)))
    assert enough
    assert not smaller or rho < 1 + Fraction(1, 2**12)


def test_where_floats_are_wrong_the_scale_is_raised():
    """Laws that differ by 1e-18 are the same in floats, where rho = 1 is enough; here it is not."""
    tiny = Fraction(1, 10**18)
    row = rational(["1/3"] * 3)
    target = row + rational([tiny, -tiny, 0])
    assert k_seq_file.scale(row.astype(float), target.astype(float), 2) == 1
    assert k_seq_file.scale(row, target, 2) == 1 + Fraction(1, 2**30)
    assert k_seq_file.scale(row, row, 2) == 1
    accepted(verify.k_seq, draft.paths(table({(): row}), 2), target=table({(): target}))


def test_each_draw_of_a_repeated_token_is_tested():
    """Token 1, .3 in both laws, passes a test with 1 / rho, and one of two tests with 1 - (1 - 1 / rho)^2."""
    siblings = Siblings((1, 1), (1, 1), DRAFT(()), independent)
    first, *_ = verify.k_seq_plan(siblings, TARGET(()))
    passes = 1 / k_seq_file.scale(DRAFT(()), TARGET(()), 2)
    assert first == (1, 1 - (1 - passes) ** 2)


def test_a_scale_rounded_down_is_lossy(monkeypatch):
    """With rho = 29/20 and two draws beta = 1/5 + 10/29 = 79/145, and 2 - beta = 211/145 tests are made.

    Tokens 1 and 2 come out with 211/145 / rho = 844/841 of the target's 1/2: too often by 3/1682. That is
    the distance; what is left for them is clipped to nothing.
    """
    monkeypatch.setattr(k_seq_file, "scale", lambda *_: Fraction(29, 20))
    assert distance(verify.k_seq, draft.paths(DRAFT, 2)) == Fraction(3, 1682)


# Pairs with the most probable token


@given(two_rows)
def test_spechub_reaches_the_optimum_of_its_drafts_and_so_do_greedy_drafts(laws):
    target, row = laws
    oracle, options = table({(): row}), {"target": table({(): target})}
    step = accepted(verify.spechub, draft.tree(oracle, (2,), scheme=hub), **options)
    assert step == optimum(target, hub, row, 2)
    assert step == optimum(target, top_and_one, row, 2)
    assert step == accepted(verify.recursive, draft.tree(oracle, (2,), scheme=top_and_one), **options)


@given(two_rows, st.integers(1, 4))
def test_greedy_drafts_accept_the_certain_tokens_and_what_the_drawn_one_shares(laws, count):
    """alpha = target(T) + sum of min(target, drawn) outside T, with T the count - 1 most probable tokens."""
    target, row = laws
    drawn = top_and_one(row, (), count)
    certain = [int(token) for token in np.flatnonzero(row) if not drawn[token]]
    expected = target[certain].sum() + sum(np.minimum(target, drawn))
    drafter = draft.tree(table({(): row}), (count,), scheme=top_and_one)
    assert accepted(verify.recursive, drafter, target=table({(): target})) == expected
    assert expected == optimum(target, top_and_one, row, count)


def test_taking_a_nearly_certain_hub_for_granted_is_lossy():
    """The shortcut accepts the hub wherever the draft gives it more than 999/1000, whatever the target says.

    The distance is what the target has elsewhere, 1/2.
    """

    def shortcut(siblings, target):
        best = int(siblings.row.argmax())
        if siblings.row[best] > Fraction(999, 1000):
            yield siblings.nodes[siblings.tokens.index(best)], 1
        yield from verify.spechub_plan(siblings, target)

    target = table({(): rational(["1/2", "1/4", "1/4"])})
    drafter = draft.tree(table({(): rational(["1999/2000", "1/4000", "1/4000"])}), (2,), scheme=hub)
    assert distance(walk(shortcut), drafter, target=target) == Fraction(1, 2)
    assert distance(verify.spechub, drafter, target=target) == 0


# Greedy multi-path block verification


def test_ties_must_be_broken_alike_on_both_sides():
    """Ranked by min(1, target / draft), tokens 0 and 1 tie, above 2, and 1 counts as the higher.

    The law of the highest of two draws is then (.24, .51, .25). Taken is the first that was drafted, though:
    (.3, .45, .25). Token 1 comes out with .45 * .3 / .51 = 9/34 in place of 3/10, token 2 as it should.
    """

    def first_of_ties(chance, proposal, target_probs):
        siblings = proposal.siblings(0)
        ranks = np.minimum(target_probs[0] / siblings.row, 1)
        order = np.argsort(ranks, kind="stable")
        upto = np.cumsum(siblings.row[order])
        skewed = 0 * siblings.row
        skewed[order] = np.diff(upto**2, prepend=0)
        token = max(siblings.tokens, key=lambda drafted: ranks[drafted])
        node = siblings.nodes[siblings.tokens.index(token)]
        return verify.block(chance, Draft((token,), (skewed,)), [target_probs[0], target_probs[node]])

    drafter = draft.paths(DRAFT, 2)
    assert distance(first_of_ties, drafter) == Fraction(3, 10) - Fraction(9, 34)
    assert distance(verify.multipath, drafter) == 0


def test_two_paths_may_be_worth_less_than_one_of_them():
    """With equal uniform laws block verification accepts both drafts of one path, traversal of both.

    The top one of two paths, in the order of their numbers, is the n-th of 9 with (2n - 1) / 81, and its
    first token with (1, 3, 5) / 9. Block verification keeps min(1/3, that) of the first, 7/9, by token
    (1, 3, 3) / 9; and the minima of a third of these, (3, 9, 9) / 81, with (1, 3, 5), (7, 9, 11) and (13, 15,
    17) / 81: 59/81. In all 122/81 in place of 2.
    """
    uniform = table({(): rational(["1/3"] * 3)})
    options = {"num_draft_tokens": 2, "target": uniform}
    assert accepted(verify.block, draft.model(uniform), **options) == 2
    assert accepted(verify.traversal, draft.paths(uniform, 2), **options) == 2
    assert accepted(verify.multipath, draft.paths(uniform, 2), **options) == Fraction(122, 81)


def test_so_it_is_between_laws_that_differ():
    target, drafted = table({(): rational(["1/3"] * 3)}), table({(): rational(["3/8", "3/8", "1/4"])})
    two = accepted(verify.multipath, draft.paths(drafted, 2), 2, target)
    assert two < accepted(verify.block, draft.model(drafted), 2, target)


# What a rule cannot take is refused


@pytest.mark.parametrize(
    ("name", "scheme", "message"),
    [
        ("k_seq", without_replacement, "k_seq was given 2 siblings that were not drawn independently"),
        ("spechub", independent, "spechub was given 2 siblings that the scheme hub did not draw"),
        ("spechub", top_and_one, "spechub was given 2 siblings that the scheme hub did not draw"),
        (
            "multipath",
            without_replacement,
            "multipath was given 2 siblings that were not drawn independently",
        ),
    ],
)
def test_siblings_of_another_scheme_are_refused(name, scheme, message):
    with pytest.raises(ValueError, match=message):
        prove(VERIFIERS[name].function, TARGET, draft.tree(DRAFT, (2, 2), scheme=scheme), num_draft_tokens=2)


def test_multipath_refuses_trees_that_are_no_paths():
    drafter = draft.tree(DRAFT, (2, 2), scheme=independent)
    with pytest.raises(ValueError, match=r"1 paths through node \d and 2 draws below it: draft whole paths"):
        prove(verify.multipath, TARGET, drafter, num_draft_tokens=2)


# Floats


def nudged(seed, size):
    """Return two float oracles: laws that differ in the last places, tie, have zeros, or little in common."""
    rng = np.random.default_rng(seed)
    targets, drafts = {}, {}
    for context in [(), *((token,) for token in range(size))]:
        row = normalised(rng.integers(0, 4, size) + np.eye(size)[rng.integers(size)])
        kind = rng.integers(4)
        near = row * (1 + 2.0**-52 * rng.integers(-3, 4, size))
        far = normalised(rng.random(size) ** 8)
        targets[context], drafts[context] = row, (near, far, row, normalised(near + 1e-17))[kind]
    return table(targets), table(drafts)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "name", ["recursive", "recursive_distinct", "k_seq", "spechub", "traversal", "multipath"]
)
def test_float_rows(name, seed):
    target, drafted = nudged(seed, 3)
    drafter = VERIFIERS[name].make_drafter(drafted)
    proof = prove(VERIFIERS[name].function, target, drafter, num_draft_tokens=2)
    assert not proof.exact
    assert proof.distance < 1e-12


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "scheme"), PLANS_AND_SCHEMES)
def test_float_rows_lifted(name, scheme, seed):
    target, drafted = nudged(seed, 3)
    drafter = tree_of(scheme, drafted)
    proof = prove(lift(PLANS[name][0]), target, drafter, num_draft_tokens=2)
    assert proof.distance < 1e-12


def test_a_hub_that_is_certain_but_for_rounding():
    certain = table({(): np.array([1.0, 1e-20, 0.0])})
    target = table({(): np.array([0.25, 0.5, 0.25])})
    proof = prove(verify.spechub, target, draft.tree(certain, (2,), scheme=hub), num_draft_tokens=1)
    assert proof.distance < 1e-12
    assert proof.expected_accepted == pytest.approx(0.75)
