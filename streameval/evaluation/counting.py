"""Counts events by slice and span of time, in one process or several: the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np

from streameval.accumulator import Accumulator
from streameval.accumulator.doubts import Doubts, advice
from streameval.accumulator.reading_intervals import interval_method
from streameval.accumulator.readings import audiences, readings_of
from streameval.catalogue.reading import Reading
from streameval.decoding.columns import Decoded
from streameval.engine.dead_letters import DeadLetter, count_each, letters_of
from streameval.engine.partition import Tally
from streameval.evaluation.options import Note
from streameval.evaluation.partial_rows import Cell
from streameval.evaluation.processes import map_parts
from streameval.evaluation.sources import Events, EventSource
from streameval.evaluation.values import EventChunk
from streameval.statistics.arrays import IntArray
from streameval.statistics.intervals import Kind
from streameval.statistics.matching import Search

_MOST_WAITING: Final = 65_536
"""Rows that may wait, such as items shown, so that memory does not grow with the events."""


class CellReadings(NamedTuple):
    """The readings of one cell.

    Attributes:
        readings: in the order of the metrics.
        users: number of users; None if they are not kept.
    """

    cell: Cell
    readings: Sequence[Reading]
    users: float | None


class Dumped(NamedTuple):
    """The counts of some parts, for another process."""

    cells: Sequence[Cell]
    content: bytes
    tally: Tally
    letters: Sequence[DeadLetter]
    doubts: Doubts
    newest: int | None
    size: int


class Counts:
    """One table with a cell for each slice and span of time.

    Args:
        empty: an accumulator of the metrics.
        every: length of a span, microseconds; None for all time. Events without time count in no
            span.

    Attributes:
        tally: outcomes of the records.
        letters: the first record of each reason for which one is no event.
    """

    def __init__(self, empty: Accumulator, every: int | None) -> None:
        self.empty, self._every = empty, every
        self._table = empty.table.empty()
        self._cells: dict[Cell, int] = {}
        self.tally = Tally()
        self.letters: list[DeadLetter] = []
        self._doubts = Doubts(empty.context.attributes)
        self._observed = 0
        self.newest: int | None = None

    def add(self, events: Events) -> None:
        """Count events."""
        decoded, values = count_each(events.decoded, self._values)
        batch, times = decoded.batch, decoded.times
        self.tally.consumed += len(events.records.values)
        self.tally.valid += len(batch)
        self.tally.engaged += decoded.engaged
        self.tally.tombstones += len(decoded.tombstones)
        self.tally.add_invalid([event for _, event in decoded.invalid])
        if decoded.invalid:
            letters = letters_of(events.records, decoded.invalid)
            self.letters = first_letters([*self.letters, *letters])
        if not len(batch):
            return
        self._doubts.observe_batch(batch, self._observed)
        self._observed += len(batch)
        if times is not None and len(times):
            self.newest = max(int(times.max()), self.newest or int(times.max()))
        elif self._every is not None:
            return
        self._table.count(batch, self._cells_of(decoded), times, values)
        if self._table.waiting >= _MOST_WAITING:
            self._table.flush()

    def _values(self, decoded: Decoded) -> Any:
        """The values of metrics of events, which raise what a metric refuses."""
        return self._table.event_values(decoded.batch)

    def _cells_of(self, decoded: Decoded) -> int | IntArray:
        """The cell of each event."""
        starts = starts_of(decoded, self._every)
        if decoded.dimensions is None and starts is None:
            return self._cells.setdefault(Cell((), None), len(self._cells))
        labels = decoded.dimensions or repeat(())
        cells = self._cells
        return np.array(
            [
                cells.setdefault(Cell(*key), len(cells))
                for key in zip(labels, starts or repeat(None, len(decoded.batch)), strict=False)
            ],
            np.int64,
        )

    def dump(self, size: int) -> Dumped:
        """The counts for `merge`; `size`: bytes of what was counted."""
        content = b"".join(self._table.dump([*self._cells.values()]))
        cells = [*self._cells]
        return Dumped(cells, content, self.tally, self.letters, self._doubts, self.newest, size)

    def merge(self, dumped: Dumped) -> None:
        """Add the counts of other events."""
        if dumped.cells:
            part = self.empty.table.empty()
            numbers = [self._cells.setdefault(cell, len(self._cells)) for cell in dumped.cells]
            part.load(dumped.content, numbers)
            self._table.add(part)
        self.tally.add(dumped.tally)
        self._doubts.add(dumped.doubts)
        self.letters = first_letters([*self.letters, *dumped.letters])
        if dumped.newest is not None:
            self.newest = max(dumped.newest, self.newest or dumped.newest)

    @property
    def cells(self) -> list[Cell]:
        """The cells with events, by start and labels."""
        self._table.flush()
        return sorted(self._cells, key=lambda cell: (cell.start or 0, cell.labels))

    def rows(self) -> Iterator[CellReadings]:
        """The readings of each cell, by start and labels."""
        cells = self.cells
        if not cells:
            return
        numbers = np.array([self._cells[cell] for cell in cells], np.int64)
        ascending = np.argsort(numbers)
        rank = np.argsort(ascending)
        kind: Kind = "anytime" if self._every is None else "pointwise"
        method = interval_method(self.empty.intervals, kind)
        chosen = numbers[ascending]
        columns = [
            list(readings_of(metric, self._table, chosen, method)) for metric in self.empty.metrics
        ]
        people: list[float | None] = [None] * len(cells)
        if self._every is None and self.empty.intervals is not None:
            people = [audience.users for audience in audiences(self._table, chosen)]
        for cell, at in zip(cells, rank.tolist(), strict=True):
            yield CellReadings(cell, [column[at] for column in columns], people[at])

    def advice(self, names: Sequence[str]) -> list[str]:
        """Warnings about events that look wrong, at most one of each span.

        `names`: of the labels.
        """
        cells = self.cells
        numbers = np.array([self._cells[cell] for cell in cells], np.int64)
        order = np.argsort(numbers)
        advised = advice(self._table, numbers[order], self.empty.metrics)
        sentences = dict(zip(numbers[order].tolist(), advised, strict=True))
        first: dict[int | None, str] = {}
        for cell in cells:
            if (sentence := sentences[self._cells[cell]]) is not None:
                pairs = zip(names, cell.labels, strict=False)
                where = ", ".join(f"{name}={value}" for name, value in pairs)
                first.setdefault(cell.start, f"{where}: {sentence}" if where else sentence)
        return list(dict.fromkeys(first.values()))

    def doubt(self) -> str | None:
        """A warning about a sample of the events, or None."""
        return self._doubts.warning(self.empty.metrics)

    def accumulator(self, labels: Sequence[str]) -> Accumulator | None:
        """The counts of a slice; a copy. None if there is no such slice, or spans split it."""
        number = self._cells.get(Cell(tuple(labels), None))
        if number is None:
            return None
        counted = self.empty.copy()
        counted.adopt(b"".join(self._table.dump([number])))
        return counted


def starts_of(decoded: Decoded, every: int | None) -> list[int] | None:
    """The start of the span of each event; None for all time."""
    if every is None or decoded.times is None:
        return None
    starts: list[int] = (np.floor_divide(decoded.times, every) * every).tolist()
    return starts


def first_letters(letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """The first letter of each reason."""
    first: dict[str, DeadLetter] = {}
    for letter in letters:
        first.setdefault(letter.reason, letter)
    return list(first.values())


Shown = Callable[[int, int], None]
"""Takes the bytes read and the events counted so far."""


def count(
    source: EventSource, empty: Accumulator, every: int | None, processes: int, shown: Shown
) -> Counts:
    """Count all events of a source, in several processes if it has parts of known sizes."""
    counts = Counts(empty, every)
    sizes = source.sizes
    if processes > 1 and sizes is not None:
        count_part = CountParts(source, empty, every)
        with map_parts(count_part, source.parts, sizes, processes) as results:
            read = 0
            for dumped in results:
                counts.merge(dumped)
                read += dumped.size
                shown(read, counts.tally.consumed)
        return counts
    _count_parts(counts, source, source.parts, shown)
    return counts


def _count_parts(counts: Counts, source: EventSource, parts: Iterable[Any], shown: Shown) -> int:
    """Count parts; returns their size."""
    search, before = counts.empty.table.search, 0
    for part in parts:
        read = 0
        for events in source.read(part, search):
            counts.add(events)
            read = max(read, events.size)
            del events
            shown(before + read, counts.tally.consumed)
        before += read
    return before


class CountParts:
    """Counts parts of a source apart from the others, in another process."""

    def __init__(self, source: EventSource, empty: Accumulator, every: int | None) -> None:
        self._source, self._empty, self._every = source, empty, every

    def __call__(self, parts: Sequence[Any]) -> Dumped:
        """Count some parts."""
        counts = Counts(self._empty, self._every)
        return counts.dump(_count_parts(counts, self._source, parts, lambda *_: None))


def invalid_notes(tally: Tally, letters: Sequence[DeadLetter], unit: str) -> Iterator[Note]:
    """What was left out: how many records, and the first of each reason."""
    bad = sum(tally.invalid.values())
    if bad:
        yield Note(f"{bad:,} of {tally.consumed:,} records are invalid and left out:")
    for letter in letters:
        line = f"{letter.partition.topic}, {unit} {letter.offset + 1}"
        number = tally.invalid[letter.reason]
        text = f"{letter.reason}, first in {line}: {letter.message}: {letter.preview}"
        yield Note(f"{number:>9,} {text}")
    for letter in letters:
        if remedy := _remedy_of_form(letter):
            path = letter.partition.topic
            yield Note(f"{path} does not look like JSON lines: {remedy}.")


def _remedy_of_form(letter: DeadLetter) -> str | None:
    """What to do with a file whose first line is not an object of JSON lines."""
    text = letter.value.strip()
    if letter.offset or (text.startswith(b"{") and text != b"{"):
        return None
    if text[:1] in (b"[", b"{"):
        return 'write one object per line, as pandas does with orient="records", lines=True'
    return "the name of a table ends with .csv, .tsv or .parquet"


def chunks_of(source: EventSource, search: Search, every: int | None) -> Iterator[EventChunk]:
    """The events again, batch by batch, each with its labels and span."""
    for part in source.parts:
        for events in source.read(part, search):
            decoded = events.decoded
            starts = starts_of(decoded, every)
            labels = decoded.dimensions or repeat(())
            rows: dict[Cell, list[int]] = {}
            pairs = zip(labels, starts or repeat(None), range(len(decoded.batch)), strict=False)
            for of_row, start, row in pairs:
                rows.setdefault(Cell(of_row, start), []).append(row)
            for cell, places in rows.items():
                chunk = decoded.take(np.array(places)).batch
                yield EventChunk(chunk, cell.labels, cell.start)
