"""A daemon that is killed repeatedly while it joins loses nothing and counts nothing twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streameval.checkpoints.store import folder_store
from streameval.testing.broker import Broker
from tests.cli.program import run
from tests.daemon.running import Running, exact, running
from tests.join.test_daemon import streams
from tests.kafka.topics import PARTITIONS, create, lines, send

EVENTS = 600
JOIN = """
metrics = ["hit_rate@10", "ndcg@10", "value_per_list", "hit_rate(type=purchase)"]
labels = ["variant"]
windows = {{ spans = ["5m", "1h"] }}
event = {{ time = "ts", time_unit = "ms" }}
state = {{ path = "{store}", interval = "0s" }}
dead_letters = {{ max_ratio = 0.9 }}
web = {{ listen = "127.0.0.1:0" }}
source = {{ type = "kafka", topics = ["{shown}", "{done}"], group = "{name}", member = "one", \
kafka = {{ bootstrap_servers = "{address}", session_timeout_ms = 2000, \
heartbeat_interval_ms = 500, max_poll_records = 100 }} }}
[attribution]
impressions = "{shown}"
window = "30m"
lateness = "5m"
interactions = [{{ source = "{done}", event_id = "event_id", \
types = {{ click = 1, cart = 3, purchase = 10 }} }}]
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], list[bytes]]:
    """Impressions and interactions with a request id."""
    folder = tmp_path_factory.mktemp("streams") / "logs"
    done = run("simulate", "--streams", str(folder), "--events", str(EVENTS), "--seed", "7")
    assert done.returncode == 0, done.stderr
    records = [lines(folder / f"{name}.ndjson") for name in ("impressions", "interactions")]
    impressions, reported = ([record for record in log if _has_request(record)] for log in records)
    return impressions, reported


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
    done = run("state", "export", str(folder / name))
    assert done.returncode == 0, done.stderr
    return done.stdout


def _saved_positions(daemon: Running) -> dict[str, int]:
    """Position of each log if all of them are saved, else empty."""
    health: dict[str, Any] = daemon.document().get("health", {})
    logs = health.get("partitions", [])
    if not all(log["durable"] == log["position"] for log in logs):
        return {}
    return {f"{log['topic']}[{log['partition']}]": log["position"] for log in logs}


def _digests(folder: Path) -> dict[int, dict[str, str]]:
    store = folder_store(folder)
    checkpoints = {shard.number: store.newest(shard).saved for shard in store.shards()}
    return {
        number: dict(checkpoint.digests)
        for number, checkpoint in checkpoints.items()
        if checkpoint is not None
    }


def _joined_by_another(config: str, folder: Path) -> None:
    """A replica joins in the middle of windows, counts its partitions, and leaves."""
    path = folder / "two"
    path.mkdir()
    other = config.replace('member = "one", ', "")
    with running(other, path) as replica:
        replica.until(lambda: replica.document().get("health", {}).get("partitions"))
        assert len(replica.document()["health"]["partitions"]) in {4, 8}, "whole pairs of logs"
        assert replica.stop() == 0


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.nightly)])
def test_kills_leave_the_results_unchanged(
    kills: int, broker: Broker, logs: tuple[list[bytes], list[bytes]], tmp_path: Path
) -> None:
    # The interactions come an hour of the two after their impressions.
    skew = kills // 2
    impressions, done = (_parts(log, kills) for log in logs)
    topics = create(broker, partitions=PARTITIONS), create(broker, partitions=PARTITIONS)
    rough = _config(broker, topics, tmp_path, "rough")
    for number in range(kills):
        parts = [impressions[number], done[number - skew] if number >= skew else []]
        for topic, part in zip(topics, parts, strict=True):
            send(broker, topic, part)
        with running(rough, tmp_path) as daemon:
            daemon.consumed(sum(map(len, parts)) * ((number + 1) % 3) // 3)
            if number == skew:
                _joined_by_another(rough, tmp_path)
            daemon.process.kill()
    for part in done[-skew:]:
        send(broker, topics[1], part)
    with running(_config(broker, topics, tmp_path, "calm"), tmp_path) as daemon:
        daemon.consumed(sum(map(len, logs)))
        stands = daemon.until(lambda: _saved_positions(daemon))
        told = [sum(stream["outcomes"].values()) + stream["open"] for stream in streams(daemon)]
        assert daemon.stop() == 0
    with running(rough, tmp_path) as daemon:
        daemon.until(lambda: _saved_positions(daemon) == stands)
        assert daemon.stop() == 0
    assert 0 < sum(told) == sum(stands.values()), "every record that had its turn is somewhere"
    assert _digests(tmp_path / "rough") == _digests(tmp_path / "calm")
    after_kills, expected = (json.loads(_exported(tmp_path, name)) for name in ("rough", "calm"))
    assert exact(after_kills) == exact(expected)


def _parts(log: list[bytes], count: int) -> list[list[bytes]]:
    size = -(-len(log) // count)
    return [log[number * size : (number + 1) * size] for number in range(count)]
