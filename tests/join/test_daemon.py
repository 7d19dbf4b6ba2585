"""The real daemon joins two topics of the real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streameval.testing.broker import Broker
from tests.cli.program import ran
from tests.daemon.running import Running, exact, readings, running
from tests.join.topics import lines, published

OBD = Path(__file__).parents[3] / "shared" / "datasets" / "obd_small"
LISTS = 4_000
"""The first ones of its 40,000; tests/join/test_logged.py joins them all, from files."""
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
    found: list[dict[str, Any]] = join.get("streams", [])
    return found


def ended(daemon: Running, records: int) -> bool:
    """Whether every record was read, and has ended."""
    found = streams(daemon)
    told = sum(sum(stream["outcomes"].values()) for stream in found)
    return bool(found) and told == records and not any(stream["open"] for stream in found)


@pytest.mark.skipif(not OBD.exists(), reason="the shared data sets are not there")
def test_logged_impressions_and_clicks_give_what_their_joined_file_gives(
    broker: Broker, tmp_path: Path
) -> None:
    shown = lines(OBD / "impressions.ndjson.gz")[:LISTS]
    keys = {_key(each) for each in shown}
    clicked = [each for each in lines(OBD / "interactions.ndjson.gz") if _key(each) in keys]
    topics = {"shown": published(broker, shown), "clicked": published(broker, clicked)}
    config = METRICS + JOIN.format(
        **topics, address=broker.bootstrap_servers, store=tmp_path / "state"
    )
    with running(config, tmp_path) as daemon:
        daemon.until(lambda: ended(daemon, len(shown) + len(clicked)))
        found = readings(daemon.document())
        assert [s["outcomes"]["counted"] for s in streams(daemon)] == [LISTS, len(clicked)]
        assert daemon.stop() == 0
    events = tmp_path / "events.toml"
    events.write_text(METRICS + 'source = { type = "simulator" }')
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"\n".join(lines(OBD / "events.ndjson.gz")[:LISTS]))
    told = json.loads(
        ran("evaluate", str(path), "--config", str(events), "--format", "json").stdout
    )
    assert exact(found) == exact(told)
    hits = sum(each["value"] for each in told if each["metric"] == "hits@3")
    assert hits == len(clicked) > 0


def _key(record: bytes) -> str:
    key: str = json.loads(record)["request_id"]
    return key


def test_a_wrong_item_field_is_warned_about(broker: Broker, tmp_path: Path) -> None:
    times = [f"2026-01-01T{n // 60:02d}:{n % 60:02d}:{{}}Z" for n in range(1_400)]
    shown = [
        {"request_id": n, "ts": time.format("00"), "recommendations": ["a", "b"]}
        for n, time in enumerate(times)
    ]
    clicked = [
        {"request_id": n, "ts": time.format("10"), "item": "a", "type": "click", "seen_by": "u"}
        for n, time in enumerate(times)
    ]
    topics = {
        name: published(broker, [json.dumps(record).encode() for record in records])
        for name, records in (("shown", shown), ("clicked", clicked))
    }
    metrics = METRICS.replace('labels = ["variant", "campaign"]\n', "")
    join = JOIN.format(**topics, address=broker.bootstrap_servers, store=tmp_path / "state")
    join = join.replace("types = {", 'item = "seen_by", types = {')
    with running(metrics + join, tmp_path) as daemon:
        sentence = "lists with interactions and no hit"
        daemon.until(lambda: sentence in str(daemon.document().get("health", {}).get("trouble")))
        assert daemon.stop() == 0
