from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from speculative.battery import BATTERY
from speculative.cli.app import app

LINES = (
    "the cat sat on the mat and the dog sat on the log\n",
    "the dog and the cat sat and sat\n\n",
    "on the mat the cat, on the log the dog\n",
)


@pytest.fixture
def text(tmp_path: Path) -> str:
    """A short text, so that models are fitted at once."""
    file = tmp_path / "text.txt"
    file.write_text("".join(LINES[i * i % 3] for i in range(90)))
    return str(file)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command in this process, and let it measure times on few tokens."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("speculative.cli.timing.MOST_TOKENS", 5)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, prog_name="speculative")

    return invoke


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a Python file of the user's own."""

    def file(name: str, source: str) -> Path:
        path = tmp_path / name
        path.write_text(source)
        return path

    return file


@pytest.fixture
def small_battery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first instances, for what is to be seen on any of them."""
    monkeypatch.setattr("speculative.cli.prove.BATTERY", BATTERY[:4])
