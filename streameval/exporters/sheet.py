"""One rendering: the families that a snapshot has, and where each metric's samples go."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streameval.exporters.families import (
    Family,
    Kind,
    Sample,
    family_name,
    metric_labels,
    slice_labels,
)
from streameval.exporters.sentences import gauge_help, mean_help, summary_help, support_help
from streameval.metric import Metric
from streameval.pipeline.evidence import counts_up
from streameval.pipeline.snapshot import LIFETIME, Snapshot
from streameval.reading import Reading


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Where the samples of one metric go, divided in one way.

    Attributes:
        family: name of the series' family, as saved state knows it.
        name: of the metric, as Prometheus knows it.
        names: of the labels, as exported.
        own: labels that the metric has of itself.
        windowed: whether gauges say their window.
        summary: samples of its counters; unused where it does not count up.
        means: of its means by window; None where there are none.
        supports: of what is behind those; likewise.
        gauge: of its value; None where it counts up.
    """

    family: str
    name: str
    names: tuple[str, ...]
    own: Mapping[str, str]
    windowed: bool
    summary: list[Sample]
    means: list[Sample] | None
    supports: list[Sample] | None
    gauge: list[Sample] | None

    def labels(self, values: tuple[str, ...], window: str | None = None) -> dict[str, str]:
        """Labels of a sample: of its slice, of its metric and, where it has one, its window."""
        found = {**dict(zip(self.names, values, strict=True)), **self.own}
        if window is not None:
            found["window"] = window
        return found

    def show(self, reading: Reading, labels: dict[str, str]) -> None:
        """Add the samples of a value that is no counter."""
        if self.gauge is not None:
            self.gauge.append(Sample(self.name, labels, reading.value))
        elif self.means is not None and self.supports is not None:
            mean = reading.value if reading.total is None else reading.total / reading.count
            self.means.append(Sample(f"{self.name}_window_mean", labels, mean))
            self.supports.append(Sample(f"{self.name}_window_support", labels, reading.count))


class Sheet:
    """The families of one snapshot, without samples at first.

    Args:
        snapshot: decides which there are, and their order.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._metrics = {entry.metric.text: entry.metric for entry in snapshot.series}
        self._windowed = is_windowed(snapshot)
        self._families: dict[str, Family] = {}
        self._samples: dict[str, list[Sample]] = {}
        self._lines: dict[tuple[int, str], Line] = {}
        for entry in snapshot.series:
            self.line(entry.metric, entry.family)

    @property
    def families(self) -> list[Family]:
        """All of them, with the samples that they have by now."""
        return list(self._families.values())

    def line(self, metric: Metric, place: int) -> Line:
        """Where the samples of a metric go.

        Args:
            metric: which one.
            place: of its family in the snapshot.
        """
        found = self._lines.get((place, metric.text))
        if found is None:
            found = self._lines[place, metric.text] = self._line(metric, place)
        return found

    def _line(self, metric: Metric, place: int) -> Line:
        family = self._snapshot.families[place]
        name, up = family_name(metric, family.segment), counts_up(metric)
        by_window = self._windowed and up
        summary = self._of(name, "summary", summary_help(name, metric)) if up else []
        means = self._of(f"{name}_window_mean", "gauge", mean_help(metric)) if by_window else None
        support = f"{name}_window_support"
        return Line(
            family=family.name,
            name=name,
            names=slice_labels(family.label_names, {**self._metrics, metric.text: metric}.values()),
            own=metric_labels(metric),
            windowed=self._windowed,
            summary=summary,
            means=means,
            supports=self._of(support, "gauge", support_help(name, metric)) if by_window else None,
            gauge=None if up else self._of(name, "gauge", gauge_help(metric, self._windowed)),
        )

    def _of(self, name: str, kind: Kind, text: str) -> list[Sample]:
        samples = self._samples.setdefault(name, [])
        self._families.setdefault(name, Family(name, kind, text, samples))
        return samples


def is_windowed(snapshot: Snapshot) -> bool:
    """Whether gauges say their window: where there are windows, or state outlives the process."""
    if snapshot.counted is not None or any(family.windows for family in snapshot.families):
        return True
    return any(entry.window != LIFETIME for entry in snapshot.series)
