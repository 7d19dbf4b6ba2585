"""An experiment on live traffic equals that on files, also after kills."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streameval.testing.broker import Broker
from tests.cli.program import ran
from tests.daemon.running import Running, running
from tests.join.topics import send
from tests.kafka.topics import create

USERS, RECORDS, PARTITIONS = 6_000, 12_000, 4
CLICKED = {"control": 0.30, "placebo": 0.30, "treatment": 0.45}
CONFIG = """
metrics = ["ctr", "mrr", "ndcg@5", "gini"]
labels = ["variant", "country"]
intervals = {{ confidence = 0.95 }}
[experiment]
primary = ["mrr"]
guardrails = {{ ctr = -0.01 }}
[source]
type = "kafka"
topics = ["{topic}"]
group = "{topic}"
member = "{member}"
start = "earliest"
[source.kafka]
bootstrap_servers = "{servers}"
session_timeout_ms = 3000
heartbeat_interval_ms = 300
[event]
time = "ts"
time_unit = "s"
[state]
path = "{store}"
interval = "1s"
[web]
listen = "127.0.0.1:0"
"""


def traffic(seed: int) -> Iterator[dict[str, Any]]:
    """Two lists of each user over three days; placebo is control by another name."""
    draw = random.Random(seed)
    for number in range(RECORDS):
        user = draw.randrange(USERS)
        variant = sorted(CLICKED)[user % 3]
        shown = [f"i{draw.randrange(200)}-{rank}" for rank in range(5)]
        clicked = draw.random() < CLICKED[variant]
        yield {
            "user": f"u{user}",
            "variant": variant,
            "country": ("DE", "FR")[user % 7 % 2],
            "ts": 1_750_000_000 + number * 3 * 86_400 // RECORDS,
            "recommendations": shown,
            "interactions": [shown[min(draw.randrange(5), draw.randrange(5))]] if clicked else [],
        }


def read(daemon: Running) -> int:
    """The sum of the positions of all its partitions."""
    return sum(each["position"] or 0 for each in _partitions(daemon))


def owned(daemon: Running) -> int:
    return len(_partitions(daemon))


def _partitions(daemon: Running) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.document().get("health", {}).get("partitions", [])
    return found


@pytest.mark.kafka
def test_two_daemons_of_which_one_is_killed_count_what_the_files_hold(
    broker: Broker, tmp_path: Path
) -> None:
    lines = [json.dumps(record).encode() for record in traffic(1)]
    (tmp_path / "events.ndjson").write_bytes(b"\n".join(lines))
    topic = create(broker, partitions=PARTITIONS)
    given = {"topic": topic, "servers": broker.bootstrap_servers, "store": tmp_path / "state"}
    folders = [tmp_path / member for member in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    configs = [CONFIG.format(**given, member=folder.name) for folder in folders]
    with running(configs[0], folders[0]) as one, running(configs[1], folders[1]) as two:
        one.until(lambda: owned(one) == owned(two) == PARTITIONS // 2)
        send(broker, topic, lines[: RECORDS // 2], "user")
        one.until(lambda: read(one) + read(two) == RECORDS // 2)
        for daemon in (one, two):
            part = daemon.until(partial(_experiment, daemon))
            assert "other processes count" in part["checks"]["trouble"][-1]
            assert {row["verdict"] for row in part["comparisons"]} <= {
                "do not trust",
                "too few users",
            }
        one.process.send_signal(signal.SIGKILL)
        send(broker, topic, lines[RECORDS // 2 :], "user")
        two.until(lambda: read(two) == RECORDS)
        live = two.until(lambda: _whole(_experiment(two)))
        assert two.stop() == 0
    options = "--by variant --control control --method anytime --primary mrr --format json"
    guarded = ("--guardrail", "ctr=-0.01")
    metrics = [part for name in ("ctr", "mrr", "ndcg@5") for part in ("-m", name)]
    options += " --time ts --time-unit s"
    done = ran("compare", tmp_path / "events.ndjson", *metrics, *options.split(), *guarded)
    assert done.returncode == 0, done.stderr
    offline = json.loads(done.stdout)
    assert live["checks"] == offline["checks"]
    rows = [{key: row[key] for key in offline["comparisons"][0]} for row in live["comparisons"]]
    for live_row, offline_row in zip(rows, offline["comparisons"], strict=True):
        assert [*live_row.items()] == [*offline_row.items()]
    verdicts = {(row["metric"], row["variant"]): row["verdict"] for row in rows}
    assert verdicts["mrr", "treatment"] == "better"
    assert verdicts["mrr", "placebo"] in {"no difference", "not enough evidence"}


def _experiment(daemon: Running) -> dict[str, Any] | None:
    found: dict[str, Any] | None = daemon.document().get("experiment")
    return found


def _whole(experiment: dict[str, Any] | None) -> dict[str, Any] | None:
    return experiment if experiment and not experiment["checks"]["trouble"] else None
