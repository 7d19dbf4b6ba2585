"""`streameval state merge --backfill`: adds counts of a batch job, then the daemon continues."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from streameval import Intervals
from streameval.checkpoints.format import CheckpointDraft, Part
from streameval.checkpoints.store import store_of
from streameval.config.states import StoredCheckpoint, newest_checkpoints
from streameval.evaluation.partials import arrow_table, partials
from tests.cli.program import printed, run
from tests.daemon.running import exact, readings, running

METRICS = ("ctr", "ndcg@10", "item_coverage@10", "ndcg(statistic=median)@10")
BY = ("variant", "country")
CONFIG = """
metrics = {metrics}
labels = ["variant"]
segments = ["country"]
catalog = 1200
intervals = {{ groups = 64 }}
event = {{ time = "ts", time_unit = "iso8601", event_id = "event_id" }}
windows = {{ pane = "10m", spans = ["10m", "12h"] }}
source = {{ type = "files", paths = ["{log}"] }}
state = {{ path = "{state}" }}
web = {{ listen = "127.0.0.1:0", first_exposure = "0s" }}
"""
BEGIN = datetime(2026, 3, 1, 20, tzinfo=UTC)
BEFORE, STOPPED, ALL = 100, 190, 214
"""Numbers of events: of the backfill, when the daemon was stopped, and in total."""
LENGTH = 20
"""Items of every list."""


def lines() -> list[str]:
    """Simulated events, three minutes apart: the backfill covers five hours of two days."""
    shifted = []
    for number, line in enumerate(run("simulate", "--events", str(ALL)).stdout.splitlines()):
        at = BEGIN + timedelta(minutes=3 * number)
        shifted.append(json.dumps(json.loads(line) | {"ts": at.isoformat()}) + "\n")
    return shifted


def events(records: Sequence[str]) -> pa.Table:
    """Records as columns, as in a warehouse."""
    rows = [
        row | {"users": row["user"], "times": datetime.fromisoformat(row["ts"])}
        for row in map(json.loads, records)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


SCHEMA = pa.schema(
    {
        **dict.fromkeys(BY, pa.string()),
        "recommendations": pa.list_(pa.string()),
        "interactions": pa.list_(pa.string()),
        "users": pa.string(),
        "times": pa.timestamp("us", "UTC"),
    }
)


class BackfilledLog:
    """A log, the state of its stopped daemon, and the counts of the time before."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.records = folder, lines()
        self.log = folder / "log.ndjson"
        self.log.write_text("".join(self.records[BEFORE:STOPPED]))
        self.state = folder / "state"
        with running(self.config("state"), folder) as daemon:
            daemon.consumed(STOPPED - BEFORE)
            assert daemon.stop() == 0
        self.backfill = self.counted("before")

    def config(self, state: str) -> str:
        metrics = json.dumps(METRICS)
        return CONFIG.format(metrics=metrics, log=self.log, state=self.folder / state)

    def counted(self, name: str, *metrics: str, of: slice = slice(BEFORE), **options: Any) -> Path:
        """Rows of the events before the log, or of some of them, in two parquet files."""
        inputs: dict[str, Any] = {"by": BY, "every": "1h", "intervals": Intervals(groups=64)}
        inputs |= {"catalog": 1200} | options
        table = events(self.records[of])
        pieces = (table[:41], table[41:])
        rows = [
            row for piece in pieces for row in partials([piece], *(metrics or METRICS), **inputs)
        ]
        path = self.folder / f"{name}.parquet"
        parquet.write_table(arrow_table(rows), path)
        return path

    def merged(self, *backfills: Path, state: Path | None = None, into: str) -> Any:
        options = [part for path in backfills for part in ("--backfill", path)]
        return run("state", "merge", state or self.state, *options, "--into", self.folder / into)

    def merge_error(self, *backfills: Path, state: Path | None = None) -> str:
        """The error of a merge that writes nothing."""
        done = self.merged(*backfills, state=state, into="refused")
        assert (done.returncode, done.stdout) == (2, "")
        assert not (self.folder / "refused").exists()
        return str(done.stderr)

    def goes_on(self, into: str) -> None:
        """Let the daemon count the rest on the merged state; checks that all events are counted."""
        with self.log.open("a") as log:
            log.writelines(self.records[STOPPED:])
        with running(self.config(into), self.folder) as daemon:
            document = daemon.consumed(ALL - STOPPED)
            shown = daemon.until(lambda: daemon.sum_of("ctr_count") / LENGTH)
            assert daemon.stop() == 0
        config = self.folder / "streameval.toml"
        together = self.folder / "together.ndjson"
        together.write_text("".join(self.records))
        evaluated = run("evaluate", together, "--config", config, "--format", "json").stdout
        assert run("state", "export", self.folder / into).stdout == evaluated
        live = {exact([reading]) for reading in readings(document)}
        lifetime = [reading for reading in json.loads(evaluated) if reading["window"] == "lifetime"]
        assert {exact([reading]) for reading in readings({"metrics": lifetime})} <= live
        # Nothing that was counted before this process is in its counters.
        assert shown == ALL - STOPPED


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> BackfilledLog:
    return BackfilledLog(tmp_path_factory.mktemp("backfill"))


def test_a_daemon_continues_a_backfill_as_if_it_had_counted_everything(
    world: BackfilledLog,
) -> None:
    done = world.merged(world.backfill, into="joined")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"offset {STOPPED - BEFORE:,}" in done.stdout
    assert f"{BEFORE:,} lists of 2026-03-01T20:00:00Z to 2026-03-02T01:00:00Z" in done.stdout
    assert run("state", "verify", world.folder / "joined").returncode == 0
    world.goes_on("joined")


