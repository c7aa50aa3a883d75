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


def test_every_verifier_is_in_its_table():
    tables = re.findall(r"^\| (loss.*?) \| paper .*\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert [group for group, _ in tables] == ["lossless, one path", "lossless, trees", "lossy"]
    rows = [re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", rows, re.MULTILINE) for _, rows in tables]
    assert [name for table in rows for name, _, _ in table] == list(VERIFIERS)
    for (group, _), table in zip(tables, rows, strict=True):
        for name, paper, needs in table:
            entry = VERIFIERS[name]
            assert entry.lossless == group.startswith("lossless")
            assert paper == entry.paper
            assert needs.startswith(entry.drafts)
            assert ("temperature(0)" in needs) == (entry.target_warp is not None)
            assert (str(entry.carries) in needs) == (entry.carries is not None)


def test_the_tables_are_those_of_the_script_and_the_file_map_has_every_file_once():
    maker = runpy.run_path(str(ROOT / "docs" / "file_map.py"))
    assert maker["with_file_map"](README) == README, "run: python docs/file_map.py"
    named = re.findall(r"^\| `([\w/.]+\.py)` \| .+ \|$", README, re.MULTILINE)
    source = ROOT / "src" / "speculative"
    assert sorted(named) == sorted(str(path.relative_to(source)) for path in source.rglob("*.py"))


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)h#][^)]*)\)", README))
def test_links_lead_somewhere(path):
    assert (ROOT / path).exists()
