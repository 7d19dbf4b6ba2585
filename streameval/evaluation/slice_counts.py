"""Counts events by slice and span of time; what other processes counted is added, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from streameval.accumulator.count_checks import cell_advice
from streameval.accumulator.event_checks import EventChecks
from streameval.accumulator.reading_intervals import IntervalMethod, interval_method
from streameval.accumulator.readings import readings_of
from streameval.catalogue.metric import Metric
from streameval.decoding.columns import Decoded
from streameval.decoding.repeated_keys import RepeatedKeys
from streameval.engine.clock import MAX_AHEAD, Clock, provisional
from streameval.engine.dead_letters import DeadLetter, count_valid, dead_letters_in
from streameval.engine.partition import Tally, limited_times
from streameval.engine.rankers import lists_by_ranker
from streameval.engine.snapshot import LIFETIME, Series, SeriesFamily
from streameval.engine.windows.family import FamilySpec
from streameval.engine.windows.labels import NO_CAP, LabelCaps, Labels, labels_at, segment_of
from streameval.engine.windows.times import Spans
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.sources import DecodedEvents, EventSource, Lines
from streameval.evaluation.span_readings import SpanReadings, snapshot_of
from streameval.events.records import Partition
from streameval.join.attribution import OutcomeCounts
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import IntervalKind, Intervals
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


class _Numbers(dict[Cell, int]):
    """Numbers of cells, in the order of their first events.

    A key is found by its labels and start; only a new one becomes a `Cell`.
    """

    def __missing__(self, cell: tuple[Labels, int | None]) -> int:
        return self.setdefault(Cell(*cell), len(self))


class _Cells:
    """The table of a family, with a cell for each slice and span."""

    def __init__(self, spec: FamilySpec, segment: str | None) -> None:
        self.spec, self.segment = spec, segment
        self.table = spec.table.empty()
        self.numbers = _Numbers()
        self.by_start: dict[int | None, dict[int, Labels]] = {}

    def of(self, lists: Decoded, starts: Sequence[int] | None) -> int | IntArray:
        """The cell of each list."""
        columns = self.spec.columns
        if not columns and starts is None:
            return self.numbers[Cell((), None)]
        labels: Iterable[Labels] = repeat(())
        if columns and lists.dimensions is not None:
            labels = labels_at(lists.dimensions, columns)
        pairs = zip(labels, starts or repeat(None, len(lists.batch)), strict=False)
        keys = cast("Iterator[Cell]", pairs)  # A tuple equals a cell, and costs less.
        return np.array([*map(self.numbers.__getitem__, keys)], np.int64)

    def resolve(self) -> None:
        """Count label values above the limits together, alike in all spans; sort the slices."""
        self.table.flush()
        if self.spec.label_caps.cap < NO_CAP:
            caps = LabelCaps(self.spec.label_caps, len(self.spec.columns))
            for labels in sorted({cell.labels for cell in self.numbers}):
                caps.admit(labels)
            before, self.numbers = self.numbers, _Numbers()
            renamed: dict[int, int] = {}
            for cell, number in before.items():
                resolved = Cell(caps.resolve(cell.labels), cell.start)
                renamed[number] = self.numbers.setdefault(resolved, number)
            self.table.rename({old: new for old, new in renamed.items() if old != new})
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
    dead_letters: Sequence[DeadLetter]
    event_checks: EventChecks
    clocks: Mapping[Partition, Clock]
    newest: int | None
    repeated_keys: Sequence[str]


class SliceCounts:
    """Tables with a cell for each slice and span of time, one for each family.

    Args:
        labels: names of all labels; another dimension of a family is its segment.
        every: the spans; None for all time. Events without time count in no span.
        rankers: names of those whose lists count, too.
        by_day: whether days are compared, so that wrong times far ahead count on the day of their
            log's clock. It depends on the order of events.

    Attributes:
        dead_letters: the first record of each reason for which a record is invalid.
        event_checks: about a sample of the events.
        repeated_keys: of JSON lines.
        newest: largest event time, microseconds; None without any.
        outcomes: of records that are joined while they are counted, by stream; here none are.
    """

    outcomes: Mapping[str, OutcomeCounts] = MappingProxyType({})

    def __init__(
        self,
        families: Sequence[FamilySpec],
        labels: Sequence[str],
        intervals: Intervals | None,
        *,
        every: Spans | None = None,
        rankers: Sequence[str] = (),
        by_day: bool = False,
    ) -> None:
        self._families = [_Cells(spec, segment_of(spec.dimensions, labels)) for spec in families]
        self._intervals, self._every = intervals, every
        self._rankers, self._by_day = rankers, by_day
        self.tally = Tally()
        self.dead_letters: list[DeadLetter] = []
        context = families[0].table.context
        self.event_checks = EventChecks(context.attributes, context.popularity)
        self.repeated_keys = RepeatedKeys()
        self._observed = 0
        self.newest: int | None = None
        self._clocks: dict[Partition, Clock] = {}

    @property
    def search(self) -> Search:
        """The search whose hits all families can read."""
        return widest([family.table.search for family in self._families])

    def count_parts(self, source: EventSource, parts: Iterable[Any]) -> Iterator[int]:
        """Count parts of a source, batch by batch; yields the bytes read so far."""
        for size, events in events_of(source, parts, self.search, self.repeated_keys):
            self._add(events)
            # No name holds the events, or the next ones would not get their memory.
            del events
            yield size

    def _add(self, events: DecodedEvents) -> None:
        decoded, (lists, values) = count_valid(events.decoded, self._values)
        batch, times = decoded.batch, decoded.times
        self.tally.consumed += len(events.records.values)
        self.tally.valid += len(batch)
        self.tally.engaged += int(np.count_nonzero(decoded.engaged))
        self.tally.tombstones += len(decoded.tombstones)
        self.tally.add_invalid([event for _, event in decoded.invalid])
        if decoded.invalid:
            dead_letters = dead_letters_in(events.records, decoded.invalid)
            self.dead_letters = first_dead_letters([*self.dead_letters, *dead_letters])
        if not len(batch):
            return
        self.event_checks.observe_batch(batch, self._observed)
        self._observed += len(batch)
        if times is not None:
            self.newest = _latest(self.newest, int(times.max()))
            if self._by_day:
                clock = self._clocks.setdefault(events.records.partition, Clock())
                voters = decoded.voting(events.records.keys).voters
                times, _ = limited_times(times, clock.advance(times, voters))
        self.count(lists, times, values)

    def _values(self, decoded: Decoded) -> tuple[Decoded, Sequence[Any]]:
        """The lists of events, and for each family the values of its metrics of events."""
        lists = lists_by_ranker(decoded, self._rankers)
        return lists, [family.table.event_values(lists.batch) for family in self._families]

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
        for family, of_metrics in zip(self._families, values or repeat(None), strict=False):
            family.table.count(batch, family.of(lists, starts), days, of_metrics)

    def dump(self) -> Dumped:
        """The counts for `merge`."""
        families = [
            ([*family.numbers], b"".join(family.table.dump([*family.numbers.values()])))
            for family in self._families
        ]
        return Dumped(
            families,
            self.tally,
            self.dead_letters,
            self.event_checks,
            self._clocks,
            self.newest,
            self.repeated_keys.names,
        )

    def merge(self, dumped: Dumped) -> None:
        """Add the counts of other parts."""
        for family, (cells, content) in zip(self._families, dumped.families, strict=True):
            if cells:
                part = family.table.empty()
                part.load(content, [*map(family.numbers.__getitem__, cells)])
                family.table.add(part)
        self.tally.add(dumped.tally)
        self.event_checks.add(dumped.event_checks)
        self.repeated_keys.add(dumped.repeated_keys)
        self.dead_letters = first_dead_letters([*self.dead_letters, *dumped.dead_letters])
        self._clocks |= dumped.clocks
        self.newest = _latest(self.newest, dumped.newest)

    def flush(self) -> None:
        """Make what was counted ready to be read, when all is counted."""
        for family in self._families:
            family.resolve()

    @property
    def clock(self) -> int | None:
        """Event time of the log that is furthest, microseconds; None if unknown."""
        clocks = self._clocks.values()
        if final := [clock.now for clock in clocks if clock.is_final]:
            return max(final)
        return provisional([time for clock in clocks for time in clock.votes], MAX_AHEAD)

    @property
    def starts(self) -> list[int | None]:
        """The start of each span with events, ascending; None alone for all time."""
        starts = {start for family in self._families for start in family.by_start}
        return sorted(starts, key=lambda start: start or 0)

    def families(self, start: int | None = None) -> list[SliceTable]:
        """The counts of a span."""
        return [
            SliceTable(
                family.spec.dimensions,
                family.segment,
                family.spec.metrics,
                family.table,
                family.by_start.get(start, {}),
            )
            for family in self._families
        ]

    def spans(self) -> list[SpanReadings]:
        """The readings of each span, in time order."""
        kind: IntervalKind = "anytime" if self._every is None else "pointwise"
        method = interval_method(self._intervals, kind)
        # A file is one planned look at two rankers. What checks the log, a weight near 1, keeps the
        # interval of the estimates that it checks.
        once = method if self._every is not None else interval_method(self._intervals, "fixed")

        def of_metric(metric: Metric) -> IntervalMethod | None:
            reference = metric.definition.reference
            return once if reference is not None and reference.is_choice else method

        spans: dict[int | None, list[Series]] = {start: [] for start in self.starts}
        for number, family in enumerate(self._families):
            cells = family.cells
            index_of = {cell: index for index, cell in enumerate(cells.tolist())}
            read = [
                (metric, readings_of(metric, family.table, cells, of_metric(metric)))
                for metric in (family.spec.metrics if index_of else ())
            ]
            for start, labels in family.by_start.items():
                spans[start] += [
                    Series(metric, of_cell, readings[index_of[cell]], LIFETIME, number)
                    for metric, readings in read
                    for cell, of_cell in labels.items()
                ]
        families = [
            SeriesFamily(family.spec.name, family.segment, family.spec.dimensions)
            for family in self._families
        ]
        return [
            SpanReadings(start, snapshot_of(families, series), self._every)
            for start, series in spans.items()
        ]

    def warning(self) -> str | None:
        """A warning if most records with interactions are invalid, or None."""
        return self.tally.warning()

    def warnings(self) -> list[str]:
        """Warnings about the events; of spans, at most one of each."""
        metrics = [metric for family in self._families for metric in family.spec.metrics]
        warning = self.warning()
        suspicion = warning or self.event_checks.warning(metrics)
        if self._every is None:
            # One sentence is enough for one table.
            texts = (warning, *self._span_warnings(), suspicion)
            return [text for text in texts if text is not None][:1]
        return [text for text in dict.fromkeys((suspicion, *self._span_warnings())) if text]

    def _span_warnings(self) -> Iterator[str]:
        """The first advice about the slices of each span."""
        of_families = []
        for family in self._families:
            advised = cell_advice(family.table, family.cells, family.spec.metrics)
            of_families.append(dict(zip(family.cells.tolist(), advised, strict=True)))
        for start in self.starts:
            for slices, advice_of in zip(self.families(start), of_families, strict=True):
                cell = next((cell for cell in slices.labels if advice_of[cell]), None)
                if cell is not None and (advice := advice_of[cell]) is not None:
                    pairs = zip(slices.names, slices.labels[cell], strict=True)
                    where = ", ".join(f"{name}={value}" for name, value in pairs)
                    yield f"{where}: {advice.text}" if where else advice.text
                    break


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def starts_of(lists: Decoded, every: Spans | None) -> list[int] | None:
    """The start of the span of each list; None for all time, and without event time."""
    if every is None or lists.times is None:
        return None
    starts: list[int] = every.starts(lists.times).tolist()
    return starts


def first_dead_letters(dead_letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """The first dead letter of each reason."""
    first: dict[str, DeadLetter] = {}
    for dead_letter in dead_letters:
        first.setdefault(dead_letter.reason, dead_letter)
    return list(first.values())


def events_of(
    source: EventSource, parts: Iterable[Any], search: Search, repeated_keys: RepeatedKeys
) -> Iterator[tuple[int, DecodedEvents]]:
    """The events of some parts, batch by batch, each with the bytes read so far.

    `repeated_keys`: searches JSON lines.
    """
    before = 0
    for part in parts:
        read = 0
        for events in source.read(part, search):
            read = max(read, events.size)
            if isinstance(source, Lines):
                repeated_keys.search(part, events.records.values)
            yield before + read, events
            # A name here would hold the memory that the next events could have.
            del events
        before += read
