from importlib.metadata import version
from pathlib import Path

import pytest

import speculative


def test_every_name_is_there_once_and_in_order():
    assert len(set(speculative.__all__)) == len(speculative.__all__)
    for name in speculative.__all__:
        assert getattr(speculative, name) is not None


def test_the_version_is_that_of_the_distribution():
    assert speculative.__version__ == version("speculative")


def test_types_are_shipped():
    assert Path(speculative.__file__).with_name("py.typed").exists()


@pytest.mark.parametrize("table", ["VERIFIERS", "DRAFTERS"])
def test_an_entry_is_the_function_of_that_name(table):
    package = {"VERIFIERS": speculative.verify, "DRAFTERS": speculative.draft}[table]
    for name, entry in getattr(speculative, table).items():
        assert entry.function is getattr(package, name)
