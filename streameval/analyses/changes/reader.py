"""Watches series for changes: reads their sums by day, and judges them once a day ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from streameval.accumulator.kinds.events import is_overlap
from streameval.accumulator.kinds.groups import groups_of, summed_together, ungrouped
from streameval.accumulator.objections import objection_together
from streameval.analyses.changes.report import OTHERS, WEEKS, ChangeSettings, ChangesReport
from streameval.analyses.changes.statistics import (
    Look,
    Traffic,
    WatchedSeries,
    WatchedSlice,
    judge_changes,
    look,
)
from streameval.catalogue.metric import Metric
from streameval.engine.analysis import Moment, ReaderContext, UnreadPartitions
from streameval.engine.rankers import RANKER, slices_by
from streameval.engine.windows.times import DAY
from streameval.engine.windows.views import FamilyView, SliceTable
from streameval.events.records import Partition
from streameval.inference.days import Calendar, calendar_of, date_of
from streameval.statistics.intervals import GroupSums, Intervals

_AT_ONCE: Final = 8
"""Series that are read per snapshot."""

_AGAIN: Final = 600.0
"""Least seconds until late events of old days are read."""

_ENOUGH: Final = 0.05
"""Share of a slice's lists from which on a value of the label `rollouts` is rolled out."""

_NOTHING: Final = np.zeros(0, np.int64)

_NO_VALUES: Final = {WEEKS, OTHERS}
"""What a value of a label is compared with that is not itself a value."""


class SlicedCounts:
    """The counts of a family's slices; holds the table as it is now.

    Attributes:
        names: names of the labels.
        slices: those whose lists were shown; all, if the label is `RANKER`.
        metrics: the metrics that are counted by user group.
    """

    def __init__(self, family: SliceTable, label: str | None) -> None:
        self._family, self._label = family, label
        self._shown_slices = slices_by(family).get((), [])
        self.slices = [*family.labels] if label == RANKER else self._shown_slices
        self.names = family.names
        self.metrics = [
            metric
            for metric in family.metrics
            if ungrouped(metric, family.table) is None and not is_overlap(metric)
        ]

    def values_of(self, label: str | None) -> dict[int, str]:
        """Slice -> its value of a label; empty if the family is not split by it."""
        if label is None or label not in self.names:
            return {}
        column = self.names.index(label)
        return {number: self._family.labels[number][column] for number in self.slices}

    def of_value(self, value: str | None) -> list[int]:
        """The slices with a value of the label; of None, all that were shown."""
        if value is None or self._label is None:
            return self._shown_slices
        return [number for number, name in self.values_of(self._label).items() if name == value]

    def sums(self, metric: Metric, slices: Sequence[int], without: Sequence[int] = ()) -> GroupSums:
        """The sums of a metric over some slices; `without`: of these, those left out again."""
        groups = groups_of(self._family.table)
        if groups is None:
            return GroupSums(_NOTHING, np.zeros((0, 1)), np.zeros((0, 1), np.int64))
        return summed_together(metric, groups, slices, without)

    def traffic(self, slices: Sequence[int]) -> Traffic:
        """The lists of some slices by day."""
        groups = groups_of(self._family.table)
        if groups is None:
            return Traffic(_NOTHING, _NOTHING, _NOTHING)
        return Traffic(*groups.lists_by_day(np.array(slices, np.int64)))

    def reason_not_judged(self, metric: Metric, slices: Sequence[int]) -> str | None:
        """The reason, in a sentence, not to judge an estimate over some slices, or None."""
        return objection_together(metric, self._family.table, slices)


def watched_series(
    families: Sequence[SlicedCounts], settings: ChangeSettings
) -> Iterator[WatchedSeries]:
    """The series that settings name, in the order of metrics, the total first.

    `families`: counts without the segment `mix` come first.
    """
    mixed = [family for family in families if settings.mix in family.names]
    read: set[str] = set()
    for family in families:
        for metric in family.metrics:
            if metric.text in read or (settings.metrics and metric.text not in settings.metrics):
                continue
            read.add(metric.text)
            strata = (
                part
                for part in mixed
                if metric in part.metrics
                and (settings.label is None or settings.label in part.names)
            )
            yield from _Source(metric, settings, family, next(strata, None)).series()


