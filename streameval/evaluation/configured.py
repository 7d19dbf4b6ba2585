"""Counts files and frames with a configuration, as a daemon does: labels, windows, joins, dedup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from streameval.accumulator import Accumulator
from streameval.accumulator.formulas import needed_inputs
from streameval.accumulator.readings import audiences
from streameval.catalogue import parse
from streameval.config import Config, WebOptions, load
from streameval.config.checks import check_config
from streameval.config.config import relabel, with_analyses, without_formats
from streameval.config.pipeline import frontend_of, layout
from streameval.decoding.columns import Decoded
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.analysis import Analysis, Configured, configured
from streameval.engine.capture import ingest_snapshot
from streameval.engine.ingest import EventFrontend, Frontend, Ingest, StartOwner
from streameval.engine.snapshot import JoinHealth, SeriesFamily
from streameval.engine.spans import Dumped as DumpedSpans
from streameval.engine.spans import Spans
from streameval.engine.windows.family import widest_search
from streameval.engine.windows.labels import NO_CAP
from streameval.engine.windows.times import unit_warning
from streameval.engine.windows.views import FamilyView
from streameval.evaluation.counting import first_letters, invalid_notes, starts_of
from streameval.evaluation.direct import (
    check_labels,
    needs_of,
    open_source,
    span_length,
    unread_fields,
)
from streameval.evaluation.fields import (
    check_fields,
    check_metrics,
    event_fields,
    is_given,
)
from streameval.evaluation.options import InputError, Note, Options, Setting
from streameval.evaluation.partial_rows import Cell
from streameval.evaluation.processes import map_parts
from streameval.evaluation.result import EvaluationRow, NoEventsError, Surroundings
from streameval.evaluation.sources import EventSource, Given, Lines, usual_user
from streameval.evaluation.spans import SpanReadings, snapshot_of
from streameval.evaluation.values import EventChunk
from streameval.events.errors import UsageError, suggestion
from streameval.events.ids import IdKind
from streameval.events.records import Owner, Partition
from streameval.join.frontend import CopartitionedOwner, JoinStats
from streameval.join.options import AttributionOptions
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions
from streameval.sources.source import Positions
from streameval.sources.source import Source as RecordSource

_POLL_SECONDS: Final = 0.2

_LINES: Final = (".ndjson", ".jsonl", ".json")


def config_of(
    given: Given,
    options: Options,
    *,
    added: Sequence[str] = (),
    analysis: Analysis[Any, Any] | None = None,
    reported: bool = False,
) -> Config:
    """The configuration with which what was given is counted; its files replace the source.

    Args:
        given: files, frames or lists; without files, those of the configuration.
        options: of the call.
        added: metrics besides those, which an experiment names.
        analysis: the one whose table is kept, unchecked: its options may change it.
        reported: whether the tables of those that a report shows are kept.

    Raises:
        UsageError, ConfigError, MetricError: the options or the configuration are wrong.
    """
    named = [*options.metrics, *added]
    if options.config is None:
        check_metrics(msgspec.structs.replace(options, metrics=named))
        # Files are finite, so labels need no cap.
        base = Config(metrics=["ctr"], source=_source(given), label_cap=NO_CAP, max_series=NO_CAP)
    else:
        source = _source(given) if given.names else None
        base = load(options.config, lambda config: _for_files(config, given, options), source)
    config = _overridden(base, given, options, added)
    tables = configured(config)
    config = with_analyses(config, [])
    if not given.is_pair:
        check_fields(map(parse, named), config.event, given)
    config = _checked(config, options)
    kept = [
        pair for pair in tables if pair.analysis is analysis or (reported and _fits(pair, config))
    ]
    return with_analyses(config, kept)


def _fits(pair: Configured, config: Config) -> bool:
    """Whether a report shows an analysis: one that fits the labels and metrics of the options.

    What needs users has a command of its own, which counts them.
    """
    analysis, settings = pair
    return analysis.users is None and not any(analysis.check(settings, config.kept()))


def _source(given: Given) -> FilesOptions:
    if not given.names:
        raise InputError(
            "there are no files; give at least one, or ",
            Setting("recommendations"),
            " with ",
            Setting("truth"),
            ".",
        )
    return FilesOptions(paths=list(given.names))


def _overridden(config: Config, given: Given, options: Options, added: Sequence[str]) -> Config:
    change = msgspec.structs.replace
    if options.metrics or options.config is None:
        config = change(config, metrics=list(dict.fromkeys(options.metrics)), metric=[])
    counted = {parse(text).text for text in (*config.metrics, *(x.name for x in config.metric))}
    more = [text for text in dict.fromkeys(added) if parse(text).text not in counted]
    config = change(config, metrics=[*config.metrics, *more])
    labels = [*options.by] if options.by else config.dimensions()
    event = event_fields(config.event, given, options, labels)
    if options.by:
        # Before the labels, one of which is that of the rankers.
        config = relabel(change(config, event=event), options.by)
        event = event_fields(config.event, given, options, config.dimensions())
    event = usual_user(given, event, config.dimensions()) if options.config is None else event
    catalog = options.inputs.get("catalog")
    if isinstance(catalog, int | str):
        number = isinstance(catalog, str) and catalog.isdecimal()
        config = change(config, catalog=int(catalog) if number else catalog)
    if options.intervals is not None and config.intervals is None:
        config = change(config, intervals=options.intervals)
    return change(config, event=event)


def _checked(config: Config, options: Options) -> Config:
    """The configuration, checked without the metrics whose inputs are objects of the caller."""
    rest = [
        text
        for text in config.metrics
        if not any(is_given(name, options) for name in needed_inputs(parse(text)))
    ]
    check_config("the options", msgspec.structs.replace(config, metrics=rest or ["hits"]))
    return config


def _for_files(config: Config, given: Given, options: Options) -> Config:
    """A daemon's configuration without the settings that only a daemon needs, for these files."""
    replace = msgspec.structs.replace
    config = replace(config, state=None, dead_letters=None, web=WebOptions())
    config = without_formats(config)
    if options.metrics and not config.metrics and not config.metric:
        config = replace(config, metrics=["hits"])  # until those named replace it
    if not given.names and config.source.has_files:
        return config
    config = replace(config, source=_source(given))
    if given.is_pair:
        return replace(config, attribution=None)
    if config.attribution is None:
        return config
    if given.is_columns:
        problem = "[attribution] joins streams of JSON lines; these files are tables"
        raise UsageError(f"{problem}. If they are joined, leave it out of the configuration.")
    return _streams_as_files(config, config.attribution, given.events)


