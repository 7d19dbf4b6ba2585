"""What readers see: one immutable picture of all readings and of the pipeline's health."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streameval.metric import Metric
from streameval.reading import Reading
from streameval.records import Partition


class Series(msgspec.Struct, frozen=True):
    """One metric of one slice.

    Attributes:
        metric: which metric.
        labels: the slice's label values, in the order of `Snapshot.label_names`.
        reading: its value with evidence; may be undefined (NaN).
    """

    metric: Metric
    labels: tuple[str, ...]
    reading: Reading


class PartitionHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How far one partition has been read.

    Attributes:
        partition: which one.
        position: next offset to be read.
        end: offset after its last record as last known; None where unknown.
        event_time: largest event time so far, microseconds since the epoch; None where unknown.
    """

    partition: Partition
    position: int
    end: int | None
    event_time: int | None

    @property
    def lag(self) -> int | None:
        """Records not read yet; None where unknown."""
        return None if self.end is None else max(0, self.end - self.position)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline's own counts since the process started.

    Attributes:
        consumed: records read, whatever became of them.
        valid: records that became events.
        invalid: records that did not, by reason; every known reason is present, at 0 or more.
        tombstones: records without a value.
        partitions: one entry per partition.
        ready: whether the source answers and reading has begun.
        trouble: one sentence why not, or about what a person should look at; else None.
    """

    consumed: int
    valid: int
    invalid: Mapping[str, int]
    tombstones: int
    partitions: tuple[PartitionHealth, ...]
    ready: bool
    trouble: str | None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All readings at one moment; never changed once published.

    Attributes:
        version: grows by one with each snapshot; equal versions are the same snapshot.
        taken_at: wall-clock seconds since the epoch, from the injected clock.
        started_at: the same, of the process: every value is "since start".
        source: what is being read.
        label_names: names of the labels on every series.
        series: sorted by metric as configured, then by labels.
        health: the pipeline's own counts.
    """

    version: int
    taken_at: float
    started_at: float
    source: str
    label_names: tuple[str, ...]
    series: tuple[Series, ...]
    health: Health
