"""`streameval compare`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from typer import Argument, Option


class Failure(StrEnum):
    """Why a comparison may end with status 1."""

    WORSE = "worse"
    GUARDRAIL = "guardrail"
    UNTRUSTED = "untrusted"


def compare(  # noqa: PLR0913  each is an option of the command
    paths: Annotated[
        list[str],
        Argument(
            metavar="PATH...",
            help="Files of events as `streameval evaluate` reads them: JSON lines, parquet or CSV; "
            "or folders of checkpoints ([state] path).",
        ),
    ],
    *,
    metric: Annotated[
        list[str] | None, Option("--metric", "-m", help="For example ndcg@10; may be repeated.")
    ] = None,
    by: Annotated[
        str | None,
        Option(help="The field whose values are the variants.", show_default="variant"),
    ] = None,
    control: Annotated[
        str | None,
        Option(help="The value that the others are compared with.", show_default="control"),
    ] = None,
    primary: Annotated[
        list[str] | None,
        Option(metavar="METRIC", help="It decides; several share the error. May be repeated."),
    ] = None,
    guardrail: Annotated[
        list[str] | None,
        Option(
            metavar="METRIC=LIFT",
            help="It may not fall by more, like ctr=-0.01 (rise, like log_loss=0.01). "
            "May be repeated.",
        ),
    ] = None,
    shares: Annotated[
        str | None,
        Option(
            metavar="VARIANT=SHARE,...",
            help="How users are split, like control=9,treatment=1.",
            show_default="evenly",
        ),
    ] = None,
    same_users: Annotated[
        bool, Option("--same-users", help="Each user is meant to meet several variants.")
    ] = False,
    method: Annotated[
        Literal["fixed", "anytime"] | None,
        Option(
            help="One planned look, or as many as you like (wider).",
            show_default="fixed for files, anytime for states",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        Option(
            min=0.501, max=0.9999, help="How often intervals cover the truth.", show_default="0.95"
        ),
    ] = None,
    precision: Annotated[
        float | None,
        Option(
            min=0.0001,
            max=1.0,
            help="Lift that matters: a smaller one is no difference.",
            show_default="0.02",
        ),
    ] = None,
    since: Annotated[
        str | None, Option(metavar="DATE", help="First day that counts (UTC), like 2026-03-01.")
    ] = None,
    column: Annotated[
        list[str] | None,
        Option(
            metavar="WHAT=COLUMN",
            help="Where events have what, like user=profile.id; may be repeated.",
        ),
    ] = None,
    separator: Annotated[
        list[str] | None,
        Option(
            help="Between the ids of a list in CSV, of all columns (';') or of one ('clicks=;'). "
            "May be repeated.",
            show_default="| or space",
        ),
    ] = None,
    config: Annotated[
        str | None,
        Option(help="Take metrics, catalog, [event], intervals and [experiment] from this file."),
    ] = None,
    time: Annotated[
        str | None, Option(help="Field of event time: days are compared each for itself.")
    ] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "iso8601"] | None, Option(help="How it is written.")
    ] = None,
    format: Annotated[  # noqa: A002  the option is called --format
        Literal["table", "json", "csv"], Option(help="How to write it.")
    ] = "table",
    fail_on: Annotated[
        list[Failure] | None,
        Option(
            metavar="VERDICT",
            help="End with status 1 on this: worse (any metric), guardrail (one is broken) or "
            "untrusted (a check failed). May be repeated.",
        ),
    ] = None,
) -> None:
    """Compare variants: is treatment better than control, and is it real?

    ```
    streameval compare events.ndjson.gz -m ndcg@10 -m ctr --by variant --control control
    streameval compare week.parquet -m ndcg@10 --primary ndcg@10 --guardrail ctr=-0.01
    streameval compare events.ndjson -m ctr --time ts --time-unit s --shares control=9,new=1
    streameval compare events.ndjson -m ctr --method anytime --format json --fail-on worse
    streameval compare state    # what a daemon has saved, all partitions together
    ```

    Events must name their users, under `user` unless --column user=FIELD says otherwise: a user's
    lists resemble each other, so users are what is compared, in 256 groups. A user who is in both
    variants is compared with themselves.

    The interval of the method `fixed` holds for one look that was planned; `anytime` holds however
    often you look. Metrics that are no mean of lists or items are left out, and said so.
    """
    from streameval.cli.comparing import Asked, compared_files  # noqa: PLC0415  only where used
    from streameval.cli.evaluation import Request  # noqa: PLC0415  likewise

    compared_files(
        Request(
            paths=paths,
            columns=column or [],
            separators=separator or [],
            metrics=metric or [],
            labels=[by] if by else [],
            config=config,
            time=time,
            time_unit=time_unit,
            format=format,
        ),
        Asked(
            control=control,
            primary=primary or [],
            guardrails=guardrail or [],
            shares=shares,
            same_users=same_users,
            method=method,
            confidence=confidence,
            precision=precision,
            since=since,
            fail_on=fail_on or [],
        ),
    )
