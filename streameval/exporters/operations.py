"""Operational families: consumption, checkpoints, the join, memory, and what analyses find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from streameval.catalogue.reading import UndefinedReading
from streameval.engine.analysis import Finding
from streameval.engine.snapshot import Snapshot
from streameval.events.records import Partition
from streameval.exporters.families import (
    FamilyKind,
    PrometheusFamily,
    gauge_families,
    pipeline_family,
)
from streameval.exporters.memory import memory_uses

_TEXTS: Final = {
    "build_info": "The release as a label; always 1.",
    "snapshot_age_seconds": (
        "Age of the values at the time of the scrape. Near 1 s; at most about 10 s while reading "
        "all series takes less than 3 s of processor time."
    ),
    "otlp_failures_total": (
        "Exports by OTLP that failed; the next one has their sums. The log has the reason."
    ),
    "memory_limit_bytes": (
        "Memory that this process may use: the smallest limit of its control groups and the "
        "machine. Near it, the system kills the process."
    ),
    "events_consumed_total": (
        "Records read, valid or not. A rate of 0 while the lag grows means a stall."
    ),
    "events_invalid_total": (
        "Invalid records by reason; they are in no metric. Alert on its share of "
        "streameval_events_consumed_total."
    ),
    "events_tombstone_total": (
        "Records without a value (deletions in a compacted topic); they are in no metric."
    ),
    "events_late_total": (
        "Events too late for every window; they count in the lifetime only. If it grows steadily, "
        "raise lateness in [windows]."
    ),
    "events_future_total": (
        "Events ahead of their partition that later records did not confirm; they count in the "
        "lifetime only. A producer's clock is wrong."
    ),
    "clock_jumps_total": (
        "Times that a partition's clock ran ahead of this machine's by more than max_ahead: "
        "most of its newest voters have a wrong clock, or this machine has."
    ),
    "events_duplicate_total": "Duplicate events by their id; they are in no metric.",
    "events_folded": (
        "Events under the label value __other__, by family of series: a label has more values "
        "than label_cap or a family more combinations than max_series."
    ),
    "compared_label_folded": (
        "1 for an experiment's label or a segment with more values than label_cap, so that some "
        "are not compared. /-/ready has the sentence."
    ),
    "config_unmatched": (
        "1 for a key of the configuration that names a field or a label value which none of the "
        "first records has, or none of a later hour; absent once one has it. /-/ready has the "
        "sentence."
    ),
    "dlq_events_total": (
        "Dead letters written, including truncated ones and those written again after a crash."
    ),
    "attributes_unknown_ratio": (
        "Share of the items shown that an attribute of items does not have, by attribute, in a "
        "sample of the events since the start. If it grows, the attribute's table is out of date."
    ),
    "watermark_timestamp_seconds": (
        "Largest event time read so far, seconds since the epoch; absent without event time. "
        "time() minus this is the delay of the values."
    ),
    "clock_ahead_seconds": (
        "How far a partition's clock is ahead of this machine's, if by more than max_ahead; "
        "windows then end at this machine's clock. Absent otherwise."
    ),
    "ready": "1 if the source has answered and reading has begun, as in /-/ready.",
    "readings_undefined": (
        "Values left out because the metric's convention does not define them for these lists; "
        "/api/v1/metrics has the reason. Absent if there are none."
    ),
    "kafka_consumer_lag": (
        "Records between the position and the end of the partition; absent while the end is "
        "unknown."
    ),
    "kafka_consumer_position": (
        "Next offset to be counted. If it does not advance while the lag is above 0, the partition "
        "is not being read."
    ),
    "stored_timestamp_seconds": (
        "When the checkpoint was written whose values are shown, seconds since the epoch; absent "
        "for a partition without one. Only of `streameval serve`."
    ),
    "stored_newest": (
        "1 if the newest checkpoint of the partition is shown; 0 if it is damaged, of another "
        "release, of other settings or missing. Page and API say why. Only of `streameval serve`."
    ),
    "join_records_total": (
        "Records of each stream by outcome: counted, duplicate, late, future, orphan (without a "
        "list), ignored (a type that does not count), invalid, tombstone. Together with "
        "streameval_join_open these are all records read."
    ),
    "join_outside_total": (
        "Counted interactions with an item that is not in their list. If most are, ids differ "
        "between the streams."
    ),
    "join_unnamed_types": (
        "Interactions that do not count, because neither types nor ignore in [attribution] names "
        "their type, since the start: perhaps a type is misspelt. The log names the types."
    ),
    "join_open": (
        "Records that wait for the end of their window; for impressions, lists that are in no "
        "value yet."
    ),
    "join_bytes": (
        "Approximate memory of the records that wait; reading stops if a partition exceeds "
        "max_bytes of [attribution]."
    ),
    "join_log_timestamp_seconds": (
        "Newest event time of each joined log, seconds since the epoch. The slowest log holds back "
        "the others of its partition."
    ),
    "join_wait_start_timestamp_seconds": (
        "Since when the other logs wait for newer records of this log, seconds since the epoch. "
        "Meanwhile their records show as lag. Absent if none waits."
    ),
    "join_idle_timeouts_total": (
        "Number of times that the join stopped waiting for a log idle for idle_timeout."
    ),
    "checkpoint_last_success_timestamp_seconds": (
        "Time of the last checkpoint of this process, seconds since the epoch; absent before the "
        "first. time() minus this stays near the interval in [state]."
    ),
    "checkpoint_failures_total": (
        "Failed checkpoints, by the part that failed: store, dead_letters or timeout. The log has "
        "the reason."
    ),
    "checkpoint_offset": (
        "Offset at which reading resumes after a crash; all records before it are durable."
    ),
    "events_skipped_total": (
        'Offsets that on_retention = "skip" skipped because retention deleted them; they are in no '
        "metric."
    ),
    "commit_failures_total": (
        "Failed commits of the group's offsets; counters do not grow until a commit succeeds."
    ),
    "kafka_watchdog_recoveries_total": (
        "Recoveries, by step, from a consumer that made no progress although records waited."
    ),
    "kafka_connection_failures_total": (
        "Failed attempts to reach Kafka, by reason; an attempt follows a second after the last one "
        "failed. schema_registry: the registry does not give the schema of a record. /-/ready and "
        "the log have the remedy."
    ),
    "web_config_last_reload_successful": (
        "1 if the certificates and users that were read last are in use; 0 if they were rejected "
        "and the previous ones are in use."
    ),
    "web_config_last_reload_timestamp_seconds": (
        "When certificates and users were read last, seconds since the epoch."
    ),
}
"""Name of the samples without the prefix -> HELP; those that end in _total are counters."""


def memory_limit() -> PrometheusFamily:
    """The smallest limit of the process's control groups and of the machine; absent if unknown."""
    return scalar_family(
        "memory_limit_bytes", min((use.limit for use in memory_uses()), default=None)
    )


