"""A real Prometheus scrapes what is exported, also through TLS and with a password."""

from __future__ import annotations

import itertools
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import bcrypt
import httpx
import pytest

from streameval import Accumulator
from streameval.catalogue import catalogue
from streameval.config.web_file import web_config
from streameval.engine.snapshot import LIFETIME, Snapshot
from streameval.exporters.prometheus import PrometheusExporter
from streameval.exporters.web import Server, application
from tests.certificates import Authority
from tests.effort import PATIENCE
from tests.exporters.guarded import Guarded, guarded, hashed
from tests.exporters.pictures import (
    busy_health,
    health,
    mean,
    partition,
    picture,
    property_of_all,
    refused_value,
    windowed,
)
from tests.ports import WEB
from tests.processes import finished
from tests.prometheus.server import Prometheus, program, running

pytestmark = pytest.mark.prometheus


def _odd() -> Snapshot:
    """Label values and parameters that need care."""
    return picture(
        *(mean(text, ('b"\\\n',), 1.5, 4) for text in ("ndcg@10", "recbole:ndcg@5", "ctr", "map")),
        mean("ndcg(gain=exp2)@10", ("a",), 1.5, 4),
        property_of_all("item_coverage@10", ("a",), 0.5),
        property_of_all("distinct_items", ("a",), 40.0),
        state=health(consumed=9, partitions=(partition(0, 5, 9, 1.5),)),
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
    live.append(refused_value("capri:recall@5", ("a",)))
    return picture(*live, segments=["country"], counted={}, state=busy_health())


def _checked(snapshot: Snapshot) -> bytes:
    """What is exported, which promtool accepts without a word."""
    exporter = PrometheusExporter(version="1.2.3", kafka=True, first_exposure=0)
    exposition = exporter.exposition(snapshot)
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=exposition,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    return exposition


def test_promtool_finds_nothing_to_say_about_the_exposition() -> None:
    _checked(_odd())
    exposition = _checked(_everything())
    assert exposition.count(b"# TYPE streameval_ndcg") > 5
    assert exposition.count(b"_window_mean{") > len(catalogue())


_WINDOWS = ("5m", LIFETIME)


def _of_other_statistics() -> list[str]:
    chosen = ("median", "quantile,q=0.9", "standard_error", "half_width,confidence=0.9")
    named = [
        f"{name}(statistic={statistic})"
        for name in ("ndcg", "rmse", "novelty")
        for statistic in chosen
    ]
    return [*named, "dcg(relevant=all)", "recbole:auc"]


def _replica(chances: Sequence[tuple[float, float, bool]]) -> Accumulator:
    """What one replica counts: chance of the log, chance of the policy, click."""
    replica = Accumulator("ips", "importance_weight", "snips")
    for propensity, target, clicked in chances:
        values = {"propensity": [propensity], "target": [target]}
        replica.update(["item"], ["item"] * clicked, per_item=values)
    return replica


def _replicas() -> dict[str, Accumulator]:
    return {
        "one": _replica([(0.5, 0.9, True), (0.25, 0.1, False), (0.5, 0.5, True)]),
        "two": _replica([(0.1, 0.6, True), (0.8, 0.2, False)]),
    }


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
            windowed(mean("ndcg@10", ("a",), 3.0, 12), "5m"),
            windowed(mean("ndcg@10", ("b",), 5.0, 8), "5m"),
        ]
        series += [
            mean(name, (replica,), (reading.total or 0.0) * version, reading.count * version)
            for replica, counted in _replicas().items()
            for name, reading in counted.compute().items()
            if name != "snips"
        ]
        if self.late:
            series.append(mean("ndcg@10", ("late",), 30.0, 60))
        return picture(*series, version=version, state=health(consumed=20 * version))


_TWO_SCRAPERS = """
scrape_configs:
  - {{job_name: fast, scrape_interval: 250ms, scrape_timeout: 250ms, static_configs: [{to}]}}
  - {{job_name: slow, scrape_interval: 2s, scrape_timeout: 2s, static_configs: [{to}]}}
"""


class Scraped(NamedTuple):
    """What grows, where it is served, and the Prometheus that scrapes it twice."""

    growing: Growing
    address: str
    asked: Prometheus


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    program("prometheus")
    exporter, growing = PrometheusExporter(version="1.2.3", first_exposure=6.0), Growing()
    with Server(application(growing, exporter.exposition), "127.0.0.1:0") as server:
        to = f'{{targets: ["{server.address.removeprefix("http://")}"]}}'
        folder = tmp_path_factory.mktemp("prometheus")
        with running(folder, _TWO_SCRAPERS.format(to=to)) as requested:
            assert requested.settled("count(up == 1)", 2) == 2
            yield Scraped(growing, server.address, requested)


def test_a_real_prometheus_answers_the_known_mean(scraped: Scraped) -> None:
    def mean_query(of: str) -> str:
        selected = f'{{job="fast",k="10",variant=~"{of}"}}[10s]'
        parts = (f"sum(rate(streameval_ndcg_{part}{selected}))" for part in ("sum", "count"))
        return " / ".join(parts)

    for of, expected in (("a", 0.25), ("b", 0.625), ("a|b", 0.4)):
        mean_asked = scraped.asked.settled(mean_query(of), expected)
        assert mean_asked == pytest.approx(expected, abs=1e-6)
    assert scraped.asked.value('count(streameval_build_info{job="fast"})') == 1