def _streams_as_files(
    config: Config, attribution: AttributionOptions, paths: Sequence[str]
) -> Config:
    """The configuration with its streams replaced by files.

    A file replaces the stream of its name: "clicks.ndjson.gz" the topic "clicks".
    """
    by_stem = {_stem(name): name for stream in attribution.streams for name in stream}
    files = {by_stem.get(_stem(path)): path for path in paths}
    for path in paths:
        if _stem(path) not in by_stem:
            stream_names, hint = ", ".join(by_stem), suggestion(_stem(path), by_stem)
            problem = f"[attribution] joins no stream of this name, only {stream_names}.{hint}"
            raise UsageError(f"{path}: {problem}")
    missing = [name for name in by_stem.values() if name not in files]
    if missing:
        names = ", ".join(map(repr, missing))
        problem = f"[attribution] also joins {names}; give a file of that name, like"
        raise UsageError(f"{problem} {_stem(missing[0])}.ndjson.")
    paths_of = {name: path for name, path in files.items() if name is not None}
    return msgspec.structs.replace(config, attribution=attribution.renamed(paths_of))


def _stem(path: str) -> str:
    """The name of a file without folder and extensions; a topic's name is unchanged.

    >>> _stem("logs/shop.clicks.ndjson.gz"), _stem("shop.clicks")
    ('shop.clicks', 'shop.clicks')
    """
    name = Path(path).name
    for ending in (".gz", ".zst", *_LINES):
        name = name.removesuffix(ending)
    return name


