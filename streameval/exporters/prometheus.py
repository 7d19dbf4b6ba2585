"""The text that Prometheus scrapes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client import Metric as ClientMetric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample as ClientSample

from streameval.exporters.counters import PATIENCE, Counters
from streameval.exporters.evidence import evidence, notice
from streameval.exporters.families import Family
from streameval.exporters.operations import build_information, operations
from streameval.pipeline.snapshot import Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class PrometheusExporter:
    """Snapshots as Prometheus exposition, in a registry of its own.

    One rendering serves every scrape of a snapshot, concurrent ones included. May be used from
    several threads.

    Args:
        version: the release, for `streameval_build_info`.
        kafka: whether the source is a Kafka cluster; only then is there a
            `streameval_kafka_consumer_lag`, which means nothing for files and the simulator.
        clock: monotonic seconds.
        patience: seconds that a new counter waits at 0 for its first scrape.
    """

    def __init__(
        self,
        *,
        version: str,
        kafka: bool = False,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self._build = build_information(version)
        self._kafka = kafka
        self._counters = Counters(clock, patience)
        self._pages = _Families()
        self._process = ProcessCollector(registry=None)
        self._lock = threading.Lock()
        self._body = b""
        self._rendered: int | None = None
        self._renderings = 0

    @property
    def renderings(self) -> int:
        """How often a snapshot has been rendered."""
        return self._renderings

    def observe(self, snapshot: Snapshot) -> None:
        """Notice new counters between scrapes, so that none waits at 0 for longer than it may."""
        with self._lock:
            notice(snapshot, self._counters)

    def exposition(self, snapshot: Snapshot | None) -> bytes:
        """Everything there is to scrape, in text format 0.0.4.

        Args:
            snapshot: what is shown; without one, only the process itself is.
        """
        if snapshot is None:
            return self._text([self._build]) + self._process_text()
        return self._body_of(snapshot) + self._process_text()

    def _body_of(self, snapshot: Snapshot) -> bytes:
        before = self._renderings
        with self._lock:
            same = self._rendered == snapshot.version
            shared = before != self._renderings
            if not same or (self._counters.at_zero and not shared):
                self._render(snapshot)
            return self._body

    def _render(self, snapshot: Snapshot) -> None:
        families = evidence(snapshot, self._counters)
        families += operations(snapshot, lag=self._kafka)
        self._body = self._text([*families, self._build])
        self._rendered = snapshot.version
        self._renderings += 1

    def _text(self, families: Iterable[Family]) -> bytes:
        registry = CollectorRegistry()
        registry.register(_Families(families))
        return generate_latest(registry)

    def _process_text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self._process)
        return generate_latest(registry)


class _Families(Collector):
    """A collector of families that are there already."""

    def __init__(self, families: Iterable[Family] = ()) -> None:
        self._families = families

    def describe(self) -> Iterable[ClientMetric]:
        return ()

    def collect(self) -> Iterator[ClientMetric]:
        for family in self._families:
            if family.samples:
                metric = ClientMetric(family.name, family.help, family.kind)
                metric.samples = [ClientSample(*sample) for sample in family.samples]  # type: ignore[arg-type]
                yield metric
