"""Counts events by slice and span of time; what other processes counted is added, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from streameval.accumulator.advice import advice
from streameval.accumulator.doubts import Doubts
from streameval.accumulator.reading_intervals import interval_method
from streameval.accumulator.readings import readings_of
from streameval.decoding.columns import Decoded
from streameval.engine.clock import MAX_AHEAD, Clock, provisional
from streameval.engine.dead_letters import DeadLetter, count_each, letters_of
from streameval.engine.partition import Tally, limited_times
from streameval.engine.rankers import lists_by_ranker
from streameval.engine.snapshot import LIFETIME, Health, Series, SeriesFamily, Snapshot
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.labels import NO_CAP, Folding, Labels, segment_of
from streameval.engine.windows.times import moment_text
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.events import span_starts
from streameval.evaluation.sources import Events, EventSource
from streameval.events.records import Partition
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import Intervals, Kind
from streameval.statistics.matching import Search, matched, widest


class Cell(NamedTuple):
    """A slice and a span of event time.

    Attributes:
        labels: values of the columns in `by`; `__missing__` for null.
        start: start of the span, microseconds since the epoch; None for all time, and for lists
            without a time.

    Example:
        >>> Cell(("treatment",), None).labels
        ('treatment',)
    """

    labels: tuple[str, ...]
    start: int | None


class SpanReadings(NamedTuple):
    """Readings of a span from its start, microseconds since the epoch; None for all time."""

    start: int | None
    snapshot: Snapshot


def snapshot_of(families: Sequence[SeriesFamily], series: Sequence[Series]) -> Snapshot:
    """A snapshot of what is counted, without a daemon."""
    return Snapshot(
        version=1,
        taken_at=0.0,
        started_at=0.0,
        source="",
        families=tuple(families),
        series=tuple(series),
        health=Health(),
    )


def page_of(
    title: str, spans: Sequence[SpanReadings], about: Mapping[str, str] = MappingProxyType({})
) -> str:
    """One HTML file with the readings, which loads nothing from elsewhere.

    `about`: how it was made, name and text.
    """
    from streameval.exporters.page import document  # noqa: PLC0415  rarely needed, and takes time

    return f"{document(title, spans, about)}\n"


def records_of(spans: Sequence[SpanReadings]) -> Iterator[dict[str, Any]]:
    """One for each reading: metric, labels, value (None if undefined) and count.

    `start` of the span, `window` and `since` (the value is complete from then on) are present only
    if there are any; `estimated`, `low` and `high` only for inexact values, None without bounds.
    With intervals, `interval` is an object, or None with the reason in `no_interval`. `estimate`,
    `weight`, `verdict` and `note` are present only if there are any.
    """
    windowed = any(span.snapshot.has_windows for span in spans)
    for span in spans:
        for entry in span.snapshot.series:
            reading = entry.reading
            fields: dict[str, Any] = {}
            if span.start is not None:
                fields["start"] = moment_text(span.start)
            fields |= {"metric": entry.metric.text, "labels": labels_of(span.snapshot, entry)}
            if windowed:
                fields["window"] = entry.window
            if entry.since is not None:
                fields["since"] = entry.since
            value = reading.value if reading.defined else None
            fields |= {"value": value, "count": reading.count}
            if reading.estimated or reading.low is not None:
                fields |= {
                    "estimated": reading.estimated,
                    "low": reading.low,
                    "high": reading.high,
                }
            if reading.interval is not None:
                fields["interval"] = msgspec.structs.asdict(reading.interval)
            elif reading.no_interval is not None:
                fields |= {"interval": None, "no_interval": reading.no_interval}
            remarks = {
                "estimate": entry.metric.definition.estimates_policy or None,
                "weight": reading.weight,
                "verdict": reading.verdict,
                "note": reading.note,
            }
            yield fields | {name: said for name, said in remarks.items() if said is not None}


def labels_of(snapshot: Snapshot, entry: Series) -> dict[str, str]:
    """The labels of a series with their values."""
    names = snapshot.families[entry.family].label_names
    return dict(zip(names, entry.labels, strict=True))


_COLUMNS: Final = frozenset(
    {"start", "metric", "window", "value", "low", "high", "count", "lists", "users", "estimated"}
)


def label_column(name: str) -> str:
    """The column of a label in a table of readings, which has columns of its own.

    Example:
        >>> label_column("variant"), label_column("value")
        ('variant', 'label_value')
    """
    return f"label_{name}" if name in _COLUMNS else name


class _Cells:
    """The table of a family, with a cell for each slice and span."""

    def __init__(self, spec: FamilySpec, segment: str | None) -> None:
        self.spec, self.segment = spec, segment
        self.table = spec.table.empty()
        self.numbers: dict[Cell, int] = {}
        self.by_start: dict[int | None, dict[int, Labels]] = {}

    def of(self, lists: Decoded, starts: Sequence[int] | None) -> int | IntArray:
        """The cell of each list."""
        columns, numbers = self.spec.columns, self.numbers
        if not columns and starts is None:
            return numbers.setdefault(Cell((), None), len(numbers))
        labels: Iterable[Labels] = repeat(())
        if columns and lists.dimensions is not None:
            labels = lists.dimensions
            if columns != tuple(range(len(lists.dimensions[0]))):
                labels = [tuple([values[at] for at in columns]) for values in lists.dimensions]
        keys = zip(labels, starts or repeat(None, len(lists.batch)), strict=False)
        return np.array([numbers.setdefault(Cell(*key), len(numbers)) for key in keys], np.int64)

    def settle(self) -> None:
        """Count label values above the limits together, alike in all spans; sort the slices."""
        self.table.flush()
        if self.spec.folding.cap < NO_CAP:
            folding = Folding(self.spec.folding, len(self.spec.columns))
            for labels in sorted({cell.labels for cell in self.numbers}):
                folding.admit(labels)
            before, self.numbers = self.numbers, {}
            merged: dict[int, int] = {}
            for cell, number in before.items():
                settled = Cell(folding.settled(cell.labels), cell.start)
                merged[number] = self.numbers.setdefault(settled, number)
            self.table.rename({old: new for old, new in merged.items() if old != new})
        self.by_start = {}
        for cell, number in sorted(self.numbers.items(), key=lambda pair: pair[0].labels):
            self.by_start.setdefault(cell.start, {})[number] = cell.labels

    @property
    def cells(self) -> IntArray:
        """All cells, ascending."""
        return np.array(sorted(self.numbers.values()), np.int64)


class Dumped(NamedTuple):
    """The counts of some parts, for another process."""

    families: Sequence[tuple[Sequence[Cell], bytes]]
    tally: Tally
    letters: Sequence[DeadLetter]
    doubts: Doubts
    clocks: Sequence[Clock]
    newest: int | None


class Counts:
    """Tables with a cell for each slice and span of time, one for each family.

    Args:
        labels: names of all labels; another dimension of a family is its segment.
        every: length of a span, microseconds; None for all time. Events without time count in no
            span.
        rankers: names of those whose lists count, too.
        by_day: whether days are compared, so that wrong times far ahead count on the day of their
            log's clock. It depends on the order of events.

    Attributes:
        letters: the first record of each reason for which one is no event.
        doubts: about a sample of the events.
        newest: largest event time, microseconds; None without any.
    """

    def __init__(
        self,
        families: Sequence[FamilySpec],
        labels: Sequence[str],
        intervals: Intervals | None,
        *,
        every: int | None = None,
        rankers: Sequence[str] = (),
        by_day: bool = False,
    ) -> None:
        self._families = [_Cells(spec, segment_of(spec.dimensions, labels)) for spec in families]
        self._intervals, self._every = intervals, every
        self._rankers, self._by_day = rankers, by_day
        self.tally = Tally()
        self.letters: list[DeadLetter] = []
        self.doubts = Doubts(families[0].table.context.attributes)
        self._observed = 0
        self.newest: int | None = None
        self._clocks: dict[Partition, Clock] = {}
        self._other_clocks: list[Clock] = []

    @property
    def search(self) -> Search:
        """The search whose hits all families can read."""
        return widest([of_family.table.search for of_family in self._families])

    def count_parts(self, source: EventSource, parts: Iterable[Any]) -> Iterator[int]:
        """Count parts of a source, batch by batch; yields the bytes read so far."""
        for size, events in events_of(source, parts, self.search):
            self._add(events)
            del events
            yield size

    def _add(self, events: Events) -> None:
        decoded, (lists, values) = count_each(events.decoded, self._values)
        batch = decoded.batch
        self.tally.consumed += len(events.records.values)
        self.tally.valid += len(batch)
        self.tally.engaged += int(np.count_nonzero(decoded.engaged))
        self.tally.tombstones += len(decoded.tombstones)
        self.tally.add_invalid([event for _, event in decoded.invalid])
        if decoded.invalid:
            letters = letters_of(events.records, decoded.invalid)
            self.letters = first_letters([*self.letters, *letters])
        if not len(batch):
            return
        self.doubts.observe_batch(batch, self._observed)
        self._observed += len(batch)
        days = decoded.times
        if days is not None:
            newest = int(days.max())
            self.newest = newest if self.newest is None else max(self.newest, newest)
            if self._by_day:
                clock = self._clocks.setdefault(events.records.partition, Clock())
                voters = decoded.voting(events.records.keys).voters
                days, _ = limited_times(days, clock.advance(days, voters))
        self.count(lists, days, values)

    def _values(self, decoded: Decoded) -> tuple[Decoded, Sequence[Any]]:
        """The lists of events, and for each family the values of its metrics of events."""
        lists = lists_by_ranker(decoded, self._rankers)
        return lists, [of_family.table.event_values(lists.batch) for of_family in self._families]

    def count(
        self, lists: Decoded, days: IntArray | None = None, values: Sequence[Any] = ()
    ) -> None:
        """Count lists, also those that another has checked and tallied.

        `days`: on which they count; None for those of their times. `values`: for each family those
        of its metrics of events; empty to compute them.
        """
        starts = starts_of(lists, self._every)
        if not len(lists.batch) or (self._every is not None and starts is None):
            return
        days = lists.times if days is None else days
        if days is not None and len(days) != len(lists.batch):
            days = np.repeat(days, 1 + len(self._rankers))
        batch = lists.batch if len(self._families) == 1 else matched(lists.batch, self.search)
        for of_family, of_metrics in zip(self._families, values or repeat(None), strict=False):
            of_family.table.count(batch, of_family.of(lists, starts), days, of_metrics)

    def dump(self) -> Dumped:
        """The counts for `merge`."""
        families = [
            ([*of.numbers], b"".join(of.table.dump([*of.numbers.values()])))
            for of in self._families
        ]
        clocks = [*self._clocks.values(), *self._other_clocks]
        return Dumped(families, self.tally, self.letters, self.doubts, clocks, self.newest)

    def merge(self, dumped: Dumped) -> None:
        """Add the counts of other events."""
        for of_family, (cells, content) in zip(self._families, dumped.families, strict=True):
            if cells:
                numbers = of_family.numbers
                part = of_family.table.empty()
                part.load(content, [numbers.setdefault(cell, len(numbers)) for cell in cells])
                of_family.table.add(part)
        self.tally.add(dumped.tally)
        self.doubts.add(dumped.doubts)
        self.letters = first_letters([*self.letters, *dumped.letters])
        self._other_clocks += dumped.clocks
        known = [time for time in (self.newest, dumped.newest) if time is not None]
        self.newest = max(known, default=None)

    def settle(self) -> None:
        """Make what was counted ready to be read, when all is counted."""
        for of_family in self._families:
            of_family.settle()

    @property
    def clock(self) -> int | None:
        """Event time of the log that is furthest, microseconds; None if unknown."""
        clocks = [*self._clocks.values(), *self._other_clocks]
        if final := [clock.now for clock in clocks if clock.is_final]:
            return max(final)
        return provisional([time for clock in clocks for time in clock.votes], MAX_AHEAD)

    @property
    def starts(self) -> list[int | None]:
        """The start of each span with events, ascending; None alone for all time."""
        starts = {start for of_family in self._families for start in of_family.by_start}
        return sorted(starts, key=lambda start: start or 0)

    def families(self, start: int | None = None) -> list[SliceTable]:
        """The counts of a span."""
        return [
            SliceTable(
                of.spec.dimensions,
                of.segment,
                of.spec.metrics,
                of.table,
                of.by_start.get(start, {}),
            )
            for of in self._families
        ]

    def spans(self) -> list[SpanReadings]:
        """The readings of each span, in time order."""
        kind: Kind = "anytime" if self._every is None else "pointwise"
        method = interval_method(self._intervals, kind)
        spans: dict[int | None, list[Series]] = {start: [] for start in self.starts}
        for number, of_family in enumerate(self._families):
            cells = of_family.cells
            index_of = {cell: index for index, cell in enumerate(cells.tolist())}
            read = [
                (metric, readings_of(metric, of_family.table, cells, method))
                for metric in (of_family.spec.metrics if index_of else ())
            ]
            for start, labels in of_family.by_start.items():
                spans[start] += [
                    Series(metric, of_cell, readings[index_of[cell]], LIFETIME, number)
                    for metric, readings in read
                    for cell, of_cell in labels.items()
                ]
        families = [
            SeriesFamily(of.spec.name, of.segment, of.spec.dimensions) for of in self._families
        ]
        return [
            SpanReadings(start, snapshot_of(families, series)) for start, series in spans.items()
        ]

    def warning(self) -> str | None:
        """A warning if most records with interactions are invalid, or None."""
        return self.tally.warning()

    def advice(self) -> list[str]:
        """Warnings about the events; of spans, at most one of each."""
        sentences, said = [], list[str]()
        for of_family in self._families:
            cells = of_family.cells
            advised = advice(of_family.table, cells, of_family.spec.metrics)
            sentences.append(dict(zip(cells.tolist(), advised, strict=True)))
        for start in self.starts:
            for family, of_cells in zip(self.families(start), sentences, strict=True):
                known = [cell for cell in family.labels if of_cells[cell] is not None]
                if known:
                    pairs = zip(family.names, family.labels[known[0]], strict=True)
                    where = ", ".join(f"{name}={value}" for name, value in pairs)
                    sentence = of_cells[known[0]]
                    said.append(f"{where}: {sentence}" if where else str(sentence))
                    break
        metrics = [metric for of_family in self._families for metric in of_family.spec.metrics]
        warning = self.warning()
        doubt = warning or self.doubts.warning(metrics)
        if self._every is None:
            # One sentence is enough for one table.
            return [text for text in (warning, *said, doubt) if text is not None][:1]
        return [text for text in dict.fromkeys((doubt, *said)) if text is not None]


def starts_of(lists: Decoded, every: int | None) -> list[int] | None:
    """The start of the span of each list; None for all time, and without event time."""
    if every is None or lists.times is None:
        return None
    starts: list[int] = span_starts(lists.times, every).tolist()
    return starts


def first_letters(letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """The first letter of each reason."""
    first: dict[str, DeadLetter] = {}
    for letter in letters:
        first.setdefault(letter.reason, letter)
    return list(first.values())


def events_of(
    source: EventSource, parts: Iterable[Any], search: Search
) -> Iterator[tuple[int, Events]]:
    """The events of some parts, batch by batch, each with the bytes read so far."""
    before = 0
    for part in parts:
        read = 0
        for events in source.read(part, search):
            read = max(read, events.size)
            yield before + read, events
            # No name holds the events, or the next ones would not get their memory.
            del events
        before += read
