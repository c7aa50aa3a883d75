"""The script that measures decoding on the clock, and its page; nothing here depends on how long it takes."""

import re
import sys
from itertools import count, pairwise
from pathlib import Path

import pytest

from plain_llama import config_of, weights_of

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import bench  # the script that measures

from speculative.cli.cases import cases_of
from speculative.cli.trained import TRAINED, kind_named
from speculative.cost import speedup
from speculative.model import CachedLlama, Llama


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
    for arguments in (*bench.RUNS[1], *bench.RUNS[0], bench.TWO_THREADS):
        words = arguments.split()
        options = {name: [value for key, value in pairwise(words) if key == name] for name in words}
        assert set(words[::2]) <= {"--drafter", "--verifier", "--draft-tokens", "--tree"}
        for name in options["--drafter"]:
            lengths = [int(k) for k in options["--draft-tokens"]]
            assert cases_of(
                name, kind_named(name), options.get("--verifier", []), options.get("--tree", []), lengths
            )
    run = {name for arguments in bench.RUNS[1] for name in arguments.split()[1::2]}
    assert set(TRAINED) <= run
    assert {name for name, _, _ in bench.PROFILED.values()} <= {None, *TRAINED}


def test_cases_and_goals():
    runs = [
        bench.Run(1, 1, [case(median=2.4), case("draft-kl", 1.6), case("medusa", 1.4), case("eagle", 1.5)]),
        bench.Run(0, 2, [case(median=3.1), case("draft-kl", 1.6), case("medusa", 1.6), case("eagle", 1.2)]),
    ]
    assert [(row[0], row[1], row[-1]) for row in rows(bench.of_goals(runs))[2:]] == [
        ("the best of all", "1", "**no**"),
        ("the best of all", "0", "yes"),
        ("distilled draft", "1", "yes"),
        ("distilled draft", "0", "yes"),
        ("Medusa", "1", "**no**"),
        ("Medusa", "0", "yes"),
        ("EAGLE", "1", "yes"),
        ("EAGLE", "0", "**no**"),
    ]
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
    (row,) = rows(bench.of_parts([run, run._replace(threads=2)]))[2:]
    assert row == ["ngram, T = 1, 3", "192", "48", "8", "248", "200"]
    assert bench.of_misses([run]).startswith(
        "Of 2 forecasts, 1 were within 10 % of what was then measured; the others"
    )
    assert "ngram (3, T = 1, 1 threads): +100%." in bench.of_misses([run])
    assert bench.of_misses([run._replace(cases=[case()])]).endswith("then measured.")


def test_time_is_counted_once_and_in_the_innermost_section(monkeypatch):
    ticks = count()
    monkeypatch.setattr(bench.time, "perf_counter", lambda: float(next(ticks)))
    sections = bench.Sections()
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
    assert bench.session.forward is forward
    assert tuple(found) == bench.SECTIONS
    assert min(found["layers"], found["cache"], found["laws"], found["loop"]) > 0
    assert (found["drafting"] > 0) == (found["verification"] > 0) == (name is not None)


@pytest.fixture
def tiny():
    config = config_of(vocab_size=5, bos_token_id=0, max_position_embeddings=256, num_hidden_layers=1)
    return CachedLlama(Llama.of(config, weights_of(config)), sliding=True)


def test_greedy_texts_are_compared(monkeypatch, tiny):
    monkeypatch.setattr(bench, "COMPARED", {"suffix": 3})
    (row,) = rows(bench.of_identity(tiny, [(1, 2, 3)]))[2:]
    assert row[:2] == ["suffix", "128"]