class _Source(NamedTuple):
    """The counts of one metric.

    Attributes:
        strata: counts with the segment `mix`; None if the audience is not held constant.
    """

    metric: Metric
    settings: ChangeSettings
    family: SlicedCounts
    strata: SlicedCounts | None

    def series(self) -> Iterator[WatchedSeries]:
        """The total against weeks, then each value of the label."""
        against, family = self.settings.against, self.family
        values = sorted({*family.values_of(self.settings.label).values()})
        pairs = [(value, against) for value in values if value != against or against in _NO_VALUES]
        for value, compared in [(None, WEEKS), *pairs]:
            other = None
            if compared == OTHERS:
                other = self._slice(value, rest=True)
            elif compared != WEEKS:
                other = self._slice(compared)
            slices = family.of_value(value)
            yield WatchedSeries(
                self.metric.text,
                value,
                compared,
                self.metric.definition.higher_is_better,
                self._slice(value),
                other,
                family.traffic(slices),
                self._rollouts(slices),
            )

    def _slice(self, value: str | None, *, rest: bool = False) -> WatchedSlice:
        """A value of the label, or all the others; None for all lists that were shown."""
        family, mixed = self.family, self.strata
        of_value = {*family.of_value(value)}
        slices = [number for number in family.slices if (number in of_value) is not rest]
        reason = family.reason_not_judged(self.metric, slices)
        sums = self._sums(family, family.slices, value, rest=rest)
        if mixed is None:
            return WatchedSlice(sums, reason_not_judged=reason)
        by_mix: defaultdict[str, list[int]] = defaultdict(list)
        for number, mix in mixed.values_of(self.settings.mix).items():
            by_mix[mix].append(number)
        strata = [self._sums(mixed, by_mix[mix], value, rest=rest) for mix in sorted(by_mix)]
        return WatchedSlice(sums, strata, reason)

    def _sums(
        self, family: SlicedCounts, slices: Sequence[int], value: str | None, *, rest: bool
    ) -> GroupSums:
        """The sums of those of some slices that have a value, or of all others of them."""
        with_value = {*family.of_value(value)}
        of_value = [number for number in slices if number in with_value]
        if rest:
            return family.sums(self.metric, slices, of_value)
        return family.sums(self.metric, of_value)

    def _rollouts(self, slices: Sequence[int]) -> list[tuple[int, str]]:
        """The day on which each new value of the label first had enough of the lists."""
        values = self.family.values_of(self.settings.rollouts)
        total = self.family.traffic(slices).by_day
        begun = []
        for value in {values[number] for number in slices if values}:
            of_value = [number for number in slices if values[number] == value]
            lists = self.family.traffic(of_value).by_day
            days = [day for day in lists if lists[day] >= _ENOUGH * total[day]]
            if days and min(days) > min(total):
                begun.append((min(days), value))
        return sorted(begun)


def closed_day(clocks: Iterable[int], lateness: int, calendar: Calendar) -> int | None:
    """The last event day that is closed, since 1970-01-01; None if no clock is known.

    Its last instant was before the slowest clock of a log by `lateness`. A log that is a day or
    more behind the fastest is idle, and is not waited for. All in microseconds.

    Example:
        >>> day, utc = 86_400_000_000, Calendar()
        >>> closed_day([10 * day + 5, 10 * day + 9, 3 * day], 2, utc)
        9
        >>> closed_day([10 * day + 1], 2, utc)
        8
    """
    times = list(clocks)
    newest = max(times, default=None)
    if newest is None:
        return None
    slowest = min(clock for clock in times if newest - clock < DAY)
    return calendar.ended(slowest - lateness)


class _Basis(NamedTuple):
    """Inputs of a report besides late events; when they change, it is read again at once.

    Attributes:
        until: the last closed day.
        waited_for: logs that keep a day open.
        final: logs whose clock is not an estimate.
    """

    until: int
    waited_for: frozenset[Partition]
    final: frozenset[Partition]


