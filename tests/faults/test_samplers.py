"""Samplers: every wrong one is reported by the check beside it; the library's own passes all."""

from __future__ import annotations

import pytest

from speculative.chance import Sampler

from .samplers import ALL, SAMPLERS

every_check = pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)


@every_check
def test_the_sampler_passes(check):
    check(Sampler)


@pytest.mark.parametrize("wrong", SAMPLERS, ids=str)
def test_a_wrong_sampler_is_reported(wrong):
    with pytest.raises(AssertionError):
        wrong.check(wrong.sampler)


@every_check
def test_every_check_reports_some_wrong_sampler(check):
    assert any(wrong.check is check for wrong in SAMPLERS)
