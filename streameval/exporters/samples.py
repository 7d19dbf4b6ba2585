"""The metrics of a snapshot as Prometheus families: counters that never fall, and gauges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import msgspec

from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.engine.evidence import counts_up
from streameval.engine.snapshot import LIFETIME, Counted, Series, Snapshot
from streameval.exporters.families import (
    Family,
    Kind,
    Sample,
    family_name,
    gauge_help,
    interval_help,
    mean_help,
    metric_labels,
    slice_labels,
    summary_help,
    support_help,
)
from streameval.exporters.view import has_windows

Key: TypeAlias = tuple[str, tuple[str, ...], str]
"""A family's name, a slice's label values, a metric's text."""

FIRST_EXPOSURE: Final = 60.0
"""Seconds for which a new counter stands at 0, from the first scrape that shows it."""


class Exported(msgspec.Struct, gc=False):
    """One counter pair as last exported.

    Attributes:
        rises: from when on it shows more than 0, on the injected clock.
    """

    labels: Mapping[str, str]
    rises: float
    total: float = 0.0
    count: int = 0


class Counters:
    """Sums and counts as exported: first at 0 for a while, then never lower than before.

    `rate()` misses the increment with which a series appears, and reads a sum that is one ulp
    lower than before as a restart from 0. So every scraper must see a new series at 0 first: it
    stands there for a time, not for a scrape, since scrapers do not know of each other.

    `first_exposure`: how long a new series stands at 0, from the first scrape that shows it; at
    least two scrape intervals. 0 shows it as it is.
    """

    def __init__(self, clock: Callable[[], float], first_exposure: float = FIRST_EXPOSURE) -> None:
        self._clock = clock
        self._first_exposure = first_exposure
        self._exported: dict[Key, Exported] = {}
        self._now = -math.inf
        self.next_rise = math.inf

    def begin_scrape(self) -> None:
        """Take the time for all counters of a scrape."""
        self._now = self._clock()
        self.next_rise = math.inf

    @property
    def outdated(self) -> bool:
        """Whether a counter that the last scrape showed at 0 may rise now."""
        return self._clock() >= self.next_rise

    def __contains__(self, key: Key) -> bool:
        return key in self._exported

    def add(self, key: Key, labels: Mapping[str, str]) -> None:
        """A new counter, first shown by this scrape."""
        self._exported[key] = Exported(labels, self._now + self._first_exposure)

    def resume(self, key: Key, labels: Mapping[str, str], total: float, count: int) -> None:
        """A counter that begins with what it has: that is not the increase of this process."""
        self._exported[key] = Exported(labels, -math.inf, total, count)

    def scraped(self, key: Key, total: float, count: int) -> Exported:
        """What this scrape shows of a counter that has come so far."""
        exported = self._exported[key]
        if self._now < exported.rises:
            self.next_rise = min(self.next_rise, exported.rises)
        else:
            exported.total = max(exported.total, total)
            exported.count = max(exported.count, count)
        return exported


class MetricSamples(msgspec.Struct, frozen=True, kw_only=True):
    """The sample lists of one metric in one family of series.

    Attributes:
        family: name of the series' family, as saved state knows it.
        names: of the labels, as exported.
        own: labels that the metric has of itself.
        windowed: whether gauges say their window.
    """

    family: str
    name: str
    names: tuple[str, ...]
    own: Mapping[str, str]
    windowed: bool
    summary: list[Sample]
    means: list[Sample] | None
    supports: list[Sample] | None
    lows: list[Sample] | None
    highs: list[Sample] | None
    gauge: list[Sample] | None

    def labels(self, values: tuple[str, ...], window: str | None = None) -> dict[str, str]:
        """Labels of a sample: of its slice, of its metric and, where it has one, its window."""
        found = {**dict(zip(self.names, values, strict=True)), **self.own}
        if window is not None:
            found["window"] = window
        return found

    def show(self, reading: Reading, labels: dict[str, str]) -> None:
        """Add the samples of a gauge."""
        if self.gauge is not None:
            self.gauge.append(Sample(self.name, labels, reading.value))
        elif self.means is not None and self.supports is not None:
            mean = reading.value if reading.total is None else reading.total / reading.count
            self.means.append(Sample(f"{self.name}_window_mean", labels, mean))
            self.supports.append(Sample(f"{self.name}_window_support", labels, reading.count))
        if reading.interval is not None and self.lows is not None and self.highs is not None:
            self.lows.append(Sample(f"{self.name}_window_low", labels, reading.interval.low))
            self.highs.append(Sample(f"{self.name}_window_high", labels, reading.interval.high))


