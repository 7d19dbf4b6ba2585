"""Whatever happens, and in whatever order: states are folds of the log, and nothing shows twice."""

from __future__ import annotations

from tests.durability.running import run
from tests.effort import thorough

QUICK, THOROUGH = 8, 300
"""Schedules; still more of them: `python -m tests.durability --examples 1000`."""


def test_no_schedule_breaks_what_must_be_true() -> None:
    run(THOROUGH if thorough() else QUICK)
