import json
import sys
from fractions import Fraction

import pytest

from speculative.cli.planning import Machine, batches_for, plan_by_formula, split_text
from speculative.cost import best_num_draft_tokens, speedup, tokens_per_round
from speculative.roofline import HARDWARE, Model, break_even_batch, speedup_at_batch


@pytest.fixture
def data(run):
    def loaded(*arguments):
        result = run("plan", "--json", *arguments)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return json.loads(result.stdout)

    return loaded


def test_the_table_by_draft_length(run):
    """C18: acceptance .7, 4 drafts, cost .1: 1.98 times as fast."""
    result = run("plan", "--alpha", ".7", "--cost", ".1")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[3:15]]
    assert [row[0] for row in rows] == [str(k) for k in range(1, 13)]
    assert rows[3] == ["4", "2.773", "1.981", "0.443", "best"]
    assert sum("best" in row for row in rows) == 1
    assert "Best: 4 drafts a round, 1.981 times as fast as plain decoding." in result.stdout
    assert "k* = 4.025, in whole drafts 4." in result.stdout
    assert "acceptance > cost; 0.7 > 0.1." in result.stdout
    assert result.stdout.count("says nothing here") == 2


def test_it_may_not_pay(run, data):
    """C20: acceptance at or below cost never pays; the rules of thumb are right here."""
    result = run("plan", "--alpha", ".3", "--cost", ".35")
    assert "Best: do not speculate" in result.stdout
    assert " best  " not in result.stdout
    assert result.stdout.count("says no here, rightly") == 2
    found = data("--alpha", ".3", "--cost", ".35")
    assert found["best_draft_tokens"] == 0
    assert found["best_speedup"] == 1


def test_rules_of_thumb_that_are_wrong_here(data):
    """C20."""
    assert "never pays': says no here, wrongly" in data("--alpha", ".9", "--cost", ".4")["conclusions"][3]
    assert "loses': says no here, wrongly" in data("--alpha", ".3", "--cost", ".05")["conclusions"][4]


def test_json_agrees_with_the_library(data):
    found = data("--alpha", ".8", "--cost", ".05", "--max-draft-tokens", "20")
    best = best_num_draft_tokens(0.8, 0.05)
    assert found["best_draft_tokens"] == best.num_draft_tokens == 8
    assert found["best_speedup"] == pytest.approx(best.speedup)
    assert [one["speedup"] for one in found["lengths"]] == [
        pytest.approx(speedup(0.8, k, 0.05)) for k in range(1, 21)
    ]
    assert found["lengths"][4]["tokens_per_round"] == pytest.approx(3.68928)
    assert "batches" not in found
    assert "measured" not in found


def test_a_longer_draft_would_be_better(data):
    found = data("--alpha", "1", "--cost", "0", "--max-draft-tokens", "3")
    assert found["best_draft_tokens"] == 3
    assert found["best_speedup"] == 4


def test_the_roofline(run, data):
    """C22: from some batch on speculation stops paying."""
    result = run("plan", "--alpha", ".7", "--batch", "--hardware", "A100", "--parameters", "7e9")
    shown = " ".join(result.stdout.split())
    assert "Roofline: 7 billion weights of 2 bytes on one A100, data-sheet peaks 2.039 TB/s and 312" in shown
    assert "no caches read" in shown
    found = data("--alpha", ".7", "--batch", "--hardware", "A100", "--parameters", "7e9")
    end = break_even_batch(0.7, 4, 0.1, Model(7e9), HARDWARE["A100"])
    assert found["break_even_batch"] == end
    assert f"With 4 drafts it stops paying from a batch of {end:,}" in shown
    by_batch = {one["batch"]: one for one in found["batches"]}
    assert by_batch[end]["speedup"] <= 1
    assert by_batch[1]["speedup"] == pytest.approx(speedup(0.7, 4, 0.1))
    assert by_batch[1024]["best_draft_tokens"] == 0
    assert by_batch[1024]["best_speedup"] == 1
    for batch, one in by_batch.items():
        at = [speedup_at_batch(0.7, k, 0.1, Model(7e9), HARDWARE["A100"], batch=batch) for k in range(1, 13)]
        assert one["speedup"] == pytest.approx(at[3])
        assert one["best_speedup"] == pytest.approx(max(1, *at))


def test_long_contexts_can_keep_it_paying(run, data):
    options = "--alpha", ".7", "--batch", "--context", "100000"
    assert data(*options)["break_even_batch"] is None
    shown = " ".join(run("plan", *options).stdout.split())
    assert "100,000 tokens of context of 131,072 bytes each" in shown
    assert "With 4 drafts it pays at every batch size" in shown


