"""What `streameval evaluate` was asked for: files, and how they are read and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from streameval.accumulator.readings import advice
from streameval.catalogue import parse
from streameval.cli.ending import WrongCallError, tell
from streameval.cli.readings import Taken, write_series
from streameval.config import Config, WebOptions, load
from streameval.config.checks import checked
from streameval.config.options import AttributionOptions, DurationError, microseconds, renamed
from streameval.errors import nearest
from streameval.pipeline.fields import EventFields, TimeUnit
from streameval.pipeline.snapshot import Health, Series, SeriesFamily, Snapshot
from streameval.pipeline.spans import Slice
from streameval.sources.options import FilesOptions
from streameval.tables.events import GAINS
from streameval.tables.files import is_table
from streameval.tables.rows import Ties

Form: TypeAlias = Literal["detect", "table", "trec"]

_NO_CAP = 2**62
"""More label values than there can be."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = -62_135_596_800_000_000  # 0001-01-01, in microseconds since the epoch

_NO_COLUMNS: Final = frozenset(
    {"time_unit", "labels", "ids", "max_recommendations", "max_interactions"}
)
"""Keys of [event] that name no field."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller wants to know, and of which files.

    Attributes:
        paths: files of events.
        recommendations: or a file of rows, to be joined with the truth.
        truth: the other file of rows.
        form: what those two look like.
        ties: which of two items with one score stands first; None leaves it to the form.
        user: of rows, the column of users; None where it has a usual name.
        item: likewise of items.
        score: likewise of scores.
        rating: likewise of ratings.
        columns: of events, "what=column": where they hold it, in place of the configuration's.
        separators: "|" or "column=|": between the entries of lists that are text.
        metrics: in place of the configuration's, if any.
        labels: likewise.
        config: path of a configuration.
        catalog: number of items, or a file of their ids; in place of the configuration's.
        every: length of a span of event time, for readings of one after the other.
        time: field of event time; in place of the configuration's.
        time_unit: how it is written; likewise.
        allow_invalid: whether the values stand although most of what users did was unusable.
        format: how to write the readings.
    """

    paths: Sequence[str] = ()
    recommendations: str | None = None
    truth: str | None = None
    form: Form = "detect"
    ties: Ties | None = None
    user: str | None = None
    item: str | None = None
    score: str | None = None
    rating: str | None = None
    columns: Sequence[str] = ()
    separators: Sequence[str] = ()
    metrics: Sequence[str] = ()
    labels: Sequence[str] = ()
    config: str | None = None
    catalog: str | None = None
    every: str | None = None
    time: str | None = None
    time_unit: TimeUnit | None = None
    allow_invalid: bool = False
    format: str = "table"

    @property
    def files(self) -> list[str]:
        """All files named."""
        pair = (self.recommendations, self.truth)
        return [*self.paths, *(each for each in pair if each is not None)]

    @property
    def is_pair(self) -> bool:
        """Whether two files are to be joined."""
        return self.recommendations is not None or self.truth is not None

    @property
    def is_tables(self) -> bool:
        """Whether the files hold columns, not JSON lines."""
        return self.is_pair or any(map(is_table, self.paths))

    @property
    def gains(self) -> str:
        """The column of gains of a table."""
        return dict(map(_column, self.columns)).get(GAINS, GAINS)


def configured(request: Request) -> Config:
    """The configuration that the caller means; its source is the files named, if there are any.

    Raises:
        WrongCallError: no metric is asked for, or options contradict each other.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
    """
    if request.config is None and not request.metrics:
        raise WrongCallError(
            "no metric asked for; give some, for example -m ctr -m ndcg@10 (`streameval metrics` "
            "lists them all), or --config FILE."
        )
    for text in request.metrics:
        parse(text)
    if request.config is None:
        # Labels named by hand, for files that end, show all of their values.
        files = _source(request.files)
        base = Config(metrics=["ctr"], source=files, label_cap=_NO_CAP, max_series=_NO_CAP)
    else:
        instead = FilesOptions(paths=request.files) if request.files else None
        base = load(request.config, lambda config: _of_a_daemon(config, request), instead)
    return checked("command line", _changed(base, request))


