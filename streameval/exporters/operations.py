"""The pipeline's own health as families of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streameval.exporters.families import Family, own_family
from streameval.exporters.joining import joining
from streameval.exporters.keeping import keeping, place, special_counts
from streameval.pipeline.snapshot import Health, PartitionHealth, Snapshot
from streameval.reading import UndefinedReading

_MICROSECONDS = 1_000_000


def build_information(version: str) -> Family:
    """The constant 1 that carries the release as a label."""
    text = "The release that answers, as a label of the constant 1."
    return own_family("build_info", "gauge", text, [({"version": version}, 1.0)])


def operations(snapshot: Snapshot, *, lag: bool) -> list[Family]:
    """Everything about the pipeline rather than the recommender.

    Args:
        snapshot: what is shown.
        lag: whether the source is a Kafka cluster, whose lag means something.
    """
    health = snapshot.health
    families = [*_counts(health), *special_counts(health), _event_time(health.partitions)]
    families += [_taken(snapshot), _ready(health), refused(snapshot)]
    if lag:
        families.append(_lag(health.partitions))
    if health.join is not None:
        families.extend(joining(health.join))
    return [*families, *keeping(health)]


def _counts(health: Health) -> list[Family]:
    return [
        own_family(
            "events_consumed",
            "counter",
            "Records read since the process started, whatever became of them. "
            "A rate of 0 while the lag grows means that reading is stuck.",
            [({}, health.consumed)],
        ),
        own_family(
            "events_invalid",
            "counter",
            "Records that are no valid event, by reason, since the process started; they are in "
            "no metric. Alert on its share of streameval_events_consumed_total.",
            [({"reason": reason}, count) for reason, count in sorted(health.invalid.items())],
        ),
        own_family(
            "events_tombstone",
            "counter",
            "Records without a value (deletions in a compacted topic) since the process started; "
            "they are in no metric.",
            [({}, health.tombstones)],
        ),
    ]


def _event_time(partitions: Iterable[PartitionHealth]) -> Family:
    return own_family(
        "watermark_timestamp_seconds",
        "gauge",
        "Largest event time read so far, seconds since the epoch; absent where events carry no "
        "time. time() minus this is how far behind live the values are.",
        [
            (place(partition.partition), partition.event_time / _MICROSECONDS)
            for partition in partitions
            if partition.event_time is not None
        ],
    )


def _lag(partitions: Iterable[PartitionHealth]) -> Family:
    return own_family(
        "kafka_consumer_lag",
        "gauge",
        "Records between the position of reading and the end of the partition; absent while the "
        "end is not known. It should return to near 0 after every restart.",
        [(place(entry.partition), entry.lag) for entry in partitions if entry.lag is not None],
    )


def _taken(snapshot: Snapshot) -> Family:
    return own_family(
        "snapshot_timestamp_seconds",
        "gauge",
        "When the values on this page were read from the pipeline, seconds since the epoch. "
        "time() minus this stays near 1 s while the pipeline turns.",
        [({}, snapshot.taken_at)],
    )


def _ready(health: Health) -> Family:
    return own_family(
        "ready",
        "gauge",
        "Whether the source has answered and reading has begun, as /-/ready says; 0 where it has "
        "not, or has ended.",
        [({}, float(health.ready))],
    )


def refused(snapshot: Snapshot) -> Family:
    """How many values a convention does not have."""
    readings = [entry.reading for entry in snapshot.series]
    refused = Counter(each.metric for each in readings if isinstance(each, UndefinedReading))
    return own_family(
        "readings_undefined",
        "gauge",
        "Values that are left out because the metric's convention has none for these lists, over "
        "all labels and windows; /api/v1/metrics says why. Absent where there are none.",
        [({"metric": metric}, count) for metric, count in sorted(refused.items())],
    )