def config_with_ids(given: Given, options: Options, ids: IdKind | None) -> Config:
    """The configuration with which a daemon would count the same values."""
    return _of_given(config_of(given, options), given, ids or "text")


def _of_given(config: Config, given: Given, ids: IdKind | None) -> Config:
    """The configuration without what rows of items have not, and with ids of this kind.

    `ids`: None leaves the kind of the configuration.
    """
    kinds: Mapping[IdKind, Literal["integer", "string"]] = {"integer": "integer", "text": "string"}
    kind = config.event.ids if ids is None else kinds[ids]
    event = msgspec.structs.replace(config.event, ids=kind)
    if given.is_pair:
        event = msgspec.structs.replace(event, rankers=None)
        config = relabel(
            msgspec.structs.replace(config, windows=None, segments=[], dedup=None), labels=[]
        )
    return msgspec.structs.replace(config, event=event)


class EngineCounts(NamedTuple):
    """The counts of files.

    Attributes:
        ingest: which counts, unless spans do.
        config: what was counted, with the kind of ids that the events have.
        source: of the events.
        spans: counts by span; None if the ingest itself counts, as the daemon does.
    """

    ingest: Ingest
    config: Config
    source: EventSource
    spans: Spans | None = None


def count_events(
    given: Given, options: Options, config: Config, around: Surroundings, every: int | None = None
) -> EngineCounts:
    """Count all events that were given, and note the doubts about them.

    Args:
        given: files, frames or lists.
        options: how they are read.
        config: what to count.
        around: takes the doubts.
        every: length of a span, microseconds; None to count as the daemon does.
    """
    counting = EngineCounting.of(given, options, config, every)
    counts, source = counting.begin(), counting.source
    for note in source.notes:
        around.note(note)
    letters: list[Any] = []
    sizes = None if config.attribution is not None else source.sizes
    with around.progress(sum(sizes) if sizes else None) as shown:
        if options.processes > 1 and sizes is not None:
            read = 0
            with map_parts(counting, source.parts, sizes, options.processes) as results:
                for part in results:
                    part.add_to(counts)
                    letters = first_letters([*letters, *part.letters])
                    read += part.size
                    shown(read, counts.ingest.tally.consumed)
        else:
            for read in counting.apply(source.parts, counts):
                letters = first_letters([*letters, *counts.ingest.take_invalid()])
                shown(read, counts.ingest.tally.consumed)
    metrics = [metric for group in counts.config.families() for metric in group.metrics]
    paths = given if given.names else given._replace(events=config.source.logs)
    unread = () if config.attribution is not None else unread_fields(paths, config.event, metrics)
    unit = "row" if given.is_columns else "line"
    for note in (*unread, *invalid_notes(counts.ingest.tally, letters, unit)):
        around.note(note)
    return counts


class CountedParts(NamedTuple):
    """The counts of some parts, from another process.

    Attributes:
        partitions: log -> next offset and sections of its state; empty if counted by spans.
        spans: counts by span; empty if counted as the daemon does.
    """

    size: int
    tally: Any
    letters: Sequence[Any]
    partitions: Mapping[Partition, tuple[int, Mapping[str, bytes]]]
    spans: Sequence[DumpedSpans]
    doubts: Any

    def add_to(self, counts: EngineCounts) -> None:
        """Add these counts to others."""
        counts.ingest.add(self.tally, self.doubts)
        if counts.spans is not None:
            counts.spans.add(self.spans)
        for partition, (offset, parts) in self.partitions.items():
            counts.ingest.restore(partition, {partition: offset}, parts)


