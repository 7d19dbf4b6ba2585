"""The responses of the JSON API; their docstrings are the descriptions in OpenAPI."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import msgspec

from streameval.catalogue.reading import Reading
from streameval.engine.analysis import installed
from streameval.engine.snapshot import Health, Series, SeriesFamily, Snapshot, StoredPartition
from streameval.exporters.page.definition import MetricDefinition, definition
from streameval.exporters.page.state import State, daemon_state
from streameval.exporters.view import Variants, comparison, differences
from streameval.statistics.kernel import KERNEL


class ReadingAnswer(Reading, frozen=True, kw_only=True):
    """One metric of one slice in one window.

    Attributes:
        labels: label name to value, including the segment's.
        segment: name of the segment that splits it besides the labels.
        window: span of event time such as 5m, or lifetime.
        since: event time from which the value is complete, seconds since the epoch; None: all
            history.
        estimate: whether it is an estimate for a policy that was not shown.
        problem: reason why the metric's convention does not define the value.
        difference: the value minus the control's; None for the control, and if either is undefined.
    """

    value: float | None  # type: ignore[assignment]  # JSON has no NaN
    labels: dict[str, str]
    segment: str | None
    window: str
    since: float | None
    estimate: bool
    problem: str | None
    difference: float | None


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
        stored_at: when the newest of the checkpoints was written whose values these are, seconds
            since the epoch; None if this process counts.
        stored: the checkpoint of each partition whose values these are; empty if this process
            counts.
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
    stored: Sequence[StoredPartition]
    metrics: list[ReadingAnswer]


@cache
def metrics_answer() -> type[Any]:
    """The type of `snapshot_answer`: values, answers of analyses, and the pipeline's health."""
    among = [analysis for analysis in installed() if not analysis.is_alone]
    texts = "".join(f"\n    {analysis.name}: {analysis.about}" for analysis in among)
    text = (
        "Every value, and the pipeline's health.\n\n"
        f"Attributes:{texts}\n    health: the pipeline's own counts.\n"
    )
    answer: type[Any] = msgspec.defstruct(
        "Metrics",
        [*((analysis.name, analysis.answers) for analysis in among), ("health", Health)],
        bases=(SnapshotAnswer,),
        namespace={"__doc__": text},
        frozen=True,
        kw_only=True,
    )
    return answer


def snapshot_answer(snapshot: Snapshot, status: State | None = None) -> SnapshotAnswer:
    """Everything in a snapshot; each number is the exact double."""
    fields = {
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
        state=status or daemon_state(snapshot, healthy=True),
        families=snapshot.families,
        comparison=comparison(snapshot),
        stored_at=snapshot.stored_at,
        stored=snapshot.stored,
        metrics=[
            _reading(snapshot, entry, difference)
            for entry, difference in zip(snapshot.series, differences(snapshot), strict=True)
        ],
        **fields,
        health=snapshot.health,
    )
    return answer


def _reading(snapshot: Snapshot, entry: Series, difference: float | None) -> ReadingAnswer:
    reading = entry.reading
    evidence: dict[str, Any] = {"problem": None} | msgspec.structs.asdict(reading)
    evidence["value"] = reading.value if reading.defined else None
    return ReadingAnswer(
        **evidence,
        labels=snapshot.labels_of(entry),
        segment=snapshot.families[entry.family].segment,
        window=entry.window,
        since=entry.since,
        estimate=entry.metric.definition.estimates_policy,
        difference=difference,
    )


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The definitions of all metrics of the snapshot.

    Attributes:
        metrics: definitions in the order of the snapshot.
    """

    metrics: list[MetricDefinition]


def definitions(snapshot: Snapshot) -> Catalogue:
    """The definition of every metric of a snapshot, in its order."""
    metrics = dict.fromkeys(entry.metric for entry in snapshot.series)
    return Catalogue(metrics=[definition(metric) for metric in metrics])
