"""A request of `evaluate` or `compare`: its files, its options, and the configuration for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from streameval.accumulator.formulas import needed_inputs
from streameval.catalogue import parse
from streameval.catalogue.context import ATTRIBUTES
from streameval.config import Config, WebOptions, load
from streameval.config.checks import LISTS_OF_EVENTS, check_config
from streameval.config.config import relabel, with_analysis, without_analyses, without_formats
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.engine.analysis import Analysis
from streameval.engine.windows.labels import NO_CAP
from streameval.evaluation.offline.surroundings import as_usage_error
from streameval.evaluation.tables.events import GAINS, USERS
from streameval.evaluation.tables.files import FileTable, is_table
from streameval.evaluation.tables.rows import Rows, Ties
from streameval.evaluation.tables.wording import COMMAND, Wording
from streameval.events.errors import SourceError, UsageError, suggestion
from streameval.join.options import AttributionOptions
from streameval.sources.files import first_record
from streameval.sources.opening import expand
from streameval.sources.options import FilesOptions
from streameval.statistics.intervals import Intervals

Form: TypeAlias = Literal["detect", "table", "trec"]

_LINES: Final = (".ndjson", ".jsonl", ".json")
"""File name extensions of JSON lines."""

ROLES: Final = ("user", "item", "score", "rank", "rating")
"""Columns of files with one row per item."""

OF_ONE_FILE: Final = ("user", "item")
"""Those of both files, which may have a name in each: truth.user=member."""

_PATHS: Final = (
    *("recommendations", "item", "score", "interactions", "interaction_item", "gain", "type"),
    *("user", "time", "event_id", "positions", "scores", "baseline", "history"),
)
"""Keys of [event] that name a field of JSON lines."""

_PER_ITEM: Final = "per_item."
"""Before the name of values beside the items: per_item.propensity=p."""

_RANKERS: Final = "rankers."
"""Before the name of a ranker that was not shown: rankers.challenger=rankings.challenger."""

_COLUMNS: Final = (
    *("recommendations", "interactions", "positions", "scores", "user", "time", "event_id"),
)
"""Keys of [event] that name a column of a table."""


class AlignedEvents(Protocol):
    """Lists with their interactions, of one user after the other."""

    def columns(self, depth: int | None, *, scores: bool) -> Iterator[Any]:
        """The events in parts, for `Accumulator.update_many`, with the user of each.

        `depth`: ranks that are counted; None for whole lists. `scores`: whether to give the scores
        of the items, if they are known.
        """


PairSource: TypeAlias = str | FileTable | Rows
"""A file, folder or pattern; a frame; or rows that were read already."""


def source_name(source: PairSource) -> str:
    """The name of a file or frame in messages."""
    if isinstance(source, Rows):
        return "the rows given"
    return source if isinstance(source, str) else source.path


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a command: metrics, files and options.

    Attributes:
        ties: order of items with equal scores; None for the default of the form.
        columns: "field=column"; overrides the configuration's field names.
        separators: "|" or "column=|"; between the entries of lists that are text.
        every: length of a span of event time; None for one span.
        added: metrics besides those given or configured, which an experiment names.
        inputs: catalogue, popularity, similarity, attributes and examination given as objects, by
            name.
        aligned: a caller's lists or scores with their truth, instead of files.
        intervals: settings of intervals, if the configuration has none.
        wording: how messages name the options.
    """

    paths: Sequence[str | FileTable] = ()
    recommendations: PairSource | None = None
    truth: PairSource | None = None
    form: Form = "detect"
    ties: Ties | None = None
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
    processes: int = 1
    added: Sequence[str] = ()
    inputs: Mapping[str, Any] = MappingProxyType({})
    aligned: AlignedEvents | None = None
    intervals: Intervals | None = None
    wording: Wording = COMMAND

    @property
    def named_metrics(self) -> list[str]:
        """The metrics that the command line names, without those that it names twice."""
        return list(dict.fromkeys([*self.metrics, *self.added]))

    @property
    def files(self) -> list[str]:
        """The names of all files and frames of the request."""
        pair = (self.recommendations, self.truth)
        return list(map(source_name, (*self.paths, *(x for x in pair if x is not None))))

    @property
    def is_pair(self) -> bool:
        """Whether the request is for --recommendations and --truth, or has its events itself."""
        pair = (self.recommendations, self.truth, self.aligned)
        return any(path is not None for path in pair)

    @property
    def is_tables(self) -> bool:
        """Whether the files hold columns, not JSON lines."""
        return self.is_pair or any(map(is_table, self.paths))

    @property
    def column_names(self) -> dict[str, str]:
        """Field -> column, as given by `--column`."""
        columns: dict[str, str] = {}
        for field, column in map(_column, self.columns):
            if columns.setdefault(field, column) != column:
                raise UsageError(f"--column: {field!r} is given twice; give it once.")
        return columns

    @property
    def gains(self) -> str:
        """The column of gains in a table."""
        return self.column_names.get(GAINS, GAINS)


