"""The README says what is so."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

from speculative import VERIFIERS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def block(mark):
    return re.search(rf"<!-- {mark} -->\n```\w*\n(.*?)```", README, re.DOTALL).group(1)


def test_the_demo_prints_what_it_says():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block("demo"), {})
    assert printed.getvalue() == block("output")


def test_there_are_exactly_two_commands_to_set_up_and_run():
    assert re.findall(r"^pip install .*$", README, re.MULTILINE) == [
        'pip install -e ".[cli]" && speculative generate',
        'pip install -e ".[test]" && pytest',
    ]


def test_the_table_of_verifiers_is_the_table():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", README, re.MULTILINE)
    assert [(name, paper, drafts) for name, paper, _, drafts in rows] == [
        (name, entry.paper, entry.drafts) for name, entry in VERIFIERS.items()
    ]
    for name, _, lossless, _ in rows:
        assert lossless.startswith("yes") == VERIFIERS[name].lossless
        assert ("temperature 0" in lossless) == (VERIFIERS[name].target_warp is not None)


def test_the_file_map_has_every_file_once_and_is_made_of_their_first_sentences():
    maker = runpy.run_path(str(ROOT / "docs" / "file_map.py"))
    assert maker["with_file_map"](README) == README, "run: python docs/file_map.py"
    named = re.findall(r"^\| `([\w/.]+\.py)` \| .+ \|$", README, re.MULTILINE)
    source = ROOT / "src" / "speculative"
    assert sorted(named) == sorted(str(path.relative_to(source)) for path in source.rglob("*.py"))


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)h#][^)]*)\)", README))
def test_links_lead_somewhere(path):
    assert (ROOT / path).exists()
