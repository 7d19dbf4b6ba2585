"""The responses of the JSON API; their docstrings are the descriptions in OpenAPI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal, get_type_hints

import msgspec

from streameval.catalogue.reading import Count, Reading, UndefinedReading
from streameval.engine import snapshot as engine
from streameval.engine.analysis import installed
from streameval.engine.snapshot import Series, SeriesFamily, Snapshot
from streameval.exporters.page.definition import MetricDefinition, definition
from streameval.exporters.page.state import State, state
from streameval.exporters.view import Variants, comparison, differences
from streameval.statistics.kernel import KERNEL


def _reading_fields() -> Iterator[tuple[str, Any]]:
    """The attributes of a reading, and beside them those of its series."""
    beside: dict[str, dict[str, Any]] = {
        "metric": {
            "labels": dict[str, str],
            "segment": str | None,
            "window": str,
            "since": float | None,
        },
        "no_interval": {"estimate": bool},
    }
    for name, kind in get_type_hints(Reading, include_extras=True).items():
        yield name, float | None if name == "value" else kind
        yield from beside.get(name, {}).items()
    yield from {"problem": str | None, "difference": float | None}.items()


class ReadingAnswer(
    msgspec.defstruct(  # type: ignore[misc]  # its attributes are those of Reading
        "ReadingFields",
        _reading_fields(),
        namespace={"__doc__": Reading.__doc__},
        frozen=True,
        kw_only=True,
    )
):
    """One metric of one slice in one window.

    Attributes:
        labels: label name to value, including the segment's.
        segment: name of the segment that splits it besides the labels.
        window: span of event time such as 5m, or lifetime.
        since: event time from which the value is complete, seconds since the epoch; None: all
            history.
        value: the value; None without evidence, never 0.
        count: denominator of the mean.
        total: numerator of the mean; None if the metric is not a mean.
        low: lower bound of an inexact value.
        high: upper bound of an inexact value.
        interval: confidence interval of the mean; None without intervals.
        estimate: whether it is an estimate for a policy that was not shown.
        verdict: side of the metric's reference on which the value is, such as "b preferred"; else
            None.
        note: what must be said beside the value, such as the share of clipped lists; else None.
        problem: reason why the metric's convention does not define the value.
        difference: the value minus the control's; None for the control, and if either is undefined.
    """


class PartitionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one partition.

    Attributes:
        topic: topic, or path of a file.
        partition: number of the partition.
        position: next offset to be read.
        end: offset after the last record; None while unknown.
        lag: records not read yet.
        durable: next offset to be counted after a crash; None without [state].
        event_time: largest event time so far (the watermark), seconds since the epoch.
    """

    topic: str
    partition: int
    position: int
    end: int | None
    lag: Count | None
    durable: int | None
    event_time: float | None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The health of checkpoints.

    Attributes:
        last_success: time of the last checkpoint, seconds since the epoch.
        failures: failed checkpoints.
        commit_failures: failed commits of offsets.
        skipped: offsets that retention deleted before they were counted.
    """

    last_success: float | None
    failures: int
    commit_failures: int
    skipped: int


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the join.

    Attributes:
        bytes: approximate memory of waiting records.
        idle_timeouts: number of times that the join stopped waiting for an idle log.
        streams: the streams, impressions first.
    """

    bytes: int
    idle_timeouts: int
    streams: Sequence[engine.StreamHealth]


