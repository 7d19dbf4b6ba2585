"""The text that Prometheus scrapes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from streameval.exporters.counters import PATIENCE, Counters
from streameval.exporters.evidence import Evidence
from streameval.exporters.operations import build_information, operations
from streameval.exporters.text import Text
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
        self._evidence = Evidence(self._counters)
        self._text = Text()
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
            self._evidence.notice(snapshot)

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
            families += self._evidence.families(snapshot)
            families += operations(snapshot, lag=self._kafka)
        self._body = self._text.of(families)
        self._renderings += 1
