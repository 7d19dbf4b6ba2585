"""The real daemon on real topics: known values, letters that count after a replay, and kills."""

from __future__ import annotations

import json
import random
import signal
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streameval.testing.broker import Broker
from tests.cli.program import run
from tests.daemon.running import Running, exact, kafka_source, readings, running
from tests.datasets import dataset
from tests.kafka.topics import create, filled, send

KNOWN = """
metrics = ["ctr", "hit_rate@10", "ndcg@10", "item_coverage@10"]
labels = ["variant", "campaign"]
catalog = 80
event = { time = "ts", time_unit = "iso8601" }
web = { listen = "127.0.0.1:0", first_exposure = "0s" }
"""


@pytest.mark.kafka
def test_a_published_data_set_gives_its_counts_and_the_bits_of_evaluate(
    broker: Broker, tmp_path: Path
) -> None:
    folder = dataset("slots")
    events = folder / "events.ndjson.gz"
    topic = f"test-{uuid.uuid4().hex[:12]}"
    where = ("--bootstrap-servers", broker.bootstrap_servers, "--topic", topic)
    done = run("publish", events, *where)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"20,000 records published to topic {topic}, created with 4 partitions.\n"

    with running(KNOWN + kafka_source(broker, topic), tmp_path) as daemon:
        document = daemon.consumed(20_000)
        scrape = daemon.until(lambda: _beyond_zero(daemon.get("/metrics").text))
        assert daemon.get("/-/ready").status_code == 200
        assert daemon.stop() == 0

    _assert_all_is_read(document)
    assert set(scrape.splitlines()) >= _expected_samples(folder)
    config = tmp_path / "streameval.toml"
    offline = run("evaluate", events, "--config", config, "--format", "json")
    assert exact(readings(document)) == exact(json.loads(offline.stdout))


def _assert_all_is_read(document: dict[str, Any]) -> None:
    health = document["health"]
    assert (health["valid"], health["tombstones"]) == (20_000, 0)
    assert [partition["lag"] for partition in health["partitions"]] == [0] * 4


def _expected_samples(folder: Path) -> set[str]:
    """The samples expected from the known clicks and impressions."""
    return {
        f'streameval_ctr_{name}{{campaign="{arm["campaign"]}",variant="{arm["policy"]}"}} {value}'
        for arm in json.loads((folder / "expected.json").read_text())
        for name, value in (("sum", float(arm["clicks"])), ("count", float(arm["n"])))
    }


def _beyond_zero(scrape: str) -> str:
    """A scrape after every counter has risen from 0."""
    sums = [line for line in scrape.splitlines() if line.startswith("streameval_ctr_sum")]
    return scrape if len(sums) == 4 and not any(line.endswith(" 0.0") for line in sums) else ""


LETTERS = """
metrics = ["hit_rate@1"]
event = {{ max_recommendations = {most} }}
state = {{ path = "state", interval = "1s", on_other_settings = "accept" }}
dead_letters = {{ max_ratio = 0.9 }}
web = {{ listen = "127.0.0.1:0" }}
"""
GOOD = b'{"recommendations": ["a", "b"], "interactions": ["a"]}'
LONG = b'{"recommendations": ["a", "b", "c"], "interactions": ["a"]}'


def health(daemon: Running) -> dict[str, Any]:
    health_document: dict[str, Any] = daemon.document().get("health", {})
    return health_document


def lists_of(daemon: Running) -> int:
    (entry,) = [
        reading for reading in daemon.document()["metrics"] if reading["window"] == "lifetime"
    ]
    count: int = entry["lists"]
    return count