class FamilySet:
    """The families of one snapshot, without samples at first."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._metrics = {entry.metric.text: entry.metric for entry in snapshot.series}
        self._windowed = is_windowed(snapshot)
        readings = [entry.reading for entry in snapshot.series]
        self._sure = any(each.interval or each.no_interval for each in readings)
        self._families: dict[str, Family] = {}
        self._samples: dict[str, list[Sample]] = {}
        self._found: dict[tuple[int, str], MetricSamples] = {}
        for entry in snapshot.series:
            self.of(entry.metric, entry.family)

    @property
    def families(self) -> list[Family]:
        """All of them, with the samples that they have by now."""
        return list(self._families.values())

    def of(self, metric: Metric, place: int) -> MetricSamples:
        """The sample lists of a metric."""
        found = self._found.get((place, metric.text))
        if found is None:
            found = self._found[place, metric.text] = self._made(metric, place)
        return found

    def _made(self, metric: Metric, place: int) -> MetricSamples:
        family = self._snapshot.families[place]
        name, up = family_name(metric, family.segment), counts_up(metric)
        by_window = self._windowed and up
        summary = self._of(name, "summary", summary_help(name, metric)) if up else []
        means = self._of(f"{name}_window_mean", "gauge", mean_help(metric)) if by_window else None
        support = f"{name}_window_support"
        sure = by_window and self._sure and metric.has_interval
        ends = [f"{name}_window_{end}" for end in ("low", "high")] if sure else []
        found = [self._of(each, "gauge", interval_help(name, each)) for each in ends]
        return MetricSamples(
            family=family.name,
            name=name,
            names=slice_labels(family.label_names, {**self._metrics, metric.text: metric}.values()),
            own=metric_labels(metric),
            windowed=self._windowed,
            summary=summary,
            means=means,
            supports=self._of(support, "gauge", support_help(name, metric)) if by_window else None,
            lows=found[0] if sure else None,
            highs=found[1] if sure else None,
            gauge=None if up else self._of(name, "gauge", gauge_help(metric, self._windowed)),
        )

    def _of(self, name: str, kind: Kind, text: str) -> list[Sample]:
        samples = self._samples.setdefault(name, [])
        self._families.setdefault(name, Family(name, kind, text, samples))
        return samples


def is_windowed(snapshot: Snapshot) -> bool:
    """Whether gauges say their window: where there are windows, or state outlives the process."""
    return snapshot.counted is not None or has_windows(snapshot)


Labels: TypeAlias = dict[str, str]

_NOTHING: Counted = (0.0, 0)
_Place: TypeAlias = tuple[str, tuple[str, ...], str, str | None]


class _Counter(NamedTuple):
    """A pair of counters that a snapshot has, and what it has come to; None where undefined."""

    place: int
    labels: tuple[str, ...]
    metric: Metric
    now: Counted | None


class MetricFamilies:
    """Converts snapshots to families, one per metric name, convention and segment."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._labels: dict[_Place, Labels] = {}

    def resume(self, snapshot: Snapshot) -> None:
        """Let counters that have counted something begin with it; the others are still new."""
        found = FamilySet(snapshot)
        for counter in _counters_of(snapshot):
            if counter.now is not None and counter.now[1]:
                samples = found.of(counter.metric, counter.place)
                labels = samples.labels(counter.labels)
                self._counters.resume(_key(counter, samples), labels, *counter.now)

    def families(self, snapshot: Snapshot) -> list[Family]:
        """In the order of the snapshot; windows of a metric stand after its counters."""
        found = FamilySet(snapshot)
        self._counters.begin_scrape()
        for counter in _counters_of(snapshot):
            self._add_counter(counter, found.of(counter.metric, counter.place))
        before, self._labels = self._labels, {}
        for entry in snapshot.series:
            if entry.reading.defined:
                self._add_gauge(entry, found.of(entry.metric, entry.family), before)
        return found.families

    def _add_counter(self, counter: _Counter, samples: MetricSamples) -> None:
        if counter.now is None:
            return
        key = _key(counter, samples)
        if key not in self._counters:
            self._counters.add(key, samples.labels(counter.labels))
        exported = self._counters.scraped(key, *counter.now)
        samples.summary.append(Sample(f"{samples.name}_sum", exported.labels, exported.total))
        samples.summary.append(Sample(f"{samples.name}_count", exported.labels, exported.count))

    def _add_gauge(
        self, entry: Series, samples: MetricSamples, before: Mapping[_Place, Labels]
    ) -> None:
        if samples.gauge is None and samples.means is None:
            return
        window = entry.window if samples.windowed else None
        place = (samples.family, entry.labels, entry.metric.text, window)
        labels = before.get(place)
        if labels is None:
            labels = samples.labels(entry.labels, window)
        self._labels[place] = labels
        samples.show(entry.reading, labels)


def _key(counter: _Counter, samples: MetricSamples) -> Key:
    return samples.family, counter.labels, counter.metric.text


def _counters_of(snapshot: Snapshot) -> Iterator[_Counter]:
    """Those of the series, and of series that were here before they moved away."""
    shown = set()
    for entry in snapshot.series:
        if entry.window == LIFETIME and counts_up(entry.metric):
            key = (entry.family, entry.labels, entry.metric.text)
            shown.add(key)
            now = _now(entry.reading)
            if now is not None and snapshot.counted is not None:
                now = snapshot.counted.get(key, _NOTHING)
            yield _Counter(entry.family, entry.labels, entry.metric, now)
    for key, now in (snapshot.counted or {}).items():
        if key not in shown:
            yield _Counter(key[0], key[1], _metric(key[2]), now)


@cache
def _metric(text: str) -> Metric:
    return parse(text)


def _now(reading: Reading) -> Counted | None:
    """None where a convention leaves no value: a sum without it would pass for one."""
    total = reading.total
    if total is None or math.isnan(total):
        return None
    return (total, reading.count) if math.isfinite(total) else _NOTHING
