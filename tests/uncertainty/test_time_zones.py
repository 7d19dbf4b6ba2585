"""Days of a time zone: as `zoneinfo` has them, alike on every surface, and never mixed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from streameval import Accumulator, Intervals, changes, compare, evaluate
from streameval.accumulator.kinds.experiment import PrePeriod
from streameval.analyses.changes.reader import closed_day
from streameval.config.config import Config
from streameval.config.pipeline import frontend_of, layout
from streameval.config.tables import WindowsOptions
from streameval.decoding.fields import EventFields
from streameval.engine.ingest import Frontend
from streameval.engine.windows.times import parse_spans
from streameval.events.errors import (
    ConfigError,
    MetricError,
    RefusedStateError,
    StreamevalError,
    UnlikeStateError,
)
from streameval.inference import days as time_zones
from streameval.inference.days import Calendar, number_of_day
from streameval.partials import Cell, Partial, merged, partials
from streameval.sources.settings import SimulatorOptions
from tests.batches import batch_of
from tests.cli.program import run
from tests.durability.checkpointing import LoneMember, P, with_policy

HOUR: Final = 3_600_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CHANGES: Final = [
    ("Europe/Berlin", date(2026, 3, 29), 23.0),
    ("Europe/Berlin", date(2026, 10, 25), 25.0),
    ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
    ("Australia/Lord_Howe", date(2026, 10, 4), 23.5),
    ("Asia/Kathmandu", date(2026, 10, 25), 24.0),
    ("Asia/Tokyo", date(2026, 3, 29), 24.0),
    ("Pacific/Apia", date(2011, 12, 30), 0.0),  # skipped
    ("America/Sao_Paulo", date(2018, 11, 4), 23.0),  # begins at 01:00
    ("Asia/Beirut", date(2023, 3, 26), 23.0),
    ("America/St_Johns", date(2006, 10, 29), 25.0),  # 00:01 is 23:01 of the day before again
    ("UTC", date(2026, 3, 29), 24.0),
]
"""Zone, a day, and its hours."""


Row = tuple[str, int, bool, str]
"""User, time, click and variant."""


def date_at(time: int, zone: ZoneInfo) -> date:
    """The plain twin of the rule: what the clocks of the zone show."""
    return (EPOCH + timedelta(microseconds=time)).astimezone(zone).date()


@pytest.mark.parametrize(("name", "day", "hours"), CHANGES)
def test_days_are_the_dates_of_zoneinfo(name: str, day: date, hours: float) -> None:
    calendar, zone, number = Calendar(name), ZoneInfo(name), number_of_day(day)
    begin, end = calendar.begin(number), calendar.end(number)
    assert (end - begin) / HOUR == hours
    midnight = number * 24 * HOUR
    # Each minute of two days, and the microseconds around each.
    minutes = midnight + 60_000_000 * np.arange(-48 * 60, 48 * 60)
    times = np.concatenate([minutes - 1, minutes, minutes + 1])
    dates = [date_at(time, zone) for time in times.tolist()]
    # Not a comparison of lists: the difference of so long ones takes minutes to print.
    expected = np.array([number_of_day(entry) for entry in dates])
    assert times[calendar.days(times) != expected][:3].tolist() == []
    firsts = [time for time, entry in zip(times.tolist(), dates, strict=True) if entry >= day]
    assert min(firsts) == begin
    # The earliest date that is still to come; of the last minutes it is not known.
    of_minutes = expected[minutes.size : 2 * minutes.size]
    to_come = np.minimum.accumulate(of_minutes[::-1])[::-1][20 * 60 : -26 * 60 : 3]
    ended = [calendar.ended(time) for time in minutes[20 * 60 : -26 * 60 : 3].tolist()]
    assert ended == (to_come - 1).tolist()
    assert [calendar.day(time) for time in (begin, begin - 1)] == [
        number_of_day(date_at(time, zone)) for time in (begin, begin - 1)
    ]


def test_days_of_all_years_are_those_of_zoneinfo() -> None:
    draw = np.random.default_rng(5)
    times = draw.integers(-62 * 10**15, 253 * 10**15, 20)
    times = np.concatenate([times, draw.integers(0, 2 * 10**15, 40)])
    for name in ("Europe/Berlin", "Australia/Lord_Howe"):
        dates = [number_of_day(date_at(time, ZoneInfo(name))) for time in times.tolist()]
        assert Calendar(name).days(times).tolist() == dates


def test_spans_of_days_are_days_and_spans_of_hours_are_hours() -> None:
    begin = Calendar("Europe/Berlin").begin(number_of_day(date(2026, 3, 28)))
    hours = begin + HOUR * np.arange(72)
    days, absolute = parse_spans("1d", "Europe/Berlin"), parse_spans("24h", "Europe/Berlin")
    starts, counts = np.unique(days.starts(hours), return_counts=True)
    assert counts.tolist() == [24, 23, 24, 1]
    assert [days.end(at) for at in starts[:-1].tolist()] == starts[1:].tolist()
    dates = [days.text(at)[:10] for at in starts.tolist()]
    assert dates == ["2026-03-28", "2026-03-29", "2026-03-30", "2026-03-31"]
    assert (absolute.starts(hours) == hours // (24 * HOUR) * 24 * HOUR).all()
    assert parse_spans("1d", "UTC") == parse_spans("24h") == parse_spans("1d")
    weeks = parse_spans("7d", "Europe/Berlin")
    start = int(weeks.starts(hours)[0])
    assert weeks.end(start) - start == 7 * 24 * HOUR - HOUR


def events(zone: str, first: date, days: int) -> Iterator[Row]:
    """Each hour of some days of a zone: lists of 25 users of 100."""
    calendar, number, draw = Calendar(zone), number_of_day(first), np.random.default_rng(3)
    for time in range(calendar.begin(number), calendar.begin(number + days), HOUR):
        for user in draw.choice(100, 25, replace=False).tolist():
            yield f"u{user}", time, bool(draw.random() < 0.3), "ab"[user % 2]


def lines(rows: Sequence[Row]) -> list[dict[str, object]]:
    return [
        {
            "user": user,
            "recommendations": ["x", "y"],
            "interactions": ["x"] if click else [],
            "variant": variant,
            "ts": time // 1_000_000,
        }
        for user, time, click, variant in rows
    ]


def counted(rows: Sequence[Row], zone: str | None) -> Accumulator:
    result = Accumulator("ctr", intervals=Intervals(), ids="text", time_zone=zone)
    for user, time, click, _ in rows:
        result.update(["x", "y"], ["x"] if click else [], user=user, ts=time)
    return result


def of_partials(rows: Sequence[Row], zone: str | None) -> Accumulator:
    table = pa.table(
        {
            "recommendations": [["x", "y"]] * len(rows),
            "interactions": [["x"] if click else [] for _, _, click, _ in rows],
            "users": [user for user, *_ in rows],
            "times": [time for _, time, *_ in rows],
        }
    )
    parts = [
        row
        for part in (table[: len(rows) // 3], table[len(rows) // 3 :])
        for row in partials([part], "ctr", intervals=Intervals(), ids="text", time_zone=zone)
    ]
    return merged(parts)[Cell((), None)]


def of_file(rows: Sequence[Row], zone: str | None, folder: Path) -> Accumulator:
    path = folder / "events.ndjson"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines(rows)))
    how: dict[str, Any] = {"columns": {"time": "ts"}, "time_unit": "s", "time_zone": zone}
    return evaluate(str(path), "ctr", **how).accumulator()


def test_every_surface_counts_the_same_days(tmp_path: Path) -> None:
    rows = [*events("Europe/Berlin", date(2026, 3, 28), 3)]
    one = counted(rows, "Europe/Berlin")
    state = b"".join(one.dump())
    assert b"".join(of_partials(rows, "Europe/Berlin").dump()) == state
    assert b"".join(of_file(rows, "Europe/Berlin", tmp_path).dump()) == state
    assert one.audience is not None
    assert one.audience.list_counts.tolist() == [24 * 25, 23 * 25, 24 * 25]
    member = LoneMember(frontend=frontend("Europe/Berlin"))
    member.assign()
    member.checkpointer.apply(batch_of(P, [*map(msgspec.json.encode, lines(rows))], 0))
    listed = zip(one.audience.days.tolist(), one.audience.list_counts.tolist(), strict=True)
    assert listed_by_day(member) == dict(listed)
    # UTC by its name, and by default, has the bytes of a state without a time zone.
    plain = b"".join(counted(rows, None).dump())
    assert b"".join(counted(rows, "UTC").dump()) == plain != state


def frontend(zone: str | None) -> Frontend:
    config = Config(
        metrics=["ctr"],
        source=SimulatorOptions(),
        windows=WindowsOptions(spans=["5m"]),
        event=EventFields(time="ts", time_unit="s"),
        intervals=Intervals(),
        time_zone=zone,
    )
    return frontend_of(config, layout(config))


def listed_by_day(member: LoneMember) -> dict[int, int]:
    (state,) = member.ingest.partitions.values()
    users = state.families["labels"].copied().users
    assert users is not None
    return {day: int(table.lists(table.cells).sum()) for day, table in users.days.items()}


def test_a_daemon_with_another_zone_refuses_the_state_or_starts_its_days_over() -> None:
    rows = [*events("Asia/Tokyo", date(2026, 3, 1), 1)]
    records = batch_of(P, [*map(msgspec.json.encode, lines(rows))], 0)
    before = LoneMember(frontend=frontend(None))
    before.assign()
    before.checkpointer.apply(records)
    before.checkpointer.finish()
    assert [*listed_by_day(before)] == [20_512, 20_513]
    refused = LoneMember(before.store, frontend=frontend("Asia/Tokyo"))
    with pytest.raises(RefusedStateError, match=r".*has 'Asia/Tokyo'; .*has 'UTC'") as error:
        refused.assign(end=1_000)
    assert error.value.policy == "on_other_inputs"
    restart = with_policy("on_other_inputs", "restart")
    member = LoneMember(before.store, frontend=frontend("Asia/Tokyo"), policies=restart)
    assert member.assign(end=1_000) == len(rows)
    assert listed_by_day(member) == {}
    (state,) = member.ingest.partitions.values()
    panes = state.families["labels"].copied().panes.values()
    assert sum(table.lists(table.cells).sum() for table in panes) == len(rows)
    again = LoneMember(before.store, frontend=frontend("UTC"))
    assert again.assign(end=1_000) == len(rows)
    assert listed_by_day(again) == listed_by_day(before)


def test_an_experiment_of_tokyo_has_no_hour_before_its_first_day(
    tmp_path: Path,
) -> None:
    since, calendar = date(2026, 3, 15), Calendar("Asia/Tokyo")
    midnight = calendar.begin(number_of_day(since))
    rows = [
        (user, time, click if time < midnight or variant == "a" else True, variant)
        for user, time, click, variant in events("Asia/Tokyo", date(2026, 3, 8), 14)
    ]
    path = tmp_path / "events.ndjson"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines(rows)))
    how: dict[str, Any] = {
        "columns": {"time": "ts"},
        "time_unit": "s",
        "baseline": "a",
        "since": since,
    }
    report = compare(str(path), "ctr", "mrr", **how, time_zone="Asia/Tokyo")
    later = [row for row in rows if row[1] >= midnight]
    treated = counted([row for row in later if row[3] == "b"], "Asia/Tokyo")
    assert report["ctr"].treatment == treated.read("ctr").value == 0.5
    assert "15 to 21 March 2026 in Asia/Tokyo, 7 days that both have" in report.notes[0]
    # What users did before is all of the week before, and no hour of the treatment, as in UTC.
    assert of_pre_period("Asia/Tokyo", rows, since) == len(rows) - len(later)
    assert of_pre_period(None, rows, since) == len(rows) - len(later) + 9 * 25


def of_pre_period(zone: str | None, rows: Sequence[Row], since: date) -> int:
    period = PrePeriod(since=since, days=20)
    kept = Accumulator("ctr", intervals=Intervals(), experiment=period, time_zone=zone)
    for user, time, click, _ in rows:
        kept.update(["x", "y"], ["x"] if click else [], user=user, ts=time)
    lists, _ = kept.table.at_slot("preperiod").lists(np.array([0]))
    return int(lists.sum())


def test_the_last_closed_day_is_one_of_the_zone() -> None:
    calendar = Calendar("Europe/Berlin")
    day = number_of_day(date(2026, 10, 25))
    end = calendar.end(day)
    assert [closed_day([at], 0, calendar) for at in (end - 1, end)] == [day - 1, day]


def _merge(one: Accumulator, other: Accumulator) -> None:
    one.merge(other)


MIXED: Final[dict[str, Callable[[Accumulator, Accumulator], object]]] = {
    "merge": _merge,
    "load": lambda one, other: one.load_state_dict(other.state_dict()),
    "adopt": lambda one, other: one.adopt(b"".join(other.dump())),
    "compare": lambda one, other: compare(one, other, "ctr"),
    "changes": lambda one, other: changes(one, "ctr", against=other),
}


@pytest.mark.parametrize("door", MIXED)
def test_days_of_two_zones_never_meet(door: str) -> None:
    rows = [*events("Asia/Tokyo", date(2026, 3, 1), 2)]
    tokyo, plain = counted(rows, "Asia/Tokyo"), counted(rows, None)
    for one, other, zones in (
        (tokyo, plain, r"has 'Asia/Tokyo'; .*has 'UTC'"),
        (plain, tokyo, r"has 'UTC'; .*has 'Asia/Tokyo'"),
    ):
        with pytest.raises(UnlikeStateError, match=f"time zone.*: .*{zones}"):
            MIXED[door](one.copy(), other.copy())


def test_rows_of_two_zones_never_meet() -> None:
    table = pa.table({"recommendations": [["x"]], "interactions": [["x"]], "times": [0]})

    def of(zone: str | None, every: str) -> list[Partial]:
        return [*partials([table], "mrr", every=every, time_zone=zone)]

    with pytest.raises(UnlikeStateError, match=r"days: .*has 'UTC'; .*has 'Asia/Tokyo'"):
        merged([*of(None, "1d"), *of("Asia/Tokyo", "1d")])
    with pytest.raises(
        UnlikeStateError, match=r"partials: .*has every = 1d.*; .*has every = 86400000000"
    ):
        merged([*of("Asia/Tokyo", "1d"), *of("Asia/Tokyo", "24h")])
    assert [cell.start for cell in merged(of("Asia/Tokyo", "1d"))] == [-9 * HOUR]


def test_an_unknown_zone_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"recommendations": [["x"]], "interactions": [["x"]]})
    doors: list[tuple[type[StreamevalError], Callable[[Any], object]]] = [
        (MetricError, lambda zone: Accumulator("mrr", time_zone=zone)),
        (MetricError, lambda zone: partials([table], "mrr", time_zone=zone)),
        (StreamevalError, lambda zone: evaluate([["x"]], [["x"]], "mrr", time_zone=zone)),
        (
            ConfigError,
            lambda zone: Config(source=SimulatorOptions(), time_zone=zone),
        ),
    ]
    for kind, door in doors:
        with pytest.raises(kind, match="Did you mean 'Europe/Berlin'"):
            door("europe/berln")
        with pytest.raises(kind, match=r"\+02:00', which is not an IANA time zone"):
            door("+02:00")
        with pytest.raises(kind, match=r"found \[.Europe/Berlin"):
            door(["Europe/Berlin"])
    answer = run("evaluate", "x.ndjson", "-m", "ctr", "--time-zone", "Berlin")
    assert answer.returncode == 2
    assert "--time-zone: found 'Berlin'" in answer.stderr
    monkeypatch.setattr(time_zones, "_names", frozenset)
    with pytest.raises(MetricError, match="this machine has no time zones: install"):
        Accumulator("mrr", time_zone="Europe/Berlin")
