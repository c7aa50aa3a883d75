"""Run the notebooks, or those named, and store what they say: `python examples/run.py 01*.ipynb`.

What depends on the day, times and versions, is not stored.
"""

import sys
from copy import deepcopy
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(path: Path) -> None:
    """Run a notebook in a fresh kernel and store it in place."""
    notebook = nbformat.read(path, as_version=4)
    metadata = deepcopy(notebook.metadata)
    resources = {"metadata": {"path": str(HERE)}}
    client = NotebookClient(
        notebook, kernel_name="python3", record_timing=False, coalesce_streams=True, resources=resources
    )
    client.execute()
    notebook.metadata = metadata
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or sorted(HERE.glob("*.ipynb")):
        run(path)
