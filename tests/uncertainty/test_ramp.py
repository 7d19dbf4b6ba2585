"""A ramp: users are compared with those whom the same shares assigned."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from streameval import ComparisonReport, PrePeriod, compare
from streameval.accumulator.kinds import experiment as kept
from streameval.analyses.experiments.comparison import contrast_of
from streameval.analyses.experiments.course import lift_error
from streameval.analyses.experiments.ramp import Cohorts
from streameval.config.pipeline import new_ingest
from streameval.engine.capture import lifetimes_of
from streameval.inference.contrasts import Contrast
from streameval.inference.interval_formulas import half_width, standard_error
from streameval.statistics.intervals import UNIT, GroupSums
from streameval.statistics.limits import EXPERIMENT_USERS
from streameval.statistics.user_sums import UserTotals
from tests.batches import batch_of
from tests.cli.program import json_lines
from tests.present import present
from tests.uncertainty.test_adjustment import (
    BEGIN,
    DAY,
    LOG,
    backfilled,
    configuration,
    counted,
    report_of,
    users_bytes,
    visits,
)

FIRST, CHANGE, GROUPS = 20_513, 20_517, 16


def exactly(*values: float) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12)


def golden(changes: list[int]) -> tuple[GroupSums, GroupSums]:
    """Users that anybody can write down: their first days, arms and clicks."""
    user = np.arange(1_920)
    came = FIRST + (7 * user + user // 10) % 10
    treated = np.where(came < CHANGE, user // 20 % 5 == 0, user // 20 % 2 == 0)
    shown = 5 * (1 + 3 * user % 4)
    clicks = (5 * user + 2 * treated + user // 16) % 4 * (1 + (came > CHANGE))
    arms = []
    for arm in (~treated, treated):
        totals = UserTotals(user[arm], np.rint(clicks[arm] / UNIT).astype(int), shown[arm], 1.0)
        hashes = user[arm].astype(np.uint64)
        cohorts = Cohorts((BEGINS, None), hashes, came[arm], 2**64, 1_920, {"ctr": totals})
        arms.append(cohorts.by_row("ctr", changes, GROUPS))
    return arms[0], arms[1]


def compared(arms: tuple[GroupSums, GroupSums]) -> Contrast:
    return present(contrast_of(*arms))


def test_the_golden_values_of_a_ramp() -> None:
    control, treatment = arms = golden([CHANGE])
    assert [row.tolist() for row in (control.days, treatment.days)] == [[0, 1, 2]] * 2
    assert [(int(of.numerators[2].sum()), int(of.denominators[2].sum())) for of in arms] == [
        (1_494, 6_090),
        (1_490, 6_090),
    ]
    contrast = compared(arms)
    error = standard_error(contrast.treatment.influences - contrast.control.influences)
    assert (contrast.control.value, contrast.treatment.value, contrast.groups, error) == exactly(
        0.194453648514, 0.189633338088, 11.2720328055, 0.00810135586981
    )
    log_lift = math.log(contrast.treatment.value / contrast.control.value)
    assert (log_lift, lift_error(contrast)) == exactly(-0.0251014155111, 0.0424018099968)
    # Before the guard, which needs 12 groups.
    half = half_width(lift_error(contrast), contrast.groups, 0.05, "fixed", 0.02)
    bounds = math.expm1(log_lift - half), math.expm1(log_lift + half)
    assert bounds == exactly(-0.111440008253, 0.0703120937959)


def test_rows_of_other_users_give_other_lifts() -> None:
    def lift(changes: list[int]) -> float:
        contrast = compared(golden(changes))
        return contrast.treatment.value / contrast.control.value - 1

    assert (lift([CHANGE]), lift([])) == exactly(-0.0247889945095, 0.143030954778)


BEGINS: Any = date(2026, 3, 1)
RAMP: Any = [
    {"since": BEGINS, "control": 4, "b": 1},
    {"since": BEGINS + timedelta(days=3), "control": 1, "b": 1},
]


def ramped(users: int = 1_200) -> Iterator[dict[str, Any]]:
    """Visits of a ramp: users come first on some day, and newcomers click less.

    Control's label is older than the experiment, and one user comes by two names of one variant.
    """
    draw = random.Random(6)
    arms: dict[int, str] = {}
    tastes = [draw.betavariate(2.0, 6.0) for _ in range(users)]
    for visit in visits(users=users, days=7, before=10, seed=3):
        user, day = int(visit["user"][1:]), (visit["ts"] - BEGIN) // DAY
        if day < user % 3 * 2 and user % 3:
            continue
        if day >= 0 and user not in arms:
            arms[user] = "b" if draw.random() < (0.2 if day < 3 else 0.5) else "control"
        chance = tastes[user] * (0.6 if user % 3 else 1.0)
        yield {
            **visit,
            "interactions": [item for item in "abc" if draw.random() < chance],
            "variant": arms[user] if day >= 0 else "control",
        }


def by_hand(events: list[dict[str, Any]]) -> tuple[float, float]:
    """The means of control and b, from the lists of each user since the experiment began."""
    first: dict[tuple[str, str], int] = {}
    for event in sorted(events, key=lambda event: event["ts"]):
        if event["ts"] >= BEGIN:
            first.setdefault((event["variant"], event["user"]), (event["ts"] - BEGIN) // DAY)
    clicks, shown = np.zeros((2, 3)), np.zeros((2, 3))
    for event in events:
        if event["ts"] < BEGIN:
            continue
        came = first[event["variant"], event["user"]]
        index = ("control", "b").index(event["variant"]), 0 if came < 3 else 1 if came == 3 else 2
        clicks[index] += len(event["interactions"])
        shown[index] += len(event["recommendations"])
    weights = shown[0] * shown[1] / shown.sum(axis=0)
    one, other = clicks / shown @ (weights / weights.sum())
    return float(one), float(other)


def ctr_of(report: Any) -> Any:
    (row,) = (row for row in report.rows if row.metric == "ctr")
    return row


def test_values_of_a_ramp_follow_from_the_lists_of_each_user(tmp_path: Path) -> None:
    events = list(ramped())
    path = str(json_lines(tmp_path / "log.ndjson", random.Random(1).sample(events, len(events))))
    how: Any = {"columns": {"time": "ts"}, "time_unit": "s", "shares": RAMP, "pre_period": 0}
    row = compare(path, "ctr", **how)["ctr"]
    control, treatment = by_hand(events)
    assert (present(row.control), present(row.treatment)) == exactly(control, treatment)
    assert (row.days, row.daily, row.weekly) == ((), (), ())
    early = [event for event in events if event["ts"] < BEGIN + 5 * DAY]
    until = compare(path, "ctr", **how, until=date(2026, 3, 5))["ctr"]
    assert (present(until.control), present(until.treatment)) == exactly(*by_hand(early))
    by_country = compare(path, "ctr", **how, by="country")
    assert isinstance(by_country, ComparisonReport)
    countries = [of for of in by_country.values() if of.segment in ("de", "fr")]
    assert countries
    for of in countries:
        of_country = [event for event in events if event["country"] == of.segment]
        assert (present(of.control), present(of.treatment)) == exactly(*by_hand(of_country))
    live = ctr_of(report_of(counted(events, shares=RAMP, since=None, pre_period=0)))
    assert (live.control, live.treatment, live.lift_low) == (
        row.control,
        row.treatment,
        pytest.approx(live.lift_low),
    )


@pytest.mark.parametrize("most", [EXPERIMENT_USERS, 300])
def test_any_order_split_and_restore_of_a_ramp_gives_the_same_bytes_and_values(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "EXPERIMENT_USERS", most)
    how: Any = {"shares": RAMP, "primary": ["ctr"]}
    events = list(ramped())
    ingest = counted(events, **how)
    report = report_of(ingest)
    assert ctr_of(report).lift_low is not None
    assert ctr_of(report).known is not None or most == 300
    assert report.checks.trouble == ()
    for family in lifetimes_of(ingest, ["variant", "country"]):
        _, sums = present(kept.in_experiment(family.table))
        assert sums.relations["came"].size == sums.relations["sums"].size
    shuffled = counted(random.Random(3).sample(events, len(events)), **how)
    assert users_bytes(shuffled) == users_bytes(ingest)
    assert report_of(shuffled) == report
    assert report_of(counted(events, partitions=3, **how)) == report
    restored = new_ingest(configuration(**how))
    sections = {each.name: b"".join(each.content()()) for each in ingest.sections(LOG)}
    restored.restore(LOG, ingest.positions, sections)
    assert users_bytes(restored) == users_bytes(ingest)
    assert report_of(restored) == report


LACKS = "ctr is not compared: earlier users were not counted by the shares that assigned them"


def test_a_state_without_the_users_of_a_ramp_says_what_it_lacks() -> None:
    events = list(ramped())
    plain = counted((event for event in events if event["ts"] < BEGIN + 2 * DAY), primary=["ctr"])
    sections = {each.name: b"".join(each.content()()) for each in plain.sections(LOG)}
    begun = new_ingest(configuration(shares=RAMP, primary=["ctr"]))
    begun.restore(LOG, plain.positions, sections)
    later = [event for event in events if event["ts"] >= BEGIN + 2 * DAY]
    records = list(map(msgspec.json.encode, later))
    begun.apply(batch_of(LOG, records, 10**6))
    report = report_of(begun)
    assert LACKS in report.checks.notes
    assert "ctr" not in {row.metric for row in report.rows}


def test_the_users_of_a_ramp_may_be_counted_elsewhere_and_merged() -> None:
    events = list(ramped())
    how: Any = {"shares": RAMP, "primary": ["ctr"]}
    ingest = counted((event for event in events if event["ts"] >= BEGIN + 2 * DAY), **how)
    early = [event for event in events if event["ts"] < BEGIN + 2 * DAY]
    period = PrePeriod(since=BEGINS, metrics=("ctr",), cohorts=True)
    ingest.merge(LOG, backfilled((early[::2], early[1::2]), period))
    assert ctr_of(report_of(ingest)) == ctr_of(report_of(counted(events, **how)))