def test_a_repeated_or_overlapping_backfill_is_rejected(world: BackfilledLog) -> None:
    once = world.merged(world.backfill, into="once")
    assert once.returncode == 0
    for again in (world.backfill, world.counted("by-day", every="1d")):
        message = world.merge_error(again, state=world.folder / "once")
        assert "count twice" in message
        assert "2026-03-01T20:00:00Z to 2026-03-02T01:00:00Z" in message
    assert "count twice" in world.merge_error(world.backfill, world.backfill)


def test_merging_stores_never_loses_or_repeats_a_backfill(world: BackfilledLog) -> None:
    assert world.merged(world.backfill, into="with").returncode == 0
    into = world.folder / "of-two"
    later = saved_as(world.folder / "later", world.state, more=1)
    lost = run("state", "merge", world.folder / "with", later, "--into", into)
    assert lost.returncode == 2
    assert "has a backfill of 2026-03-01T20:00:00Z to 2026-03-02T01:00:00Z with" in lost.stderr
    assert f"Merge without {world.folder / 'with'}, and give the backfill again" in lost.stderr
    other = saved_as(world.folder / "other-number", world.folder / "with", number=1)
    twice = run("state", "merge", world.folder / "with", other, "--into", into)
    assert twice.returncode == 2
    assert "lists in both would count twice" in twice.stderr
    assert not into.exists()
    read = run("state", "export", world.folder / "with", later)
    assert (read.returncode, f"{later} lacks it" in read.stderr) == (2, True)
    earlier = saved_as(world.folder / "earlier", world.state, more=-1)
    printed("state", "merge", world.folder / "with", earlier, "--into", into)


def test_backfills_of_other_times_are_merged_whatever_their_partitions(
    world: BackfilledLog,
) -> None:
    halves = [world.counted(f"half{first}", of=slice(first, first + 40)) for first in (0, 40)]
    states = [world.folder / "first-half", world.folder / "second-half"]
    for half, state in zip(halves, states, strict=True):
        assert world.merged(half, into=state.name).returncode == 0
    states[1] = saved_as(world.folder / "renumbered", states[1], number=1)
    printed("state", "merge", *states, "--into", world.folder / "halves")
    document = json.loads(run("state", "export", world.folder / "halves").stdout)
    items = [
        row["count"]
        for row in document
        if (row["metric"], row["window"], *row["labels"]) == ("ctr", "lifetime", "variant")
    ]
    assert sum(items) == LENGTH * (2 * (STOPPED - BEFORE) + 80)


def saved_as(path: Path, other: Path, *, more: int = 0, number: int = 0) -> Path:
    """A copy of a store with higher offsets and another partition number."""
    store = store_of(str(path))
    for held in newest_checkpoints([str(other)], print):
        header = held.saved.header
        store.claim(header.state.cluster, header.state.group)
        shard = header.shard._replace(number=number)
        header = msgspec.structs.replace(header, shard=shard, offset=header.offset + more)
        parts = [
            Part(name=name, content=partial(_content, held, name)) for name in held.saved.digests
        ]
        store.save([CheckpointDraft(header=header, parts=parts)])
    return path


def _content(held: StoredCheckpoint, name: str) -> Iterator[bytes]:
    yield held.saved.read(name)


_UNLIKE: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {
    "a metric is missing": (METRICS[:2], {}, "different statistics of .*exposures"),
    "another depth": (METRICS[1:], {}, "different statistics of labels: the state has hits;"),
    "without users": (METRICS, {"intervals": None}, "different statistics of .*groups:64"),
    "other groups": (METRICS, {"intervals": Intervals(groups=32)}, "groups:64"),
    "a label is missing": (METRICS, {"by": ["variant"]}, r"by=\['variant', 'country'\]"),
    "long spans": (METRICS, {"every": "1d"}, r'several panes.*every="10m", or "1h" for what is'),
}


@pytest.mark.parametrize("case", _UNLIKE)
def test_a_backfill_with_other_settings_is_rejected(world: BackfilledLog, case: str) -> None:
    metrics, options, message = _UNLIKE[case]
    said = world.merge_error(world.counted("unlike", *metrics, **options))
    assert re.search(message, said), said


def test_a_backfill_newer_than_the_log_is_rejected(world: BackfilledLog) -> None:
    path = world.folder / "newer.parquet"
    newer = events([_later(record) for record in world.records[:10]])
    options: dict[str, Any] = {"by": BY, "every": "1m", "intervals": Intervals(groups=64)}
    rows = partials([newer], *METRICS, catalog=1200, **options)
    parquet.write_table(arrow_table(rows), path)
    message = world.merge_error(path)
    assert "the newest event of the state is from 2026-03-02T05:27:00Z" in message


def _later(record: str) -> str:
    at = (BEGIN + timedelta(days=3)).isoformat()
    return json.dumps(json.loads(record) | {"ts": at})


def test_a_file_that_is_not_a_backfill_is_a_usage_error(world: BackfilledLog) -> None:
    other = world.folder / "other.parquet"
    parquet.write_table(events(world.records[:2]), other)
    empty = world.folder / "empty.parquet"
    parquet.write_table(arrow_table([]), empty)
    for path, message in (
        (world.log, "no rows of streameval.partials in parquet"),
        (other, "no rows of streameval.partials in parquet"),
        (world.folder / "nowhere", "no rows of streameval.partials in parquet"),
        (empty, "it has no row"),
    ):
        said = world.merge_error(path)
        assert message in said
        assert said.count("\n") == 1
