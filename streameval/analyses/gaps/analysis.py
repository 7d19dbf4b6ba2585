"""Gaps that a configuration watches: who is served worse?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from streameval.accumulator.kinds.events import is_overlap
from streameval.accumulator.kinds.user_sums import has_user_sums
from streameval.accumulator.objections import user_sums
from streameval.accumulator.reading_intervals import IntervalMethod
from streameval.accumulator.table import Table
from streameval.analyses.gaps.monitoring import monitoring
from streameval.analyses.gaps.statistics import Gap, gap_of
from streameval.analyses.gaps.words import gap_table, gap_text
from streameval.engine.analysis import (
    Analysis,
    CountedSetup,
    Gauge,
    KeyProblem,
    Moment,
    ReaderContext,
    WindowCounts,
)
from streameval.engine.rankers import slices_by
from streameval.engine.snapshot import LIFETIME
from streameval.engine.windows.labels import Labels, segment_of
from streameval.engine.windows.views import SliceTable
from streameval.events.spelling import unknown_name_problem
from streameval.exporters.names import slice_labels
from streameval.exporters.page.templates import render
from streameval.statistics.intervals import IntervalKind, Intervals


class GapOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A gap to watch.

    Attributes:
        by: label or segment whose values are compared.
        metrics: metrics compared; empty: all means that are kept by it.
        at_most: largest accepted difference; `StreamevalGap` fires when it is certainly larger.

    Example:
        >>> GapOptions(by="country", metrics=["ndcg@10"], at_most=0.05).by
        'country'
    """

    by: str
    metrics: list[str] = []
    at_most: float | None = None


def gap_problems(gaps: Sequence[GapOptions], stored: CountedSetup) -> Iterator[KeyProblem]:
    """A gap without intervals, by an unknown label, without a mean to compare, or twice."""
    if stored.intervals is None:
        yield "gap", "a gap needs intervals; add intervals = { confidence = 0.95 }."
    watched: dict[tuple[str, str], str] = {}
    for number, options in enumerate(gaps):
        where = f"gap[{number}]"
        names = [*stored.labels, *stored.segments]
        if problem := unknown_name_problem(options.by, names, "`labels` and `segments`"):
            yield f"{where}.by", f"{options.by!r} is {problem}"
            continue
        if options.at_most is not None and not 0 < options.at_most < math.inf:
            problem = (
                f"found {options.at_most!r}; give a difference above 0, in the unit of the metric."
            )
            yield f"{where}.at_most", problem
        means = [metric.text for metric in stored.by(options.by) if metric.has_interval]
        if not means:
            yield f"{where}.by", f"no mean over lists or items is kept by {options.by!r}."
        for index, name in enumerate(options.metrics):
            if problem := unknown_name_problem(name, means, f"the means kept by {options.by!r}"):
                yield f"{where}.metrics[{index}]", f"{name!r} is {problem}"
        for name in options.metrics or means:
            first = watched.setdefault((options.by, name), where)
            if first != where:
                yield where, f"it repeats the gap of {name} in {first}; remove one."


class GapSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The gap between the values of a label in one window.

    Attributes:
        by: label or segment whose values are compared.
        labels: the other labels, name to value.
        window: span of event time such as 5m, or lifetime.
        at_most: largest accepted difference; None without a limit.
        gap: difference and ratio with bounds that hold together, and the values.
    """

    by: str
    labels: dict[str, str]
    window: str
    at_most: float | None
    gap: Gap


GapsReport: TypeAlias = tuple[GapSeries, ...]
"""The gaps of all windows of a family, lifetime last."""


class GapReader:
    """Reads the gaps of every window; those of tables that have not changed are cached."""

    def __init__(
        self, options: Sequence[GapOptions], intervals: Intervals, labels: Sequence[str]
    ) -> None:
        self._options, self._intervals, self._labels = options, intervals, labels
        self._cached: dict[tuple[str, str, int], tuple[Table, GapsReport]] = {}

    def read(self, moment: Moment) -> GapsReport | None:
        """The gaps in every window; None without any."""
        gaps: list[GapSeries] = []
        for counts in moment.windows:
            dimensions = counts.view.spec.dimensions
            segment = segment_of(dimensions, self._labels)
            for index, options in enumerate(self._options):
                if options.by not in dimensions or segment not in (None, options.by):
                    continue
                key = (counts.view.spec.name, counts.window, index)
                cached = self._cached.get(key)
                if cached is None or cached[0] is not counts.table:
                    cached = self._cached[key] = counts.table, tuple(self._gaps(counts, options))
                gaps += cached[1]
        return tuple(gaps) or None

    def _gaps(self, counts: WindowCounts, options: GapOptions) -> Iterator[GapSeries]:
        view, window, table = counts
        kind: IntervalKind = "anytime" if window == LIFETIME else "pointwise"
        others = [name for name in view.spec.dimensions if name != options.by]
        family, names = view.by_slice(table), [*others, options.by]
        for labels, gap in _gaps_by(family, names, options.metrics, self._intervals, kind):
            yield GapSeries(
                by=options.by,
                labels=dict(zip(others, labels, strict=True)),
                window=window,
                at_most=options.at_most,
                gap=gap,
            )


def gap_reader(options: Sequence[GapOptions], context: ReaderContext) -> GapReader | None:
    """A reader of the configured gaps; None without intervals."""
    if context.intervals is None:
        return None
    return GapReader(options, context.intervals, context.labels)


def _gaps_by(
    family: SliceTable,
    names: Sequence[str],
    texts: Sequence[str],
    intervals: Intervals,
    kind: IntervalKind,
) -> Iterator[tuple[Labels, Gap]]:
    """The gaps between the values of the last label, for each combination of those of the others.

    `texts`: of metrics; empty for all.
    """
    method = IntervalMethod(intervals, kind)
    cells: defaultdict[Labels, dict[str, list[int]]] = defaultdict(dict)
    for (*others, value), slices in slices_by(family, *names).items():
        cells[tuple(others)][value] = slices
    for metric in family.metrics:
        if not has_user_sums(metric, family.table) or is_overlap(metric):
            continue
        for labels, values in cells.items() if not texts or metric.text in texts else ():
            sums = {
                value: user_sums(metric, family.table, np.array(slices), method)
                for value, slices in values.items()
            }
            yield labels, gap_of(metric, sums, intervals, kind)


def gaps_in(
    families: Iterable[SliceTable],
    by: str,
    intervals: Intervals,
    kind: IntervalKind,
    texts: Sequence[str] = (),
) -> list[Gap]:
    """The gaps between the values of a label or segment, all other labels together.

    `texts`: of metrics; empty for all.
    """
    by_text: dict[str, Gap] = {}
    for family in families:
        if by in family.names and family.segment in (None, by):
            for _, gap in _gaps_by(family, [by], texts, intervals, kind):
                by_text.setdefault(gap.metric, gap)
    return list(by_text.values())


_BOUNDS: Final = (
    ("difference", "Largest mean of a value minus the smallest."),
    ("difference_low", "Lower bound of the difference, at least 0; above 0 the values differ."),
    ("difference_high", "Upper bound of the difference."),
    ("ratio", "Smallest mean / largest mean."),
    ("ratio_low", "Lower bound of the ratio."),
    ("ratio_high", "Upper bound of the ratio, at most 1."),
)
"""Name of a gauge, and the HELP text."""


def gap_gauges(gaps: Sequence[GapSeries]) -> Iterator[Gauge]:
    """Gauges of every gap: its difference, its ratio, and which values may be the worst."""
    names = tuple(dict.fromkeys(name for gap in gaps for name in gap.labels))
    legal = dict(zip(names, slice_labels(names, [], ("by", "metric", "value")), strict=True))
    rows: list[tuple[GapSeries, dict[str, str]]] = []
    for series in gaps:
        others = {legal[name]: value for name, value in series.labels.items()}
        rows.append((series, {**others, "metric": series.gap.metric, "by": series.by}))
    windowed = [(series, {**labels, "window": series.window}) for series, labels in rows]
    for name, text in _BOUNDS:
        attribute = name.removeprefix("difference_")
        yield Gauge(
            f"gap_{name}",
            f"{text} Bounds of the lifetime hold however often you look; those of other windows "
            "for one look, never for alerts. Absent if unknown.",
            [(labels, getattr(series.gap, attribute)) for series, labels in windowed],
        )
    yield Gauge(
        "gap_at_most",
        "Largest accepted difference.",
        [(labels, series.at_most) for series, labels in rows if series.window == LIFETIME],
    )
    yield Gauge(
        "gap_values",
        "Number of values that are compared.",
        [(labels, float(len(series.gap.compared))) for series, labels in windowed],
    )
    yield Gauge(
        "gap_left_out",
        "Number of values that are not compared, mostly for too few users; "
        "/api/v1/metrics has the reasons.",
        [(labels, float(len(series.gap.left_out))) for series, labels in windowed],
    )
    yield Gauge(
        "gap_worst",
        "1 for each compared value that may be the worst, 0 for those that surely are not.",
        [
            ({**labels, "value": value.name}, float(value.worst))
            for series, labels in windowed
            for value in series.gap.values
            if value.left_out is None
        ],
    )


def section(gaps: Iterable[GapSeries]) -> str:
    """A sentence and a table for each gap over the lifetime."""
    parts = []
    for series in gaps:
        if series.window == LIFETIME:
            where = "".join(f", {name}={value}" for name, value in series.labels.items())
            name = f"{series.gap.metric} by {series.by}{where}"
            table = gap_table(series.gap, series.by, f"Gap of {name}")
            parts.append((name, gap_text(series.gap), table))
    return render("analyses/gaps/section.html", gaps=parts)


def _answer(report: GapsReport | None) -> GapsReport:
    return report or ()


GAPS: Final = Analysis(
    name="gaps",
    title="Gaps",
    table="gap",
    settings=list[GapOptions],
    describes="labels or segments whose worst and best value are compared, one table each; needs "
    "`intervals`.",
    check=gap_problems,
    reader=gap_reader,
    gauges=gap_gauges,
    section=section,
    answer=_answer,
    answers=list[GapSeries],
    about="one for each configured gap, metric, window and combination of the other labels.",
    monitoring=monitoring,
)
