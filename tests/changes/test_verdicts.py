"""What a look says about a series: verdicts, days, bounds, silence, mix, rollouts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest

from streameval import Accumulator, ChangeSettings, Intervals, changes
from streameval.analyses.changes.report import Change
from streameval.analyses.changes.statistics import (
    Look,
    Traffic,
    WatchedSeries,
    WatchedSlice,
    judge_changes,
    look,
    replay_days,
)
from streameval.analyses.changes.words import sentence
from streameval.events.errors import ConfigError, MetricError, NotComparableError, UnlikeStateError
from streameval.statistics.groups import MOST_DAYS
from streameval.statistics.intervals import GroupSums
from tests.changes.worlds import DailyWorld, common_moves, series_of, sums_of, together
from tests.present import present
from tests.strategies import event_of

EPOCH = date(1970, 1, 1)
SETTINGS = ChangeSettings()
FALL = DailyWorld(days=70, lists=20_000, at=62, fall=-0.15)


@cache
def fallen(seed: int = 1) -> GroupSums:
    return sums_of(np.random.default_rng(seed), FALL)


@cache
def calm(seed: int = 2) -> GroupSums:
    return sums_of(np.random.default_rng(seed), FALL._replace(fall=0.0))


def judged(
    series: WatchedSeries, until: int = 69, settings: ChangeSettings = SETTINGS, **others: Any
) -> Change:
    seen = look(series, until, settings)
    (change,) = judge_changes([seen], settings, 0.02, **others)
    return change


def empty_days(sums: GroupSums, *days: int) -> GroupSums:
    retained = ~np.isin(sums.days, days)
    return GroupSums(sums.days[retained], sums.numerators[retained], sums.denominators[retained])


def with_values(sums: GroupSums, since: int, factor: float) -> GroupSums:
    """The sums with fewer or more clicks from a day on."""
    scale = np.where(sums.days >= since, factor, 1.0)[:, np.newaxis]
    return sums._replace(numerators=np.floor(sums.numerators * scale))


def from_day(sums: GroupSums, first: int) -> GroupSums:
    """The sums without the clicks of the days before."""
    clicks = np.where(sums.days[:, np.newaxis] < first, 0.0, sums.numerators)
    return sums._replace(numerators=clicks)


def test_a_fall_is_worse_since_its_day_within_its_bounds() -> None:
    change = judged(series_of(fallen()))
    assert change.verdict == "worse"
    assert abs((present(change.since) - EPOCH).days - 62) <= 1
    assert present(change.first) <= present(change.since) <= present(change.last)
    assert present(change.low) < -0.15 < present(change.high)
    assert present(change.low) < present(change.effect) < present(change.high) < 0
    assert present(change.worse_days) > 91
    assert "is worse than the weeks before since" in sentence(change)


def test_a_calm_series_has_no_change_and_no_day() -> None:
    change = judged(series_of(calm()))
    dates = change.since, change.low, change.first
    assert (change.verdict, *dates) == ("no change seen", None, None, None)


def test_a_rise_is_better_and_lower_is_better_swaps_them() -> None:
    series = series_of(with_values(calm(), 62, 1.2))
    assert judged(series).verdict == "better"
    assert judged(series._replace(higher_is_better=False)).verdict == "worse"
    assert judged(series._replace(higher_is_better=None)).verdict == "changed"
    fall = series_of(fallen())
    assert judged(fall._replace(higher_is_better=False)).verdict == "better"


def test_a_rise_is_dated_as_well_as_a_fall() -> None:
    world = FALL._replace(fall=0.5, days=69)
    change = judged(series_of(sums_of(np.random.default_rng(6), world)), 68)
    assert (change.verdict, change.since) == ("better", EPOCH + timedelta(days=62))


def test_the_day_after_an_earlier_rise_is_that_of_the_fall() -> None:
    scale = np.select([fallen().days >= 64, fallen().days >= 52], [0.7, 1.1], 1.0)
    moved = calm()._replace(numerators=calm().numerators * scale[:, np.newaxis])
    change = judged(series_of(moved))
    assert change.verdict == "worse"
    assert abs((present(change.since) - EPOCH).days - 64) <= 1


def test_evidence_is_divided_by_the_number_of_series() -> None:
    seen = look(series_of(fallen()), 69, SETTINGS)
    alone = judge_changes([seen], SETTINGS, 0.02)[0].worse_days or 0.0
    shared = judge_changes([seen] * 50, SETTINGS, 0.02)[0].worse_days or 0.0
    assert shared < alone / 10


def test_a_series_that_is_not_judged_does_not_cost_the_others_evidence() -> None:
    seen = look(series_of(fallen()), 69, SETTINGS)
    short = look(series_of(fallen()), 15, SETTINGS)
    folded = look(series_of(fallen(), name="__other__"), 69, SETTINGS)
    alone, *_ = judge_changes([seen], SETTINGS, 0.02)
    first, *others = judge_changes([seen, short, folded], SETTINGS, 0.02)
    assert first.worse_days == alone.worse_days
    assert [change.verdict for change in others] == ["history too short", "too few users"]
    assert all(change.worse_days is None for change in others)


def test_only_days_up_to_the_look_count() -> None:
    series = series_of(fallen())
    sums = fallen()
    early = GroupSums(sums.days[:61], sums.numerators[:61], sums.denominators[:61])
    assert judged(series, 60) == judged(series_of(early), 60)


def test_replay_is_what_was_seen_each_day() -> None:
    series = series_of(fallen())
    by_day = replay_days([series], 69, SETTINGS, 0.02)
    for change in (row[0] for row in by_day[-12:]):
        assert change == judged(series, (present(change.until) - EPOCH).days)
    assert by_day[-1][0].verdict == "worse"
    assert by_day[-12][0].verdict == "no change seen"


def test_a_fall_to_nothing_is_never_skipped() -> None:
    change = judged(series_of(with_values(calm(), 68, 0.0)))
    assert (change.verdict, change.effect, change.low) == ("worse", -1.0, -1.0)
    assert change.since == EPOCH + timedelta(days=68)


def test_empty_days_are_silent_and_lists_tell() -> None:
    change = judged(series_of(empty_days(calm(), 68, 69)))
    assert (change.verdict, change.lists_ratio) == ("no change seen", 0.0)
    calmer = judged(series_of(calm()))
    assert calmer.lists_ratio == pytest.approx(1.0, abs=0.05)


def test_a_slice_that_ended_is_silent_after_four_weeks() -> None:
    ended = {silent: empty_days(calm(), *range(70 - silent, 70)) for silent in (28, 29)}
    assert [judged(series_of(sums)).lists_ratio for sums in ended.values()] == [0.0, None]


def no_click() -> GroupSums:
    """Few lists, of which one in 500 has a click, and none on the last day."""
    world = DailyWorld(lists=40, ctr=0.002, users=400)
    return with_values(sums_of(np.random.default_rng(4), world), 69, 0.0)


def of_groups(sums: GroupSums, groups: int) -> GroupSums:
    """The sums of the first groups of users."""
    some = np.arange(256) < groups
    return sums._replace(
        numerators=np.where(some, sums.numerators, 0.0),
        denominators=np.where(some, sums.denominators, 0),
    )


def half_a_day() -> GroupSums:
    """The last day with a fortieth of the traffic."""
    random, sums = np.random.default_rng(12), calm()
    last = sums.days[:, np.newaxis] == 69
    few = sums.denominators // 40
    return sums._replace(
        numerators=np.where(last, random.binomial(few.tolist(), 0.09), sums.numerators),
        denominators=np.where(last, few, sums.denominators),
    )


@pytest.mark.parametrize(
    ("sums", "verdicts"),
    [
        (no_click, {"too few users", "no change seen"}),
        (lambda: from_day(calm(), 69), {"too few users", "history too short"}),
        (lambda: of_groups(calm(), 8), {"too few users"}),
        (half_a_day, {"no change seen"}),
    ],
    ids=["no click by chance", "no click before", "few users", "half a day"],
)
def test_a_series_that_tells_little_is_no_fall(
    sums: Callable[[], GroupSums], verdicts: set[str]
) -> None:
    assert judged(series_of(sums())).verdict in verdicts


def test_a_slice_without_others_says_so() -> None:
    change = judged(series_of(calm(), empty_days(calm(), *range(70)), "a"))
    reason = "the series to compare with has no lists"
    assert (change.verdict, change.reason) == ("history too short", reason)


def test_a_steady_decay_is_seen() -> None:
    world = FALL._replace(days=91, at=63, fall=0.0, decay=-0.01)
    assert judged(series_of(sums_of(np.random.default_rng(5), world)), 90).verdict == "worse"


def test_a_common_bad_week_is_no_fall_of_one_slice_against_the_others() -> None:
    random = np.random.default_rng(6)
    moves = [log - 0.15 * (day >= 64) for day, log in enumerate(common_moves(random, FALL))]
    world = FALL._replace(fall=0.0, lists=10_000)
    first, second = (sums_of(random, world, moves) for _ in range(2))
    assert judged(series_of(together(first, second))).verdict == "worse"
    assert judged(series_of(first, second)).verdict == "no change seen"


def test_a_rollout_is_a_suspect_and_no_amnesty() -> None:
    weak = sums_of(np.random.default_rng(9), FALL._replace(lists=5_000, fall=-0.06, at=64))
    plain = judged(series_of(weak))
    suspect = judged(series_of(weak)._replace(rollouts=[(64, "model 7")]))
    assert (suspect.worse_days or 0) > (plain.worse_days or 0)
    changed = judged(series_of(fallen())._replace(rollouts=[(62, "model 7")]))
    assert changed.verdict == "worse"
    assert "model 7 began on" in sentence(changed)


def test_an_accepted_day_ends_an_alarm_and_later_falls_are_seen() -> None:
    settings = ChangeSettings(accepted=[EPOCH + timedelta(days=62)])
    assert judged(series_of(fallen()), settings=settings).verdict != "worse"
    twice = with_values(sums_of(np.random.default_rng(1), FALL._replace(days=84)), 80, 0.7)
    change = judged(series_of(twice), 83, settings)
    assert change.verdict == "worse"
    assert change.since == EPOCH + timedelta(days=80)


def test_a_larger_tolerance_leaves_a_small_change_alone() -> None:
    settings = ChangeSettings(tolerate=0.2)
    assert judged(series_of(fallen()), settings=settings).verdict == "no change seen"


def test_many_lists_without_a_user_are_not_trusted() -> None:
    series = series_of(fallen())
    nameless = series.traffic.list_counts // 10
    change = judged(series._replace(traffic=series.traffic._replace(nameless=nameless)))
    assert (change.verdict, change.worse_days) == ("do not trust", None)


def test_the_sum_of_old_days_is_no_reference() -> None:
    sums = sums_of(np.random.default_rng(10), FALL._replace(days=MOST_DAYS, fall=0.0))
    merged = sums._replace(numerators=sums.numerators.copy(), denominators=sums.denominators)
    merged.numerators[0] *= 50.0
    assert judged(series_of(merged), 89) == judged(series_of(sums), 89)


def test_the_last_days_have_the_range_that_is_usual() -> None:
    change = judged(series_of(fallen()), detailed=True)
    assert len(change.days) == 63
    after = [part for part in change.days if change.since and part.day >= change.since]
    before = [part for part in change.days if change.since and part.day < change.since]
    assert sum((part.value or 0.0) < (part.low or 0.0) for part in after) >= len(after) - 1
    usual = [part for part in before if part.low is not None and part.value is not None]
    inside = [(part.low or 0.0) <= (part.value or 0.0) <= (part.high or 0.0) for part in usual]
    assert np.mean(inside) > 0.85


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"once_in": "6d"}, "once_in"),
        ({"once_in": "12h"}, "once_in"),
        ({"tolerate": -0.1}, "tolerate"),
        ({"against": ""}, "against"),
        *(
            ({"ignore": [entry]}, "ignore")
            for entry in (
                "24 December",
                "2026-12-24/",
                "2026-12-24/2026-12-25/2026-12-26",
                "2026-12-24/2026-12-23",
                "1970-01-01/2026-01-01",
            )
        ),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ChangeSettings(**settings)
    assert caught.value.key == key


def accumulated(rate: float, *, days: int = 36) -> Accumulator:
    accumulator = Accumulator("hit_rate", intervals=Intervals())
    random = np.random.default_rng(11)
    for day in range(20_500, 20_500 + days):
        hits = random.random(300) < (0.3 if day < 20_530 else rate)
        accumulator.update_many(
            event_of(["a"], ["a"] if hit else [], user=f"u{user}", ts=day * 86_400_000_000)
            for user, hit in enumerate(hits.tolist())
        )
    return accumulator


def test_python_says_what_the_series_says() -> None:
    worse, same = accumulated(0.15), accumulated(0.3)
    change = changes(worse, "hit_rate")
    assert change.verdict == "worse"
    assert change.until == EPOCH + timedelta(days=20_534)
    assert changes(worse, "hit_rate", against=same).verdict == "worse"
    assert changes(same, "hit_rate").verdict == "no change seen"
    total = changes(worse, "hit_rate", until=EPOCH + timedelta(days=20_535))
    assert total.until == EPOCH + timedelta(days=20_535)
    assert (total.worse_days or 0) > (change.worse_days or 0)
    many = changes(worse, "hit_rate", series=100)
    assert (many.worse_days or 0) < (change.worse_days or 0)


def test_python_refuses_what_has_no_sums_by_user() -> None:
    worse = accumulated(0.3, days=2)
    with pytest.raises(NotComparableError):
        changes(Accumulator("hit_rate"), "hit_rate")
    with pytest.raises(UnlikeStateError):
        changes(worse, "hit_rate", against=Accumulator("hit_rate", intervals=Intervals(groups=64)))
    wrong: list[dict[str, Any]] = [
        {"series": 0},
        {"until": "2026-03-01"},
        {"until": EPOCH + timedelta(days=30_000)},
        {"rollouts": ["2026-03-01"]},
        {"settings": {"weeks": 2}},
    ]
    for options in wrong:
        with pytest.raises(MetricError, match="give a"):
            changes(worse, "hit_rate", **options)
    days: list[Any] = ["2026-03-01"]
    with pytest.raises(ConfigError, match="accepted"):
        ChangeSettings(accepted=days)
    with pytest.raises(ConfigError):
        changes(
            worse,
            "hit_rate",
            settings=ChangeSettings(accepted=[EPOCH + timedelta(days=30_000)]),
        )


def test_a_look_without_any_list_is_too_short() -> None:
    nothing = GroupSums(np.zeros(0, np.int64), np.zeros((0, 256)), np.zeros((0, 256), np.int64))
    none = np.zeros(0, np.int64)
    series = series_of(fallen())._replace(
        arm=WatchedSlice(nothing), traffic=Traffic(none, none, none)
    )
    seen = look(series, 69, SETTINGS)
    assert isinstance(seen, Look)
    (change,) = judge_changes([seen], SETTINGS, 0.02, detailed=True)
    assert (change.verdict, change.lists_ratio, change.days) == ("history too short", None, ())
