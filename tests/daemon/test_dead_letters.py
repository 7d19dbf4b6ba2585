"""An invalid record becomes a dead letter, and counts after a fix and a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streameval.testing.broker import Broker
from tests.cli.program import ran
from tests.daemon.running import Running, running
from tests.kafka.topics import filled

CONFIG = """
metrics = ["hit_rate@1"]
[event]
max_recommendations = {most}
[source]
type = "kafka"
topics = ["{topic}"]
group = "{topic}"
member = "one"
[source.kafka]
bootstrap_servers = "{address}"
[state]
path = "{store}"
interval = "1s"
on_other_settings = "accept"
[dead_letters]
max_ratio = 0.9
[web]
listen = "127.0.0.1:0"
"""
GOOD = b'{"recommendations": ["a", "b"], "interactions": ["a"]}'
LONG = b'{"recommendations": ["a", "b", "c"], "interactions": ["a"]}'


def health(daemon: Running) -> dict[str, Any]:
    found: dict[str, Any] = daemon.document().get("health", {})
    return found


def lists(daemon: Running) -> int:
    (entry,) = [each for each in daemon.document()["metrics"] if each["window"] == "lifetime"]
    count: int = entry["lists"]
    return count


@pytest.mark.usefixtures("broker")
def test_an_invalid_record_is_only_a_dead_letter_and_counts_after_a_replay(
    broker: Broker, tmp_path: Path
) -> None:
    topic = filled(broker, {0: [GOOD, b"{garbage", LONG, GOOD]})
    common = {"topic": topic, "address": broker.bootstrap_servers, "store": tmp_path / "state"}
    with running(CONFIG.format(most=2, **common), tmp_path) as daemon:
        daemon.consumed(4)
        daemon.until(lambda: [each["durable"] for each in health(daemon)["partitions"]] == [4])
        assert health(daemon)["dead_lettered"] == 2
        assert health(daemon)["invalid"]["not_json"] == 1
        assert health(daemon)["invalid"]["too_many_recommendations"] == 1
        assert lists(daemon) == 2
        assert daemon.stop() == 0

    config = tmp_path / "streameval.toml"
    told = json.loads(ran("dlq", config, "--json").stdout)
    assert {each["reason"]: each["count"] for each in told["reasons"]} == {
        "not_json": 1,
        "too_many_recommendations": 1,
    }

    with running(CONFIG.format(most=9, **common), tmp_path) as daemon:
        daemon.until(lambda: health(daemon).get("ready"))
        done = ran("dlq", "replay", config, "--reason", "too_many_recommendations")
        assert done.returncode == 0, done.stderr
        daemon.until(lambda: health(daemon)["consumed"] == 1)
        assert lists(daemon) == 3
        assert daemon.stop() == 0
