"""What is sent by OTLP: received over HTTP and compared with /metrics sample by sample."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from prometheus_client.parser import text_string_to_metric_families

from streameval.events.errors import UsageError
from streameval.exporters.otlp import OtlpExporter
from streameval.exporters.prometheus import PrometheusExporter
from tests.cli.program import command
from tests.daemon.running import running
from tests.exporters.pictures import (
    STARTED,
    busy_health,
    mean,
    picture,
    property_of_all,
    refused_value,
    windowed,
)
from tests.exposition import Samples, samples_of
from tests.house.extras import run_with_extras
from tests.ports import free_port
from tests.processes import finished


class Collector:
    """Receives what is sent to /v1/metrics, and keeps each request with its headers."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], ExportMetricsServiceRequest]] = []

    @contextmanager
    def listening(self, port: int = 0) -> Iterator[str]:
        received = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                found = self.path == "/v1/metrics"
                if found:
                    request = ExportMetricsServiceRequest.FromString(body)
                    received.append(({k.lower(): v for k, v in self.headers.items()}, request))
                self.send_response(200 if found else 404)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{server.server_address[1]}"
            server.shutdown()
            thread.join()

    def metrics(self) -> list[Metric]:
        """Those of all requests so far."""
        return [
            metric
            for _, request in self.requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]


def samples(metrics: list[Metric]) -> Samples:
    """Name and labels -> value; each once."""
    pairs = [
        (
            metric.name,
            frozenset((label.key, label.value.string_value) for label in point.attributes),
            point.as_double,
        )
        for metric in metrics
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points
    ]
    read = {(name, labels): value for name, labels, value in pairs}
    assert len(read) == len(pairs)
    return read


@pytest.fixture
def collector() -> Collector:
    return Collector()


def send(exporter: PrometheusExporter, **environment: str) -> list[str | None]:
    """Send the families of a snapshot once; returns what was observed."""
    observed: list[str | None] = []
    resource = {"service.name": "streameval", "service.version": "1"}
    with OtlpExporter(lambda: exporter.families(_SNAPSHOT), resource, environment, observed.append):
        pass
    return observed


_MEAN = mean("ndcg@10", ("a",), 2.5, 4)
_SNAPSHOT = picture(
    _MEAN,
    windowed(_MEAN, "5m"),
    mean("mrr", ("a",), 0.0, 0),
    property_of_all("distinct_items", ("a",), 3.0),
    property_of_all("distinct_items", ("b",), float("nan")),
    refused_value("capri:recall@5", ("a",)),
    windows=["5m"],
    state=busy_health(),
)


