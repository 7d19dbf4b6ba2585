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
from streameval.evaluation.arguments import InputError, Options
from streameval.evaluation.event_rows import EventRows, Needs
from streameval.evaluation.files import EmptyFileError, parts_of
from streameval.events.errors import SourceError
from streameval.statistics.matching import Search
from tests.cli.program import json_lines, metric_options, run, usage_error, write_file

SHOWN = [[1, 2, 3], [2], [], [3, 1]]


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


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
            "recommendations": [f"i{(at + index) % 7}" for index in range(3)],
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
    outputs = {
        run("evaluate", path, "--config", config, "--format", "json", "--processes", number).stdout
        for path in (lines, tmp_path / "events.parquet", table)
        for number in ("1", "2")
    }
    (output,) = outputs
    document = json.loads(output)
    assert {tuple(row["labels"]) for row in document} == {("variant",), ("variant", "country")}
    assert {row["window"] for row in document} == {"5m", "1h", "lifetime"}


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


def test_half_a_file_of_parquet_is_named(tmp_path: Path) -> None:
    path = parquet(tmp_path / "bad.parquet", recommendations=SHOWN, interactions=SHOWN)
    path.write_bytes(path.read_bytes()[:-9])
    assert "bad.parquet: " in usage_error("evaluate", path, "-m", "mrr")


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
