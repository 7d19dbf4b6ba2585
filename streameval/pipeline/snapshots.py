"""Takes pictures of what was counted, for readers that never touch live state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from streameval.aggregation.time import SECOND, span_text
from streameval.pipeline.circumstances import Circumstances
from streameval.pipeline.history import History
from streameval.pipeline.ingest import Ingest
from streameval.pipeline.partition import Progress
from streameval.pipeline.readable import Beginnings, Readable
from streameval.pipeline.snapshot import (
    LIFETIME,
    Counted,
    CountedKey,
    Health,
    PartitionHealth,
    Series,
    SeriesFamily,
    Snapshot,
)
from streameval.records import Partition

R = TypeVar("R", bound=Readable)
Key = tuple[str, str, tuple[str, ...]]


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
        labels: names of the labels; a dimension that is none of them is a segment.
        started_at: wall-clock seconds since the epoch at which counting began.
        idle: label values without an event for longer are left out, microseconds of event time;
            None keeps them all.
        version: of the snapshot before the first one.

    Attributes:
        started_at: as given.
        version: of the last snapshot.
    """

    def __init__(
        self,
        ingest: Ingest[R],
        *,
        source: str,
        labels: Sequence[str],
        started_at: float,
        idle: int | None = None,
        version: int = 0,
    ) -> None:
        self._ingest = ingest
        self._source = source
        self.started_at = started_at
        self._idle = idle
        self.version = version
        self._reads: dict[Key, _Read] = {}
        self._asleep: set[tuple[int, tuple[str, ...]]] = set()
        spans = {span for spec in ingest.layout.families for span in spec.spans}
        self._spans = {span_text(span): span for span in spans}
        self._families = tuple(
            SeriesFamily(
                spec.name,
                _segment(spec.dimensions, labels),
                tuple(spec.dimensions),
                tuple(map(span_text, spec.spans)),
            )
            for spec in ingest.layout.families
        )
        self._history = History([ingest.views[spec.name] for spec in ingest.layout.families])

    def take(self, now: float, around: Circumstances) -> Snapshot:
        """All readings at this moment.

        Args:
            now: wall-clock seconds since the epoch.
            around: what only the caller can know.
        """
        before, self._reads = self._reads, {}
        self._asleep.clear()
        series = tuple(self._series(before))
        self.version += 1
        return Snapshot(
            version=self.version,
            taken_at=now,
            started_at=self.started_at,
            source=self._source,
            families=self._families,
            series=series,
            health=self._health(around),
            counted=self._awake(around.counted),
            past=self._history.take(now, self._ingest.clock, series),
        )

    def _series(self, before: Mapping[Key, _Read]) -> Iterator[Series]:
        for index, family in enumerate(self._families):
            begun = self._beginnings(family.name)
            reads = [
                self._read((family.name, window, labels), index, whole, before)
                for window, labels, whole in self._slices(index, family.name)
            ]
            for one_metric in zip(*(read.series for read in reads), strict=True):
                for each, read in zip(one_metric, reads, strict=True):
                    yield self._dated(each, read, begun) if begun else each

    def _beginnings(self, family: str) -> Beginnings:
        states = self._ingest.partitions.values()
        return Beginnings(family, [state.since for state in states])

    def _dated(self, series: Series, read: _Read, begun: Beginnings) -> Series:
        """The series with the moment from which on it is complete."""
        needs = read.accumulator.needs(series.metric)
        if series.window == LIFETIME:
            moment = begun.of(needs)
        else:
            span = self._spans[series.window]
            moment = begun.of_window(needs, (self._ingest.clock or 0) - span)
        if moment is None:
            return series
        return msgspec.structs.replace(series, since=moment / SECOND)

    def _slices(self, index: int, name: str) -> Iterator[tuple[str, tuple[str, ...], R]]:
        """Windows and lifetime of each slice, by its labels; lifetime last."""
        view, clock = self._ingest.views[name], self._ingest.clock
        found: dict[tuple[str, ...], list[tuple[str, R]]] = {}
        for span in view.spec.spans:
            for labels, whole in [] if clock is None else view.window(span, clock):
                found.setdefault(labels, []).append((span_text(span), whole))
        for labels, whole in view.lifetime():
            found.setdefault(labels, []).append((LIFETIME, whole))
        seen = view.seen()
        for labels in sorted(found):
            if self._is_idle(seen.get(labels), clock):
                self._asleep.add((index, labels))
            else:
                yield from ((window, labels, whole) for window, whole in found[labels])

    def _awake(
        self, counted: Mapping[CountedKey, Counted] | None
    ) -> Mapping[CountedKey, Counted] | None:
        """Counters leave together with the other values of their labels."""
        if counted is None or not self._asleep:
            return counted
        return {key: pair for key, pair in counted.items() if key[:2] not in self._asleep}

    def _is_idle(self, seen: int | None, clock: int | None) -> bool:
        if seen is None or clock is None or self._idle is None:
            return False
        return clock - seen > self._idle

    def _read(self, key: Key, family: int, whole: R, before: Mapping[Key, _Read]) -> _Read:
        known = before.get(key)
        if known is None or known.accumulator is not whole or known.version != whole.version:
            _, window, labels = key
            series = tuple(
                Series(metric, labels, whole.read(metric.text), window, family)
                for metric in whole.metrics
            )
            known = _Read(whole, whole.version, series, whole.advice())
        self._reads[key] = known
        return known

    def _advice(self) -> str | None:
        names = {family.name: family.label_names for family in self._families}
        for (family, _, labels), read in self._reads.items():
            if read.advice is not None:
                pairs = zip(names[family], labels, strict=True)
                where = ", ".join(f"{name}={value}" for name, value in pairs)
                return f"{where}: {read.advice}" if where else read.advice
        return None

    def _health(self, around: Circumstances) -> Health:
        tally, layout = self._ingest.tally, self._ingest.layout
        progress = sorted(self._ingest.progress.items())
        timed = any(each.clock is not None for _, each in progress)
        return Health(
            consumed=tally.consumed,
            valid=tally.valid,
            invalid=dict(tally.invalid),
            tombstones=tally.tombstones,
            partitions=tuple(
                _partition(name, each, around.ends.get(name)) for name, each in progress
            ),
            ready=around.ready,
            trouble=around.trouble or tally.suspicion() or self._advice(),
            late=tally.late if timed else None,
            future=tally.future if timed else None,
            duplicates=tally.duplicates if layout.dedup or tally.duplicates else None,
            folded=self._folded(),
            dead_lettered=around.dead_lettered,
            commit_failures=around.commit_failures,
            recoveries=around.recoveries,
            checkpoint=around.checkpoint,
            reload=around.reload,
            join=around.join,
        )

    def _folded(self) -> dict[str, int]:
        """Events under `__other__` where a family folds the most: each event stands in all."""
        return {
            name: max(view.folded().values(), default=0)
            for name, view in self._ingest.views.items()
        }


def _segment(dimensions: Sequence[str], labels: Sequence[str]) -> str | None:
    return next((name for name in dimensions if name not in labels), None)


def _partition(name: Partition, found: Progress, end: int | None) -> PartitionHealth:
    return PartitionHealth(partition=name, position=found.position, end=end, event_time=found.clock)
