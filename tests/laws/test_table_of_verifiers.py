"""What each entry of the table of verifiers says of itself is so, whatever draft it is given."""

from fractions import Fraction
from itertools import product

import pytest

from speculative import VERIFIERS, Draft, draft, law, point_mass, prove, rational, sample, table, verify
from speculative.draft import hub, independent, model, paths, top, top_and_one, tree, without_replacement
from speculative.verify.plan import lift, walk, when_refused

LOSSLESS = [name for name, entry in VERIFIERS.items() if entry.lossless]
OF_TREES = [name for name, entry in VERIFIERS.items() if entry.make_drafter is not model]
OF_CHAINS = [name for name in VERIFIERS if name not in OF_TREES]
OF_TOKENS = [name for name, entry in VERIFIERS.items() if entry.drafts == "tokens"]

SCHEMES = {
    "independent": independent,
    "without replacement": without_replacement,
    "top": top,
    "top and one": top_and_one,
    "hub": hub,
}
DRAFTERS = {
    "chain": model,
    "paths": lambda oracle: paths(oracle, 2),
    "a trunk, then paths": lambda oracle: paths(oracle, 2, trunk=1),
    **{
        name: lambda oracle, scheme=scheme: tree(oracle, (2, 1), scheme=scheme)
        for name, scheme in SCHEMES.items()
    },
}

TARGET = table(
    {
        (): rational(["1/2", "3/10", "1/5"]),
        (0,): rational(["1/5", "1/5", "3/5"]),
        (1,): rational(["0", "7/10", "3/10"]),
        (2,): rational(["2/5", "2/5", "1/5"]),
    }
)
SMALL = table(
    {
        (): rational(["1/5", "1/5", "3/5"]),
        (0,): rational(["3/5", "1/5", "1/5"]),
        (1,): rational(["1/3", "1/3", "1/3"]),
        (2,): rational(["1/10", "1/10", "4/5"]),
    }
)


def proof_on(function, drafter, target_warp=None):
    reference = TARGET if target_warp is None else target_warp(TARGET)
    return prove(function, TARGET, drafter(SMALL), num_draft_tokens=2, reference=reference)


def refused_or_lossless(function, drafter, target_warp=None):
    """Return "refused" or "lossless", or else by how much the law is off."""
    try:
        proof = proof_on(function, drafter, target_warp)
    except ValueError as error:
        return "refused" if len(str(error).splitlines()) == 1 else str(error)
    return "lossless" if proof.lossless else proof.distance


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("name", LOSSLESS)
def test_any_draft_is_refused_or_verified_without_loss(name, drafter):
    entry = VERIFIERS[name]
    found = refused_or_lossless(entry.function, DRAFTERS[drafter], entry.target_warp)
    assert found == "lossless" or (found == "refused" and drafter != "chain" and entry.drafts != "tree")


def test_a_rule_that_takes_any_draft_for_its_own_is_caught():
    """Recursive rejection with every law taken for the row: siblings drawn otherwise are accepted wrongly."""

    def as_if_independent(siblings, target):
        return verify.recursive_plan(siblings._replace(scheme=independent), target)

    found = {name: refused_or_lossless(walk(as_if_independent), make) for name, make in DRAFTERS.items()}
    fitting = {"chain", "paths", "a trunk, then paths", "independent"}
    assert {name for name, outcome in found.items() if outcome == "lossless"} == fitting
    assert all(isinstance(found[name], Fraction) for name in DRAFTERS.keys() - fitting)


PLANS = [name for name in verify.__all__ if name.endswith("_plan")]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("run", [walk, lift])
@pytest.mark.parametrize("name", PLANS)
def test_any_draft_is_refused_or_planned_without_loss(name, run, drafter):
    found = refused_or_lossless(run(getattr(verify, name)), DRAFTERS[drafter])
    assert found == "lossless" or (found == "refused" and drafter != "chain")


def test_a_plan_that_tries_a_child_twice_is_caught_in_a_lift():
    """A child drawn twice is accepted with half of min(1, left / law) each time: right in a walk."""

    def in_two_halves(siblings, target):
        left = target
        for child, token, one in zip(siblings.nodes, siblings.tokens, siblings.laws(), strict=True):
            half = [min(q, p) / 2 for q, p in zip(left, one, strict=True)]
            yield child, half[token] / one[token]
            left = when_refused(left, left - half)
        yield None, left

    assert refused_or_lossless(walk(in_two_halves), DRAFTERS["paths"]) == "lossless"
    assert isinstance(refused_or_lossless(lift(in_two_halves), DRAFTERS["paths"]), Fraction)


def own_draft(name):
    return sample(VERIFIERS[name].make_drafter(SMALL), (), 2, rng=0)


@pytest.mark.parametrize("name", VERIFIERS)
def test_the_drafts_it_is_proved_on_are_those_it_says_it_needs(name):
    """A chain where it says tokens, with their laws or without; whatever else it says is a kind of tree."""
    assert isinstance(own_draft(name), Draft) == VERIFIERS[name].drafts.startswith("tokens")
    assert isinstance(own_draft(name), draft.DraftTree) != VERIFIERS[name].drafts.startswith("tokens")


def verdicts(function, tokens, rows):
    """Return the law of the verdict on two tokens with the laws that are given."""
    return law(function, Draft(tokens, tuple(rows)), tuple(TARGET.score((), tokens)))


@pytest.mark.parametrize("name", OF_CHAINS)
def test_only_who_says_tokens_and_laws_looks_at_the_laws(name):
    """On none of the drafts of two tokens, or on some: as drawn from SMALL, and as a certain draft."""
    looks = [
        verdicts(VERIFIERS[name].function, tokens, SMALL.score((), tokens)[:2])
        != verdicts(VERIFIERS[name].function, tokens, [point_mass(token, 3) for token in tokens])
        for tokens in product(range(3), repeat=2)
    ]
    assert any(looks) == (name not in OF_TOKENS)


@pytest.mark.parametrize("name", VERIFIERS)
def test_it_changes_nothing_that_it_is_given(name):
    """Rows are read-only and in a tuple, so that writing raises; the draft is compared with a copy."""
    given, again = own_draft(name), own_draft(name)
    rows = tuple(TARGET.score_tree((), given.tokens, getattr(given, "parents", range(len(given)))))
    assert not any(row.flags.writeable for row in (*rows, *given.rows))
    assert sum(law(VERIFIERS[name].function, given, rows).values()) == 1
    assert given.tokens == again.tokens
    assert [row.tolist() for row in given.rows] == [row.tolist() for row in again.rows]


def test_one_that_writes_into_rows_is_caught():
    def overwriting(chance, proposal, target_probs):
        target_probs[0][0] = 0
        return (chance.pick(target_probs[0]),)

    with pytest.raises(ValueError, match="read-only"):
        law(overwriting, own_draft("recursive"), tuple(TARGET.score((), ())))