def operations(snapshot: Snapshot, *, lag: bool) -> Iterator[PrometheusFamily]:
    """Families about the pipeline, and the gauges of analyses.

    `lag`: whether to include lag and position, which only Kafka sources have.
    """
    health, partitions, stored = snapshot.health, snapshot.health.partitions, snapshot.stored
    yield scalar_family("events_consumed_total", health.consumed)
    yield _by("events_invalid_total", "reason", health.invalid)
    yield scalar_family("events_tombstone_total", health.tombstones)
    yield scalar_family("events_late_total", health.late)
    yield scalar_family("events_future_total", health.future)
    yield scalar_family("clock_jumps_total", health.clock_jumps)
    yield scalar_family("events_duplicate_total", health.duplicates)
    yield _by("events_folded", "family", health.folded)
    yield _by("compared_label_folded", "label", dict.fromkeys(health.folded_compared, 1))
    yield _by("config_unmatched", "key", dict.fromkeys(health.unmatched, 1))
    yield scalar_family("dlq_events_total", health.dead_lettered)
    yield _by("attributes_unknown_ratio", "attribute", health.unknown_items)
    yield _by_log("watermark_timestamp_seconds", [(at.log, at.event_time) for at in partitions])
    yield _by_log("clock_ahead_seconds", [(at.log, at.ahead or None) for at in partitions])
    yield scalar_family("ready", health.ready)
    yield count_undefined(snapshot)
    if lag:
        yield _by_log("kafka_consumer_lag", [(at.log, at.lag) for at in partitions])
        yield _by_log("kafka_consumer_position", [(at.log, at.position) for at in partitions])
    yield _by_log("stored_timestamp_seconds", [(at.log, at.written_at) for at in stored])
    yield _by_log("stored_newest", [(at.log, at.problem is None) for at in stored])
    if (join := health.join) is not None:
        outcomes = [
            ({"stream": stream.name, "outcome": outcome}, count)
            for stream in join.streams
            for outcome, count in sorted(stream.outcomes.items())
        ]
        yield family("join_records_total", outcomes)
        outside = [({"stream": stream.name}, stream.outside) for stream in join.streams[1:]]
        yield family("join_outside_total", outside)
        unnamed = {of.name: sum(of.unnamed_types.values()) for of in join.streams[1:]}
        yield _by("join_unnamed_types", "stream", unnamed)
        yield family(
            "join_open", [({"stream": stream.name}, stream.open) for stream in join.streams]
        )
        yield scalar_family("join_bytes", join.bytes)
        yield _by_log("join_log_timestamp_seconds", [(at.log, at.event_time) for at in join.clocks])
        yield _by_log(
            "join_wait_start_timestamp_seconds", [(at.log, at.since) for at in join.waits]
        )
        yield scalar_family("join_idle_timeouts_total", join.idle_timeouts)
    yield from analysis_families(snapshot.findings)
    if (checkpoint := health.checkpoint) is not None:
        yield scalar_family("checkpoint_last_success_timestamp_seconds", checkpoint.last_success)
        yield _by("checkpoint_failures_total", "reason", checkpoint.failures)
        yield _by_log("checkpoint_offset", [(at.log, at.durable) for at in partitions])
        yield scalar_family("events_skipped_total", checkpoint.skipped)
        yield scalar_family("commit_failures_total", checkpoint.commit_failures)
    yield _by("kafka_watchdog_recoveries_total", "step", health.recoveries)
    yield _by("kafka_connection_failures_total", "reason", health.connection_failures)
    if (reload := health.web_config) is not None:
        yield scalar_family("web_config_last_reload_successful", reload.successful)
        yield scalar_family("web_config_last_reload_timestamp_seconds", reload.at)


