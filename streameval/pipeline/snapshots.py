"""Takes pictures of what was counted, for readers that never touch live state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from streameval.aggregation.slices import Mergeable
from streameval.metric import Metric
from streameval.pipeline.ingest import Ingest, PartitionState
from streameval.pipeline.snapshot import Health, PartitionHealth, Series, SeriesFamily, Snapshot
from streameval.reading import Reading
from streameval.records import Partition


class Readable(Mergeable, Protocol):
    """An accumulator of which readings are taken."""

    metrics: tuple[Metric, ...]

    def read(self, metric: str) -> Reading:
        """One metric now."""

    def advice(self) -> str | None:
        """One sentence about what looks wrong with the events, if anything does."""


R = TypeVar("R", bound=Readable)


class _Read(NamedTuple):
    accumulator: Readable
    version: int
    series: tuple[Series, ...]
    advice: str | None


class Snapshots(Generic[R]):
    """Takes snapshots of an ingest; a slice that has not changed is not read again.

    Args:
        ingest: whose counts are read.
        source: what is being read, for a person.
        label_names: names of the labels of every slice.
        started_at: wall-clock seconds since the epoch at which counting began.
    """

    def __init__(
        self,
        ingest: Ingest[R],
        *,
        source: str,
        label_names: Sequence[str],
        started_at: float,
    ) -> None:
        self._ingest = ingest
        self._source = source
        self._label_names = tuple(label_names)
        self._started_at = started_at
        self._version = 0
        self._reads: dict[tuple[str, ...], _Read] = {}

    def take(
        self,
        *,
        now: float,
        ends: Mapping[Partition, int],
        ready: bool,
        trouble: str | None = None,
    ) -> Snapshot:
        """All readings at this moment.

        Args:
            now: wall-clock seconds since the epoch.
            ends: for each partition, the offset after its last record, as far as known.
            ready: whether the source answers and reading has begun.
            trouble: one sentence while the source is in trouble; an accumulator's advice
                stands in its place otherwise.
        """
        self._reads = {labels: self._read(labels, whole) for labels, whole in self._ingest.merged()}
        self._version += 1
        return Snapshot(
            version=self._version,
            taken_at=now,
            started_at=self._started_at,
            source=self._source,
            families=(SeriesFamily("labels", None, self._label_names),),
            series=tuple(self._series()),
            health=self._health(ends, ready=ready, trouble=trouble or self._advice()),
        )

    def _read(self, labels: tuple[str, ...], whole: R) -> _Read:
        known = self._reads.get(labels)
        if known and known.accumulator is whole and known.version == whole.version:
            return known
        readings = ((metric, whole.read(metric.text)) for metric in whole.metrics)
        series = tuple(Series(metric, labels, reading) for metric, reading in readings)
        return _Read(whole, whole.version, series, whole.advice())

    def _series(self) -> Iterator[Series]:
        for one_metric in zip(*(read.series for read in self._reads.values()), strict=True):
            yield from one_metric

    def _advice(self) -> str | None:
        for labels, read in self._reads.items():
            if read.advice is not None:
                pairs = zip(self._label_names, labels, strict=True)
                where = ", ".join(f"{name}={value}" for name, value in pairs)
                return f"{where}: {read.advice}" if where else read.advice
        return None

    def _health(self, ends: Mapping[Partition, int], *, ready: bool, trouble: str | None) -> Health:
        tally = self._ingest.tally
        states = sorted(self._ingest.partitions.items())
        return Health(
            consumed=tally.consumed,
            valid=tally.valid,
            invalid=dict(tally.invalid),
            tombstones=tally.tombstones,
            partitions=tuple(_partition(name, state, ends.get(name)) for name, state in states),
            ready=ready,
            trouble=trouble,
        )


def _partition(name: Partition, state: PartitionState[R], end: int | None) -> PartitionHealth:
    return PartitionHealth(
        partition=name, position=state.position, end=end, event_time=state.event_time
    )
