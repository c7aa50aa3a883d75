"""Seeds: every wrong use is reported by the check named beside it, and the right ones pass all of them."""

from __future__ import annotations

import pytest

from .seeds import ALL, SEEDS, one_generator_each, the_librarys_own

every_check = pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)


@every_check
@pytest.mark.parametrize("decode", [one_generator_each, the_librarys_own])
def test_right_uses_pass(decode, check):
    check(decode)


@pytest.mark.parametrize("wrong", SEEDS, ids=str)
def test_a_wrong_use_is_reported(wrong):
    with pytest.raises(AssertionError):
        wrong.check(wrong.decode)


@every_check
def test_every_check_reports_some_wrong_use(check):
    assert any(wrong.check is check for wrong in SEEDS)
