"""The command as a process of its own: start, errors, interrupts, closed pipes."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

import speculative
from speculative import cli
from speculative.cli.app import app

COMMAND = [sys.executable, "-m", "speculative.cli"]
FITTED = "--target", "ngram", "--text"  # a short one, on which models are fitted at once


def process(*arguments, **options):
    return finished([*COMMAND, *arguments], **options)


def finished(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def test_version():
    done = process("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"speculative {speculative.__version__}\n", "")


def test_help(run):
    top = run()
    assert top.exit_code == 0
    assert top.stdout == run("--help").stdout == run("-h").stdout
    for command in ("generate", "prove", "plan"):
        assert command in top.stdout
        shown = run(command, "--help")
        assert shown.exit_code == 0
        assert f"speculative {command} " in shown.stdout
        assert "Examples" in shown.stdout


@pytest.mark.parametrize("columns", ["80", "120"])
def test_help_breaks_lines_where_it_is_full_only(run, monkeypatch, columns):
    """A line ends a paragraph, or the next word would not have fitted on it."""
    monkeypatch.setenv("COLUMNS", columns)
    for command in ((), ("generate",), ("verifiers",), ("prove",), ("plan",), ("bench",)):
        shown = run(*command, "--help").stdout
        assert not re.search(r"<\w+", shown)
        assert "[[" not in shown
        lines = [line.strip() for line in shown.splitlines() if line[:1] == " "]
        for line, following in pairwise(lines):
            if line and following:
                assert len(line) + 1 + len(following.split()[0]) > int(columns) - 2


def test_generate_in_a_pipe_marks_the_text(text):
    done = process("generate", *FITTED, text, "--seed", "1", "--tokens", "60")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "[residual: after a rejection]" in done.stdout


def test_the_default_is_the_target_that_comes_with_the_package():
    done = process("generate", "--seed", "1", "--tokens", "30")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("target shakespeare, ")
    assert "\nMACBETH:\n" in done.stdout


def test_bad_input_is_one_line():
    done = process("prove", "nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("speculative prove: verifier 'nonsense' is unknown: write one of token")
    assert done.stderr.count("\n") == 1


def test_an_output_that_cannot_show_every_character(text):
    done = process(
        "generate",
        *FITTED,
        text,
        "--seed",
        "1",
        "--tokens",
        "80",
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.isascii()


@pytest.fixture
def started():
    """Start the command so that interrupts reach it, even from tests that a shell runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    yield lambda *arguments: subprocess.Popen([*COMMAND, *arguments], **pipes)
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_quiet(started, text):
    with started("generate", *FITTED, text, "--tokens", "100000000") as running:
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.stderr.read() == ""
        assert running.wait(60) == 130


def test_a_closed_pipe_is_quiet(started, text):
    with started("generate", *FITTED, text, "--tokens", "100000000") as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(60) == 128 + signal.SIGPIPE


@pytest.mark.parametrize(
    "arguments", [("--version",), ("plan", "--alpha", ".8"), ("plan", "--alpha", ".8", "--json")]
)
def test_a_pipe_that_is_closed_from_the_start(monkeypatch, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", closefd=True) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as stopped:
            app(arguments, prog_name="speculative")
        monkeypatch.undo()
    assert stopped.value.code == 128 + signal.SIGPIPE


class TestMain:
    """The console script."""

    def test_it_runs_the_command(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["speculative", "plan", "--alpha", ".5", "--json"])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 0
        assert json.loads(capsys.readouterr().out)["acceptance"] == 0.5

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_without_the_extra_it_says_what_to_install(self, missing):
        code = f"import sys; sys.modules[{missing!r}] = None; from speculative.cli import main; main()"
        done = finished([sys.executable, "-c", code])
        assert (done.returncode, done.stdout) == (2, "")
        assert (
            done.stderr
            == 'speculative: the command needs typer and rich: pip install -e ".[cli]" in a checkout\n'
        )

    @pytest.mark.parametrize("missing", ["typer", "rich", "rich.text"])
    def test_the_same_in_this_process(self, monkeypatch, capsys, missing):
        monkeypatch.delitem(sys.modules, "speculative.cli.app")
        monkeypatch.delitem(sys.modules, "speculative.cli.generate")
        monkeypatch.delattr("speculative.cli.app")
        monkeypatch.delattr("speculative.cli.generate")
        for name in [name for name in sys.modules if name.startswith("speculative.show")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr("speculative.show")
        monkeypatch.setitem(sys.modules, missing, None)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 2
        assert 'pip install -e ".[cli]" in a checkout' in capsys.readouterr().err

    def test_it_runs_as_a_module(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["speculative", "--version"])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_module("speculative.cli", run_name="__main__")
        assert stopped.value.code == 0
        assert capsys.readouterr().out == f"speculative {speculative.__version__}\n"

    def test_another_missing_module_is_a_fault_of_ours(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "speculative.cli.app", None)
        with pytest.raises(ModuleNotFoundError, match=r"speculative\.cli\.app"):
            cli.main()

    def test_an_interrupt_while_it_starts(self, monkeypatch):
        class Interrupted(SimpleNamespace):
            def __getattr__(self, name):
                raise KeyboardInterrupt

        monkeypatch.setitem(sys.modules, "speculative.cli.app", Interrupted())
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 130
