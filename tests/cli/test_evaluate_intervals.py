"""`streameval evaluate` with intervals: the same for every form of the same events."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.program import json_lines, ran, readings, saved

CONFIG = """
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
    """`users`: whether all lists name their user; else a seventh does not."""
    draw = random.Random(5)
    events = []
    for number in range(900):
        user = {"user": f"u{draw.randrange(200)}"}
        named = users or number % 7
        events.append(
            {
                "ts": f"2026-01-0{1 + number % _DAYS}T08:00:00Z",
                "id": f"e{number}",
                "recommendations": [item(each) for each in draw.sample(range(50), 5)],
                "interactions": [item(each) for each in draw.sample(range(50), number % 4)],
            }
            | (user if named else {})
        )
    return events


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return saved(tmp_path / "config.toml", CONFIG)


@pytest.mark.parametrize("every", [(), ("--every", "1d")], ids=["all", "by day"])
@pytest.mark.parametrize("users", [True, False], ids=["users", "some event ids"])
def test_intervals_do_not_depend_on_the_form_of_the_records(
    tmp_path: Path, config: Path, every: tuple[str, ...], *, users: bool
) -> None:
    # Numbers as ids are read by the general decoder, text by the compiled one.
    texts = json_lines(tmp_path / "texts.ndjson", _events(str, users=users))
    numbers = json_lines(tmp_path / "numbers.ndjson", _events(int, users=users))
    found = readings(texts, "--config", config, *every)
    assert readings(numbers, "--config", config, *every) == found
    # Event ids of a table are not read.
    if users:
        table = tmp_path / "events.parquet"
        pq.write_table(pa.Table.from_pylist(_events(str, users=users)), table)
        assert readings(table, "--config", config, *every) == found
    hit_rates = [each for each in found if each["metric"] == "hit_rate@3"]
    assert len(hit_rates) == (_DAYS if every else 1)
    for each in hit_rates:
        assert each["interval"].keys() == _INTERVAL
        assert each["interval"]["kind"] == ("pointwise" if every else "anytime")
        assert each["interval"]["low"] < each["value"] < each["interval"]["high"]
    coverage = [each for each in found if each["metric"] == "item_coverage@3"]
    assert len(coverage) == len(hit_rates)
    for each in coverage:
        assert each["interval"] is None
        assert "not a mean" in each["no_interval"]


def test_csv_has_the_bounds_and_a_table_the_words(tmp_path: Path, config: Path) -> None:
    path = json_lines(tmp_path / "events.ndjson", _events(str, users=True))
    call = ("evaluate", path, "--config", config, "--every", "1d")
    rows = list(csv.DictReader(io.StringIO(ran(*call, "--format", "csv").stdout)))
    listed = json.loads(ran(*call, "--format", "json").stdout)
    for row, each in zip(rows, listed, strict=True):
        for end in ("low", "high"):
            assert row[f"interval_{end}"] == str((each["interval"] or {end: ""})[end])
    assert "95 % interval 0." in ran(*call).stdout
