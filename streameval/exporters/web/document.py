"""The JSON of /api/v1/metrics."""

from __future__ import annotations

import msgspec

from streameval.pipeline.snapshot import Health, PartitionHealth, Series, Snapshot
from streameval.reading import UndefinedReading


def document(snapshot: Snapshot) -> bytes:
    """Everything in a snapshot as JSON; each number is the exact double, null where undefined.

    `metrics` has one object per metric and slice: `metric`, `labels`, `value`, `count`, `lists`,
    `total` (null where the metric is not a mean), `estimated`, `low` and `high` (certain bounds of
    a value that is not exact) and `problem` (why a convention has no value, else null).
    """
    return msgspec.json.encode(
        {
            "source": snapshot.source,
            "started_at": snapshot.started_at,
            "taken_at": snapshot.taken_at,
            "version": snapshot.version,
            "metrics": [_entry(entry, snapshot.label_names) for entry in snapshot.series],
            "health": _health(snapshot.health),
        }
    )


def _entry(entry: Series, label_names: tuple[str, ...]) -> dict[str, object]:
    # msgspec writes the shortest text that reads back as the same double, and NaN as null.
    reading = entry.reading
    return {
        "metric": entry.metric.text,
        "labels": dict(zip(label_names, entry.labels, strict=True)),
        "value": reading.value if reading.defined else None,
        "count": reading.count,
        "lists": reading.lists,
        "total": reading.total,
        "estimated": reading.estimated,
        "low": reading.low,
        "high": reading.high,
        "problem": reading.problem if isinstance(reading, UndefinedReading) else None,
    }


def _health(health: Health) -> dict[str, object]:
    return {
        "ready": health.ready,
        "trouble": health.trouble,
        "consumed": health.consumed,
        "valid": health.valid,
        "invalid": health.invalid,
        "tombstones": health.tombstones,
        "partitions": [_partition(entry) for entry in health.partitions],
    }


def _partition(entry: PartitionHealth) -> dict[str, object]:
    return {
        "topic": entry.partition.topic,
        "partition": entry.partition.number,
        "position": entry.position,
        "end": entry.end,
        "lag": entry.lag,
        "event_time": None if entry.event_time is None else entry.event_time / 1_000_000,
    }
