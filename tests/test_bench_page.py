"""The script that measures decoding on the clock, and its page; nothing here depends on how long it takes."""

import os
import re
import sys
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from plain_llama import config_of, weights_of
from test_heads import eagle_weights

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import bench  # the script that measures

from speculative.cli.cases import cases_of
from speculative.cli.trained import TRAINED, Kind, kind_named, of_eagle
from speculative.cost import speedup
from speculative.model import CachedLlama, EagleHead, Llama


def case(drafter="ngram", median=2.0, predicted=2.0, **more):
    spread = {"low": median - 0.1, "median": median, "high": median + 0.1}
    return {
        "drafter": drafter,
        "verifier": "token",
        "draft_tokens": 3,
        "tree": None,
        "acceptance_by_position": [0.75, 0.5],
        "tokens_per_target_pass": 2.5,
        "seconds_per_token": {"median": 2e-4},
        "seconds_per_token_plain": {"median": 4e-4},
        "speedup": spread,
        "predicted_speedup": predicted,
        "verification": 1.25,
        "cost": 0.1,
        "parts": {"plain_token": 4e-4, "passes_by_rows": {"4": 4.8e-4}, "drafting": 1.2e-4, "loop": 2e-5},
        **more,
    }


def rows(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]


def test_the_page_has_a_place_for_each_table_and_the_script_a_table_for_each_place():
    page = bench.PAGE.read_text(encoding="utf-8")
    places = re.findall(r"<!-- (\w+) -->\n", page)
    assert places == re.findall(r"<!-- end of (\w+) -->", page)
    made = re.search(r"texts = \{(.*?)\n    \}", Path(bench.__file__).read_text(encoding="utf-8"), re.DOTALL)[
        1
    ]
    assert sorted(places) == sorted(re.findall(r'"(\w+)": of_', made))


def test_what_is_run_are_drafters_that_there_are():
    for arguments in (*bench.RUNS[1].values(), *bench.RUNS[0].values()):
        words = arguments.split()
        options = {name: [value for key, value in pairwise(words) if key == name] for name in words}
        assert set(words[::2]) <= {"--drafter", "--verifier", "--draft-tokens", "--tree"}
        for name in options["--drafter"]:
            lengths = [int(k) for k in options["--draft-tokens"]]
            assert cases_of(
                name, kind_named(name), options.get("--verifier", []), options.get("--tree", []), lengths
            )
    for runs in bench.RUNS.values():
        assert set(TRAINED) <= {name for arguments in runs.values() for name in arguments.split()[1::2]}
    assert set(TRAINED) <= set(bench.COMPARED)
    assert {name for name, _, _ in bench.PROFILED.values()} <= {None, *TRAINED}


def test_goals_are_judged_by_the_second_race():
    reached = {
        ("the best of all", 1): 2.4,
        ("the best of all", 0): 3.1,
        ("distilled draft", 1): 1.5,
        ("distilled draft", 0): 1.49,
    }
    raced = [bench.Again(goal, heat, 2, case(median=median)) for (goal, heat), median in reached.items()]
    assert [(row[0], row[1], row[3], row[-1]) for row in rows(bench.of_goals(raced))[2:]] == [
        ("the best of all", "1", "2.5", "**no**"),
        ("the best of all", "0", "3.0", "yes"),
        ("distilled draft", "1", "1.5", "yes"),
        ("distilled draft", "0", "1.5", "**no**"),
    ]


def test_the_fastest_of_each_goal_is_raced_again_on_prompts_it_was_not_chosen_by(monkeypatch, tmp_path):
    cases = [
        case("ngram", 2.4),
        case("draft-kl", 1.6, draft_tokens=2),
        case("draft-kl", 1.7),
        case("medusa", 1.4, tree="sequoia:3"),
        case("eagle", 1.9),
        case("eagle", 2.6, tree="sequoia:7", verifier="traversal"),
    ]
    ran = []

    def measured(temperature, threads, arguments):
        ran.append((threads, arguments))
        return [{**one, "speedup": {"low": 1.0, "median": 1.1, "high": 1.2}} for one in cases]

    monkeypatch.setattr(bench, "measured", measured)
    raced = bench.all_again(bench.Parts(tmp_path, 1), [bench.Run(1, 1, cases)])
    assert ran == [
        (threads, f"--drafter {drafter} --verifier {verifier} --seed 100 --prompts 40 --draft-tokens 3{tree}")
        for drafter, verifier, tree in (
            ("eagle", "traversal", " --tree sequoia:7"),
            ("draft-kl", "token", ""),
            ("medusa", "token", " --tree sequoia:3"),
        )
        for threads in (1, 2)
    ]  # and the best of all is EAGLE's too: raced once
    assert [(one.goal, one.case["drafter"], one.threads) for one in raced[::2]] == [
        ("the best of all", "eagle", 1),
        ("distilled draft", "draft-kl", 1),
        ("Medusa", "medusa", 1),
        ("EAGLE", "eagle", 1),
    ]
    assert {one.case["speedup"]["median"] for one in raced} == {1.1}


