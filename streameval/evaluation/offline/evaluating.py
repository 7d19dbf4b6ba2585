"""Evaluates what a request names, as the daemon counts it or by spans of event time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from streameval.accumulator.readings import audiences
from streameval.config import Config
from streameval.config.config import relabel
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.capture import ingest_snapshot
from streameval.engine.ingest import Ingest
from streameval.engine.snapshot import Health, JoinHealth, Series, SeriesFamily, Snapshot
from streameval.engine.spans import Slice
from streameval.engine.windows.times import DurationError, microseconds
from streameval.engine.windows.views import FamilyView
from streameval.evaluation.offline.counting import Counts, count_events, early_warning, event_chunks
from streameval.evaluation.offline.pairs import check_pair
from streameval.evaluation.offline.request import (
    Request,
    config_of,
    lacking_field,
    only_for_pairs,
)
from streameval.evaluation.offline.surroundings import NoEventsError, Surroundings
from streameval.evaluation.offline.values import EventChunk
from streameval.evaluation.partials import Cell
from streameval.evaluation.tables.wording import Wording
from streameval.events.errors import UsageError
from streameval.join.frontend import JoinStats


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
        counts: all of them, from which the readings were made.
        is_doubtful: whether most records with interactions are invalid.
        users: number of users of each span and slice, if they are known.
    """

    spans: Sequence[SpanReadings]
    config: Config
    counts: Counts
    is_doubtful: bool = False
    users: Mapping[Cell, float] = MappingProxyType({})


def evaluated(request: Request, around: Surroundings, now: float) -> Evaluated:
    """Count what the request names, and read its metrics; notes every doubt about the events.

    `now`: seconds since the epoch, at which windows are read.

    Raises:
        UsageError: the request contradicts itself, or names what is not there.
        NoEventsError: there is no valid event.
    """
    config = _config(request, around)
    counts = count_events(request, config, around, _span_length(config, request))
    config, tally, join = counts.config, counts.ingest.tally, _join_health(counts, config)
    warning = tally.warning() or (join.warning() if join is not None else None)
    doubt = None if counts.spans is None else counts.ingest.doubt()
    for text in config.metrics if request.is_tables else ():
        if lacking := lacking_field(text, config, tables=True):
            around.note(f"do not use the value of {text}: it needs {lacking}.")
    if not tally.valid:
        if warning is not None:
            around.note(warning)
        raise NoEventsError(f"no valid event in {', '.join(request.files or config.source.logs)}.")
    spans = _readings(counts, now, join)
    for text in _absent_labels([span.snapshot for span in spans], request.wording):
        around.note(text)
    if counts.spans is not None and (problem := warning or doubt):
        around.note(problem)
    _note_doubts(spans, config, around)
    users = {}
    if counts.spans is None and config.intervals is not None:
        sizes = _users_in(counts.ingest, config.series_labels())
        users = {Cell(labels, None): number for labels, number in sizes.items()}
    return Evaluated(spans, config, counts, warning is not None, users=users)


def _readings(counts: Counts, now: float, join: JoinHealth | None) -> list[SpanReadings]:
    """The readings of each span, in time order."""
    config = counts.config
    if counts.spans is None:
        snapshot = ingest_snapshot(counts.ingest, labels=config.series_labels(), now=now, join=join)
        return [SpanReadings(None, snapshot)]
    families = [
        SeriesFamily(group.name, group.segment, group.dimensions) for group in config.families()
    ]
    return [
        SpanReadings(start, snapshot_of(families, slices)) for start, slices in counts.spans.items()
    ]


def _config(request: Request, around: Surroundings) -> Config:
    """The configuration to count with, once the arguments are checked."""
    if request.is_pair:
        _check_pair(request)
        return _without_splits(config_of(request), around)
    if request.ties is not None or request.form != "detect":
        raise UsageError(only_for_pairs(request))
    return config_of(request)


def _check_pair(request: Request) -> None:
    if request.labels:
        option = request.wording.option
        pair = f"{option('recommendations')} and {option('truth')}"
        raise UsageError(f"{option('by')} splits events; {pair} have no labels.")
    check_pair(request)


def _without_splits(config: Config, around: Surroundings) -> Config:
    """The configuration without what a row of one item has not: labels, times and event ids."""
    if config.windows is not None or config.segments or config.dedup is not None:
        around.note("windows, segments and dedup need events; rows of items have none.")
    return relabel(
        msgspec.structs.replace(config, windows=None, segments=[], dedup=None), labels=[]
    )


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
    return event_chunks(request, config, _span_length(config, request))


def _users_in(ingest: Ingest, labels: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Label values -> number of users over the lifetime; empty if users are not kept."""
    layout, counts = ingest.layout, ingest.copied()
    for spec in layout.families:
        if spec.dimensions != tuple(labels):
            continue
        view = FamilyView(spec, layout.windowing.pane)
        view.refresh(counts.families[spec.name])
        table = view.lifetime()
        slices = view.slices(table)
        names = (view.labels(number) for number in slices.tolist())
        return {
            tuple(values): audience.users
            for values, audience in zip(names, audiences(table, slices), strict=False)
        }
    return {}
