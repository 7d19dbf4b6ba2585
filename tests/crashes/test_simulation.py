"""Schedules of the whole, judged by a count of the log and by invariants."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import settings

from tests.crashes.simulation import FAULTS, simulate

_QUICK: Final = 4.0
"""Seconds of faults in the quick tests."""

_SCHEDULES: Final = {"quick": 12, "unshrunk": 200, "thorough": 1_000}
"""Number of schedules, by the profile of the run. Each mistake must be found within 200."""

_AT_ONCE: Final = 200


@pytest.mark.parametrize("joins", [False, True], ids=["events", "joins"])
@pytest.mark.parametrize(
    "first", range(0, _SCHEDULES[settings.get_current_profile_name()], _AT_ONCE)
)
def test_no_schedule_breaks_an_invariant(first: int, *, joins: bool) -> None:
    profile = settings.get_current_profile_name()
    for seed in range(first, first + min(_AT_ONCE, _SCHEDULES[profile])):
        simulate(seed, _QUICK if profile == "quick" else FAULTS, joins=joins)


@pytest.mark.parametrize("joins", [False, True], ids=["events", "joins"])
def test_a_seed_replays_exactly(*, joins: bool) -> None:
    first, again = (simulate(3, _QUICK, joins=joins) for _ in range(2))
    assert first.trace == again.trace != []
