"""The variants of an experiment, from the lifetimes of the families that have its label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import is_
from typing import TypeVar

import numpy as np

from streameval.accumulator.by_user import has_user_means, ungrouped, user_means_by_group
from streameval.accumulator.objections import Objection, objections_to
from streameval.accumulator.readings import (
    activity,
    joined,
    readings_of,
    summed_together,
)
from streameval.accumulator.table import Table
from streameval.accumulator.unshown import tells_unshown
from streameval.analyses.experiments.report import Report
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import (
    Variant,
    check_segment,
    compare_with_control,
)
from streameval.catalogue.metric import Metric
from streameval.engine.analysis import Moment, ReaderContext
from streameval.engine.ingest import Ingest
from streameval.engine.rankers import RANKER, shown_slices
from streameval.engine.windows.labels import segment_of
from streameval.engine.windows.views import FamilyView
from streameval.statistics.intervals import NOBODY, Audience, Intervals


def variants_in(
    ingest: Ingest, label: str, labels: Sequence[str]
) -> tuple[list[Metric], dict[str, Variant]]:
    """The metrics of families with a label, and its variants over the lifetime.

    `labels`: names of all labels; families of segments are left out.
    """
    layout, counts = ingest.layout, ingest.copied()
    views = [FamilyView(spec, layout.windowing.pane) for spec in layout.families]
    views = [view for view in views if has_label(view, label, labels)]
    for view in views:
        view.refresh(counts.families[view.spec.name])
    return all_variants(views, [view.lifetime() for view in views], label)


class ExperimentReader:
    """Reads an experiment from the lifetime of every family that has its label.

    `views`: of the families with its label and no segment. `divided`: of those with its label and
    a segment, which its users must be split by alike.
    """

    def __init__(
        self,
        experiment: Experiment,
        intervals: Intervals,
        views: Sequence[FamilyView],
        divided: Mapping[str, FamilyView],
    ) -> None:
        self._experiment = experiment
        self._intervals = intervals
        self._views, self._divided = views, divided
        self._tables: list[Table] = []
        self._report: Report | None = None

    def read(self, moment: Moment) -> Report | None:
        """The current report; None if no family has the experiment's label.

        It gives no verdict while other processes count some partitions, as users are missing.
        """
        tables = [view.lifetime() for view in self._views]
        if len(tables) != len(self._tables) or not all(map(is_, tables, self._tables)):
            self._tables, self._report = tables, self._compared(tables) if tables else None
        if self._report is None or not moment.unread:
            return self._report
        return self._report.untrusted(
            f"other processes count {moment.unread:,} of the partitions, so this one sees only "
            "some of the users; streameval compare reads the state that they share"
        )

    def _compared(self, tables: Sequence[Table]) -> Report:
        metrics, variants = all_variants(self._views, tables, self._experiment.label)
        report = compare_with_control(self._experiment, metrics, variants, self._intervals)
        for segment, view in self._divided.items():
            audiences = segment_audiences(view, self._experiment.label, segment)
            report = check_segment(report, self._experiment, segment, audiences)
        return report


def experiment_reader(experiment: Experiment, context: ReaderContext) -> ExperimentReader | None:
    """A reader of the configured experiment; None without intervals."""
    if context.intervals is None:
        return None
    views = [view for view in context.views if has_label(view, experiment.label, context.labels)]
    divided = {
        segment: view
        for view in context.views
        if experiment.label in view.spec.dimensions
        and (segment := segment_of(view.spec.dimensions, context.labels)) is not None
    }
    return ExperimentReader(experiment, context.intervals, views, divided)


def has_label(view: FamilyView, label: str, labels: Sequence[str]) -> bool:
    """Whether a family is split by a label, and by no segment."""
    dimensions = view.spec.dimensions
    return label in dimensions and segment_of(dimensions, labels) is None


def all_variants(
    views: Sequence[FamilyView], tables: Sequence[Table], label: str
) -> tuple[list[Metric], dict[str, Variant]]:
    """The metrics of several families, and the variants with the sums of all of them."""
    variants: dict[str, Variant] = {}
    metrics: list[Metric] = []
    for view, table in zip(views, tables, strict=True):
        metrics += view.spec.metrics
        for name, of_slice in variants_of(view, table, label).items():
            earlier = variants.get(name)
            variants[name] = of_slice if earlier is None else earlier.joined(of_slice)
    return metrics, variants


def everyone_in(ingest: Ingest, labels: Sequence[str]) -> tuple[list[Metric], Variant]:
    """The metrics of all families without a segment, and all users over the lifetime."""
    layout, counts = ingest.layout, ingest.copied()
    metrics: list[Metric] = []
    everyone = Variant({}, NOBODY)
    for spec in layout.families:
        if segment_of(spec.dimensions, labels) is not None:
            continue
        view = FamilyView(spec, layout.windowing.pane)
        view.refresh(counts.families[spec.name])
        metrics += [metric for metric in spec.metrics if not tells_unshown(metric)]
        for variant in variants_of(view, view.lifetime(), None).values():
            everyone = variant.joined(everyone)
    return metrics, everyone


def segments_in(
    ingest: Ingest, label: str, by: str, labels: Sequence[str]
) -> dict[str, dict[str, Variant]]:
    """Value of `by` -> the variants of a label over the lifetime.

    `by`: a label or a segment. `labels`: names of all labels.
    """
    layout, counts = ingest.layout, ingest.copied()
    by_value: defaultdict[str, dict[str, Variant]] = defaultdict(dict)
    segment = None if by in labels else by
    for spec in layout.families:
        if not {label, by} <= {*spec.dimensions} or segment_of(spec.dimensions, labels) != segment:
            continue
        view = FamilyView(spec, layout.windowing.pane)
        view.refresh(counts.families[spec.name])
        table, place = view.lifetime(), spec.dimensions.index(by)
        slices: defaultdict[str, list[int]] = defaultdict(list)
        for number in view.slices(table).tolist():
            slices[view.labels(number)[place]].append(number)
        for value, numbers in slices.items():
            for name, variant in variants_of(view, table, label, numbers, by).items():
                earlier = by_value[value].get(name)
                by_value[value][name] = variant if earlier is None else earlier.joined(variant)
    return dict(by_value)


def segment_audiences(view: FamilyView, label: str, segment: str) -> dict[str, dict[str, Audience]]:
    """Value of a segment -> value of a label -> its users."""
    table = view.lifetime()
    places = [view.spec.dimensions.index(name) for name in (segment, label)]
    cells: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number in shown_slices(view, view.slices(table).tolist()):
        value, name = (view.labels(number)[place] for place in places)
        cells[value, name].append(number)
    found: defaultdict[str, dict[str, Audience]] = defaultdict(dict)
    for (value, name), audience in _audiences(table, cells).items():
        found[value][name] = audience
    return dict(found)


_Key = TypeVar("_Key")


def _audiences(table: Table, cells: Mapping[_Key, Sequence[int]]) -> dict[_Key, Audience]:
    """The users of several cells together; empty if users are not kept."""
    groups = table.groups
    if groups is None or table.audience is None:
        return {}
    users = table.audience.copy()
    users.rename({cell: together[0] for together in cells.values() for cell in together})
    audiences = {}
    for key, together in cells.items():
        (sample,) = users.view(np.array(together[:1]))
        audiences[key] = Audience(*sample, *groups.lists_by_day(np.array(together)))
    return audiences


def variants_of(
    view: FamilyView,
    table: Table,
    label: str | None,
    slices: Sequence[int] | None = None,
    by: str | None = None,
) -> dict[str, Variant]:
    """The variants of a table: slices by the values of one label, summed over other labels.

    Lists that were not shown count by the label `RANKER` only.

    `label`: None for all slices together. `slices`: the only ones that count, of one value of the
    label or segment `by`; None for all.
    """
    ranked = RANKER in (label, by)
    groups = table.groups
    if groups is None or table.audience is None:
        return {}
    place = 0 if label is None else view.spec.dimensions.index(label)
    cells: defaultdict[str, list[int]] = defaultdict(list)
    chosen: Sequence[int] = view.slices(table).tolist() if slices is None else slices
    for number in chosen if ranked else shown_slices(view, chosen):
        name = "" if label is None else view.labels(number)[place]
        cells[name].append(number)
    metrics = [
        metric
        for metric in view.spec.metrics
        if ungrouped(metric, table) is None and (label == RANKER or not tells_unshown(metric))
    ]
    means = [metric for metric in view.spec.metrics if has_user_means(metric, table)]
    audiences_by_name = _audiences(table, cells)
    variants: dict[str, Variant] = {}
    for name, of_variant in sorted(cells.items()):
        sums = {metric.text: summed_together(metric, groups, of_variant) for metric in metrics}
        by_user = {
            metric.text: user_means_by_group(metric, table, np.array(of_variant))
            for metric in means
        }
        problems = {
            text: Objection(each.problem)
            for text, each in by_user.items()
            if each.problem is not None
        }
        variants[name] = Variant(
            sums,
            audiences_by_name[name],
            activity(table, of_variant),
            objections={**problems, **objections_to([*metrics, *means], table, of_variant)},
            values=_exact(metrics, table, of_variant),
            means={text: each.sums for text, each in by_user.items()},
        )
    return variants


def _exact(metrics: Sequence[Metric], table: Table, cells: Sequence[int]) -> dict[str, float]:
    """The value of each metric over these cells, as it is read elsewhere."""
    table = joined(table, cells)
    readings = (readings_of(metric, table, np.array(cells[:1]))[0] for metric in metrics)
    return {reading.metric: reading.value for reading in readings if reading.defined}