class EngineCounting:
    """Counts parts of a source with a configuration, in this process or in another."""

    def __init__(
        self, source: EventSource, config: Config, every: int | None, inputs: Mapping[str, Any]
    ) -> None:
        self.source, self.config, self.every, self._inputs = source, config, every, inputs

    @classmethod
    def of(
        cls, given: Given, options: Options, config: Config, every: int | None
    ) -> EngineCounting:
        """The counting of what was given."""
        if given.is_pair:
            config = _of_given(config, given, None)
        if given.is_columns and config.event.rankers:
            raise UsageError("lists of rankers are read from JSON lines, not from tables.")
        metrics = [metric for group in config.families() for metric in group.metrics]
        with_intervals = msgspec.structs.replace(options, intervals=config.intervals)
        if not given.names:
            given = Given("lines", config.source.logs, config.source.logs)
        # What counts depends on the order of rows, so a file is one log.
        is_ordered = config.dedup is not None or bool(config.windowing().spans)
        needs = needs_of(metrics, with_intervals, times=is_ordered or every is not None)
        needs = needs._replace(event_ids=config.dedup is not None, in_order=is_ordered)
        labels = config.dimensions()
        source = open_source(given, config.event, labels, with_intervals, metrics, every, needs)
        config = _of_given(config, given, source.ids or "text")
        objects = {
            name: value
            for name, value in options.inputs.items()
            if name != "catalog" or not isinstance(value, int | str)
        }
        return cls(source, config, every, objects)

    def begin(self) -> EngineCounts:
        """Empty counts."""
        frontend = self.frontend
        if self.every is None:
            return EngineCounts(Ingest(frontend), self.config, self.source)
        spans = Spans(frontend.layout.families, self.every, frontend.layout.intervals)
        return EngineCounts(Ingest(frontend, sink=spans.update), self.config, self.source, spans)

    @cached_property
    def frontend(self) -> Frontend:
        """Decodes the records; that of tables and lists is not asked to."""
        settings = layout(self.config, self._inputs)
        if isinstance(self.source, Lines):
            return frontend_of(self.config, settings)
        return EventFrontend(_NoDecoder(), settings)

    def apply(self, parts: Sequence[Any], counts: EngineCounts) -> Iterator[int]:
        """Count parts batch by batch; yields the bytes read so far."""
        if isinstance(self.source, Lines):
            records = FilesSource(FilesOptions(paths=list(parts)))
            records.open(owner_from_start(self.config, counts.ingest))
            for _ in ingest_records(records, counts.ingest):
                yield records.bytes_read
            return
        search, before = widest_search(counts.ingest.layout.families), 0
        for part in parts:
            read = 0
            for events in self.source.read(part, search):
                counts.ingest.count(events.records, events.decoded.voting(None))
                read = max(read, events.size)
                yield before + read
            before += read

    def __call__(self, parts: Sequence[Any]) -> CountedParts:
        """Count some parts in another process."""
        counts, size = self.begin(), 0
        letters: list[Any] = []
        for read in self.apply(parts, counts):
            size = read
            letters = first_letters([*letters, *counts.ingest.take_invalid()])
        ingest = counts.ingest
        if counts.spans is not None:
            return CountedParts(size, ingest.tally, letters, {}, counts.spans.dump(), ingest.doubts)
        partitions = {
            partition: (
                position,
                {
                    section.name: b"".join(section.content()())
                    for section in ingest.sections(partition)
                },
            )
            for partition, position in ingest.positions.items()
        }
        return CountedParts(size, ingest.tally, letters, partitions, (), ingest.doubts)

    def __getstate__(self) -> dict[str, Any]:
        # Each process reads the inputs itself; a view of a mapping cannot be sent to it.
        state = {**vars(self), "_inputs": dict(self._inputs)}
        state.pop("frontend", None)
        return state


