"""`bench` on tiny random checkpoints; no test looks at how long anything takes."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from plain_llama import config_of, weights_of
from speculative import draft, show, temperature
from speculative.bench import Costs, Measured, Race, Spread
from speculative.cli import threads
from speculative.cli.bench import OF_SHAKESPEARE, processor
from speculative.cli.cases import Case, cases_of
from speculative.cli.drafting import shape_of
from speculative.cli.picture import LETTERS_OF_A_PANEL, save_panels
from speculative.cli.trained import TRAINED, kind_named
from speculative.metrics import Statistics
from speculative.model import write_checkpoint, write_tokenizer
from speculative.oracle import table
from speculative.verify import VERIFIERS

LETTERS = ("\n", " ", *"abcdefg")
SMALL = "--prompts", "2", "--tokens", "8", "--repeats", "1"


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Say that BLAS has one thread, so that the command does not begin anew."""
    for name in threads.VARIABLES:
        monkeypatch.setenv(name, "1")


@pytest.fixture
def models(tmp_path):
    """Write a target and a draft, and a text; return what to give the command."""
    for seed, name in enumerate(("target", "small")):
        config = config_of(
            vocab_size=len(LETTERS), bos_token_id=0, max_position_embeddings=128, num_hidden_layers=1
        )
        write_checkpoint(tmp_path / name, config, weights_of(config, seed), "float32")
        write_tokenizer(tmp_path / name, LETTERS)
    (tmp_path / "text.txt").write_text("a bad cab\nfed a bee\n" * 40)
    files = SimpleNamespace(small=str(tmp_path / "small"), folder=tmp_path)
    files.given = ("--target", str(tmp_path / "target"), "--text", str(tmp_path / "text.txt"), *SMALL)
    return files


@pytest.fixture
def data(run, models):
    """Run with --json and return what it holds."""

    def loaded(*arguments):
        result = run("bench", "--json", *models.given, *arguments)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return json.loads(result.stdout)

    return loaded


def test_the_table_has_a_line_for_each_case_and_says_what_it_is(run, models):
    result = run("bench", *models.given, "--drafter", models.small, "--drafter", "lookup")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "temperature(1.0); 2 prompts of 64 tokens, 8 decoded of each, 1 times, 1 thread" in said
    assert len(re.findall(r"\btoken +[35] ", result.stdout)) == 4
    assert "A token by plain decoding took" in said
    assert re.search(r"Forecasts: (all|\d of 4) within 10 % of the measured speedup", said)


def test_json_holds_all_that_was_measured(data, models):
    found = data("--drafter", models.small, "--draft-tokens", "2", "--temperature", "0", "--seed", "5")
    assert (found["seed"], found["temperature"], found["threads"]) == (5, 0, 1)
    assert (found["prompts"], found["prompt_tokens"], found["tokens"], found["repeats"]) == (2, 64, 8, 1)
    assert found["target"] in found["measured"]
    assert found["plot"] is None
    assert set(found["machine"]) == {"processor", "python", "numpy", "blas"}
    (case,) = found["cases"]
    assert (case["drafter"], case["verifier"], case["draft_tokens"], case["tree"]) == (
        models.small,
        "token",
        2,
        None,
    )
    assert 1 <= case["tokens_per_target_pass"] <= 3
    assert case["drafted_per_target_pass"] <= 2
    assert len(case["acceptance_by_position"]) <= 2
    for name in ("speedup", "seconds_per_token", "seconds_per_token_plain"):
        assert 0 < case[name]["low"] <= case[name]["median"] <= case[name]["high"]
    assert case["predicted_speedup"] == pytest.approx(
        case["tokens_per_target_pass"] / (case["verification"] + 2 * case["cost"])
    )
    parts = case["parts"]
    assert case["cost"] == pytest.approx(parts["drafting"] / 2 / parts["plain_token"])
    assert min(parts["loop"], *parts["passes_by_rows"].values()) > 0


def test_the_processor_is_named_where_it_can_be(tmp_path, monkeypatch):
    described = tmp_path / "cpuinfo"
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert processor(described) == "x86_64"
    described.write_text("processor\t: 0\nflags\t: a: b\n")
    assert processor(described) == "x86_64"
    described.write_text("processor\t: 0\nmodel name\t: A Processor: 9\nmodel name\t: another\n")
    assert processor(described) == "A Processor: 9"


