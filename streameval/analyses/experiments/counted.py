"""The users of an experiment, counted by variant in files or saved states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from streameval.accumulator import Accumulator
from streameval.accumulator.by_user import has_user_means, ungrouped
from streameval.accumulator.objections import objections_to
from streameval.accumulator.readings import activity
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.reader import everyone_in, segments_in, variants_in
from streameval.analyses.experiments.settings import Experiment, deciding_metrics
from streameval.analyses.experiments.statistics import Variant
from streameval.catalogue.metric import Metric
from streameval.config import Config
from streameval.config.config import relabel, with_analyses
from streameval.engine.analysis import Configured
from streameval.engine.capture import ingest_snapshot, lifetimes_of
from streameval.engine.rankers import RANKER
from streameval.engine.windows.times import DAY
from streameval.evaluation.configured import config_of, count_events, early_warning
from streameval.evaluation.options import InputError, Setting
from streameval.evaluation.request import Request, refuse_of_events
from streameval.evaluation.result import Surroundings
from streameval.evaluation.sources import Given, truth_of
from streameval.evaluation.stores import chosen_metrics, restore_states, without_sets
from streameval.events.errors import UsageError
from streameval.statistics.intervals import Audience, Intervals, Method

Found: TypeAlias = tuple[Sequence[Metric], Mapping[str, Variant]]
"""Metrics in order, and label value -> variant."""


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


class Counted(NamedTuple):
    """The counts of an experiment.

    Attributes:
        left_out: metric -> reason why it is not compared.
        segments: value of the field `by` or `within` -> variants.
        invalid: whether most records with interactions are invalid.
    """

    metrics: Sequence[Metric]
    variants: Mapping[str, Variant]
    left_out: Mapping[str, str]
    invalid: bool = False
    segments: Mapping[str, Mapping[str, Variant]] = MappingProxyType({})


def count_files(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Experiment, Intervals, Counted]:
    """The counts of files."""
    config, experiment = experiment_settings(request, options, around)
    segment = options.segment(experiment)
    labels = [experiment.label] if segment is None else [experiment.label, segment]
    counted = _count_arms(request, config, labels, around)
    days = [day * DAY for day in _newest_days(counted.variants)]
    if (warning := early_warning(config, days)) is not None:
        around.note(warning)
    return experiment, config.intervals or Intervals(), counted


def experiment_settings(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Config, Experiment]:
    """The configuration to count with, and the experiment."""
    request = without_sets(request, around)
    config = _config_of(request)
    label = request.options.by[0] if request.options.by else Experiment().label
    experiment_options = EXPERIMENTS.settings_in(config) or Experiment(label=label)
    if request.options.by:
        experiment_options = msgspec.structs.replace(experiment_options, label=label)
    experiment = of_rankers(
        config, msgspec.structs.replace(experiment_options, **options.experiment)
    )
    request = request._replace(added=deciding_metrics(experiment))
    segment = options.segment(experiment)
    labels = [experiment.label] if segment is None else [experiment.label, segment]
    # A table need not have the columns of all labels.
    if request.given.is_columns or not {*labels} <= {*config.series_labels()}:
        request = request.with_options(by=labels)
    config = _config_of(request)
    intervals = msgspec.structs.replace(config.intervals or Intervals(), **options.intervals)
    is_dated = isinstance(experiment.shares, list)
    if config.event.time is None and (is_dated or experiment.since is not None):
        what = [Setting("shares"), " with dates"] if is_dated else [Setting("since")]
        time = Setting("columns", "FIELD", "time")
        raise InputError(*what, " needs event time: name its field with ", time, ".")
    counting = Experiment(label=experiment_options.label)
    config = msgspec.structs.replace(config, intervals=intervals)
    return with_analyses(config, [Configured(EXPERIMENTS, counting)]), experiment


def of_rankers(config: Config, experiment: Experiment) -> Experiment:
    """The experiment; every user meets all rankers, if these are its variants."""
    ranked = bool(config.event.rankers) and experiment.label == RANKER
    return msgspec.structs.replace(experiment, same_users=True) if ranked else experiment


def _count_arms(
    request: Request, config: Config, labels: Sequence[str], around: Surroundings
) -> Counted:
    """`labels`: of the variants, and of the segments if there are any."""
    ingest = count_events(request.given, request.options, config, around).ingest
    if trouble := ingest_snapshot(ingest, labels=config.series_labels(), now=0.0).health.trouble:
        around.note(trouble)
    label, *others = labels
    families = lifetimes_of(ingest, config.series_labels())
    counted = _without_intervals(config, variants_in(families, label))
    segments = {
        name: arms for by in others for name, arms in segments_in(families, label, by).items()
    }
    return counted._replace(invalid=ingest.tally.warning() is not None, segments=segments)


def count_models(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Experiment, Intervals, Counted]:
    """The counts of files of recommendations with one truth; the users are the same."""
    _check_models(request, options)
    models = _with_truth_read(request, options)
    whole = {**options.experiment, "same_users": True, "since": None, "shares": {}}
    paired = options._replace(experiment=whole)
    config, experiment = experiment_settings(request, paired, around)
    if "control" not in options.experiment and experiment.control not in options.models:
        experiment = msgspec.structs.replace(experiment, control=next(iter(options.models)))
    counted = {
        name: _count_model(request._replace(given=model), config, around.about(name))
        for name, model in models.items()
    }
    variants = {name: variant for name, (_, variant) in counted.items()}
    metrics, _ = next(iter(counted.values()))
    return (
        experiment,
        config.intervals or Intervals(),
        _without_intervals(config, (metrics, variants)),
    )


def _config_of(request: Request) -> Config:
    return config_of(request.given, request.options, added=request.added, analysis=EXPERIMENTS)


def _with_truth_read(request: Request, options: ExperimentOptions) -> Mapping[str, Given]:
    """The models, with the rows of the truth that they share read once."""
    first = next(iter(options.models.values()))
    if first.kind != "pair":
        return options.models
    truth = truth_of(first.truth, request.options)
    return {name: model._replace(truth=truth) for name, model in options.models.items()}


def _count_model(
    request: Request, config: Config, around: Surroundings
) -> tuple[Sequence[Metric], Variant]:
    """The metrics, and the lists of one file of recommendations."""
    config = relabel(msgspec.structs.replace(config, segments=[]), labels=[])
    ingest = count_events(request.given, request.options, config, around).ingest
    if trouble := ingest_snapshot(ingest, labels=[], now=0.0).health.trouble:
        around.note(trouble)
    return everyone_in(lifetimes_of(ingest, []))


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
        raise refuse_of_events(name)


def _newest_days(variants: Mapping[str, Variant]) -> Iterator[int]:
    """The newest event day of each sum."""
    for variant in variants.values():
        for sums in variant.sums.values():
            if sums.days.size:
                yield int(sums.days.max())


def _without_intervals(config: Config, counted: Found) -> Counted:
    """The counts, with a reason for each metric that has no interval."""
    empty, (metrics, variants) = config.accumulator(), counted
    left_out = {
        metric.text: ungrouped(metric, empty.table) or ""
        for metric in metrics
        if empty.groups(metric.text) is None and not has_user_means(metric, empty.table)
    }
    return Counted(metrics, variants, left_out)


def count_states(
    request: Request, options: ExperimentOptions, around: Surroundings
) -> tuple[Experiment, Intervals, Counted]:
    """The lifetime counts of saved states, all partitions together."""
    config, ingest = restore_states(request, around)
    known = EXPERIMENTS.settings_in(config) or Experiment()
    if request.options.by:
        known = msgspec.structs.replace(known, label=request.options.by[0])
    if known.label not in config.series_labels():
        label_names = ", ".join(config.series_labels()) or "none"
        raise UsageError(
            f"--label {known.label}: no such label in the state; its labels: {label_names}."
        )
    families = lifetimes_of(ingest, config.series_labels())
    metrics, variants = variants_in(families, known.label)
    experiment = of_rankers(config, msgspec.structs.replace(known, **options.experiment))
    request = request._replace(added=deciding_metrics(experiment))
    chosen = chosen_metrics(request, metrics)
    by = options.segment(experiment)
    if by is not None and by not in (*config.series_labels(), *config.segments):
        known_names = ", ".join((*config.series_labels(), *config.segments))
        option = Setting("within" if options.by is None else "by", by)
        raise InputError(option, f": neither a label nor a segment of the state: {known_names}.")
    intervals = msgspec.structs.replace(config.intervals or Intervals(), **options.intervals)
    counted = _without_intervals(config, (chosen, variants))
    if by is not None:
        counted = counted._replace(segments=segments_in(families, known.label, by))
    return experiment, intervals, counted


def variant_of(counted: Accumulator) -> Variant:
    """The lists of an accumulator as a variant."""
    sums = {metric.text: counted.groups(metric.text) for metric in counted.metrics}
    audience = cast("Audience", counted.audience)
    kept = {name: sum_ for name, sum_ in sums.items() if sum_ is not None}
    objections = objections_to(counted.metrics, counted.table, [0])
    readings = map(counted.read, kept)
    values = {reading.metric: reading.value for reading in readings if reading.defined}
    return Variant(kept, audience, activity(counted.table, [0]), objections, values)
