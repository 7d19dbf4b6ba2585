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
        self._families = _Families()
        self._registry = CollectorRegistry()
        self._registry.register(self._families)
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self._lock = threading.Lock()
        self._body = b""
        self._version: int | None = -1
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
        return self._body_of(snapshot) + generate_latest(self._process)

    def _body_of(self, snapshot: Snapshot | None) -> bytes:
        before = self._renderings
        with self._lock:
            shared = before != self._renderings
            version = None if snapshot is None else snapshot.version
            if version != self._version or (self._counters.at_zero and not shared):
                self._render(snapshot)
                self._version = version
            return self._body

    def _render(self, snapshot: Snapshot | None) -> None:
        families = [self._build]
        if snapshot is not None:
            families += evidence(snapshot, self._counters)
            families += operations(snapshot, lag=self._kafka)
        self._families.families = families
        self._body = generate_latest(self._registry)
        self._renderings += 1


class _Families(Collector):
    """A collector of families that are there already."""

    def __init__(self) -> None:
        self.families: Iterable[Family] = ()

    def collect(self) -> Iterator[ClientMetric]:
        for family in self.families:
            if family.samples:
                metric = ClientMetric(family.name, family.help, family.kind)
                metric.samples = [
                    ClientSample(*sample)  # type: ignore[arg-type]  # it only reads the labels
                    for sample in family.samples
                ]
                yield metric