def test_parts_are_kept_until_the_weights_are_newer_and_none_is_begun_too_late(tmp_path, monkeypatch, capsys):
    folder, weights = tmp_path / "kept", tmp_path / "weights" / "one"
    weights.mkdir(parents=True)
    (weights / "model").write_text("")
    monkeypatch.setattr(bench, "WEIGHTS", tmp_path / "weights")
    made = count()
    os.utime(weights / "model", (1, 1))
    for _ in range(2):
        assert bench.Parts(folder, 1).of("a part", lambda: next(made)) == 0
    assert bench.Parts(folder, -1).of("a part", lambda: next(made)) == 0
    assert capsys.readouterr().err == "a part: 0 s\n"
    later = (folder / "a part.json").stat().st_mtime + 9
    os.utime(weights / "model", (later, later))
    with pytest.raises(SystemExit, match=r"^a part is next: run it again"):
        bench.Parts(folder, -1).of("a part", lambda: next(made))
    assert bench.Parts(folder, 1).of("a part", lambda: next(made)) == 1


def test_a_command_is_run_with_more_of_an_environment(monkeypatch):
    ran = []

    def run(command, **options):
        ran.append((command[3:], options["env"]))
        return SimpleNamespace(stdout=b'{"cases": [1]}')

    monkeypatch.setattr(bench.subprocess, "run", run)
    monkeypatch.setenv("KEPT", "1")
    assert bench.measured(0, 2, "--drafter ngram", ADDED="2") == [1]
    ((words, environment),) = ran
    assert " ".join(words) == (
        "bench --json --threads 2 --temperature 0 --drafter ngram --prompts 60 --repeats 1"
    )
    assert (environment["KEPT"], environment["ADDED"]) == ("1", "2")


def test_cases():
    shown = bench.of_cases(bench.Run(1, 1, [case(median=2.0, predicted=2.2), case(tree="best-first:3")]))
    assert "A plain token took 400 µs." in shown
    assert rows(shown)[2] == [
        "ngram, `token`",
        "3",
        ".75 .50",
        "2.50",
        "200",
        "2.00 (1.90 to 2.10)",
        "2.20",
        "+10 %",
    ]
    assert rows(shown)[3][1] == "tree best-first:3, 3 deep"


def test_lengths_parts_and_misses():
    run = bench.Run(1, 1, [case(), case(verifier="block", median=9.0)])
    (row,) = rows(bench.of_lengths(run))[2:]
    assert row == [
        "3",
        "1.20",
        "0.30",
        f"{speedup(0.75, 3, 0.1):.2f}",
        f"{speedup(0.75, 3, 0.1, verification=1.25):.2f}",
        "2.00",
        "2.00 (1.90 to 2.10)",
    ]
    run = bench.Run(1, 1, [case(), case(median=1.0)])
    (row,) = rows(bench.of_parts([run]))[2:]
    assert row == ["ngram token 3, T = 1", "192", "48", "8", "248", "200"]


def test_forecasts_that_missed_have_the_larger_reason_beside_them():
    true = case()  # 400 µs plainly, a round of 2.5 tokens 500 µs, forecast as 1.25 + 0.3 plain tokens: 620
    slow_round = case("suffix", median=1.5, seconds_per_token={"median": 4e-4})
    slow_plain = case("lookup", median=2.5, seconds_per_token_plain={"median": 5e-4}, cost=0.0)
    again = bench.Again("the best of all", 0, 2, case("eagle", median=1.9, predicted=2.1))
    said = bench.of_misses([bench.Run(1, 1, [true, slow_round, slow_plain])], [again])
    assert said.startswith("Of 4 forecasts, 1 were within 10 % of what was then measured. On average a plain")
    assert "-5 % by itself against in the race" in said
    assert [(row[0], row[3], row[4]) for row in rows(said)[2:]] == [
        ("suffix token 3, T = 1", "+33 %", "a round took +61 % against its parts"),
        ("lookup token 3, T = 1", "-20 %", "a plain token took -20 % by itself"),
        (
            "eagle token 3, T = 0, again, 2 threads",
            "+11 %",
            "a round took -19 % against its parts",
        ),
    ]
    wide = {"low": 1.0, "median": 1.5, "high": 2.5}
    assert bench.of_misses([bench.Run(1, 1, [case(speedup=wide)])], []).count("within the quartiles") == 1
    assert "|" not in bench.of_misses([bench.Run(1, 1, [true])], [])


