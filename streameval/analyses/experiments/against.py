"""Compares what one log says of two policies: one metric against another, of the same lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from streameval.accumulator.by_user import ungrouped, unlike_metrics
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.counted import ExperimentOptions, experiment_settings
from streameval.analyses.experiments.files import CompareResult, check_users, with_caution
from streameval.analyses.experiments.reader import everyone_in
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import Variant, compare_with_control
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.config import Config
from streameval.config.config import relabel
from streameval.engine.capture import ingest_snapshot, lifetimes_of
from streameval.engine.ingest import Ingest
from streameval.evaluation.configured import count_events
from streameval.evaluation.request import Request
from streameval.evaluation.result import NoEventsError, Surroundings
from streameval.evaluation.stores import chosen_metrics, is_state, method_of, restore_states
from streameval.events.errors import UsageError
from streameval.statistics.intervals import Intervals

POLICY = "policy"
"""The name of the policy that is compared; control has the name of its metric."""


class _Log(NamedTuple):
    """The lists of a log, counted in all metrics."""

    config: Config
    experiment: Experiment
    intervals: Intervals
    ingest: Ingest


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
    options = _paired(options, control)
    count = _of_state if is_state(request.files) else _of_files
    log = count(request, options, around)
    counted, everyone = everyone_in(lifetimes_of(log.ingest, log.config.series_labels()))
    if not everyone.audience.lists:
        raise NoEventsError(f"no valid event in {', '.join(request.files)}.")
    check_users([everyone.audience], request)
    _check_control(control, counted, log)
    chosen = [metric for metric in chosen_metrics(request, counted) if metric != control]
    compared = _compared(chosen, control, log, around)
    log.experiment.check(compared, "command line")
    method = method_of(request, options.method, around, options.looks)
    variants = {
        control.text: _as_control(everyone, control, compared),
        POLICY: everyone,
    }
    report = compare_with_control(log.experiment, compared, variants, log.intervals, method)
    is_doubtful = log.ingest.tally.warning() is not None
    result = CompareResult(report, log.experiment, log.intervals, method, is_doubtful, control.text)
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


def _paired(options: ExperimentOptions, control: Metric) -> ExperimentOptions:
    """The options of an experiment in which every user meets both policies."""
    whole = {"control": control.text, "same_users": True, "shares": {}}
    deciding: dict[str, Any] = {"primary": [], "guardrails": {}, "since": None}
    return options._replace(experiment=deciding | dict(options.experiment) | whole)


def _of_files(request: Request, options: ExperimentOptions, around: Surroundings) -> _Log:
    config, experiment = experiment_settings(request, options, around)
    config = relabel(msgspec.structs.replace(config, segments=[]), labels=[])
    ingest = count_events(request.given, request.options, config, around).ingest
    if trouble := ingest_snapshot(ingest, labels=config.series_labels(), now=0.0).health.trouble:
        around.note(trouble)
    return _Log(config, experiment, config.intervals or Intervals(), ingest)


def _of_state(request: Request, options: ExperimentOptions, around: Surroundings) -> _Log:
    config, ingest = restore_states(request, around)
    known = EXPERIMENTS.settings_in(config) or Experiment()
    experiment = msgspec.structs.replace(known, **options.experiment)
    intervals = msgspec.structs.replace(config.intervals or Intervals(), **options.intervals)
    return _Log(config, experiment, intervals, ingest)


def _check_control(control: Metric, counted: Sequence[Metric], log: _Log) -> None:
    """Raise a UsageError if nothing can be compared with the control metric."""
    if control not in counted:
        texts = ", ".join(metric.text for metric in counted)
        raise UsageError(f"--against {control.text}: not counted here; there are {texts}.")
    if reason := ungrouped(control, log.config.accumulator().table):
        raise UsageError(f"--against {control.text}: {reason}")


def _compared(
    chosen: Sequence[Metric], control: Metric, log: _Log, around: Surroundings
) -> list[Metric]:
    """The metrics that can be compared with control; notes or raises why others cannot."""
    table = log.config.accumulator().table
    reasons = {
        metric: ungrouped(metric, table) or unlike_metrics(control, metric) for metric in chosen
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
