"""Values over partial results in a folder or bucket: those of all lists counted in one process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import obstore
import pyarrow as pa
import pytest
from pyarrow import parquet

from streameval import Intervals
from streameval.config import load
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.snapshot import Snapshot
from streameval.evaluation.partials import arrow_table, merged, partials, stored
from streameval.evaluation.partials_reader import PartialsReader
from streameval.sources import remote
from tests.cli.program import run
from tests.daemon.running import running
from tests.stores import s3

METRICS: Final = ("ctr", "ndcg@3", "distinct_items@2")
CONFIG: Final = """
metrics = ["ctr", "ndcg@3", "distinct_items@2"]
labels = ["variant"]
intervals = {{}}
event = {{ time = "ts", time_unit = "s" }}
windows = {{ spans = ["5m", "1h"] }}
experiment = {{ label = "variant", control = "a" }}
web = {{ listen = "127.0.0.1:0" }}
source = {{ type = "partials", path = {path} }}
"""
_NOON: Final = 1_767_225_600 + 43_200


def lists(count: int) -> pa.Table:
    """Lists of two variants over twenty minutes; of those of b, more have a click."""
    numbers = range(count)
    return pa.table(
        {
            "recommendations": [[f"i{n % 7}", f"i{n % 5 + 7}", "x"] for n in numbers],
            "interactions": [["x"] if n % (5 - n % 2) == 0 else [] for n in numbers],
            "users": [f"u{n % 97}" for n in numbers],
            "variant": [("a", "b")[n % 97 % 2] for n in numbers],
            "times": pa.array([(_NOON + n * 1_200 // count) * 10**6 for n in numbers], pa.int64()),
        }
    )


def rows(table: pa.Table, every: str | None = "1m") -> pa.Table:
    counted = partials(
        [table], *METRICS, by=["variant"], every=every, intervals=Intervals(), experiment=True
    )
    return arrow_table(counted)


def write(folder: Path, name: str, table: pa.Table) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(rows(table), path)


def snapshot(reader: PartialsReader) -> Snapshot:
    reader.refresh()
    capture = SnapshotCapture(
        reader.ingest.layout, source="", labels=["variant"], started_at=0.0, max_ahead=None
    )
    return capture.take(reader.copied(), _NOON + 1_200.0, RuntimeStatus())


def values(of: Snapshot) -> dict[tuple[str, str, str], tuple[float, float]]:
    return {
        (series.metric.text, series.labels[0], series.window): (
            series.reading.value,
            series.reading.count,
        )
        for series in of.series
    }


def reader_of(path: Path | str, folder: Path) -> PartialsReader:
    file = folder / "serve.toml"
    file.write_text(CONFIG.format(path=json.dumps(str(path))))
    return PartialsReader(str(path), load(file))


def offline(folder: Path, table: pa.Table) -> Snapshot:
    """The values of all lists, written at once as one file."""
    write(folder / "whole", "all.parquet", table)
    return snapshot(reader_of(folder / "whole", folder))


def test_files_add_up_to_the_values_of_all_lists_in_every_window(tmp_path: Path) -> None:
    table = lists(1_000)
    for number in range(4):
        write(tmp_path / "rows", f"day={number % 2}/{number}.parquet", table[number * 250 :][:250])
    shown = snapshot(reader_of(tmp_path / "rows", tmp_path))
    assert values(shown) == values(offline(tmp_path, table))
    total = merged(partials([table], *METRICS, by=["variant"]))
    for (metric, variant, window), (value, count) in values(shown).items():
        if window == "lifetime":
            (reading,) = (
                counted.read(metric) for cell, counted in total.items() if cell.labels == (variant,)
            )
            assert (value, count) == (reading.value, reading.count)
    counts = [values(shown)["ctr", "a", window][1] for window in ("5m", "1h", "lifetime")]
    assert counts[0] < counts[1] == counts[2]
    (finding,) = shown.findings
    assert finding.analysis.name == "experiment"


def test_a_changed_file_replaces_its_rows_and_a_removed_one_takes_them_away(
    tmp_path: Path,
) -> None:
    table, folder = lists(600), tmp_path / "rows"
    write(folder, "one.parquet", table[:300])
    write(folder, "two.parquet", table[:100])
    reader = reader_of(folder, tmp_path)
    snapshot(reader)
    write(folder, "two.parquet", table[300:])
    write(folder, "three.parquet", table[:50])
    snapshot(reader)
    (folder / "three.parquet").unlink()
    assert values(snapshot(reader)) == values(offline(tmp_path, table))
    assert [(entry.topic, entry.offset) for entry in reader.stored({})] == [
        ("one.parquet", 300),
        ("two.parquet", 300),
    ]


def test_the_last_complete_run_counts_and_others_do_not(tmp_path: Path) -> None:
    table, folder = lists(600), tmp_path / "rows"
    write(folder, "day=1/run=1/part.parquet", table[:100])
    write(folder, "day=1/run=2/part.parquet", table[:300])
    write(folder, "day=1/run=3/part.parquet", table[:200])
    write(folder, "day=2/part.parquet", table[300:])
    write(folder, "day=2/_temporary/part.parquet", table[300:])
    for done in (1, 2):
        (folder / f"day=1/run={done}/_SUCCESS").touch()
    reader = reader_of(folder, tmp_path)
    assert values(snapshot(reader)) == values(offline(tmp_path, table))
    assert sum(row.lists for row in stored(folder)) == 600
    (folder / "day=1/run=3/_SUCCESS").touch()
    assert sum(entry.offset or 0 for entry in _after(reader)) == 500


def _after(reader: PartialsReader) -> Iterable[Any]:
    reader.refresh()
    return reader.stored({})


Change = Callable[[Path, pa.Table], None]


def _text(path: Path) -> None:
    path.write_text("x")


BAD: Mapping[str, tuple[Change, str]] = {
    "no parquet": (lambda path, _: _text(path), "no rows of streameval.part"),
    "events": (lambda path, table: parquet.write_table(table, path), "no rows of streameval.part"),
    "other metrics": (
        lambda path, table: parquet.write_table(
            arrow_table(partials([table], "mrr", by=["variant"], every="1m")), path
        ),
        "statistics of labels",
    ),
    "not split": (
        lambda path, table: parquet.write_table(arrow_table(partials([table], *METRICS)), path),
        "count it again with by=['variant']",
    ),
    "spans that no window can have": (
        lambda path, table: parquet.write_table(rows(table, "5h"), path),
        "panes",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_file_that_cannot_be_read_says_so_and_the_others_are_shown(
    tmp_path: Path, bad: str
) -> None:
    table, folder = lists(300), tmp_path / "rows"
    write(folder, "good.parquet", table)
    change, problem = BAD[bad]
    change(folder / "bad.parquet", table)
    reader = reader_of(folder, tmp_path)
    assert values(snapshot(reader)) == values(offline(tmp_path, table))
    entries = {entry.topic: entry for entry in reader.stored({})}
    assert entries["good.parquet"].problem is None
    assert problem in str(entries["bad.parquet"].problem)
    assert reader.unread(reader.stored({})).number == 1


def test_a_bucket_has_the_values_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, url = lists(300), s3.new_path()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{s3.server()}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    remote.store.cache_clear()
    bucket, _, folder = url.removeprefix("s3://").partition("/")
    for name, part in (("a/one.parquet", table[:100]), ("two.parquet", table[100:])):
        content = BytesIO()
        parquet.write_table(rows(part), content)
        obstore.put(remote.store(f"s3://{bucket}"), f"{folder}/{name}", content.getvalue())
    reader = reader_of(url, tmp_path)
    assert values(snapshot(reader)) == values(offline(tmp_path, table))
    assert sum(row.lists for row in stored(url)) == 300
    remote.store.cache_clear()


def test_serve_shows_them_with_verdicts_and_evaluate_prints_them(tmp_path: Path) -> None:
    table, folder = lists(1_000), tmp_path / "rows"
    write(folder, "one.parquet", table[:500])
    config = CONFIG.format(path=json.dumps(str(folder)))
    with running(config, tmp_path, command="serve") as server:
        server.until(lambda: server.get("/-/ready").status_code == 200)
        write(folder, "two.parquet", table[500:])
        server.until(lambda: len(server.document()["stored"]) == 2)
        document = server.document()
        expected = values(offline(tmp_path, table))
        shown = {
            (row["metric"], row["labels"]["variant"], row["window"]): (row["value"], row["count"])
            for row in document["metrics"]
        }
        assert shown == {key: pair for key, pair in expected.items() if key in shown}
        assert {key[2] for key in shown} >= {"5m", "1h", "lifetime"}
        assert document["experiment"]["comparisons"]
        page = server.get("/").text
        assert "Values are those of everything that is stored" in page
        assert 'streameval_ctr_sum{variant="a"' not in server.get("/metrics").text
        # A log without a problem has no line about one.
        assert not server.logged("advice")
    done = run("evaluate", folder, "-m", "ctr", "--format", "json")
    printed = json.loads(done.stdout)
    assert {row["labels"]["variant"] for row in printed} == {"a", "b"}
    assert sum(row["count"] for row in printed) == 3 * table.num_rows
    unknown = run("evaluate", folder, "-m", "mrr")
    assert (unknown.returncode, "-m mrr: not in" in unknown.stderr) == (2, True)
    refused = run("run", tmp_path / "streameval.toml")
    assert (refused.returncode, "streameval serve" in refused.stderr) == (1, True)
    shutil.rmtree(folder)
