"""The gaps that a configuration watches, from the windows of a snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from streameval.accumulator.by_user import has_user_sums
from streameval.accumulator.objections import user_sums
from streameval.accumulator.table import Table
from streameval.accumulator.unshown import tells_unshown
from streameval.analyses.gaps.report import Gap, GapSeries
from streameval.analyses.gaps.settings import GapOptions
from streameval.analyses.gaps.statistics import gap_of
from streameval.catalogue.metric import Metric
from streameval.engine.analysis import Moment, ReaderContext, WindowCounts
from streameval.engine.ingest import Ingest
from streameval.engine.rankers import RANKER, shown_slices
from streameval.engine.snapshot import LIFETIME
from streameval.engine.windows.labels import Labels, segment_of
from streameval.engine.windows.views import FamilyView
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
        for index, options in enumerate(self._options):
            if not splits(counts.view, options.by, self._labels):
                continue
            key = (counts.view.spec.name, counts.window, index)
            cached = self._known.get(key)
            if cached is None or cached[0] is not counts.table:
                cached = self._known[key] = counts.table, tuple(self._gaps(counts, options))
            yield from cached[1]

    def _gaps(self, counts: WindowCounts, options: GapOptions) -> Iterator[GapSeries]:
        view, window, table = counts
        kind: Kind = "anytime" if window == LIFETIME else "pointwise"
        others = [name for name in view.spec.dimensions if name != options.by]
        cells = cells_by_value(view, table, options.by)
        for metric in compared_metrics(view.spec.metrics, table, options.metrics):
            for labels, values in cells.items():
                sums = {
                    name: user_sums(metric, table, np.array(value))
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


def splits(view: FamilyView, by: str, labels: Sequence[str]) -> bool:
    """Whether a family is split by a label or segment, and by no other segment."""
    segment = None if by in labels else by
    dimensions = view.spec.dimensions
    return by in dimensions and segment_of(dimensions, labels) == segment


def cells_by_value(
    view: FamilyView, table: Table, by: str
) -> Mapping[Labels, Mapping[str, list[int]]]:
    """Values of the other labels -> value of a label or segment -> its slices."""
    index = view.spec.dimensions.index(by)
    by_labels: defaultdict[Labels, dict[str, list[int]]] = defaultdict(dict)
    for number in view.slices(table).tolist():
        labels = view.labels(number)
        others = labels[:index] + labels[index + 1 :]
        by_labels[others].setdefault(labels[index], []).append(number)
    return by_labels


def gaps_in(
    ingest: Ingest,
    by: str,
    labels: Sequence[str],
    intervals: Intervals,
    kind: Kind,
    chosen: Sequence[str] = (),
) -> list[Gap]:
    """The gaps over the lifetime, all other labels together.

    Args:
        ingest: the counts.
        by: a label or a segment.
        labels: names of all labels.
        intervals: settings.
        kind: method of the bounds.
        chosen: texts of metrics; empty for all.
    """
    layout, counts = ingest.layout, ingest.copied()
    by_text: dict[str, Gap] = {}
    for spec in layout.families:
        view = FamilyView(spec, layout.windowing.pane)
        if not splits(view, by, labels):
            continue
        view.refresh(counts.families[spec.name])
        table = view.lifetime()
        together: defaultdict[str, list[int]] = defaultdict(list)
        for values in cells_by_value(view, table, by).values():
            for name, cells in values.items():
                together[name] += cells if by == RANKER else shown_slices(view, cells)
        for metric in compared_metrics(spec.metrics, table, chosen):
            sums = {
                name: user_sums(metric, table, np.array(sorted(cells)))
                for name, cells in together.items()
            }
            by_text.setdefault(metric.text, gap_of(metric, sums, intervals, kind))
    return list(by_text.values())
