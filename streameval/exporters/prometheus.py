"""The exposition that Prometheus scrapes, rendered once per snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client import Metric as ClientMetric
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
        self._body = b""
        self._version: int | None = -1

    def exposition(self, snapshot: Snapshot | None) -> bytes:
        """All samples, in text format 0.0.4.

        `snapshot`: None for process metrics only.
        """
        body = self._body_of(snapshot)
        if snapshot is not None:
            age = max(0.0, self._wall() - snapshot.taken_at)
            body += self._age.of([snapshot_age(age)])
        return body + generate_latest(self._process)

    def _body_of(self, snapshot: Snapshot | None) -> bytes:
        with self._lock:
            version = None if snapshot is None else snapshot.version
            if version != self._version or self._counters.outdated:
                self._render(snapshot)
                self._version = version
            return self._body

    def _render(self, snapshot: Snapshot | None) -> None:
        families = [self._build]
        if snapshot is not None:
            families += self._families.families(snapshot)
            families += operations(snapshot, lag=self._kafka)
        self._body = self._text.of(families)


_Head = tuple[Mapping[str, str], str]


class Text:
    """Writes families in text format 0.0.4, and caches all of a line except its number.

    Names and labels are most of the work and do not change between scrapes. The cache identifies
    labels by object identity, so equal labels should be the same object.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[str, int], _Head] = {}

    def of(self, families: Iterable[SampleFamily]) -> bytes:
        """The text; a family without samples is left out, including its HELP and TYPE."""
        heads: dict[tuple[str, int], _Head] = {}
        lines = []
        for family in families:
            if not family.samples:
                continue
            name = f"{family.name}_total" if family.kind == "counter" else family.name
            help_text = _escape(family.help)
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
    quoted = ((name, _escape(value).replace('"', r"\"")) for name, value in sample.labels.items())
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(quoted))
    return f"{sample.name}{{{labels}}}" if labels else sample.name


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
