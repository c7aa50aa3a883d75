"""The tables of the page on the optimum are what their script computes."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parent.parent / "docs"
sys.path.insert(0, str(DOCS))
import shares  # noqa: E402 - a script of the documentation

PAGE = shares.PAGE.read_text(encoding="utf-8")


def block(name):
    """Return the rows of a table of the page: {first cell: the others}."""
    text = re.search(rf"<!-- {name}[^>]* -->\n(.*?)<!-- end of {name} -->", PAGE, re.DOTALL)[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()]
    return {cells[0]: cells[1:] for cells in rows if set(cells[0]) != {"-"}}


def test_a_column_of_the_table_is_what_the_command_beside_it_computes():
    models, seed = map(int, re.search(r"<!-- shares: .* --models (\d+) --seed (\d+) -->", PAGE).groups())
    table, setting = block("shares"), shares.SETTINGS[3]
    column = table[""].index("V = 3, k = 1, 2 paths")
    computed = shares.shares(setting, models, seed)
    assert [*table][1:] == [*computed]
    for name, values in computed.items():
        written = [float(number) for number in table[name][column].split(" ± ")]
        fresh = [float(number) for number in shares.interval(values).split(" ± ")]
        assert written == pytest.approx(fresh, abs=0.0011)  # the third decimal may round the other way
    multipath = np.array(computed["multipath"])
    assert f"reaches the optimum on {sum(multipath > 1 - 1e-9)} of the {models} models" in PAGE
    assert f"no more than {multipath.min():.3f} of it" in PAGE.replace("\n", " ")


def test_what_the_page_says_of_the_tables():
    table, below = block("shares"), block("below block")
    means = {name: [float(cell.split(" ± ")[0]) for cell in cells] for name, cells in table.items() if name}
    for name, column in means.items():
        assert all(np.array(column) <= means["transport, lifted"]), name
    assert means["transport"][3] == means["transport, lifted"][3] == 1
    assert min(int(count) for name in ("recursive", "multipath") for count in below[name]) > 0
    assert {*below["traversal"], *below["recursive, lifted"]} == {"0"}


def test_models_below_block_verification_are_counted():
    """Among the first five of V = 2, k = 2, three paths there are some."""
    setting, counted = shares.SETTINGS[2], shares.below_block(shares.SETTINGS[2], 5, 0)
    found = shares.shares(setting, 5, 0)
    for name, count in counted.items():
        assert count == sum(np.array(found[name]) < np.array(found["block, one path"]) - 1e-9)
    assert counted["multipath"] > counted["traversal"] == 0


def test_the_interval_is_students():
    """For 0 and 1: deviation 1/√2, error of the mean 1/2, and t is 12.706 for one degree of freedom."""
    assert shares.interval([0.0, 1.0]) == "0.500 ± 6.353"


def test_models_are_those_of_their_seed():
    setting = shares.Setting(2, 1, 2)
    rows = [
        shares.random_pair(setting, seed, number)[0](()) for seed, number in [(0, 0), (0, 0), (0, 1), (1, 0)]
    ]
    assert (rows[0] == rows[1]).all()
    assert (rows[0] != rows[2]).all()
    assert (rows[0] != rows[3]).all()


def test_a_block_is_replaced_and_the_rest_stays():
    page = "a\n<!-- shares: how -->\nold\n<!-- end of shares -->\nb"
    assert shares.with_block(page, "shares", "new") == (
        "a\n<!-- shares: how -->\n\nnew\n\n<!-- end of shares -->\nb"
    )


def test_the_table_of_times_has_a_row_for_each_size(monkeypatch):
    monkeypatch.setattr(shares, "SIZES", [shares.Setting(2, 1, 2), shares.Setting(3, 1, 2)])
    rows = shares.times_table(0).splitlines()
    assert rows[2].startswith("| V = 2, k = 1, 2 paths | 3 | 13 | ")
    assert len(rows) == 4
