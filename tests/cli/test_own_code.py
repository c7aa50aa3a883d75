"""Code of the user's own is loaded and run, and leaves no trace in the process."""

import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from speculative.cli.own import as_found, load

pytestmark = pytest.mark.usefixtures("small_battery")
SOURCE = """
import os
import sys
import warnings
import numpy as np
import beside_it
import package_beside.inner
os.environ["SPECULATIVE_TEST"] = "set"
warnings.simplefilter("ignore")
np.seterr(all="raise")
sys.path.append("somewhere")

def verify(chance, draft, target_probs):
    from imported_when_called import anything
    return [*draft.tokens[:0], chance.pick(target_probs[0])]
"""


@pytest.fixture
def folder(write, tmp_path):
    (tmp_path / "package_beside").mkdir()
    write("package_beside/__init__.py", "")
    write("package_beside/inner.py", "")
    write("beside_it.py", "")
    write("imported_when_called.py", "anything = 1\n")
    write("trouble.py", SOURCE)
    write("token.py", "def verify(chance, draft, target_probs): return [chance.pick(target_probs[0])]\n")
    return tmp_path


def test_the_line_named_is_one_of_the_users_file_and_not_of_a_library_file_of_that_name(run, write):
    path = write(
        "own.py", "import math\n\n\ndef verify(chance, draft, target_probs):\n    return [math.sqrt(-1)]\n"
    )
    result = run("prove", "--verifier", f"{path}:verify")
    assert result.exit_code == 2
    assert "math domain error (line 5)" in result.stderr


def state():
    return sys.path[:], dict(os.environ), warnings.filters[:], np.geterr()


@pytest.mark.parametrize("where", ["trouble.py:verify", "trouble:verify", "token.py:verify"])
def test_a_command_leaves_the_process_as_it_was(run, folder, monkeypatch, where):
    monkeypatch.chdir(folder)
    run("prove", "greedy")  # what is imported by then is ours
    before, modules = state(), set(sys.modules)
    assert run("prove", "--verifier", where).exit_code == 0
    assert state() == before
    assert set(sys.modules) == modules
    assert run("prove", "--verifier", f"{where}_not").exit_code == 2
    assert state() == before
    assert set(sys.modules) == modules


def test_modules_of_other_folders_stay(folder):
    other = "colorsys"
    sys.modules.pop(other, None)
    (folder / "uses.py").write_text(f"import {other}\ndef rule(): return {other}\n")
    with as_found():
        rule = load(f"{folder / 'uses.py'}:rule")
        assert str(folder) == sys.path[0]
    assert sys.modules[other] is rule()
    assert str(folder) not in sys.path
    assert "own_uses" not in sys.modules


def test_two_files_of_one_name_in_two_folders(run, tmp_path):
    for name, helper in (("one", "[0]"), ("two", "[chance.pick(target_probs[0])]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"def emit(chance, target_probs): return {helper}\n")
        (tmp_path / name / "rule.py").write_text(
            "from helper import emit\ndef rule(chance, draft, target_probs):\n"
            "    return emit(chance, target_probs)\n"
        )
    assert run("prove", "--verifier", f"{tmp_path}/one/rule.py:rule").exit_code == 1
    assert run("prove", "--verifier", f"{tmp_path}/two/rule.py:rule").exit_code == 0


def test_a_process_pool_can_be_started_after_a_file_called_token(run, folder):
    """A new process takes over `sys.path`: with a token.py first on it, it could not import numpy."""
    assert run("prove", "--verifier", f"{folder / 'token.py'}:verify").exit_code == 0
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(np.arange, 3).result().tolist() == [0, 1, 2]
