"""The exposition that Prometheus scrapes, rendered once per snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, cast

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client import Metric as ClientMetric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample as ClientSample
from prometheus_client.utils import floatToGoString

from streameval.engine.snapshot import Snapshot
from streameval.exporters.families import (
    FIRST_EXPOSURE,
    Counters,
    MetricFamilies,
    Sample,
    SampleFamily,
)
from streameval.exporters.operations import (
    build_information,
    memory_limit,
    operations,
    snapshot_age,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Exposition(Protocol):
    """All samples of a snapshot, in text format 0.0.4 or in OpenMetrics 1.0.0."""

    def __call__(self, snapshot: Snapshot | None, /, *, openmetrics: bool = False) -> bytes:
        """None: only what is known without a snapshot."""


def exposition_of(registry: CollectorRegistry, *, openmetrics: bool) -> bytes:
    """All samples of a registry."""
    generate = generate_openmetrics if openmetrics else generate_latest
    return cast("bytes", generate(registry))  # the client's have no types


class PrometheusExporter:
    """Renders snapshots as Prometheus exposition, with a private registry for process metrics.

    One rendering serves every scrape of a snapshot, also concurrent ones. Thread-safe.

    `kafka`: whether the source is Kafka; only then is there a `streameval_kafka_consumer_lag`.
    `clock`: monotonic; `wall`: seconds since the epoch. `first_exposure`: seconds for which a new
    series stays at 0.
    """

    def __init__(
        self,
        *,
        version: str,
        kafka: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        first_exposure: float = FIRST_EXPOSURE,
    ) -> None:
        self._build = build_information(version)
        self._kafka = kafka
        self._counters = Counters(clock, first_exposure)
        self._families = MetricFamilies(self._counters)
        self._text, self._age = Text(), Text()
        self._wall = wall
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self._process.register(_Families([memory_limit()]))
        self._lock = threading.Lock()
        self._rendered: Sequence[SampleFamily] = ()
        self._bodies: dict[bool, bytes] = {}
        self._version: int | None = -1

    def exposition(self, snapshot: Snapshot | None, *, openmetrics: bool = False) -> bytes:
        """All samples, in text format 0.0.4 or in OpenMetrics 1.0.0.

        `snapshot`: None for process metrics only.
        """
        body = self._body_of(snapshot, openmetrics=openmetrics)
        if snapshot is not None:
            age = max(0.0, self._wall() - snapshot.taken_at)
            body += self._age.of([snapshot_age(age)], openmetrics=openmetrics)
        return body + exposition_of(self._process, openmetrics=openmetrics)

    def _body_of(self, snapshot: Snapshot | None, *, openmetrics: bool) -> bytes:
        with self._lock:
            version = None if snapshot is None else snapshot.version
            if version != self._version or self._counters.outdated:
                self._rendered, self._bodies = self._families_of(snapshot), {}
                self._version = version
            if openmetrics not in self._bodies:
                self._bodies[openmetrics] = self._text.of(self._rendered, openmetrics=openmetrics)
            return self._bodies[openmetrics]

    def _families_of(self, snapshot: Snapshot | None) -> Sequence[SampleFamily]:
        if snapshot is None:
            return [self._build]
        pipeline = operations(snapshot, lag=self._kafka)
        return [self._build, *self._families.families(snapshot), *pipeline]


_Head = tuple[Mapping[str, str], str]


class Text:
    """Writes families, and caches all of a line except its number.

    Names and labels are most of the work and do not change between scrapes. The cache identifies
    labels by object identity, so equal labels should be the same object.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[str, int], _Head] = {}

    def of(self, families: Iterable[SampleFamily], *, openmetrics: bool = False) -> bytes:
        """The text; a family without samples is left out, including its HELP and TYPE.

        In OpenMetrics the name of a counter is without _total, and quotes in HELP are escaped.
        """
        heads: dict[tuple[str, int], _Head] = {}
        lines = []
        for family in families:
            if not family.samples:
                continue
            has_suffix = family.kind == "counter" and not openmetrics
            name = f"{family.name}_total" if has_suffix else family.name
            help_text = _quoted(family.help) if openmetrics else _escape(family.help)
            lines.append(f"# HELP {name} {help_text}\n# TYPE {name} {family.kind}\n")
            for sample in family.samples:
                key = (sample.name, id(sample.labels))
                # The cache keeps its labels alive, so no other object can have their id.
                head = heads[key] = self._heads.get(key) or (sample.labels, _head(sample))
                number = floatToGoString(sample.value)  # type: ignore[no-untyped-call]  # the client's
                lines.append(f"{head[1]} {number}\n")
        self._heads = heads
        return "".join(lines).encode()


def _head(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_quoted(value)}"' for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else sample.name


def _quoted(text: str) -> str:
    return _escape(text).replace('"', r"\"")


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def client_metric(family: SampleFamily) -> ClientMetric:
    """The family as a metric of prometheus_client."""
    metric = ClientMetric(family.name, family.help, family.kind)
    metric.samples = [
        ClientSample(*sample)  # type: ignore[arg-type]  # it only reads the labels
        for sample in family.samples
    ]
    return metric


class _Families(Collector):
    def __init__(self, families: Sequence[SampleFamily]) -> None:
        self.families = families

    def collect(self) -> Iterator[ClientMetric]:
        yield from map(client_metric, self.families)
