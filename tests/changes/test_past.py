"""Changes that are over, days that count nowhere, and evidence that is none."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest

from streameval.analyses.changes.report import Change, ChangeSettings
from streameval.analyses.changes.statistics import WatchedSeries, judge_changes, look
from streameval.analyses.changes.words import chance_text, sentence
from tests.changes.worlds import DailyWorld, series_of, sums_of
from tests.present import present

EPOCH = date(1970, 1, 1)
USUAL = ChangeSettings()
OUTAGE = DailyWorld(at=50, ends=51, fall=-0.7)
HOLIDAYS = DailyWorld(at=40, ends=54, fall=-0.25)


def verdict_on(
    series: WatchedSeries, until: int, settings: ChangeSettings = USUAL, *, detailed: bool = False
) -> Change:
    """The verdict at the end of a day."""
    seen = look(series, until, settings)
    (change,) = judge_changes([seen], settings, 0.02, detailed=detailed)
    return change


def judged(
    world: DailyWorld, until: int, settings: ChangeSettings = USUAL, *, seed: int = 1
) -> Change:
    """The verdict on a world at the end of a day, with the days."""
    series = series_of(sums_of(np.random.default_rng([seed, 3]), world))
    return verdict_on(series, until, settings, detailed=True)


@pytest.mark.parametrize("until", [52, 57])
def test_one_bad_day_that_is_over_is_said_as_past(until: int) -> None:
    change = judged(OUTAGE, until)
    assert change.verdict == "no change seen"
    (pulse,) = change.past
    assert (pulse.began, pulse.ended) == (date(1970, 2, 20), date(1970, 2, 20))
    assert pulse.effect == pytest.approx(-0.7, abs=0.08)
    size = f"{100 * abs(pulse.effect):.1f} %"
    assert sentence(change).endswith(
        f" ctr was {size} lower on 20 Feb; back to normal since 21 Feb."
    )


@pytest.mark.parametrize("until", [55, 60, 66])
def test_two_bad_weeks_that_are_over_are_said_as_past_and_are_no_reference(until: int) -> None:
    """With those days as references, the normal days after them looked better."""
    change = judged(HOLIDAYS, until)
    assert change.verdict == "no change seen"
    (pulse,) = change.past
    assert abs((pulse.began - (EPOCH + timedelta(days=40))).days) <= 1
    assert abs((pulse.ended - (EPOCH + timedelta(days=53))).days) <= 1
    words = sentence(change)
    assert f"lower from {pulse.began.day} {pulse.began:%b} to {pulse.ended.day} " in words


def test_a_fall_that_lasts_is_not_over() -> None:
    for fall in (-0.15, -0.1):
        for until in (52, 57, 63):
            change = judged(DailyWorld(at=50, fall=fall, lists=20_000), until)
            assert (change.verdict, change.past) == ("worse", ())
            assert abs((present(change.since) - date(1970, 2, 20)).days) <= 1


@pytest.mark.parametrize(
    ("rest", "more", "until"), [(-0.3, 0.6, 54), (-0.4, 0.7, 54), (-0.4, 0.7, 58)]
)
def test_a_fall_of_which_half_may_remain_is_not_over(rest: float, more: float, until: int) -> None:
    """One day after it cannot tell whether a third or a half remains."""
    sums = sums_of(np.random.default_rng([1, 3]), DailyWorld(at=50, fall=rest))
    sums.numerators[50:54] *= more
    change = verdict_on(series_of(sums), until)
    assert (change.verdict, change.past) == ("worse", ())


def test_a_fall_after_an_outage_is_found_without_its_day() -> None:
    """The verdict is that of the days that are left, computed anew at each look."""
    random = np.random.default_rng([1, 3])
    sums = sums_of(random, DailyWorld(at=58, fall=-0.2, lists=20_000))
    sums.numerators[50] *= 0.3
    changes = [verdict_on(series_of(sums), until) for until in (52, 57, 66)]
    verdicts = [(seen.verdict, [pulse.began for pulse in seen.past]) for seen in changes]
    day = [date(1970, 2, 20)]
    assert verdicts == [("no change seen", day), ("no change seen", day), ("worse", day)]


def test_days_that_are_ignored_count_nowhere() -> None:
    settings = ChangeSettings(ignore=["1970-02-10/1970-02-23"])
    for until in (55, 66):
        change = judged(HOLIDAYS, until, settings)
        assert (change.verdict, change.past) == ("no change seen", ())
    one = judged(OUTAGE, 57, ChangeSettings(ignore=["1970-02-20"]))
    assert (one.verdict, one.past) == ("no change seen", ())
    assert one.days[-8].day == date(1970, 2, 20), "it is shown"
    assert one.days[-8].low is None, "without a range that is usual"


def test_a_rollout_on_the_last_day_is_one_and_one_after_it_is_none() -> None:
    sums = sums_of(np.random.default_rng([2, 3]), DailyWorld())
    series = series_of(sums)._replace(rollouts=[(60, "m1"), (69, "m2"), (70, "m3")])
    change = verdict_on(series, 69)
    assert [rollout.value for rollout in change.rollouts] == ["m1", "m2"]


def test_no_rate_is_stated_below_28_days() -> None:
    """Calm days have as much evidence on average, so that it says nothing."""
    series = series_of(sums_of(np.random.default_rng([7, 3]), DailyWorld()))
    calm = [verdict_on(series, until) for until in range(42, 70)]
    stated = [change for change in calm if (change.evidence_days or 0.0) >= 28]
    assert len(stated) <= 3
    for change in calm:
        if change in stated:
            continue
        assert sentence(change) == "ctr: no change seen."
        assert chance_text(change.evidence_days or 0.0) == ""


def test_the_bounds_of_an_alarm_exclude_what_is_tolerated() -> None:
    for seed in range(6):
        for fall, lists in ((-0.06, 20_000), (0.06, 20_000), (-0.12, 5_200)):
            change = judged(DailyWorld(at=50, fall=fall, lists=lists), 60, seed=seed)
            if change.verdict == "no change seen":
                continue
            low, high = present(change.low), present(change.high)
            assert high <= -0.0099 if change.verdict == "worse" else low >= 0.01


def test_a_fall_to_nothing_has_bounds_between_all_and_what_the_verdict_excludes() -> None:
    change = judged(DailyWorld(at=60, fall=-1.0), 62)
    assert (change.verdict, change.effect, change.low) == ("worse", -1.0, -1.0)
    assert -1.0 < present(change.high) < -0.5
