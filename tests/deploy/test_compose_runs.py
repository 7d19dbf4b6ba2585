"""What compose.yaml starts of ours, with its own configuration, against a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streameval.testing.broker import Broker
from tests.daemon.running import Running, running
from tests.deploy.examples import DEPLOY, compose, of_the_environment

pytestmark = pytest.mark.kafka

TOPIC = "recommendation-events"


def test_simulated_traffic_becomes_metrics(broker: Broker, tmp_path: Path) -> None:
    topic = f"{TOPIC}-{uuid.uuid4().hex[:8]}"
    config = _configuration(topic, tmp_path / "state")
    address = broker.bootstrap_servers
    with (
        _traffic(topic, address) as traffic,
        running(config, tmp_path, "--web.listen", "127.0.0.1:0", BROKERS=address) as daemon,
    ):
        daemon.until(lambda: _consumed(daemon, traffic) >= 20)
        daemon.until(lambda: daemon.get("/-/ready").status_code == 200)
        daemon.until(lambda: _variants(daemon) == {"control", "placebo", "treatment"})
        assert not any(daemon.document()["health"]["invalid"].values())
        assert daemon.stop() == 0
    assert [*(tmp_path / "state" / topic).rglob("*.checkpoint")] != []


def _configuration(topic: str, state: Path) -> str:
    """As it is, with a topic, a group and a folder of the test's own."""
    text = (DEPLOY / "compose" / "streameval.toml").read_text(encoding="utf-8")
    changes = {
        f'"{TOPIC}"': f'"{topic}"',
        'group = "streameval"': f'group = "{topic}"',
        "/var/lib/streameval/state": str(state),
    }
    for before, after in changes.items():
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text


@contextmanager
def _traffic(topic: str, brokers: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command of the service, as the shell of its container gets it."""
    service = compose()["services"]["traffic"]
    (command,) = service["command"]
    script = command.replace("$$", "$").replace(TOPIC, topic)
    programs = str(of_the_environment("streameval").parent)
    environment = {"BROKERS": brokers, "PATH": f"{programs}:{os.environ['PATH']}"}
    with subprocess.Popen(
        [*service["entrypoint"], script], env=environment, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _consumed(daemon: Running, traffic: subprocess.Popen[bytes]) -> int:
    assert traffic.poll() is None, "the traffic has ended by itself"
    found: int = daemon.document().get("health", {}).get("consumed", 0)
    return found


def _variants(daemon: Running) -> set[str]:
    return {each["labels"].get("variant") for each in daemon.document().get("metrics", ())}
