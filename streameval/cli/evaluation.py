"""Files to evaluate: what the caller asked for, and the events of JSON lines counted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol, TypeAlias

import msgspec
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from typer import Option

from streameval.catalogue import parse
from streameval.cli.ending import WrongCallError, tell
from streameval.cli.readings import Taken, snapshot_of, span_text
from streameval.cli.screen import progress_console
from streameval.config import Config, WebOptions, load
from streameval.config.checks import checked
from streameval.config.options import AttributionOptions, renamed
from streameval.config.pipeline import joint, layout, of_files
from streameval.decoding.decode import Decoded, Decoder
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.engine.clock import Clock
from streameval.engine.dead_letters import DeadLetter, Examples
from streameval.engine.memory import Memory
from streameval.engine.snapshot import SeriesFamily
from streameval.engine.spans import Spans
from streameval.engine.tally import Tally
from streameval.errors import nearest
from streameval.events.records import Assignment, Owner, Partition, RecordBatch
from streameval.join.grouping import Grouped
from streameval.join.state import JoinedState
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions
from streameval.sources.source import Positions
from streameval.tables.events import GAINS
from streameval.tables.files import is_table
from streameval.tables.rows import Ties

_SECONDS = 0.2


Form: TypeAlias = Literal["detect", "table", "trec"]


_NO_CAP = 2**62
"""More label values than there can be."""


_NO_COLUMNS: Final = frozenset(
    {"time_unit", "labels", "ids", "max_recommendations", "max_interactions"}
)
"""Keys of [event] that name no field."""


Metrics: TypeAlias = Annotated[
    list[str] | None, Option("--metric", "-m", help="For example ndcg@10; may be repeated.")
]
Sources: TypeAlias = Annotated[
    list[str] | None,
    Option(
        metavar="WHAT=COLUMN",
        help="Where events have what, for example recommendations=shown or user=profile.id: a "
        "column of a table or a field of JSON lines; may be repeated.",
    ),
]
Separators: TypeAlias = Annotated[
    list[str] | None,
    Option(
        help="Between the ids of a list in CSV, of all columns (';') or of one ('clicks=;'); "
        "JSON lists need none. May be repeated.",
        show_default="| or space",
    ),
]
WrittenTime: TypeAlias = Annotated[
    Literal["s", "ms", "us", "iso8601"] | None, Option(help="How it is written.")
]
Format: TypeAlias = Annotated[
    Literal["table", "json", "csv"], Option(help="How to write the result.")
]


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
    config = of_files(config)
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


class Begun(Protocol):
    """What starts with nothing counted, where a source says."""

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a log is counted."""

    def begin(self, partition: Partition, offsets: Mapping[Partition, int], /) -> None:
        """Start with nothing counted."""