def analysis_families(findings: Iterable[Finding]) -> Iterator[PrometheusFamily]:
    """The gauges of the reports of analyses."""
    for analysis, report in findings:
        yield from gauge_families(analysis.gauges(report))


def count_undefined(snapshot: Snapshot) -> PrometheusFamily:
    """The number of values that their convention leaves undefined."""
    readings = [entry.reading for entry in snapshot.series]
    undefined = Counter(
        reading.metric for reading in readings if isinstance(reading, UndefinedReading)
    )
    return _by("readings_undefined", "metric", undefined)


def scalar_family(name: str, value: float | None) -> PrometheusFamily:
    """A family of one sample without labels; absent if it is unknown."""
    return family(name, [({}, value)])


def _by(name: str, label: str, values: Mapping[str, float]) -> PrometheusFamily:
    return family(name, [({label: key}, values[key]) for key in sorted(values)])


def _by_log(name: str, values: Iterable[tuple[Partition, float | None]]) -> PrometheusFamily:
    labels = [({"topic": of.topic, "partition": str(of.number)}, value) for of, value in values]
    return family(name, labels)


def family(
    name: str, samples: Iterable[tuple[Mapping[str, str], float | None]]
) -> PrometheusFamily:
    """A family of the samples whose values are known."""
    kind: FamilyKind = "counter" if name.endswith("_total") else "gauge"
    present = [(labels, float(value)) for labels, value in samples if value is not None]
    return pipeline_family(name.removesuffix("_total"), kind, _TEXTS[name], present)
