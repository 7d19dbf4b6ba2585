"""Compares the variants that a request names, the models of one truth, or two metrics of a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from streameval.accumulator import Accumulator
from streameval.accumulator.kinds.groups import ungrouped, unlike_metrics
from streameval.accumulator.kinds.user_sums import has_user_means
from streameval.analyses.experiments.adjustment import Before
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.caps import (
    PercentileCap,
    RequestedNames,
    find_caps,
    percentile_metrics,
    without_cap,
)
from streameval.analyses.experiments.reader import (
    before_in,
    everyone_in,
    segments_in,
    variants_in,
    with_strata,
)
from streameval.analyses.experiments.settings import (
    Experiment,
    deciding_metrics,
    pre_period_of,
)
from streameval.analyses.experiments.statistics import (
    Variant,
    by_names,
    check_segment,
    compare_with_control,
    with_segments,
)
from streameval.analyses.experiments.verdicts import Report
from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.config import Config
from streameval.config.config import with_analyses
from streameval.decoding.fields import EventFields
from streameval.decoding.values import MISSING_LABEL
from streameval.engine.analysis import Configured, Finding
from streameval.engine.rankers import RANKER
from streameval.engine.windows.labels import Labels
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.arguments import (
    InputError,
    Named,
    Setting,
    Surroundings,
    column,
    idle_notes,
    no_events,
)
from streameval.evaluation.result import FileCounts, count, note_idle
from streameval.evaluation.setup import Request, Setup, refuse_idle, setup_of
from streameval.evaluation.sources import CallInputs, field_suggestion, truth_of
from streameval.evaluation.span_readings import SpanReadings, page_of, snapshot_of
from streameval.evaluation.stores import (
    StateCounts,
    method_of,
    restore_states,
    selected_metrics,
    without_sets,
)
from streameval.events.errors import UsageError
from streameval.events.spelling import suggestion
from streameval.exporters.view import ESTIMATE_WARNING, has_estimates
from streameval.inference.planned_looks import MOST_LOOKS, PlannedLook
from streameval.inference.words import confidence_text, percent
from streameval.statistics.intervals import Audience, Intervals, Method


class ExperimentOptions(NamedTuple):
    """Options of the experiment; they override the configuration.

    Attributes:
        experiment: given fields of Experiment.
        intervals: given fields of Intervals.
        looks: how often the experiment is looked at.
        look: the number of this look, if all are planned; None if they are not.
        by: field within each of whose values variants are also compared.
        models: variant -> its recommendations, the control first; empty for events.
        against: metric that the others are compared with, instead of variants.
    """

    experiment: Mapping[str, Any]
    intervals: Mapping[str, Any]
    method: Method | None
    looks: int
    look: int | None
    by: str | None
    models: Mapping[str, CallInputs] = MappingProxyType({})
    against: str | None = None

    def planned_look(self, request: Request) -> PlannedLook | None:
        """Number of this look among the planned ones; None if no looks are planned.

        Raises:
            InputError: it is none of them, or they cannot be planned.
        """
        if self.look is None:
            return None
        look, looks = Setting("look"), Setting("looks", self.looks)
        if request.call.is_state:
            raise InputError("{look} is for files: a state is looked at often.", look=look)
        if self.method == "anytime":
            raise InputError(
                "{look} is of planned looks, and {method} holds at any; leave one of them out.",
                look=look,
                method=Setting("method", self.method),
            )
        if self.looks > MOST_LOOKS:
            raise InputError(
                "{looks}: found {found}; give at most {most} with {look}.",
                looks=Setting("looks"),
                found=str(self.looks),
                most=str(MOST_LOOKS),
                look=look,
            )
        if self.look > self.looks == 1:
            raise InputError(
                "{look}: found {found}; also give the number of planned looks, like {looks}.",
                look=look,
                found=str(self.look),
                looks=Setting("looks", 5),
            )
        if not 1 <= self.look <= self.looks:
            raise InputError(
                "{look}: found {found}; give the number of this look, of {looks}.",
                look=look,
                found=str(self.look),
                looks=looks,
            )
        return PlannedLook(self.looks, self.look) if self.looks > 1 else None

    def segment(self, experiment: Experiment) -> str | None:
        """The field whose values are counted apart.

        Raises:
            InputError: two fields are asked for.
        """
        if self.by is not None and experiment.within not in {None, self.by}:
            raise InputError(
                "{by} and {within} are two fields; give one of them.",
                by=Setting("by", self.by),
                within=Setting("within", experiment.within),
            )
        return self.by or experiment.within


def _without_deciding(options: ExperimentOptions, **fields: Any) -> ExperimentOptions:
    """The options with other fields of the experiment, and no metric that decides."""
    nothing: dict[str, Any] = {"primary": [], "guardrails": {}}
    return options._replace(experiment={**options.experiment, **nothing, **fields})


def _find_caps(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Sequence[PercentileCap], Request, ExperimentOptions, RequestedNames]:
    """The caps by percentile, what is counted with them, and its names in the report."""
    deciding = deciding_metrics(Experiment(**options.experiment))
    others = (*request.added, *deciding)
    metrics = percentile_metrics((*request.options.metrics, *others))
    caps: Sequence[PercentileCap] = ()
    # A state is counted already.
    if metrics and not request.call.is_state:
        texts = [without_cap(metric).text for metric in metrics]
        uncapped = request.with_options(metrics=texts)._replace(added=())
        if options.models:
            undecided = _without_deciding(options, **_ALL_DATA)
            setup, _ = experiment_setup(uncapped, undecided, around)
            setups = [setup.without_labels()._replace(call=of) for of in options.models.values()]
            caps = find_caps(metrics, setups, around)
        else:
            setup, experiment = experiment_setup(uncapped, _without_deciding(options), around)
            caps = find_caps(metrics, [setup], around, experiment)
    named = RequestedNames.of(caps, request, deciding)
    if not caps:
        return caps, request, options, named
    counted = {**options.experiment}
    if "primary" in counted:
        counted["primary"] = list(dict.fromkeys(named.texts(counted["primary"])))
    if "guardrails" in counted:
        counted["guardrails"] = named.keys(counted["guardrails"])
    return caps, named.request(request), options._replace(experiment=counted), named


_ALL_DATA: Final[Mapping[str, Any]] = {
    "same_users": True,
    "since": None,
    "until": None,
    "shares": {},
}
"""The experiment of models of one truth, without days and a split of users."""


class ArmCounts(NamedTuple):
    """The counts of an experiment.

    Attributes:
        left_out: metric -> reason why it is not compared.
        is_doubtful: whether most records with interactions are invalid.
        segments: value of the field `by` or `within` -> variants.
        before: what users did in the days before the experiment; None if it is not stored.
    """

    experiment: Experiment
    intervals: Intervals
    metrics: Sequence[Metric]
    variants: Mapping[str, Variant]
    left_out: Mapping[str, str]
    is_doubtful: bool = False
    segments: Mapping[str, Mapping[str, Variant]] = MappingProxyType({})
    before: Before | None = None

    def rename(self, named: RequestedNames, requested: Mapping[str, Any]) -> ArmCounts:
        """The counts with the requested names.

        `requested`: the fields of the experiment, which may have metrics by percentile.
        """
        names, before = named.names, self.before
        deciding = {
            name: requested[name] for name in ("primary", "guardrails") if name in requested
        }
        return self._replace(
            experiment=replace(self.experiment, **deciding),
            metrics=named.metrics(self.metrics),
            variants={name: of.rename(names) for name, of in self.variants.items()},
            left_out=by_names(self.left_out, names),
            segments={
                value: {name: of.rename(names) for name, of in variants.items()}
                for value, variants in self.segments.items()
            },
            before=None
            if before is None
            else before._replace(totals=by_names(before.totals, names)),
        )


def _count(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[FileCounts | StateCounts, Experiment, Intervals]:
    """Counts of files or saved states, by label unless two metrics of all lists are compared."""
    counted: FileCounts | StateCounts
    if not request.call.is_state:
        setup, experiment = experiment_setup(request, options, around)
        counted = count(setup if options.against is None else setup.without_labels(), around)
        note_idle(around, counted)
    else:
        counted = restore_states(request, around)
        config = counted.config
        experiment = experiment_of(config, config.event, request, options)
        if options.against is None:
            labels, by = config.series_labels(), options.segment(experiment)
            if experiment.label not in labels:
                problem = f"no such label in the state; its labels: {', '.join(labels) or 'none'}."
                raise UsageError(f"--label {experiment.label}: {problem}")
            names = [*labels, *config.segments]
            if by is not None and by not in names:
                option = Setting("within" if options.by is None else "by", by)
                problem = f"neither a label nor a segment of the state: {', '.join(names)}."
                raise InputError("{option}: {problem}", option=option, problem=problem)
    return counted, experiment, replace(counted.intervals, **options.intervals)


def experiment_setup(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Setup, Experiment]:
    """Setup of what to count, and the experiment."""
    request = without_sets(request, around).with_options(intervals=Intervals())
    setup = setup_of(request, EXPERIMENTS)
    experiment = experiment_of(setup.config, setup.fields, request, options)
    request = request._replace(added=deciding_metrics(experiment))
    segment = options.segment(experiment)
    labels = [experiment.label] if segment is None else [experiment.label, segment]
    # A table need not have the columns of all labels.
    is_named = {*labels} <= {*setup.label_names}
    if not request.call.is_pair and (request.call.is_columns or not is_named):
        request = request.with_options(by=labels)
    setup = setup_of(request, EXPERIMENTS)
    is_dated = isinstance(experiment.shares, list)
    days = {"since": experiment.begins, "until": experiment.until}
    named = next((name for name, day in days.items() if day is not None), None)
    if setup.fields.time is None and (is_dated or named is not None):
        what = "{shares} with dates" if is_dated else f"{{{named}}}"
        raise InputError(what + " needs event time: name its field with {columns.time=FIELD}.")
    setup = setup._replace(experiment=pre_period_of(experiment, setup.metrics) or True)
    if setup.config is not None:
        counting = Configured(EXPERIMENTS, experiment)
        setup = setup._replace(config=with_analyses(setup.config, [counting]))
    intervals = replace(setup.intervals or Intervals(), **options.intervals)
    return setup.with_intervals(intervals), experiment


def experiment_of(
    config: Config | None, fields: EventFields, request: Request, options: ExperimentOptions
) -> Experiment:
    """The experiment of a configuration, as far as options do not override it."""
    named = {"label": request.options.by[0]} if request.options.by else {}
    configured = EXPERIMENTS.settings_in(config) or Experiment()
    experiment = replace(configured, **named | dict(options.experiment))
    # Every user meets all rankers, if these are the variants.
    ranked = bool(fields.rankers) and experiment.label == RANKER
    return replace(experiment, same_users=True) if ranked else experiment


def count_arms(request: Request, options: ExperimentOptions, around: Surroundings) -> ArmCounts:
    """The counts of files, or of saved states, all partitions together."""
    counted, experiment, intervals = _count(request, options, around)
    families, label = counted.families, experiment.label
    metrics, variants = variants_in(families, label)
    if request.call.is_state:
        added = request._replace(added=deciding_metrics(experiment))
        metrics = [*selected_metrics(added, metrics)]
    segment = options.segment(experiment)
    return ArmCounts(
        experiment,
        intervals,
        metrics,
        variants,
        _left_out(families),
        counted.is_doubtful,
        {} if segment is None else segments_in(families, label, segment),
        before_in(families, label),
    )


def count_models(request: Request, options: ExperimentOptions, around: Surroundings) -> ArmCounts:
    """The counts of files of recommendations with one truth; the users are the same."""
    idle = {
        "label": request.options.by,
        "by": options.by,
        "within": options.experiment.get("within"),
        "time": request.options.columns.get("time"),
        "since": options.experiment.get("since"),
        "until": options.experiment.get("until"),
        "shares": options.experiment.get("shares"),
        "untreated_before": options.experiment.get("untreated_before"),
    }
    for name in filter(idle.get, idle):
        raise InputError(
            "{setting} is for events; with {recommendations} and {truth} every user meets every "
            "model, once. Leave it out.",
            setting=Setting(name),
        )
    settings = {**options.experiment, **_ALL_DATA}
    setup, experiment = experiment_setup(request, options._replace(experiment=settings), around)
    if "control" not in options.experiment and experiment.control not in options.models:
        experiment = replace(experiment, control=next(iter(options.models)))
    setup = setup.without_labels()
    models, first = options.models, next(iter(options.models.values()))
    if first.kind == "pair":
        # The rows of the truth that the models share are read once.
        truth = truth_of(first.truth, request.options)
        models = {name: model._replace(truth=truth) for name, model in models.items()}
    variants: dict[str, Variant] = {}
    metrics: Sequence[Metric] = ()
    left_out: Mapping[str, str] = {}
    used: set[Named] = set()
    for name, model in models.items():
        # One at a time: the tables of a model are not needed for the next.
        counted = count(setup._replace(call=model), around.about(name))
        used |= counted.used
        families = counted.families
        metrics, variants[name] = everyone_in(families)
        left_out = _left_out(families)
    # A setting may decide about one model alone.
    for note in idle_notes(setup.options, used):
        around.note(note)
    return ArmCounts(experiment, setup.intervals or Intervals(), metrics, variants, left_out)


POLICY: Final = "policy"
"""The name of the policy that is compared; control has the name of its metric."""


def count_policies(request: Request, options: ExperimentOptions, around: Surroundings) -> ArmCounts:
    """The counts of one log, with the metric of `options.against` under the name of each other."""
    against = options.against or ""
    control = parse(against)
    # All lists are of one log, so that no option about variants says anything.
    idle = {
        "--label": request.options.by,
        "--by": options.by,
        "--recommendations": options.models,
        "--truth": request.call.truth,
        "--control": options.experiment.get("control"),
        "--shares": options.experiment.get("shares"),
        "--within": options.experiment.get("within"),
        "--untreated-before": options.experiment.get("untreated_before"),
    }
    for option in filter(idle.get, idle):
        raise UsageError(
            f"{option} is for variants; --against compares two metrics of one log. Leave it out."
        )
    if {parse(text) for text in request.options.metrics} <= {control}:
        raise UsageError(
            f"--against {against}: name the metric to compare with it, for example "
            '-m "snips(target=uniform)".'
        )
    request = request.with_options(metrics=[*request.options.metrics, control.text])
    # Every user meets both policies.
    settings = {"control": control.text, "same_users": True, "shares": {}}
    deciding: dict[str, Any] = {"primary": [], "guardrails": {}, "since": None, "until": None}
    options = options._replace(experiment=deciding | dict(options.experiment) | settings)
    log, experiment, intervals = _count(request, options, around)
    counted, everyone = everyone_in(log.families)
    if not everyone.audience.lists:
        raise no_events(request.files)
    _check_users([everyone.audience], request)
    tables = {metric: family.table for family in log.families for metric in family.metrics}
    if control not in counted:
        texts = ", ".join(metric.text for metric in counted)
        raise UsageError(f"--against {against}: not counted here; there are {texts}.")
    if reason := ungrouped(control, tables[control]):
        raise UsageError(f"--against {against}: {reason}")
    metrics: list[Metric] = []
    left_out: dict[str, str] = {}
    for metric in selected_metrics(request, counted):
        if metric == control:
            continue
        if reason := ungrouped(metric, tables[metric]) or unlike_metrics(control, metric):
            left_out[metric.text] = reason
        else:
            metrics.append(metric)
    if not metrics:
        raise UsageError(f"nothing to compare with {control.text}: {' '.join(left_out.values())}")
    as_control: dict[str, Any] = {"sums": {}, "objections": {}, "values": {}}
    for name in as_control:
        if control.text in (by_metric := getattr(everyone, name)):
            others = (metric.text for metric in metrics)
            as_control[name] = dict.fromkeys(others, by_metric[control.text])
    variants = {control.text: everyone._replace(**as_control), POLICY: everyone}
    return ArmCounts(experiment, intervals, metrics, variants, left_out, log.is_doubtful)


def _left_out(families: Iterable[SliceTable]) -> dict[str, str]:
    return {
        metric.text: reason
        for family in families
        for metric in family.metrics
        if (reason := ungrouped(metric, family.table)) is not None
        and not has_user_means(metric, family.table)
    }


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
        caps: the numbers that percentiles of metrics stand for.
    """

    report: Report
    experiment: Experiment
    method: Method
    is_doubtful: bool = False
    against: str | None = None
    lists: int = 0
    caps: Sequence[PercentileCap] = ()