class Counting(Begun, Protocol):
    """What counts the records of files."""

    tally: Tally

    def apply(self, batch: RecordBatch) -> object:
        """Count the records of a batch."""

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these files."""

    @property
    def backpressured(self) -> Collection[Partition]:
        """Files of which no more should be read now."""

    def take_invalid(self) -> Sequence[DeadLetter]:
        """Examples of invalid records since the last call."""


def read_all(source: FilesSource, counting: Counting) -> None:
    """Count all records of the files, with a bar, and tell of those that are no event."""
    console = progress_console()
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    found: dict[str, DeadLetter] = {}
    with Progress(*columns, console=console, disable=console is None, transient=True) as progress:
        task = progress.add_task("", total=source.bytes_total)
        while not source.finished:
            for batch in source.poll(_SECONDS):
                counting.apply(batch)
            counting.end(source.ended)
            source.pause(counting.backpressured)
            for record in counting.take_invalid():
                found.setdefault(record.reason, record)
            progress.update(task, completed=source.bytes_read)
    _tell_of_invalid(counting.tally, list(found.values()))


def _tell_of_invalid(tally: Tally, examples: Sequence[DeadLetter]) -> None:
    bad = sum(tally.invalid.values())
    if bad:
        tell(f"{bad:,} of {tally.consumed:,} records are invalid and left out:")
    for record in examples:
        line = f"{record.partition.topic}, line {record.offset + 1}"
        count = tally.invalid[record.reason]
        tell(f"{count:>9,} {record.reason}, first in {line}: {record.message}: {record.preview}")


class SpanCounting:
    """Counts the events of files by spans of event time.

    Args:
        config: what is counted, and how; its windows are not read.
        every: length of a span, microseconds.

    Raises:
        ConfigError: the fields of an event contradict each other.
        MetricError: a metric cannot be understood, or lacks its inputs.
        SourceError: a file that the configuration names cannot be read.
    """

    def __init__(self, config: Config, every: int) -> None:
        kept = layout(config)
        self.tally = Tally()
        self._families = [
            SeriesFamily(group.name, group.segment, group.dimensions) for group in config.families()
        ]
        self._spans = Spans(kept.families, every)
        self._dedup, self._max_ahead = kept.dedup, kept.max_ahead
        self._decoder = Decoder(config.event, config.dimensions())
        self._joint = (
            None if config.attribution is None else joint(config, config.attribution, kept)
        )
        self._joined: JoinedState | None = None
        self._examples = Examples()
        self._seen: dict[Partition, tuple[Memory, Clock]] = {}

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a file is counted."""
        return partition if self._joint is None else self._joint.home(partition)

    def begin(self, _partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Join these files."""
        if self._joint is not None:
            self._joined = self._joint.state(offsets, self._spans.update)

    @property
    def partitions(self) -> Mapping[Partition, JoinedState]:
        """What is joined."""
        return {} if self._joined is None else {self._joined.logs.partitions[0]: self._joined}

    @property
    def backpressured(self) -> Collection[Partition]:
        """Files of which no more should be read now."""
        return () if self._joined is None else self._joined.backpressured

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these files."""
        if self._joined is not None:
            self._joined.end(partitions)

    def apply(self, batch: RecordBatch) -> Tally:
        """Count the records of a batch; returns their outcomes."""
        if self._joint is not None and self._joined is not None:
            applied = self._joined.apply(batch, self._joint.decode(batch))
            self.tally.add(applied.tally)
            self._examples.add(batch, applied.invalid)
            return applied.tally
        decoded = self._decoder.decode_many(batch.values)
        counted = self._novel(batch.partition, decoded)
        self._spans.update(counted)
        tally = Tally(consumed=len(batch.values), tombstones=len(decoded.tombstones))
        tally.valid = len(counted.places)
        tally.engaged = counted.engaged
        tally.duplicates = len(decoded.places) - tally.valid
        tally.refuse([event for _, event in decoded.invalid])
        self.tally.add(tally)
        self._examples.add(batch, decoded.invalid)
        return tally

    def take_invalid(self) -> Sequence[DeadLetter]:
        """Examples of invalid records since the last call: the first few of each reason."""
        return self._examples.take()

    def taken(self) -> Iterator[Taken]:
        """The readings of each span that has an event, in the order of time."""
        for start, slices in self._spans.items():
            yield Taken(span_text(start), snapshot_of(self._families, slices))

    def _novel(self, partition: Partition, decoded: Decoded) -> Decoded:
        """Without events that came before, where the configuration has `dedup`."""
        times, event_ids = decoded.times, decoded.event_ids
        if self._dedup is None or event_ids is None or times is None or not decoded.places:
            return decoded
        if partition not in self._seen:
            self._seen[partition] = Memory(self._dedup), Clock(self._max_ahead)
        memory, clock = self._seen[partition]
        return decoded.keep(memory.novel(event_ids, times, clock.advance(times)))


def beginning(config: Config, begun: Begun) -> Owner:
    """Who says where reading begins: each log where its source says."""
    if config.attribution is None:
        return Positions()
    topics = [each for stream in config.attribution.streams for each in stream]
    return Grouped(_Starts(begun), begun.home, topics)


class _Starts:
    """Begins what it is given, each log where the source says."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        found: dict[Partition, int] = {}
        for each in assignments:
            starts = {log.partition: log.start for log in each.logs}
            self._begun.begin(each.partition, starts)
            found |= starts
        return found

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""
