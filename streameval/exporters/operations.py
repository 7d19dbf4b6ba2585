"""Operational families: consumption, checkpoints, the join, memory, and what analyses find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from streameval.catalogue.reading import UndefinedReading
from streameval.engine.analysis import Finding
from streameval.engine.snapshot import (
    CheckpointHealth,
    Health,
    JoinHealth,
    PartitionHealth,
    Snapshot,
    StoredPartition,
    WebConfigHealth,
)
from streameval.events.records import Partition
from streameval.exporters.families import Family, Kind, gauge_families, own_family
from streameval.exporters.memory import memory_uses


def build_information(version: str) -> Family:
    """A constant 1 with the release as a label."""
    text = "The release as a label; always 1."
    return own_family("build_info", "gauge", text, [({"version": version}, 1.0)])


def snapshot_age(seconds: float) -> Family:
    """The age of the snapshot at the time of the scrape."""
    text = (
        "Age of the values at the time of the scrape. Near 1 s; at most about 10 s while reading "
        "all series takes less than 3 s of processor time."
    )
    return _one(seconds, "snapshot_age_seconds", "gauge", text)


def otlp_failures(count: int) -> Family:
    """The number of failed exports by OTLP."""
    text = "Exports by OTLP that failed; the next one has their sums. The log has the reason."
    return _one(float(count), "otlp_failures", "counter", text)


def operations(snapshot: Snapshot, *, lag: bool) -> list[Family]:
    """Families about the pipeline, and the gauges of analyses.

    `lag`: whether to include lag and position, which only Kafka sources have.
    """
    health = snapshot.health
    families = [
        *_families(health, _EVENTS),
        *_progress(snapshot),
        count_undefined(snapshot),
    ]
    if lag:
        families.extend(_log(health.partitions))
    if snapshot.stored:
        families.extend(_stored(snapshot.stored))
    if health.join is not None:
        families.extend([*_join(health.join), *_join_waiting(health.join)])
    families.extend(found_families(snapshot.findings))
    if health.checkpoint is not None:
        families.extend(_checkpoints(health.checkpoint, health.partitions))
    return [*families, *_connections(health), *_web_config(health.web_config)]


def found_families(findings: Iterable[Finding]) -> Iterator[Family]:
    """The gauges of the reports of analyses."""
    for analysis, report in findings:
        yield from gauge_families(analysis.gauges(report))


def count_undefined(snapshot: Snapshot) -> Family:
    """The number of values that their convention leaves undefined."""
    readings = [entry.reading for entry in snapshot.series]
    undefined = Counter(
        reading.metric for reading in readings if isinstance(reading, UndefinedReading)
    )
    return _by(
        "metric",
        undefined,
        "readings_undefined",
        "gauge",
        "Values left out because the metric's convention does not define them for these lists; "
        "/api/v1/metrics has the reason. Absent if there are none.",
    )


def _one(value: float | None, name: str, kind: Kind, text: str) -> Family:
    """A family of one sample; without samples if the value is None."""
    return own_family(name, kind, text, [] if value is None else [({}, value)])


def _by(label: str, values: Mapping[str, float], name: str, kind: Kind, text: str) -> Family:
    """A family with a sample for each value of a label."""
    return own_family(name, kind, text, [({label: key}, values[key]) for key in sorted(values)])


def _by_log(values: Iterable[tuple[Partition, float | None]], name: str, text: str) -> Family:
    """A gauge with a sample for each partition whose value is known."""
    clocks = [
        ({"topic": of.topic, "partition": str(of.number)}, value)
        for of, value in values
        if value is not None
    ]
    return own_family(name, "gauge", text, clocks)


class _FromAttribute(NamedTuple):
    """A family read from an attribute: a number or None, or label value -> number."""

    name: str
    kind: Kind
    attribute: str
    label: str | None = None


def _families(health: Health, table: Mapping[_FromAttribute, str]) -> Iterator[Family]:
    for field, text in table.items():
        value = getattr(health, field.attribute)
        if field.label is None:
            yield _one(value, field.name, field.kind, text)
        else:
            yield _by(field.label, value, field.name, field.kind, text)


_EVENTS: Final = {
    _FromAttribute("events_consumed", "counter", "consumed"): (
        "Records read, valid or not. A rate of 0 while the lag grows means a stall."
    ),
    _FromAttribute("events_invalid", "counter", "invalid", "reason"): (
        "Invalid records by reason; they are in no metric. Alert on its share of "
        "streameval_events_consumed_total."
    ),
    _FromAttribute("events_tombstone", "counter", "tombstones"): (
        "Records without a value (deletions in a compacted topic); they are in no metric."
    ),
    _FromAttribute("events_late", "counter", "late"): (
        "Events too late for every window; they count in the lifetime only. If it grows steadily, "
        "raise lateness in [windows]."
    ),
    _FromAttribute("events_future", "counter", "future"): (
        "Events ahead of their partition that later records did not confirm; they count in the "
        "lifetime only. A producer's clock is wrong."
    ),
    _FromAttribute("clock_jumps", "counter", "clock_jumps"): (
        "Times that a partition's clock came to be ahead of this machine's by more than max_ahead: "
        "most of its newest voters have a wrong clock, or this machine has."
    ),
    _FromAttribute("events_duplicate", "counter", "duplicates"): (
        "Duplicate events by their id; they are in no metric."
    ),
    _FromAttribute("events_folded", "gauge", "folded", "family"): (
        "Events under the label value __other__, by family of series: a label has more values "
        "than label_cap or a family more combinations than max_series."
    ),
    _FromAttribute("dlq_events", "counter", "dead_lettered"): (
        "Dead letters written, including truncated ones and those written again after a crash."
    ),
    _FromAttribute("attributes_unknown_ratio", "gauge", "unknown_items", "attribute"): (
        "Share of the items shown that an attribute of items does not have, by attribute, in a "
        "sample of the events since the start. If it grows, the attribute's table is out of date."
    ),
}
_CONNECTIONS: Final = {
    _FromAttribute("kafka_watchdog_recoveries", "counter", "recoveries", "step"): (
        "Recoveries, by step, from a consumer that made no progress although records waited."
    ),
    _FromAttribute("kafka_connection_failures", "counter", "connection_failures", "reason"): (
        "Failed attempts to reach Kafka, by reason; an attempt follows a second after the last one "
        "failed. schema_registry: the registry does not give the schema of a record. /-/ready and "
        "the log have the remedy."
    ),
}
"""Families of `Health` -> HELP text."""


def _progress(snapshot: Snapshot) -> Iterator[Family]:
    health = snapshot.health
    yield _by_log(
        [(partition.log, partition.event_time) for partition in health.partitions],
        "watermark_timestamp_seconds",
        "Largest event time read so far, seconds since the epoch; absent without event time. "
        "time() minus this is the delay of the values.",
    )
    yield _by_log(
        [(partition.log, partition.ahead or None) for partition in health.partitions],
        "clock_ahead_seconds",
        "How far a partition's clock is ahead of this machine's, if by more than max_ahead; "
        "windows then end at this machine's clock. Absent otherwise.",
    )
    text = "1 if the source has answered and reading has begun, as in /-/ready."
    yield _one(float(health.ready), "ready", "gauge", text)


def _log(partitions: Iterable[PartitionHealth]) -> Iterator[Family]:
    yield _by_log(
        [(partition.log, partition.lag) for partition in partitions],
        "kafka_consumer_lag",
        "Records between the position and the end of the partition; absent while the end is "
        "unknown.",
    )
    yield _by_log(
        [(partition.log, partition.position) for partition in partitions],
        "kafka_consumer_position",
        "Next offset to be counted. If it does not advance while the lag is above 0, the partition "
        "is not being read.",
    )


def _stored(partitions: Iterable[StoredPartition]) -> Iterator[Family]:
    yield _by_log(
        [(partition.log, partition.written_at) for partition in partitions],
        "stored_timestamp_seconds",
        "When the checkpoint was written whose values are shown, seconds since the epoch; absent "
        "for a partition without one. Only of `streameval serve`.",
    )
    yield _by_log(
        [(partition.log, float(partition.problem is None)) for partition in partitions],
        "stored_newest",
        "1 if the newest checkpoint of the partition is shown; 0 if it is damaged, of another "
        "release, of other settings or missing. Page and API say why. Only of `streameval serve`.",
    )


def _checkpoints(
    health: CheckpointHealth, partitions: Iterable[PartitionHealth]
) -> Iterator[Family]:
    yield _one(
        health.last_success,
        "checkpoint_last_success_timestamp_seconds",
        "gauge",
        "Time of the last checkpoint of this process, seconds since the epoch; absent before the "
        "first. time() minus this stays near the interval in [state].",
    )
    yield _by(
        "reason",
        health.failures,
        "checkpoint_failures",
        "counter",
        "Failed checkpoints, by the part that failed: store, dead_letters or timeout. The log has "
        "the reason.",
    )
    yield _by_log(
        [(partition.log, partition.durable) for partition in partitions],
        "checkpoint_offset",
        "Offset at which reading resumes after a crash; all records before it are durable.",
    )
    yield _one(
        health.skipped,
        "events_skipped",
        "counter",
        'Offsets that on_retention = "skip" skipped because retention deleted them; they are in no '
        "metric.",
    )


def _connections(health: Health) -> Iterator[Family]:
    yield _one(
        None if health.checkpoint is None else health.checkpoint.commit_failures,
        "commit_failures",
        "counter",
        "Failed commits of the group's offsets; counters do not grow until a commit succeeds.",
    )
    yield from _families(health, _CONNECTIONS)


def _web_config(web_config: WebConfigHealth | None) -> Iterator[Family]:
    yield _one(
        None if web_config is None else float(web_config.successful),
        "web_config_last_reload_successful",
        "gauge",
        "1 if the certificates and users that were read last are in use; 0 if they were rejected "
        "and the previous ones are in use.",
    )
    yield _one(
        None if web_config is None else web_config.at,
        "web_config_last_reload_timestamp_seconds",
        "gauge",
        "When certificates and users were read last, seconds since the epoch.",
    )


def _join(join: JoinHealth) -> Iterator[Family]:
    yield own_family(
        "join_records",
        "counter",
        "Records of each stream by outcome: counted, duplicate, late, future, orphan (without a "
        "list), ignored (a type that does not count), invalid, tombstone. Together with "
        "streameval_join_open these are all records read.",
        [
            ({"stream": stream.name, "outcome": outcome}, count)
            for stream in join.streams
            for outcome, count in sorted(stream.outcomes.items())
        ],
    )
    yield own_family(
        "join_outside",
        "counter",
        "Counted interactions with an item that is not in their list. If most are, ids differ "
        "between the streams.",
        [({"stream": stream.name}, stream.outside) for stream in join.streams[1:]],
    )
    yield own_family(
        "join_open",
        "gauge",
        "Records that wait for the end of their window; for impressions, lists that are in no "
        "value yet.",
        [({"stream": stream.name}, stream.open) for stream in join.streams],
    )


def _join_waiting(join: JoinHealth) -> Iterator[Family]:
    yield _one(
        join.bytes,
        "join_bytes",
        "gauge",
        "Approximate memory of the records that wait; reading stops if a partition exceeds "
        "max_bytes of [attribution].",
    )
    yield _by_log(
        [(clock.log, clock.event_time) for clock in join.clocks],
        "join_log_timestamp_seconds",
        "Newest event time of each joined log, seconds since the epoch. The slowest log holds back "
        "the others of its partition.",
    )
    yield _by_log(
        [(wait.log, wait.since) for wait in join.waits],
        "join_wait_start_timestamp_seconds",
        "Since when the other logs wait for newer records of this log, seconds since the epoch. "
        "Meanwhile their records show as lag. Absent if none waits.",
    )
    text = "Number of times that the join stopped waiting for a log idle for idle_timeout."
    yield _one(join.idle_timeouts, "join_idle_timeouts", "counter", text)


def memory_limit() -> Family:
    """The smallest limit of the process's control groups and of the machine; absent if unknown."""
    return _one(
        min((use.limit for use in memory_uses()), default=None),
        "memory_limit_bytes",
        "gauge",
        "Memory that this process may use: the smallest limit of its control groups and the "
        "machine. Near it, the system kills the process.",
    )
