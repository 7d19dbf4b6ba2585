"""Takes snapshots of the counts; readers never touch live state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from streameval.accumulator.experiment import Experiment, Report, Variant, compared
from streameval.accumulator.readings import (
    How,
    advice,
    answers,
    rests_on,
    ungrouped,
    with_intervals,
)
from streameval.accumulator.table import Table
from streameval.catalogue.metric import Metric
from streameval.engine.history import History
from streameval.engine.ingest import Ingest, IngestCopy
from streameval.engine.partition import ALL, PANES, Layout, Progress
from streameval.engine.snapshot import (
    LIFETIME,
    Counted,
    CountedKey,
    Health,
    JoinHealth,
    PartitionHealth,
    Series,
    SeriesFamily,
    Snapshot,
)
from streameval.events.records import Partition
from streameval.statistics.intervals import Audience, Intervals
from streameval.windows.labels import Labels
from streameval.windows.times import SECOND, span_text
from streameval.windows.views import FamilyView


class RuntimeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of everything around the pipeline.

    Attributes:
        health: all of it but what is counted.
        ends: for each partition, the offset after its last record, as far as known.
        counted: durable evidence; None if state is not durable.
        unread: partitions of what is read that other processes count.
    """

    health: Health = Health()
    ends: Mapping[Partition, int] = {}
    counted: Mapping[CountedKey, Counted] | None = None
    unread: int = 0


class _Read(NamedTuple):
    """The readings of one window of one family.

    Attributes:
        table: what was read; the same object while nothing changed.
        since: from when on each metric is complete, seconds; None where it always was.
        advice: label values and a sentence about what looks wrong with their events.
    """

    table: Table
    since: tuple[float | None, ...]
    rows: Mapping[int, Sequence[Series]]
    advice: tuple[Labels, str] | None