def expand_paths(paths: Iterable[str]) -> list[str]:
    """The files that paths, folders and patterns name."""
    with as_usage_error(SourceError):
        files = [file_path for path in paths for file_path in expand(path, _holds_events)]
    for path, count in Counter(files).most_common(1):
        if count > 1:
            raise UsageError(f"{path}: given twice; give each file once.")
    return files


def _holds_events(path: str) -> bool:
    name = path.removesuffix(".gz").removesuffix(".zst")
    return is_table(path) or name.endswith(_LINES)


def title_of(request: Request) -> str:
    """The heading of a file about what the request names."""
    first, *others = request.files or ["recommendations"]
    name = PurePath(first).name or first
    return f"{name} and {len(others):,} more" if others else name


def only_for_pairs(request: Request) -> str:
    """The message about options that events do not take."""
    option = request.wording.option
    pair = f"{option('recommendations')} with {option('truth')}"
    return f"{option('ties')} and {option('form')} are for {pair}; leave them out."


def config_of(request: Request, analysis: Analysis[Any, Any] | None = None) -> Config:
    """The configuration of a request; files on the command line replace its source.

    `analysis`: the one whose table is kept, unchecked: its options may change it.
    """
    if request.config is None and not request.named_metrics:
        some = "'ctr', 'ndcg@10'" if request.wording.python else "-m ctr -m ndcg@10"
        raise UsageError(
            f"no metric given; add some, for example {some} (`streameval metrics` lists them all), "
            f"or {request.wording.option('config', 'FILE')}."
        )
    for text in request.named_metrics:
        parse(text)
    if request.config is None:
        _require_inputs(request, compares=analysis is not None)
        # Files are finite, so labels need no cap.
        files = _source(request)
        base = Config(metrics=["ctr"], source=files, label_cap=NO_CAP, max_series=NO_CAP)
    else:
        source = _source(request) if request.files or request.aligned else None
        base = load(request.config, lambda config: _for_files(config, request), source)
    config = _overridden(base, request)
    if request.config is None and not request.is_tables:
        config = _with_usual_user(config, request)
    settings = None if analysis is None else analysis.settings_in(config)
    config = without_analyses(config)
    for text in request.named_metrics:
        if lacking := lacking_field(text, config, tables=request.is_tables):
            raise UsageError(f"{text!r} needs {lacking}.")
    config = _checked(config, request)
    return config if analysis is None else with_analysis(config, analysis, settings)


def _with_usual_user(config: Config, request: Request) -> Config:
    """Read users from `users`, as `Columns` names them, where the first record has no `user`."""
    with as_usage_error(SourceError):
        first = first_record(request.files)
    if config.event.user != EventFields().user or EventFields().user in first:
        return config
    plural = USERS in first and USERS not in config.labels
    event = msgspec.structs.replace(config.event, user=USERS if plural else config.event.user)
    return msgspec.structs.replace(config, event=event)