def test_trees_chains_and_drafters_that_bring_their_own(data, models):
    found = data(
        *("--drafter", models.small, "--drafter", "lookahead", "--drafter", "suffix"),
        *("--tree", "best-first:4", "--tree", "2,1", "--draft-tokens", "3"),
    )
    assert [
        (each["drafter"], each["verifier"], each["draft_tokens"], each["tree"]) for each in found["cases"]
    ] == [
        (models.small, "token", 3, None),
        (models.small, "recursive", 3, "best-first:4"),
        (models.small, "recursive", 2, "2,1"),
        ("lookahead", "recursive", 3, None),
        ("suffix", "token", 3, None),
    ]


def test_drafters_by_default(run, models, data, monkeypatch):
    found = data("--draft-tokens", "2")
    assert [each["drafter"] for each in found["cases"]] == ["lookup", "suffix"]
    asked = []
    monkeypatch.setattr(
        "speculative.cli.bench.cases_of", lambda name, *rest: asked.append((name, rest[-1])) or []
    )
    run("bench", "--target", "shakespeare", *SMALL)
    assert asked == [(name, [3, 5]) for name in OF_SHAKESPEARE]


def test_costs_are_taken_on_other_pieces_of_the_text_than_the_prompts(data, models, monkeypatch):
    given = []

    def measured(target, contender, prompts, texts, **options):
        given.append((prompts, texts, options))
        return line(2.0).measured

    monkeypatch.setattr("speculative.cli.bench.measure", measured)
    data("--drafter", "lookup", "--seed", "5", "--draft-tokens", "2")
    ((prompts, texts, options),) = given
    assert [len(each) for each in prompts] == [64] * 2
    assert [len(each) for each in texts] == [72] * 4
    assert prompts != [each[:64] for each in texts[:2]]
    assert options == {"max_new_tokens": 8, "repeats": 1, "seed": 5}


def test_the_picture(run, models):
    file = str(models.folder / "bench.png")
    result = run("bench", *models.given, "--drafter", "suffix", "--draft-tokens", "2", "--plot", file)
    assert result.exit_code == 0, result.output
    assert f"Saved {file}." in result.stdout
    assert (models.folder / "bench.png").stat().st_size > 10_000


def test_the_picture_says_what_was_measured_and_of_which_lengths_acceptance_is(run, models, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: drawn.append(figure))
    lengths = "--draft-tokens", "3", "--draft-tokens", "2"
    drafters = "--drafter", "suffix", "--drafter", models.small, "--tree", "2,1", "--tree", "best-first:3"
    result = run("bench", *models.given, *lengths, *drafters, "--plot", "some.png")
    assert result.exit_code == 0, result.output
    (figure,) = drawn
    title = " ".join(figure.get_suptitle().split())
    measured, _, k = title.rpartition("; ")
    assert measured in " ".join(result.stdout.split())
    assert f"target {models.given[1]}, temperature(1.0); 2 prompts of 64 tokens, 8 decoded" in measured
    assert measured.endswith("1 times, 1 thread")
    assert k == "k: the most tokens drafted on a path"
    speedups, acceptance = figure.axes
    of_model = ["token k={}", "recursive tree 2,1 k=2", "recursive tree best-first:3 k={}"]
    assert [line.get_label() for line in acceptance.lines] == [
        "suffix token k=3",
        *(f"{models.small} {case.format(3)}" for case in of_model),
    ]
    raced = [label.get_text() for label in speedups.get_yticklabels()]
    assert {line.get_label() for line in acceptance.lines} < set(raced)


