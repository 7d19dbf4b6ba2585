"""The metrics of a snapshot as Prometheus families: names, monotonic counters, gauges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from prometheus_client import Metric as ClientMetric
from prometheus_client.samples import Sample

from streameval.catalogue import parse
from streameval.catalogue.metric import Metric
from streameval.catalogue.reading import Reading
from streameval.engine.analysis import Gauge
from streameval.engine.snapshot import LIFETIME, CounterValue, Snapshot
from streameval.exporters.names import PREFIX, family_name, metric_labels, slice_labels
from streameval.exporters.view import summary_of

PrometheusFamily: TypeAlias = ClientMetric
"""The samples of one metric name without suffix, as prometheus_client writes them; never NaN."""

FamilyKind: TypeAlias = Literal["summary", "counter", "gauge"]


def pipeline_family(
    name: str, kind: FamilyKind, text: str, samples: Iterable[tuple[Mapping[str, str], float]]
) -> PrometheusFamily:
    """A family about the pipeline rather than the recommender; counters end in _total."""
    family = PrometheusFamily(PREFIX + name, text, kind)
    suffix = "_total" if kind == "counter" else ""
    for labels, value in samples:
        family.add_sample(PREFIX + name + suffix, dict(labels), value)
    return family


def gauge_families(gauges: Iterable[Gauge]) -> Iterator[PrometheusFamily]:
    """The gauges of an analysis as families, without the values that are unknown or infinite.

    Example:
        >>> samples = [({"variant": "a"}, None), ({"variant": "b"}, 0.5)]
        >>> [family] = gauge_families([Gauge("lift", "The lift.", samples)])
        >>> [(sample.name, sample.labels, sample.value) for sample in family.samples]
        [('streameval_lift', {'variant': 'b'}, 0.5)]
    """
    for name, text, samples in gauges:
        finite = (
            (labels, value)
            for labels, value in samples
            if value is not None and math.isfinite(value)
        )
        yield pipeline_family(name, "gauge", text, finite)


_SUMMARY: Final = (
    "{summary} _sum is the sum of the numerators and _count the number of {unit} since the process "
    "started; the mean over five minutes is rate({name}_sum[5m]) / rate({name}_count[5m])."
)
_MEAN: Final = (
    "{summary} Mean over a window of event time or the lifetime; absent without evidence. Combine "
    "series as sum(mean * support) / sum(support)."
)
_PER_USER: Final = (
    "{summary} Mean over users of the mean of their lists, in a window of event time or the "
    "lifetime; absent without evidence. Above a cap of users, of a sample of them. A user's mean "
    "is not additive in time, so there is no counter."
)
_END: Final = (
    " end of the interval of {name}. The interval of the lifetime holds however often "
    "you look; those of other windows hold for one look, never for alerts. Absent with too few "
    "users, or too many lists without one. Intervals of several series cannot be combined."
)


def _describe(
    metric: Metric, name: str, *, windowed: bool
) -> Iterator[tuple[str, FamilyKind, str]]:
    """Suffix, kind and HELP of each family of a metric."""
    summary, unit = metric.definition.summary, metric.unit
    per_user = metric.is_per_user and metric.values["statistic"] == "mean"
    if not (per_user or metric.counts_up):
        since = "Since the process started"
        if windowed:
            since = "Over a window of event time or the lifetime"
        capped = metric.definition.reads in ("exposures", "users")
        combined = "Values of several series cannot be combined."
        if windowed and metric.has_interval and not metric.is_per_user:
            combined = f"Combine series as sum({name} * support) / sum(support)."
        text = (
            f"{summary_of(metric)} {since}; absent without evidence. "
            f"{combined}{' Estimated above max_items.' * capped}"
        )
        yield "", "gauge", text
        if windowed and metric.has_interval and not metric.is_per_user:
            over = metric.definition.over
            divisor = "Number of lists" if over is None else "Sum of the weights"
            yield from _interval_families(name)
            yield "_window_support", "gauge", f"{divisor} in {name}."
        return
    if not per_user:
        yield "", "summary", _SUMMARY.format(summary=summary, unit=unit, name=name)
        if not windowed:
            return
    mean = f"{name}_window_mean"
    yield "_window_mean", "gauge", (_PER_USER if per_user else _MEAN).format(summary=summary)
    if per_user or metric.has_interval:
        yield from _interval_families(mean)
    yield "_window_support", "gauge", f"Number of {unit} in {mean}."


def _interval_families(value: str) -> Iterator[tuple[str, FamilyKind, str]]:
    yield "_window_low", "gauge", f"Lower{_END.format(name=value)}"
    yield "_window_high", "gauge", f"Upper{_END.format(name=value)}"


ExportedKey: TypeAlias = tuple[str, tuple[str, ...], str]
"""A family's name, a slice's label values, a metric's text: the same after a restart."""

