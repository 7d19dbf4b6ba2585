"""Counts files, frames and lists without a configuration: from columns to one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from streameval.accumulator import Accumulator
from streameval.accumulator.plan import make_plan
from streameval.catalogue.metric import Metric
from streameval.decoding.fields import EventFields
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.windows.times import DurationError, microseconds, unit_warning
from streameval.evaluation.counting import Counts, chunks_of, count, invalid_notes
from streameval.evaluation.events import EventRows, Needs
from streameval.evaluation.fields import (
    check_fields,
    check_metrics,
    event_fields,
    lacking_field,
)
from streameval.evaluation.options import InputError, Note, Options, Setting
from streameval.evaluation.result import EvaluationRow, NoEventsError, Surroundings
from streameval.evaluation.rows import TimeColumn
from streameval.evaluation.sources import (
    EventSource,
    EventTables,
    Given,
    Lines,
    ListEvents,
    Pair,
    ScoredEvents,
    usual_user,
)
from streameval.evaluation.values import EventChunk
from streameval.sources.files import first_record
from streameval.statistics.exposures import MAX_ITEMS


class DirectCounts:
    """Counts of what a caller gave; see `EvaluationCounts`."""

    def __init__(
        self,
        source: EventSource,
        counts: Counts,
        labels: Sequence[str],
        every: int | None,
        inputs: Mapping[str, Any],
    ) -> None:
        self.names, self.labels = source.names, tuple(labels)
        self.is_doubtful = counts.tally.warning() is not None
        self._source, self._counts, self._every = source, counts, every
        self._inputs = inputs
        self.ids = source.ids

    @cached_property
    def _rows(self) -> Sequence[EvaluationRow]:
        by_start: dict[int | None, list[list[EvaluationRow]]] = {}
        for cell, readings, users in self._counts.rows():
            labels = dict(zip(self.labels, cell.labels, strict=False))
            by_start.setdefault(cell.start, []).append(
                [
                    EvaluationRow(cell.start, labels, "lifetime", reading, users)
                    for reading in readings
                ]
            )
        return [
            row
            for cells in by_start.values()
            for of_metric in zip(*cells, strict=True)
            for row in of_metric
        ]

    def rows(self) -> Sequence[EvaluationRow]:
        """See `EvaluationCounts`."""
        return self._rows

    def accumulator(self, labels: Sequence[str]) -> Accumulator | None:
        """See `EvaluationCounts`."""
        return None if self._every is not None else self._counts.accumulator(labels)

    def empty(self) -> Accumulator:
        """See `EvaluationCounts`."""
        return Accumulator(*self._counts.empty.metrics, **self._inputs)

    def chunks(self) -> Iterator[EventChunk]:
        """See `EvaluationCounts`."""
        return chunks_of(self._source, self._counts.empty.table.search, self._every)


def count_directly(given: Given, options: Options, around: Surroundings) -> DirectCounts:
    """Count what a caller gave; notes every doubt about it.

    Raises:
        UsageError: the options contradict each other, or name what is not there.
        NoEventsError: there is no valid event.
    """
    metrics = check_metrics(options)
    check_labels(given, options)
    fields = event_fields(EventFields(), given, options, options.by)
    fields = usual_user(given, fields, options.by)
    check_fields(metrics, fields, given)
    every = span_length(options, fields)
    source = open_source(given, fields, options.by, options, metrics, every)
    for note in source.notes:
        around.note(note)
    inputs = _inputs(source, options)
    kind = source.ids or "text"
    empty = Accumulator(*metrics, **inputs, ids=kind, intervals=options.intervals)
    sizes = source.sizes
    with around.progress(sum(sizes) if sizes else None) as shown:
        counts = count(source, empty, every, options.processes, shown)
    _note_doubts(counts, given, fields, options, around)
    return DirectCounts(source, counts, options.by, every, inputs)


def _note_doubts(
    counts: Counts, given: Given, fields: EventFields, options: Options, around: Surroundings
) -> None:
    unit = "row" if given.is_columns else "line"
    for note in (
        *unread_fields(given, fields, counts.empty.metrics),
        *invalid_notes(counts.tally, counts.letters, unit),
    ):
        around.note(note)
    warning = counts.tally.warning()
    if not counts.tally.valid:
        if warning is not None:
            around.note(warning)
        raise NoEventsError(f"no valid event in {', '.join(given.names)}.")
    for place, name in enumerate(options.by):
        if all(cell.labels[place] == MISSING_LABEL for cell in counts.cells):
            raise InputError(
                f"no event has the label {name!r}; name its field with ",
                Setting("by"),
                " or ",
                Setting("columns", "FIELD", name),
                ".",
            )
    advice, doubt = counts.advice(options.by), warning or counts.doubt()
    found = [doubt, *advice]
    if options.every is None:
        # One sentence is enough for one table.
        found = [warning or next(iter(advice), doubt)]
    if counts.newest is not None and fields.time is not None and options.every is not None:
        early = unit_warning(counts.newest, fields.time, str(fields.time_unit))
        found.append(early)
    for text in dict.fromkeys(found):
        if text is not None:
            around.note(text)


def check_labels(given: Given, options: Options) -> None:
    """Refuse options of events for rows, and options of rows for events."""
    if given.is_pair and options.by:
        raise InputError(
            Setting("by"),
            " splits events; ",
            Setting("recommendations"),
            " and ",
            Setting("truth"),
            " have no labels.",
        )
    if not given.is_pair and options.ties is not None:
        raise InputError(
            Setting("ties"),
            " is for ",
            Setting("recommendations"),
            " with ",
            Setting("truth"),
            "; leave it out.",
        )


def span_length(options: Options, fields: EventFields) -> int | None:
    """The length of a span, microseconds; None for all time."""
    if options.every is None:
        return None
    try:
        every = microseconds(options.every)
    except DurationError as error:
        raise InputError(Setting("every"), f": {error}") from None
    if not every:
        raise InputError(Setting("every"), f": found {options.every!r}; give at least 1s.")
    if fields.time is None:
        raise InputError(
            Setting("every"),
            " needs event time: name its field and unit with ",
            Setting("columns", "NAME", "time"),
            " and ",
            Setting("time_unit"),
            ", or as time and time_unit under [event] in ",
            Setting("config", "FILE"),
            ".",
        )
    return every


def needs_of(metrics: Sequence[Metric], options: Options, *, times: bool) -> Needs:
    """What is read of an event besides its lists."""
    users = options.intervals is not None or any(
        metric.is_per_user or metric.definition.reads == "users" for metric in metrics
    )
    return Needs(users=users, times=times or users)


def open_source(
    given: Given,
    fields: EventFields,
    labels: Sequence[str],
    options: Options,
    metrics: Sequence[Metric],
    every: int | None,
    needs: Needs | None = None,
) -> EventSource:
    """The events of what a caller gave.

    `needs`: what is read besides lists; by default what metrics and spans need.
    """
    needs = needs or needs_of(metrics, options, times=every is not None)
    scores = bool({metric.definition.reads for metric in metrics} & {"scores", "ranksums", "event"})
    if given.kind == "lines":
        return Lines(given.events, fields, labels)
    if given.kind == "tables":
        return EventTables(given.events, EventRows(fields, labels, needs, options), options)
    if given.kind == "aligned":
        return ListEvents(given)
    if given.kind == "scores":
        return ScoredEvents(given, make_plan(metrics, None, MAX_ITEMS).depth, scores=scores)
    clock = None
    if every is not None and fields.time is not None:
        clock = TimeColumn(fields.time, fields.time_unit or "iso8601")
    integers = fields.ids == "integer"
    return Pair(
        given,
        options,
        every=every,
        clock=clock,
        integers=integers,
        needs=needs,
        scores=scores,
        counts_rows=any(metric.convention == "rectools" for metric in metrics),
    )


def _inputs(source: EventSource, options: Options) -> dict[str, Any]:
    """The inputs of the metrics; a catalogue in a file has ids of the kind of the source."""
    inputs: dict[str, Any] = {**options.inputs}
    if isinstance(inputs.get("catalog"), str):
        from streameval.config.config import catalogue  # noqa: PLC0415  rarely needed, and large

        inputs["catalog"] = catalogue(inputs["catalog"], int if source.ids == "integer" else str)
    return inputs


def unread_fields(given: Given, fields: EventFields, metrics: Sequence[Metric]) -> Iterator[Note]:
    """Ranks and scores of the first JSON line that are not read, and values that mean nothing."""
    if given.is_columns:
        for metric in metrics:
            if (lacking := lacking_field(metric, fields, given)) is not None:
                parts = lacking.parts
                yield Note(f"do not use the value of {metric.text}: it needs ", *parts, ".")
        return
    scored = any(metric.definition.reads in ("scores", "ranksums", "event") for metric in metrics)
    names = ["positions", *(["scores"] if scored else [])]
    record = first_record(given.events)
    for name in names:
        if getattr(fields, name) is None and name in record:
            yield Note(
                f"{name} of the records are not read; name them with ",
                Setting("columns", name, name),
                ".",
            )