def _source(paths: list[str]) -> FilesOptions:
    if not paths:
        both = "--recommendations with --truth"
        raise WrongCallError(
            f"missing argument 'PATH...', or {both}; see `streameval evaluate -h`."
        )
    return FilesOptions(paths=paths)


def _of_a_daemon(config: Config, request: Request) -> Config:
    """What it counts, in the files named, without what only matters where it runs."""
    replace = msgspec.structs.replace
    config = replace(config, state=None, dead_letters=None, web=WebOptions())
    if not request.files and isinstance(config.source, FilesOptions):
        return config
    config = replace(config, source=_source(request.files))
    if config.attribution is None:
        return config
    if request.is_tables:
        raise WrongCallError("[attribution] joins streams of JSON lines, and these are tables.")
    return _streams(config, config.attribution, request.files)


def _streams(config: Config, attribution: AttributionOptions, paths: Sequence[str]) -> Config:
    """The configuration with files in place of the streams that it joins.

    A file is the stream of which it has the name: "clicks.ndjson.gz" is the topic "clicks".

    Raises:
        WrongCallError: a file is none of the streams, or a stream has no file.
    """
    named = {_stem(name): name for stream in attribution.streams for name in stream}
    files = {named.get(_stem(path)): path for path in paths}
    for path in paths:
        if _stem(path) not in named:
            raise WrongCallError(_unknown_stream(path, list(named)))
    missing = [name for name in named.values() if name not in files]
    if missing:
        told = ", ".join(map(repr, missing))
        problem = f"[attribution] joins {told} as well; give a file of that name, like"
        raise WrongCallError(f"{problem} {_stem(missing[0])}.ndjson.")
    there = {name: path for name, path in files.items() if name is not None}
    return msgspec.structs.replace(config, attribution=renamed(attribution, there))


def _stem(path: str) -> str:
    """The name of a topic, or that of a file without folders and the endings of its form.

    >>> _stem("logs/shop.clicks.ndjson.gz"), _stem("shop.clicks")
    ('shop.clicks', 'shop.clicks')
    """
    name = Path(path).name
    for ending in (".gz", ".zst", ".ndjson", ".jsonl", ".json"):
        name = name.removesuffix(ending)
    return name


def _unknown_stream(path: str, names: Sequence[str]) -> str:
    offered = nearest(_stem(path), names)
    hint = f" Did you mean {offered[0]}.ndjson?" if offered else ""
    known = ", ".join(names)
    return (
        f"{path}: it is none of the streams that [attribution] joins ({known}), by its name.{hint}"
    )


def _changed(config: Config, request: Request) -> Config:
    change = msgspec.structs.replace
    if request.metrics:
        config = change(config, metrics=list(dict.fromkeys(request.metrics)), metric=[])
    if request.labels:
        config = _relabelled(config, request.labels)
    if request.catalog is not None:
        known = request.catalog
        config = change(config, catalog=int(known) if known.isdecimal() else known)
    return change(config, event=_fields(config, request))


def _fields(config: Config, request: Request) -> EventFields:
    """Where an event has what, by the options."""
    found: dict[str, str] = {}
    labels = dict(config.event.labels)
    for what, column in map(_column, request.columns):
        if what in config.dimensions():
            labels[what] = column
        elif what in EventFields.__struct_fields__ and what not in _NO_COLUMNS:
            found[what] = column
        elif what != GAINS or not request.is_tables:
            raise WrongCallError(_unknown_column(what, config, tables=request.is_tables))
    event = msgspec.structs.replace(config.event, labels=labels, **found)
    time = request.time or event.time
    # A table's column of timestamps needs no unit, and text is most often ISO 8601.
    assumed: TimeUnit | None = "iso8601" if request.is_tables and time is not None else None
    unit = request.time_unit or event.time_unit or assumed
    return msgspec.structs.replace(event, time=time, time_unit=unit)