def compare_variants(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> CompareResult:
    """Count and compare the variants, models or policies; notes all warnings about the events.

    Raises:
        UsageError: the request contradicts itself, or names what is not there.
        NoEventsError: there is no valid event.
        ConfigError: a primary metric, guardrail or share does not fit.
        MetricError: a metric is unknown.
    """
    look = options.planned_look(request)
    caps: Sequence[PercentileCap] = ()
    if options.against is not None:
        counted, where = count_policies(request, options, around), "command line"
    else:
        refuse_idle(request.options, *(options.models.values() or [request.call]))
        requested = options.experiment
        caps, request, options, named = _find_caps(request, options, around)
        counted = (count_models if options.models else count_arms)(request, options, around)
        counted = counted.rename(named, requested) if caps else counted
        where = "the options"
    experiment, metrics, variants = counted.experiment, counted.metrics, counted.variants
    judged = [metric for metric in metrics if metric.text not in counted.left_out]
    experiment.check(judged, where)
    _check_variants(variants, request, experiment)
    segment = options.segment(experiment) or ""
    if set(counted.segments) == {MISSING_LABEL}:
        option = "within" if options.by is None else "by"
        raise InputError(
            "{problem} of {option}; name it with {field} or {column}.{hint}",
            hint=field_suggestion(request.call, segment),
            problem=f"no event in {', '.join(request.files)} has the field {segment!r}",
            option=Setting(option),
            field=Setting(option, "FIELD"),
            column=column(segment, "FIELD"),
        )
    missing = variants.get(MISSING_LABEL)
    # Lists from before the experiment need no variant.
    unnamed = missing.during(experiment).audience.lists if missing else 0
    if unnamed:
        around.note(f"{unnamed:,} lists have no {experiment.label} and are left out.")
    for text, reason in counted.left_out.items():
        around.note(f"{text} is not compared: {reason}")
    looks = options.looks if options.look is None else 1
    method = method_of(request, options.method, around, looks)
    # Policies have the same lists.
    arms = [variants[POLICY]] if options.against is not None else variants.values()
    lists = sum(variant.audience.lists for variant in arms)
    if experiment.within is not None:
        variants = with_strata(variants, counted.segments)
    intervals, before = counted.intervals, counted.before
    report = compare_with_control(
        experiment, metrics, variants, intervals, method, before=before, look=look
    )
    if options.by is not None:
        report = with_segments(report, experiment, metrics, counted.segments, method, before=before)
    if counted.segments:
        audiences: dict[Labels, Audience] = {
            (value, name): variant.audience
            for value, of_value in counted.segments.items()
            for name, variant in of_value.items()
        }
        report = check_segment(report, experiment, segment, audiences)
    if not report.rows:
        reasons = [note for note in report.checks.notes if "is not compared" in note]
        raise UsageError(
            f"nothing can be compared: {'; '.join(reasons)}."
            if reasons
            else "no metric that can be compared; `streameval metrics` lists them all."
        )
    against = None if options.against is None else parse(options.against)
    notes = (*(cap.text for cap in caps), *report.checks.notes)
    if has_estimates([*metrics, *([] if against is None else [against])]):
        notes = (ESTIMATE_WARNING.removesuffix("."), *notes)
    if notes != report.checks.notes:
        report = report._replace(checks=replace(report.checks, notes=notes))
    return CompareResult(
        report,
        experiment,
        method,
        counted.is_doubtful,
        None if against is None else against.text,
        lists,
        caps,
    )


def _check_variants(
    variants: Mapping[str, Variant], request: Request, experiment: Experiment
) -> None:
    label, names = experiment.label, [name for name in sorted(variants) if name != MISSING_LABEL]
    if not variants:
        raise no_events(request.files)
    if not names:
        raise InputError(
            "{problem}; name the field of the variant with {label=FIELD} or {column}.{hint}",
            hint=field_suggestion(request.call, label),
            problem=f"no event in {', '.join(request.files)} has the label {label!r}",
            column=column(label, "FIELD"),
        )
    if experiment.control not in variants:
        raise InputError(
            "{problem}. Name the control variant with {baseline}.{hint}",
            problem=f"no event has {label}={experiment.control}; found: {', '.join(names)}",
            hint=suggestion(experiment.control, names),
        )
    if len(names) < 2:
        raise UsageError(f"every event has {label}={names[0]}; there is nothing to compare.")
    _check_users([variant.audience for variant in variants.values()], request)


def _check_users(audiences: Sequence[Audience], request: Request) -> None:
    if all(audience.anonymous == audience.lists for audience in audiences):
        raise InputError(
            "no event in {files} names its user. Lists of one user are correlated, so a comparison "
            "needs users; name their field with {columns.user=FIELD}.",
            files=", ".join(request.files),
        )


def page_of_report(title: str, result: CompareResult, about: Mapping[str, str]) -> str:
    """One HTML file with verdicts, intervals and checks, which loads nothing from elsewhere.

    `about`: how it was made, name and text.
    """
    intervals = result.report.intervals
    level, precision = confidence_text(intervals.confidence), percent(intervals.precision)
    look = result.report.look
    method = result.method if look is None else f"look {look.look} of {look.looks} planned"
    details = {"intervals": f"{method}, {level}, precision {precision}"}
    if result.lists:
        details["events"] = f"{result.lists:,} lists"
    report = replace(snapshot_of((), ()), findings=(Finding(EXPERIMENTS, result.report),))
    return page_of(title, [SpanReadings(None, report)], {**details, **about})
