import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from speculative.battery import BATTERY, Instance
from speculative.chance import sample
from speculative.cli.account import COST_OF_A_MODEL
from speculative.cli.drafting import (
    MOST_NODES,
    RATES,
    SCHEMES,
    blaming_the_shape,
    kind_of,
    other_schemes,
    shape_of,
    takes_chains,
    takes_trees,
)
from speculative.cli.expectation import ACCEPTANCE, BATCHES, LEVEL, Watched, acceptance, compare, interval
from speculative.decode import speculate, stream
from speculative.draft import lookup, paths, tree
from speculative.laws import law
from speculative.metrics import statistics
from speculative.show.generation import MARKS
from speculative.verify import VERIFIERS

FITTED = "--target", "ngram", "--text"
OVERLAPPING = Instance("overlapping", {(): ".10 .60 .30 0"}, {(): ".50 .20 .10 .20"}, 1)
CHANGING = Instance(
    "another law after every token",
    {(): "1/2 3/10 1/5", (0,): "1/5 1/5 3/5", (1,): "0 7/10 3/10", (2,): "2/5 2/5 1/5"},
    {(): "1/5 3/10 1/2", (0,): "3/5 1/5 1/5", (1,): "1/3 1/3 1/3", (2,): "1/10 1/10 4/5"},
    2,
)


@pytest.fixture
def data(run, text):
    """Run with --json and return what it holds."""

    def loaded(*arguments):
        result = run("generate", *FITTED, text, "--json", *arguments)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return json.loads(result.stdout)

    return loaded


def test_the_bundled_text_and_its_prompt_are_the_default_of_ngrams(run):
    result = run("generate", "--target", "ngram", "--seed", "0", "--tokens", "40")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "target 10-gram, draft 5-gram, fitted on the bundled text (205,009 characters)"
    )
    assert lines[1].split("   ") == [
        "accepted draft",
        "[residual: after a rejection]",
        "{bonus: all drafts accepted}",
        "<nothing drafted>",
    ]
    assert lines[2] == "Every token but an accepted draft is the last one of a target pass."
    assert lines[4] == "MACBETH:"
    assert "measured" in result.stdout
    assert "expected: by the exact formula" in result.stdout
    assert "ms by plain decoding: " in " ".join(result.stdout.split())


def test_marks_hold_what_the_rounds_emitted(run, text, data):
    arguments = "--seed", "5", "--tokens", "50", "--temperature", "1"
    plain = run("generate", *FITTED, text, *arguments).stdout
    rounds = data(*arguments)["rounds"]
    shown = ""
    for one in rounds:
        shown += "".join(one["tokens"][: one["accepted"]])
        mark = MARKS[one["last"]]
        shown += mark[0] + one["tokens"][-1].replace("\n", "↵") + mark[1] + "\n" * (one["tokens"][-1] == "\n")
    assert shown in plain
    text_shown = plain[plain.index(shown) :][: len(shown)]
    assert sum(text_shown.count(mark) for mark in "[{<") == len(rounds)


def test_rounds_without_a_draft_have_an_origin_of_their_own(run, text, data):
    """No text is found in what is all new, and behind the last draft there is no room for one."""
    options = "the cat", "--drafter", "lookup", "--seed", "1", "--tokens", "40", "--temperature", "1"
    rounds = data(*options)["rounds"]
    assert {one["last"] for one in rounds} == {"residual", "bonus", "undrafted"}
    for one in rounds:
        assert (one["last"] == "undrafted") == (one["drafted"] == 0)
        assert (one["last"] == "bonus") == (0 < one["drafted"] == one["accepted"])
    shown = run("generate", *FITTED, text, *options).stdout.partition("target pass.")[2]
    for origin in ("bonus", "undrafted"):
        count = sum(one["last"] == origin for one in rounds)
        assert shown.count(MARKS[origin][0]) == shown.count(MARKS[origin][1]) == count > 0


