"""A reload of the real daemon: check the new configuration, checkpoint, and start again."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streameval.testing.broker import Broker
from tests.daemon.running import Running, running
from tests.effort import sampled
from tests.kafka.topics import create, fill
from tests.ports import WEB, free_port

CONFIG = """
metrics = [{metrics}]
labels = ["variant"]
{more}
[event]
time = "ts"
time_unit = "iso8601"
[windows]
spans = ["5m"]
[web]
listen = "127.0.0.1:{port}"
first_exposure = "0s"
"""
SIMULATED = """
[source]
type = "simulator"
seed = 3
events_per_second = 500
"""
KAFKA = """
[source]
type = "kafka"
topics = ["{topic}"]
group = "{topic}"
start = "earliest"
[source.kafka]
bootstrap_servers = "{servers}"
"""
STATE = """
[state]
path = "state"
interval = "1s"
"""


class Daemon:
    """A daemon whose configuration is written again and again."""

    def __init__(self, running: Running, file: Path, written: Callable[..., str]) -> None:
        self.running = running
        self._file = file
        self._written = written

    def write(self, *metrics: str, **more: str) -> None:
        self._file.write_text(self._written(*metrics, **more))

    def reload(self) -> None:
        """SIGHUP, and wait until the program has started once more."""
        starts = len(self.running.said("started"))
        self.running.process.send_signal(signal.SIGHUP)
        self.running.until(lambda: len(self.running.said("started")) > starts)

    def refused(self) -> str:
        """SIGHUP, and what the log says against the new configuration."""
        said = len(self.running.said("reload_refused"))
        self.running.process.send_signal(signal.SIGHUP)
        self.running.until(lambda: len(self.running.said("reload_refused")) > said)
        return self.running.said("reload_refused")[-1]

    def lifetime(self) -> dict[str, Any]:
        return {
            each["metric"]: each
            for each in self.running.document().get("metrics", [])
            if each["window"] == "lifetime" and each["labels"] == {"variant": "control"}
        }

    def sample(self, name: str) -> float:
        lines = self.running.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith(name)]
        return float(found[0].rsplit(" ", 1)[1])


def written(
    port: int, *metrics: str, more: str = "", source: str = SIMULATED, state: str = STATE
) -> str:
    names = ", ".join(f'"{each}"' for each in metrics or ("ctr@10",))
    return CONFIG.format(metrics=names, more=more, port=port) + source + state


def test_a_new_metric_is_read_from_what_was_counted_before_the_reload(tmp_path: Path) -> None:
    port = free_port()
    with running(written(port), tmp_path) as process:
        daemon = Daemon(process, tmp_path / "streameval.toml", lambda *m: written(port, *m))
        lists = _counted(daemon, 500)
        pid = process.process.pid
        daemon.write("ctr@10", "hit_rate@10", "distinct_items@10")
        daemon.reload()
        process.until(lambda: "distinct_items@10" in daemon.lifetime())
        found = daemon.lifetime()
        assert process.process.pid == pid
        assert found["hit_rate@10"]["since"] is None
        assert found["hit_rate@10"]["lists"] == found["ctr@10"]["lists"] >= lists
        assert found["distinct_items@10"]["since"] > 1_700_000_000
        assert found["distinct_items@10"]["lists"] < found["ctr@10"]["lists"]
        assert daemon.sample("streameval_config_last_reload_successful") == 1
        assert process.stop() == 0
    assert process.said("failed") == []


def test_without_state_a_reload_starts_from_nothing(tmp_path: Path) -> None:
    port = free_port()
    with running(written(port, state=""), tmp_path) as process:
        daemon = Daemon(
            process, tmp_path / "streameval.toml", lambda **k: written(port, state="", **k)
        )
        _counted(daemon, 2_000)
        daemon.write(more='segments = ["country"]')
        daemon.reload()
        assert process.consumed(1)["health"]["consumed"] < 2_000
        assert process.stop() == 0


@pytest.mark.parametrize(
    ("metric", "more", "problem"),
    sampled(
        [
            ("no_such_metric", "", "unknown metric"),
            ("ctr@10", 'segments = ["country"]', "segments"),
            ("ctr@10", "max_items = 7", "max_items"),
            ("ctr@10", 'log_level = "loud"', "log_level"),
        ],
        4,
    ),
)
def test_a_configuration_that_cannot_start_leaves_the_old_one_running(
    tmp_path: Path, metric: str, more: str, problem: str
) -> None:
    port = free_port()
    with running(written(port), tmp_path) as process:
        daemon = Daemon(
            process, tmp_path / "streameval.toml", lambda *m, **k: written(port, *m, **k)
        )
        _counted(daemon, 250)
        daemon.write(metric, more=more)
        assert problem in daemon.refused()
        consumed = process.document()["health"]["consumed"]
        process.consumed(consumed + 500)
        assert set(daemon.lifetime()) == {"ctr@10"}
        # A snapshot that had begun before may be shown first.
        process.until(lambda: daemon.sample("streameval_config_last_reload_successful") == 0)
        assert len(process.said("started")) == 1
        assert process.stop() == 0


def test_an_address_that_somebody_else_has_is_refused(tmp_path: Path) -> None:
    port = free_port()
    with running(written(port), tmp_path) as process:
        daemon = Daemon(process, tmp_path / "streameval.toml", written)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            (tmp_path / "streameval.toml").write_text(written(taken.getsockname()[1]))
            assert "in use" in daemon.refused()
        assert process.get("/-/healthy").status_code == 200
        assert process.stop() == 0


def test_post_reloads_only_where_it_is_enabled(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "streameval.toml"
    with running(written(port), tmp_path) as process:
        assert WEB.post(f"{process.address}/-/reload").status_code == 404
        assert process.stop() == 0
    option = "--web.enable-lifecycle"
    with running(written(port), tmp_path, option) as process:
        process.consumed(250)
        file.write_text(written(port, "no_such_metric"))
        refused = WEB.post(f"{process.address}/-/reload")
        assert refused.status_code == 500
        assert "unknown metric" in refused.text
        file.write_text(written(port, "mrr@10"))
        accepted = WEB.post(f"{process.address}/-/reload")
        assert (accepted.status_code, accepted.text) == (200, "Reloading.\n")
        process.until(lambda: len(process.said("started")) == 2)
        daemon = Daemon(process, file, written)
        process.until(lambda: set(daemon.lifetime()) == {"mrr@10"})
        assert process.stop() == 0


@pytest.mark.kafka
def test_a_reload_rejoins_the_group_and_counts_each_record_once(
    broker: Broker, tmp_path: Path
) -> None:
    port = free_port()
    topic = create(broker, partitions=2)
    record = b'{"recommendations": ["a"], "interactions": ["a"], "ts": "2026-01-01T00:00:00Z"}'
    source = KAFKA.format(topic=topic, servers=broker.bootstrap_servers)

    def config(*metrics: str) -> str:
        return written(port, *metrics, source=source).replace('labels = ["variant"]\n', "")

    fill(broker, topic, {0: [record] * 20, 1: [record] * 10})
    with running(config(), tmp_path) as process:
        process.consumed(30)
        process.until(lambda: _total(process) == 30)
        daemon = Daemon(process, tmp_path / "streameval.toml", config)
        daemon.write("ctr@10", "mrr@10")
        daemon.reload()
        fill(broker, topic, {0: [record], 1: [record] * 2})
        process.until(lambda: _total(process) == 3)
        document = process.document()
        assert {each["lists"] for each in document["metrics"] if each["window"] == "lifetime"} == {
            33
        }
        assert process.stop() == 0


def _total(process: Running) -> float:
    """Events in the counters of one metric: they start at 0 with the program."""
    lines = process.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("streameval_ctr_count{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def _counted(daemon: Daemon, records: int) -> int:
    daemon.running.consumed(records)
    lists: int = daemon.lifetime()["ctr@10"]["lists"]
    return lists
