"""Parquet and CSV with one event per row."""

from __future__ import annotations

import csv
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator
from streameval.decoding.fields import EventFields
from streameval.evaluation.counted import count
from streameval.evaluation.events import EventRows, Needs
from streameval.evaluation.files import EmptyFileError, parts_of
from streameval.evaluation.options import InputError, Options
from streameval.evaluation.setup import Request, setup_of
from streameval.evaluation.shell.terminal import SURROUNDINGS
from streameval.evaluation.sources import given_of
from streameval.events.errors import SourceError
from streameval.statistics.matching import Search
from tests.cli.program import json_lines, metric_options, readings, run, usage_error, write_file

METRICS = ("mrr", "recall@2", "ndcg@3", "distinct_items@2", "ctr")
SHOWN = [[1, 2, 3], [2], [], [3, 1]]
ACTS = [[3, 9], [], [1], [1, 3, 3]]
VARIANTS = ["b", "a", "a", "b"]


def readings_of(*arguments: str | Path, metrics: tuple[str, ...] = METRICS) -> list[dict[str, Any]]:
    return readings(*arguments, *metric_options(metrics))


def values(read: list[dict[str, Any]], **labels: str) -> dict[str, tuple[float, int]]:
    chosen = (reading for reading in read if reading["labels"] == labels)
    return {reading["metric"]: (reading["value"], reading["count"]) for reading in chosen}


def expected(rows: list[int]) -> dict[str, tuple[float, int]]:
    accumulator = Accumulator(*METRICS)
    for row in rows:
        accumulator.update(SHOWN[row], ACTS[row])
    read = accumulator.compute().values()
    return {reading.metric: (reading.value, reading.count) for reading in read}


def error_of(*arguments: str | Path) -> str:
    return usage_error("evaluate", *arguments, "-m", "mrr")


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return parquet(
        tmp_path / "events.parquet", recommendations=SHOWN, interactions=ACTS, variant=VARIANTS
    )


def test_lists_of_parquet_are_events_which_a_column_splits(events: Path) -> None:
    assert values(readings_of(events)) == expected([0, 1, 2, 3])
    read = readings_of(events, "--by", "variant")
    assert values(read, variant="a") == expected([1, 2])
    assert values(read, variant="b") == expected([0, 3])
    assert [reading["labels"]["variant"] for reading in read] == ["a", "b"] * len(METRICS)


CONFIG = """
metrics = ["mrr", "ndcg@2", "users_covered"]
labels = ["variant"]
segments = ["country"]
dedup = "1h"
windows = { spans = ["5m", "1h"] }
intervals = { groups = 16 }
metric = [{ name = "recall@2", segments = ["country"], windows = ["1h"] }]
event = { time = "ts", time_unit = "s", event_id = "id" }
"""


def repeated_events() -> list[dict[str, Any]]:
    """Two hours of events, of which one in five is there twice and one in nine comes late."""
    rows = [
        {
            "recommendations": [f"i{(at + place) % 7}" for place in range(3)],
            "interactions": [f"i{at * at % 7}"],
            "user": f"u{at % 31}",
            "variant": "ab"[at % 2],
            "country": ["de", "fr", None][at % 3],
            "id": f"e{at}",
            "ts": 1_700_000_000 + 20 * at - (7_200 if at % 9 == 8 else 0),
        }
        for at in range(400)
    ]
    return [row for at, row in enumerate(rows) for _ in range(2 if at % 5 == 0 else 1)]


def test_windows_segments_dedup_and_own_tables_apply_to_tables_as_to_json_lines(
    tmp_path: Path,
) -> None:
    rows = repeated_events()
    config = write_file(tmp_path / "streameval.toml", CONFIG)
    lines = json_lines(tmp_path / "events.ndjson", rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "events.parquet", row_group_size=64)
    header = ",".join(rows[0])
    cells = [
        ",".join("|".join(x) if isinstance(x, list) else str(x or "") for x in row.values())
        for row in rows
    ]
    table = write_file(tmp_path / "events.csv", "\n".join([header, *cells]))
    expected = state(str(lines), str(config))
    assert {("variant",), ("variant", "country")} <= {*expected}
    assert expected == state(str(tmp_path / "events.parquet"), str(config))
    assert len(expected) > 10
    csv_state = state(str(table), str(config))
    # An empty cell is text without a value, where JSON has none.
    assert set(csv_state) == {*expected}
    call = ("--config", config, "--format", "json", "--processes")
    outputs = [
        run("evaluate", path, *call, processes).stdout
        for path in (lines, tmp_path / "events.parquet")
        for processes in ("1", "2")
    ]
    assert len({*outputs}) == 1
    assert {row["window"] for row in json.loads(outputs[0])} == {"5m", "1h", "lifetime"}


