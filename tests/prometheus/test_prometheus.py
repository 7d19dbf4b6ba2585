from __future__ import annotations

import itertools
import subprocess
import threading
from pathlib import Path

import pytest

from streameval.catalogue import catalogue
from streameval.engine.snapshot import LIFETIME, Snapshot
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application
from tests.exporters.pictures import (
    busy_health,
    health,
    mean,
    partition,
    picture,
    property_of_all,
    refused,
    windowed,
)
from tests.ports import WEB
from tests.prometheus.server import program, prometheus, running

pytestmark = pytest.mark.prometheus


def _odd() -> Snapshot:
    """Label values and parameters that need care."""
    return picture(
        *(mean(text, ('b"\\\n',), 1.5, 4) for text in ("ndcg@10", "recbole:ndcg@5", "ctr", "map")),
        mean("ndcg(gain=exp2)@10", ("a",), 1.5, 4),
        property_of_all("item_coverage@10", ("a",), 0.5),
        property_of_all("distinct_items", ("a",), 40.0),
        state=health(consumed=9, partitions=(partition(0, 5, 9, 1_500_000),)),
    )


def _everything() -> Snapshot:
    """The whole catalogue in windows and segments, and all that is said of a pipeline."""
    texts = [*catalogue(), *_of_other_statistics()]
    live = [
        windowed(mean(text, labels, 1.5, 4), window, family)
        for text in texts
        for window in _WINDOWS
        for family, labels in enumerate([("a",), ("a", "nl")])
    ]
    live.append(refused("capri:recall@5", ("a",)))
    return picture(*live, segments=["country"], counted={}, state=busy_health())


def _checked(snapshot: Snapshot) -> bytes:
    """What is exported, which promtool accepts without a word."""
    exporter = PrometheusExporter(version="1.2.3", kafka=True, first_exposure=0)
    found = exporter.exposition(snapshot)
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=found, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    return found


def test_promtool_finds_nothing_to_say_about_the_exposition() -> None:
    _checked(_odd())
    found = _checked(_everything())
    assert found.count(b"# TYPE streameval_ndcg") > 5
    assert found.count(b"_window_mean{") > len(catalogue())


_WINDOWS = ("5m", LIFETIME)


def _of_other_statistics() -> list[str]:
    chosen = ("median", "quantile,q=0.9", "standard_error", "half_width,confidence=0.9")
    named = [f"{name}(statistic={each})" for name in ("ndcg", "rmse", "novelty") for each in chosen]
    return [*named, "dcg(relevant=all)", "recbole:auc"]


class Growing:
    """Two variants that grow with each scrape at a known mean, and one that comes when told to."""

    def __init__(self) -> None:
        self._versions = itertools.count(1)
        self._lock = threading.Lock()
        self.late = False

    def __call__(self) -> Snapshot:
        with self._lock:
            version = next(self._versions)
        series = [
            mean("ndcg@10", ("a",), 0.25 * 12 * version, 12 * version),
            mean("ndcg@10", ("b",), 0.625 * 8 * version, 8 * version),
        ]
        if self.late:
            series.append(mean("ndcg@10", ("late",), 30.0, 60))
        return picture(*series, version=version, state=health(consumed=20 * version))


_TWO_SCRAPERS = """
scrape_configs:
  - {{job_name: fast, scrape_interval: 250ms, scrape_timeout: 250ms, static_configs: [{to}]}}
  - {{job_name: slow, scrape_interval: 2s, scrape_timeout: 2s, static_configs: [{to}]}}
"""


def test_a_real_prometheus_answers_the_known_mean(tmp_path: Path) -> None:
    program("prometheus")
    exporter = PrometheusExporter(version="1.2.3", first_exposure=0)
    with (
        Server(application(Growing(), exporter.exposition), "127.0.0.1:0") as server,
        prometheus(tmp_path, server.address.removeprefix("http://")) as asked,
    ):
        for variant, known in (("a", 0.25), ("b", 0.625)):
            of = f'{{variant="{variant}",k="10"}}[10s]'
            ratio = f"rate(streameval_ndcg_sum{of}) / rate(streameval_ndcg_count{of})"
            assert asked.settled(ratio, known) == pytest.approx(known, abs=1e-6)
        both = "sum(rate(streameval_ndcg_sum[10s])) / sum(rate(streameval_ndcg_count[10s]))"
        assert asked.settled(both, 0.4) == pytest.approx(0.4, abs=1e-6)
        assert asked.value("count(streameval_build_info)") == 1


def test_each_of_two_scrapers_sees_a_new_series_begin_at_zero(tmp_path: Path) -> None:
    program("prometheus")
    exporter, growing = PrometheusExporter(version="1.2.3", first_exposure=6.0), Growing()
    with Server(application(growing, exporter.exposition), "127.0.0.1:0") as server:
        target = server.address.removeprefix("http://")
        with running(tmp_path, _TWO_SCRAPERS.format(to=f'{{targets: ["{target}"]}}')) as asked:
            assert asked.settled("count(up == 1)", 2) == 2
            growing.late = True
            # A person sees it first, twice: no scraper depends on being the first.
            for _ in range(2):
                seen = WEB.get(f"{server.address}/metrics").text
                assert 'streameval_ndcg_count{k="10",variant="late"} 0.0' in seen
            for job in ("fast", "slow"):
                of = f'streameval_ndcg_count{{variant="late",job="{job}"}}'
                assert asked.settled(f"max_over_time({of}[5m])", 60) == 60
                assert asked.value(f"min_over_time({of}[5m])") == 0
                grown = f"max_over_time({of}[5m]) - min_over_time({of}[5m])"
                assert asked.value(grown) == 60


def test_a_real_prometheus_combines_windows_by_what_is_behind_them(tmp_path: Path) -> None:
    program("prometheus")
    series = [
        windowed(mean("ndcg@10", (variant,), total, count), window)
        for variant, total, count in (("a", 3.0, 12), ("b", 5.0, 8))
        for window in _WINDOWS
    ]
    exporter = PrometheusExporter(version="1.2.3")
    with (
        Server(application(lambda: picture(*series), exporter.exposition), "127.0.0.1:0") as server,
        prometheus(tmp_path, server.address.removeprefix("http://")) as asked,
    ):
        name = "streameval_ndcg_window"
        both = f"sum by (window) ({name}_mean * {name}_support) / sum by (window) ({name}_support)"
        for window in _WINDOWS:
            chosen = f'({both}) and on (window) {name}_mean{{window="{window}"}}'
            assert asked.settled(chosen, 0.4) == pytest.approx(0.4, abs=1e-9)