def test_the_title_of_a_picture_is_broken_where_it_is_wider_and_is_no_formula(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: drawn.append(figure))
    title = "target /a-b/$x$, " + " ".join(["words"] * 40)
    for panels in (1, 2):
        save_panels("a.png", [lambda ax: None] * panels, title=title)
        shown = drawn.pop().get_suptitle()
        assert shown.split() == title.split()
        assert max(map(len, shown.splitlines())) <= LETTERS_OF_A_PANEL * panels
    save_panels("a.png", [lambda ax: None])
    assert drawn.pop().get_suptitle() == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--drafter", "eagel"), "--drafter 'eagel' is unknown: write one of"),
        (("--verifier", "tokens"), "--verifier 'tokens' is unknown: did you mean token?"),
        (
            ("--verifier", "token", "--tree", "2,2"),
            "--tree 2,2: token takes one path: write --verifier recursive, or another verifier for trees: ",
        ),
        (
            ("--drafter", "lookahead", "--verifier", "block"),
            "--drafter lookahead drafts trees of likely tokens",
        ),
        (("--drafter", "lookup", "--verifier", "greedy_block"), "--drafter lookup: greedy_block carries"),
        (("--plot", "a.gif"), "--plot 'a.gif' has no known suffix"),
        (("--target", "nowhere"), "--target nowhere: 'nowhere' is neither a bundled model nor a folder"),
        (("--prompts", "2000"), "a text of 800 tokens does not have 2000 places for pieces of 64"),
        (("--threads", "0"), "0 is too small; write 1 or more"),
    ],
)
def test_bad_input_is_one_line(run, models, arguments, message):
    if "--drafter" not in arguments:
        arguments = (*arguments, "--drafter", models.small)
    result = run("bench", *models.given, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_every_drafter_has_cases_and_each_verifier_the_drafts_it_takes():
    for name in TRAINED:
        assert cases_of(name, kind_named(name), (), (), [3])
    model = kind_named("ngram")
    assert [
        str(case) for case in cases_of("ngram", model, ["token", "greedy", "traversal"], ["2,1"], [2, 4])
    ] == [
        "ngram token k=2",
        "ngram token k=4",
        "ngram greedy k=2",
        "ngram greedy k=4",
        "ngram greedy tree 2,1 k=2",
        "ngram traversal tree 2,1 k=2",
    ]
    assert [str(case) for case in cases_of("ngram", model, ["traversal"], [], [2])] == ["ngram traversal k=2"]
    assert [str(case) for case in cases_of("suffix", kind_named("suffix"), ["recursive"], [], [2])] == [
        "suffix recursive k=2"
    ]


@pytest.mark.parametrize(("tree", "widest"), [("best-first:6", 3), ("3,1:top", 3), ("3,1", 1)])
def test_the_best_tokens_are_drafted_of_the_draft_as_it_is_and_others_of_the_warped_one(tree, widest):
    """At temperature 0 the warped draft has one token with mass, and a tree of one branch."""
    oracle = table({(): [0.5, 0.3, 0.2]})
    entry = VERIFIERS["recursive"]
    case = Case("ngram", "recursive", 2, shape_of("recursive", None, tree, entry))

    def source(target, warp, make_drafter):
        return warp(target), make_drafter(warp(oracle))

    target, drafter = case.contender(source, oracle, temperature(0)).make()
    assert target(()).tolist() == [1, 0, 0]
    drafted = drafter(None if widest > 1 else SimpleNamespace(pick=lambda row: int(row.argmax())), (), 2)
    assert isinstance(drafted, draft.DraftTree)
    assert drafted.parents.count(0) == widest


def test_another_number_of_threads_begins_the_command_anew(run, models, monkeypatch):
    begun = []

    def ran(command, *, env, check):
        begun.append((command, env, check))
        return SimpleNamespace(returncode=7)

    monkeypatch.setattr(subprocess, "run", ran)
    monkeypatch.setattr(sys, "argv", ["speculative", "bench", "--threads", "2"])
    monkeypatch.setenv("KEPT", "yes")
    result = run("bench", *models.given, "--drafter", "lookup", "--threads", "2")
    assert result.exit_code == 7
    assert result.stdout == ""
    ((command, environment, check),) = begun
    assert command == [sys.executable, "-m", "speculative.cli", "bench", "--threads", "2"]
    assert {environment[name] for name in threads.VARIABLES} == {"2"}
    assert environment["KEPT"] == "yes"
    assert check is False


def line(predicted, seconds=1e-4):
    """A measured speedup of 2 and a forecast, from a round whose parts are chosen so."""
    spread = Spread(1.9, 2.0, 2.1)
    counted = Statistics(10, 20, 30, 10, (10, 5), (5, 5))
    raced = Race(spread, Spread(seconds, seconds, seconds), Spread(3e-4, 3e-4, 3e-4), counted, (3,) * 10)
    return show.BenchLine(
        "ngram", "token", 3, "", Measured(raced, Costs(1.0, {4: 2 / predicted}, 0.0, 0.0), 3)
    )


def test_the_table_says_how_far_forecasts_are_off_and_which_case_is_fastest():
    lines = [line(2.0), line(2.19), line(2.21), line(1.79)]
    assert show.explained(lines[:2])[1] == "Forecasts: all within 10 % of the measured speedup."
    assert show.explained(lines)[1] == "Forecasts: 2 of 4 within 10 % of the measured speedup."
    assert "plain decoding took 300 µs" in show.explained(lines)[0]
    console = show.terminal(no_color=True)
    with console.capture() as shown:
        console.print(show.bench_table(lines))
    text = " ".join(shown.get().split())
    assert ".50 1.00 2.00 100 1.00 2.00 2.00" in text
    assert "1.90-2.10 +0 %" in text
    assert "+10 %" in text
    assert "-10 %" in text
