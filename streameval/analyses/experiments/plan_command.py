"""`streameval plan`: how many users and days an experiment takes to find a lift."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict, replace
from typer import Option

from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.caps import (
    RequestedNames,
    find_caps,
    percentile_metrics,
    without_cap,
)
from streameval.analyses.experiments.planning import Effort, ExperimentPlan, Goal, plan_sums
from streameval.analyses.experiments.reader import everyone_in
from streameval.analyses.experiments.words import FARTHEST, pace_text
from streameval.evaluation.arguments import Surroundings, as_usage_error
from streameval.evaluation.files import finite_or_none
from streameval.evaluation.result import FileCounts, count, note_idle
from streameval.evaluation.setup import Request, Setup, setup_of
from streameval.evaluation.shell.flags import (
    IntervalOptions,
    OutputFormat,
    ReadOptions,
    share,
    with_struct_options,
)
from streameval.evaluation.shell.terminal import SURROUNDINGS, Forms
from streameval.evaluation.stores import StateCounts, restore_states, selected_metrics
from streameval.events.errors import (
    InvalidEventError,
    MetricError,
    NotComparableError,
    SourceError,
    UsageError,
)
from streameval.exporters.view import figure
from streameval.inference.text_table import TextColumn, TextTable
from streameval.inference.words import confidence_text, percent
from streameval.statistics.intervals import Intervals


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `plan` alone."""

    lift: Annotated[
        float, Option(parser=share, metavar="SHARE", help="Lift to find.", show_default="2%")
    ] = 0.02
    shares: Annotated[
        str, Option(metavar="SHARE:SHARE", help="Planned split of users, control first.")
    ] = "50:50"
    power: Annotated[
        float,
        Option(
            parser=share,
            metavar="SHARE",
            help="Power: share of experiments that find the lift.",
            show_default="80%",
        ),
    ] = 0.8


@with_struct_options
def plan(
    *,
    read: ReadOptions,
    aim: PlanOptions,
    intervals: IntervalOptions,
    format: OutputFormat = "table",  # noqa: A002  the option is called --format
) -> None:
    """Plan an experiment: how many users and days does it take to find a lift?

    ```
    streameval plan events.ndjson -m ndcg@10 --lift 2% --time ts --time-unit s
    streameval plan week.parquet -m ctr --lift 1% --shares 90:10 --power 90%
    streameval plan state -m ndcg@10    # what a daemon has saved
    ```

    The spread between the users counted so far gives the users needed, and the new users per day
    in the second half of the days gives the days needed. `detectable` is the smallest lift that
    today's users would reveal.

    With `fixed`, look once, when the users are there; with `anytime`, look as often as you like.
    "if adjusted" uses pre-experiment data, as `compare --since` does, so it needs fewer users.
    """
    with as_usage_error(MetricError):
        goal = Goal(
            lift=aim.lift,
            power=aim.power,
            shares=tuple(map(_number, aim.shares.split(":"))),
        )
    with as_usage_error(SourceError, InvalidEventError):
        plans, is_doubtful = plan_experiments(
            read.request(), goal, intervals.explicit, SURROUNDINGS
        )
    records = [
        {"metric": plan.metric, "value": plan.value, "lift": plan.lift} | asdict(effort)
        for plan in plans
        for effort in plan.efforts
    ]
    forms = Forms(lambda: _parts(plans), lambda: msgspec.to_builtins(plans), lambda: records)
    read.write(forms, format, is_doubtful=is_doubtful)


def plan_experiments(
    request: Request, goal: Goal, options: Mapping[str, Any], around: Surroundings
) -> tuple[list[ExperimentPlan], bool]:
    """A plan for each metric that an experiment can compare, and whether most records are invalid.

    Notes the metrics that are left out.

    `options`: given fields of Intervals.

    Raises:
        UsageError: no metric can be compared.
        NoEventsError: there is no valid event.
    """
    counted: StateCounts | FileCounts
    named: RequestedNames | None = None
    if request.call.is_state:
        counted = restore_states(request, around)
    else:
        request, named = _with_caps(request, around)
        counted = count(_plan_setup(request), around)
        note_idle(around, counted)
    metrics, everyone = everyone_in(counted.families)
    if request.call.is_state:
        metrics = [*selected_metrics(request, metrics)]
    elif named is not None:
        metrics, everyone = named.metrics(metrics), everyone.rename(named.names)
    intervals = replace(counted.intervals, **options)
    plans = []
    for metric in metrics:
        sums = everyone.sums.get(metric.text)
        if sums is None:
            around.note(f"{metric.text} is left out: it is not a mean over lists or items.")
            continue
        with as_usage_error(NotComparableError):
            plans.append(plan_sums(metric.text, sums, everyone.audience, intervals, goal))
    if not plans:
        raise UsageError("no metric that an experiment can compare; give another one with -m.")
    return plans, counted.is_doubtful


