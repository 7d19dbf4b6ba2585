"""What a watch for changes promises, in worlds of users over days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from streameval.analyses.changes.report import CHANGED, Change, ChangeSettings
from streameval.analyses.changes.statistics import judge_changes, look
from streameval.analyses.changes.words import sentence
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


OVER = {
    "one day of -70 %": DailyWorld(days=64, at=44, ends=45, fall=-0.7),
    "14 days of -25 %": DailyWorld(days=77, at=44, ends=58, fall=-0.25),
}
LASTING = DailyWorld(days=64, at=44, fall=-0.15)


def over_bars(runs: int, seed: int = 5) -> Iterator[Bar]:
    """A change that is over is no alarm, and its sentence says so; one that lasts stays one."""
    for name, world in OVER.items():
        over = list(_looks(world, [world.ends + after for after in (1, 6, 12, 18)], runs, seed))
        alarms = [change.verdict in CHANGED for change in over]
        yield at_most(f"{name}, over: alarm", 0.02, alarms)
        past = ["back to normal since" in sentence(change) for change in over]
        yield at_least(f"{name}, over: said as past at some look", 0.25, past)
    lasting = list(_looks(LASTING, [LASTING.at + after for after in (6, 12, 18)], runs, seed))
    worse = [change.verdict == "worse" for change in lasting]
    yield at_least("-15 % that lasts: worse", 0.8, worse)
    past = [bool(change.past) for change in lasting]
    yield at_most("-15 % that lasts: said as past", 0.02, past)


def _looks(world: DailyWorld, days: Sequence[int], runs: int, seed: int) -> Iterator[Change]:
    """The verdicts at the end of these days."""
    for run in range(runs):
        series = series_of(sums_of(np.random.default_rng([seed, run]), world))
        for day in days:
            yield from judge_changes([look(series, day, SETTINGS)], SETTINGS, 0.02)


def test_what_is_over_is_no_alarm() -> None:
    assert [bar for bar in over_bars(3) if not bar.passed] == []


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
def test_what_is_over_is_no_alarm_in_50_runs() -> None:
    assert [bar for bar in over_bars(50, seed=6) if not bar.passed] == []


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
