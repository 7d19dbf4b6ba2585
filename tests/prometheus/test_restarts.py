"""Counters of a daemon that restarts, as a pair of real Prometheus servers adds them up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from streameval.testing.broker import Broker
from tests.daemon.running import Running, kafka_source, running
from tests.effort import PATIENCE
from tests.kafka.topics import create, fill
from tests.ports import free_port
from tests.prometheus.server import Prometheus, program
from tests.prometheus.server import running as scraping

pytestmark = [pytest.mark.nightly, pytest.mark.prometheus, pytest.mark.kafka]

_LONG = pytest.mark.timeout(3_600)
_LISTS = 200
"""Written in each life of the daemon, half of them of each variant."""

_CONFIG = """
metrics = ["hit_rate@1"]
labels = ["variant"]
event = {{ time = "ts", time_unit = "s" }}
windows = {{ spans = ["5m"] }}
state = {{ path = "state", interval = "1s" }}
web = {{ listen = "127.0.0.1:{port}", first_exposure = "{exposure}s" }}
"""
_SCRAPES = """
global: {{scrape_interval: {every}ms, scrape_timeout: {every}ms}}
scrape_configs:
  - {{job_name: s, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}
"""
_COUNT = "streameval_hit_rate_count"


class Pace(NamedTuple):
    """How often each of the two looks, and how long a new counter stands at 0; seconds."""

    intervals: tuple[float, float]
    exposure: int


class Daemon:
    """One that is ended and started again, and what is written for it to count."""

    def __init__(self, broker: Broker, folder: Path, exposure: int) -> None:
        self._broker, self._folder = broker, folder
        self._topic = create(broker)
        self.port = free_port()
        source = kafka_source(broker, self._topic, member="one")
        self._config = _CONFIG.format(port=self.port, exposure=exposure) + source
        self.written = 0

    @contextmanager
    def alive(self) -> Iterator[Running]:
        """A process that has counted all that was written before, and as much again."""
        with running(self._config, self._folder) as process:
            events = [_event(self.written + number) for number in range(_LISTS)]
            fill(self._broker, self._topic, {0: events})
            self.written += _LISTS
            process.until(lambda: self.lifetime(process) == self.written)
            yield process

    @staticmethod
    def lifetime(process: Running) -> int:
        """Lists in the state, which restarts leave as they are."""
        document = process.document().get("metrics", ())
        return sum(entry["count"] for entry in document if entry["window"] == "lifetime")


def _event(number: int) -> bytes:
    event = {"ts": 1_750_000_000 + number, "variant": "ab"[number % 2], "interactions": ["x"]}
    return json.dumps({**event, "recommendations": ["x", "y"]}).encode()


class Scraper(NamedTuple):
    """One Prometheus, and what is asked of it; `slowest`: seconds until it may see a new value."""

    server: Prometheus
    slowest: float

    def seen(self, process: Running, since: float) -> float:
        """When it saw all that a process shows, in which counters had stood at 0 before."""
        deadline = time.monotonic() + self.slowest + PATIENCE
        while time.monotonic() < deadline:
            counted = process.sum_of("hit_rate_count")
            if counted >= _LISTS and self.server.value(f"sum({_COUNT})") == counted:
                moment = self.server.value(f"max(timestamp({_COUNT}))")
                assert moment is not None
                span = f"{1000 * (moment - since):.0f}ms"
                assert self._value(f"sum(min_over_time({_COUNT}[{span}]))", moment) == 0
                return moment
            time.sleep(0.2)
        message = f"{process.sum_of('hit_rate_count')} awaited"
        raise TimeoutError(message)

    def increase(self, seconds: float, moment: float) -> float:
        """Over so many seconds; up to the moment of a scrape nothing is extrapolated."""
        return self._value(f"sum(increase({_COUNT}[{1000 * seconds:.0f}ms]))", moment)

    def _value(self, query: str, moment: float | None = None) -> float:
        requested = {} if moment is None else {"time": f"{moment:.3f}"}
        (sample,) = self.server.data("query", query=query, **requested)["result"]
        return float(sample["value"][1])


@pytest.mark.parametrize(
    ("pace", "calm", "kills"),
    [
        pytest.param(Pace((1, 4), 8), 3, 3, id="six"),
        pytest.param(Pace((15, 60), 120), 3, 3, id="usual", marks=_LONG),
    ],
)
def test_increase_is_the_truth_over_restarts_and_never_more_over_kills(
    pace: Pace, calm: int, kills: int, broker: Broker, tmp_path: Path
) -> None:
    program("prometheus")
    daemon, began = Daemon(broker, tmp_path, pace.exposure), time.time()
    with ExitStack() as stack:
        pair = [_scraper(stack, tmp_path, daemon.port, pace, every) for every in pace.intervals]
        for _ in range(calm):
            started = time.time()
            with daemon.alive() as process:
                ends = [server.seen(process, started) for server in pair]
                assert process.stop() == 0
            for scraper, end in zip(pair, ends, strict=True):
                assert _within(scraper.increase(end - began, end), daemon.written)
        for number in range(kills):
            started = time.time()
            with daemon.alive() as process:
                if number % 2:
                    pair[0].seen(process, started)
                process.process.kill()
        started = time.time()
        with daemon.alive() as process:
            for scraper in pair:
                end = scraper.seen(process, started)
                assert _within(
                    scraper.increase(end - started, end), process.sum_of("hit_rate_count")
                )
                over_all = scraper.increase(end - began, end)
                print(f"{over_all:g} of {daemon.written} after {kills} kills")
                assert (calm + 1) * _LISTS * 0.99 <= over_all <= daemon.written
            assert process.stop() == 0


def _scraper(stack: ExitStack, folder: Path, port: int, pace: Pace, every: float) -> Scraper:
    home = folder / f"prometheus-{every:g}"
    home.mkdir()
    configuration = _SCRAPES.format(every=round(1000 * every), port=port)
    server = stack.enter_context(scraping(home, configuration))
    return Scraper(server, pace.exposure + 2 * every)


def _within(increase: float, truth: float) -> bool:
    """Within one percent below the truth, and never above it."""
    return 0.99 * truth <= increase <= truth
