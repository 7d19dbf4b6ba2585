"""Options that several commands have: each is a field of a Struct, declared once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import msgspec
from typer import Argument, Exit, Option

from streameval.catalogue.context import USER_KEY
from streameval.checkpoints.store import is_store
from streameval.decoding.fields import TimeUnit
from streameval.evaluation.arguments import Form, Options, Ties, separators_of
from streameval.evaluation.files import finite_or_none
from streameval.evaluation.setup import Request, explicit_options
from streameval.evaluation.shell.exits import FAILED, refuse_invalid
from streameval.evaluation.shell.terminal import Forms
from streameval.evaluation.sources import CallInputs, inputs_of
from streameval.events import Combine
from streameval.events.errors import UsageError
from streameval.statistics.intervals import Method
from streameval.statistics.user_key import UserHashKey


def share(text: str | float) -> float:
    """A share that an option takes, like 2% or 0.02; also of its default, a number.

    Raises:
        ValueError: it is not a number.
    """
    number = share_or_none(text)
    if number is None:
        raise ValueError(f"found {text!r}; give a share, like 2% or 0.02")
    return number


def share_or_none(text: str | float) -> float | None:
    """A share, like 2% or 0.02; None if it is another text."""
    stripped = str(text).strip()
    number = finite_or_none(stripped.removesuffix("%").rstrip())
    return number / 100.0 if number is not None and stripped.endswith("%") else number


MethodOption: TypeAlias = Annotated[
    Method | None,
    Option(
        help="Whether verdicts are valid for one planned look, or at every look.",
        show_default="fixed for files, anytime for states",
    ),
]
OutputFile: TypeAlias = Annotated[
    Path | None,
    Option("--output", "-o", help="Write the result to this file instead of standard output."),
]
TextFormat: TypeAlias = Annotated[Literal["table", "json"], Option(help="Output format.")]
OutputFormat: TypeAlias = Annotated[Literal["table", "json", "csv"], Option(help="Output format.")]
ReportFormat: TypeAlias = Annotated[
    Literal["table", "json", "csv", "html"],
    Option(help="Output format; html is one self-contained file to send to a colleague."),
]


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of every command that reads events."""

    paths: Annotated[
        list[str],
        Argument(
            metavar="PATH...",
            help="JSON lines, parquet or CSV with one event per row: files (plain, .gz or .zst), "
            "folders, patterns, objects (s3://, gs://, az://); - is standard input (JSON lines). "
            "All commands except `evaluate` also read stores of checkpoints ([state] path).",
        ),
    ] = []
    metric: Annotated[
        list[str], Option("--metric", "-m", help="Metric, for example ndcg@10; may be repeated.")
    ] = []
    column: Annotated[
        list[str],
        Option(
            metavar="FIELD=COLUMN",
            help="Column, or field of JSON lines, that holds FIELD of an event: for example "
            "recommendations=shown, user=profile.id or rating=stars; rating= if no column has it. "
            "May be repeated.",
        ),
    ] = []
    separator: Annotated[
        list[str],
        Option(
            help="Separator of ids in lists of text, for all columns (';') or one ('clicks=;'); "
            "empty if each cell is one id. JSON lists need none. May be repeated.",
            show_default="| or space",
        ),
    ] = []
    config: Annotated[
        str | None,
        Option(
            help="Take metrics, labels, catalog, [event], intervals and the table of the analysis "
            "([experiment], [changes]) from this file."
        ),
    ] = None
    time: Annotated[
        str | None,
        Option(help="Field of event time, for spans (--every) and comparisons by day."),
    ] = None
    time_unit: Annotated[TimeUnit | None, Option(help="Unit of event time.")] = None
    time_zone: Annotated[
        str | None,
        Option(
            metavar="ZONE",
            help="Time zone whose days are counted and compared, like Europe/Berlin; spans of "
            "hours and minutes do not depend on it.",
            show_default="UTC",
        ),
    ] = None
    combine: Annotated[
        Combine | None,
        Option(
            help="How to combine several gains of an item in one list: the largest, or the sum, "
            "so that a refund offsets its sale.",
            show_default="max",
        ),
    ] = None
    user_key: Annotated[
        str | None,
        Option(
            metavar="PLACE",
            help="Where the key of the hash of users is, like '${file:key}' or '${NAME}': states "
            "of events with one key merge, and nobody without it can recompute their hashes.",
        ),
    ] = None
    processes: Annotated[
        int,
        Option(
            min=1,
            help="Number of processes to count row groups of parquet and files of CSV or JSON "
            "lines in parallel. The values do not depend on it.",
        ),
    ] = 1
    output: OutputFile = None
    allow_invalid: Annotated[
        bool,
        Option(
            "--allow-invalid",
            help="Exit with status 0 even if most lines are not JSON, or most records with "
            "interactions are invalid.",
        ),
    ] = False

    def options(self, **others: Any) -> Options:
        """Options for reading files; `others`: options that not every command has."""
        if self.user_key is not None:
            others["inputs"] = {**others.get("inputs", {}), USER_KEY: UserHashKey(self.user_key)}
        return Options(
            metrics=self.metric,
            columns=columns_option(self.column, self.time),
            time_unit=self.time_unit,
            time_zone=self.time_zone,
            combine=self.combine,
            separator=separators_of(self.separator),
            config=self.config,
            processes=self.processes,
            **others,
        )

    def request(self) -> Request:
        """The request of a command that compares events."""
        options = self.options()
        return Request(events_of_command(self.paths, options), options)

    def write(self, forms: Forms, name: str, *, is_doubtful: bool, fails: bool = False) -> None:
        """Write a result; exit with status 1 if most records are invalid, or if it `fails`."""
        forms.write(name, self.output)
        if is_doubtful:
            refuse_invalid(allowed=self.allow_invalid)
        if fails:
            raise Exit(FAILED)


class PairOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of commands that join recommendations with a truth."""

    truth: Annotated[
        str | None, Option(help="(user, item) or (user, item, rating) rows, in the same forms.")
    ] = None
    exclude: Annotated[
        str | None,
        Option(help="(user, item) rows to leave out of the lists, such as items seen before."),
    ] = None
    form: Annotated[
        Form | None,
        Option(
            help="Format of the files, if names and first lines do not tell: tables with named "
            "columns, trec_eval's results and qrels, or MIND's behaviors.",
            show_default="by name",
        ),
    ] = None
    header: Annotated[
        str | None,
        Option(
            metavar="NAME,...",
            help="Column names of text files without a header line, like user,item,rating,time.",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        Option(help="Delimiter of fields in text files, like ::.", show_default="tab, comma or ;"),
    ] = None
    ties: Annotated[
        Ties | None,
        Option(
            help="Order of items with equal scores: earlier row first (the default), larger id "
            "first (the default for trec_eval's files), or smaller id first; worst puts larger "
            "gains last, random shuffles reproducibly."
        ),
    ] = None

    def reading(self) -> dict[str, Any]:
        """The fields of Options that say how files are read."""
        return {
            "form": self.form,
            "header": None if self.header is None else self.header.split(","),
            "delimiter": self.delimiter,
            "ties": self.ties,
        }


class GroupOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of commands that split the values of recommendations and truth by users."""

    recommendations: Annotated[
        str | None,
        Option(help="(user, item, score) rows: a file, folder or pattern; needs --truth."),
    ] = None
    users: Annotated[
        str | None,
        Option(
            help="(user, label, ...) rows for --by, if neither --recommendations nor --truth has "
            "the label as a column."
        ),
    ] = None


class IntervalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of commands that judge."""

    confidence: Annotated[
        float | None,
        Option(
            parser=share,
            metavar="SHARE",
            help="Coverage probability of intervals.",
            show_default="95%",
        ),
    ] = None
    precision: Annotated[
        float | None,
        Option(
            parser=share,
            metavar="SHARE",
            help="Smallest lift that matters; a smaller one counts as no difference. `anytime` "
            "intervals are tightest for it.",
            show_default="2%",
        ),
    ] = None

    @property
    def explicit(self) -> dict[str, Any]:
        """The fields of Intervals that were given."""
        return explicit_options(**msgspec.structs.asdict(self))


def with_struct_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose arguments are Structs, as one with an option for each of their fields."""
    hints = get_type_hints(command, include_extras=True)
    structs = {name: kind for name, kind in hints.items() if hasattr(kind, "__struct_fields__")}
    options: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        kind = structs.get(parameter.name)
        if kind is None:
            options.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        kinds = get_type_hints(kind, include_extras=True)
        for field in msgspec.structs.fields(kind):
            usual = Parameter.empty if field.required else field.default
            if field.default_factory is not msgspec.NODEFAULT:
                usual = field.default_factory()
            options.append(
                Parameter(
                    field.name, Parameter.KEYWORD_ONLY, default=usual, annotation=kinds[field.name]
                )
            )

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in structs.items():
            values[name] = kind(**{field: values.pop(field) for field in kind.__struct_fields__})
        command(**values)

    vars(run).update(
        __signature__=Signature(options),
        __annotations__={option.name: option.annotation for option in options},
    )
    return run


def columns_option(texts: Sequence[str], time: str | None = None) -> dict[str, str | None]:
    """The columns of --column FIELD=COLUMN, and that of --time."""
    columns: dict[str, str | None] = {} if time is None else {"time": time}
    for text in texts:
        field, is_named, name = text.partition("=")
        if not field or not is_named:
            example = "--column recommendations=shown"
            raise UsageError(f"--column: found {text!r}; give FIELD=COLUMN, like {example}.")
        if columns.setdefault(field, name or None) != (name or None):
            raise UsageError(f"--column: {field!r} is given twice; give it once.")
    return columns


def day_option(option: str, text: str) -> date:
    """The day of an option."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: found {text!r}; give a day, like 2026-03-01.") from None


def files_of_command(
    paths: Sequence[str],
    recommendations: str | None,
    truth: str | None,
    exclude: str | None,
    options: Options,
    users: str | None = None,
) -> CallInputs:
    """The inputs of a command: files of events, or a pair; refuses both, and half of a pair."""
    both = "--recommendations with --truth"
    if recommendations is None and truth is None:
        if not paths and options.config is None:
            problem = f"missing argument 'PATH...', or {both}"
            raise UsageError(f"{problem}; see `streameval evaluate -h`.")
        return inputs_of(paths, None, exclude, options, users) if paths else CallInputs("lines", [])
    if recommendations is None or truth is None:
        raise UsageError("--recommendations and --truth belong together; give both.")
    if paths:
        raise UsageError(f"found {paths[0]!r} and {both}; give one or the other.")
    return inputs_of(recommendations, truth, exclude, options, users)


def events_of_command(
    paths: Sequence[str],
    options: Options,
    *,
    recommendations: str | None = None,
    truth: str | None = None,
    exclude: str | None = None,
    users: str | None = None,
) -> CallInputs:
    """The inputs of a command, or stores of checkpoints, which stand alone."""
    alone = recommendations is truth is exclude is users is None
    if alone and any(map(is_store, paths)):
        return CallInputs("state", paths)
    return files_of_command(paths, recommendations, truth, exclude, options, users)
