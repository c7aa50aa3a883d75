"""The page on the models that come with the package, beside the files; and how they are loaded."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
import trained

PAGE = trained.PAGE.read_text(encoding="utf-8")
IN_A_FRESH_PROCESS = """
import sys

opened, unpickled = [], []


def watch(event, args):
    if event == "open" and "weights" in str(args[0]):
        opened.append(str(args[0]))
    if event == "pickle.find_class":
        unpickled.append(args)


sys.addaudithook(watch)
from speculative import model

assert not opened, opened
loaded = dict()
for name in {names}:
    kind = {kinds}[name]
    if kind in ("medusa", "eagle"):
        getattr(model, "load_" + kind)(loaded["shakespeare"], name)
    elif kind in ("ngram", "neural_ngram"):
        model.load_ngram(name)
    else:
        loaded[name] = model.load(name)
    assert opened and all("/" + name + "/" in path for path in opened), opened
    opened.clear()
assert not unpickled, unpickled
"""


def block(name):
    return re.search(rf"<!-- {name} -->\n\n(.*?)\n\n<!-- end of {name} -->", PAGE, re.DOTALL)[1]


def test_the_table_has_what_ships():
    _, _, *rows, together = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in block("models").splitlines()
    ]
    assert [row[0].strip("`") for row in rows] == trained.shipped()
    for row, name in zip(rows, trained.shipped(), strict=True):
        assert row[2:4] == [f"{trained.numbers(name):,}", f"{trained.size(name):,}"]
    total = sum(map(trained.size, trained.shipped()))
    assert together[3] == f"{total:,}"
    assert total <= 12_000_000
    loaded = [int(row[5].removesuffix(" ms")) for row in rows]
    assert max(loaded) < 300


def test_the_checksums_are_those_of_the_files():
    lines = [f"{trained.checksum(name)}  {name}/model.safetensors" for name in trained.shipped()]
    assert block("checksums").splitlines()[1:-1] == lines


def test_each_is_loaded_when_it_is_asked_for_and_holds_no_pickle():
    names = trained.shipped()
    code = IN_A_FRESH_PROCESS.format(names=names, kinds={name: trained.model_type(name) for name in names})
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    suffixes = {path.suffix for path in trained.WEIGHTS.glob("*/*")}
    assert suffixes == {".json", ".safetensors"}


def test_bits_are_of_every_character_once():
    """Of all with enough before them: 127 characters or more, and 254 at most."""
    asked = []

    def row(context):
        asked.append(context)
        return [0.5, 0.25, 0.25]

    oracle = trained.Oracle(row, 3)
    tokens = tuple(i % 3 for i in range(700))
    bits = trained.bits(oracle, tokens)
    ends = [127 + i for i in range(len(asked))]  # the place of the character that each row is for
    assert len(ends) == 4 * 128
    assert all(127 <= len(context) <= 254 for context in asked)
    assert all(tokens[end - len(context) : end] == context for end, context in zip(ends, asked, strict=True))
    share = sum(tokens[end] == 0 for end in ends) / len(ends)
    assert bits == pytest.approx(share + 2 * (1 - share))