FIRST_EXPOSURE: Final = 60.0
"""Seconds for which a new counter stays at 0, from the first scrape that has it."""

_NOTHING: CounterValue = (0.0, 0)


class _Exported(msgspec.Struct, gc=False):
    """A pair of counters as last exported.

    Attributes:
        rises: time on the injected clock from which it may exceed 0; None before its first scrape.
        resets: how often what counts had been reset when it was scraped last.
        last: its total and count then.
        more: what was counted before resets, or with a minus what is left out.
    """

    rises: float | None = None
    total: float = 0.0
    count: int = 0
    resets: int | None = None
    last: CounterValue = _NOTHING
    more: CounterValue = _NOTHING

    def grow(self, total: float, count: int, resets: int) -> CounterValue:
        """Total and count with those before resets."""
        # Another state, or another accumulator, is seen by its smaller count.
        if self.resets is not None and (resets != self.resets or count < self.last[1]):
            self.more = (self.more[0] + self.last[0], self.more[1] + self.last[1])
        self.resets, self.last = resets, (total, count)
        return self.more[0] + total, self.more[1] + count


class MetricSamples(NamedTuple):
    """The sample lists of one metric in one family of series.

    Attributes:
        names: exported names of the slices' labels.
        metric_labels: labels of the metric itself.
        lists: suffix of the metric's name -> samples.
    """

    name: str
    names: tuple[str, ...]
    metric_labels: Mapping[str, str]
    lists: Mapping[str, list[Sample]]

    def labels(self, values: tuple[str, ...], window: str | None = None) -> dict[str, str]:
        """Labels of a sample: of its slice, its metric and its window, if any."""
        labels = {**dict(zip(self.names, values, strict=True)), **self.metric_labels}
        if window is not None:
            labels["window"] = window
        return labels

    def show(self, reading: Reading, labels: dict[str, str]) -> None:
        """Add the samples of a gauge, or of a window of a mean."""
        if "_window_mean" in self.lists:
            mean = reading.value if reading.total is None else reading.total / reading.count
            self.add("_window_mean", labels, mean)
        else:
            self.add("", labels, reading.value)
        if "_window_support" in self.lists:
            divisor = reading.count if reading.weight is None else reading.weight
            self.add("_window_support", labels, divisor)
        if reading.interval is not None and "_window_low" in self.lists:
            self.add("_window_low", labels, reading.interval.low)
            self.add("_window_high", labels, reading.interval.high)

    def add(self, suffix: str, labels: dict[str, str], value: float) -> None:
        """Add a sample of the family with this suffix."""
        self.lists[suffix].append(Sample(self.name + suffix, labels, value))


