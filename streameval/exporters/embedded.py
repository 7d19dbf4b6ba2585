"""A Prometheus collector for accumulators of your program."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector as ClientCollector

from streameval.accumulator import Accumulator
from streameval.engine.snapshot import Health, Series, SeriesFamily, Snapshot
from streameval.events.errors import HalfCountedError, UsageError
from streameval.events.forks import forkable_lock
from streameval.events.ids import is_number
from streameval.exporters.families import (
    FIRST_EXPOSURE,
    FamilySet,
    MetricFamilies,
    PrometheusFamily,
    pipeline_family,
)
from streameval.exporters.names import family_name, same_name
from streameval.exporters.operations import count_undefined
from streameval.exporters.prometheus import Exposition, compress, exposition_of

__all__ = ["Collector"]

Accumulators: TypeAlias = Accumulator | Mapping[Any, Accumulator]
"""One, or a mapping from label values: a string, or a tuple of strings for several labels."""

_LOG: Final = logging.getLogger(__name__)

# Silent in a user's program until it configures logging; Python would print warnings otherwise.
if not logging.getLogger("streameval").handlers:
    logging.getLogger("streameval").addHandler(logging.NullHandler())


class _Read(NamedTuple):
    accumulator: Accumulator
    version: int
    lists: int
    series: tuple[Series, ...]
    warning: str | None
    resets: int


class AccumulatorSnapshots:
    """Takes snapshots of accumulators while other threads count.

    Each changed accumulator is copied under its lock and read from the copy, so that counting only
    waits for the copy.

    `accumulators`: one, or a mapping, which may change at any time.

    Raises:
        UsageError: a key does not match the labels, or two metrics have one name in Prometheus.
    """

    def __init__(
        self, accumulators: Accumulators, labels: str | Sequence[str], source: str
    ) -> None:
        candidate: Any = accumulators
        if not isinstance(candidate, Accumulator | Mapping):
            remedy = "give one Accumulator, or a mapping from label values to them"
            raise _refusal(f"found {candidate!r:.80}", remedy)
        names: Any = (labels,) if isinstance(labels, str) else labels
        if not isinstance(names, Sequence) or not all(isinstance(n, str) and n for n in names):
            raise _refusal(f"labels={labels!r}", "give the name of each label")
        self._labels = tuple(names)
        self._accumulators = accumulators
        self._source = source
        self._started_at = time.time()
        self._lock = forkable_lock()
        self._reads: dict[tuple[str, ...], _Read] = {}
        self._advised = False
        self._version = 0
        self._left_out: list[LeftOut] = []
        self._reported: set[str] = set()
        pairs = self._pairs()
        for key, _ in pairs:
            _values(key, self._labels)
        alike = same_name(metric for _, accumulator in pairs for metric in accumulator.metrics)
        if alike is not None:
            texts = " and ".join(repr(metric.text) for metric in alike)
            problem = f"{texts} are both {family_name(alike[1])} in Prometheus"
            raise _refusal(problem, "rename one")

    def take(self) -> Snapshot:
        """A snapshot of all readings; thread-safe."""
        with self._lock:
            self._read_all()
            self._version += 1
            by_metric: dict[str, list[Series]] = {}
            for entry in chain.from_iterable(read.series for read in self._reads.values()):
                by_metric.setdefault(entry.metric.text, []).append(entry)
            return Snapshot(
                version=self._version,
                taken_at=time.time(),
                started_at=self._started_at,
                source=self._source,
                families=(SeriesFamily("labels", None, self._labels),),
                series=tuple(chain.from_iterable(by_metric.values())),
                health=self._health(),
            )

    @property
    def unexported(self) -> Mapping[str, int]:
        """Accumulators that the last snapshot leaves out, by each reason there has been."""
        reasons = [left_out.reason for left_out in self._left_out]
        return {reason: reasons.count(reason) for reason in sorted(self._reported)}

    def resets(self) -> dict[tuple[str, ...], int]:
        """The resets of each accumulator up to the last snapshot, by label values."""
        return {labels: read.resets for labels, read in self._reads.items()}

    def _read_all(self) -> None:
        """Read what has changed; one that cannot be read must not hide the others."""
        before, reads, self._left_out = self._reads, [], []
        for key, accumulator in self._pairs():
            try:
                labels = _values(key, self._labels)
                reads.append((labels, _read(labels, accumulator, before.get(labels))))
            except Exception as error:  # noqa: BLE001  a metric of the user's may raise anything
                self._left_out.append(left_out := LeftOut(key, error))
                if left_out.reason not in self._reported:
                    self._reported.add(left_out.reason)
                    _LOG.warning("%s", left_out)
        self._reads = dict(sorted(reads, key=lambda read: read[0]))

    def _pairs(self) -> list[tuple[Any, Accumulator]]:
        if isinstance(self._accumulators, Accumulator):
            return [((), self._accumulators)]
        # Copied, because the owner may change the mapping meanwhile.
        return list(self._accumulators.items())

    def _health(self) -> Health:
        lists = sum(read.lists for read in self._reads.values())
        advice = next((read.warning for read in self._reads.values() if read.warning), None)
        if advice is not None and not self._advised:
            # Logged once, because its number grows; the page shows it as long as it holds.
            self._advised = True
            _LOG.warning("%s", advice)
        problem = str(self._left_out[0]) if self._left_out else advice
        return Health(consumed=lists, valid=lists, trouble=problem)


class LeftOut(NamedTuple):
    """An accumulator that is not exported."""

    key: object
    error: Exception

    @property
    def reason(self) -> str:
        """The kind of the error, in a word, for a label."""
        if isinstance(self.error, UsageError):
            return "labels"
        return "half_counted" if isinstance(self.error, HalfCountedError) else "error"

    def __str__(self) -> str:
        what = "" if self.key == () else f" of {self.key!r:.80}"
        return f"the accumulator{what} is not exported: {self.error}"


def _read(labels: tuple[str, ...], accumulator: Accumulator, last: _Read | None) -> _Read:
    """The last reading, unless the accumulator has changed since."""
    # The version first, so that events counted before the copy are read again, not lost.
    version = accumulator.version
    if last is not None and last.accumulator is accumulator and last.version == version:
        return last
    copy = accumulator.copy()
    series = tuple(Series(metric, labels, copy.read(metric.text)) for metric in copy.metrics)
    return _Read(accumulator, version, copy.lists, series, copy.advice(), copy.resets)


def _refusal(problem: str, remedy: str) -> UsageError:
    return UsageError(f"these accumulators cannot be exported: {problem}; {remedy}.")


def _values(key: Any, labels: tuple[str, ...]) -> tuple[str, ...]:
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(labels) or not all(isinstance(value, str) for value in values):
        problem = f"the key {key!r} does not match the labels {', '.join(labels) or 'none'}"
        remedy = "give labels=, and as key a string, or a tuple with one string per label"
        raise _refusal(problem, remedy)
    for value in values:
        try:
            value.encode()
        except UnicodeEncodeError:
            remedy = "decode it with errors='replace' before it becomes a key"
            raise _refusal(f"the key has {value!r:.80}, which is not UTF-8", remedy) from None
    return values


class Collector(ClientCollector):
    """Exports accumulators to a registry of prometheus_client, with the names of the daemon.

    A mean is a pair of counters, `streameval_ndcg_sum` and `_count`, with the cut-off as the label
    `k`; a value that does not add up is a gauge; an undefined value has no sample. A new counter is
    0 for `first_exposure`, so that every scraper sees it rise; counts from before the Collector was
    created are exported at once. Counters never fall, even if an accumulator is reset.

    Scrapes run on other threads; counting waits only while an accumulator is copied.

    Args:
        accumulators: one, or a mapping from label values (a string or a tuple of strings) to
            accumulators. Every scrape reads the mapping again.
        labels: names of the labels of the mapping; a string is one label.
        restored: whether another process has exported these counts; counters then start at 0.
        first_exposure: seconds for which a new series is 0, from its first scrape on; at least two
            scrape intervals.

    Raises:
        UsageError: an argument is not valid, or a key does not match the labels. A key added
            later that does not match, and an accumulator that cannot be read, are left out, which
            the log says once and `streameval_unexported` counts.

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
        if not is_number(first_exposure) or first_exposure < 0:
            raise _refusal(f"first_exposure={first_exposure!r}", "give seconds, 0 or more")
        self._lock = forkable_lock()
        self._snapshots = AccumulatorSnapshots(accumulators, labels, "")
        self._families = MetricFamilies(time.monotonic, first_exposure)
        snapshot = self._snapshots.take()
        if restored:
            self._families.leave_out(snapshot, self._snapshots.resets())
        else:
            self._families.resume(snapshot)

    def describe(self) -> Iterable[PrometheusFamily]:
        """The current families without samples, for the registry's check of duplicate names."""
        with self._lock:
            return FamilySet(self._snapshots.take()).families

    def collect(self) -> Iterator[PrometheusFamily]:
        """The families with their samples; thread-safe."""
        with self._lock:
            snapshot = self._snapshots.take()
            unexported = self._snapshots.unexported.items()
            families = [
                *self._families.families(snapshot, self._snapshots.resets()),
                count_undefined(snapshot),
                pipeline_family(
                    "unexported",
                    "gauge",
                    "Accumulators that are not exported, by reason: labels (a key that does not "
                    "match), half_counted (an exception stopped a change), error. Absent if there "
                    "never was one.",
                    [({"reason": reason}, float(count)) for reason, count in unexported],
                ),
            ]
        return iter([family for family in families if family.samples])


def exposition(collector: ClientCollector) -> Exposition:
    """A function that renders a collector, for the web application."""
    registry = CollectorRegistry()
    registry.register(collector)

    def render(_: Snapshot | None, /, *, openmetrics: bool = False, packed: bool = False) -> bytes:
        text = exposition_of(registry, openmetrics=openmetrics)
        return compress(text) if packed else text

    return render