def test_each_of_two_scrapers_sees_a_new_series_begin_at_zero(scraped: Scraped) -> None:
    scraped.growing.late = True
    # A person sees it first, twice: no scraper depends on being the first.
    for _ in range(2):
        seen = WEB.get(f"{scraped.address}/metrics").text
        assert 'streameval_ndcg_count{k="10",variant="late"} 0.0' in seen
    for job in ("fast", "slow"):
        of = f'streameval_ndcg_count{{variant="late",job="{job}"}}'
        assert scraped.asked.settled(f"max_over_time({of}[5m])", 60) == 60
        assert scraped.asked.value(f"min_over_time({of}[5m])") == 0


def test_a_real_prometheus_combines_windows_by_what_is_behind_them(scraped: Scraped) -> None:
    for window in _WINDOWS:
        selected = f'{{job="fast",variant=~"a|b",window="{window}"}}'
        mean_, support = (
            f"streameval_ndcg_window_{part}{selected}" for part in ("mean", "support")
        )
        both = f"sum({mean_} * {support}) / sum({support})"
        assert scraped.asked.settled(both, 0.4) == pytest.approx(0.4, abs=1e-9)


def test_snips_over_replicas_is_that_of_their_merged_state(scraped: Scraped) -> None:
    """Not the mean of the values of the replicas, and not a sum over a count."""
    of = '{job="fast",variant=~"one|two",window="lifetime"}'
    values_, weights = (
        f"sum(streameval_{mean}{of} * streameval_{name}_window_support{of})"
        for name, mean in (("ips", "ips"), ("importance_weight", "importance_weight_window_mean"))
    )
    over_both = f"{values_} / {weights}"
    first, two = _replicas().values()
    values = [replica.read("snips").value for replica in (first, two)]
    first.merge(two)
    merged = first.read("snips").value
    assert scraped.asked.settled(over_both, merged) == pytest.approx(merged, abs=1e-6)
    assert abs(sum(values) / 2 - merged) > 0.01


_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "web.md"


def documented(beginning: str) -> str:
    """The example of the page that begins so."""
    examples = re.findall(r"```yaml\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (only,) = (example for example in examples if example.startswith(beginning))
    return str(only)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With every file that the examples name."""
    authority = Authority(tmp_path)
    authority.issue("server")
    authority.issue("prometheus")
    (tmp_path / "clients.crt").write_bytes(authority.file.read_bytes())
    (tmp_path / "password").write_text("s3cret")
    return tmp_path


def test_the_documented_file_is_one_for_promtool_too(folder: Path) -> None:
    (folder / "web.yml").write_text(documented("tls_server_config"))
    command = [program("promtool"), "check", "web-config", str(folder / "web.yml")]
    assert web_config(str(folder / "web.yml")).basic_auth_users
    checked = finished(command)
    assert checked.returncode == 0, checked.stderr


_GUESSERS = 100


@contextmanager
def flooded(site: Guarded) -> Iterator[Callable[[], int]]:
    """Clients that guess passwords without a pause; the number of their guesses."""
    ended, numbers = threading.Event(), itertools.count()

    def guess() -> None:
        with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
            while not ended.is_set():
                wrong = ("prometheus", f"guess {next(numbers)}")
                status = client.get(f"{site.server.address}/metrics", auth=wrong).status_code
                assert status in {401, 503}

    with ThreadPoolExecutor(_GUESSERS) as clients:
        guesses = [clients.submit(guess) for _ in range(_GUESSERS)]
        try:
            yield lambda: next(numbers)
        finally:
            ended.set()
    assert [guess.exception() for guess in guesses] == [None] * _GUESSERS


_WITH_PASSWORD = """
global: {{scrape_interval: 5s, scrape_timeout: 5s}}
scrape_configs:
  - job_name: streameval
    basic_auth: {{username: prometheus, password: s3cret}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@pytest.mark.nightly
def test_a_prometheus_scrapes_through_a_flood_of_wrong_passwords(tmp_path: Path) -> None:
    slow = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(10)).decode()
    text = f'basic_auth_users: {{prometheus: "{slow}"}}'
    with guarded(tmp_path / "web.yml", text) as site, flooded(site) as guesses:
        while guesses() < 100:
            time.sleep(0.1)
        with running(tmp_path, _WITH_PASSWORD.format(port=site.port)) as server:
            scraped = "sum_over_time(up[10m])"
            while (server.value(scraped) or 0) < 3:
                time.sleep(0.2)
            assert (server.value(f"count_over_time(up[10m]) - {scraped}") or 0) <= 1


def test_a_prometheus_reads_with_certificate_and_the_right_password_only(folder: Path) -> None:
    line = f"prometheus: {hashed('s3cret')}"
    text = re.sub(r"prometheus: \$.*", line, documented("tls_server"))
    (folder / "wrong").write_text("other")
    with guarded(folder / "web.yml", text, prefix="/streameval") as site:
        target = f"127.0.0.1:{site.port}"
        right = documented("scrape_configs").replace("streameval.example:9877", target)
        wrong = right.replace("job_name: streameval", "job_name: wrong").replace(
            "password_file: password", "password_file: wrong"
        )
        fast = "global: { scrape_interval: 250ms, scrape_timeout: 250ms }\n"
        both = right + wrong.partition("scrape_configs:\n")[2]
        with running(folder, fast + both) as server:
            for job, up in (("streameval", 1.0), ("wrong", 0.0)):
                assert server.settled(f'up{{job="{job}"}}', up) == up
            assert server.settled("sum(streameval_ndcg_sum)", 1.0) == 1.0
            assert server.value('streameval_ndcg_sum{job="wrong"}') is None