def test_the_samples_of_metrics_arrive_with_their_labels_values_and_types(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = PrometheusExporter(
        version="1", kafka=True, first_exposure=0, wall=lambda: STARTED + 3.0
    )
    with collector.listening() as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        assert send(exporter) == []
    metrics = collector.metrics()
    exposition = exporter.exposition(_SNAPSHOT).decode()
    families = list(text_string_to_metric_families(exposition))
    scraped = samples_of(exposition)
    received = samples(metrics)
    assert received.keys() == scraped.keys()
    ours = {key for key in scraped if key[0].startswith("streameval_")}
    assert {key: received[key] for key in ours} == {key: scraped[key] for key in ours}
    sums = {
        sample.name
        for family in families
        if family.type in ("counter", "summary")
        for sample in family.samples
    }
    for metric in metrics:
        if metric.name in sums:
            assert metric.sum.is_monotonic
            temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
            assert metric.sum.aggregation_temporality == temporality
            assert all(
                0 < point.start_time_unix_nano <= point.time_unix_nano
                for point in metric.sum.data_points
            )
        else:
            assert metric.HasField("gauge")
            assert all(not point.start_time_unix_nano for point in metric.gauge.data_points)
    units = {metric.name: metric.unit for metric in metrics}
    assert [
        units[name]
        for name in (
            "streameval_ndcg_sum",
            "streameval_snapshot_age_seconds",
            "streameval_attributes_unknown_ratio",
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
        )
    ] == ["", "s", "1", "s", "By"]


def test_more_series_than_the_sdk_would_keep_arrive_whole(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = picture(*(mean("mrr", (f"{number}",), number, 9) for number in range(6_000)))
    exporter = PrometheusExporter(version="1", first_exposure=0)
    with collector.listening() as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with OtlpExporter(lambda: exporter.families(many), {}, {}, lambda _: None):
            pass
    totals = samples(collector.metrics())
    assert len(collector.requests) > 1
    for number in range(6_000):
        labels = frozenset({("variant", f"{number}")})
        assert totals["streameval_mrr_sum", labels] == number


CONFIG = """
metrics = ["ctr@10"]
[source]
type = "files"
paths = ["events.jsonl"]
[web]
listen = "127.0.0.1:0"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    event = {"recommendations": ["tea", "milk"], "interactions": ["tea"]}
    (tmp_path / "events.jsonl").write_text(f"{json.dumps(event)}\n" * 30)
    return tmp_path


_ON = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TIMEOUT": "2"}


def test_a_daemon_sends_its_last_values_when_it_stops(folder: Path, collector: Collector) -> None:
    with collector.listening() as address:
        environment = _ON | {
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-scope-orgid=shop",
            "OTEL_METRIC_EXPORT_INTERVAL": "3600000",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=shop,team=search",
        }
        with running(CONFIG, folder, **environment) as daemon:
            daemon.consumed(30)
            assert collector.requests == []
            assert daemon.stop() == 0
    ((headers, request),) = collector.requests
    assert headers["x-scope-orgid"] == "shop"
    totals = samples(collector.metrics())
    assert totals["streameval_events_consumed_total", frozenset()] == 30
    attributes = {
        attribute.key: attribute.value.string_value
        for attribute in request.resource_metrics[0].resource.attributes
    }
    assert (attributes["service.name"], attributes["team"]) == ("shop", "search")
    assert attributes["service.instance.id"].endswith(daemon.address.rpartition(":")[2])


def test_an_endpoint_that_is_away_is_told_once_and_counted_and_counting_goes_on(
    folder: Path, collector: Collector
) -> None:
    port = free_port()
    environment = _ON | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_METRIC_EXPORT_INTERVAL": "50",
    }
    with running(CONFIG, folder, **environment) as daemon:
        daemon.until(lambda: daemon.sum_of("otlp_failures_total") >= 2)
        (warning,) = daemon.logged("otlp_failing")
        assert " level=warning " in warning
        assert "Connection refused" in warning
        daemon.consumed(30)
        with collector.listening(port):
            daemon.until(lambda: daemon.logged("otlp_recovered"))
        daemon.until(lambda: len(daemon.logged("otlp_failing")) == 2)
        assert daemon.stop() == 0
    assert [line for line in daemon.log if "opentelemetry" in line] == []


REFUSED = """
METRIC_EXPORT_INTERVAL: found '60s'; give milliseconds, for example 60000.
METRIC_EXPORT_INTERVAL: found '0'; give milliseconds, for example 60000.
METRIC_EXPORT_INTERVAL: found '1e15'; give milliseconds, for example 60000.
EXPORTER_OTLP_PROTOCOL: found 'grpc'; only http/protobuf is written, which collectors convert.
EXPORTER_OTLP_METRICS_PROTOCOL: found 'http/json'; only http/protobuf is written, which collectors convert.
EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: found 'delta'; only cumulative is written; collectors convert it.
EXPORTER_OTLP_ENDPOINT: found 'collector:4318'; give a URL, for example http://collector:4318.
EXPORTER_OTLP_COMPRESSION: found 'gzp'; give none, gzip or deflate.
EXPORTER_OTLP_TIMEOUT: found '10s'; give seconds, for example 10.
EXPORTER_OTLP_METRICS_CERTIFICATE: no file 'ca.pem'; give the path of a PEM file.
"""  # noqa: E501  a sentence a line


@pytest.mark.parametrize("sentence", REFUSED.strip().splitlines())
def test_a_variable_that_cannot_be_followed_is_refused(sentence: str) -> None:
    name, value = f"OTEL_{sentence.partition(':')[0]}", sentence.split("'")[1]
    with pytest.raises(UsageError) as raised:
        OtlpExporter(list, {}, {name: value}, lambda _: None)
    assert str(raised.value) == f"OTEL_{sentence}"


def test_a_variable_of_metrics_overrides_that_of_all_signals() -> None:
    of_all = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    of_metrics = {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf"}
    assert [*OtlpExporter(list, {}, of_all | of_metrics, lambda _: None).collect()]


def test_a_daemon_refuses_another_exporter_in_one_line(folder: Path) -> None:
    (folder / "streameval.toml").write_text(CONFIG)
    environment = {**os.environ, "OTEL_METRICS_EXPORTER": "otlp, otpl"}
    done = finished(command("run", "streameval.toml"), cwd=folder, env=environment)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    message = "OTEL_METRICS_EXPORTER: found 'otpl'; give otlp, prometheus or none."
    assert line.partition(" error=")[2] == json.dumps(message)


def test_without_its_extra_the_daemon_says_what_to_install(folder: Path) -> None:
    (folder / "streameval.toml").write_text(CONFIG)
    code = (
        "import os; os.environ['OTEL_METRICS_EXPORTER'] = 'otlp'\n"
        "import streameval_start; streameval_start.main()"
    )
    arguments = ("run", str(folder / "streameval.toml"))
    result = run_with_extras("daemon", code=code, arguments=arguments)
    assert result.returncode == 2
    assert "needs the extra 'otlp'" in result.stderr