def test_time_is_counted_once_and_in_the_innermost_section(monkeypatch):
    ticks = count()
    monkeypatch.setattr(bench.time, "perf_counter", lambda: float(next(ticks)))
    sections = bench.Sections("drafting")
    inner = sections.of("layers", lambda: None)
    outer = sections.of("cache", lambda: (inner(), inner()))
    drafting = sections.of("drafting", inner)
    first = next(ticks)
    sections.run(lambda: (outer(), drafting()))
    assert sections.seconds == {"loop": 3, "cache": 3, "layers": 2, "drafting": 3}
    assert sections.seconds.total() == next(ticks) - first - 2


@pytest.mark.parametrize("name", [None, "suffix"])
def test_a_profile_has_all_sections_and_leaves_the_model_as_it_was(name, monkeypatch, tiny):
    monkeypatch.setitem(bench.PROFILED, "tried", (name, 1, 3 if name else 0))
    forward = bench.session.forward
    found = bench.profiled(tiny, "tried", [(1, 2, 1, 2)])
    (row,) = rows(bench.of_profile({"tried": found}))[2:]
    assert float(row[-1]) == pytest.approx(found["verification"] + found["loop"], abs=0.051)
    assert bench.session.forward is forward
    assert tuple(found) == bench.SECTIONS
    assert min(found["layers"], found["cache"], found["laws"], found["loop"]) > 0
    assert (found["drafting"] > 0) == (found["verification"] > 0) == (name is not None)


@pytest.fixture
def of_the_tiny_one(tiny, monkeypatch):
    """An EAGLE head of random weights for it, as the drafter "tried"."""
    head = EagleHead(tiny, eagle_weights(vocab_size=5))
    monkeypatch.setitem(TRAINED, "tried", Kind("heads", lambda _: partial(of_eagle, head)))


@pytest.mark.usefixtures("of_the_tiny_one")
def test_a_drafters_own_time_is_looked_into_and_the_targets_is_left_out(tiny, monkeypatch):
    attend = bench.session.Buffers.attend
    found = bench.of_drafter(tiny, "tried", [(1, 2, 1, 2)])
    assert tuple(found) == ("products", "attention", "calls")
    assert min(found.values()) > 0
    assert bench.session.Buffers.attend is attend
    ((name, *cells),) = rows(bench.of_drafters({"tried": found}))[2:]
    assert name == "tried"
    assert float(cells[-1]) == pytest.approx(sum(found.values()), abs=0.051)
    sections = bench.Sections("target")
    inner = sections.of("products", lambda: None)
    ticks = count()
    monkeypatch.setattr(bench.time, "perf_counter", lambda: float(next(ticks)))
    sections.run(lambda: (sections.of("target", inner)(), sections.of("calls", inner)()))
    assert sections.seconds == {"loop": 3, "target": 3, "calls": 2, "products": 1}


def test_what_a_draft_may_cost_for_a_goal():
    one = case(median=1.1)  # 2.5 tokens a pass, 1.25 for pass and loop
    raced = [bench.Again("Medusa", 1, threads, one) for threads in (1, 2)]
    (row,) = rows(bench.of_ceilings(raced))[2:]
    assert row == [
        "Medusa",
        "1",
        "ngram token 3",
        "2.50",
        "1.25",
        "0.10",
        "2.00",
        "1.5",
        f"{(2.5 / 1.5 - 1.25) / 3:.2f}",
    ]


@pytest.fixture
def tiny():
    config = config_of(vocab_size=5, bos_token_id=0, max_position_embeddings=256, num_hidden_layers=1)
    return CachedLlama(Llama.of(config, weights_of(config)), sliding=True)


def test_greedy_texts_are_compared(tiny):
    for name in ("suffix", "lookahead"):
        found = bench.compared(tiny, bench.COMPARED[name], [(1, 2, 3)])
        assert found["tokens"] == found["identical"] + len(found["differences"]) == 128
    assert bench.COMPARED["eagle, tree"].shape.option == "--tree best-first:7"
    apart = {"prompt": 0, "position": 6, "plain": 1, "speculative": 2, "gap": 3e-6}
    found |= {"identical": 126, "differences": [apart, {**apart, "prompt": 2, "gap": 1e-5}]}
    assert rows(bench.of_identity({"one": found, "other": {**found, "differences": []}}))[2:] == [
        ["one", "128", "126", "prompt 1, character 7: 3.0e-06; prompt 3, character 7: 1.0e-05"],
        ["other", "128", "126", "none"],
    ]