class ChangeReader:
    """Watches the lifetimes of families; reads a few series at a time.

    The report is that of the last closed day. It depends on the events of closed days alone, in
    whatever order their logs were read: it is read again when a log that was behind has gone on.
    Late events of such days are read when the next day closes, or some minutes later.
    """

    def __init__(
        self,
        settings: ChangeSettings,
        intervals: Intervals,
        views: Sequence[FamilyView],
        lateness: int,
    ) -> None:
        self._settings, self._intervals = settings, intervals
        self._views, self._lateness = views, lateness
        # All families of a configuration have its time zone.
        zones = (view.spec.table.context.time_zone for view in views)
        self._calendar = calendar_of(next(zones, None))
        self._report: ChangesReport | None = None
        self._basis: _Basis | None = None
        # Logs that keep no day open, and the event time of each; lists of closed days by family.
        self._behind: frozenset[tuple[Partition, int]] = frozenset()
        self._list_counts: list[int] = []
        self._read_at = 0.0
        self._unread = UnreadPartitions()
        self._pending: Iterator[Look] | None = None
        self._looks: list[Look] = []

    def read(self, moment: Moment) -> ChangesReport | None:
        """The latest report; None before the first, and while partitions move between processes.

        While partitions are missing the report gives no verdict, as users are.
        """
        if moment.unread.number != self._unread.number:
            # What was read has other users than what is counted now.
            self._report, self._pending, self._basis = None, None, None
            self._unread = moment.unread
        self._begin(moment)
        if self._pending is not None and self._basis is not None:
            part = list(islice(self._pending, _AT_ONCE))
            self._looks += part
            if len(part) < _AT_ONCE:
                precision = self._intervals.precision
                changes = judge_changes(self._looks, self._settings, precision, detailed=True)
                until = date_of(self._basis.until)
                self._report = ChangesReport(
                    settings=self._settings,
                    until=until,
                    changes=changes,
                    time_zone=self._calendar.time_zone,
                )
                self._pending, self._looks = None, []
        if self._report is None or not moment.unread.number:
            return self._report
        return self._report.distrust(moment.unread.reason("changes"))

    def _begin(self, moment: Moment) -> None:
        """Begin to read when a day has closed, or its events have changed for some time."""
        until = closed_day(moment.times.values(), self._lateness, self._calendar)
        if until is None:
            return
        newest = max(moment.times.values())
        behind = frozenset((log, at) for log, at in moment.times.items() if newest - at >= DAY)
        waited_for = moment.times.keys() - {log for log, _ in behind}
        basis = _Basis(until, frozenset(waited_for), frozenset(moment.final))
        groups = [groups_of(view.lifetime()) for view in self._views]
        list_counts = [0 if sums is None else sums.list_count(until) for sums in groups]
        if basis == self._basis:
            late_alone = behind == self._behind
            waits = late_alone and abs(moment.now - self._read_at) < _AGAIN
            if (
                (late_alone and list_counts == self._list_counts)
                or self._pending is not None
                or waits
            ):
                return
        self._basis, self._read_at = basis, moment.now
        self._behind, self._list_counts = behind, list_counts
        label = self._settings.label
        families = [SlicedCounts(view.by_slice(view.lifetime()), label) for view in self._views]
        series = watched_series(families, self._settings)
        self._pending = map(partial(look, until=until, settings=self._settings), series)
        self._looks = []


def change_reader(settings: ChangeSettings, context: ReaderContext) -> ChangeReader | None:
    """A reader of the families that are watched for changes; None without intervals."""
    if context.intervals is None:
        return None
    # Families without a segment, and by that of the audience.
    names = {*context.labels, settings.mix}
    views = [view for view in context.views if {*view.spec.dimensions} <= names]
    return ChangeReader(settings, context.intervals, views, context.lateness)


def families_in(families: Iterable[SliceTable], settings: ChangeSettings) -> list[SlicedCounts]:
    """The families without a segment, and by that of the audience."""
    return [
        SlicedCounts(family, settings.label)
        for family in families
        if family.segment in (None, settings.mix)
    ]
