"""Takes snapshots from copies of the counts; readers never touch live state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from streameval.accumulator.count_checks import cell_advice
from streameval.accumulator.event_checks import DataQualityWarning
from streameval.accumulator.reading_intervals import interval_method
from streameval.accumulator.readings import readings_of, statistic_names
from streameval.accumulator.table import Table
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.analysis import (
    Finding,
    Moment,
    ReaderContext,
    UnreadPartitions,
    WindowCounts,
)
from streameval.engine.first_records import Unmatched
from streameval.engine.history import HistoryReader
from streameval.engine.ingest import Ingest, IngestCopy
from streameval.engine.partition import ALL, PANES, Layout
from streameval.engine.snapshot import (
    LIFETIME,
    CounterKey,
    CounterValue,
    Health,
    JoinHealth,
    PartitionHealth,
    Series,
    SeriesFamily,
    Snapshot,
    StoredPartition,
)
from streameval.engine.windows.labels import OTHER, Labels, segment_of
from streameval.engine.windows.times import HOUR, SECOND, span_text
from streameval.engine.windows.views import FamilyView, SliceTable
from streameval.events.records import Partition


class RuntimeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of the process around the counts.

    Attributes:
        health: without the fields that come from the counts.
        ends: offset after the last record of each partition, as far as known.
        durable: offset at which each partition would resume after a crash, if it was saved.
        counted: durable evidence; None without checkpoints.
        unread: the partitions whose users are missing.
        unmatched: names of the configuration that the first records do not have.
        stored: the partitions whose checkpoints are read; empty if the process counts.
    """

    health: Health = Health()
    ends: Mapping[Partition, int] = {}
    durable: Mapping[Partition, int] = {}
    counted: Mapping[CounterKey, CounterValue] | None = None
    unread: UnreadPartitions = UnreadPartitions()
    unmatched: tuple[Unmatched, ...] = ()
    stored: tuple[StoredPartition, ...] = ()