class _NoDecoder:
    """Decodes nothing: the events of tables are decoded already."""

    def decode_many(self, values: Sequence[bytes | None]) -> Decoded:
        raise NotImplementedError


def owner_from_start(config: Config, ingest: Ingest) -> Owner:
    """An owner that has each log read from where its source begins."""
    if config.attribution is None:
        return Positions()
    topics = [topic for stream in config.attribution.streams for topic in stream]
    return CopartitionedOwner(StartOwner(ingest), ingest.partition_of, topics)


def ingest_records(source: RecordSource, ingest: Ingest) -> Iterator[None]:
    """Apply all records of a source batch by batch."""
    while not source.status.finished:
        for batch in source.poll(_POLL_SECONDS):
            ingest.apply(batch)
        ingest.end(source.status.ended)
        source.pause(ingest.backpressured)
        yield


class ConfiguredCounts:
    """Counts with a configuration; see `EvaluationCounts`.

    Attributes:
        spans: readings of each span, with windows if there are any.
    """

    def __init__(
        self,
        counts: EngineCounts,
        spans: Sequence[SpanReadings],
        every: int | None,
        inputs: Mapping[str, Any],
    ) -> None:
        self.names, self.ids = counts.source.names, counts.source.ids
        self.labels = tuple(counts.config.series_labels())
        self.is_doubtful = _warning(counts) is not None
        self.spans = spans
        self._counts, self._every, self._inputs = counts, every, inputs

    @property
    def config(self) -> Config:
        """The configuration with which a daemon would count the same values."""
        return self._counts.config

    def rows(self) -> Sequence[EvaluationRow]:
        """See `EvaluationCounts`."""
        users = {}
        if self._counts.spans is None and self.config.intervals is not None:
            users = _users_in(self._counts.ingest, self.config.series_labels())
        return [
            EvaluationRow(
                start,
                dict(zip(snapshot.families[entry.family].label_names, entry.labels, strict=True)),
                entry.window,
                entry.reading,
                users.get(tuple(entry.labels)),
            )
            for start, snapshot in self.spans
            for entry in snapshot.series
        ]

    def accumulator(self, labels: Sequence[str]) -> Accumulator | None:
        """See `EvaluationCounts`."""
        config, layout_ = self.config, self._counts.ingest.layout
        for spec in layout_.families if self._counts.spans is None else ():
            if spec.dimensions != tuple(config.series_labels()):
                continue
            view = FamilyView(spec, layout_.windowing.pane)
            view.refresh(self._counts.ingest.copied().families[spec.name])
            table = view.lifetime()
            for number in view.slices(table).tolist():
                if view.labels(number) == tuple(labels):
                    counted = config.accumulator(self._inputs)
                    counted.adopt(b"".join(table.dump([number])))
                    return counted
        return None

    def empty(self) -> Accumulator:
        """See `EvaluationCounts`."""
        config = msgspec.structs.replace(self.config, intervals=None)
        return config.accumulator({**self._inputs, "ids": None})

    def chunks(self) -> Iterator[EventChunk]:
        """See `EvaluationCounts`."""
        config = self.config
        chunks: list[EventChunk] = []
        named = [*map(config.series_dimensions().index, config.series_labels())]

        def keep(decoded: Decoded) -> None:
            starts = starts_of(decoded, self._every)
            labels = decoded.dimensions or repeat(())
            rows: dict[Cell, list[int]] = {}
            events = range(len(decoded.batch))
            for values, start, row in zip(labels, starts or repeat(None), events, strict=False):
                rows.setdefault(Cell(values, start), []).append(row)
            for cell, places in rows.items():
                part = decoded.take(np.array(places)).batch
                texts = tuple([cell.labels[at] for at in named])
                chunks.append(EventChunk(part, texts, cell.start))

        counting = EngineCounting(self._counts.source, config, None, self._inputs)
        begun = counting.begin()
        counts = begun._replace(ingest=Ingest(counting.frontend, sink=keep))
        for _ in counting.apply(self._counts.source.parts, counts):
            yield from chunks
            chunks.clear()
        yield from chunks


