"""What a round costs besides time: operations on whole rows, rows that are looked at, memory.

Nothing here depends on the machine.
"""

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from speculative import draft, sample, table, verify
from speculative.chance import Sampler
from speculative.distribution import residual
from speculative.draft import Draft
from speculative.verify import VERIFIERS

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "docs"))
import speed  # the script that measures

OFF_THE_PATH = {
    "block": "judges the beginnings of the draft together",
    "greedy_block": "as block",
    "multipath": "as block, along the path that ranks highest",
    "lifted_transport": "goes from the leaves up",
    "traversal": "goes from the leaves up",
}
"""Verifiers that look at rows of nodes which they then do not keep, and why."""

HEAVY = {
    "gumbel": "puts both rows in one order and integrates",
    "k_seq": "bisects for its scale",
    "mentored": "meets its budget by Brent's method",
    "transport": "a race among all draws of a node",
    "lifted_transport": "as transport",
}
"""Verifiers that take more than `FEW` array operations for each row and draw they look at, and why."""

FEW, MANY = 12, 100
BYTES = 8


class Counted(np.ndarray):
    """A row that counts the numpy operations on it and on what comes of it, and each time it is read.

    A rule that goes through a row token by token, or solves something for each of V tokens, comes to V.
    """

    work = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        Counted.work += 1
        if "out" in options:
            options["out"] = tuple(map(plain, options["out"]))
        return counted(getattr(ufunc, method)(*map(plain, inputs), **options))

    def __getitem__(self, index):
        Counted.work += 1
        return super().__getitem__(index)

    def cumsum(self):
        Counted.work += 1
        return super().cumsum()

    def argsort(self, **options):
        Counted.work += 1
        return super().argsort(**options)

    def tolist(self):
        Counted.work += self.size
        return super().tolist()


def plain(value):
    return value.view(np.ndarray) if isinstance(value, Counted) else value


def counted(value):
    return value.view(Counted) if isinstance(value, np.ndarray) and value.ndim else value


class Watched(list):
    """The target's rows, which remember for which nodes they were asked."""

    def __init__(self, rows):
        super().__init__(rows)
        self.seen = set()

    def __getitem__(self, node):
        self.seen.add(node)
        return super().__getitem__(node)


def in_counted_rows(one):
    rows = Watched(row.view(Counted) for row in one.target_probs)
    if isinstance(one.draft, Draft):
        return Draft(one.draft.tokens, [row.view(Counted) for row in one.draft.probs]), rows
    draws = {node: of._replace(row=of.row.view(Counted)) for node, of in one.draft.draws.items()}
    return draft.DraftTree(one.draft.tokens, one.draft.parents, draws, sampled=True), rows


def on_path(proposed, tokens):
    """Return the nodes that a verifier comes to on the way to what it emits."""
    nodes = [0]
    for token in tokens[:-1]:
        nodes.append(proposed.child(nodes[-1], token))
    return set(nodes)


def met(proposed, nodes):
    """Return how many rows of the target and draws below them there are at these nodes."""
    return sum(1 + len(of.tokens) if (of := proposed.siblings(node)) else 1 for node in nodes)


def verified(function, one, seed=0):
    """Return how many operations one verification takes, the nodes it looked at, and those on its path."""
    proposed, rows = in_counted_rows(one)
    Counted.work = 0
    verdict = function(Sampler(np.random.default_rng(seed)), proposed, rows)
    return Counted.work, rows.seen, on_path(proposed, verdict.tokens)


@pytest.mark.parametrize("name", VERIFIERS)
def test_only_verifiers_that_must_look_off_the_path(name):
    """Those named in `OFF_THE_PATH` do, on one of the drafts at least; all others on none."""
    rounds = speed.drafted(name, 32, 16)
    looks = [verified(VERIFIERS[name].function, one, seed)[1:] for seed, one in enumerate(rounds)]
    assert any(seen - path for seen, path in looks) == (name in OFF_THE_PATH)


@pytest.mark.parametrize("name", VERIFIERS)
def test_operations_go_with_the_rows_and_draws_looked_at_and_not_with_the_vocabulary(name):
    if name == "canonical":
        pytest.skip("solves a flow of V squared variables, and says so")
    most = 0
    for vocab_size in (32, 2_048):
        for seed, one in enumerate(speed.drafted(name, vocab_size, 16, rounds=3)):
            work, seen, _ = verified(VERIFIERS[name].function, one, seed)
            most = max(most, work / met(one.draft, seen))
    assert most <= MANY
    assert (most > FEW) == (name in HEAVY)


