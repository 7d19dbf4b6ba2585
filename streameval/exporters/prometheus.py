"""The exposition that Prometheus scrapes, rendered once per snapshot."""

from __future__ import annotations

import gzip
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, Protocol, cast

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from streameval.engine.snapshot import Snapshot
from streameval.exporters.families import (
    FIRST_EXPOSURE,
    MetricFamilies,
    PrometheusFamily,
)
from streameval.exporters.operations import family, memory_limit, operations, scalar_family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Exposition(Protocol):
    """All samples of a snapshot, in text format 0.0.4 or in OpenMetrics 1.0.0, or in gzip."""

    def __call__(
        self, snapshot: Snapshot | None, /, *, openmetrics: bool = False, packed: bool = False
    ) -> bytes:
        """None: only what is known without a snapshot."""
        ...


def compress(content: bytes) -> bytes:
    """The content in gzip, at its quickest level."""
    return gzip.compress(content, 1, mtime=0)


class _Beginning:
    """The beginning of an exposition, which is compressed once, whatever follows it."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def with_end(self, end: bytes, *, packed: bool) -> bytes:
        """The whole exposition."""
        if not packed:
            return self._text + end
        packed_text, packer = self._packed
        packer = packer.copy()
        return b"".join([packed_text, packer.compress(end), packer.flush()])

    @cached_property
    def _packed(self) -> tuple[bytes, zlib._Compress]:
        packer = zlib.compressobj(1, wbits=_GZIP)
        return packer.compress(self._text), packer


_GZIP: Final = 16 + zlib.MAX_WBITS


def prefers_openmetrics(accept: str) -> bool:
    """True if an `Accept` is answered in OpenMetrics, as by prometheus_client."""
    _, kind = choose_encoder(accept)
    return kind.startswith("application/openmetrics-text")


def exposition_of(registry: Collector, *, openmetrics: bool) -> bytes:
    """All samples of a registry."""
    generate = generate_openmetrics if openmetrics else generate_latest
    return cast("bytes", generate(registry))  # the client's have no types


class PrometheusExporter:
    """Renders snapshots as Prometheus exposition, with a private registry for process metrics.

    One rendering serves every scrape of a snapshot, also concurrent ones. Thread-safe.

    `kafka`: whether the source is Kafka; only then is there a `streameval_kafka_consumer_lag`.
    `counters`: whether to include them, and summaries; a reader of states whose replicas have
    counters must not. `clock`: monotonic; `wall`: seconds since the epoch. `first_exposure`:
    seconds for which a new series stays at 0.
    """

    def __init__(
        self,
        *,
        version: str,
        kafka: bool = False,
        counters: bool = True,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        first_exposure: float = FIRST_EXPOSURE,
    ) -> None:
        self._build = family("build_info", [({"version": version}, 1.0)])
        self._kafka, self._all = kafka, counters
        self._families = MetricFamilies(clock, first_exposure)
        self._wall = wall
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self._process.register(_Collected([memory_limit()]))
        self._lock = threading.Lock()
        self._rendered: Sequence[PrometheusFamily] = ()
        self._bodies: dict[bool, _Beginning] = {}
        self._version: int | None = -1

    def register(self, collector: Collector) -> None:
        """Add families that do not come from snapshots."""
        self._process.register(collector)

    def families(self, snapshot: Snapshot | None) -> list[PrometheusFamily]:
        """The families with their samples, for another protocol; None as for `exposition`."""
        with self._lock:
            self._convert(snapshot)
            of_snapshot = self._rendered
        return [*_Collected([*of_snapshot, *self._at_scrape(snapshot)]).collect()]

    def exposition(
        self, snapshot: Snapshot | None, *, openmetrics: bool = False, packed: bool = False
    ) -> bytes:
        """All samples, in text format 0.0.4 or in OpenMetrics 1.0.0, or in gzip.

        `snapshot`: None for process metrics only.
        """
        with self._lock:
            self._convert(snapshot)
            if openmetrics not in self._bodies:
                text = exposition_of(_Collected(self._rendered), openmetrics=openmetrics)
                self._bodies[openmetrics] = _Beginning(text.removesuffix(b"# EOF\n"))
            body = self._bodies[openmetrics]
        last = exposition_of(_Collected(self._at_scrape(snapshot)), openmetrics=openmetrics)
        return body.with_end(last, packed=packed)

    def _at_scrape(self, snapshot: Snapshot | None) -> Iterator[PrometheusFamily]:
        """Families whose values are of the time when they are read."""
        if snapshot is not None:
            yield scalar_family("snapshot_age_seconds", max(0.0, self._wall() - snapshot.taken_at))
        yield from self._process.collect()

    def _convert(self, snapshot: Snapshot | None) -> None:
        version = None if snapshot is None else snapshot.version
        if version == self._version and not self._families.outdated:
            return
        families = [self._build]
        if snapshot is not None:
            pipeline = operations(snapshot, lag=self._kafka)
            families += [*self._families.families(snapshot), *pipeline]
            if not self._all:
                families = [entry for entry in families if entry.type == "gauge"]
        self._rendered, self._bodies, self._version = families, {}, version


class _Collected(Collector):
    """The families that have samples; others would be written with HELP and TYPE alone."""

    def __init__(self, families: Iterable[PrometheusFamily]) -> None:
        self._families = [entry for entry in families if entry.samples]

    def collect(self) -> Iterator[PrometheusFamily]:
        yield from self._families