def state(path: str, config: str) -> dict[Any, bytes]:
    """The counts of each family over all time, and the readings of each window."""
    options = Options(config=config)
    request = Request(given_of([path], None, None, options), options)
    counted = count(setup_of(request), SURROUNDINGS)
    ((_, snapshot),) = counted.spans
    windows = {
        (entry.metric.text, entry.labels, entry.window): repr(entry.reading).encode()
        for entry in snapshot.series
    }
    return windows | {
        family.names: b"".join(family.table.dump([*family.labels])) for family in counted.families
    }


def read_all(path: Path) -> None:
    rows = EventRows(EventFields(), [], Needs(), Options())
    parts = parts_of(str(path), Options())
    rows.find_kind(parts)
    for part in parts:
        list(rows.read(part, Search()))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "pq"])
@given(content=st.binary(max_size=300))
def test_any_bytes_are_a_table_or_explained(suffix: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"events.{suffix}"
        path.write_bytes(content)
        with suppress(SourceError, EmptyFileError, InputError):
            read_all(path)


@given(data=st.data())
def test_damaged_parquet_is_a_table_or_explained(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = parquet(Path(folder) / "a.parquet", recommendations=SHOWN, interactions=[["a"]] * 4)
        damaged = bytearray(path.read_bytes())
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(damaged[: data.draw(st.integers(1, len(damaged)) | st.none())])
        with suppress(SourceError, EmptyFileError, InputError):
            read_all(path)


def test_half_a_file_of_parquet_is_named(events: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(events.read_bytes()[:-9])
    assert "bad.parquet: " in error_of(tmp_path / "bad.parquet")


CHANCES: Final = """
[event]
per_item = { propensity = "propensity", target = "target", team = "team" }
"""


@pytest.mark.parametrize("form", ["text", "json", "parquet"])
def test_a_word_instead_of_a_chance_leaves_out_its_row_alone(tmp_path: Path, form: str) -> None:
    chances: list[list[Any]] = [[0.5, 0.25], [0.5, "low"], [0.125, None], [1, 0.75]]
    texts = ["|".join("" if entry is None else str(entry) for entry in row) for row in chances]
    columns = {
        "recommendations": ["a|b"] * 4,
        "interactions": ["a", "b", "a", ""],
        "propensity": [*map(json.dumps, chances)] if form == "json" else texts,
        "target": ["0.5|0.5"] * 4,
        "team": ["old|new", "old|new", "7|new", "new|old"],
    }
    path = tmp_path / ("log.parquet" if form == "parquet" else "log.csv")
    if form == "parquet":
        parquet(path, **columns)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    (config := tmp_path / "streameval.toml").write_text(CHANCES)
    metrics = ("ips", "importance_weight", "ctr", "interleaving(a=old,b=new)")
    call = ["evaluate", str(path), "--config", str(config), *metric_options(metrics)]
    done = run(*call, "--format", "json")
    read = [(row["value"], row["count"]) for row in json.loads(done.stdout)]
    log = Accumulator(*metrics)
    for row in (0, 2, 3):
        teams = columns["team"][row].split("|")
        values = {"propensity": chances[row], "target": [0.5, 0.5], "team": teams}
        log.update(["a", "b"], [*columns["interactions"][row]], per_item=values)
    alone = log.compute().values()
    assert read == [(reading.value, reading.count) for reading in alone]
    assert "1 of 4 records are invalid" in done.stderr
    assert f"1 invalid_per_item, first in {path}, row 2: propensity[1]: 'low'" in done.stderr
