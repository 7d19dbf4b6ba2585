"""`streameval evaluate --every`: values by span of event time; and intervals, by span or not."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator
from tests.cli.program import (
    from_csv,
    from_json,
    json_lines,
    metric_options,
    readings,
    run,
    usage_error,
    write_file,
)


def written(folder: Path, events: Sequence[dict[str, Any]]) -> Path:
    return json_lines(folder / "events.ndjson", events)


_ROWS = st.lists(
    st.tuples(
        st.integers(-7_300, 20_000),
        st.sampled_from("abc"),
        st.lists(st.sampled_from("uvwxyz"), unique=True),
    ),
    min_size=1,
    max_size=30,
)
_NAMES = ("ndcg@3", "recall(statistic=median)@3", "distinct_items@2")
_SECONDS = ("--time", "ts", "--time-unit", "s")


@given(_ROWS, st.sampled_from([1, 60, 3_600]), st.integers(1, 9))
def test_a_span_has_the_values_of_its_events(
    rows: list[tuple[int, str, list[str]]], seconds: int, size: int
) -> None:
    expected: dict[tuple[datetime, str], Accumulator] = {}
    for ts, variant, clicks in rows:
        start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ts // seconds * seconds)
        expected.setdefault((start, variant), Accumulator(*_NAMES)).update(list("uvwx"), clicks)
    events = [
        {"recommendations": list("uvwx"), "interactions": clicks, "variant": variant, "ts": ts}
        for ts, variant, clicks in rows
    ]
    with TemporaryDirectory() as folder:
        files = [
            json_lines(Path(folder) / f"{begin}.ndjson", events[begin : begin + size])
            for begin in range(0, len(events), size)
        ]
        spans = ("--by", "variant", "--every", f"{seconds}s", *_SECONDS)
        read = readings(*files, *metric_options(_NAMES), *spans)
    assert len(read) == len(_NAMES) * len(expected)
    for entry in read:
        span = datetime.fromisoformat(entry["start"]), entry["labels"]["variant"]
        reading = expected[span].read(entry["metric"])
        assert entry["value"] == (reading.value if reading.defined else None)
        assert entry["count"] == reading.count


def test_labels_of_the_command_line_have_no_cap(tmp_path: Path) -> None:
    event = {"recommendations": ["a"], "interactions": ["a"]}
    path = written(tmp_path, [event | {"arm": number} for number in range(80)])
    assert len(readings(path, "-m", "ctr", "--by", "arm")) == 80


def _csv(folder: Path, times: Sequence[object]) -> Path:
    path = folder / "events.csv"
    rows = (f"{at},a b,{click}\n" for at, click in zip(times, ("b", "a", "", "z"), strict=True))
    path.write_text("".join(["at,recommendations,interactions\n", *rows]))
    return path


def _parquet(path: Path, times: Any) -> Path:
    lists = {"recommendations": [["a", "b"]] * 4, "interactions": [["b"], ["a"], [], ["z"]]}
    pq.write_table(pa.table({"at": times, **lists}), path)
    return path


def test_every_format_has_spans(tmp_path: Path) -> None:
    seconds = [3_599, 10_800, 0, 3_600]
    moments = [datetime.fromtimestamp(instant, UTC) for instant in seconds]
    lines = [
        {"at": at, "recommendations": ["a", "b"], "interactions": clicks}
        for at, clicks in zip(seconds, (["b"], ["a"], [], ["z"]), strict=True)
    ]
    hourly = ("-m", "mrr", "--every", "1h", "--time", "at")
    expected = readings(written(tmp_path, lines), *hourly, "--time-unit", "s")
    assert [reading["value"] for reading in expected] == [0.25, 0.0, 1.0]
    text = _csv(tmp_path, [moment.isoformat() for moment in moments])
    assert readings(text, *hourly) == expected
    for unit, factor in (("s", 1), ("ms", 1_000), ("us", 1_000_000)):
        numbers = _csv(tmp_path, [instant * factor for instant in seconds])
        assert readings(numbers, *hourly, "--time-unit", unit) == expected
    for kind in (pa.timestamp("ns", "UTC"), pa.timestamp("s"), pa.timestamp("us", "+02:00")):
        table = _parquet(tmp_path / "events.parquet", pa.array(moments, kind))
        assert readings(table, *hourly) == expected
    full_log = _parquet(tmp_path / "whole.pq", pa.array(seconds, pa.int32()))
    assert readings(full_log, *hourly, "--time-unit", "s") == expected


def test_a_row_of_parquet_without_time_is_explained(tmp_path: Path) -> None:
    epoch, hour = datetime.fromtimestamp(0, UTC), time(8)
    for times, sentence in (
        (pa.array([epoch, None, None, None]), "row 2, column 'at': no time"),
        (pa.array([hour] * 4), "row 1, column 'at': at: \"08:00:00\" is not a time"),
        (pa.array([0, 1, 1 << 62, 0], pa.timestamp("us")), "row 3, column 'at': not in the years"),
    ):
        table = _parquet(tmp_path / "events.parquet", times)
        message = usage_error("evaluate", table, "-m", "ctr", "--every", "1h", "--time", "at")
        assert sentence in message


WITH_INTERVALS = """
metrics = ["hit_rate@3", "item_coverage@3"]
catalog = 50
intervals = { groups = 256 }
[source]
type = "simulator"
[event]
time = "ts"
time_unit = "iso8601"
event_id = "id"
"""
_DAYS = 3
_INTERVAL = {"low", "high", "confidence", "kind", "groups"}


def _events(item: Callable[[int], str | int], *, users: bool) -> list[dict[str, Any]]:
    """`users`: whether all lists name their user; else one of 97 does not."""
    draw = random.Random(5)
    events = []
    for number in range(900):
        user = {"user": f"u{draw.randrange(200)}"}
        named = users or number % 97
        events.append(
            {
                "ts": f"2026-01-0{1 + number % _DAYS}T08:00:00Z",
                "id": f"e{number}",
                "recommendations": [item(code) for code in draw.sample(range(50), 5)],
                "interactions": [item(code) for code in draw.sample(range(50), number % 4)],
            }
            | (user if named else {})
        )
    return events


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_file(tmp_path / "config.toml", WITH_INTERVALS)


@pytest.mark.parametrize("every", [(), ("--every", "1d")], ids=["all", "by day"])
@pytest.mark.parametrize("users", [True, False], ids=["users", "some event ids"])
def test_intervals_do_not_depend_on_the_form_of_the_records(
    tmp_path: Path, config: Path, every: tuple[str, ...], *, users: bool
) -> None:
    # Numbers as ids are read by the general decoder, text by the compiled one.
    texts = json_lines(tmp_path / "texts.ndjson", _events(str, users=users))
    numbers = json_lines(tmp_path / "numbers.ndjson", _events(int, users=users))
    read = readings(texts, "--config", config, *every)
    assert readings(numbers, "--config", config, *every) == read
    # Event ids of a table are not read.
    if users:
        table = tmp_path / "events.parquet"
        pq.write_table(pa.Table.from_pylist(_events(str, users=users)), table)
        assert readings(table, "--config", config, *every) == read
    hit_rates = [entry for entry in read if entry["metric"] == "hit_rate@3"]
    assert len(hit_rates) == (_DAYS if every else 1)
    for reading in hit_rates:
        assert reading["interval"].keys() == _INTERVAL
        assert reading["interval"]["kind"] == ("pointwise" if every else "anytime")
        assert reading["interval"]["low"] < reading["value"] < reading["interval"]["high"]
    coverage = [entry for entry in read if entry["metric"] == "item_coverage@3"]
    assert len(coverage) == len(hit_rates)
    for reading in coverage:
        assert reading["interval"] is None
        assert "not a mean" in reading["no_interval"]


def test_csv_has_the_bounds_and_a_table_the_words(tmp_path: Path, config: Path) -> None:
    path = json_lines(tmp_path / "events.ndjson", _events(str, users=True))
    call = ("evaluate", path, "--config", config, "--every", "1d")
    for row, reading in zip(from_csv(*call), from_json(*call), strict=True):
        for end in ("low", "high"):
            assert row[f"interval_{end}"] == str((reading["interval"] or {end: ""})[end])
    assert "95 % interval 0." in run(*call).stdout
