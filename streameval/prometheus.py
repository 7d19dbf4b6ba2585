"""Accumulators in the Prometheus registry of somebody's own program."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as ClientMetric
from prometheus_client.registry import Collector as ClientCollector

from streameval.embedding import Accumulators, Pictures
from streameval.exporters.operations import undefined_readings
from streameval.exporters.prometheus import client_metric
from streameval.exporters.samples import FIRST_EXPOSURE, Counters, FamilySet, Key, MetricFamilies
from streameval.pipeline.snapshot import Series, Snapshot


class Collector(ClientCollector):
    """Shows accumulators in a registry of prometheus_client, named as the daemon names them.

    A mean is a pair of counters, `streameval_ndcg_sum` and `_count`, with the cut-off as the label
    `k`; what does not add up is a gauge; what has no value has no sample. A new counter stands at 0
    for `first_exposure` before it rises, so that `rate()` and `increase()` of every scraper begin
    there; where something was counted before the Collector was made it begins with that. It never
    falls: an accumulator that is reset goes on from what it had.

    Scrapes come on other threads. The accumulators are made safe for that when they are given (see
    `SharedAccumulator`), the same objects; counting waits only while one is copied. So make the
    Collector before another thread counts.

    Args:
        accumulators: one, or a mapping from label values (a text, or a tuple of them) to
            accumulators. It is looked at anew for each scrape: what is added is shown from the
            second scrape after that on, what is taken out is shown no more.
        labels: names of the labels, for a mapping; a text means one.
        restored: the accumulators hold what another process counted and exported, so their
            counters begin at 0, as those of every new process do.
        first_exposure: seconds for which a new series stands at 0, from the first scrape that shows
            it: at least two scrape intervals.

    Raises:
        NotShownError: labels and keys do not fit each other; when collected, a key that was added.

    Example:
        >>> from prometheus_client import CollectorRegistry, generate_latest
        >>> from streameval import Accumulator
        >>> variants = {"a": Accumulator("hit_rate@2"), "b": Accumulator("hit_rate@2")}
        >>> registry = CollectorRegistry()
        >>> registry.register(Collector(variants, labels="variant", first_exposure=0))
        >>> variants["a"].update(["tea", "milk"], {"milk"})
        >>> print(generate_latest(registry).decode())  # doctest: +ELLIPSIS
        # HELP streameval_hit_rate Share of the lists ...
        # TYPE streameval_hit_rate summary
        streameval_hit_rate_sum{k="2",variant="a"} 1.0
        streameval_hit_rate_count{k="2",variant="a"} 1.0
        streameval_hit_rate_sum{k="2",variant="b"} 0.0
        streameval_hit_rate_count{k="2",variant="b"} 0.0
        <BLANKLINE>
    """

    def __init__(
        self,
        accumulators: Accumulators,
        labels: str | Sequence[str] = (),
        *,
        restored: bool = False,
        first_exposure: float = FIRST_EXPOSURE,
    ) -> None:
        self._lock = threading.Lock()
        self._pictures = Pictures(accumulators, labels, "")
        self._families = MetricFamilies(Counters(time.monotonic, first_exposure))
        self._growth = Growth()
        snapshot = self._pictures.take()
        if restored:
            self._growth.leave_out(snapshot.series)
        else:
            self._families.resume(snapshot)

    def describe(self) -> Iterable[ClientMetric]:
        """The families that there are by now, without samples: what a registry keeps unique."""
        sheet = FamilySet(self._pictures.take())
        return [client_metric(family) for family in sheet.families]

    def collect(self) -> Iterator[ClientMetric]:
        """What every accumulator has come to by now; may be called from several threads."""
        with self._lock:
            snapshot = self._pictures.take()
            families = [
                *self._families.families(self._growth.of(snapshot)),
                undefined_readings(snapshot),
            ]
        return iter([client_metric(family) for family in families if family.samples])


class _Grown(msgspec.Struct):
    """What is added to a total and a count, and what they were when last looked at."""

    more: float = 0.0
    more_count: int = 0
    total: float = 0.0
    count: int = 0


class Growth:
    """Numerators and denominators that only grow, whatever becomes of the accumulators."""

    def __init__(self) -> None:
        self._grown: dict[Key, _Grown] = {}

    def leave_out(self, series: Iterable[Series]) -> None:
        """Begin at 0 here."""
        for entry in series:
            total, count = entry.reading.total, entry.reading.count
            if total is not None and math.isfinite(total):
                key = ("", entry.labels, entry.metric.text)
                self._grown[key] = _Grown(-total, -count, total, count)

    def of(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what was counted since the beginning, before resets included."""
        return msgspec.structs.replace(snapshot, series=tuple(map(self._of, snapshot.series)))

    def _of(self, entry: Series) -> Series:
        total, count = entry.reading.total, entry.reading.count
        if total is None or not math.isfinite(total):
            return entry
        grown = self._grown.setdefault(("", entry.labels, entry.metric.text), _Grown())
        if count < grown.count:
            grown.more += grown.total
            grown.more_count += grown.count
        grown.total, grown.count = total, count
        reading = msgspec.structs.replace(
            entry.reading, total=grown.more + total, count=grown.more_count + count
        )
        return msgspec.structs.replace(entry, reading=reading)


class Exposition:
    """The same as a text by itself, for whoever has no registry.

    Args:
        collectors: what is shown.
    """

    def __init__(self, *collectors: ClientCollector) -> None:
        self._registry = CollectorRegistry()
        for each in collectors:
            self._registry.register(each)

    def exposition(self, _: Snapshot | None = None) -> bytes:
        """Everything there is to scrape, in text format 0.0.4."""
        return generate_latest(self._registry)
