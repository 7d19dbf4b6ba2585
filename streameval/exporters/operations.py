"""Families of the daemon's own operation: consumption, checkpoints, the join, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from streameval.catalogue.reading import UndefinedReading
from streameval.engine.snapshot import (
    CheckpointHealth,
    Health,
    JoinHealth,
    PartitionHealth,
    Snapshot,
)
from streameval.events.records import Partition
from streameval.exporters.experiment import comparison_families
from streameval.exporters.families import Family, own_family

_MICROSECONDS = 1_000_000


def build_information(version: str) -> Family:
    """The constant 1 that carries the release as a label."""
    text = "The release as a label; always 1."
    return own_family("build_info", "gauge", text, [({"version": version}, 1.0)])


def operations(snapshot: Snapshot, *, lag: bool) -> list[Family]:
    """Everything about the pipeline rather than the recommender.

    `lag`: whether to include lag and position, which mean something of a Kafka cluster only.
    """
    health = snapshot.health
    families = [*_counts(health), *_exceptions(health), _event_time(health.partitions)]
    families += [_snapshot_time(snapshot), _ready(health), undefined_readings(snapshot)]
    if lag:
        families += [_lag(health.partitions), _position(health.partitions)]
    if health.join is not None:
        families.extend(_join(health.join))
    if snapshot.experiment is not None:
        families.extend(comparison_families(snapshot.experiment))
    return [*families, *_durability(health)]


def _counts(health: Health) -> list[Family]:
    return [
        own_family(
            "events_consumed",
            "counter",
            "Records read, valid or not. A rate of 0 while the lag grows means that reading is "
            "stuck.",
            [({}, health.consumed)],
        ),
        own_family(
            "events_invalid",
            "counter",
            "Invalid records by reason; they are in no metric. Alert on its share of "
            "streameval_events_consumed_total.",
            [({"reason": reason}, count) for reason, count in sorted(health.invalid.items())],
        ),
        own_family(
            "events_tombstone",
            "counter",
            "Records without a value (deletions in a compacted topic); they are in no metric.",
            [({}, health.tombstones)],
        ),
    ]


def _event_time(partitions: Iterable[PartitionHealth]) -> Family:
    return own_family(
        "watermark_timestamp_seconds",
        "gauge",
        "Largest event time read so far, seconds since the epoch; absent without event time. "
        "time() minus this is how far behind live the values are.",
        [
            (_partition_labels(partition.partition), partition.event_time / _MICROSECONDS)
            for partition in partitions
            if partition.event_time is not None
        ],
    )


def _lag(partitions: Iterable[PartitionHealth]) -> Family:
    return own_family(
        "kafka_consumer_lag",
        "gauge",
        "Records between the position and the end of the partition; absent while the end is "
        "unknown.",
        [
            (_partition_labels(entry.partition), entry.lag)
            for entry in partitions
            if entry.lag is not None
        ],
    )


def _position(partitions: Iterable[PartitionHealth]) -> Family:
    return own_family(
        "kafka_consumer_position",
        "gauge",
        "Next offset to be counted. If it stands still while the lag is above 0, the partition is "
        "not being read.",
        [(_partition_labels(entry.partition), entry.position) for entry in partitions],
    )


def _snapshot_time(snapshot: Snapshot) -> Family:
    return own_family(
        "snapshot_timestamp_seconds",
        "gauge",
        "When the exported values were taken, seconds since the epoch. time() minus this stays "
        "near 1 s.",
        [({}, snapshot.taken_at)],
    )


def _ready(health: Health) -> Family:
    return own_family(
        "ready",
        "gauge",
        "1 if the source has answered and reading has begun, as /-/ready says.",
        [({}, float(health.ready))],
    )


def undefined_readings(snapshot: Snapshot) -> Family:
    """The number of values that their convention leaves undefined."""
    readings = [entry.reading for entry in snapshot.series]
    found = Counter(each.metric for each in readings if isinstance(each, UndefinedReading))
    return own_family(
        "readings_undefined",
        "gauge",
        "Values left out because the metric's convention has none for these lists; "
        "/api/v1/metrics says why. Absent if there are none.",
        [({"metric": metric}, count) for metric, count in sorted(found.items())],
    )


def _exceptions(health: Health) -> Iterator[Family]:
    yield own_family(
        "events_late",
        "counter",
        "Events too late for every window; they count in the lifetime only. If it grows steadily, "
        "raise lateness in [windows].",
        _if_known(health.late),
    )
    yield own_family(
        "events_future",
        "counter",
        "Events ahead of their partition that later records did not confirm; they count in the "
        "lifetime only. A producer's clock is wrong.",
        _if_known(health.future),
    )
    yield own_family(
        "events_duplicate",
        "counter",
        "Duplicate events by their id; they are in no metric.",
        _if_known(health.duplicates),
    )
    yield own_family(
        "events_folded",
        "gauge",
        "Events under the label value __other__, by family of series: a label has more values "
        "than label_cap or a family more combinations than max_series.",
        [({"family": name}, count) for name, count in sorted(health.folded.items())],
    )
    yield own_family(
        "dlq_events",
        "counter",
        "Invalid records written to the dead letters, including those read again after a crash.",
        _if_known(health.dead_lettered),
    )


def _durability(health: Health) -> Iterator[Family]:
    if health.checkpoint is not None:
        yield from _checkpoints(health.checkpoint)
        yield own_family(
            "commit_failures",
            "counter",
            "Failed commits of the group's offsets; counters stand still until one succeeds.",
            [({}, health.commit_failures)],
        )
    yield from _connections(health)
    reload = health.reload
    yield own_family(
        "config_last_reload_successful",
        "gauge",
        "1 if the configuration, certificates and users are in force as last read; 0 if one has a "
        "mistake and the previous one is in force.",
        [] if reload is None else [({}, float(reload.successful))],
    )
    yield own_family(
        "config_last_reload_timestamp_seconds",
        "gauge",
        "When one of these files was last read, seconds since the epoch.",
        [] if reload is None else [({}, reload.at)],
    )


def _connections(health: Health) -> Iterator[Family]:
    yield own_family(
        "kafka_watchdog_recoveries",
        "counter",
        "Recoveries, by step, from a consumer that made no progress although records waited.",
        [({"step": step}, count) for step, count in sorted(health.recoveries.items())],
    )
    yield own_family(
        "kafka_connection_failures",
        "counter",
        "Failed attempts to reach Kafka, by reason; about one a second during an outage. /-/ready "
        "and the log say what to do.",
        [
            ({"reason": reason}, count)
            for reason, count in sorted(health.connection_failures.items())
        ],
    )
    yield own_family(
        "schema_registry_failures",
        "counter",
        "Failed requests to the schema registry, by reason; absent without a registry. While it "
        "grows, records that need a schema wait.",
        [({"reason": reason}, count) for reason, count in sorted(health.registry_failures.items())],
    )


def _checkpoints(health: CheckpointHealth) -> Iterator[Family]:
    yield own_family(
        "checkpoint_last_success_timestamp_seconds",
        "gauge",
        "When this process last wrote a checkpoint, seconds since the epoch; absent before the "
        "first. time() minus this stays near the interval in [state].",
        _if_known(health.last_success),
    )
    yield own_family(
        "checkpoint_failures",
        "counter",
        "Checkpoints that could not be written, by what failed: store, dead_letters or timeout. "
        "The log says why.",
        [({"reason": reason}, count) for reason, count in sorted(health.failures.items())],
    )
    yield own_family(
        "checkpoint_offset",
        "gauge",
        "Where reading resumes after a crash: all records before it are durable.",
        [(_partition_labels(where), offset) for where, offset in sorted(health.offsets.items())],
    )
    yield own_family(
        "events_skipped",
        "counter",
        'Offsets that retention deleted before they were counted and that on_retention = "skip" '
        "passed; they are in no metric.",
        [({}, health.skipped)],
    )


def _partition_labels(partition: Partition) -> dict[str, str]:
    return {"topic": partition.topic, "partition": str(partition.number)}


def _if_known(value: float | None) -> list[tuple[dict[str, str], float]]:
    return [] if value is None else [({}, value)]


def _join(join: JoinHealth) -> Iterator[Family]:
    yield own_family(
        "join_records",
        "counter",
        "Records of each stream by outcome: counted, duplicate, late, future, orphan (no list to "
        "belong to), ignored (of a type that does not count), invalid, tombstone. With "
        "streameval_join_open they are all that was read.",
        [
            ({"stream": stream.name, "outcome": outcome}, count)
            for stream in join.streams
            for outcome, count in sorted(stream.outcomes.items())
        ],
    )
    yield own_family(
        "join_outside",
        "counter",
        "Interactions counted with an item that their list did not show. If most are, ids differ "
        "between the streams.",
        [({"stream": stream.name}, stream.outside) for stream in join.streams[1:]],
    )
    yield own_family(
        "join_open",
        "gauge",
        "Records that wait for the end of their window; of impressions, lists that are in no "
        "value yet.",
        [({"stream": stream.name}, stream.open) for stream in join.streams],
    )
    yield from _join_waiting(join)


def _join_waiting(join: JoinHealth) -> Iterator[Family]:
    yield own_family(
        "join_bytes",
        "gauge",
        "Approximate memory of the records that wait; reading stops if a partition exceeds "
        "max_bytes of [attribution].",
        [({}, join.bytes)],
    )
    yield own_family(
        "join_log_timestamp_seconds",
        "gauge",
        "Newest event time of each joined log, seconds since the epoch. The log that stands "
        "lowest holds back the others of its partition.",
        [(_partition_labels(log), at / _MICROSECONDS) for log, at in sorted(join.clocks.items())],
    )
    yield own_family(
        "join_idle_passed",
        "counter",
        "How often a log was passed by because it had no record for idle_timeout.",
        [({}, join.passed_by)],
    )


_ROOT: Final = Path("/")


def memory_limit(root: Path = _ROOT) -> Family:
    """The smallest limit of the process's control groups and of the machine; absent if unknown.

    Args:
        root: where /proc and /sys are.
    """
    limits = [*_of_groups(root), *_of_machine(root)]
    return own_family(
        "memory_limit_bytes",
        "gauge",
        "Memory that this process may use: the smallest limit of its control groups and the "
        "machine. Near it, the system kills the process.",
        [({}, min(limits))] if limits else [],
    )


def _of_groups(root: Path) -> Iterator[int]:
    """Limits of its groups and of all above them, of both versions of control groups."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        top = root / "sys/fs/cgroup"
        if controllers == "memory":
            top, name = top / "memory", "memory.limit_in_bytes"
        elif not controllers:
            name = "memory.max"
        else:
            continue
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(top):
                yield from _number(_text(folder / name))


def _of_machine(root: Path) -> Iterator[int]:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            yield 1024 * int(line.split()[1])


def _number(text: str) -> Iterator[int]:
    """None where it is "max" or absent."""
    if text.strip().isdigit():
        yield int(text)


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii")
    return ""
