"""Counts the inputs of a caller: readings, slices, and warnings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from streameval.accumulator import Accumulator
from streameval.accumulator.intake import checked_batch
from streameval.accumulator.kinds.users import audiences
from streameval.accumulator.readings import readings_of
from streameval.catalogue.context import USER_KEY
from streameval.catalogue.reading import Reading
from streameval.decoding.columns import Decoded
from streameval.decoding.invalid import Unreadable
from streameval.engine.partition import FEWEST_JUDGED
from streameval.engine.rankers import lists_by_ranker
from streameval.engine.windows.times import unit_warning
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.arguments import (
    Named,
    Note,
    Setting,
    Surroundings,
    idle_notes,
    no_events,
)
from streameval.evaluation.fields import missing_field
from streameval.evaluation.joins import JoinInputs
from streameval.evaluation.processes import map_parts
from streameval.evaluation.setup import Setup
from streameval.evaluation.slice_counts import SliceCounts, starts_of
from streameval.evaluation.sources import CallInputs, EventSource, JoinSource, add_outcomes
from streameval.evaluation.span_readings import SpanReadings, label_column
from streameval.events import Id
from streameval.events.errors import MetricError
from streameval.events.ids import IdKind
from streameval.join.attribution import OutcomeCounts
from streameval.sources.files import first_record
from streameval.statistics.intervals import Intervals

if TYPE_CHECKING:
    from streameval.evaluation.engine_counts import EngineCounts

    _Counts: TypeAlias = SliceCounts | EngineCounts


ValuePer: TypeAlias = Literal["list", "user"]
"""What has one value: each list, or all lists of a user together."""

_Key: TypeAlias = tuple[int | None, tuple[str, ...], Id | None]
"""Span, labels, and user."""


class EvaluationRow(NamedTuple):
    """The reading of one metric in one slice and span.

    Attributes:
        begin: start of the span; None for all time.
        window: window that ends at the newest event; "lifetime" for all.
        users: number of users; None if unknown.
    """

    begin: str | None
    labels: Mapping[str, str]
    window: str
    reading: Reading
    users: float | None


class FileCounts:
    """Counts of the files: slices, spans, readings.

    Attributes:
        names: of the files and frames.
        labels: names of those that split the values.
        used: the settings that decided something; for `note_idle`.
        is_doubtful: whether most records are not JSON objects, most of those with interactions are
            invalid, or most do not join.
        outcomes: of the rows or records of a join, by stream; empty without one.
    """

    def __init__(self, setup: Setup, source: EventSource, counts: _Counts) -> None:
        self.setup, self.names = setup, source.names
        self.ids: IdKind | None = source.ids
        self.labels = tuple(setup.label_names)
        self.used = source.used
        self.intervals = setup.intervals or Intervals()
        # What is no object may have had interactions: nobody knows.
        unread = sum(counts.tally.invalid.get(reason, 0) for reason in get_args(Unreadable))
        is_unread = unread >= FEWEST_JUDGED and unread > counts.tally.consumed / 2
        is_lost = isinstance(source, JoinSource) and source.health.loss() is not None
        self.is_doubtful = is_unread or is_lost or counts.warning() is not None
        self._source, self._counts = source, counts
        # Whoever reads the rows again joins them again.
        of_tables = dict(zip(setup.call.stream_names, source.outcomes, strict=True))
        self.outcomes: Mapping[str, OutcomeCounts] = counts.outcomes or of_tables

    @property
    def clock(self) -> int | None:
        """Event time of the log that is furthest, microseconds; None if unknown."""
        return self._counts.clock

    @cached_property
    def families(self) -> list[SliceTable]:
        """The counts over all time; empty if spans split it."""
        return self._counts.families() if self.setup.every is None else []

    @property
    def families_by_start(self) -> Iterator[tuple[int | None, list[SliceTable]]]:
        """The counts of each span, by its start; of all time at once without spans."""
        return ((start, self._counts.families(start)) for start in self._counts.starts)

    @cached_property
    def spans(self) -> Sequence[SpanReadings]:
        """The readings of each span, in time order; of all time at once without spans."""
        return self._counts.spans()

    @cached_property
    def rows(self) -> Sequence[EvaluationRow]:
        """The readings, by start, metric and labels."""
        users: dict[tuple[str, ...], float] = {}
        for family in self._lifetime if self.setup.intervals is not None else ():
            cells = sorted(family.labels)
            audience = audiences(family.table, np.array(cells, np.int64))
            users = {family.labels[at]: of.users for at, of in zip(cells, audience, strict=False)}
        return [
            EvaluationRow(
                span.begin, span.snapshot.labels_of(of), of.window, of.reading, users.get(of.labels)
            )
            for span in self.spans
            for of in span.snapshot.series
        ]

    def accumulator(self, labels: Sequence[str]) -> Accumulator | None:
        """The counts of a slice; a copy. None if there is no such slice, or spans split it."""
        for family in self._lifetime:
            for cell in [cell for cell, of in family.labels.items() if of == tuple(labels)]:
                counted = self.setup.accumulator(self.ids or "text", self.setup.intervals)
                counted.adopt(b"".join(family.table.dump([cell])))
                return counted
        return None

    @property
    def _lifetime(self) -> Sequence[SliceTable]:
        """The family that all labels split, and no segment."""
        return [family for family in self.families if family.names == self.labels][:1]

    def values(self, per: ValuePer) -> dict[str, list[Any]]:
        """Columns: span and labels if there are any, the user, and the value of each metric.

        The events are read again. A value that is undefined is NaN. Metrics of all lists together
        have no value of a list.

        Raises:
            MetricError: none of the metrics has a value for a list.
        """
        empty, config = self.setup.accumulator(None), self.setup.config
        metrics = [metric for metric in empty.metrics if metric.definition.per != "slice"]
        if not metrics:
            named = ", ".join(metric.text for metric in empty.metrics)
            raise MetricError(f"{named}: no value of a single list; they are of all lists together")
        dimensions = self.setup.labels if config is None else config.series_dimensions()
        indices = [*map(dimensions.index, self.labels)]
        table, keys, cell_of = empty.table.empty(), list[_Key](), dict[_Key, int]()
        for lists in self._lists_again():
            table.ids, batch = checked_batch(table.ids, lists.batch, table.search)
            starts = starts_of(lists, self.setup.every) or repeat(None)
            values_of = lists.dimensions or repeat((), len(batch))
            rows = [
                (start, tuple([values[at] for at in indices]), user)
                for values, start, user in zip(
                    values_of, starts, batch.users or repeat(None), strict=False
                )
            ]
            if per == "list":
                cells = np.arange(len(keys), len(keys) + len(rows))
                keys += rows
            else:
                cells = np.array([cell_of.setdefault(key, len(cell_of)) for key in rows], np.int64)
                keys += list(cell_of)[len(keys) :]
            table.count(batch, cells)
        columns: dict[str, list[Any]] = {}
        if any(start is not None for start, _, _ in keys):
            columns["start"] = [start for start, _, _ in keys]
        for index, name in enumerate(self.labels):
            columns[label_column(name)] = [labels[index] for _, labels, _ in keys]
        if any(user is not None for _, _, user in keys):
            columns["user"] = [user for _, _, user in keys]
        for metric in metrics:
            readings = readings_of(metric, table, np.arange(len(keys)), None) if keys else ()
            columns[metric.text] = [
                reading.value if reading.defined else math.nan for reading in readings
            ]
        return columns

    def _lists_again(self) -> Iterator[Decoded]:
        source = self._source
        if self.setup.is_ordered:
            from streameval.evaluation.engine_counts import EngineCounts  # noqa: PLC0415  large

            lists: list[Decoded] = []
            again = EngineCounts(self.setup, self.ids or "text", lists.append)
            for _ in again.count_parts(source, source.parts):
                yield from lists
                lists.clear()
            return
        for part in source.parts:
            for events in source.read(part, self._counts.search):
                yield lists_by_ranker(events.decoded, self.setup.fields.ranker_names)


def _empty_counts(setup: Setup, ids: IdKind) -> _Counts:
    if setup.needs_engine:
        from streameval.evaluation.engine_counts import EngineCounts  # noqa: PLC0415  large

        return EngineCounts(setup, ids)
    return SliceCounts(
        setup.families(ids),
        setup.label_names,
        setup.intervals,
        every=setup.every,
        rankers=setup.fields.ranker_names,
        by_day=setup.analysis is not None,
    )


def _count_parts(
    source: EventSource, empty: Callable[[], _Counts], processes: int, around: Surroundings
) -> _Counts:
    """Count all events, in several processes if the source has parts of known sizes."""
    counts, sizes = empty(), source.sizes
    with around.progress(sum(sizes or ()) or None) as update:
        if processes == 1 or sizes is None or len(sizes) == 1:
            for read in counts.count_parts(source, source.parts):
                update(read, counts.tally.consumed)
            return counts
        work, read = partial(_dump_parts, source, empty), 0
        source.used.add(("processes", None))
        with map_parts(work, source.parts, sizes, processes) as results:
            for dumped, size, outcomes, used in results:
                counts.merge(dumped)
                if isinstance(source, JoinSource):
                    source.outcomes = add_outcomes(source.outcomes, outcomes)
                source.used |= used
                read += size
                update(read, counts.tally.consumed)
    return counts


def _dump_parts(
    source: EventSource, empty: Callable[[], _Counts], parts: Sequence[Any]
) -> tuple[Any, int, Sequence[Any], set[Named]]:
    counts, before = empty(), source.outcomes
    size = max(counts.count_parts(source, parts), default=0)
    return counts.dump(), size, add_outcomes(source.outcomes, before, -1), source.used


def count(setup: Setup, around: Surroundings) -> FileCounts:
    """Count the inputs of a caller; notes every warning about the events.

    Raises:
        UsageError: the events cannot be read as they are.
        NoEventsError: there is no valid event.
    """
    source = setup.open()
    notes: list[Note | str] = [*setup.notes, *source.notes]
    for note in notes:
        around.note(note)
    # Another process gets the parts that it counts.
    alone = setup._replace(call=CallInputs("lines", ()))
    empty = partial(_empty_counts, alone, source.ids or "text")
    is_joined = setup.config is not None and setup.config.attribution is not None
    processes = 1 if is_joined else setup.options.processes
    counts = _count_parts(source, empty, processes, around)
    counts.flush()
    source.used |= _used_by_metrics(setup)
    if setup.intervals is not None or (setup.every is not None and setup.every.days is not None):
        source.used.add(("time_zone", None))
    if is_joined:
        # The streams of a join are read by the engine; it reads the columns that are not refused.
        source.used |= {("columns", field) for field in setup.options.columns}
        source.used.add(("combine", None))
    for note in () if is_joined else _unread_fields(setup):
        around.note(note)
    for text in (*counts.repeated_keys.warnings(), *_invalid_notes(setup, counts)):
        around.note(text)
    if not counts.tally.valid:
        if (warning := counts.warning()) is not None:
            around.note(warning)
        for text in _join_notes(setup.call, source):
            around.note(text)
        raise no_events(setup.call.names)
    for text in (*counts.warnings(), *_join_notes(setup.call, source)):
        around.note(text)
    time, newest = setup.fields.time, counts.newest
    # A wrong unit makes the window of a join longer or shorter.
    joins = is_joined or setup.call.kind == "joined"
    by_time = joins or setup.every is not None or setup.analysis is not None
    if by_time and time is not None and newest is not None:
        early = unit_warning(newest, time, str(setup.fields.time_unit))
        if early is not None:
            around.note(early)
    return FileCounts(setup, source, counts)


def _join_notes(call: CallInputs, source: EventSource) -> Iterator[str]:
    """Rows of a join that are invalid, and interactions that count in no list."""
    for at, (name, counts) in enumerate(zip(call.stream_names, source.outcomes, strict=True)):
        if counts.invalid:
            number = f"{counts.invalid:,} of {counts.records:,} rows of {name}"
            needs = ", ".join(_needs(call.events, at))
            yield f"{number} are invalid and left out; a row needs {needs}."
    if isinstance(source, JoinSource):
        yield from source.health.warnings()


def _needs(inputs: JoinInputs, at: int) -> Iterator[str]:
    """The fields that a row of a stream needs, impressions first."""
    stream = inputs.interactions[at - 1] if at else inputs.impressions
    yield "request_id" if stream.rule.key == "request_id" else "user"
    yield "time"
    yield from stream.required
    if not at:
        yield "recommendations"
        return
    yield "item"
    if stream.rule.types:
        yield "type"
    yield "and a finite gain if it has one"


def _used_by_metrics(setup: Setup) -> set[Named]:
    """The inputs that some metric reads, and the key of users if any are counted."""
    of_users = any("users" in metric.columns for metric in setup.metrics)
    read: set[Named] = {(USER_KEY, None)} if of_users or setup.intervals is not None else set()
    for metric in setup.metrics:
        read |= {(name, None) for name in metric.definition.inputs}
        read |= {("attributes", name) for name in metric.attributes_read}
    return read


def note_idle(around: Surroundings, counted: FileCounts) -> None:
    """Note each setting of the caller that had no effect."""
    for note in idle_notes(counted.setup.options, counted.used):
        around.note(note)


def _unread_fields(setup: Setup) -> Iterator[Note]:
    """Ranks and scores of the first JSON line that are not read, and values that mean nothing."""
    call, fields = setup.call, setup.fields
    if call.is_columns:
        for metric in setup.metrics:
            if (need := missing_field(metric, fields, call)) is not None:
                text = "do not use the value of {metric}: it needs " + need.text + "."
                yield Note(text, metric=metric.text, **need.values)
        return
    scored = ["scores"] if any("scores" in metric.columns for metric in setup.metrics) else []
    record = first_record(call.events)
    for name in ("positions", *scored):
        if getattr(fields, name) is None and name in record:
            yield Note(
                "{name} of the records are not read; name them with {column}.",
                name=name,
                column=Setting("columns", name, name),
            )


def _invalid_notes(setup: Setup, counts: _Counts) -> Iterator[str]:
    """Notes on invalid records: their number, and the first of each reason.

    Texts, which name no settings: a record may have braces.
    """
    tally, dead_letters = counts.tally, counts.dead_letters
    unit = "row" if setup.call.is_columns else "line"
    bad = sum(tally.invalid.values())
    if bad:
        yield f"{bad:,} of {tally.consumed:,} records are invalid and left out:"
    for dead_letter in dead_letters:
        where = f"{dead_letter.partition.topic}, {unit} {dead_letter.offset + 1}"
        number = tally.invalid[dead_letter.reason]
        text = (
            f"{dead_letter.reason}, first in {where}: {dead_letter.message}: {dead_letter.preview}"
        )
        yield f"{number:>9,} {text}"
    for dead_letter in dead_letters:
        line = dead_letter.value.strip()
        if dead_letter.offset or (line.startswith(b"{") and line != b"{"):
            continue
        # The first line is no object.
        remedy = "the name of a table ends with .csv, .tsv or .parquet"
        if line[:1] in (b"[", b"{"):
            remedy = 'write one object per line, as pandas does with orient="records", lines=True'
        yield f"{dead_letter.partition.topic} does not look like JSON lines: {remedy}."
