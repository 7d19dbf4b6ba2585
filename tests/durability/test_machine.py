"""Whatever happens, and in whatever order: states are folds of the log, and nothing shows twice."""

from __future__ import annotations

from tests.durability.machine import run
from tests.effort import thorough


def test_no_schedule_breaks_what_must_be_true() -> None:
    if thorough():
        run(300, derandomize=False)
    else:
        run(8)