class Snapshots:
    """Takes snapshots; a window in which nothing changed is not read again.

    Not for two threads at once.

    `idle`: label values without an event for longer are left out, microseconds of event time; None
    keeps them all.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        source: str,
        labels: Sequence[str],
        started_at: float,
        idle: int | None = None,
    ) -> None:
        self.started_at = started_at
        self.version = 0
        self._layout = layout
        self._source = source
        self._idle = idle
        self._views = [FamilyView(spec, layout.windowing.pane) for spec in layout.families]
        self._families = tuple(
            SeriesFamily(
                spec.name,
                _segment(spec.dimensions, labels),
                tuple(spec.dimensions),
                tuple(map(span_text, spec.spans)),
            )
            for spec in layout.families
        )
        self._reads: dict[tuple[int, str], _Read] = {}
        self._history = History(self._views)
        self._experiment = None
        if layout.experiment is not None and layout.intervals is not None:
            compared = [
                view
                for view, family in zip(self._views, self._families, strict=True)
                if family.segment is None
            ]
            self._experiment = ExperimentReader(layout.experiment, layout.intervals, compared)

    def take(self, counts: IngestCopy, now: float, around: RuntimeStatus) -> Snapshot:
        """All readings of what was counted."""
        for view, spec in zip(self._views, self._layout.families, strict=True):
            view.refresh(counts.families[spec.name])
        asleep = [self._asleep(view, counts.clock) for view in self._views]
        series = tuple(
            each
            for index, sleeping in enumerate(asleep)
            for each in self._series(index, sleeping, counts)
        )
        self.version += 1
        return Snapshot(
            version=self.version,
            taken_at=now,
            started_at=self.started_at,
            source=self._source,
            families=self._families,
            series=series,
            health=self._health(counts, around),
            counted=_awake(around.counted, self._hidden(asleep)),
            past=self._history.take(now, counts.clock, series),
            experiment=self._experiment.report(around.unread) if self._experiment else None,
        )

    def _series(self, index: int, sleeping: frozenset[int], counts: IngestCopy) -> Iterator[Series]:
        """By metric, then by label values, then by window; lifetime last."""
        view, begun = self._views[index], Beginnings(self._families[index].name, counts.since)
        spans = () if counts.clock is None else view.spec.spans
        reads = [self._read(index, span, begun, counts.clock) for span in (*spans, None)]
        slices = view.spec.slices.sorted({each for read in reads for each in read.rows} - sleeping)
        for place in range(len(view.spec.metrics)):
            for number in slices:
                yield from (read.rows[number][place] for read in reads if number in read.rows)

    def _read(self, index: int, span: int | None, begun: Beginnings, clock: int | None) -> _Read:
        view = self._views[index]
        if span is None or clock is None:
            table, start = view.lifetime(), None
        else:
            table, start = view.window(span, clock), clock - span
        since = tuple(begun.since(rests_on(metric, table), start) for metric in view.spec.metrics)
        window = LIFETIME if span is None else span_text(span)
        known = self._reads.get((index, window))
        if known is None or known.table is not table or known.since != since:
            known = _Read(
                table, since, self._rows(index, window, table, since), _advice(view, table)
            )
            self._reads[index, window] = known
        return known

    def _rows(
        self, index: int, window: str, table: Table, since: Sequence[float | None]
    ) -> Mapping[int, Sequence[Series]]:
        view = self._views[index]
        slices = view.slices(table)
        numbers = slices.tolist()
        rows: dict[int, list[Series]] = {number: [] for number in numbers}
        for metric, moment in zip(view.spec.metrics, since, strict=True):
            readings = answers(metric, table, slices)
            if (how := self._how(window)) is not None:
                readings = with_intervals(metric, readings, table, slices, how)
            for number, reading in zip(numbers, readings, strict=True):
                labels = view.labels(number)
                rows[number].append(Series(metric, labels, reading, window, index, moment))
        return rows

    def _how(self, window: str) -> How | None:
        """Values of all time may be looked at always; those of a window are one among many."""
        intervals = self._layout.intervals
        if intervals is None:
            return None
        if window == LIFETIME:
            return How(intervals)
        return How(intervals, "pointwise")

    def _asleep(self, view: FamilyView, clock: int | None) -> frozenset[int]:
        """Slices that had no event for long enough."""
        if clock is None or self._idle is None:
            return frozenset()
        return frozenset(
            number
            for number, latest in view.latest().items()
            if latest is not None and clock - latest > self._idle
        )

    def _hidden(self, asleep: Sequence[frozenset[int]]) -> set[tuple[int, Labels]]:
        return {
            (index, view.labels(number))
            for index, (view, sleeping) in enumerate(zip(self._views, asleep, strict=True))
            for number in sleeping
        }

    def _advice(self) -> str | None:
        for (index, _), read in self._reads.items():
            if read.advice is not None:
                labels, advice = read.advice
                pairs = zip(self._families[index].label_names, labels, strict=True)
                where = ", ".join(f"{name}={value}" for name, value in pairs)
                return f"{where}: {advice}" if where else advice
        return None

    def _health(self, counts: IngestCopy, around: RuntimeStatus) -> Health:
        tally, join = counts.tally, around.health.join
        progress = sorted(counts.progress.items())
        timed = any(each.clock is not None for _, each in progress)
        return msgspec.structs.replace(
            around.health,
            consumed=tally.consumed,
            valid=tally.valid,
            invalid=dict(tally.invalid),
            tombstones=tally.tombstones,
            partitions=tuple(
                _partition(name, each, around.ends.get(name)) for name, each in progress
            ),
            trouble=around.health.trouble
            or tally.suspicion()
            or (None if join is None else join.suspicion())
            or self._advice(),
            late=tally.late if timed else None,
            future=tally.future if timed else None,
            duplicates=tally.duplicates if self._layout.dedup or tally.duplicates else None,
            folded=self._folded(),
        )

    def _folded(self) -> dict[str, int]:
        """Events under `__other__` where a family folds the most: each event stands in all."""
        return {view.spec.name: max(view.folded().values(), default=0) for view in self._views}


def of_ingest(
    ingest: Ingest, *, labels: Sequence[str], now: float, join: JoinHealth | None = None
) -> Snapshot:
    """One snapshot of an ingest that nobody is waiting for: of files, or of saved states."""
    snapshots = Snapshots(ingest.layout, source="", labels=labels, started_at=0.0)
    return snapshots.take(ingest.copied(), now, RuntimeStatus(health=Health(join=join)))


def variants_in(
    ingest: Ingest, label: str, labels: Sequence[str]
) -> tuple[list[Metric], dict[str, Variant]]:
    """The metrics that are kept by a label, and its variants over the whole lifetime.

    `labels`: names of all labels; families of segments are left out.
    """
    layout, counts = ingest.layout, ingest.copied()
    views = [
        FamilyView(spec, layout.windowing.pane)
        for spec in layout.families
        if label in spec.dimensions and _segment(spec.dimensions, labels) is None
    ]
    for view in views:
        view.refresh(counts.families[view.spec.name])
    return all_variants(views, [view.lifetime() for view in views], label)


class ExperimentReader:
    """Reads an experiment from the lifetime of every family that has its label.

    `views`: of the families; those of segments are left out.
    """

    def __init__(
        self, experiment: Experiment, intervals: Intervals, views: Sequence[FamilyView]
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
    views: Sequence[FamilyView], tables: Sequence[Table], label: str
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


def variants_of(view: FamilyView, table: Table, label: str) -> dict[str, Variant]:
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


class Beginnings:
    """Since when what is kept of a family has been kept, in any of its partitions."""

    def __init__(self, family: str, since: Iterable[Mapping[str, int]]) -> None:
        self._found: dict[str, int] = {}
        for each in since:
            for key, moment in each.items():
                owner, _, name = key.partition(":")
                if owner == family:
                    self._found[name] = max(moment, self._found.get(name, moment))

    def since(self, statistics: Iterable[str], start: int | None) -> float | None:
        """When what is read from these statistics became complete, seconds since the epoch.

        `start`: of the window that is read, microseconds; None for the lifetime.

        Returns:
            None where it always was.
        """
        if not self._found:
            return None
        names = [*statistics, ALL] if start is None else [*statistics, ALL, PANES]
        found = [self._found[name] for name in names if name in self._found]
        moments = [moment for moment in found if start is None or moment > start]
        return max(moments) / SECOND if moments else None


def _awake(
    counted: Mapping[CountedKey, Counted] | None, hidden: set[tuple[int, Labels]]
) -> Mapping[CountedKey, Counted] | None:
    """Counters leave together with the other values of their labels."""
    if counted is None or not hidden:
        return counted
    return {key: pair for key, pair in counted.items() if key[:2] not in hidden}


def _advice(view: FamilyView, table: Table) -> tuple[Labels, str] | None:
    slices = view.slices(table)
    told = zip(slices.tolist(), advice(table, slices), strict=True)
    return next(((view.labels(number), each) for number, each in told if each), None)


def _segment(dimensions: Sequence[str], labels: Sequence[str]) -> str | None:
    return next((name for name in dimensions if name not in labels), None)


def _partition(name: Partition, found: Progress, end: int | None) -> PartitionHealth:
    return PartitionHealth(partition=name, position=found.position, end=end, event_time=found.clock)