def test_drafters_that_may_find_less_draft_so_many_at_most(run, text, data, write):
    own = f"{write('drafters.py', OWN_DRAFTERS)}:ready"
    for drafter in ("lookup", "suffix", own):
        options = "--drafter", drafter, "--tokens", "3", "--seed", "1"
        assert data(*options)["drafts"] == f"at most 3 drafts a round by {drafter}"
        shown = " ".join(run("generate", *FITTED, text, *options).stdout.split())
        assert f"; at most 3 drafts a round by {drafter}, token verification, seed 1" in shown
    assert data("--tokens", "3")["drafts"] == "3 drafts a round"


def test_colours_replace_the_marks(run, text, monkeypatch):
    arguments = "generate", *FITTED, text, "--seed", "5", "--tokens", "30"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = run(*arguments).stdout
    assert "\x1b[1;37;41mresidual: after a rejection\x1b[0m" in coloured
    assert "[residual" not in coloured.replace("\x1b[", "")
    assert "[residual: after a rejection]" in run(*arguments, "--no-color").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "[residual: after a rejection]" in run(*arguments).stdout


def test_json_holds_the_run_and_nothing_else_is_printed(data):
    found = data("the cat", "--tokens", "80", "--seed", "3", "--draft-tokens", "3")
    assert found["prompt"] == "the cat"
    assert len(found["text"]) == found["tokens"] == 80
    assert "".join(token for one in found["rounds"] for token in one["tokens"]) == found["text"]
    assert found["target_passes"] == len(found["rounds"])
    assert found["tokens_per_target_pass"]["measured"] == 80 / found["target_passes"]
    assert found["tokens"] == found["accepted"] + found["target_passes"]
    assert max(one["drafted"] for one in found["rounds"]) == 3 == len(found["acceptance_by_position"])
    assert all(0 < p <= 1 for one in found["rounds"] for p in one["target_probs"])
    assert found["seed"] == 3


def test_a_seed_repeats_the_run_and_without_one_runs_differ(data):
    seeded = [data("--tokens", "60", "--temperature", "1", "--seed", "1") for _ in range(2)]
    assert seeded[0]["rounds"] == seeded[1]["rounds"]
    fresh = [data("--tokens", "60", "--temperature", "1") for _ in range(2)]
    assert fresh[0]["seed"] != fresh[1]["seed"]
    again = data("--tokens", "60", "--temperature", "1", "--seed", str(fresh[0]["seed"]))
    assert again["rounds"] == fresh[0]["rounds"]


def test_the_first_line_of_a_text_is_the_prompt(data):
    assert data("--tokens", "5")["prompt"] == "the cat sat on the mat and the dog sat on the log"


def test_one_warp_goes_to_target_and_draft(data):
    """C8: with one order and one warp the two laws are one, so every draft is accepted."""
    orders = "--target-order", "3", "--draft-order", "3"
    warps = "--temperature", "0.5", "--top-k", "3", "--top-p", "0.9", "--min-p", "0.01"
    found = data("--tokens", "50", *orders, *warps)
    assert found["accepted"] == found["drafted"]
    assert "temperature(0.5), top_k(3), top_p(0.9), min_p(0.01)" in found["models"]
    assert found["tokens_per_target_pass"]["measured"] == pytest.approx(
        found["tokens_per_target_pass"]["expected"]
    )