class ReadingClock:
    """The event time at which windows are read: the largest clock of all partitions.

    A clock too far ahead of the wall clock is replaced by the wall clock, so that no partition
    alone can empty the windows of the others.

    `max_ahead`: the distance from which on, microseconds; None never replaces one, as in a replay.

    Attributes:
        time: microseconds since the epoch; None if unknown.
        ahead: log with a replaced clock -> its distance ahead of the wall clock, microseconds.
        jumps: number of times that a clock got too far ahead; None without `max_ahead`.
    """

    def __init__(self, max_ahead: int | None) -> None:
        self._max_ahead = max_ahead
        self.time: int | None = None
        self.ahead: Mapping[Partition, int] = {}
        self.jumps = None if max_ahead is None else 0

    def advance(self, counts: IngestCopy, now: float) -> None:
        """Move to the event time of these counts; `now`: wall clock, seconds since the epoch."""
        wall = round(now * SECOND)
        self.time = counts.clock
        if self._max_ahead is None or self.jumps is None or counts.clock is None:
            return
        latest = wall + self._max_ahead
        before = self.ahead
        self.ahead = {log: clock - wall for log, clock in counts.clocks.items() if clock > latest}
        self.jumps += len(self.ahead.keys() - before.keys())
        clocks = counts.clocks.values() or [counts.clock]
        self.time = max(wall if clock > latest else clock for clock in clocks)

    def warning(self) -> str | None:
        """A warning about the log that is ahead most, or None."""
        if not self.ahead:
            return None
        log = max(self.ahead, key=lambda log: self.ahead[log])
        unit = HOUR if self.ahead[log] >= HOUR else SECOND
        ahead = span_text(self.ahead[log] // unit * unit)
        return (
            f"{log}: its clock is {ahead} ahead of this machine's, "
            "so windows end at this machine's clock, and events of this partition with correct "
            "times are late; to recover, see StreamevalClockAhead in the runbook"
        )


class _WindowReadings(NamedTuple):
    """The readings of one window of one family.

    Attributes:
        table: the counts; the same object until they change.
        since: event time from which on each metric is complete, seconds; None if it always was.
        warning: label values, and a warning about their events.
    """

    table: Table
    since: tuple[float | None, ...]
    rows: Mapping[int, Sequence[Series]]
    warning: tuple[Labels, DataQualityWarning] | None


class SnapshotCapture:
    """Takes snapshots; reads only windows that changed. Not safe on several threads.

    `idle`: event time after which label values without events are left out, microseconds; None
    retains all. `unit_warning`: a warning about the newest event time, or None. `max_ahead`: see
    `ReadingClock`.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        source: str,
        labels: Sequence[str],
        started_at: float,
        idle: int | None = None,
        unit_warning: Callable[[int], str | None] = lambda _: None,
        max_ahead: int | None = None,
    ) -> None:
        self.started_at = started_at
        self.version = 0
        self._layout = layout
        self._source = source
        self._idle, self._unit_warning = idle, unit_warning
        self._clock = ReadingClock(max_ahead)
        self._views = [FamilyView(spec, layout.windowing.pane) for spec in layout.families]
        self._families = tuple(
            SeriesFamily(
                spec.name,
                segment_of(spec.dimensions, labels),
                tuple(spec.dimensions),
                (*map(layout.windowing.name, spec.spans), LIFETIME),
            )
            for spec in layout.families
        )
        self._lifetime_method = interval_method(layout.intervals, "anytime")
        self._window_method = interval_method(layout.intervals, "pointwise")
        self._reads: dict[tuple[int, str], _WindowReadings] = {}
        # Labels whose values are compared: folded values of others are only logged.
        segments = (set(spec.dimensions) - {*labels} for spec in layout.families)
        self._compared = {
            entry.label
            for analysis, settings in layout.analyses
            for entry in analysis.expects(settings)
        }.union(*segments)
        self._history = HistoryReader(self._views, layout.windowing.name)
        context = ReaderContext(self._views, labels, layout.intervals, layout.windowing.lateness)
        made = [
            (analysis, analysis.reader(settings, context)) for analysis, settings in layout.analyses
        ]
        self._readers = [(analysis, reader) for analysis, reader in made if reader is not None]

    def take(self, counts: IngestCopy, now: float, status: RuntimeStatus) -> Snapshot:
        """Read all series of the counts."""
        for view, spec in zip(self._views, self._layout.families, strict=True):
            view.refresh(counts.families[spec.name])
        self._clock.advance(counts, now)
        clock = self._clock.time
        idle = [frozenset[int]() for _ in self._views]
        if clock is not None and self._idle is not None:
            earliest = clock - self._idle
            idle = [
                frozenset(
                    number
                    for number, latest in view.latest().items()
                    if latest is not None and latest < earliest
                )
                for view in self._views
            ]
        series = tuple(
            series_
            for index, hidden in enumerate(idle)
            for series_ in self._series(index, hidden, counts.since, clock)
        )
        self.version += 1
        unmatched = [entry for entry in status.unmatched if not self._is_counted(entry)]
        warning = self._most_urgent_warning(counts, status.health, unmatched)
        return Snapshot(
            version=self.version,
            taken_at=now,
            started_at=self.started_at,
            source=self._source,
            families=self._families,
            series=series,
            health=msgspec.structs.replace(
                self._health(counts, status, warning),
                unmatched={entry.key: entry.text for entry in unmatched},
            ),
            about=() if warning is None else warning.about,
            counted=self._visible_counters(status.counted, idle),
            stored=status.stored,
            past=self._history.take(now, clock, series),
            findings=tuple(self._findings(counts, now, clock, status.unread)),
        )

    def _findings(
        self, counts: IngestCopy, now: float, clock: int | None, unread: UnreadPartitions
    ) -> Iterator[Finding]:
        windows = [
            WindowCounts(self._views[index], window, read.table)
            for (index, window), read in self._reads.items()
        ]
        times = {} if clock is None else {log: min(at, clock) for log, at in counts.times.items()}
        moment = Moment(now, clock, times, counts.clocks.keys(), unread, windows)
        for analysis, reader in self._readers:
            report = reader.read(moment)
            if report is not None:
                yield Finding(analysis, report)

    def _series(
        self,
        index: int,
        hidden: frozenset[int],
        since: Iterable[Mapping[str, int]],
        clock: int | None,
    ) -> Iterator[Series]:
        """All series: by metric, then by label values, then by window; lifetime last."""
        view, added = self._views[index], dict[str, int]()
        for of_partition in since:
            for key, added_at in of_partition.items():
                family, _, name = key.partition(":")
                if family == view.spec.name:
                    added[name] = max(added_at, added.get(name, added_at))
        spans = () if clock is None else view.spec.spans
        reads = [self._read(index, span, added, clock) for span in (*spans, None)]
        slices = view.in_order({row for read in reads for row in read.rows} - hidden)
        for index_of_metric in range(len(view.spec.metrics)):
            for number in slices:
                for read in reads:
                    if number in read.rows:
                        yield read.rows[number][index_of_metric]

    def _read(
        self, index: int, span: int | None, added: Mapping[str, int], clock: int | None
    ) -> _WindowReadings:
        view = self._views[index]
        if span is None or clock is None:
            table, start = view.lifetime(), None
        else:
            table, start = view.window(span, clock), clock - span
        since = tuple(
            _complete_since(added, statistic_names(metric, table), start)
            for metric in view.spec.metrics
        )
        window = LIFETIME if span is None else self._layout.windowing.name(span)
        cached = self._reads.get((index, window))
        if cached is None or cached.table is not table or cached.since != since:
            cached = _WindowReadings(
                table,
                since,
                self._rows(index, window, table, since),
                _first_warning(view, table, since),
            )
            self._reads[index, window] = cached
        return cached

    def _rows(
        self, index: int, window: str, table: Table, since: Sequence[float | None]
    ) -> Mapping[int, Sequence[Series]]:
        view = self._views[index]
        slices = view.slices(table)
        numbers = slices.tolist()
        rows: dict[int, list[Series]] = {number: [] for number in numbers}
        method = self._lifetime_method if window == LIFETIME else self._window_method
        for metric, complete_since in zip(view.spec.metrics, since, strict=True):
            readings = readings_of(metric, table, slices, method)
            for number, reading in zip(numbers, readings, strict=True):
                labels = view.labels(number)
                rows[number].append(Series(metric, labels, reading, window, index, complete_since))
        return rows

    def _visible_counters(
        self,
        counted: Mapping[CounterKey, CounterValue] | None,
        idle: Sequence[frozenset[int]],
    ) -> Mapping[CounterKey, CounterValue] | None:
        """The counters without those of idle label values, which have no series either."""
        hidden = {
            (index, view.labels(number))
            for index, (view, numbers) in enumerate(zip(self._views, idle, strict=True))
            for number in numbers
        }
        if counted is None or not hidden:
            return counted
        return {key: pair for key, pair in counted.items() if key[:2] not in hidden}

    def _is_counted(self, unmatched: Unmatched) -> bool:
        """True if lists with the label or its value have been counted, if it names one."""
        if unmatched.is_later:
            return False
        name, value = unmatched.label, unmatched.value
        for view in self._views:
            if name in view.spec.dimensions:
                column = view.spec.dimensions.index(name)
                values = {view.labels(number)[column] for number in view.latest()}
                return value in values if value is not None else values > {MISSING_LABEL}
        return False

    def _most_urgent_warning(
        self, counts: IngestCopy, health: Health, unmatched: Sequence[Unmatched]
    ) -> DataQualityWarning | None:
        """The most urgent warning; None if the process itself has a problem."""
        if health.trouble:
            return None
        if unmatched:
            # A wrong name is the cause of other warnings.
            keys = ("unmatched", *(entry.key for entry in unmatched))
            return DataQualityWarning(keys, " ".join(entry.text for entry in unmatched))
        warnings: list[tuple[tuple[object, ...], str | None]] = [
            (("clock",), self._clock.warning()),
            (("records",), counts.tally.warning()),
        ]
        if (join := health.join) is not None:
            warnings += [
                (("stream", stream.name), stream.warning(by_request=join.by_request))
                for stream in join.streams[1:]
            ]
        warnings += [
            (("folded", name), text)
            for name, text in self._fold_warnings().items()
            if name in self._compared
        ]
        clocks = [log.clock for log in counts.progress.values() if log.clock is not None]
        warnings.append((("unit",), self._unit_warning(max(clocks)) if clocks else None))
        for about, text in warnings:
            if text is not None:
                return DataQualityWarning(about, text)
        for (index, _), read in self._reads.items():
            if read.warning is not None:
                labels, warning = read.warning
                pairs = zip(self._families[index].label_names, labels, strict=True)
                slice_ = ", ".join(f"{name}={value}" for name, value in pairs)
                text = f"{slice_}: {warning.text}" if slice_ else warning.text
                return DataQualityWarning((index, labels, *warning.about), text)
        return counts.event_checks.advice(
            metric for view in self._views for metric in view.spec.metrics
        )

    def _fold_warnings(self) -> dict[str, str]:
        """A sentence for each label and segment with values under `__other__`."""
        sentences = dict[str, str]()
        for view in self._views:
            events = view.folded_events()
            for name, cap in zip(view.spec.dimensions, view.label_caps.values, strict=True):
                if cap.edge is not None:
                    sentences[name] = (
                        f"{name} has more than {cap.size:,} values, the label_cap, so "
                        f"{events[name]:,} events count under {OTHER}: is it an id? Name the "
                        "values that matter in label_values, raise label_cap, or remove it."
                    )
        return sentences

    def _health(
        self, counts: IngestCopy, status: RuntimeStatus, warning: DataQualityWarning | None
    ) -> Health:
        tally = counts.tally
        folded = self._fold_warnings()
        timed = any(log.clock is not None for log in counts.progress.values())
        return msgspec.structs.replace(
            status.health,
            consumed=tally.consumed,
            valid=tally.valid,
            invalid=dict(tally.invalid),
            tombstones=tally.tombstones,
            partitions=tuple(
                PartitionHealth(
                    topic=log.topic,
                    partition=log.number,
                    position=read.position,
                    end=end,
                    lag=None if end is None else max(0, end - read.position),
                    durable=status.durable.get(log),
                    event_time=None if read.clock is None else read.clock / SECOND,
                    ahead=self._clock.ahead.get(log, 0) / SECOND,
                )
                for log, read in sorted(counts.progress.items())
                for end in (status.ends.get(log),)
            ),
            trouble=status.health.trouble or (None if warning is None else warning.text),
            late=tally.late if timed else None,
            future=tally.future if timed else None,
            clock_jumps=self._clock.jumps if timed else None,
            unknown_items=counts.event_checks.unknown_items,
            duplicates=tally.duplicates if self._layout.dedup or tally.duplicates else None,
            # Every event counts in all dimensions, so the largest count is that of the family.
            folded_labels=folded,
            folded_compared=tuple(name for name in folded if name in self._compared),
            folded={
                view.spec.name: max(view.folded_events().values(), default=0)
                for view in self._views
            },
        )


def ingest_snapshot(
    ingest: Ingest, *, labels: Sequence[str], now: float, join: JoinHealth | None = None
) -> Snapshot:
    """A snapshot of files or saved states, outside a daemon."""
    snapshots = SnapshotCapture(ingest.layout, source="", labels=labels, started_at=0.0)
    return snapshots.take(ingest.copied(), now, RuntimeStatus(health=Health(join=join)))


def lifetimes_of(ingest: Ingest, labels: Sequence[str]) -> list[SliceTable]:
    """The lifetime of each family of files or saved states; `labels`: names of all labels."""
    counts, families = ingest.copied(), []
    for spec in ingest.layout.families:
        view = FamilyView(spec, ingest.layout.windowing.pane)
        view.refresh(counts.families[spec.name])
        segment = segment_of(spec.dimensions, labels)
        families.append(view.by_slice(view.lifetime(), segment))
    return families


def _complete_since(
    added: Mapping[str, int], statistics: Iterable[str], start: int | None
) -> float | None:
    """The event time from which on statistics are complete, seconds; None if they always were.

    `start`: of the window, microseconds; None for the lifetime.
    """
    names = {ALL, *statistics} if start is None else {ALL, PANES, *statistics}
    moments = [at for name, at in added.items() if name in names and (start is None or at > start)]
    return max(moments) / SECOND if moments else None


def _first_warning(
    view: FamilyView, table: Table, since: Sequence[float | None]
) -> tuple[Labels, DataQualityWarning] | None:
    slices = view.slices(table)
    # The number of lists before a new statistic is unknown, so no list may count against it.
    before = 0 if all(moment is None for moment in since) else table.lists(slices)
    advised = zip(
        slices.tolist(), cell_advice(table, slices, view.spec.metrics, before), strict=True
    )
    return next(((view.labels(number), warning) for number, warning in advised if warning), None)