def test_a_rule_that_goes_through_the_tokens_is_noticed():
    def slow(chance, proposed, target_probs):
        left = [max(0, q - p) for q, p in zip(target_probs[0], proposed.probs[0], strict=True)]
        return verify.Verdict((chance.pick(left),), accepted=0)

    (one,) = speed.drafted("token", 2_048, 4, rounds=1)
    work, seen, _ = verified(slow, one)
    assert work > MANY * met(one.draft, seen)


def test_a_rule_that_looks_at_every_row_is_noticed():
    def careful(chance, proposed, target_probs):
        sums = [target_probs[i].sum() for i in range(len(proposed) + 1)]
        assert sums == pytest.approx([1] * len(sums))
        return verify.Verdict((chance.pick(target_probs[0]),), accepted=0)

    (one,) = speed.drafted("token", 32, 4, rounds=1)
    assert verified(careful, one)[1] == {0, 1, 2, 3, 4}


class Answers:
    """Answers flips as told and picks token 0."""

    def __init__(self, *flips):
        self.flips = iter(flips)

    def flip(self, _):
        return next(self.flips)

    def pick(self, _):
        return 0


def operations(verifier, *flips):
    rows = [np.array([0.5, 0.3, 0.2])] * 4
    one = speed.Drafted(Draft((2,) * 3, [np.array([0.2, 0.3, 0.5])] * 3), rows)
    proposed, target_probs = in_counted_rows(one)
    Counted.work = 0
    verifier(Answers(*flips), proposed, target_probs)
    return Counted.work


def test_token_verification_computes_one_residual_at_the_first_rejection():
    """A test reads two numbers. The residual is a difference, its positive part, and whether any is left."""
    assert operations(verify.token, True, True, True) == 6
    assert operations(verify.token, True, True, False) == 6 + 3
    assert operations(verify.token, False) == 2 + 3


def test_block_verification_computes_one_residual_for_each_beginning_it_refuses_and_none_twice():
    """Weights read six numbers. A residual is a product, a difference, its positive part and a sum.

    That of the root, which is not tested, is a difference, its positive part, and whether any is left.
    """
    assert operations(verify.block, True) == 6
    assert operations(verify.block, False, True) == 6 + 4
    assert operations(verify.block, False, False, False) == 6 + 4 + 4 + 3


def rows_of_memory(verifier, proposed, target_probs):
    """Return the most memory a verification takes beside its arguments, in rows of float64."""
    verifier(Sampler(np.random.default_rng(0)), proposed, target_probs)  # what is loaded once is not measured
    most = 0
    for seed in range(3):
        chance = Sampler(np.random.default_rng(seed))
        tracemalloc.start()
        try:
            verifier(chance, proposed, target_probs)
            most = max(most, tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return most / (BYTES * len(target_probs[0]))


VOCAB_SIZE, DRAFTS = 151_936, 8


def large_rows():
    target = np.random.default_rng(0).dirichlet(np.ones(VOCAB_SIZE))
    return target, np.roll(target, 1)


MAKERS = {
    "token": draft.model,
    "block": draft.model,
    "recursive": lambda oracle: draft.tree(oracle, (4, 1, 1, 1, 1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_round_over_a_large_vocabulary_takes_a_few_rows_of_memory(name):
    """The residual and its running sums, with a row or two on the way to them: none for each draft."""
    target, small = large_rows()
    proposed = sample(MAKERS[name](table(small)), (), DRAFTS, rng=0)
    target_probs = [target] * (len(proposed) + 1)
    assert 1 <= rows_of_memory(VERIFIERS[name].function, proposed, target_probs) < 5


def test_residuals_of_all_positions_at_once_are_noticed():
    def eager(chance, proposed, target_probs):
        residuals = [residual(*rows) for rows in zip(target_probs, proposed.probs, strict=False)]
        return verify.Verdict((chance.pick(residuals[0]),), accepted=0)

    target, small = large_rows()
    proposed = sample(draft.model(table(small)), (), DRAFTS, rng=0)
    assert rows_of_memory(eager, proposed, [target] * (DRAFTS + 1)) > DRAFTS
