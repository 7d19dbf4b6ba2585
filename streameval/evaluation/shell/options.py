"""Options that several of `evaluate`, `compare`, `changes` and `plan` have, and their texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Annotated, Literal, TypeAlias

from typer import Argument, Option

from streameval.evaluation.options import Form, Options, Ties
from streameval.evaluation.sources import Given, given_of
from streameval.evaluation.stores import is_state
from streameval.events.errors import UsageError
from streameval.statistics.intervals import Method

Paths: TypeAlias = Annotated[
    list[str] | None,
    Argument(
        metavar="PATH...",
        help="Files of events in the formats of `streameval evaluate`: JSON lines, parquet or "
        "CSV; or stores of checkpoints ([state] path): folders or URLs of buckets.",
    ),
]
Metrics: TypeAlias = Annotated[
    list[str] | None, Option("--metric", "-m", help="Metric, for example ndcg@10; may be repeated.")
]
Columns: TypeAlias = Annotated[
    list[str] | None,
    Option(
        metavar="FIELD=COLUMN",
        help="Column, or field of JSON lines, that holds FIELD of an event: for example "
        "recommendations=shown, user=profile.id or rating=stars; rating= if no column is one. May "
        "be repeated.",
    ),
]
Separators: TypeAlias = Annotated[
    list[str] | None,
    Option(
        help="Separator of ids in lists of text, for all columns (';') or one ('clicks=;'); empty "
        "if each cell is one id. JSON lists need none. May be repeated.",
        show_default="| or space",
    ),
]
UnitOfTime: TypeAlias = Annotated[
    Literal["s", "ms", "us", "iso8601"] | None, Option(help="Unit of event time.")
]
Confidence: TypeAlias = Annotated[
    float | None,
    Option(min=0.501, max=0.9999, help="Coverage probability of intervals.", show_default="0.95"),
]
Precision: TypeAlias = Annotated[
    float | None,
    Option(
        min=0.0001,
        max=1.0,
        help="Smallest lift that matters; a smaller one counts as no difference. `anytime` "
        "intervals are tightest for it.",
        show_default="0.02",
    ),
]
MethodOption: TypeAlias = Annotated[
    Method | None,
    Option(
        help="Whether verdicts hold for one planned look, or however often you look.",
        show_default="fixed for files, anytime for states",
    ),
]
ConfigFile: TypeAlias = Annotated[
    str | None,
    Option(
        help="Take metrics, labels, catalog, [event], intervals and [experiment] from this file."
    ),
]
TimeField: TypeAlias = Annotated[
    str | None,
    Option(help="Field of event time, for spans (--every) and what is compared by day."),
]
Format: TypeAlias = Annotated[Literal["table", "json", "csv"], Option(help="Output format.")]
ReportFormat: TypeAlias = Annotated[
    Literal["table", "json", "csv", "html"],
    Option(help="Output format; html is one file that loads nothing, to send to a colleague."),
]
Processes: TypeAlias = Annotated[
    int,
    Option(
        min=1,
        help="Number of processes, which count row groups of parquet and files of CSV or JSON "
        "lines in parallel. The values do not depend on it.",
    ),
]
AllowInvalid: TypeAlias = Annotated[
    bool,
    Option(
        "--allow-invalid",
        help="Exit with status 0 even if most records with interactions are invalid.",
    ),
]


Truth: TypeAlias = Annotated[
    str | None, Option(help="(user, item) or (user, item, rating) rows, likewise.")
]
FormOption: TypeAlias = Annotated[
    Form | None,
    Option(
        help="Form of the files, where names and first lines do not tell: tables with named "
        "columns, or trec_eval's results and qrels, or MIND's behaviors.",
        show_default="by name",
    ),
]
Exclude: TypeAlias = Annotated[
    str | None,
    Option(help="(user, item) rows that the lists leave out, such as items seen before."),
]
Header: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="NAME,...",
        help="Names of the columns of text files whose first line has none, like "
        "user,item,rating,time.",
    ),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    Option(help="Between the fields of text files, like ::.", show_default="tab, comma or ;"),
]
TiesOption: TypeAlias = Annotated[
    Ties | None,
    Option(
        help="Order of items with equal scores: earlier row first (the default), larger id first "
        "(the default for trec_eval's files), or smaller id first; worst puts interactions last, "
        "random shuffles, equally each time."
    ),
]


def columns_option(texts: Sequence[str], time: str | None = None) -> dict[str, str | None]:
    """The columns of --column FIELD=COLUMN, and that of --time.

    Raises:
        UsageError: one has no field, or a field is given twice.
    """
    columns: dict[str, str | None] = {}
    named: list[tuple[str, str | None]] = [("time", time)] if time is not None else []
    for text in texts:
        field, given, name = text.partition("=")
        if not field or not given:
            example = "--column recommendations=shown"
            raise UsageError(f"--column: found {text!r}; give FIELD=COLUMN, like {example}.")
        named.append((field, name or None))
    for field, column in named:
        if columns.setdefault(field, column) != column:
            raise UsageError(f"--column: {field!r} is given twice; give it once.")
    return columns


def separators_option(texts: Iterable[str]) -> dict[str, str]:
    """Separators by column, from "|" (for every column, with the key "") and "column=|".

    Example:
        >>> separators_option(["|", "clicks=;", "titles=", "="])
        {'': '=', 'clicks': ';', 'titles': ''}
    """
    separators: dict[str, str] = {}
    for text in texts:
        name, is_named, separator = text.partition("=")
        separators |= {name: separator} if name and is_named else {"": text}
    return separators


def inputs_option(catalog: str | None) -> dict[str, object]:
    """The catalogue of --catalog, a number or a file."""
    if catalog is None:
        return {}
    return {"catalog": int(catalog) if catalog.isdecimal() else catalog}


def day_option(option: str, text: str) -> date:
    """The day of an option."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: found {text!r}; give a day, like 2026-03-01.") from None


def files_given(
    paths: Sequence[str],
    recommendations: str | None,
    truth: str | None,
    exclude: str | None,
    options: Options,
) -> Given:
    """What a command names: files of events, or a pair.

    Raises:
        UsageError: it names both, or half of a pair.
    """
    if recommendations is None and truth is None:
        if not paths and options.config is None:
            both = "--recommendations with --truth"
            raise UsageError(
                f"missing argument 'PATH...', or {both}; see `streameval evaluate -h`."
            )
        return given_of(paths, None, exclude, options) if paths else Given("lines", [])
    if recommendations is None or truth is None:
        raise UsageError("--recommendations and --truth belong together; give both.")
    if paths:
        both = "--recommendations with --truth"
        raise UsageError(f"found {paths[0]!r} and {both}; give one or the other.")
    return given_of(recommendations, truth, exclude, options)


def events_given(paths: Sequence[str], options: Options) -> Given:
    """Files of events, or stores of checkpoints, that a command names.

    Raises:
        UsageError: there are none, and no configuration names some.
    """
    if paths and is_state(paths):
        return Given("lines", paths, paths)
    return files_given(paths, None, None, None, options)