def _checked(config: Config, request: Request) -> Config:
    """The configuration, checked without the metrics whose inputs are objects of the caller."""
    where = "arguments" if request.wording.python else "command line"
    if not request.inputs:
        return check_config(where, config)
    rest = [
        text
        for text in config.metrics
        if not any(_is_given(name, request) for name in needed_inputs(parse(text)))
    ]
    check_config(where, msgspec.structs.replace(config, metrics=rest or ["hits"]))
    return config


def lacking_field(text: str, config: Config, *, tables: bool) -> str | None:
    """What a metric needs and no event of these files can have, with a remedy; else None."""
    metric = parse(text)
    if tables and metric.values.get("type"):
        return "types of interactions, which tables cannot have; give JSON lines"
    for name in metric.item_values_without(config.event.per_item or ()):
        return f"{name!r} of each item; name its field with --column per_item.{name}=FIELD"
    key, what = LISTS_OF_EVENTS.get(metric.name, ("", ""))
    if not key or (getattr(config.event, key) and not tables):
        return None
    if tables:
        return f"{what}, which tables cannot have; give JSON lines"
    field = f"{_RANKERS}NAME" if key == "rankers" else key
    return f"{what}; name its field with --column {field}=FIELD"


_INPUTS: Final = {
    "catalog": ("a catalogue", 'catalog = "items.txt"'),
    "popularity": ("the items' popularity", 'popularity = { path = "popularity.csv" }'),
    "similarity": ("the items' similarity", 'similarity = { vectors = "vectors.csv" }'),
    "examination": ("the chance that users look at each rank", "examination = [1, 0.6, 0.4]"),
}


def _require_inputs(request: Request, *, compares: bool) -> None:
    """Refuse metrics whose inputs are missing; only `evaluate` has an option for one of them."""
    where = request.wording.option("config")
    for text in request.named_metrics:
        for name in needed_inputs(parse(text)):
            if _is_given(name, request) or (name == "catalog" and request.catalog is not None):
                continue
            if name.startswith(ATTRIBUTES):
                raise UsageError(f"{text!r} needs {_missing_attribute(name, request.wording)}.")
            if name in _INPUTS:
                what, key = _INPUTS[name]
                remedy = f"add it with {key} to a configuration and give {where}"
                if request.wording.python:
                    remedy = f"give {request.wording.option(name)}"
                if name == "catalog" and not compares:
                    catalog = request.wording.option("catalog")
                    remedy = f"give {catalog}, the number of items or a file of their ids"
                raise UsageError(f"{text!r} needs {what}; {remedy}.")


def _is_given(name: str, request: Request) -> bool:
    """Whether a caller gave an input as an object."""
    if name.startswith(ATTRIBUTES):
        return name.removeprefix(ATTRIBUTES) in request.inputs.get("attributes", ())
    return name in request.inputs


def _missing_attribute(name: str, wording: Wording) -> str:
    """What is missing without an attribute, and how to give it."""
    attribute = name.removeprefix(ATTRIBUTES)
    if wording.python:
        return f"the attribute {attribute!r}; give attributes={{{attribute!r}: item -> values}}"
    table = f'[{name}] path = "{attribute}.csv"'
    where = wording.option("config")
    return f"the attribute {attribute!r}; add it with {table} to a configuration and give {where}"


def _source(request: Request) -> FilesOptions:
    paths = request.files
    if request.aligned is not None:
        return FilesOptions(paths=["the lists given"])
    if not paths:
        if request.wording.python:
            raise UsageError("there are no files; give at least one.")
        both = "--recommendations with --truth"
        raise UsageError(f"missing argument 'PATH...', or {both}; see `streameval evaluate -h`.")
    return FilesOptions(paths=paths)


