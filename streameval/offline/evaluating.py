"""Evaluates what a request names: JSON lines as the daemon counts them, tables, and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from streameval.accumulator import Accumulator
from streameval.accumulator.reading_intervals import interval_method
from streameval.config import Config
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.capture import ingest_snapshot
from streameval.engine.snapshot import Health, JoinHealth, Series, SeriesFamily, Snapshot
from streameval.engine.spans import Slice
from streameval.engine.variants import users_in
from streameval.join.frontend import JoinStats
from streameval.offline.counting import (
    Counts,
    count_records,
    count_tables,
    early_warning,
    record_chunks,
    table_task,
)
from streameval.offline.pairs import check_pair, count_pair, pair_events
from streameval.offline.request import Request, config_of, lacking_field, only_for_pairs
from streameval.offline.surroundings import NoEventsError, Surroundings, UsageError
from streameval.offline.values import EventChunk
from streameval.partials import Cell
from streameval.tables.wording import Wording
from streameval.windows.times import DurationError, microseconds


class SpanReadings(NamedTuple):
    """Readings of a span of event time.

    Attributes:
        start: microseconds since the epoch; None for all time.
    """

    start: int | None
    snapshot: Snapshot


class Evaluated(NamedTuple):
    """The readings that a request asks for.

    Attributes:
        spans: in time order; one without a start unless spans are asked for.
        config: what was counted, and how.
        is_doubtful: whether most records with interactions are invalid.
        counted: the accumulator of each span and slice; empty for JSON lines.
        users: number of users of each span and slice, if they are known.
    """

    spans: Sequence[SpanReadings]
    config: Config
    is_doubtful: bool = False
    counted: Mapping[Cell, Accumulator] = MappingProxyType({})
    users: Mapping[Cell, float] = MappingProxyType({})


def evaluated(request: Request, around: Surroundings, now: float) -> Evaluated:
    """Count what the request names, and read its metrics; notes every doubt about the events.

    `now`: seconds since the epoch, at which windows are read.

    Raises:
        UsageError: the request contradicts itself, or names what is not there.
        NoEventsError: there is no valid event.
    """
    if request.is_pair:
        return _of_pair(request, around)
    if request.ties is not None or request.form != "detect":
        raise UsageError(only_for_pairs(request))
    return _of_tables(request, around) if request.is_tables else _of_records(request, around, now)


def _of_records(request: Request, around: Surroundings, now: float) -> Evaluated:
    config = config_of(request)
    counts = count_records(
        config, _span_length(config, request), request.processes, around, request.inputs
    )
    join, tally = _join_health(counts, config), counts.ingest.tally
    warning = tally.warning() or (join.warning() if join is not None else None)
    doubt = None if counts.spans is None else counts.ingest.doubt()
    if not tally.valid:
        if warning is not None:
            around.note(warning)
        raise NoEventsError(f"no valid event in {', '.join(config.source.logs)}.")
    if counts.spans is None:
        snapshot = ingest_snapshot(counts.ingest, labels=config.labels, now=now, join=join)
        spans = [SpanReadings(None, snapshot)]
    else:
        families = [
            SeriesFamily(group.name, group.segment, group.dimensions) for group in config.families()
        ]
        spans = [
            SpanReadings(start, snapshot_of(families, slices))
            for start, slices in counts.spans.items()
        ]
    for text in _absent_labels([span.snapshot for span in spans], request.wording):
        around.note(text)
    if counts.spans is not None and (problem := warning or doubt):
        around.note(problem)
    _note_doubts(spans, config, around)
    users = {}
    if counts.spans is None and config.intervals is not None:
        sizes = users_in(counts.ingest, config.labels)
        users = {Cell(labels, None): number for labels, number in sizes.items()}
    return Evaluated(spans, config, warning is not None, users=users)


def _span_length(config: Config, request: Request) -> int | None:
    """The length of a span, microseconds; None for all time."""
    if request.every is None:
        return None
    option = request.wording.option
    try:
        every = microseconds(request.every)
    except DurationError as error:
        raise UsageError(f"{option('every')}: {error}") from None
    if not every:
        raise UsageError(f"{option('every')}: found {request.every!r}; give at least 1s.")
    if config.event.time is None:
        raise UsageError(
            f"{option('every')} needs event time: name its field and unit with {option('time')} "
            f"and {option('time-unit')}, or as time and time_unit under [event] in "
            f"{option('config', 'FILE')}."
        )
    return every


def _join_health(counts: Counts, config: Config) -> JoinHealth | None:
    options = config.attribution
    if options is None:
        return None
    stats = JoinStats(options.names, by_request=options.key == "request_id")
    return stats.health(counts.ingest.partitions)


def _absent_labels(snapshots: Sequence[Snapshot], wording: Wording) -> Iterator[str]:
    values: dict[str, set[str]] = {}
    for snapshot in snapshots:
        for entry in snapshot.series:
            names = snapshot.families[entry.family].label_names
            for name, value in zip(names, entry.labels, strict=True):
                values.setdefault(name, set()).add(value)
    for name, present in values.items():
        if present == {MISSING_LABEL}:
            by = wording.option("by")
            yield f"no event has the label {name!r}; {by} or [event.labels] names its field."


def _of_tables(request: Request, around: Surroundings) -> Evaluated:
    config = config_of(request)
    _span_length(config, request)
    return _read(count_tables(request, config, around).found, config, request, around)


def _of_pair(request: Request, around: Surroundings) -> Evaluated:
    if request.labels:
        option = request.wording.option
        pair = f"{option('recommendations')} and {option('truth')}"
        raise UsageError(f"{option('by')} splits events; {pair} have no labels.")
    check_pair(request)
    config = config_of(request)
    counted = count_pair(request, config, _span_length(config, request), around.note).found
    # The labels of a daemon's configuration are in its events.
    return _read(counted, msgspec.structs.replace(config, labels=[]), request, around)


def _read(
    counted: Mapping[Cell, Accumulator], config: Config, request: Request, around: Surroundings
) -> Evaluated:
    if config.windows is not None or config.segments or config.metric or config.dedup is not None:
        names = "windows, segments, dedup and [[metric]]"
        around.note(f"{names} apply to JSON lines only; they are ignored here.")
    for text in config.metrics:
        if lacking := lacking_field(text, config, tables=True):
            around.note(f"do not use the value of {text}: it needs {lacking}.")
    if not any(accumulator.lists for accumulator in counted.values()):
        raise NoEventsError(f"no event in {', '.join(request.files)}.")
    spans = _by_span(counted, config)
    _note_doubts(spans, config, around)
    audiences = {cell: part.audience for cell, part in counted.items()}
    users = {cell: audience.users for cell, audience in audiences.items() if audience is not None}
    return Evaluated(spans, config, counted=counted, users=users)


def _by_span(counted: Mapping[Cell, Accumulator], config: Config) -> list[SpanReadings]:
    """The readings of each span, in time order."""
    families = [SeriesFamily("labels", None, tuple(config.labels))]
    spans: dict[int | None, dict[tuple[str, ...], Slice]] = {}
    for cell, part in sorted(
        counted.items(), key=lambda item: (item[0].start or 0, item[0].labels)
    ):
        method = interval_method(config.intervals, whole=cell.start is None)
        whole = Slice(part.metrics, part.table, 0, method, part.doubts)
        spans.setdefault(cell.start, {})[cell.labels] = whole
    return [SpanReadings(start, snapshot_of(families, [slices])) for start, slices in spans.items()]


def _note_doubts(spans: Sequence[SpanReadings], config: Config, around: Surroundings) -> None:
    starts = [span.start for span in spans if span.start is not None]
    troubles = [early_warning(config, starts), *(span.snapshot.health.trouble for span in spans)]
    for trouble in dict.fromkeys(troubles):
        if trouble is not None:
            around.note(trouble)


def snapshot_of(
    families: Sequence[SeriesFamily],
    slices: Sequence[Mapping[tuple[str, ...], Slice]],
) -> Snapshot:
    """A snapshot of the readings of slices, given by family."""
    series = [
        Series(metric, labels, part.read(metric), family=number)
        for number, of_family in enumerate(slices)
        for metric in (next(iter(of_family.values())).metrics if of_family else ())
        for labels, part in of_family.items()
    ]
    health = Health(trouble=next(_advice(families, slices), None))
    return Snapshot(
        version=1,
        taken_at=0.0,
        started_at=0.0,
        source="",
        families=tuple(families),
        series=tuple(series),
        health=health,
    )


def _advice(
    families: Sequence[SeriesFamily],
    slices: Sequence[Mapping[tuple[str, ...], Slice]],
) -> Iterator[str]:
    for family, of_family in zip(families, slices, strict=True):
        for labels, part in of_family.items():
            if (text := part.advice()) is not None:
                pairs = zip(family.label_names, labels, strict=True)
                where = ", ".join(f"{name}={value}" for name, value in pairs)
                yield f"{where}: {text}" if where else text


def page_of(title: str, spans: Sequence[SpanReadings]) -> str:
    """One HTML file with the readings, which loads nothing from elsewhere."""
    from streameval.exporters.page import document  # noqa: PLC0415  rarely needed, and takes time

    return f"{document(title, spans)}\n"


def chunks_of(request: Request, config: Config) -> Iterator[EventChunk]:
    """The events of a request again, with what each is split by; doubts are not noted again.

    `config`: of `evaluated`.
    """
    every = _span_length(config, request)
    if request.is_pair:
        for start, _, columns in pair_events(request, config, every, lambda _: None):
            yield EventChunk(columns, (), start)
    elif request.is_tables:
        task = table_task(request, config)
        for cell, events in task.counting.split(task.pieces):
            yield EventChunk(events, cell.labels, cell.start)
    else:
        yield from record_chunks(config, every, request.inputs)
