"""Every notebook runs in a fresh kernel, proves what it asserts, and says again what is stored in it.

What depends on the clock is in cells with the tag "timing"; their outputs may differ.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = [
    "01_speculative_sampling_from_scratch",
    "02_eight_ways_to_get_it_wrong",
    "03_does_it_pay",
    "04_which_verifier_is_best",
    "05_a_tree_step_by_step",
    "06_speculative_decoding_on_a_real_model",
    "07_which_drafter",
    "08_distillation_raises_agreement",
]
NEEDED = ["ipykernel", "matplotlib", "nbclient", "nbformat"]
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
SECONDS = 300  # for one cell

pytestmark = [
    pytest.mark.skipif(
        bool(MISSING), reason=f'no {", ".join(MISSING)}: pip install -e ".[notebook]" in a checkout'
    ),
    pytest.mark.filterwarnings("default"),  # of the notebook tools; a kernel warns in its own process
]


def read(name):
    import nbformat  # noqa: PLC0415  # not in the extra `test`

    return nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def said(cell):
    """Return what a cell prints and shows as text; pictures differ with the version of matplotlib."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            texts.append(output.text)
        elif "image/png" not in output.data:
            texts.append(output.data.get("text/markdown", output.data["text/plain"]))
    return "".join(texts)


def test_all_notebooks_are_named_here_and_in_the_readme():
    assert [path.stem for path in sorted(EXAMPLES.glob("*.ipynb"))] == NAMES
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"- [{name}.ipynb]({name}.ipynb): " in readme] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_is_stored_as_one_run_from_top_to_bottom(name):
    assert all(set(cell.metadata) <= {"tags"} for cell in read(name).cells)
    cells = code_cells(read(name))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert "stderr" not in [output.get("name") for output in outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 4
    assert sum(cell.source.count("assert ") for cell in cells) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_says_the_same_again(name):
    from nbclient import NotebookClient  # noqa: PLC0415  # not in the extra `test`

    stored, fresh = read(name), read(name)
    for cell in code_cells(fresh):
        cell.outputs = []
    resources = {"metadata": {"path": str(EXAMPLES)}}
    NotebookClient(fresh, timeout=SECONDS, kernel_name="python3", resources=resources).execute()
    for before, after in zip(code_cells(stored), code_cells(fresh), strict=True):
        if "timing" not in before.metadata.get("tags", []):
            assert said(after) == said(before), before.source