def count_configured(
    given: Given, options: Options, around: Surroundings, now: float | None = None
) -> ConfiguredCounts:
    """Count what was given with a configuration; notes every doubt about the events.

    `now`: seconds since the epoch, at which windows are read; None for the newest event.

    Raises:
        UsageError: the options contradict each other, or name what is not there.
        NoEventsError: there is no valid event.
    """
    check_labels(given, options)
    config = config_of(given, options, reported=not given.is_pair)
    if given.is_pair:
        if config.windows is not None or config.segments or config.dedup is not None:
            around.note("windows, segments and dedup need events; rows of items have none.")
        config = _of_given(config, given, None)
    every = span_length(options, config.event)
    counts = count_events(given, options, config, around, every)
    config, ingest = counts.config, counts.ingest
    warning, join = _warning(counts), _join_health(counts)
    if not ingest.tally.valid:
        if warning is not None:
            around.note(warning)
        names = given.names or config.source.logs
        raise NoEventsError(f"no valid event in {', '.join(names)}.")
    if counts.spans is None:
        snapshot = ingest_snapshot(ingest, labels=config.series_labels(), now=now or 0.0, join=join)
        spans = [SpanReadings(None, snapshot)]
    else:
        families = [
            SeriesFamily(group.name, group.segment, group.dimensions) for group in config.families()
        ]
        spans = [
            SpanReadings(start, snapshot_of(families, slices))
            for start, slices in counts.spans.items()
        ]
    _check_absent_labels(spans, options, around)
    doubt = None if counts.spans is None else warning or ingest.doubt()
    starts = [span.start for span in spans if span.start is not None]
    troubles = [doubt, early_warning(config, starts)]
    troubles += [span.snapshot.health.trouble for span in spans]
    for trouble in dict.fromkeys(troubles):
        if trouble is not None:
            around.note(trouble)
    inputs = {name: value for name, value in options.inputs.items() if name != "catalog"}
    if not isinstance(options.inputs.get("catalog", 0), int | str):
        inputs["catalog"] = options.inputs["catalog"]
    return ConfiguredCounts(counts, spans, every, inputs)


def _warning(counts: EngineCounts) -> str | None:
    """A warning if most records with interactions are invalid, or most do not join."""
    join = _join_health(counts)
    return counts.ingest.tally.warning() or (join.warning() if join is not None else None)


def _join_health(counts: EngineCounts) -> JoinHealth | None:
    options = counts.config.attribution
    if options is None:
        return None
    stats = JoinStats(options.names, by_request=options.key == "request_id")
    return stats.health(counts.ingest.partitions)


def _check_absent_labels(
    spans: Sequence[SpanReadings], options: Options, around: Surroundings
) -> None:
    """Refuse a label that no event has, or note it if only the configuration names it."""
    values: dict[str, set[str]] = {}
    for _, snapshot in spans:
        for entry in snapshot.series:
            names = snapshot.families[entry.family].label_names
            for name, value in zip(names, entry.labels, strict=True):
                values.setdefault(name, set()).add(value)
    for name, present in values.items():
        if present == {MISSING_LABEL}:
            parts = absent_label(name)
            if name in options.by:
                raise InputError(*parts)
            around.note(Note(*parts))


def absent_label(name: str) -> Sequence[str | Setting]:
    """What to say of a label that no event has."""
    return (
        f"no event has the label {name!r}; name its field with ",
        Setting("by"),
        ", ",
        Setting("columns", "FIELD", name),
        " or [event.labels].",
    )


def early_warning(config: Config, times: Sequence[int]) -> str | None:
    """A doubt about times of events, in microseconds, that seem to have another unit than given."""
    field, unit = config.event.time, config.event.time_unit
    return unit_warning(max(times), field, str(unit)) if field is not None and times else None


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