def _plan_setup(request: Request) -> Setup:
    """Setup of what to count of files or frames."""
    setup = setup_of(request.with_options(intervals=Intervals()), EXPERIMENTS)
    # A table need not have the columns of labels.
    return setup.without_labels() if request.call.is_columns else setup


def _with_caps(request: Request, around: Surroundings) -> tuple[Request, RequestedNames | None]:
    """The request with the numbers of percentiles, and the names of its metrics; notes each cap."""
    metrics = percentile_metrics(request.options.metrics)
    if not metrics:
        return request, None
    uncapped = request.with_options(metrics=[without_cap(metric).text for metric in metrics])
    caps = find_caps(metrics, [_plan_setup(uncapped)], around)
    for cap in caps:
        around.note(f"{cap.text}.")
    named = RequestedNames.of(caps, request)
    return named.request(request), named


def _number(text: str) -> float:
    number = finite_or_none(text.strip())
    if number is None:
        raise UsageError(f"--shares: found {text!r}; give numbers, like 50:50.")
    return number


def _parts(plans: Sequence[ExperimentPlan]) -> Iterator[str | TextTable[Any]]:
    first, rows = plans[0], [(plan, effort) for plan in plans for effort in plan.efforts]
    split = " : ".join(percent(share) for share in first.shares)
    yield (
        f"To find a lift of {percent(first.lift)} in {percent(first.power)} of experiments, with "
        f"{confidence_text(first.confidence)} confidence and users split {split}:"
    )
    is_adjusted = any(effort.adjusted is not None for _, effort in rows)
    adjusted: TextColumn[tuple[ExperimentPlan, Effort]] = TextColumn(
        "if adjusted", lambda row: _needed_count(row[1].adjusted), "right"
    )
    columns: list[TextColumn[tuple[ExperimentPlan, Effort]]] = [
        TextColumn("metric", lambda row: row[0].metric),
        TextColumn("value now", lambda row: figure(row[0].value)),
        TextColumn("method", lambda row: row[1].method),
        TextColumn("users needed", lambda row: _needed_count(row[1].users), "right"),
        *[adjusted][:is_adjusted],
        TextColumn("days needed", lambda row: _days(*row), "right"),
        TextColumn(
            "smallest detectable lift today",
            lambda row: "unknown" if row[1].detectable is None else percent(row[1].detectable),
            "right",
        ),
    ]
    yield TextTable(columns, rows)
    yield from _conditions(plans)
    days = f"{first.days:,} day{'s' * (first.days != 1)}"
    yield (
        f"Counted so far: {first.users:,.0f} users on {days}. fixed: look once, when the users "
        "are there; anytime: look as often as you like."
    )
    if is_adjusted:
        half = first.days // 2
        yield (
            f'"if adjusted" uses {half} day{"s" * (half != 1)} of pre-experiment data, so it needs '
            "fewer users; set `since`."
        )


def _days(plan: ExperimentPlan, effort: Effort) -> str:
    if effort.new_users == 0 and effort.days is None:
        return "never"
    farthest = FARTHEST * plan.days
    return (
        f"more than {farthest:,}" if (effort.days or 0) > farthest else _needed_count(effort.days)
    )


def _conditions(plans: Sequence[ExperimentPlan]) -> Iterator[str]:
    """Conditions of the number of days: new users, as the same ones teach ever less."""
    new = plans[0].efforts[0].new_users
    if new:
        yield f"Days needed assume {pace_text(new)}, as in the second half of the days."
    for plan in plans:
        for effort in plan.efforts:
            if effort.users is not None and (effort.new_users, effort.days) == (0, None):
                yield (
                    f"{plan.metric}, {effort.method}: out of reach without new users: "
                    f"{_needed_count(effort.users)} users are needed."
                )


def _needed_count(number: float | None) -> str:
    return "unknown" if number is None else f"{math.ceil(number):,}"
