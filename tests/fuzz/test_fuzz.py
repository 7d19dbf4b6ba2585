"""Made-up input breaks nothing: a few examples in `tests/run`, ten minutes each in nightly."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.__main__ import TARGETS, fuzz

_FEW = 8
_SECONDS = 600.0
_SIDE_BY_SIDE = [
    pytest.param(target, marks=pytest.mark.xdist_group(f"fuzz {target}")) for target in TARGETS
]


@pytest.mark.parametrize("target", TARGETS)
def test_made_up_input_breaks_nothing(target: str) -> None:
    assert fuzz(target, 0, examples=_FEW) == 1


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("target", _SIDE_BY_SIDE)
def test_ten_minutes_of_made_up_input_break_nothing(target: str) -> None:
    assert fuzz(target, int(time.time()), seconds=_SECONDS)
