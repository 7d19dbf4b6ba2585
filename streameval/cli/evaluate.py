"""`streameval evaluate`: the options of the command, and the reader that they ask for."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Argument, Option

from streameval.cli.evaluation import Request
from streameval.cli.evaluation_records import evaluate_records
from streameval.cli.evaluation_tables import (
    evaluate_pair,
    evaluate_tables,
)


def evaluate(  # noqa: PLR0913  each is an option of the command
    paths: Annotated[
        list[str] | None,
        Argument(
            metavar="PATH...",
            help="JSON lines, parquet or CSV with one event a row: plain, .gz or .zst; - is "
            "standard input (JSON lines).",
        ),
    ] = None,
    *,
    metric: Annotated[
        list[str] | None, Option("--metric", "-m", help="For example ndcg@10; may be repeated.")
    ] = None,
    by: Annotated[
        list[str] | None, Option(help="Split by this field of the events; may be repeated.")
    ] = None,
    column: Annotated[
        list[str] | None,
        Option(
            metavar="WHAT=COLUMN",
            help="Where events have what, for example recommendations=shown: a column of a table "
            "or a field of JSON lines; may be repeated.",
        ),
    ] = None,
    separator: Annotated[
        list[str] | None,
        Option(
            help="Between the ids of a list in CSV, of all columns (';') or of one ('clicks=;'); "
            "JSON lists need none. May be repeated.",
            show_default="| or space",
        ),
    ] = None,
    config: Annotated[
        str | None, Option(help="Take metrics, labels, catalog and [event] from this file.")
    ] = None,
    catalog: Annotated[
        str | None, Option(help="How many items there are, or a file of their ids.")
    ] = None,
    every: Annotated[
        str | None,
        Option(help="Readings of one span of event time after the other, for example 1h."),
    ] = None,
    time: Annotated[str | None, Option(help="Field of event time, for --every.")] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "iso8601"] | None, Option(help="How it is written.")
    ] = None,
    format: Annotated[  # noqa: A002  the option is called --format
        Literal["table", "json", "csv"], Option(help="How to write the readings.")
    ] = "table",
    recommendations: Annotated[
        str | None, Option(help="A file of (user, item, score) rows, in place of PATH.")
    ] = None,
    truth: Annotated[
        str | None, Option(help="Beside it: a file of (user, item) or (user, item, rating) rows.")
    ] = None,
    form: Annotated[
        Literal["detect", "table", "trec"],
        Option(help="Of these two: tables with column names, or trec_eval's results and qrels."),
    ] = "detect",
    ties: Annotated[
        Literal["arrival", "id_desc"] | None,
        Option(
            help="Which of two items with one score stands first: the earlier row (the default), "
            "or the larger id (the default for trec_eval's files)."
        ),
    ] = None,
    user: Annotated[str | None, Option(help="Name of the column of users.")] = None,
    item: Annotated[str | None, Option(help="Name of the column of items.")] = None,
    score: Annotated[str | None, Option(help="Name of the column of scores.")] = None,
    rating: Annotated[str | None, Option(help="Name of the column of ratings.")] = None,
    allow_invalid: Annotated[
        bool,
        Option(
            "--allow-invalid",
            help="End with status 0 even if most records with interactions are invalid.",
        ),
    ] = False,
) -> None:
    """Evaluate files, with the same bits as the daemon on the same events.

    ```
    streameval evaluate events.ndjson.gz -m ndcg@10 -m hit_rate@10 --by variant
    streameval evaluate monday.ndjson tuesday.ndjson --config streameval.toml --format json
    streameval evaluate events.ndjson -m ctr --every 1h --time ts --time-unit iso8601
    streameval evaluate events.csv -m ctr --column interactions=clicks --separator 'clicks=;'
    streameval evaluate --recommendations recs.parquet --truth truth.csv -m recbole:ndcg@10
    ```

    With --config, any -m replaces the metrics of that file and any --by its labels; it needs no
    [source] where files are named. Invalid records of JSON lines are left out and summed up on
    standard error. The exit status is 1 without a valid event, and where most records with
    interactions are invalid, unless --allow-invalid is given.

    Lists in CSV are JSON lists, or ids between separators: |, white space, or what --separator
    says. A column that looks like a list in another form is refused with its line.

    Spans of --every are aligned to UTC and hold the events in them, wherever they stand in the
    files; a span without an event is left out.

    Rows of --recommendations and --truth are joined by user: a user of the truth alone has an
    empty list, one of the recommendations alone no interaction. Files of RecBole, RePlay and
    trec_eval are read as they are.
    """
    request = Request(
        paths=paths or [],
        recommendations=recommendations,
        truth=truth,
        form=form,
        ties=ties,
        user=user,
        item=item,
        score=score,
        rating=rating,
        columns=column or [],
        separators=separator or [],
        metrics=metric or [],
        labels=by or [],
        config=config,
        catalog=catalog,
        every=every,
        time=time,
        time_unit=time_unit,
        allow_invalid=allow_invalid,
        format=format,
    )
    if request.is_pair:
        evaluate_pair(request)
    elif request.is_tables:
        evaluate_tables(request)
    else:
        evaluate_records(request)
