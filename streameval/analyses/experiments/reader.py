"""The variants of an experiment, from the lifetimes of the families that have its label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_

import numpy as np

from streameval.accumulator.kinds.events import is_overlap
from streameval.accumulator.kinds.experiment import (
    activity,
    activity_metrics,
    before_experiment,
    in_experiment,
)
from streameval.accumulator.kinds.groups import groups_of, summed_together, ungrouped
from streameval.accumulator.kinds.user_sums import has_user_means
from streameval.accumulator.kinds.users import distinct_users
from streameval.accumulator.objections import Objection, objections_to, user_means_by_group
from streameval.accumulator.readings import merge_cells, readings_of
from streameval.accumulator.table import Table
from streameval.analyses.experiments.adjustment import Before
from streameval.analyses.experiments.ramp import Cohorts
from streameval.analyses.experiments.settings import Experiment
from streameval.analyses.experiments.statistics import (
    Variant,
    check_segment,
    compare_with_control,
)
from streameval.analyses.experiments.verdicts import Report
from streameval.analyses.experiments.words import in_words
from streameval.catalogue.metric import Metric
from streameval.engine.analysis import Moment, ReaderContext
from streameval.engine.rankers import RANKER, slices_by
from streameval.engine.windows.labels import Labels, segment_of
from streameval.engine.windows.views import FamilyView, SliceTable
from streameval.statistics.intervals import NOBODY, Audience, Intervals


def variants_in(
    families: Iterable[SliceTable], label: str
) -> tuple[list[Metric], dict[str, Variant]]:
    """The metrics of the families with a label and no segment, and the variants of all of them."""
    named = [part for part in families if label in part.names and part.segment is None]
    metrics = [metric for family in named for metric in family.metrics]
    return metrics, _join(named, label).get("", {})


def segments_in(
    families: Iterable[SliceTable], label: str, by: str
) -> dict[str, dict[str, Variant]]:
    """Value of `by`, a label or a segment -> the variants of a label."""
    named = [part for part in families if {label, by} <= {*part.names}]
    return _join([part for part in named if part.segment in (None, by)], label, by)


def everyone_in(families: Iterable[SliceTable]) -> tuple[list[Metric], Variant]:
    """The metrics of all families without a segment, and all users."""
    unsegmented = [family for family in families if family.segment is None]
    metrics = [metric for family in unsegmented for metric in family.metrics]
    everyone = _join(unsegmented[::-1], None).get("", {}).get("", Variant({}, NOBODY))
    return [metric for metric in metrics if not is_overlap(metric)], everyone


def _join(
    families: Iterable[SliceTable], label: str | None, by: str | None = None
) -> dict[str, dict[str, Variant]]:
    """Value of `by` -> value of a label -> its data in all of these families; "" without one."""
    variants: defaultdict[str, dict[str, Variant]] = defaultdict(dict)
    for family in families:
        for (value, name), variant in _variants_of(family, label, by):
            earlier = variants[value].get(name)
            variants[value][name] = variant if earlier is None else earlier.join(variant)
    return dict(variants)


def _variants_of(
    family: SliceTable, label: str | None, by: str | None
) -> Iterator[tuple[Labels, Variant]]:
    table = family.table
    groups = groups_of(table)
    if groups is None or distinct_users(table) is None:
        return
    metrics = [
        metric
        for metric in family.metrics
        if ungrouped(metric, table) is None and (label == RANKER or not is_overlap(metric))
    ]
    means = [metric for metric in family.metrics if has_user_means(metric, table)]
    audiences = _audiences(family, by, label)
    for key, cells in sorted(slices_by(family, by, label).items()):
        by_user = {
            metric.text: user_means_by_group(metric, table, np.array(cells)) for metric in means
        }
        problems = {
            text: Objection(sums.problem)
            for text, sums in by_user.items()
            if sums.problem is not None
        }
        # Exact, as values are read elsewhere; sums by group are rounded.
        total, cell = merge_cells(table, cells), np.array(cells[:1])
        readings = [readings_of(metric, total, cell)[0] for metric in metrics]
        yield (
            key,
            Variant(
                {metric.text: summed_together(metric, groups, cells) for metric in metrics},
                audiences[key],
                activity(table, cells),
                objections={**problems, **objections_to([*metrics, *means], table, cells)},
                values={reading.metric: reading.value for reading in readings if reading.defined},
                means={text: sums.sums for text, sums in by_user.items()},
                cohorts=_cohorts(family, cells),
                time_zone=table.context.time_zone,
            ),
        )


def _cohorts(family: SliceTable, cells: Sequence[int]) -> Cohorts | None:
    """Sums of the users of these cells since a ramp began; None if they are not stored."""
    cohorts = in_experiment(family.table)
    if cohorts is None:
        return None
    days, sums = cohorts
    totals = {
        metric.text: sums.totals(metric.per_list, cells)
        for metric in family.metrics
        if metric.per_list in sums.options.metrics
    }
    lists, _ = sums.lists(np.array(cells))
    return Cohorts(days, *sums.first_days(cells), lists=int(lists.sum()), totals=totals)


def _audiences(family: SliceTable, *names: str | None) -> dict[Labels, Audience]:
    """Values of labels -> the users of their slices together; empty if users are not stored."""
    groups, sample = groups_of(family.table), distinct_users(family.table)
    if groups is None or sample is None:
        return {}
    users, audiences = sample.copy(), {}
    slices = slices_by(family, *names)
    users.rename({cell: cells[0] for cells in slices.values() for cell in cells})
    for key, cells in slices.items():
        (counted,) = users.view(np.array(cells[:1]))
        audiences[key] = Audience(*counted, *groups.lists_by_day(np.array(cells)))
    return audiences


def before_in(families: Iterable[SliceTable], label: str) -> Before | None:
    """Sums of users in the days before the experiment; None if they are not stored.

    Families keep the same days of the same users, and each the metrics that decide among its own.
    """
    before: Before | None = None
    for family in families:
        pre_period = before_experiment(family.table)
        if pre_period is None or label not in family.names:
            continue
        period, sums = pre_period[0], pre_period[1].copy()
        sums.rename({})
        cells = sums.cells
        lists, anonymous = (int(count.sum()) for count in sums.lists(cells))
        totals = {
            metric.text: sums.totals(metric.per_list, cells.tolist())
            for metric in (*activity_metrics(), *family.metrics)
            if metric.per_list in sums.options.metrics
        }
        if before is not None:
            totals |= before.totals
        before = Before(period, totals, anonymous / max(lists, 1))
    return before


class ExperimentReader:
    """Reads an experiment from the lifetime of every family that has its label.

    `views`: of the families with its label and no segment. `divided`: of those with its label and
    a segment, which its users must be split by alike, and the segment of each.
    """

    def __init__(
        self,
        experiment: Experiment,
        intervals: Intervals,
        views: Sequence[FamilyView],
        divided: Sequence[tuple[str, FamilyView]],
    ) -> None:
        self._experiment = experiment
        self._intervals = intervals
        self._views, self._divided = views, divided
        self._tables: list[Table] = []
        self._report: Report | None = None

    def read(self, moment: Moment) -> Report | None:
        """The current report; None if no family has the experiment's label.

        It gives no verdict while partitions are missing, as users are.
        """
        tables = [view.lifetime() for view in self._views]
        if len(tables) != len(self._tables) or not all(map(is_, tables, self._tables)):
            self._tables, self._report = tables, self._compare(tables) if tables else None
        if self._report is None or not moment.unread.number:
            return self._report
        return in_words(self._report.distrust(moment.unread.reason("compare")))

    def _compare(self, tables: Sequence[Table]) -> Report:
        label = self._experiment.label
        families = [
            view.by_slice(of_view) for view, of_view in zip(self._views, tables, strict=True)
        ]
        metrics, variants = variants_in(families, label)
        if (within := self._experiment.within) is not None:
            families += [
                view.by_slice(view.lifetime(), segment)
                for segment, view in self._divided
                if segment == within
            ]
            variants = with_strata(variants, segments_in(families, label, within))
        report = compare_with_control(
            self._experiment,
            metrics,
            variants,
            self._intervals,
            before=before_in(families, label),
        )
        for segment, view in dict(self._divided).items():
            audiences = _audiences(view.by_slice(view.lifetime()), segment, label)
            report = check_segment(report, self._experiment, segment, audiences)
        return report


def experiment_reader(experiment: Experiment, context: ReaderContext) -> ExperimentReader | None:
    """A reader of the configured experiment; None without intervals."""
    if context.intervals is None:
        return None
    named = [
        (segment_of(view.spec.dimensions, context.labels), view)
        for view in context.views
        if experiment.label in view.spec.dimensions
    ]
    views = [view for segment, view in named if segment is None]
    divided = [(segment, view) for segment, view in named if segment is not None]
    return ExperimentReader(experiment, context.intervals, views, divided)


def with_strata(
    variants: Mapping[str, Variant], segments: Mapping[str, Mapping[str, Variant]]
) -> dict[str, Variant]:
    """The variants with their data in each value of a segment."""
    return {
        name: variant._replace(
            strata={value: arms[name] for value, arms in segments.items() if name in arms}
        )
        for name, variant in variants.items()
    }
