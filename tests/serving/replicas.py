"""Replicas that share a store, and what a reader of it shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from streameval.checkpoints.store import Store, store_of
from streameval.config import Config, load
from streameval.config.config import schema
from streameval.config.pipeline import frontend_of, layout
from streameval.config.store_reader import StoreReader
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.ingest import IngestCopy
from streameval.engine.partition import Layout
from streameval.engine.snapshot import Snapshot
from streameval.events.records import Assignment, Partition, RecordBatch
from streameval.exporters.web.answers import snapshot_answer
from tests.batches import batch_of
from tests.changes.events import DAY, FIRST, events
from tests.durability.process import Member

TOPIC = "events"
PARTITIONS = 3
NOW = FIRST + 40.0 * DAY

CONFIG = """
metrics = ["ctr@2", "ndcg@3", "distinct_items@2", "mrr(per=user)@3"]
labels = ["variant", "model"]
segments = ["country"]
label_cap = 2
intervals = {}
event = { time = "ts", time_unit = "s" }
changes = { label = "variant", rollouts = "model" }
experiment = { label = "variant", control = "a" }
gap = [{ by = "country" }]
windows = { spans = ["1h", "24h"] }
"""

Row = dict[str, Any]


def config_of(folder: Path, text: str = CONFIG, **policies: str) -> Config:
    """The configuration of replicas whose store is in a folder."""
    state = {"path": f"{folder}/state"} | policies
    source = {"type": '"kafka"', "topics": f'["{TOPIC}"]', "kafka.bootstrap_servers": '"x:1"'}
    lines = [f"state.{key} = {json.dumps(value)}" for key, value in state.items()]
    lines += [f"source.{key} = {value}" for key, value in source.items()]
    path = folder / "streameval.toml"
    path.write_text("\n".join([*lines, text]))
    return load(path)


def rows_by_partition(days: int = 26, lists: int = 30) -> list[list[Row]]:
    """The rows of each partition in the order of time, by user; a new model every fourth day."""
    rows = sorted(events(days, lists=lists), key=lambda row: row["ts"])
    for row in rows:
        row["model"] = f"m{(row['ts'] - FIRST) // DAY // 4}"
    return [[row for row in rows if int(row["user"][1:]) % 3 == part] for part in range(3)]


def batch_of_rows(number: int, rows: Sequence[Row], start: int) -> RecordBatch:
    return batch_of(Partition(TOPIC, number), [json.dumps(row).encode() for row in rows], start)


class Replica(Member):
    """A member of the group; its clocks are moved by hand."""

    def __init__(self, config: Config, store: Store | None = None) -> None:
        assert config.state is not None
        super().__init__(
            store or store_of(config.state.path),
            set(),
            frontend=frontend_of(config, layout(config)),
            fingerprint=config.settings(),
            schema=schema(config),
            policies=config.state,
        )

    def commit(self, positions: Mapping[Partition, int], *, wait: bool) -> None:
        """Every commit is accepted."""

    def take(
        self, *numbers: int, identity: str = "id-1", partitions: int = PARTITIONS
    ) -> list[int]:
        """Own these partitions from now on; returns where each begins."""
        assignments = [
            Assignment(
                partition=Partition(TOPIC, number),
                identity=identity,
                begin=0,
                end=10_000,
                start=0,
                partitions=partitions,
            )
            for number in numbers
        ]
        starts = self.checkpointer.assigned(assignments)
        return [starts[assignment.partition] for assignment in assignments]

    def count(self, number: int, rows: Sequence[Row], start: int) -> None:
        self.checkpointer.apply(batch_of_rows(number, rows, start))

    def save(self, seconds: float = 1.0) -> None:
        """Save all that has changed."""
        self.now += seconds
        self.checkpointer.finish()


class Looking:
    """Takes snapshots of counts, and of a reader's after each refresh."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._capture: tuple[Layout, SnapshotCapture] | None = None

    def look(self, reader: StoreReader) -> Snapshot:
        reader.refresh()
        stored = reader.stored({})
        status = RuntimeStatus(unread=reader.unread(stored), stored=stored)
        return self.take(reader.copied(), reader.ingest.layout, status)

    def take(self, counts: IngestCopy, of: Layout, status: RuntimeStatus | None = None) -> Snapshot:
        if self._capture is None or self._capture[0] is not of:
            labels = self._config.series_labels()
            self._capture = (
                of,
                SnapshotCapture(
                    of, source="", labels=labels, started_at=0.0, max_ahead=of.clock.max_ahead
                ),
            )
        # The series of [changes] are read a few at a time.
        return [self._capture[1].take(counts, NOW, status or RuntimeStatus()) for _ in range(4)][-1]


def values(snapshot: Snapshot) -> dict[str, Any]:
    """What page and API show of the counts, exactly."""
    answer = msgspec.to_builtins(snapshot_answer(snapshot))
    health = {name: answer["health"][name] for name in ("consumed", "valid", "late", "partitions")}
    findings = {
        entry.analysis.name: msgspec.json.encode(entry.report)
        for entry in snapshot.findings
        if entry.analysis.name == "changes"
    }
    return (
        {name: answer[name] for name in ("metrics", "families", "comparison", "experiment", "gaps")}
        | health
        | findings
    )
