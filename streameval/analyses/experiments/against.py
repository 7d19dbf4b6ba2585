"""Compares what one log says of two policies: one metric against another, of the same lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from streameval.accumulator.by_user import ungrouped, unlike_metrics
from streameval.accumulator.table import Table
from streameval.analyses.experiments.files import (
    CompareResult,
    ExperimentOptions,
    check_users,
    experiment_of,
    experiment_setup,
    with_caution,
)
from streameval.analyses.experiments.reader import everyone_in
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.evaluation.counted import FileCounts, count
from streameval.evaluation.options import NoEventsError, Surroundings
from streameval.evaluation.setup import Request
from streameval.evaluation.stores import (
    StateCounts,
    chosen_metrics,
    method_of,
    restore_states,
)
from streameval.events.errors import UsageError

POLICY = "policy"
"""The name of the policy that is compared; control has the name of its metric."""


def compare_policies(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> CompareResult:
    """Count one log, and compare each metric with that of `options.against`, paired by user.

    Raises:
        UsageError: the request contradicts itself, or the metrics cannot be compared.
        NoEventsError: there is no valid event.
        MetricError: a metric is unknown.
    """
    against = options.against or ""
    control = parse(against)
    _refuse_options(request, options)
    metrics = [*request.options.metrics, control.text]
    if {parse(text) for text in request.options.metrics} <= {control}:
        raise UsageError(
            f"--against {against}: name the metric to compare with it, for example "
            '-m "snips(target=uniform)".'
        )
    request = request.with_options(metrics=metrics)
    # Every user meets both policies.
    whole = {"control": control.text, "same_users": True, "shares": {}}
    deciding: dict[str, Any] = {"primary": [], "guardrails": {}, "since": None}
    options = options._replace(experiment=deciding | dict(options.experiment) | whole)
    log: FileCounts | StateCounts
    if request.given.is_state:
        log = restore_states(request, around)
        experiment = experiment_of(log.config, log.config.event, request, options)
    else:
        setup, experiment = experiment_setup(request, options, around)
        log = count(setup.without_labels(), around)
    intervals = msgspec.structs.replace(log.intervals, **options.intervals)
    counted, everyone = everyone_in(log.families)
    if not everyone.audience.lists:
        raise NoEventsError(f"no valid event in {', '.join(request.files)}.")
    check_users([everyone.audience], request)
    tables = {metric: family.table for family in log.families for metric in family.metrics}
    if control not in counted:
        texts = ", ".join(metric.text for metric in counted)
        raise UsageError(f"--against {against}: not counted here; there are {texts}.")
    if reason := ungrouped(control, tables[control]):
        raise UsageError(f"--against {against}: {reason}")
    chosen = [metric for metric in chosen_metrics(request, counted) if metric != control]
    compared = _compared(chosen, control, tables, around)
    experiment.check(compared, "command line")
    method = method_of(request, options.method, around, options.looks)
    variants = {
        control.text: _as_control(everyone, control, compared),
        POLICY: everyone,
    }
    report = compare_with_control(experiment, compared, variants, intervals, method)
    result = CompareResult(
        report,
        experiment,
        intervals,
        method,
        log.is_doubtful,
        control.text,
        everyone.audience.lists,
    )
    return with_caution(result, [control, *compared])


def _refuse_options(request: Request, options: ExperimentOptions) -> None:
    """Refuse options about variants: all lists are of one log."""
    experiment = {name: options.experiment.get(name) for name in ("control", "shares", "within")}
    given = {
        "--label": request.options.by,
        "--by": options.by,
        "--recommendations": options.models,
        "--truth": request.given.truth,
        **{f"--{name}": value for name, value in experiment.items()},
    }
    for option in filter(given.get, given):
        raise UsageError(
            f"{option} is for variants; --against compares two metrics of one log. Leave it out."
        )


def _compared(
    chosen: Sequence[Metric],
    control: Metric,
    tables: Mapping[Metric, Table],
    around: Surroundings,
) -> list[Metric]:
    """The metrics that can be compared with control; notes or raises why others cannot."""
    reasons = {
        metric: ungrouped(metric, tables[metric]) or unlike_metrics(control, metric)
        for metric in chosen
    }
    left_out = {metric: reason for metric, reason in reasons.items() if reason is not None}
    if len(left_out) == len(chosen):
        raise UsageError(f"nothing to compare with {control.text}: {' '.join(left_out.values())}")
    for metric, reason in left_out.items():
        around.note(f"{metric.text} is not compared: {reason}")
    return [metric for metric in chosen if metric not in left_out]


def _as_control(everyone: Variant, control: Metric, compared: Sequence[Metric]) -> Variant:
    """All lists, with the sums of the control metric under the name of each other one."""
    name, others = control.text, [metric.text for metric in compared]
    return everyone._replace(
        sums=dict.fromkeys(others, everyone.sums[name]),
        objections={
            other: everyone.objections[name] for other in others if name in everyone.objections
        },
        values={other: everyone.values[name] for other in others if name in everyone.values},
    )
