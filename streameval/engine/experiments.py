"""Compares the variants of an experiment for each snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from streameval.accumulator.experiment import Experiment, Report, Variant, compared
from streameval.accumulator.readings import ungrouped
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.statistics.intervals import Audience, Intervals
from streameval.windows.views import Views


class ExperimentReader:
    """Reads an experiment from the lifetime of every family that has its label.

    `views`: of the families; those of segments are left out.
    """

    def __init__(
        self, experiment: Experiment, intervals: Intervals, views: Sequence[Views]
    ) -> None:
        self._experiment = experiment
        self._intervals = intervals
        self._views = [each for each in views if experiment.label in each.spec.dimensions]
        self._tables: list[Table] = []
        self._report: Report | None = None

    def report(self, unread: int) -> Report | None:
        """The experiment as it stands; None where no family has its label.

        `unread`: partitions that another process counts: what is seen here is a part of the users,
        and no verdict is given.
        """
        tables = [view.lifetime() for view in self._views]
        if not self._same(tables):
            self._tables, self._report = tables, self._compared(tables) if tables else None
        if self._report is None or not unread:
            return self._report
        return self._report.untrusted(
            f"other processes count {unread:,} of the partitions, so this one sees a part of the "
            "users; streameval compare reads the state that they share"
        )

    def _same(self, tables: Sequence[Table]) -> bool:
        pairs = zip(tables, self._tables, strict=False)
        return len(tables) == len(self._tables) and all(one is other for one, other in pairs)

    def _compared(self, tables: Sequence[Table]) -> Report:
        metrics, variants = all_variants(self._views, tables, self._experiment.label)
        return compared(self._experiment, metrics, variants, self._intervals)


def all_variants(
    views: Sequence[Views], tables: Sequence[Table], label: str
) -> tuple[list[Metric], dict[str, Variant]]:
    """The metrics of several families, and the variants with all of these."""
    variants: dict[str, Variant] = {}
    metrics: list[Metric] = []
    for view, table in zip(views, tables, strict=True):
        metrics += view.spec.metrics
        for name, found in variants_of(view, table, label).items():
            known = variants.get(name)
            variants[name] = found if known is None else known.beside(found)
    return metrics, variants


def variants_of(view: Views, table: Table, label: str) -> dict[str, Variant]:
    """The slices of a table by the values of one label; other labels are summed over."""
    groups = table.groups
    if groups is None or table.audience is None:
        return {}
    place = view.spec.dimensions.index(label)
    cells: defaultdict[str, list[int]] = defaultdict(list)
    for number in view.slices(table).tolist():
        cells[view.labels(number)[place]].append(number)
    metrics = [metric for metric in view.spec.metrics if ungrouped(metric, table) is None]
    users = table.audience.copy()
    users.rename({cell: own[0] for own in cells.values() for cell in own})
    found: dict[str, Variant] = {}
    for name, own in sorted(cells.items()):
        sums = {metric.text: groups.summed(metric.per_list, own) for metric in metrics}
        lists, anonymous = (int(each.sum()) for each in groups.lists(np.array(own)))
        (sample,) = users.view(np.array(own[:1]))
        found[name] = Variant(sums, Audience(*sample, lists, anonymous))
    return found
