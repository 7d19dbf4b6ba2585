"""The JSON of /api/v1/metrics."""

from __future__ import annotations

import msgspec

from streameval.exporters.comparison import comparison, differences
from streameval.exporters.web.state import State, state
from streameval.pipeline.joined import JoinHealth
from streameval.pipeline.snapshot import (
    LIFETIME,
    CheckpointHealth,
    Health,
    PartitionHealth,
    Series,
    SeriesFamily,
    Snapshot,
)
from streameval.reading import UndefinedReading


def document(snapshot: Snapshot, said: State | None = None) -> bytes:
    """Everything in a snapshot as JSON; each number is the exact double, null where undefined.

    `metrics` has one object per metric, slice and window: `metric`, `labels` (with the segment's,
    where there is one), `segment` (its name, else null), `window`, `since` (event time from which
    on the value is complete, seconds since the epoch; null for all history), `value`, `count`,
    `lists`, `total` (null where the metric is not a mean), `estimated`, `low` and `high` (certain
    bounds of a value that is not exact), `problem` (why a convention has no value, else null) and
    `difference` (the value less that of the control, null where there is none). `comparison` says
    which label is compared and which of its values is the control; null where there is one only.

    Args:
        snapshot: what is shown.
        said: how the daemon is; by default what the snapshot says of it.
    """
    compared = comparison(snapshot)
    return msgspec.json.encode(
        {
            "source": snapshot.source,
            "started_at": snapshot.started_at,
            "taken_at": snapshot.taken_at,
            "version": snapshot.version,
            "state": (said or state(snapshot, turning=True))._asdict(),
            "families": [_family(family) for family in snapshot.families],
            "comparison": None if compared is None else compared._asdict(),
            "metrics": [
                _entry(entry, snapshot.families[entry.family], difference)
                for entry, difference in zip(snapshot.series, differences(snapshot), strict=True)
            ],
            "health": _health(snapshot.health),
        }
    )


def _family(family: SeriesFamily) -> dict[str, object]:
    return {
        "name": family.name,
        "segment": family.segment,
        "label_names": family.label_names,
        "windows": (*family.windows, LIFETIME),
    }


def _entry(entry: Series, family: SeriesFamily, difference: float | None) -> dict[str, object]:
    # msgspec writes the shortest text that reads back as the same double, and NaN as null.
    reading = entry.reading
    return {
        "metric": entry.metric.text,
        "labels": dict(zip(family.label_names, entry.labels, strict=True)),
        "segment": family.segment,
        "window": entry.window,
        "since": entry.since,
        "value": reading.value if reading.defined else None,
        "count": reading.count,
        "lists": reading.lists,
        "total": reading.total,
        "estimated": reading.estimated,
        "low": reading.low,
        "high": reading.high,
        "problem": reading.problem if isinstance(reading, UndefinedReading) else None,
        "difference": difference,
    }


def _health(health: Health) -> dict[str, object]:
    return {
        "ready": health.ready,
        "trouble": health.trouble,
        "consumed": health.consumed,
        "valid": health.valid,
        "invalid": health.invalid,
        "tombstones": health.tombstones,
        "late": health.late,
        "duplicates": health.duplicates,
        "folded": health.folded,
        "dead_lettered": health.dead_lettered,
        "recoveries": health.recoveries,
        "checkpoint": _checkpoint(health),
        "reload": health.reload,
        "join": None if health.join is None else _join(health.join),
        "partitions": [_partition(entry, health.checkpoint) for entry in health.partitions],
    }


def _join(join: JoinHealth) -> dict[str, object]:
    return {
        "bytes": join.bytes,
        "passed_by": join.passed_by,
        "streams": [
            {
                "name": stream.name,
                "outcomes": stream.outcomes,
                "open": stream.open,
                "outside": stream.outside,
            }
            for stream in join.streams
        ],
    }


def _checkpoint(health: Health) -> dict[str, object] | None:
    kept = health.checkpoint
    if kept is None:
        return None
    return {
        "last_success": kept.last_success,
        "failures": kept.failures,
        "commit_failures": health.commit_failures,
    }


def _partition(entry: PartitionHealth, kept: CheckpointHealth | None) -> dict[str, object]:
    return {
        "topic": entry.partition.topic,
        "partition": entry.partition.number,
        "position": entry.position,
        "end": entry.end,
        "lag": entry.lag,
        "durable": None if kept is None else kept.offsets.get(entry.partition),
        "event_time": None if entry.event_time is None else entry.event_time / 1_000_000,
    }