def _for_files(config: Config, request: Request) -> Config:
    """A daemon's configuration without the settings that only a daemon needs, for these files."""
    replace = msgspec.structs.replace
    config = replace(config, state=None, dead_letters=None, web=WebOptions())
    config = without_formats(config)
    if request.metrics and not config.metrics and not config.metric:
        config = replace(config, metrics=["hits"])  # until those named replace it
    if not (request.files or request.aligned) and config.source.has_files:
        return config
    config = replace(config, source=_source(request))
    if request.is_pair:
        return replace(config, attribution=None)
    if config.attribution is None:
        return config
    if request.is_tables:
        problem = "[attribution] joins streams of JSON lines; these files are tables"
        raise UsageError(f"{problem}. If they are joined, leave it out of the configuration.")
    return _streams_as_files(config, config.attribution, request.files)


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


def _overridden(config: Config, request: Request) -> Config:
    change = msgspec.structs.replace
    if request.metrics or request.config is None:
        config = change(config, metrics=list(dict.fromkeys(request.metrics)), metric=[])
    counted = {parse(text).text for text in (*config.metrics, *(x.name for x in config.metric))}
    added = [text for text in request.added if parse(text).text not in counted]
    config = change(config, metrics=[*config.metrics, *added])
    # Before the labels, one of which is that of the rankers.
    config = change(config, event=_with_rankers(config.event, request))
    if request.labels:
        config = relabel(config, request.labels)
    if request.catalog is not None:
        catalog = request.catalog
        config = change(config, catalog=int(catalog) if catalog.isdecimal() else catalog)
    if request.intervals is not None and config.intervals is None:
        config = change(config, intervals=request.intervals)
    return change(config, event=_fields(config, request))


def _fields(config: Config, request: Request) -> EventFields:
    """The fields of an event, overridden by --column, --time and --time-unit."""
    event_fields: dict[str, str] = {}
    labels, per_item = dict(config.event.labels), dict(config.event.per_item or {})
    fields = _COLUMNS if request.is_tables else _PATHS
    for field, column in () if request.is_pair else request.column_names.items():
        if field in config.dimensions():
            labels[field] = column
        elif field in fields:
            event_fields[field] = column
        elif field.startswith(_PER_ITEM):
            per_item[field.removeprefix(_PER_ITEM)] = column
        elif not _is_ranker(field, request) and (field != GAINS or not request.is_tables):
            more = [GAINS] if request.is_tables else [f"{_RANKERS}NAME"]
            field_names = [*fields, *more, f"{_PER_ITEM}NAME", *config.dimensions()]
            raise UsageError(unknown_column(field, field_names))
    change = msgspec.structs.replace
    event = change(config.event, labels=labels, per_item=per_item or None, **event_fields)
    time = request.time or event.time
    # Timestamp columns of tables need no unit, and times as text are mostly ISO 8601.
    assumed: TimeUnit | None = "iso8601" if request.is_tables and time is not None else None
    unit = request.time_unit or event.time_unit or assumed
    return change(event, time=time, time_unit=unit)


def _with_rankers(event: EventFields, request: Request) -> EventFields:
    """The fields of an event with those of rankers."""
    given = {
        field.removeprefix(_RANKERS): column
        for field, column in request.column_names.items()
        if _is_ranker(field, request)
    }
    rankers = {**(event.rankers or {}), **given}
    # Replacing does not check.
    return EventFields(**msgspec.structs.asdict(event) | {"rankers": rankers or None})


def _is_ranker(field: str, request: Request) -> bool:
    return field.startswith(_RANKERS) and not request.is_tables


def _column(text: str) -> tuple[str, str]:
    field, _, column = text.partition("=")
    if not field or not column:
        example = "--column recommendations=shown"
        raise UsageError(f"--column: found {text!r}; give FIELD=COLUMN, like {example}.")
    return field, column


def unknown_column(field: str, fields: Sequence[str]) -> str:
    """The message about an unknown field in `--column`."""
    hint = suggestion(field, fields)
    return f"--column: unknown field {field!r}; known: {', '.join(fields)}.{hint}"


def given_options(**options: object) -> dict[str, Any]:
    """The options without those that were left out: None, empty or False."""
    return {name: value for name, value in options.items() if value}