@pytest.mark.usefixtures("broker")
def test_an_invalid_record_is_only_a_dead_letter_and_counts_after_a_replay(
    broker: Broker, tmp_path: Path
) -> None:
    topic = filled(broker, {0: [GOOD, b"{garbage", LONG, GOOD]})
    source = kafka_source(broker, topic, member="one")
    with running(LETTERS.format(most=2) + source, tmp_path) as daemon:
        daemon.consumed(4)
        daemon.until(
            lambda: [partition["durable"] for partition in health(daemon)["partitions"]] == [4]
        )
        assert health(daemon)["dead_lettered"] == 2
        assert health(daemon)["invalid"]["not_json"] == 1
        assert health(daemon)["invalid"]["too_many_recommendations"] == 1
        assert lists_of(daemon) == 2
        assert daemon.stop() == 0

    config = tmp_path / "streameval.toml"
    output = json.loads(run("dlq", config, "--format", "json").stdout)
    assert {reason["reason"]: reason["count"] for reason in output["reasons"]} == {
        "not_json": 1,
        "too_many_recommendations": 1,
    }

    with running(LETTERS.format(most=9) + source, tmp_path) as daemon:
        daemon.until(lambda: health(daemon).get("ready"))
        done = run("dlq", "replay", config, "--reason", "too_many_recommendations")
        assert done.returncode == 0, done.stderr
        daemon.until(lambda: health(daemon)["consumed"] == 1)
        assert lists_of(daemon) == 3
        assert daemon.stop() == 0


HASTY = {"session_timeout_ms": 3000, "heartbeat_interval_ms": 300}
USERS, RECORDS, PARTITIONS = 6_000, 12_000, 4
CLICKED = {"control": 0.30, "placebo": 0.30, "treatment": 0.45}
EXPERIMENT = """
metrics = ["ctr", "mrr", "ndcg@5", "gini"]
labels = ["variant", "country"]
intervals = {{ confidence = 0.95 }}
experiment = {{ primary = ["mrr"], guardrails = {{ ctr = -0.01 }} }}
event = {{ time = "ts", time_unit = "s" }}
state = {{ path = "{store}", interval = "1s" }}
web = {{ listen = "127.0.0.1:0" }}
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
    return sum(partition["position"] or 0 for partition in _partitions(daemon))


def owned(daemon: Running) -> int:
    return len(_partitions(daemon))


def _partitions(daemon: Running) -> list[dict[str, Any]]:
    partitions: list[dict[str, Any]] = health(daemon).get("partitions", [])
    return partitions


@pytest.mark.kafka
def test_two_daemons_of_which_one_is_killed_count_what_the_files_hold(
    broker: Broker, tmp_path: Path
) -> None:
    lines = [json.dumps(record).encode() for record in traffic(1)]
    (tmp_path / "events.ndjson").write_bytes(b"\n".join(lines))
    topic = create(broker, partitions=PARTITIONS)
    folders = [tmp_path / member for member in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    config = EXPERIMENT.format(store=tmp_path / "state")
    sources = [kafka_source(broker, topic, kafka=HASTY, member=home.name) for home in folders]
    with (
        running(config + sources[0], folders[0]) as first,
        running(config + sources[1], folders[1]) as two,
    ):
        first.until(lambda: owned(first) == owned(two) == PARTITIONS // 2)
        send(broker, topic, lines[: RECORDS // 2], "user")
        first.until(lambda: read(first) + read(two) == RECORDS // 2)
        for daemon in (first, two):
            part = daemon.until(partial(_experiment, daemon))
            assert "other processes count" in part["checks"]["trouble"][-1]
            assert {row["verdict"] for row in part["comparisons"]} <= {
                "do not trust",
                "too few users",
            }
        first.process.send_signal(signal.SIGKILL)
        send(broker, topic, lines[RECORDS // 2 :], "user")
        two.until(lambda: read(two) == RECORDS)
        live = two.until(lambda: _whole(_experiment(two)))
        logs = [f"{topic}[{number}]" for number in range(PARTITIONS)]
        assert all(log in "".join(two.logged("partitions_assigned")) for log in logs)
        assert two.stop() == 0
    options = "--label variant --control control --method anytime --primary mrr --format json"
    guarded = ("--guardrail", "ctr=-0.01")
    metrics = [part for name in ("ctr", "mrr", "ndcg@5") for part in ("-m", name)]
    options += " --time ts --time-unit s"
    done = run("compare", tmp_path / "events.ndjson", *metrics, *options.split(), *guarded)
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
    experiment: dict[str, Any] | None = daemon.document().get("experiment")
    return experiment


def _whole(experiment: dict[str, Any] | None) -> dict[str, Any] | None:
    return experiment if experiment and not experiment["checks"]["trouble"] else None
