"""The page on published rules says what the laws say now."""

import re
import sys
from fractions import Fraction
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import audit  # noqa: E402 - the script that writes the tables

from speculative import prove, rational, table  # noqa: E402
from speculative.draft import paths  # noqa: E402

PAGE = audit.PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rewritten():
    return audit.with_tables(PAGE)


def test_the_tables_are_those_that_the_script_writes(rewritten):
    assert rewritten == PAGE


def test_a_figure_that_is_no_longer_true_is_rewritten(monkeypatch):
    stale = PAGE.replace("1/16 = 0.0625 | 41/32", "1/17 = 0.0588 | 41/32")
    assert stale != PAGE
    monkeypatch.setattr(audit, "TABLES", {"blocks": audit.of_blocks})
    assert audit.with_tables(stale) == PAGE


def test_a_table_without_its_place_is_noticed():
    with pytest.raises(AssertionError, match="blocks"):
        audit.with_tables(PAGE.replace("<!-- blocks -->", ""))


def test_every_place_of_the_page_has_a_table():
    assert re.findall(r"<!-- end of (.*) -->", PAGE) == re.findall(r"<!-- (?!end of)(.*) -->", PAGE)
    assert set(re.findall(r"<!-- end of (.*) -->", PAGE)) == set(audit.TABLES)


def test_ties_by_hand():
    """Target (1/2, 1/4, 1/4), draft (1/4, 1/4, 1/2): ratios 2, 1 and 1/2, capped 1, 1 and 1/2; two drafts.

    Ranked 2, 0, 1 the highest is 2 with 1/4, 0 with 9/16 - 1/4 = 5/16, and 1 with 7/16. Of 0 and 1 the first
    drafted is chosen: each with 3/8. Accepted with min(1, q / skewed), 2 and 0 with 1, and 1 with 4/7, out
    come 1/4, 3/8 and 3/14. The rest, 9/56, is drawn from what is left, token 0 alone: 15/28 in all, not 1/2.
    """
    target, small = rational(["1/2", "1/4", "1/4"]), rational(["1/4", "1/4", "1/2"])
    proof = prove(audit.multipath_with_ties, table(target), paths(table(small), 2), num_draft_tokens=1)
    assert proof.output.map(lambda tokens: tokens[0]) == {
        0: Fraction(15, 28), 1: Fraction(3, 14), 2: Fraction(1, 4),
    }  # fmt: skip


def test_a_scale_rounded_down_by_hand():
    """The pair and a scale of 1.4. A draw passes with beta = .2 + .5 / 1.4 = 39/70.

    Of two draws the first to pass is token 1 or 2 with (1 + 31/70) / 1.4 = 101/98 of their .3 and .2. So
    .5 * 3/98 = 3/196 of them is too much, and no residual takes it back.
    """
    proof = prove(
        audit.k_seq_with(Fraction(7, 5)), table(audit.PAIR), paths(table(audit.OTHER), 2), num_draft_tokens=1
    )
    assert proof.distance == Fraction(3, 196)


def test_bfloat16_rounds_to_even_in_eight_bits():
    values = [1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-7, -3.14159, 0.1]
    assert audit.bfloat16(values).tolist() == [1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -3.140625, 0.10009765625]
