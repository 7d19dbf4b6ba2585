"""Compares the variants that a request names: in files, in saved states, or models of one truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.counted import (
    ArmCounts,
    ExperimentOptions,
    count_files,
    count_models,
    count_states,
)
from streameval.analyses.experiments.planned_shares import day_number
from streameval.analyses.experiments.reader import with_strata
from streameval.analyses.experiments.report import Report
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import (
    Variant,
    check_segment,
    compare_with_control,
    with_segments,
)
from streameval.catalogue.metric import Metric
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.analysis import Finding
from streameval.evaluation.options import InputError, Setting, column
from streameval.evaluation.request import Request
from streameval.evaluation.result import NoEventsError, Surroundings
from streameval.evaluation.spans import SpanReadings, page_of, snapshot_of
from streameval.evaluation.stores import is_state, method_of
from streameval.events.errors import UsageError, suggestion
from streameval.exporters.view import CAUTION, has_estimates
from streameval.inference.words import confidence_text, percent
from streameval.statistics.intervals import Audience, Intervals, Method


class CompareResult(NamedTuple):
    """A comparison with the options that it was made with.

    Attributes:
        is_doubtful: whether most records with interactions are invalid.
        against: the metric of control, if two metrics of one log are compared.
        lists: how many are compared; 0 if unknown.
    """

    report: Report
    experiment: Experiment
    intervals: Intervals
    method: Method
    is_doubtful: bool = False
    against: str | None = None
    lists: int = 0


def compare_variants(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> CompareResult:
    """Count the variants and compare them; notes every doubt about the events.

    Raises:
        UsageError: the request contradicts itself, or names what is not there.
        NoEventsError: there is no valid event.
        ConfigError: a primary metric, guardrail or share does not fit.
    """
    experiment, intervals, counted = _count(request, options, around)
    judged = [metric for metric in counted.metrics if metric.text not in counted.left_out]
    experiment.check(judged, "the options")
    _check_variants(counted.variants, request, experiment)
    _check_segments(counted.segments, request, options, experiment)
    missing = counted.variants.get(MISSING_LABEL)
    # Lists from before the experiment need no variant.
    unnamed = missing.since(day_number(experiment.since)).audience.lists if missing else 0
    if unnamed:
        lists = f"{unnamed:,} lists"
        around.note(f"{lists} have no {experiment.label} and are left out.")
    for metric, reason in counted.left_out.items():
        around.note(f"{metric} is not compared: {reason}")
    method = method_of(request, options.method, around, options.looks)
    variants = counted.variants
    if experiment.within is not None:
        variants = with_strata(variants, counted.segments)
    metrics, before = counted.metrics, counted.before
    report = compare_with_control(experiment, metrics, variants, intervals, method, before=before)
    if options.by is not None:
        report = with_segments(report, experiment, metrics, counted.segments, method, before=before)
    if counted.segments:
        audiences = {
            value: {name: variant.audience for name, variant in variants.items()}
            for value, variants in counted.segments.items()
        }
        report = check_segment(report, experiment, options.segment(experiment) or "", audiences)
    if not report.rows:
        raise UsageError("no metric that can be compared; `streameval metrics` lists them all.")
    total = sum(variant.audience.lists for variant in counted.variants.values())
    result = CompareResult(report, experiment, intervals, method, counted.invalid, lists=total)
    return with_caution(result, counted.metrics)


def with_caution(result: CompareResult, metrics: Iterable[Metric]) -> CompareResult:
    """The result with a note if any of its metrics estimates a policy that was not shown."""
    if not has_estimates(metrics):
        return result
    checks = result.report.checks
    notes = (CAUTION.removesuffix("."), *checks.notes)
    checks = msgspec.structs.replace(checks, notes=notes)
    found = msgspec.structs.replace(result.report.found, checks=checks)
    report = result.report._replace(found=found)
    return result._replace(report=report)


def _count(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Experiment, Intervals, ArmCounts]:
    if options.models:
        return count_models(request, options, around)
    count = count_states if is_state(request.files) else count_files
    return count(request, options, around)


def _check_variants(
    variants: Mapping[str, Variant], request: Request, experiment: Experiment
) -> None:
    """Raise a UsageError if variants, the control or users are missing."""
    files, label = ", ".join(request.files), experiment.label
    if not variants:
        raise NoEventsError(f"no valid event in {files}.")
    variant_names = [name for name in sorted(variants) if name != MISSING_LABEL]
    if not variant_names:
        raise InputError(
            f"no event in {files} has the label {label!r}; name the field of the variant with ",
            Setting("label", "FIELD"),
            " or ",
            column(label, "FIELD"),
            ".",
        )
    if experiment.control not in variants:
        hint = suggestion(experiment.control, variant_names)
        found = ", ".join(variant_names)
        raise InputError(
            f"no event has {label}={experiment.control}; found: {found}. Name the control variant "
            "with ",
            Setting("baseline"),
            f".{hint}",
        )
    if len(variant_names) < 2:
        raise UsageError(
            f"every event has {label}={variant_names[0]}; there is nothing to compare."
        )
    check_users([variant.audience for variant in variants.values()], request)


def check_users(audiences: Sequence[Audience], request: Request) -> None:
    """Raise a UsageError if no list names its user."""
    if all(audience.anonymous == audience.lists for audience in audiences):
        raise InputError(
            f"no event in {', '.join(request.files)} names its user. Lists of one user are "
            "correlated, so a comparison needs users; name their field with ",
            column("user", "FIELD"),
            ".",
        )


def _check_segments(
    segments: Mapping[str, Mapping[str, Variant]],
    request: Request,
    options: ExperimentOptions,
    experiment: Experiment,
) -> None:
    """Raise a UsageError if no event has the field of the segments."""
    name, option = options.segment(experiment) or "", "within" if options.by is None else "by"
    if set(segments) == {MISSING_LABEL}:
        raise InputError(
            f"no event in {', '.join(request.files)} has the field {name!r} of ",
            Setting(option),
            "; name it with ",
            Setting(option, "FIELD"),
            " or ",
            column(name, "FIELD"),
            ".",
        )


def page_of_report(title: str, result: CompareResult, about: Mapping[str, str]) -> str:
    """One HTML file with verdicts, intervals and checks, which loads nothing from elsewhere.

    `about`: how it was made, name and text.
    """
    intervals = result.intervals
    level, precision = confidence_text(intervals.confidence), percent(intervals.precision)
    told = {"intervals": f"{result.method}, {level}, precision {precision}"}
    if result.lists:
        told["events"] = f"{result.lists:,} lists"
    report = msgspec.structs.replace(
        snapshot_of((), ()), findings=(Finding(EXPERIMENTS, result.report),)
    )
    return page_of(title, [SpanReadings(None, report)], {**told, **about})
