"""The documentation keeps its promises: every public name has one, every claim a test, every path a file."""

import ast
import re
import sys
from pathlib import Path

import pytest

import speculative
from speculative import DRAFTERS, VERIFIERS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
PAGES += [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
CLAIMS = (DOCS / "claims.md").read_text(encoding="utf-8")

sys.path.insert(0, str(DOCS / "_ext"))
import public_names  # noqa: E402 - the check that the build runs, too


def claim_rows(text):
    """Return the cells of each row of the tables of claims, by number."""
    rows = re.findall(r"^\| (C\d+) \|(.*)\|$", text, flags=re.MULTILINE)
    return {number: [cell.strip() for cell in cells.split("|")] for number, cells in rows}


def functions_in(path):
    """Return the names of the test functions of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def missing_tests(text):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    return [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).is_file() or name not in functions_in(path)
    ]


def missing_paths(text):
    """Return the paths below src, tests, docs, examples and .ci that a text names and that do not exist."""
    named = re.findall(r"(?<![\w/.])(?:src|tests|docs|examples|\.ci)/[\w./*-]*[\w*]", text)
    return [path for path in named if "_build" not in path and not list(ROOT.glob(path))]


def test_every_public_name_has_a_docstring():
    assert list(public_names.undocumented()) == []


def test_a_public_name_without_a_docstring_is_noticed(monkeypatch):
    undescribed = type("Undescribed", (), {"method": lambda self: None, "__module__": "speculative.proof"})
    monkeypatch.setattr("speculative.proof.Undescribed", undescribed, raising=False)
    monkeypatch.setattr("speculative.proof.__doc__", "")
    assert list(public_names.undocumented()) == [
        "speculative.proof",
        "speculative.proof.Undescribed",
        "speculative.proof.Undescribed.method",
    ]


def test_every_module_has_a_page_of_reference():
    listed = re.findall(r"^   (speculative\.\w+)$", (DOCS / "reference/modules.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(public_names.modules())


@pytest.mark.parametrize("name", speculative.__all__)
def test_every_name_of_the_package_is_in_the_reference(name):
    index = (DOCS / "reference/index.md").read_text(encoding="utf-8")
    assert re.search(rf"~speculative\.\w+\.{name}\b|^   speculative\.{name}$", index, re.MULTILINE)


def test_claims_are_in_a_table_or_in_the_list_of_what_is_not_there_yet():
    listed = re.findall(r"^- C(\d+)(?: to C(\d+))?, ", CLAIMS.split("## Not yet")[1], re.MULTILINE)
    not_yet = [number for first, last in listed for number in range(int(first), int(last or first) + 1)]
    stated = [int(number[1:]) for number in claim_rows(CLAIMS)]
    assert not_yet == [30, 31, 32]
    assert sorted(stated + not_yet) == list(range(1, 33))


@pytest.mark.parametrize(("number", "cells"), claim_rows(CLAIMS).items())
def test_every_claim_has_a_row_with_tests_of_its_number_and_a_page(number, cells):
    _, tests, page = cells
    assert re.fullmatch(r"`tests/[\w/]+\.py::\w+`(, `tests/[\w/]+\.py::\w+`)*", tests)
    assert re.fullmatch(r"\{(doc|py:func|py:class)\}`~?[\w./-]+`", page)
    assert f"_c{int(number[1:]):02}_" in tests


def test_every_test_that_claims_name_exists():
    assert missing_tests(CLAIMS) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_path_in_a_page_exists(page):
    assert missing_paths(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "name", [f"verify.{name}" for name in VERIFIERS] + [f"draft.{name}" for name in DRAFTERS]
)
def test_every_verifier_and_every_drafter_has_a_row_among_the_papers(name):
    assert f"{{py:func}}`{name} <speculative.{name}>`" in (DOCS / "papers.md").read_text(encoding="utf-8")


def test_what_is_missing_is_noticed():
    assert missing_tests("`tests/test_docs.py::test_nothing`, `tests/no.py::test_a`") == [
        "tests/test_docs.py::test_nothing",
        "tests/no.py::test_a",
    ]
    assert missing_paths("see `src/speculative/nothing.py`, `tests/test_docs.py` and `docs/*.md`") == [
        "src/speculative/nothing.py"
    ]
    assert claim_rows("| C3 | a | b | c |\n| C4 | a |") == {"C3": ["a", "b", "c"], "C4": ["a"]}
