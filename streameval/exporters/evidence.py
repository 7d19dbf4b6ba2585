"""The metrics of a snapshot as families of Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

from streameval.catalogue import parse
from streameval.exporters.counters import Counters, Key
from streameval.exporters.families import Family, Sample
from streameval.exporters.sheet import Line, Sheet
from streameval.metric import Metric
from streameval.pipeline.evidence import counts_up
from streameval.pipeline.snapshot import LIFETIME, Counted, Series, Snapshot
from streameval.reading import Reading

Labels: TypeAlias = dict[str, str]

_NOTHING: Counted = (0.0, 0)
_Place: TypeAlias = tuple[str, tuple[str, ...], str, str | None]


class _Counter(NamedTuple):
    """A pair of counters that a snapshot has, and what it has come to; None where undefined."""

    place: int
    labels: tuple[str, ...]
    metric: Metric
    now: Counted | None


class Evidence:
    """Turns snapshots into families, one per metric name, convention and segment.

    Args:
        counters: what scrapes were told before.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._labels: dict[_Place, Labels] = {}

    def notice(self, snapshot: Snapshot) -> None:
        """Remember the counters of a snapshot as seen."""
        sheet = Sheet(snapshot)
        for counter in _counters_of(snapshot):
            self._noticed(counter, sheet.line(counter.metric, counter.place))

    def families(self, snapshot: Snapshot) -> list[Family]:
        """In the order of the snapshot; windows of a metric stand after its counters."""
        sheet = Sheet(snapshot)
        self._counters.begin_scrape()
        for counter in _counters_of(snapshot):
            self._add_counter(counter, sheet.line(counter.metric, counter.place))
        before, self._labels = self._labels, {}
        for entry in snapshot.series:
            if entry.reading.defined:
                self._add_gauge(entry, sheet.line(entry.metric, entry.family), before)
        return sheet.families

    def _noticed(self, counter: _Counter, line: Line) -> Key:
        key = (line.family, counter.labels, counter.metric.text)
        if key not in self._counters:
            self._counters.notice(key, line.labels(counter.labels))
        return key

    def _add_counter(self, counter: _Counter, line: Line) -> None:
        key = self._noticed(counter, line)
        if counter.now is not None:
            exported = self._counters.scraped(key, *counter.now)
            line.summary.append(Sample(f"{line.name}_sum", exported.labels, exported.total))
            line.summary.append(Sample(f"{line.name}_count", exported.labels, exported.count))

    def _add_gauge(self, entry: Series, line: Line, before: Mapping[_Place, Labels]) -> None:
        if line.gauge is None and line.means is None:
            return
        window = entry.window if line.windowed else None
        place = (line.family, entry.labels, entry.metric.text, window)
        labels = before.get(place)
        if labels is None:
            labels = line.labels(entry.labels, window)
        self._labels[place] = labels
        line.show(entry.reading, labels)


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