def _column(text: str) -> tuple[str, str]:
    what, _, column = text.partition("=")
    if not what or not column:
        example = "--column recommendations=shown"
        raise WrongCallError(f"--column: found {text!r}; give WHAT=COLUMN, like {example}.")
    return what, column


def _unknown_column(what: str, config: Config, *, tables: bool) -> str:
    known = [each for each in EventFields.__struct_fields__ if each not in _NO_COLUMNS]
    known += [*([GAINS] if tables else []), *config.dimensions()]
    offered = nearest(what, known)
    hint = f" Did you mean {offered[0]!r}?" if offered else ""
    return f"--column: {what!r} is nothing that an event has; known: {', '.join(known)}.{hint}"


def _relabelled(config: Config, labels: Sequence[str]) -> Config:
    """The same by other labels: what was said of those that are gone is gone with them."""
    change = msgspec.structs.replace
    segments = [name for name in config.segments if name not in labels]
    known = {*labels, *segments}
    tables = [
        change(each, labels=each.labels and [name for name in each.labels if name in labels])
        for each in config.metric
    ]
    mapped = {name: path for name, path in config.event.labels.items() if name in known}
    values = {name: found for name, found in config.label_values.items() if name in known}
    return change(
        config,
        labels=list(labels),
        segments=segments,
        metric=[
            change(each, segments=each.segments and [x for x in each.segments if x in segments])
            for each in tables
        ],
        label_values=values,
        event=change(config.event, labels=mapped),
    )


def span_length(config: Config, request: Request) -> int | None:
    """The length of a span, microseconds; None where everything is read as one.

    Raises:
        WrongCallError: it is no span, or events have no time.
    """
    if request.every is None:
        return None
    try:
        every = microseconds(request.every)
    except DurationError as error:
        raise WrongCallError(f"--every: {error}") from None
    if not every:
        raise WrongCallError(f"--every: found {request.every!r}; give at least 1s.")
    if config.event.time is None:
        raise WrongCallError(
            "--every needs event time: name its field and unit with --time and --time-unit, or as "
            "time and time_unit under [event] in --config FILE."
        )
    return every


def span_text(start: int) -> str:
    """The start of a span as RFC 3339 has it; the first one begins with the year 1.

    Example:
        >>> span_text(1_700_000_000_000_000)
        '2023-11-14T22:13:20Z'
    """
    moment = _EPOCH + timedelta(microseconds=max(start, _FIRST))
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


def snapshot_of(
    families: Sequence[SeriesFamily],
    slices: Sequence[Mapping[tuple[str, ...], Slice]],
) -> Snapshot:
    """The readings of slices.

    Args:
        families: how they are divided.
        slices: of each family, by label values.
    """
    series = [
        Series(metric, labels, each.read(metric), family=place)
        for place, found in enumerate(slices)
        for metric in (next(iter(found.values())).metrics if found else ())
        for labels, each in found.items()
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


def write(taken: Sequence[Taken], request: Request) -> None:
    """Write the readings, and on standard error what looks wrong with the events."""
    for trouble in dict.fromkeys(each.snapshot.health.trouble for each in taken):
        if trouble is not None:
            tell(trouble)
    write_series(taken, request.format)


def _advice(
    families: Iterable[SeriesFamily],
    slices: Iterable[Mapping[tuple[str, ...], Slice]],
) -> Iterator[str]:
    for family, found in zip(families, slices, strict=True):
        for labels, each in found.items():
            (told,) = advice(each.table, np.array([each.cell]))
            if told is not None:
                pairs = zip(family.label_names, labels, strict=True)
                where = ", ".join(f"{name}={value}" for name, value in pairs)
                yield f"{where}: {told}" if where else told
