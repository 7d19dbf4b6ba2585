"""For any faults in any order, states are folds of the log, and no evidence is shown twice."""

from __future__ import annotations

from tests.durability.machine import run
from tests.effort import thorough


def test_no_schedule_breaks_an_invariant() -> None:
    if thorough():
        run(300, derandomize=False)
    else:
        run(8)