def test_two_models_on_a_text(run, data, text, monkeypatch):
    """C21: acceptance by position with intervals, beside the formula."""
    options = "--text", text, "--positions", "120", "--max-draft-tokens", "3", "--target-order", "4"
    options += "--draft-order", "2", "--temperature", "1"
    found = data(*options)
    first = found["lengths"][0]
    assert first["acceptance"][0] == pytest.approx(found["acceptance"])
    assert first["acceptance"][1] < first["acceptance"][0] < first["acceptance"][2]
    assert first["tokens_per_round"] == pytest.approx(1 + found["acceptance"])
    tokens = [one["tokens_per_round"] for one in found["lengths"]]
    assert tokens[0] < tokens[1] < tokens[2]
    for one in found["lengths"]:
        assert one["speedup"] == pytest.approx(one["tokens_per_round"] / (1 + 0.1 * one["draft_tokens"]))
        assert one["break_even_cost"] == pytest.approx((one["tokens_per_round"] - 1) / one["draft_tokens"])
    assert found["best_speedup"] == max(one["speedup"] for one in found["lengths"])
    assert "Measured at 120 contexts" in found["measured"]
    assert f"{float(tokens_per_round(found['acceptance'], 3)):.3f}" in found["measured"]
    assert data(*options) == found
    shown = run("plan", *options).stdout
    assert "accepted at k," in shown
    assert "95-percent intervals" in " ".join(shown.split())
    low, high = first["acceptance"][1:]
    assert f"{found['acceptance']:.3f} [{low:.3f}, {high:.3f}]" in shown
    monkeypatch.setenv("COLUMNS", "80")
    assert f"{found['acceptance']:.3f} [{low:.3f}, {high:.3f}]" in run("plan", *options).stdout


def test_one_model_as_both_is_always_accepted(data, text):
    found = data("--text", text, "--positions", "40", "--target-order", "3", "--draft-order", "3")
    assert found["acceptance"] == pytest.approx(1)
    assert found["best_draft_tokens"] == 12


def test_models_that_never_agree(data, text, write):
    source = """
from speculative import from_probs, point_mass
def never(vocabulary):
    rare = vocabulary.index("m")
    return from_probs(lambda context: point_mass(rare, len(vocabulary)), len(vocabulary))
"""
    where = f"{write('never.py', source)}:never"
    found = data(
        "--text", text, "--positions", "40", "--target", where, "--draft-order", "1", "--temperature", "0"
    )
    assert found["acceptance"] == 0
    assert found["best_draft_tokens"] == 0
    assert len(found["lengths"]) == 1


def test_the_text_is_split():
    text = "".join(str(i % 10) for i in range(2000))
    fitted, held_out = split_text(text, "file", 50, 4)
    assert fitted == text[:1800]
    assert held_out == text[1800:1854]
    assert len(split_text(text[:1000], "file", 500, 31)[1]) == 100
    assert len(split_text("x" * 1000, "file", 500, 90)[1]) == 110


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures(run, text, tmp_path, suffix):
    file = tmp_path / f"picture.{suffix}"
    result = run("plan", "--alpha", ".8", "--plot", str(file))
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(f"\nSaved {file}.\n")
    small = file.stat().st_size
    options = "--text", text, "--positions", "40", "--batch"
    result = run("plan", *options, "--plot", str(file), "--json")
    assert json.loads(result.stdout)["plot"] == str(file)
    assert file.stat().st_size > small > 1000
    start = file.read_bytes()[:200]
    assert {"png": b"PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix] in start


def test_a_plot_without_matplotlib_says_what_to_install(run, monkeypatch):
    monkeypatch.delitem(sys.modules, "speculative.plot", raising=False)
    monkeypatch.delattr("speculative.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    result = run("plan", "--alpha", ".8", "--plot", "x.png")
    assert result.exit_code == 2
    assert (
        result.stderr
        == 'speculative plan: --plot: plots need matplotlib: pip install -e ".[plot]" in a checkout\n'
    )


def test_fractions_stay_exact():
    plan = plan_by_formula(Fraction(4, 5), Fraction(1, 10), 6)
    assert plan.lengths[1].tokens_per_round == Fraction(61, 25)
    assert plan.speedup == speedup(Fraction(4, 5), 6, Fraction(1, 10))
    machine = Machine(Model(10**9), HARDWARE["H100"], "H100", 0)
    batches, end = batches_for(plan, machine)
    assert end in [one.batch for one in batches]
