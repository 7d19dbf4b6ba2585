"""The gaps that a configuration watches, from the windows of a snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from streameval.accumulator.by_user import has_user_sums
from streameval.accumulator.objections import user_sums
from streameval.accumulator.plan import tells_unshown
from streameval.accumulator.reading_intervals import IntervalMethod
from streameval.accumulator.table import Table
from streameval.analyses.gaps.report import Gap, GapSeries
from streameval.analyses.gaps.settings import GapOptions
from streameval.analyses.gaps.statistics import gap_of
from streameval.catalogue.metric import Metric
from streameval.engine.analysis import Moment, ReaderContext, WindowCounts
from streameval.engine.rankers import RANKER, shown_slices
from streameval.engine.snapshot import LIFETIME
from streameval.engine.windows.labels import Labels, segment_of
from streameval.engine.windows.views import SliceTable
from streameval.statistics.intervals import Intervals, Kind

GapsReport: TypeAlias = tuple[GapSeries, ...]
"""The gaps of all windows of a family, lifetime last."""


class GapReader:
    """Reads gaps; those of tables that have not changed are kept.

    `labels`: names of all labels.
    """

    def __init__(
        self, options: Sequence[GapOptions], intervals: Intervals, labels: Sequence[str]
    ) -> None:
        self._options, self._intervals, self._labels = options, intervals, labels
        self._known: dict[tuple[str, str, int], tuple[Table, GapsReport]] = {}

    def read(self, moment: Moment) -> GapsReport | None:
        """The gaps in every window; None without any."""
        return tuple(gap for counts in moment.windows for gap in self._in_window(counts)) or None

    def _in_window(self, counts: WindowCounts) -> Iterator[GapSeries]:
        dimensions = counts.view.spec.dimensions
        segment = segment_of(dimensions, self._labels)
        for index, options in enumerate(self._options):
            if options.by not in dimensions or segment not in (None, options.by):
                continue
            key = (counts.view.spec.name, counts.window, index)
            cached = self._known.get(key)
            if cached is None or cached[0] is not counts.table:
                cached = self._known[key] = counts.table, tuple(self._gaps(counts, options))
            yield from cached[1]

    def _gaps(self, counts: WindowCounts, options: GapOptions) -> Iterator[GapSeries]:
        view, window, table = counts
        kind: Kind = "anytime" if window == LIFETIME else "pointwise"
        method = IntervalMethod(self._intervals, kind)
        others = [name for name in view.spec.dimensions if name != options.by]
        cells = cells_by_value(view.by_slice(table), options.by)
        for metric in compared_metrics(view.spec.metrics, table, options.metrics):
            for labels, values in cells.items():
                sums = {
                    name: user_sums(metric, table, np.array(value), method)
                    for name, value in values.items()
                }
                yield GapSeries(
                    by=options.by,
                    labels=dict(zip(others, labels, strict=True)),
                    window=window,
                    at_most=options.at_most,
                    gap=gap_of(metric, sums, self._intervals, kind),
                )


def gap_reader(options: Sequence[GapOptions], context: ReaderContext) -> GapReader | None:
    """A reader of the configured gaps; None without intervals."""
    if context.intervals is None:
        return None
    return GapReader(options, context.intervals, context.labels)


def compared_metrics(
    metrics: Sequence[Metric], table: Table, chosen: Sequence[str]
) -> list[Metric]:
    """The metrics with sums by user; of these, the ones chosen, or all if none is."""
    kept = [x for x in metrics if has_user_sums(x, table) and not tells_unshown(x)]
    return [metric for metric in kept if not chosen or metric.text in chosen]


def cells_by_value(family: SliceTable, by: str) -> Mapping[Labels, Mapping[str, list[int]]]:
    """Values of the other labels -> value of a label or segment -> its slices."""
    index = family.names.index(by)
    by_labels: defaultdict[Labels, dict[str, list[int]]] = defaultdict(dict)
    for number, labels in family.labels.items():
        others = labels[:index] + labels[index + 1 :]
        by_labels[others].setdefault(labels[index], []).append(number)
    return by_labels


def gaps_in(
    families: Iterable[SliceTable],
    by: str,
    intervals: Intervals,
    kind: Kind,
    chosen: Sequence[str] = (),
) -> list[Gap]:
    """The gaps between the values of a label or segment, all other labels together.

    Args:
        families: the counts.
        by: a label or a segment.
        intervals: settings.
        kind: method of the bounds.
        chosen: texts of metrics; empty for all.
    """
    by_text: dict[str, Gap] = {}
    method = IntervalMethod(intervals, kind)
    for family in families:
        if by not in family.names or family.segment not in (None, by):
            continue
        together: defaultdict[str, list[int]] = defaultdict(list)
        for values in cells_by_value(family, by).values():
            for name, cells in values.items():
                together[name] += cells if by == RANKER else shown_slices(family, cells)
        for metric in compared_metrics(family.metrics, family.table, chosen):
            sums = {
                name: user_sums(metric, family.table, np.array(sorted(cells)), method)
                for name, cells in together.items()
            }
            by_text.setdefault(metric.text, gap_of(metric, sums, intervals, kind))
    return list(by_text.values())