@pytest.mark.parametrize("drafter", ["ngram", "lookup", "suffix"])
@pytest.mark.parametrize("verifier", VERIFIERS)
def test_every_verifier_with_every_drafter(data, run, text, verifier, drafter):
    options = "--verifier", verifier, "--drafter", drafter, "--tokens", "20", "--seed", "2"
    if VERIFIERS[verifier].carries and drafter != "ngram":
        result = run("generate", *FITTED, text, *options)
        assert result.exit_code == 2
        assert "carries changes of the target from round to round" in result.stderr
        return
    found = data(*options)
    assert (found["verifier"], found["drafter"], found["tokens"]) == (verifier, drafter, 20)
    assert found["accepted"] > 0
    shown = " ".join(run("generate", *FITTED, text, *options).stdout.split())
    assert f"{'' if VERIFIERS[verifier].lossless else 'lossy '}{verifier} verification, seed 2" in shown
    assert ("draft 5-gram" in shown) == (drafter == "ngram")
    assert (f"3 drafts a round by {drafter}" in shown) == (drafter != "ngram")
    own_tree = drafter == "ngram" and not takes_chains(VERIFIERS[verifier])
    assert (("a round, at most 3 deep" if verifier != "spechub" else "at most 2 deep") in shown) == own_tree
    expected = verifier in ACCEPTANCE and not own_tree
    assert ("expected: by the exact formula" in shown) == expected
    assert ("No formula gives" in shown) != expected
    for one in (found["tokens_per_target_pass"], *found["acceptance_by_position"]):
        assert (one["expected"] is not None) == expected


