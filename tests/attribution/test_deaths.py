"""Killed again and again while it joins: nothing is lost, nothing counts twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streameval.broker import Broker
from tests.attribution.test_daemon import ended, streams
from tests.attribution.topics import lines, published
from tests.cli.program import ran
from tests.daemon.running import Running, exact, running

EVENTS = 3_000
KILLS = 10
JOIN = """
metrics = ["hit_rate@10", "ndcg@10", "value_per_list", "hit_rate(type=purchase)"]
labels = ["variant"]
[windows]
spans = ["5m", "1h"]
[event]
time = "ts"
time_unit = "ms"
[attribution]
impressions = "{shown}"
window = "30m"
lateness = "5m"
idle_timeout = "1s"
[[attribution.interactions]]
source = "{done}"
event_id = "event_id"
types = {{ click = 1, cart = 3, purchase = 10 }}
[source]
type = "kafka"
topics = ["{shown}", "{done}"]
group = "{name}"
member = "one"
[source.kafka]
bootstrap_servers = "{address}"
session_timeout_ms = 6000
max_poll_records = 400
[state]
path = "{store}"
interval = "1s"
events = 300
[dead_letters]
max_ratio = 0.9
[web]
listen = "127.0.0.1:0"
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], list[bytes]]:
    """Impressions and interactions that can be told to a partition by their request."""
    folder = tmp_path_factory.mktemp("streams") / "logs"
    done = ran("simulate", "--streams", str(folder), "--events", str(EVENTS), "--seed", "7")
    assert done.returncode == 0, done.stderr
    found = [lines(folder / f"{name}.ndjson") for name in ("impressions", "interactions")]
    shown, reported = ([each for each in log if _has_request(each)] for log in found)
    return shown, reported


def _has_request(record: bytes) -> bool:
    try:
        return "request_id" in json.loads(record)
    except ValueError:
        return False


def _config(broker: Broker, topics: tuple[str, str], folder: Path, name: str) -> str:
    return JOIN.format(
        shown=topics[0],
        done=topics[1],
        address=broker.bootstrap_servers,
        store=folder / name,
        name=f"{topics[0]}-{name}",
    )


def _exported(folder: Path, name: str) -> str:
    done = ran("state", "export", str(folder / name))
    assert done.returncode == 0, done.stderr
    return done.stdout


def _finished(daemon: Running) -> bool:
    """Whether nothing is open, and all of it is saved."""
    health: dict[str, Any] = daemon.document().get("health", {})
    found = streams(daemon)
    at_end = bool(health) and all(
        each["lag"] == 0 and each["durable"] == each["position"] for each in health["partitions"]
    )
    return at_end and len(health["partitions"]) == 8 and not any(each["open"] for each in found)


def test_ten_kills_change_nothing(
    broker: Broker, logs: tuple[list[bytes], list[bytes]], tmp_path: Path
) -> None:
    topics = published(broker, logs[0]), published(broker, logs[1])
    with running(_config(broker, topics, tmp_path, "calm"), tmp_path) as daemon:
        daemon.until(lambda: ended(daemon, sum(map(len, logs))))
        told = streams(daemon)
        assert daemon.stop() == 0
    rough = _config(broker, topics, tmp_path, "rough")
    for number in range(KILLS):
        with running(rough, tmp_path) as daemon:
            daemon.until(lambda: daemon.document().get("health", {}).get("ready"))
            consumed = daemon.document()["health"]["consumed"]
            daemon.consumed(consumed + 100 * (number % 3))
            daemon.process.kill()
    with running(rough, tmp_path) as daemon:
        daemon.until(lambda: _finished(daemon))
        assert daemon.stop() == 0
    assert exact(json.loads(_exported(tmp_path, "rough"))) == exact(
        json.loads(_exported(tmp_path, "calm"))
    )
    assert [each["outcomes"]["counted"] for each in told] > [0, 0]
