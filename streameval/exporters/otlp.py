"""Sends the families of /metrics by OTLP, configured by environment variables of OpenTelemetry."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from opentelemetry.exporter.otlp.proto.http import metric_exporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.registry import Collector

from streameval.events.errors import UsageError
from streameval.events.printable import without_user
from streameval.exporters.families import PrometheusFamily
from streameval.exporters.operations import scalar_family

_LOG: Final = logging.getLogger(__name__)
_UNITS: Final = {"seconds": "s", "bytes": "By", "ratio": "1"}
"""Last word of a name -> its unit in UCUM, as OTLP writes it."""

_LAST_SECONDS, _LAST_SECONDS_AWAY = 5.0, 1.0
"""Seconds that the last export may take, and those where the one before has failed."""

_POINTS: Final = 5_000
"""Data points of one request, about a megabyte: some collectors take at most four."""


class OtlpExporter(Collector):
    """Sends families at intervals, and once more when it stops.

    The SDK is not asked to aggregate: it would fold series above a number of its own. Sums are
    cumulative since `start`, and have the names that they have in /metrics.

    `families`: the families to send, called on a thread of its own. `resource`: attributes that
    OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME can override. `environment`: its variables.
    `observe`: called with the reason when an export fails, and with None when one succeeds again.

    Raises:
        UsageError: a variable has a value that cannot be followed.
    """

    def __init__(
        self,
        families: Callable[[], Iterable[PrometheusFamily]],
        resource: Mapping[str, str],
        environment: Mapping[str, str],
        observe: Callable[[str | None], None],
    ) -> None:
        self._families, self._observe = families, observe
        self._interval = _interval(environment)
        _check(environment)
        self._resource = Resource.create({**resource, **OTELResourceDetector().detect().attributes})
        self._exporter = metric_exporter.OTLPMetricExporter(max_export_batch_size=_POINTS)
        self._start = time.time_ns()
        self._failures, self._fails = 0, False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streameval-otlp", daemon=True)

    def collect(self) -> Iterator[PrometheusFamily]:
        """The number of failed exports, for /metrics."""
        yield scalar_family("otlp_failures_total", self._failures)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Send the last values, and stop; an endpoint that is away delays the end a second."""
        self._stopping.set()
        self._thread.join(_LAST_SECONDS_AWAY if self._fails else _LAST_SECONDS)
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            self._send()
        self._send()

    def _send(self) -> None:
        with _ExporterLog() as log:
            try:
                metrics = list(metrics_of(self._families(), self._start, time.time_ns()))
                scope = ScopeMetrics(InstrumentationScope("streameval"), metrics, "")
                data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
                result = self._exporter.export(data)
            except Exception:  # noqa: BLE001  an analysis of somebody's may raise anything
                _LOG.exception("values cannot be sent by OTLP")
                result = MetricExportResult.FAILURE
        failed = result is not MetricExportResult.SUCCESS
        self._failures += failed
        if failed != self._fails:
            self._fails = failed
            self._observe(log.first or "see the log" if failed else None)


def metrics_of(families: Iterable[PrometheusFamily], start: int, now: int) -> Iterator[Metric]:
    """Families as metrics of OTLP: a sum for each sum and count, gauges as they are.

    `start`: of sums; `now`: of the values; both in nanoseconds since the epoch.
    """
    for family in families:
        points: dict[str, list[NumberDataPoint]] = {}
        for sample in family.samples:
            began = 0 if family.type == "gauge" else start  # 0: none
            point = NumberDataPoint(sample.labels, began, now, float(sample.value))
            points.setdefault(sample.name, []).append(point)
        unit = _UNITS.get(family.name.rpartition("_")[2], "")
        for name, of_name in points.items():
            data = (
                Gauge(of_name)
                if family.type == "gauge"
                else Sum(of_name, AggregationTemporality.CUMULATIVE, is_monotonic=True)
            )
            yield Metric(name, family.documentation, unit, data)


class _ExporterLog(logging.Handler):
    """Takes what the exporter logs of one export; it says each attempt, every minute."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ""
        self._logger = logging.getLogger(metric_exporter.__name__)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first message, which has the cause."""
        self.first = self.first or without_user(record.getMessage())

    def __enter__(self) -> Self:
        self._logger.addHandler(self)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True


def _interval(environment: Mapping[str, str]) -> float:
    """Seconds between exports."""
    text = environment.get("OTEL_METRIC_EXPORT_INTERVAL") or "60000"
    try:
        seconds = float(text) / 1_000
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < threading.TIMEOUT_MAX:
        problem = f"found {text!r}; give milliseconds, for example 60000."
        raise UsageError(f"OTEL_METRIC_EXPORT_INTERVAL: {problem}")
    return seconds


_ALLOWED: Final = {
    "PROTOCOL": ("http/protobuf", "only http/protobuf is written, which collectors convert"),
    "TEMPORALITY_PREFERENCE": ("cumulative", "only cumulative is written; collectors convert it"),
    "ENDPOINT": ("https?://.+", "give a URL, for example http://collector:4318"),
    "COMPRESSION": ("none|gzip|deflate", "give none, gzip or deflate"),
    "TIMEOUT": (r"\d+(\.\d+)?", "give seconds, for example 10"),
}
"""Last words of a variable -> the values that can be followed, and what to do about others."""

_FILES: Final = ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")


def _check(environment: Mapping[str, str]) -> None:
    """Refuse values with which each export would fail, or that would be passed over."""
    for name, (pattern, remedy) in _ALLOWED.items():
        variable, value = _variable(environment, name)
        if value and not re.fullmatch(pattern, value.strip(), re.IGNORECASE):
            raise UsageError(f"{variable}: found {value!r}; {remedy}.")
    for name in _FILES:
        variable, value = _variable(environment, name)
        if value and not Path(value).is_file():
            raise UsageError(f"{variable}: no file {value!r}; give the path of a PEM file.")


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """The variable of metrics, else that of all signals, and its value; empty without either."""
    for_metrics, for_all = f"OTEL_EXPORTER_OTLP_METRICS_{name}", f"OTEL_EXPORTER_OTLP_{name}"
    variable = for_metrics if environment.get(for_metrics) else for_all
    return variable, environment.get(variable, "")
