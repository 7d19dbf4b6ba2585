"""Options that several of `evaluate`, `compare`, `changes` and `plan` have, and their texts."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, TypeAlias

from typer import Argument, Option

from streameval.evaluation.offline.request import Form
from streameval.evaluation.tables.rows import Ties
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
        "recommendations=shown or user=profile.id. May be repeated.",
    ),
]
Separators: TypeAlias = Annotated[
    list[str] | None,
    Option(
        help="Separator of ids in CSV lists, for all columns (';') or one ('clicks=;'). JSON lists "
        "need none. May be repeated.",
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
    Form,
    Option(
        help="Format of --recommendations and --truth: tables with named columns, or trec_eval's "
        "results and qrels."
    ),
]
TiesOption: TypeAlias = Annotated[
    Ties | None,
    Option(
        help="Order of items with equal scores: earlier row first (the default), larger id first "
        "(the default for trec_eval's files), or smaller id first."
    ),
]


def day_option(option: str, text: str) -> date:
    """The day of an option."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: found {text!r}; give a day, like 2026-03-01.") from None
