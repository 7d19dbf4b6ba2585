"""Compares the variants that a request names: in files, in saved states, or models of one truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from streameval.accumulator import Accumulator
from streameval.accumulator.by_user import has_user_means, ungrouped
from streameval.analyses.experiments.adjustment import Before
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.planned_shares import day_number
from streameval.analyses.experiments.reader import (
    before_in,
    everyone_in,
    segments_in,
    variants_in,
    with_strata,
)
from streameval.analyses.experiments.report import Report
from streameval.analyses.experiments.settings import (
    Experiment,
    deciding_metrics,
    pre_period_of,
)
from streameval.analyses.experiments.statistics import (
    Variant,
    check_segment,
    compare_with_control,
    with_segments,
)
from streameval.catalogue.metric import Metric
from streameval.config.config import with_analyses
from streameval.decoding.fields import EventFields
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.analysis import Configured, Finding
from streameval.engine.rankers import RANKER
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.counted import count
from streameval.evaluation.counting import SpanReadings, page_of, snapshot_of
from streameval.evaluation.options import InputError, NoEventsError, Setting, Surroundings, column
from streameval.evaluation.setup import Request, Setup, refuse_idle, setup_of
from streameval.evaluation.sources import Given, truth_of
from streameval.evaluation.stores import (
    chosen_metrics,
    is_state,
    method_of,
    restore_states,
    without_sets,
)
from streameval.events.errors import UsageError, suggestion
from streameval.exporters.view import CAUTION, has_estimates
from streameval.inference.words import confidence_text, percent
from streameval.statistics.intervals import Audience, Intervals, Method


class ExperimentOptions(NamedTuple):
    """Options of the experiment; they override the configuration.

    Attributes:
        experiment: given fields of Experiment.
        intervals: given fields of Intervals.
        looks: how often the experiment is looked at.
        by: field whose values are segments, which are compared each by itself.
        models: variant -> its recommendations, the control first; empty for events.
        against: metric that the others are compared with, instead of variants.
    """

    experiment: Mapping[str, Any]
    intervals: Mapping[str, Any]
    method: Method | None
    looks: int
    by: str | None
    models: Mapping[str, Given] = MappingProxyType({})
    against: str | None = None

    def segment(self, experiment: Experiment) -> str | None:
        """The field whose values are counted apart.

        Raises:
            InputError: two fields are asked for.
        """
        if self.by is not None and experiment.within not in {None, self.by}:
            raise InputError(
                Setting("by", self.by),
                " and ",
                Setting("within", experiment.within),
                " are two fields; give one of them.",
            )
        return self.by or experiment.within


class ArmCounts(NamedTuple):
    """The counts of an experiment.

    Attributes:
        left_out: metric -> reason why it is not compared.
        segments: value of the field `by` or `within` -> variants.
        invalid: whether most records with interactions are invalid.
        before: what users did in the days before the experiment; None if it is not kept.
    """

    metrics: Sequence[Metric]
    variants: Mapping[str, Variant]
    left_out: Mapping[str, str]
    invalid: bool = False
    segments: Mapping[str, Mapping[str, Variant]] = MappingProxyType({})
    before: Before | None = None


def count_files(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Experiment, Intervals, ArmCounts]:
    """The counts of files."""
    setup, experiment = experiment_setup(request, options, around)
    arms = count(setup, around)
    metrics, variants = variants_in(arms.families, experiment.label)
    counted = ArmCounts(metrics, variants, _left_out(arms.families), arms.is_doubtful)
    counted = counted._replace(before=before_in(arms.families, experiment.label))
    segment = options.segment(experiment)
    if segment is not None:
        segments = segments_in(arms.families, experiment.label, segment)
        counted = counted._replace(segments=segments)
    return experiment, arms.intervals, counted


def experiment_setup(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Setup, Experiment]:
    """What is counted, and the experiment."""
    request = without_sets(request, around).with_options(intervals=Intervals())
    setup = setup_of(request, EXPERIMENTS)
    known = EXPERIMENTS.settings_in(setup.config) or Experiment()
    if request.options.by:
        known = msgspec.structs.replace(known, label=request.options.by[0])
    experiment = of_rankers(setup.fields, msgspec.structs.replace(known, **options.experiment))
    request = request._replace(added=deciding_metrics(experiment))
    segment = options.segment(experiment)
    labels = [experiment.label] if segment is None else [experiment.label, segment]
    # A table need not have the columns of all labels.
    is_named = {*labels} <= {*setup.label_names}
    if not request.given.is_pair and (request.given.is_columns or not is_named):
        request = request.with_options(by=labels)
    setup = setup_of(request, EXPERIMENTS)
    is_dated = isinstance(experiment.shares, list)
    if setup.fields.time is None and (is_dated or experiment.since is not None):
        what = [Setting("shares"), " with dates"] if is_dated else [Setting("since")]
        time = Setting("columns", "FIELD", "time")
        raise InputError(*what, " needs event time: name its field with ", time, ".")
    setup = setup._replace(experiment=pre_period_of(experiment, setup.metrics))
    if setup.config is not None:
        counting = Configured(EXPERIMENTS, experiment)
        setup = setup._replace(config=with_analyses(setup.config, [counting]))
    intervals = msgspec.structs.replace(setup.intervals or Intervals(), **options.intervals)
    return setup.with_intervals(intervals), experiment


def of_rankers(fields: EventFields, experiment: Experiment) -> Experiment:
    """The experiment; every user meets all rankers, if these are its variants."""
    ranked = bool(fields.rankers) and experiment.label == RANKER
    return msgspec.structs.replace(experiment, same_users=True) if ranked else experiment


def count_models(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Experiment, Intervals, ArmCounts]:
    """The counts of files of recommendations with one truth; the users are the same."""
    _check_models(request, options)
    whole = {**options.experiment, "same_users": True, "since": None, "shares": {}}
    setup, experiment = experiment_setup(request, options._replace(experiment=whole), around)
    if "control" not in options.experiment and experiment.control not in options.models:
        experiment = msgspec.structs.replace(experiment, control=next(iter(options.models)))
    setup = setup.without_labels()
    variants: dict[str, Variant] = {}
    metrics: Sequence[Metric] = ()
    left_out: Mapping[str, str] = {}
    for name, model in _with_truth_read(request, options).items():
        families = count(setup._replace(given=model), around.about(name)).families
        metrics, variants[name] = everyone_in(families)
        left_out = _left_out(families)
    return experiment, setup.intervals or Intervals(), ArmCounts(metrics, variants, left_out)


def _with_truth_read(request: Request, options: ExperimentOptions) -> Mapping[str, Given]:
    """The models, with the rows of the truth that they share read once."""
    first = next(iter(options.models.values()))
    if first.kind != "pair":
        return options.models
    truth = truth_of(first.truth, request.options)
    return {name: model._replace(truth=truth) for name, model in options.models.items()}


def _check_models(request: Request, options: ExperimentOptions) -> None:
    """Refuse what files of recommendations with a truth do not have: labels, times, a split."""
    given = {
        "label": request.options.by,
        "by": options.by,
        "within": options.experiment.get("within"),
        "time": request.options.columns.get("time"),
        "since": options.experiment.get("since"),
        "shares": options.experiment.get("shares"),
    }
    for name in filter(given.get, given):
        raise InputError(
            Setting(name),
            " is for events; with ",
            Setting("recommendations"),
            " and ",
            Setting("truth"),
            " every user meets every model, once. Leave it out.",
        )


def _left_out(families: Iterable[SliceTable]) -> dict[str, str]:
    """The metrics that cannot be compared, each with the reason."""
    return {
        metric.text: reason
        for family in families
        for metric in family.metrics
        if (reason := ungrouped(metric, family.table)) is not None
        and not has_user_means(metric, family.table)
    }


def count_states(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Experiment, Intervals, ArmCounts]:
    """The lifetime counts of saved states, all partitions together."""
    states = restore_states(request, around)
    config, families = states.config, states.families
    known = EXPERIMENTS.settings_in(config) or Experiment()
    if request.options.by:
        known = msgspec.structs.replace(known, label=request.options.by[0])
    if known.label not in config.series_labels():
        label_names = ", ".join(config.series_labels()) or "none"
        raise UsageError(
            f"--label {known.label}: no such label in the state; its labels: {label_names}."
        )
    metrics, variants = variants_in(families, known.label)
    experiment = of_rankers(config.event, msgspec.structs.replace(known, **options.experiment))
    request = request._replace(added=deciding_metrics(experiment))
    counted = ArmCounts(chosen_metrics(request, metrics), variants, _left_out(families))
    counted = counted._replace(before=before_in(families, known.label))
    by = options.segment(experiment)
    if by is not None:
        names = [*config.series_labels(), *config.segments]
        if by not in names:
            option = Setting("within" if options.by is None else "by", by)
            problem = f": neither a label nor a segment of the state: {', '.join(names)}."
            raise InputError(option, problem)
        counted = counted._replace(segments=segments_in(families, known.label, by))
    intervals = msgspec.structs.replace(states.intervals, **options.intervals)
    return experiment, intervals, counted


def variant_of(counted: Accumulator) -> Variant:
    """The lists of an accumulator as a variant."""
    family = SliceTable((), None, counted.metrics, counted.table, {0: ()})
    return everyone_in([family])[1]


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
    refuse_idle(request.options, *(options.models.values() or [request.given]))
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
