"""The users of an experiment, counted by variant in files or saved states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from streameval.accumulator import Accumulator
from streameval.accumulator.by_user import has_user_means, ungrouped
from streameval.analyses.experiments.adjustment import Before
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.experiments.reader import (
    before_in,
    everyone_in,
    segments_in,
    variants_in,
)
from streameval.analyses.experiments.settings import (
    Experiment,
    deciding_metrics,
    pre_period_of,
)
from streameval.analyses.experiments.statistics import Variant
from streameval.catalogue.metric import Metric
from streameval.config.config import with_analyses
from streameval.decoding.fields import EventFields
from streameval.engine.analysis import Configured
from streameval.engine.rankers import RANKER
from streameval.engine.windows.views import SliceTable
from streameval.evaluation.counted import count
from streameval.evaluation.options import InputError, Setting
from streameval.evaluation.request import Request
from streameval.evaluation.result import Surroundings
from streameval.evaluation.setup import Setup, setup_of
from streameval.evaluation.sources import Given, truth_of
from streameval.evaluation.stores import chosen_metrics, restore_states, without_sets
from streameval.events.errors import UsageError
from streameval.statistics.intervals import Intervals, Method


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
