"""The request of `evaluate` and `compare`: files, and the configuration for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from typer import Option

from streameval.catalogue import parse
from streameval.cli.ending import WrongCallError, wrong_call_where
from streameval.config import Config, WebOptions, load
from streameval.config.checks import checked
from streameval.config.pipeline import of_files
from streameval.decoding.fields import EventFields, TimeUnit
from streameval.errors import SourceError, suggestion
from streameval.join.options import AttributionOptions
from streameval.sources.opening import expanded
from streameval.sources.options import FilesOptions
from streameval.tables.events import GAINS
from streameval.tables.files import is_table
from streameval.tables.rows import Ties

Form: TypeAlias = Literal["detect", "table", "trec"]


_LINES: Final = (".ndjson", ".jsonl", ".json")
"""Endings of the names of files of JSON lines."""


ROLES: Final = ("user", "item", "score", "rating")
"""Columns of files with a row for each item."""


_NO_CAP = 2**62
"""A cap that no file reaches."""


_NO_COLUMNS: Final = frozenset(
    {"time_unit", "labels", "ids", "max_recommendations", "max_interactions"}
)
"""Keys of [event] that are not fields."""


Metrics: TypeAlias = Annotated[
    list[str] | None, Option("--metric", "-m", help="For example ndcg@10; may be repeated.")
]
Sources: TypeAlias = Annotated[
    list[str] | None,
    Option(
        metavar="WHAT=COLUMN",
        help="Name of a column, or of a field of JSON lines, that differs: for example "
        "recommendations=shown or user=profile.id. May be repeated.",
    ),
]
Separators: TypeAlias = Annotated[
    list[str] | None,
    Option(
        help="Separator of ids in the lists of CSV, for all columns (';') or one ('clicks=;'). "
        "JSON lists need none. May be repeated.",
        show_default="| or space",
    ),
]
WrittenTime: TypeAlias = Annotated[
    Literal["s", "ms", "us", "iso8601"] | None, Option(help="Unit of event time.")
]
Format: TypeAlias = Annotated[Literal["table", "json", "csv"], Option(help="Output format.")]
Processes: TypeAlias = Annotated[
    int,
    Option(
        min=1,
        help="Number of processes. They count row groups of parquet, and files of CSV or JSON "
        "lines, in parallel. The values are the same, to the bit.",
    ),
]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a caller: metrics, files and options.

    Attributes:
        ties: which of two items with one score stands first; None leaves it to the form.
        columns: "what=column": where files hold it, in place of the configuration's names.
        separators: "|" or "column=|": between the entries of lists that are text.
        every: length of a span of event time, for readings of one after the other.
    """

    paths: Sequence[str] = ()
    recommendations: str | None = None
    truth: str | None = None
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
    def named(self) -> dict[str, str]:
        """What was named by `--column`, and its column."""
        found: dict[str, str] = {}
        for what, column in map(_column, self.columns):
            if found.setdefault(what, column) != column:
                raise WrongCallError(f"--column: {what!r} is given twice; give it once.")
        return found

    @property
    def gains(self) -> str:
        """The column of gains of a table."""
        return self.named.get(GAINS, GAINS)


def found_files(paths: Iterable[str]) -> list[str]:
    """The files of paths, which may be folders or patterns."""
    with wrong_call_where(SourceError):
        found = [each for path in paths for each in expanded(path, _holds_events)]
    for path, count in Counter(found).most_common(1):
        if count > 1:
            raise WrongCallError(f"{path}: given twice; give each file once.")
    return found


def _holds_events(path: str) -> bool:
    name = path.removesuffix(".gz").removesuffix(".zst")
    return is_table(path) or name.endswith(_LINES)


def configured(request: Request) -> Config:
    """The configuration of a request; files on the command line replace its source."""
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
    """The configuration for these files, without the settings of a daemon."""
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
    """The configuration with files in place of its streams.

    A file is the stream with its name: "clicks.ndjson.gz" is the topic "clicks".
    """
    named = {_stem(name): name for stream in attribution.streams for name in stream}
    files = {named.get(_stem(path)): path for path in paths}
    for path in paths:
        if _stem(path) not in named:
            known, hint = ", ".join(named), suggestion(_stem(path), named)
            problem = f"[attribution] joins no stream of this name, only {known}.{hint}"
            raise WrongCallError(f"{path}: {problem}")
    missing = [name for name in named.values() if name not in files]
    if missing:
        told = ", ".join(map(repr, missing))
        problem = f"[attribution] joins {told} as well; give a file of that name, like"
        raise WrongCallError(f"{problem} {_stem(missing[0])}.ndjson.")
    there = {name: path for name, path in files.items() if name is not None}
    return msgspec.structs.replace(config, attribution=attribution.renamed(there))


def _stem(path: str) -> str:
    """The name of a topic, or of a file without folder and extensions.

    >>> _stem("logs/shop.clicks.ndjson.gz"), _stem("shop.clicks")
    ('shop.clicks', 'shop.clicks')
    """
    name = Path(path).name
    for ending in (".gz", ".zst", *_LINES):
        name = name.removesuffix(ending)
    return name


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
    """The fields of an event as the options name them."""
    found: dict[str, str] = {}
    labels = dict(config.event.labels)
    for what, column in () if request.is_pair else request.named.items():
        if what in config.dimensions():
            labels[what] = column
        elif what in EventFields.__struct_fields__ and what not in _NO_COLUMNS:
            found[what] = column
        elif what != GAINS or not request.is_tables:
            known = [name for name in EventFields.__struct_fields__ if name not in _NO_COLUMNS]
            known += [*([GAINS] if request.is_tables else []), *config.dimensions()]
            raise WrongCallError(unknown_column(what, known))
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


def unknown_column(what: str, known: Sequence[str]) -> str:
    """What is wrong with a name in `--column`."""
    hint = suggestion(what, known)
    return f"--column: unknown field {what!r}; known: {', '.join(known)}.{hint}"


def _relabelled(config: Config, labels: Sequence[str]) -> Config:
    """The configuration with other labels; settings of removed labels are dropped."""
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