class FamilySet:
    """The families of one snapshot; samples are added later.

    Attributes:
        windowed: whether gauges have the label `window`: with windows, or with durable state.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._metrics = {entry.metric.text: entry.metric for entry in snapshot.series}
        # Once for all metrics of the snapshot: it reads the parameters of each.
        self._names = [
            slice_labels(family.label_names, self._metrics.values()) for family in snapshot.families
        ]
        self.windowed = snapshot.counted is not None or snapshot.has_windows
        self._families: dict[str, PrometheusFamily] = {}
        self._samples: dict[tuple[int, str], MetricSamples] = {}
        for entry in snapshot.series:
            self.of(entry.metric, entry.family)

    @property
    def families(self) -> list[PrometheusFamily]:
        """All families with their samples so far."""
        return list(self._families.values())

    def of(self, metric: Metric, index: int) -> MetricSamples:
        """The sample lists of a metric in the family of series with this index."""
        if (samples := self._samples.get((index, metric.text))) is not None:
            return samples
        family, names = self._snapshot.families[index], self._names[index]
        if metric.text not in self._metrics:
            names = slice_labels(family.label_names, [*self._metrics.values(), metric])
        name = family_name(metric, family.segment)
        lists = {
            suffix: self._families.setdefault(
                name + suffix, PrometheusFamily(name + suffix, text, kind)
            ).samples
            for suffix, kind, text in _describe(metric, name, windowed=self.windowed)
        }
        samples = MetricSamples(name, names, metric_labels(metric), lists)
        self._samples[index, metric.text] = samples
        return samples


Resets: TypeAlias = Mapping[tuple[str, ...], int]
"""Label values -> how often what counts them was reset."""

_NEVER: Final[Resets] = MappingProxyType({})


class MetricFamilies:
    """Converts snapshots to families, one per metric name, convention and segment.

    Counters are at 0 for a while, then monotonic: `rate()` misses the increment with which a series
    appears, and treats a sum that is one ulp lower than before as a counter reset. Every scraper
    must therefore first see a new series at 0. Several scrapers may exist, so the series stays at 0
    for a time, not for one scrape.

    `first_exposure`: seconds for which a new series stays at 0, from the first scrape that has it;
    at least two scrape intervals. 0 exports values at once.
    """

    def __init__(self, clock: Callable[[], float], first_exposure: float = FIRST_EXPOSURE) -> None:
        self._clock = clock
        self._first_exposure = first_exposure
        self._exported: dict[ExportedKey, _Exported] = {}
        self._next_rise = math.inf

    @property
    def outdated(self) -> bool:
        """True if a counter that was 0 in the last scrape may rise now."""
        return self._clock() >= self._next_rise

    def resume(self, snapshot: Snapshot) -> None:
        """Start counters at their values in the snapshot; counters at 0 are still new."""
        for counter in _counters_of(snapshot):
            if counter.now is not None and counter.now[1]:
                self._exported[counter.key] = _Exported(-math.inf, *counter.now)

    def leave_out(self, snapshot: Snapshot, resets: Resets) -> None:
        """Start counters at 0 that have values in the snapshot, which others have exported."""
        for counter in _counters_of(snapshot):
            if counter.now is not None:
                total, count = counter.now
                self._exported[counter.key] = _Exported(
                    resets=resets[counter.labels], last=counter.now, more=(-total, -count)
                )

    def families(self, snapshot: Snapshot, resets: Resets = _NEVER) -> list[PrometheusFamily]:
        """Families in the order of the snapshot; windows of a metric follow its counters.

        `resets`: how often what counts these label values was reset.
        """
        families, now, self._next_rise = FamilySet(snapshot), self._clock(), math.inf
        for counter in _counters_of(snapshot):
            samples = families.of(counter.metric, counter.family)
            if counter.now is not None:
                total, count = self._scrape(counter.key, counter.now, resets, now)
                labels = samples.labels(counter.labels)
                for suffix, value in (("_sum", total), ("_count", count)):
                    samples.lists[""].append(Sample(samples.name + suffix, labels, value))
        for entry in snapshot.series:
            if entry.reading.defined and (families.windowed or not entry.metric.counts_up):
                samples = families.of(entry.metric, entry.family)
                window = entry.window if families.windowed else None
                samples.show(entry.reading, samples.labels(entry.labels, window))
        return families.families

    def _scrape(
        self, key: ExportedKey, value: CounterValue, resets: Resets, now: float
    ) -> CounterValue:
        """The exported values of a counter with this total and count; a new one is 0 at first."""
        exported = self._exported.setdefault(key, _Exported())
        if exported.rises is None:
            exported.rises = now + self._first_exposure
        if (times := resets.get(key[1])) is not None:
            value = exported.grow(*value, times)
        if now < exported.rises:
            self._next_rise = min(self._next_rise, exported.rises)
        else:
            exported.total = max(exported.total, value[0])
            exported.count = max(exported.count, value[1])
        return exported.total, exported.count


class _Counter(NamedTuple):
    """A pair of counters in a snapshot, and its current value; None if undefined."""

    key: ExportedKey
    family: int
    metric: Metric
    now: CounterValue | None

    @property
    def labels(self) -> tuple[str, ...]:
        return self.key[1]


def _counters_of(snapshot: Snapshot) -> Iterator[_Counter]:
    """Counters of the series, and of series that have moved to another process."""
    live = set()
    for entry in snapshot.series:
        if entry.window == LIFETIME and entry.metric.counts_up:
            key = (entry.family, entry.labels, entry.metric.text)
            live.add(key)
            total, count = entry.reading.total, entry.reading.count
            now: CounterValue | None = None  # a convention leaves the value undefined
            if total is not None and not math.isnan(total):
                now = (total, count) if math.isfinite(total) else _NOTHING
                if snapshot.counted is not None:
                    now = snapshot.counted.get(key, _NOTHING)
            identity = (snapshot.families[entry.family].name, entry.labels, entry.metric.text)
            yield _Counter(identity, entry.family, entry.metric, now)
    for (family, labels, text), now in (snapshot.counted or {}).items():
        if (family, labels, text) not in live:
            identity = (snapshot.families[family].name, labels, text)
            yield _Counter(identity, family, parse(text), now)
