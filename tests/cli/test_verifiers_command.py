import json
from fractions import Fraction
from functools import partial
from itertools import groupby

import pytest

from speculative.cli.drafting import takes_chains
from speculative.cli.verifiers import INSTANCES, WIDE, _optima, optima
from speculative.draft import model, paths
from speculative.verify import VERIFIERS, Verifier
from speculative.warp import temperature

FEW = "token", "greedy", "recursive", "lenient"


@pytest.fixture
def few(monkeypatch):
    """Only some verifiers, in an order that is not that of the table to be shown."""
    entries = {name: VERIFIERS[name] for name in reversed(FEW)}
    monkeypatch.setattr("speculative.cli.verifiers.VERIFIERS", entries)


@pytest.fixture
def found(run):
    """Run with --json and return what it holds, by verifier."""

    def loaded():
        result = run("verifiers", "--json")
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return {one["verifier"]: one for one in json.loads(result.stdout)}

    return loaded


def test_every_verifier_is_there_and_no_lossless_one_is_above_the_optimum(found):
    """Only what is carried can take a round above it: the rounds after pay for that."""
    listed = found()
    assert set(listed) == set(VERIFIERS)
    for name, one in listed.items():
        entry = VERIFIERS[name]
        assert (one["published"], one["drafts"], one["carries"]) == (entry.paper, entry.drafts, entry.carries)
        assert (one["lossless"], one["chain"]) == (entry.lossless, takes_chains(entry))
        assert (one["share_of_optimum"] is not None) == entry.lossless
        if entry.lossless and not entry.carries:
            assert 0 < one["share_of_optimum"] <= 1 + 1e-9
    assert listed["greedy_block"]["share_of_optimum"] > 1
    assert listed["block"]["share_of_optimum"] == pytest.approx(1)
    assert listed["greedy"]["share_of_optimum"] == pytest.approx(1)
    assert listed["greedy"]["under"] == "temperature(0)"
    order = [(not one["lossless"], not one["chain"]) for one in listed.values()]
    assert order == sorted(order)
    sections = {}
    for one in listed.values():
        sections.setdefault((one["lossless"], one["drafted"]), []).append(
            one["tokens_per_target_pass_as_float"]
        )
    assert all(tokens == sorted(tokens, reverse=True) for tokens in sections.values())
    assert [drafted for _, drafted in sections] == [
        "chains",
        "2 independent paths",
        "tree 2,2 in pairs with the most probable token",
        "chains",
    ]
    runs = [key for key, _ in groupby(listed.values(), lambda one: (one["lossless"], one["drafted"]))]
    assert runs == list(sections)  # each kind of drafts stands together


@pytest.mark.usefixtures("few")
def test_tokens_are_those_of_proofs(found):
    listed = found()
    assert list(listed) == ["token", "greedy", "recursive", "lenient"]
    for name, one in listed.items():
        entry = VERIFIERS[name]
        proofs = [instance.prove(entry.function, make_drafter=entry.make_drafter) for instance in INSTANCES]
        exact = Fraction(one["tokens_per_target_pass"])
        assert exact == sum(proof.tokens_per_target_pass for proof in proofs) / len(INSTANCES)
        assert one["tokens_per_target_pass_as_float"] == float(exact)


@pytest.mark.usefixtures("few")
def test_the_share_is_all_that_is_accepted_of_all_that_could_be(found):
    proofs = [instance.prove(VERIFIERS["token"].function) for instance in INSTANCES]
    accepted = sum(float(proof.expected_accepted) for proof in proofs)
    assert found()["token"]["share_of_optimum"] == pytest.approx(accepted / sum(optima(None, model)))


def test_one_way_to_draft_has_its_optima_computed_once():
    _optima.cache_clear()
    first = optima(None, partial(paths, num_paths=2))
    assert optima(None, partial(paths, num_paths=2)) is first
    assert optima(None, partial(paths, num_paths=1)) is not first
    assert optima(temperature(0), partial(paths, num_paths=1)) != optima(None, partial(paths, num_paths=1))
    assert optima(None, partial(paths, num_paths=1)) == pytest.approx(optima(None, model))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("columns", [80, 120])
def test_it_is_readable_in_any_terminal(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = run("verifiers")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert max(map(len, result.stdout.splitlines())) <= columns
    header = "verifier drafts lossless tokens/pass of optimum"
    assert header + " published" * (columns >= WIDE) in lines
    assert ("verifier published" in lines) == (columns < WIDE)
    rows = [line for line in lines if line.startswith(FEW) and "Leviathan" not in line.split(" ", 1)[1][:10]]
    assert [row.split()[0] for row in rows][:4] == ["token", "greedy", "recursive", "lenient"]
    assert rows[0].startswith("token tokens and laws yes ")
    assert rows[1].startswith("greedy tokens yes * ")
    assert rows[3].startswith("lenient tokens and laws no ")
    shown = " ".join(result.stdout.split())
    assert "* greedy at temperature(0)." in shown
    assert "Sections: chains; 2 independent paths; chains, lossy." in shown
    assert "linear program at each node" not in shown
    assert f"the mean over {len(INSTANCES)} random pairs of models" in shown


@pytest.mark.usefixtures("few")
def test_a_verifier_that_is_added_is_listed(found, run, monkeypatch):
    """An entry is all it takes: nothing in the command knows it by name."""

    def target_alone(chance, draft, target_probs):
        return [chance.pick(target_probs[0])]

    added = Verifier(target_alone, "nowhere", lossless=True, drafts="anything", carries="nothing")
    monkeypatch.setattr("speculative.cli.verifiers.VERIFIERS", {"alone": added})
    one = found()["alone"]
    assert 1 <= one["tokens_per_target_pass_as_float"] < 2
    assert 0 <= one["share_of_optimum"] < 1
    assert "alone carrying nothing to the next round" in run("verifiers").stdout
    monkeypatch.setitem(VERIFIERS, "alone", added)
    assert run("prove", "alone", "--json").exit_code == 0
    generated = run("generate", "--target", "ngram", "--verifier", "alone", "--tokens", "5", "--json")
    assert json.loads(generated.stdout)["verifier"] == "alone"


def test_transport_says_what_it_takes(run, monkeypatch):
    entries = {name: VERIFIERS[name] for name in ("transport", "lifted_transport")}
    monkeypatch.setattr("speculative.cli.verifiers.VERIFIERS", entries)
    assert (
        "With siblings that are not independent lifted_transport or transport takes a linear program at each "
        "node, and a small vocabulary."
    ) in " ".join(run("verifiers").stdout.split())


def test_the_bar_is_on_standard_error_of_a_terminal(run, monkeypatch):
    monkeypatch.setattr("speculative.cli.verifiers.VERIFIERS", {"token": VERIFIERS["token"]})
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = run("verifiers")
    assert "1/1" in result.stderr
    assert "1/1" not in result.stdout
