"""`streameval plan`: how many users and days an experiment takes to find a lift."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from typer import Argument, Option

from streameval.analyses.experiments.plan_files import plan_experiments
from streameval.analyses.experiments.planning import Effort, ExperimentPlan, Wanted
from streameval.evaluation.files import finite
from streameval.evaluation.options import Options
from streameval.evaluation.request import Request, given_options
from streameval.evaluation.result import as_usage_error
from streameval.evaluation.shell.options import (
    Columns,
    Confidence,
    ConfigFile,
    Format,
    Metrics,
    Precision,
    Processes,
    Separators,
    TimeField,
    UnitOfTime,
    columns_option,
    events_given,
    separators_option,
)
from streameval.evaluation.shell.terminal import SURROUNDINGS, Forms
from streameval.events.errors import InvalidEventError, MetricError, SourceError, UsageError
from streameval.exporters.view import figure
from streameval.inference.table import TextColumn, TextTable
from streameval.inference.words import confidence_text, percent


def plan(  # noqa: PLR0913  each is an option of the command
    paths: Annotated[
        list[str],
        Argument(
            metavar="PATH...",
            help="Files of events in the formats of `streameval evaluate`, or stores of "
            "checkpoints ([state] path): of the model that runs today.",
        ),
    ],
    *,
    metric: Metrics = None,
    lift: Annotated[str, Option(metavar="SHARE", help="Lift to find, like 2% or 0.02.")] = "2%",
    shares: Annotated[
        str, Option(metavar="SHARE:SHARE", help="Planned split of users, control first.")
    ] = "50:50",
    power: Annotated[
        str, Option(metavar="SHARE", help="Share of experiments that find the lift.")
    ] = "80%",
    confidence: Confidence = None,
    precision: Precision = None,
    column: Columns = None,
    separator: Separators = None,
    config: ConfigFile = None,
    time: TimeField = None,
    time_unit: UnitOfTime = None,
    processes: Processes = 1,
    format: Format = "table",  # noqa: A002  the option is called --format
) -> None:
    """Plan an experiment: how many users and days does it take to find a lift?

    ```
    streameval plan events.ndjson -m ndcg@10 --lift 2% --time ts --time-unit s
    streameval plan week.parquet -m ctr --lift 1% --shares 90:10 --power 90%
    streameval plan state -m ndcg@10    # what a daemon has saved
    ```

    The spread between the users counted tells how many users are needed, and how fast it fell from
    day to day how many days. `detectable` is the lift that so many users would find today.

    With `fixed`, look once, when they have come; with `anytime`, look whenever you like.
    """
    options = Options(
        metrics=metric or [],
        columns=columns_option(column or [], time),
        time_unit=time_unit,
        separator=separators_option(separator or []),
        config=config,
        processes=processes,
    )
    with as_usage_error(SourceError, InvalidEventError):
        request = Request(events_given(paths, options), options)
        plan_files(
            request,
            {"lift": lift, "shares": shares, "power": power},
            given_options(confidence=confidence, precision=precision),
            format,
        )


def plan_files(
    request: Request,
    wanted: Mapping[str, str],
    options: Mapping[str, Any],
    format: str,  # noqa: A002  the option is called --format
) -> None:
    """Plan an experiment for each metric from files or saved states, and write the plans."""
    with as_usage_error(MetricError):
        asked = Wanted(
            lift=_share("--lift", wanted["lift"]),
            power=_share("--power", wanted["power"]),
            shares=tuple(_number("--shares", text) for text in wanted["shares"].split(":")),
        )
    plans = plan_experiments(request, asked, options, SURROUNDINGS)
    forms = Forms(
        partial(_parts, plans), partial(msgspec.to_builtins, plans), partial(_records, plans)
    )
    forms.write(format)


def _share(option: str, text: str) -> float:
    """A share, like 2% or 0.02."""
    if text.strip().endswith("%"):
        return _number(option, text.strip().removesuffix("%")) / 100.0
    return _number(option, text)


def _number(option: str, text: str) -> float:
    number = finite(text.strip())
    if number is None:
        example = "50:50" if option == "--shares" else "2% or 0.02"
        raise UsageError(f"{option}: found {text!r}; give numbers, like {example}.")
    return number


def _records(plans: Sequence[ExperimentPlan]) -> Iterator[dict[str, object]]:
    for of_metric, effort in _efforts(plans):
        yield {
            "metric": of_metric.metric,
            "value": of_metric.value,
            "lift": of_metric.lift,
            **msgspec.structs.asdict(effort),
        }


def _efforts(plans: Sequence[ExperimentPlan]) -> list[tuple[ExperimentPlan, Effort]]:
    return [(of_metric, effort) for of_metric in plans for effort in of_metric.efforts]


def _parts(plans: Sequence[ExperimentPlan]) -> Iterator[str | TextTable[Any]]:
    first = plans[0]
    split = " : ".join(percent(share) for share in first.shares)
    yield (
        f"To find a lift of {percent(first.lift)} in {percent(first.power)} of experiments, with "
        f"{confidence_text(first.confidence)} confidence and users split {split}:"
    )
    columns: list[TextColumn[tuple[ExperimentPlan, Effort]]] = [
        TextColumn("metric", lambda row: row[0].metric),
        TextColumn("value now", lambda row: figure(row[0].value)),
        TextColumn("method", lambda row: row[1].method),
        TextColumn("users needed", lambda row: _needed(row[1].users), "right"),
        TextColumn("days needed", lambda row: _needed(row[1].days), "right"),
        TextColumn("lift detectable today", lambda row: _detectable(row[1]), "right"),
    ]
    yield TextTable(columns, _efforts(plans))
    days = f"{first.days:,} day{'s' * (first.days != 1)}"
    yield (
        f"Counted so far: {first.users:,.0f} users on {days}. fixed: look once, when the users "
        "have come; anytime: look whenever you like."
    )


def _needed(number: float | None) -> str:
    return "unknown" if number is None else f"{math.ceil(number):,}"


def _detectable(effort: Effort) -> str:
    return "unknown" if effort.detectable is None else percent(effort.detectable)
