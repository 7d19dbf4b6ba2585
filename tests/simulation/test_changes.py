"""What a watch for changes promises, in worlds of users over days."""

from __future__ import annotations

import numpy as np
import pytest

from streameval.analyses.changes.settings import ChangeSettings
from streameval.analyses.changes.statistics import judge_changes
from tests.changes.worlds import DailyWorld, first_alarm, series_of, sums_of
from tests.simulation.bars import Bar, at_least, at_most

SETTINGS = ChangeSettings()
LOOKS = 28
CALM = {
    "users alone": DailyWorld(moves=0.0),
    "days that move": DailyWorld(),
    "days that move alike": DailyWorld(alike=0.6),
    "users who come for four weeks": DailyWorld(stays=28),
}


def calm_bar(name: str, runs: int, seed: int = 1) -> Bar:
    """Chance alone alarms within 28 daily looks in at most 28 of 91 runs."""
    world = CALM[name]
    alarms = [
        first_alarm(
            series_of(sums_of(np.random.default_rng([seed, run]), world)),
            range(world.days - LOOKS, world.days),
            SETTINGS,
        )
        is not None
        for run in range(runs)
    ]
    return at_most(name, LOOKS / SETTINGS.days, alarms)


def fall_bars(runs: int, seed: int = 2) -> list[Bar]:
    """A fall of 10 % at 31,000 lists a day is found within a week, and dated."""
    world = DailyWorld(days=70, lists=31_000, at=63, fall=-0.1)
    in_time, dated = [], []
    for run in range(runs):
        series = series_of(sums_of(np.random.default_rng([seed, run]), world))
        alarm = first_alarm(series, range(63, 70), SETTINGS)
        in_time.append(alarm is not None)
        if alarm is not None:
            (change,) = judge_changes([alarm[1]], SETTINGS, 0.02)
            day = change.since.toordinal() - 719_163 if change.since else -1
            dated.append(abs(day - world.at) <= 1)
    return [at_least("found in 7 days", 0.9, in_time), at_least("dated within 1", 0.75, dated)]


@pytest.mark.parametrize("name", CALM)
def test_false_alarms_are_as_rare_as_promised(name: str) -> None:
    bar = calm_bar(name, 3)
    assert bar.passed, bar


def test_a_fall_is_found_and_dated() -> None:
    assert [bar for bar in fall_bars(4) if not bar.passed] == []


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", CALM)
def test_false_alarms_are_as_rare_as_promised_in_100_runs(name: str) -> None:
    bar = calm_bar(name, 100, seed=3)
    assert bar.passed, bar


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
def test_a_fall_is_found_and_dated_in_100_runs() -> None:
    assert [bar for bar in fall_bars(100, seed=4) if not bar.passed] == []
