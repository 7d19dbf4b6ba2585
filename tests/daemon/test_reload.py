"""A reload of the real daemon: check the new configuration, checkpoint, and start again."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from streameval.config import Config
from streameval.config.options import DeadLetterOptions
from streameval.daemon.reload import check_start
from streameval.errors import ConfigError
from streameval.sources.options import KafkaOptions
from streameval.testing.broker import Broker
from tests.daemon.running import Running, running
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
    """A daemon whose configuration is rewritten."""

    def __init__(self, running: Running, file: Path) -> None:
        self.running = running
        self._file = file

    def reload(self, config: str) -> None:
        """Send SIGHUP, and wait for the restart."""
        self._told(config, "started")

    def refused(self, config: str) -> str:
        """Send SIGHUP; returns the reason for rejecting the configuration."""
        return self._told(config, "reload_refused")

    def _told(self, config: str, event: str) -> str:
        self._file.write_text(config)
        before = len(self.running.said(event))
        self.running.process.send_signal(signal.SIGHUP)
        self.running.until(lambda: len(self.running.said(event)) > before)
        return self.running.said(event)[-1]

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


def _listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_reload_rejects_what_cannot_start_and_a_new_metric_reads_old_counts(
    tmp_path: Path,
) -> None:
    port = free_port()
    with running(written(port), tmp_path) as process, _listening() as taken:
        daemon = Daemon(process, tmp_path / "streameval.toml")
        process.consumed(250)
        for refused, problem in (
            (written(port, "no_such_metric"), "unknown metric"),
            (written(port, more='segments = ["country"]'), "segments"),
            (written(port, more="max_items = 7"), "max_items"),
            (written(port, more='log_level = "loud"'), "log_level"),
            (written(port, more='dead_letters = { path = "none/x" }'), "its folder does not exist"),
            (written(port, state='[state]\npath = "streameval.toml"'), "a file is in the way"),
            (written(taken.getsockname()[1]), "in use"),
        ):
            assert problem in daemon.refused(refused)
        process.consumed(process.document()["health"]["consumed"] + 250)
        # A snapshot that had begun before may be shown first.
        process.until(lambda: daemon.sample("streameval_config_last_reload_successful") == 0)
        assert set(daemon.lifetime()) == {"ctr@10"}
        assert len(process.said("started")) == 1
        assert WEB.post(f"{process.address}/-/reload").status_code == 404

        lists, pid = daemon.lifetime()["ctr@10"]["lists"], process.process.pid
        daemon.reload(written(port, "ctr@10", "hit_rate@10", "distinct_items@10"))
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


def test_post_reloads_if_enabled_and_without_state_counts_start_over(
    tmp_path: Path,
) -> None:
    port, file = free_port(), tmp_path / "streameval.toml"
    plain = {"source": SIMULATED.replace("events_per_second = 500", "events = 300"), "state": ""}
    with running(written(port, **plain), tmp_path, "--web.enable-lifecycle") as process:
        process.consumed(300)
        file.write_text(written(port, "no_such_metric", **plain))
        refused = WEB.post(f"{process.address}/-/reload")
        assert refused.status_code == 500
        assert "unknown metric" in refused.text
        file.write_text(written(port, "mrr@10", more='segments = ["country"]', **plain))
        accepted = WEB.post(f"{process.address}/-/reload")
        assert (accepted.status_code, accepted.text) == (200, "Reloading.\n")
        process.until(lambda: len(process.said("started")) == 2)
        assert process.consumed(300)["health"]["consumed"] == 300
        assert set(Daemon(process, file).lifetime()) == {"mrr@10"}
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
        Daemon(process, tmp_path / "streameval.toml").reload(config("ctr@10", "mrr@10"))
        fill(broker, topic, {0: [record], 1: [record] * 2})
        process.until(lambda: _total(process) == 3)
        document = process.document()
        assert {each["lists"] for each in document["metrics"] if each["window"] == "lifetime"} == {
            33
        }
        assert process.stop() == 0


def _total(process: Running) -> float:
    """Events in the counters of one metric, which start at 0 with the process."""
    lines = process.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("streameval_ctr_count{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def test_letters_that_would_go_to_a_topic_that_is_read_are_refused() -> None:
    source = KafkaOptions(topics=["events", "events.dlq"])
    config = Config(metrics=["ctr"], source=source, dead_letters=DeadLetterOptions())
    with pytest.raises(ConfigError, match=r"'events\.dlq' is also read"):
        check_start(config, config, {})