class HealthAnswer(engine.PipelineCounts, frozen=True, kw_only=True):
    """The pipeline's own counts since the process started.

    Attributes:
        checkpoint: the health of checkpoints; None without [state].
        join: the health of the join; None without [attribution].
        partitions: the progress of each partition.
    """

    checkpoint: Checkpoint | None
    join: Join | None
    partitions: list[PartitionAnswer]


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Every value of a snapshot.

    Attributes:
        source: name of the source.
        started_at: start of the process, seconds since the epoch.
        taken_at: time of the snapshot, seconds since the epoch.
        version: number of the snapshot; grows by one.
        kernel: what matches lists with interactions, compiled or python; the values are the same.
        state: the state of the daemon in one sentence.
        families: families of series; those without a segment first.
        comparison: label and control of the comparison; None with fewer than two variants. The
            control is None if no variant is one.
        stored_at: when the checkpoints were written whose values these are, while the source has
            not assigned partitions yet, seconds since the epoch; None otherwise.
        metrics: one for each metric, slice and window.
    """

    source: str
    started_at: float
    taken_at: float
    version: int
    kernel: Literal["compiled", "python"]
    state: State
    families: Sequence[SeriesFamily]
    comparison: Variants | None
    stored_at: float | None
    metrics: list[ReadingAnswer]


@cache
def metrics_answer() -> type[Any]:
    """The type of `metrics`: the values, the answers of analyses, and the pipeline's health."""
    among = [analysis for analysis in installed() if not analysis.is_alone]
    texts = "".join(f"\n    {analysis.name}: {analysis.about}" for analysis in among)
    text = (
        "Every value, and the pipeline's health.\n\n"
        f"Attributes:{texts}\n    health: the pipeline's own counts.\n"
    )
    answer: type[Any] = msgspec.defstruct(
        "Metrics",
        [*((analysis.name, analysis.answers) for analysis in among), ("health", HealthAnswer)],
        bases=(SnapshotAnswer,),
        namespace={"__doc__": text},
        frozen=True,
        kw_only=True,
    )
    return answer


def metrics(snapshot: Snapshot, status: State | None = None) -> SnapshotAnswer:
    """Everything in a snapshot; each number is the exact double."""
    found = {
        analysis.name: analysis.answer(analysis.report_in(snapshot.findings))
        for analysis in installed()
        if not analysis.is_alone
    }
    answer: SnapshotAnswer = metrics_answer()(
        source=snapshot.source,
        started_at=snapshot.started_at,
        taken_at=snapshot.taken_at,
        version=snapshot.version,
        kernel=KERNEL,
        state=status or state(snapshot, healthy=True),
        families=snapshot.families,
        comparison=comparison(snapshot),
        stored_at=snapshot.stored_at,
        metrics=[
            _reading(entry, snapshot.families[entry.family], difference)
            for entry, difference in zip(snapshot.series, differences(snapshot), strict=True)
        ],
        **found,
        health=_health(snapshot.health),
    )
    return answer


def _reading(entry: Series, family: SeriesFamily, difference: float | None) -> ReadingAnswer:
    reading = entry.reading
    evidence = {
        name: getattr(reading, name) for name in Reading.__struct_fields__ if name != "value"
    }
    return ReadingAnswer(
        **evidence,
        labels=dict(zip(family.label_names, entry.labels, strict=True)),
        segment=family.segment,
        window=entry.window,
        since=entry.since,
        value=reading.value if reading.defined else None,
        estimate=entry.metric.definition.estimates_policy,
        problem=reading.problem if isinstance(reading, UndefinedReading) else None,
        difference=difference,
    )


def _health(health: engine.Health) -> HealthAnswer:
    saved, join = health.checkpoint, health.join
    fields = {name: getattr(health, name) for name in HealthAnswer.__struct_fields__}
    if saved is not None:
        fields["checkpoint"] = Checkpoint(
            last_success=saved.last_success,
            failures=sum(saved.failures.values()),
            commit_failures=health.commit_failures,
            skipped=saved.skipped,
        )
    if join is not None:
        fields["join"] = Join(
            bytes=join.bytes, idle_timeouts=join.idle_timeouts, streams=join.streams
        )
    fields["partitions"] = [_partition(partition, saved) for partition in health.partitions]
    return HealthAnswer(**fields)


def _partition(
    entry: engine.PartitionHealth, saved: engine.CheckpointHealth | None
) -> PartitionAnswer:
    return PartitionAnswer(
        topic=entry.partition.topic,
        partition=entry.partition.number,
        position=entry.position,
        end=entry.end,
        lag=entry.lag,
        durable=None if saved is None else saved.offsets.get(entry.partition),
        event_time=None if entry.event_time is None else entry.event_time / 1_000_000,
    )


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The definitions of all metrics of the snapshot.

    Attributes:
        metrics: definitions in the order of the snapshot.
    """

    metrics: list[MetricDefinition]


def catalogue(snapshot: Snapshot) -> Catalogue:
    """The definition of every metric of a snapshot, in its order."""
    shown = dict.fromkeys(entry.metric for entry in snapshot.series)
    return Catalogue(metrics=[definition(shown_metric) for shown_metric in shown])