@pytest.mark.parametrize("columns", ["80", "200"])
def test_a_long_path_is_shown_in_one_piece(run, text, tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    file = tmp_path / ("long" * 40) / "text.txt"
    file.parent.mkdir()
    file.write_text(Path(text).read_text())
    shown = run("generate", *FITTED, str(file), "--tokens", "5", "--seed", "1").stdout
    assert f"fitted on {file} (" in shown.replace("\n", " ")


def test_equal_orders_accept_everything_whatever_rounding_does(run, text, data):
    """A sum of minima of a row with itself can be a little above 1."""
    options = "--target-order", "4", "--draft-order", "4", "--tokens", "100", "--seed", "1"
    found = data(*options)
    assert found["accepted"] == found["drafted"]
    for one in (found["tokens_per_target_pass"], *found["acceptance_by_position"]):
        assert one["expected"] == pytest.approx(one["measured"])
        assert one["error"] == pytest.approx(0, abs=1e-6)
    assert "draft 3 accepted, if reached" in run("generate", *FITTED, text, *options).stdout
    assert {"low", "high"} <= set(found["tokens_per_target_pass"])


def test_acceptance_is_a_probability():
    row = np.full(10, 0.1) * (1 + 2**-50)
    assert ACCEPTANCE["token"](row, row) > 1
    assert acceptance("token", row, row) == 1


OWN_DRAFTERS = """
import numpy as np
from speculative import Draft, Drafter, draft, from_probs, point_mass

def spaces(chance, context, num_draft_tokens):
    return Draft((1,), (point_mass(1, 14),))

def at_random(rng, context, num_draft_tokens):
    assert isinstance(rng, np.random.Generator)
    row = np.full(14, 1 / 14)
    tokens = tuple(int(rng.choice(14, p=row)) for _ in range(num_draft_tokens))
    return Draft(tokens, (row,) * len(tokens))

ready = draft.model(from_probs(lambda context: np.full(14, 1 / 14), 14))
"""


@pytest.mark.parametrize("name", ["spaces", "at_random", "ready"])
def test_a_drafter_of_the_users_own(run, data, text, write, name):
    where = f"{write('drafters.py', OWN_DRAFTERS)}:{name}"
    options = "--drafter", where, "--tokens", "60", "--seed", "4", "--temperature", "1"
    found = data(*options)
    assert (found["tokens"], found["drafter"]) == (60, where)
    assert 0 < found["accepted"] < found["drafted"]
    assert "draft 5-gram" not in found["models"]
    if name == "spaces":
        assert len(found["acceptance_by_position"]) == 1
    assert data(*options)["rounds"] == found["rounds"]
    shown = " ".join(run("generate", *FITTED, text, *options).stdout.split())
    assert f"drafts a round by {where}, token verification" in shown


def test_what_the_rounds_would_be_worth(run, text, data):
    options = "--tokens", "40", "--seed", "2"
    found = data(*options)
    worth = found["tokens"] / (found["target_passes"] + found["drafted"] * COST_OF_A_MODEL)
    shown = " ".join(run("generate", *FITTED, text, *options).stdout.split())
    assert f"the rounds above would be {worth:.2f} times as fast as the target alone" in shown


def test_a_slow_target_of_the_users_own_is_worth_drafting_for(run, text, write, monkeypatch):
    """On a clock that stands still but for the target's passes of 4 ms."""
    source = """
import time
import numpy as np
from speculative import from_probs
def slow(vocabulary):
    row = np.full(len(vocabulary), 1 / len(vocabulary))
    def score(context, drafted):
        time.sleep(0.004)
        return [row] * (len(drafted) + 1)
    print("made")
    return from_probs(lambda context: score(context, ())[0], len(vocabulary), score=score)
"""
    where = f"{write('slow.py', source)}:slow"
    options = (
        "generate",
        "--text",
        text,
        "--target",
        where,
        "--tokens",
        "20",
        "--draft-order",
        "1",
        "--seed",
        "1",
    )
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    clock = SimpleNamespace(perf_counter=lambda: sum(slept))
    monkeypatch.setattr("speculative.cli.timing.time", clock)
    monkeypatch.setattr("speculative.cli.timing.ENOUGH", 60)
    monkeypatch.setattr("speculative.cli.timing.MOST_TOKENS", 20)
    result = run(*options, "--temperature", "1")
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    times, per_token, alone = re.search(
        r"([\d.]+) ms a token, and ([\d.]+) ms by plain decoding: ([\d.]+) times as fast \(", shown
    ).group(3, 1, 2)
    assert float(times) == pytest.approx(float(alone) / float(per_token), abs=0.01)
    assert float(times) > 1
    assert alone == "4.000"
    saved = (float(alone) - float(per_token)) * 20 / 1000
    assert f"{saved:.2f} s saved on 20 tokens. Models ready in " in shown
    assert "60 other tokens after the same prompt, by both ways in turns of about 20; in brackets" in shown
    assert "the least and the most. Were a draft pass" in shown
    quiet = run(*options, "--json")
    assert json.loads(quiet.stdout)["tokens"] == 20
    assert quiet.stderr == "made\n"


@pytest.mark.parametrize("name", ACCEPTANCE)
def test_each_formula_is_the_law_of_one_draft(name):
    """On all vocabularies of at most five tokens; races go through many more orders of eight or nine."""
    for instance in BATTERY:
        if instance.target.vocab_size > 5:
            continue
        one = law(
            lambda chance, instance=instance: (
                speculate(
                    chance,
                    instance.target,
                    instance.drafter,
                    (),
                    num_draft_tokens=1,
                    verify=VERIFIERS[name].function,
                ).accepted
            )
        )
        expected = ACCEPTANCE[name](instance.target(()), instance.draft(()))
        assert one.exact
        assert one.mean() == expected


def watch(name, chance, instance, drafter, context=(), **options):
    """Run a generation with a verifier that is watched."""
    rounds, watched = [], Watched(name)
    for one in stream(chance, instance.target, drafter, context, verify=watched, **options):
        rounds.append(one)
        watched.look(one)
    return rounds, watched


@pytest.mark.parametrize("name", ACCEPTANCE)
def test_the_expectation_is_unbiased(name):
    """Measured less expected accepted drafts have mean 0 over all the ways a generation can run."""
    instance, context = CHANGING, (0, 1, 2)

    def difference(chance, drafter=instance.drafter):
        rounds, watched = watch(
            name, chance, instance, drafter, context, max_new_tokens=3, num_draft_tokens=2
        )
        tokens, accepted = compare(rounds, watched)
        assert tokens.measured == statistics(rounds).tokens_per_target_pass
        assert tuple(one.measured for one in accepted) == statistics(rounds).acceptance_by_position
        return (tokens.measured - tokens.expected) * tokens.events

    for drafter in (instance.drafter, lookup(3)):
        differences = law(difference, drafter)
        assert len(differences) > 1 or name in ("typical", "greedy")
        assert differences.mean() == pytest.approx(0, abs=1e-12)


def test_the_standard_error_is_that_of_independent_judgements():
    def program(chance):
        return watch("token", chance, OVERLAPPING, OVERLAPPING.drafter, max_new_tokens=40, num_draft_tokens=1)

    rounds, watched = sample(program, rng=0)
    tokens, (accepted,) = compare(rounds, watched)
    judged = sum(one.drafted for one in rounds)
    assert accepted.events == judged
    assert accepted.expected == pytest.approx(0.4)
    assert accepted.error == pytest.approx((0.24 / judged) ** 0.5)
    assert tokens.events == len(rounds)
    assert tokens.expected == pytest.approx(1 + 0.4 * judged / len(rounds))
    assert tokens.error == pytest.approx((0.24 * judged) ** 0.5 / len(rounds))


class TestTrees:
    """Drafts of more than one path."""

    @pytest.mark.parametrize("verifier", [name for name, entry in VERIFIERS.items() if takes_trees(entry)])
    def test_paths_for_every_verifier_of_trees(self, run, text, verifier):
        options = "--verifier", verifier, "--paths", "3", "--tokens", "20", "--seed", "2", "--json"
        result = run("generate", *FITTED, text, *options)
        if "pairs" in VERIFIERS[verifier].drafts:
            assert result.exit_code == 2
            wanted = f"{verifier} takes a {VERIFIERS[verifier].drafts}: write --tree 2,2:hub"
            assert result.stderr == f"speculative generate: --paths 3: {wanted}\n"
            assert result.stdout == ""
            return
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["drafts"] == "3 independent paths a round, at most 3 deep"
        assert found["tokens"] == 20 == found["accepted"] + found["target_passes"]
        assert found["drafted"] > found["draft_passes"] >= 3 * (found["target_passes"] - 3)
        assert max(one["drafted"] for one in found["rounds"]) <= 9

    @pytest.mark.parametrize(
        "verifier", [name for name, entry in VERIFIERS.items() if not takes_trees(entry)]
    )
    def test_a_verifier_of_one_path_names_those_of_trees(self, run, data, verifier):
        result = run("generate", "--verifier", verifier, "--paths", "3")
        assert result.exit_code == 2
        wrong, _, others = result.stderr.strip().partition(", or another verifier for trees: ")
        assert wrong.endswith(f": --paths 3: {verifier} takes one path: write --verifier recursive")
        assert set(others.split(", ")) == {
            name for name, entry in VERIFIERS.items() if takes_trees(entry) and name != "recursive"
        }
        assert data("--verifier", verifier, "--paths", "1", "--tokens", "5")["drafts"] == "3 drafts a round"

    @pytest.mark.parametrize(
        ("spec", "nodes", "depth"),
        [
            ("3,2,1", 3 + 6 + 6, 3),
            ("2", 2, 1),
            ("2,2:without-replacement", 2 + 4, 2),
            ("2,2:top", 2 + 4, 2),
            ("2,2:top-and-one", 2 + 4, 2),
            ("sequoia:8", 8, 3),
            ("best-first:8", 8, 3),
        ],
    )
    def test_trees(self, data, run, text, spec, nodes, depth):
        options = (
            "--verifier",
            "recursive",
            "--tree",
            spec,
            "--tokens",
            "20",
            "--seed",
            "1",
            "--temperature",
            "1",
        )
        found = data(*options)
        kind, _, scheme = spec.partition(":")
        how = {
            "": "drawn independently",
            "without-replacement": "drawn without replacement",
            "top": "made of the most probable tokens",
            "top-and-one": "made of the most probable tokens and one drawn",
        }
        shape = f"tree {spec} a round, " if scheme == "8" else f"tree {kind} a round, {how[scheme]}, "
        assert found["drafts"].startswith(shape)
        assert found["drafts"].endswith(f", at most {depth} deep")
        assert len(found["acceptance_by_position"]) <= depth
        drafted = [one["drafted"] for one in found["rounds"]]
        assert max(drafted) <= nodes
        if ":" in spec:  # independent siblings can be the same
            assert drafted[0] == nodes
        assert found["drafts"] in run("generate", *FITTED, text, *options).stdout.replace("\n", " ")

    @pytest.mark.parametrize(
        ("options", "verifier", "drafts"),
        [
            (("--tree", "2,1"), "recursive", "tree 2,1 a round, drawn independently, at most 2 deep"),
            (("--tree", "1"), "recursive", "tree 1 a round, drawn independently, at most 1 deep"),
            (("--paths", "2"), "recursive", "2 independent paths a round, at most 3 deep"),
            (("--paths", "1"), "token", "3 drafts a round"),
            ((), "token", "3 drafts a round"),
        ],
    )
    def test_a_verifier_that_takes_what_is_drafted_is_the_default(self, data, options, verifier, drafts):
        found = data(*options, "--tokens", "5")
        assert (found["verifier"], found["drafts"]) == (verifier, drafts)

    def test_siblings_are_drawn_as_the_verifiers_own_are(self):
        entry = VERIFIERS["spechub"]
        assert shape_of("spechub", None, "2,2", entry).make_drafter.keywords["scheme"] is SCHEMES["hub"]
        scheme = shape_of("recursive", None, "2,2", VERIFIERS["recursive"]).make_drafter.keywords["scheme"]
        assert scheme is SCHEMES["independent"]
        assert shape_of("own", None, "2,2").make_drafter.keywords["scheme"] is SCHEMES["without-replacement"]

    def test_the_verifiers_own_way_to_draft_paths_is_taken(self):
        shape = shape_of("recursive", 5, None, VERIFIERS["recursive"])
        assert shape.make_drafter.func is VERIFIERS["recursive"].make_drafter.func
        assert shape.make_drafter.keywords == {"num_paths": 5}
        assert shape_of("own", 5, None).make_drafter.func is paths

    def test_the_rates_are_those_of_one_choice(self):
        assert sum(RATES) < 1
        assert list(RATES) == sorted(RATES, reverse=True)

    def test_the_marks_tell_accepted_drafts_from_what_is_drawn(self, run, text, data):
        options = "--verifier", "recursive", "--tree", "2,2", "--tokens", "30", "--seed", "5"
        rounds = data(*options)["rounds"]
        shown = ""
        for one in rounds:
            shown += "".join(one["tokens"][: one["accepted"]])
            mark = MARKS[one["last"]]
            shown += (
                mark[0] + one["tokens"][-1].replace("\n", "↵") + mark[1] + "\n" * (one["tokens"][-1] == "\n")
            )
            assert (one["last"] == "bonus") == (one["accepted"] == 2)
        assert shown in run("generate", *FITTED, text, *options).stdout

    def test_what_a_tree_is_worth_counts_its_levels(self, run, text, data):
        options = "--verifier", "recursive", "--tree", "3,2", "--tokens", "40", "--seed", "2"
        found = data(*options)
        worth = found["tokens"] / (found["target_passes"] + found["draft_passes"] * COST_OF_A_MODEL)
        assert found["draft_passes"] <= 2 * found["target_passes"]
        shown = " ".join(run("generate", *FITTED, text, *options).stdout.split())
        assert f"the rounds above would be {worth:.2f} times as fast as the target alone" in shown


def test_intervals_where_no_formula_tells(data, run, text):
    """Twenty means of stretches: the mean of all is in the interval, and few rounds have none."""
    options = "--verifier", "block", "--seed", "3", "--temperature", "1"
    found = data(*options, "--tokens", "150")
    tokens = found["tokens_per_target_pass"]
    assert tokens["events"] == found["target_passes"] >= 2 * BATCHES
    assert tokens["expected"] is tokens["error"] is None
    assert 1 < tokens["low"] < tokens["measured"] < tokens["high"]
    few = data(*options, "--tokens", "12")["tokens_per_target_pass"]
    assert few["low"] is few["high"] is None
    assert "95% interval" in (shown := run("generate", *FITTED, text, *options, "--tokens", "12").stdout)
    assert "too few" in shown


def test_measured_acceptance_is_that_of_the_metrics(data):
    """Reached: one more draft was there to be judged; passed: it was accepted."""
    found = data(
        "--verifier", "recursive", "--paths", "2", "--tokens", "60", "--seed", "1", "--temperature", "1"
    )
    rounds = found["rounds"]
    for depth, one in enumerate(found["acceptance_by_position"]):
        reached = [other for other in rounds if other["accepted"] + (other["last"] == "residual") > depth]
        assert one["events"] == len(reached)
        assert one["measured"] == sum(other["accepted"] > depth for other in reached) / len(reached)


def test_the_text_of_a_lossy_verifier_says_so(run, text, data):
    def header(*options):
        shown = run("generate", *FITTED, text, "--tokens", "3", "--seed", "1", *options).stdout
        return " ".join(shown.partition("accepted draft")[0].split())

    assert header("--verifier", "typical").endswith(
        "lossy: with typical the text does not have the target's law."
    )
    assert "3 drafts a round, lossy typical verification" in header("--verifier", "typical")
    warm = "greedy gives the target's law at temperature 0 only, and here it is 0.7."
    assert header("--verifier", "greedy").endswith(warm)
    assert "temperature 0 only" not in header("--verifier", "greedy", "--temperature", "0")
    assert header().endswith("token verification, seed 1")
    options = "--tokens", "3", "--verifier"
    assert data(*options, "token")["keeps_target_law"]
    assert not data(*options, "lenient")["keeps_target_law"]
    assert not data(*options, "greedy")["keeps_target_law"]
    assert data(*options, "greedy", "--temperature", "0")["keeps_target_law"]


def test_what_takes_its_time_says_so(run, text):
    def header(*options):
        shown = run("generate", *FITTED, text, "--tokens", "3", "--seed", "1", "--verifier", *options).stdout
        return " ".join(shown.partition("accepted draft")[0].split())

    slow = "canonical solves a linear program at each node; transport accepts about as often without one."
    assert header("canonical").endswith(slow)
    assert "linear program" not in header("transport")
    assert "linear program" not in header("transport", "--tree", "2,1")
    assert header("transport", "--tree", "2,1:top").endswith(
        "With siblings that are not independent transport takes a linear program at each node, and a small "
        "vocabulary."
    )
    assert "linear program" not in header("recursive", "--tree", "2,1:top")


@pytest.mark.parametrize(
    ("verifier", "depth", "drafts"),
    [
        ("spechub", "4", "tree 2,2 a round, in pairs with the most probable token, at most 2 deep"),
        ("spechub", "1", "tree 2,2 a round, in pairs with the most probable token, at most 1 deep"),
        ("traversal", "3", "2 independent paths a round, at most 3 deep"),
        ("token", "3", "3 drafts a round"),
    ],
)
def test_what_is_drafted_in_words(data, verifier, depth, drafts):
    found = data("--verifier", verifier, "--draft-tokens", depth, "--tokens", "9", "--seed", "1")
    assert found["drafts"] == drafts
    assert len(found["acceptance_by_position"]) <= int(depth)


def test_kinds_of_drafts_that_no_option_names():
    """A table may be given drafters and schemes of one's own."""

    def of_mine(oracle):
        return lookup(3)

    def scheme_of_mine(row, drawn, count):
        return row

    assert str(kind_of(of_mine)) == "drafts of of_mine"
    assert str(kind_of(partial(tree, branching=(2, 1)))) == "tree 2,1 drawn without replacement"
    own = partial(tree, branching=(2,), scheme=scheme_of_mine)
    assert str(kind_of(own)) == "tree 2 drawn by scheme_of_mine"
    assert (
        str(kind_of(shape_of("x", None, "sequoia:4").make_drafter))
        == "tree sequoia:4 drawn without replacement"
    )
    assert other_schemes(shape_of("x", None, "sequoia:4")) == other_schemes(None) == ""


@pytest.mark.parametrize(
    ("message", "given", "said"),
    [
        (
            "no: draft with draft.model, or use verify.token",
            (None, None),
            "no: draft with --drafter ngram, or use --verifier token",
        ),
        ("verify.x is at a loss", (None, "2"), "x is at a loss"),
        (
            "verify.x refuses: use verify.y",
            (None, "2"),
            "--tree 2: x refuses, and takes a tree: write --tree 2:independent",
        ),
        (
            "verify.x refuses: use verify.y",
            (3, None),
            "--paths 3: x refuses, and takes a tree: use --verifier y",
        ),
    ],
)
def test_errors_of_the_library_name_options(message, given, said):
    """A tree drawn without replacement, for a verifier whose own is drawn independently, as paths are."""
    shape = shape_of("own", *given)
    with (
        pytest.raises(ValueError, match=f"^{re.escape(said)}$"),
        blaming_the_shape(shape, VERIFIERS["recursive"]),
    ):
        raise ValueError(message)


def test_how_passes_of_trees_are_counted(run, text):
    def shown(*options):
        return " ".join(
            run("generate", *FITTED, text, "--tokens", "9", "--seed", "1", *options).stdout.split()
        )

    counted = (
        "alone, a target pass counted as one whatever the size of its tree, a draft pass for each level."
    )
    assert counted in shown("--verifier", "recursive", "--tree", "2,1")
    assert counted in shown("--verifier", "recursive")
    assert "counted as one" not in shown()
    assert "counted as one" not in shown("--verifier", "recursive", "--drafter", "lookup")


@pytest.mark.parametrize(
    ("values", "least", "most"),
    [([1] * 40, 0, 1), ([0] * 40, 0, 1), ([1] * 39 + [0], 0, 1), ([1] * 30 + [2], 1, 5), ([5] * 30, 1, 5)],
)
def test_an_interval_stays_inside_what_can_be(values, least, most):
    low, high = interval(values, least, most)
    mean = sum(values) / len(values)
    assert least <= low <= mean <= high <= most
    assert low < high


def test_the_interval_of_values_that_are_all_the_same_is_that_of_as_many():
    """Wilson's, with t = 2.262157 of 9 degrees of freedom: 40 of 40, so t^2 / (40 + t^2) is left out."""
    t_squared = 2.2621571628**2
    low, high = interval([1] * 40, 0, 1)
    assert low == pytest.approx(40 / (40 + t_squared))
    assert high == 1
    assert interval([0] * 40, 0, 1) == pytest.approx((0, t_squared / (40 + t_squared)))


@pytest.mark.parametrize("keep", [0, 0.5])
@pytest.mark.parametrize(("probability", "events"), [(0.5, 200), (0.9, 60), (0.97, 60)])
def test_intervals_cover(probability, events, keep):
    """Of 600 runs 95 % nominal: 0.91 is 4.5 standard errors (0.009) below, and 0.9 covers what is alike.

    The mean plus and minus t errors of batch means covers 83 % (independent) and 69 % at 0.97.
    """
    rng = np.random.default_rng(0)
    covered, runs = 0, 600
    for _ in range(runs):
        fresh = np.where(rng.random(events) >= keep, np.arange(events), 0)
        values = (rng.random(events) < probability)[np.maximum.accumulate(fresh)]
        low, high = interval(values.astype(int).tolist(), 0, 1)
        covered += low <= probability <= high
    assert LEVEL == 0.95
    assert covered / runs > (0.91 if keep == 0 else 0.88)


def test_the_largest_tree_is_bounded():
    with pytest.raises(ValueError, match=f"write a tree of {MOST_NODES} or less"):
        shape_of("own", None, "40,40")
    assert shape_of("own", None, "32,31").depth == 2  # 32 + 992 = 1024
