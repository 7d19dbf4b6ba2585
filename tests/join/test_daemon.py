"""Real logs, joined from files and from topics; topics that cannot be joined are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from streameval.events.errors import RefusedRecordsError, UnevenStreamsError
from streameval.events.records import Partition, RecordBatch
from streameval.join.frontend import CopartitionedOwner, check_copartitioned
from streameval.testing.broker import Broker
from tests.batches import batch_of
from tests.cli.program import run, spawn
from tests.daemon.running import Running, exact, readings, running
from tests.datasets import dataset
from tests.durability.checkpointing import assignment
from tests.join.offline import Case
from tests.join.streams import join_frontend
from tests.kafka.members import RecordingOwner
from tests.kafka.topics import create, fill, lines, published

LISTS = 4_000
"""The first ones of its 20,000; all of them are joined from files."""
METRICS = """
metrics = ["ctr", "hit_rate@3", "mrr@3", "ndcg@3", "hits@3"]
labels = ["variant", "campaign"]
event = { time = "ts", time_unit = "iso8601", positions = "positions" }
"""
JOIN = """
source = {{ type = "kafka", topics = ["{shown}", "{clicked}"], group = "{shown}", member = "one", \
kafka = {{ bootstrap_servers = "{address}" }} }}
state = {{ path = "{store}", interval = "1s" }}
web = {{ listen = "127.0.0.1:0" }}
[attribution]
impressions = "{shown}"
window = "30m"
lateness = "2m"
idle_timeout = "1s"
interactions = [{{ source = "{clicked}", types = {{ click = 1 }} }}]
"""


def streams(daemon: Running) -> list[dict[str, Any]]:
    join = daemon.document().get("health", {}).get("join") or {}
    joined_streams: list[dict[str, Any]] = join.get("streams", [])
    return joined_streams


def ended(daemon: Running, records: int) -> bool:
    """Whether every record was read, and has ended."""
    listed = streams(daemon)
    told = sum(sum(stream["outcomes"].values()) for stream in listed)
    return bool(listed) and told == records and not any(stream["open"] for stream in listed)


def test_logged_impressions_and_clicks_give_what_their_joined_file_gives(
    broker: Broker, tmp_path: Path
) -> None:
    folder = dataset("slots")
    impressions = lines(folder / "impressions.ndjson.gz")[:LISTS]
    keys = {_key(line) for line in impressions}
    clicked = [line for line in lines(folder / "interactions.ndjson.gz") if _key(line) in keys]
    topics = {"shown": published(broker, impressions), "clicked": published(broker, clicked)}
    config = METRICS + JOIN.format(
        **topics, address=broker.bootstrap_servers, store=tmp_path / "state"
    )
    with running(config, tmp_path) as daemon:
        daemon.until(lambda: ended(daemon, len(impressions) + len(clicked)))
        live = readings(daemon.document())
        assert [s["outcomes"]["counted"] for s in streams(daemon)] == [LISTS, len(clicked)]
        assert daemon.stop() == 0
    events = tmp_path / "events.toml"
    events.write_text(METRICS + 'source = { type = "simulator" }')
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"\n".join(lines(folder / "events.ndjson.gz")[:LISTS]))
    told = json.loads(
        run("evaluate", str(path), "--config", str(events), "--format", "json").stdout
    )
    assert exact(live) == exact(told)
    hits = sum(reading["value"] for reading in told if reading["metric"] == "hits@3")
    assert hits == len(clicked) > 0


def _key(record: bytes) -> str:
    key: str = json.loads(record)["request_id"]
    return key


CASE = Case([[[]], [[]]], window=1)
SEEN = {"ts": 1, "request_id": "r1", "user": "u", "shown": ["a"]}
CLICK = {"ts": 1, "request_id": "r1", "user": "u", "item": "a", "type": "click", "event_id": "1"}


def batch(topic: str, number: int, record: object) -> RecordBatch:
    return batch_of(Partition(topic, number), [json.dumps(record).encode()])


def test_a_key_in_the_same_partition_of_every_topic_is_accepted() -> None:
    check_copartitioned(join_frontend(CASE), [batch("s0-0", 2, SEEN), batch("s1-0", 2, CLICK)])


def test_a_key_in_different_partitions_is_refused() -> None:
    with pytest.raises(RefusedRecordsError, match="partition 2 of s0-0 and partition 1 of s1-0"):
        check_copartitioned(join_frontend(CASE), [batch("s0-0", 2, SEEN), batch("s1-0", 1, CLICK)])


@pytest.mark.parametrize(
    ("logs", "problem"),
    [
        ([("shown", 0, 2), ("clicked", 0, 3)], "differ: shown has 2, clicked has 3. Give all"),
        ([("shown", 0, 2), ("clicked", 0, 3), ("clicked", 2, 3)], "differ: shown has 2"),
        ([("clicked", 2, 3)], "partition 2 of shown was not assigned with it"),
    ],
)
def test_unequal_partitions_are_refused(logs: list[tuple[str, int, int]], problem: str) -> None:
    nobody, topics = RecordingOwner(), ["shown", "clicked"]
    grouped = CopartitionedOwner(nobody, join_frontend(CASE).partition_of, topics)
    assignments = [
        assignment(partition=Partition(topic, number), identity=topic, partitions=partitions)
        for topic, number, partitions in logs
    ]
    with pytest.raises(UnevenStreamsError, match="the same number of partitions") as refused:
        grouped.assigned(assignments)
    assert problem in str(refused.value)
    assert nobody.happened == []


def test_a_daemon_refuses_topics_that_are_not_copartitioned(broker: Broker, tmp_path: Path) -> None:
    impression_topic, clicked = create(broker, partitions=2), create(broker, partitions=2)
    at = "2026-01-01T00:00:00Z"
    seen = {"ts": at, "request_id": "r1", "recommendations": ["a"], "positions": [1]}
    fill(broker, impression_topic, {0: [json.dumps(seen).encode()]})
    fill(broker, clicked, {1: [json.dumps({**CLICK, "ts": at}).encode()]})
    config = METRICS + JOIN.format(
        shown=impression_topic,
        clicked=clicked,
        address=broker.bootstrap_servers,
        store=tmp_path / "state",
    )
    (tmp_path / "streameval.toml").write_text(config)
    done = spawn("run", tmp_path / "streameval.toml")
    assert done.returncode != 0
    assert re.search(r"the key \W*r1\W* is in ", done.stderr)
    assert f"partition 0 of {impression_topic}" in done.stderr
    assert f"partition 1 of {clicked}" in done.stderr


def test_a_stream_whose_topic_is_created_later_is_waited_for(
    broker: Broker, tmp_path: Path
) -> None:
    impression_topic = create(broker)
    clicked = f"{impression_topic}-clicked"
    at = "2026-01-01T00:00:00Z"
    seen = {"ts": at, "request_id": "r1", "recommendations": ["a"], "positions": [1]}
    fill(broker, impression_topic, {0: [json.dumps(seen).encode()]})
    config = METRICS + JOIN.format(
        shown=impression_topic,
        clicked=clicked,
        address=broker.bootstrap_servers,
        store=tmp_path / "state",
    )
    with running(config, tmp_path) as daemon:
        (problem,) = daemon.until(lambda: daemon.logged("source_trouble"))
        assert f"no topic '{clicked}' on this cluster; create it" in problem
        assert daemon.get("/-/ready").status_code == 503
        create(broker, name=clicked)
        fill(broker, clicked, {0: [json.dumps({**CLICK, "ts": at}).encode()]})
        daemon.until(lambda: ended(daemon, 2))
        assert daemon.stop() == 0
