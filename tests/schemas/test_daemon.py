"""The real daemon and broker with events in every format, and a registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streameval.checkpoints.dead_letters.topic import DeadLetterReader
from streameval.checkpoints.storage import Disk
from streameval.checkpoints.store import folder_store
from streameval.testing.broker import Broker
from tests.cli.program import run
from tests.daemon.running import Running, exact, readings, running
from tests.effort import sampled
from tests.kafka.topics import create, fill
from tests.schemas.producing import (
    AVRO,
    EVENT,
    as_avro,
    as_evolved_avro,
    as_json,
    as_json_schema,
    as_protobuf,
    avro_id,
    events,
    framed,
    payload,
    record,
)
from tests.schemas.registries import SmallRegistry, register

pytestmark = pytest.mark.kafka

COUNT = 90
CONFIG = """
metrics = ["ctr", "ndcg@3", "mrr", "value_per_list", "roc_auc", "item_coverage@5"]
labels = ["variant"]
segments = ["country"]
catalog = 200
dedup = "10m"
windows = {{ spans = ["5m"] }}
state = {{ path = "{folder}/{topic}", interval = "1s" }}
web = {{ listen = "127.0.0.1:0" }}
source = {{ type = "kafka", topics = ["{topic}"], group = "{topic}", \
kafka = {{ bootstrap_servers = "{address}" }} }}
"""
REGISTRY = """
[registry]
url = "{url}"
"""


_KEYS = {
    "protobuf": 'format = "protobuf"\nmessage = "tests.schemas.messages:Shown"',
    "decoder": 'decoder = "tests.schemas.messages:decode"',
}


def shop() -> list[dict[str, Any]]:
    """Events without the fields that the first version of the Avro schema lacks."""
    return [
        {name: value for name, value in event.items() if number >= COUNT // 3 or name != "country"}
        for number, event in enumerate(events(COUNT))
    ]


def configured(broker: Broker, folder: Path, topic: str, format_: str, url: str = "") -> str:
    text = CONFIG.format(topic=topic, address=broker.bootstrap_servers, folder=folder)
    text += EVENT.format(format=_KEYS.get(format_, f'format = "{format_}"'))
    return text + (REGISTRY.format(url=url) if url else "")


def spread(broker: Broker, values: Sequence[bytes | None]) -> str:
    """A topic of two partitions with every second record in each."""
    topic = create(broker, partitions=2)
    fill(broker, topic, {0: values[::2], 1: values[1::2]})
    return topic


def state(folder: Path) -> dict[int, dict[str, bytes]]:
    """The content of the newest checkpoint of each partition."""
    store = folder_store(folder, Disk())
    saved_parts = {}
    for shard in store.shards():
        saved = store.newest(shard).saved
        assert saved is not None
        saved_parts[shard.number] = {name: saved.read(name) for name in sorted(saved.digests)}
    return saved_parts


def test_the_same_events_in_every_format_give_the_same_values_and_the_same_state(
    broker: Broker, url: str, tmp_path: Path
) -> None:
    records = shop()
    produced = {
        "json-schema": as_json_schema(url, records),
        "json": as_json(records),
        "avro": as_evolved_avro(url, records),
        "protobuf": as_protobuf(url, records),
        "decoder": [value[::-1] for value in as_json(records)],
    }
    told, kept = {}, {}
    for format_ in sampled(produced, 2):
        values = produced[format_]
        topic = spread(broker, values)
        needed = url if format_ == "avro" else ""
        config = configured(broker, tmp_path, topic, format_, needed)
        with running(config, tmp_path) as daemon:
            document = daemon.consumed(COUNT)
            assert document["health"]["valid"] == COUNT, invalid(document["health"])
            told[format_] = exact(readings(document))
            assert daemon.stop() == 0
        kept[format_] = state(tmp_path / topic)
    assert len(told["json-schema"]) > 1_000
    assert set(told.values()) == {told["json-schema"]}
    assert len(kept["json-schema"]) == 2
    for format_, parts in kept.items():
        assert parts == kept["json-schema"], format_


def test_while_the_registry_is_unavailable_records_wait_and_none_is_lost(
    broker: Broker, registry: SmallRegistry, tmp_path: Path
) -> None:
    """A record that has no schema, or another one, does not wait: it is a dead letter."""
    values = as_avro(registry.url, events(COUNT))
    bad = {
        b"{}": "not_framed",
        framed(999_999, b"x"): "unknown_schema",
        as_protobuf(registry.url, events(1))[0]: "unusable_schema",
        values[7][:-2]: "not_of_its_schema",
    }
    newer = avro_id(registry.url, AVRO | {"doc": "a newer version"})
    registry.stop()
    topic = spread(broker, values[:30])
    config = configured(broker, tmp_path, topic, "avro", registry.url)
    config += 'user = "reader"\npassword = "${SECRET}"\n'
    with running(config, tmp_path, SECRET="hush") as daemon:
        assert "hush" not in str(daemon.log)
        assert "SECRET" not in str(daemon.log)
        daemon.until(lambda: daemon.logged("source_trouble"))
        assert "it cannot be reached" in daemon.logged("source_trouble")[0]
        waiting = f"{topic}[0], {topic}[1] wait for it; still trying."
        daemon.until(lambda: waiting in daemon.logged("source_trouble")[-1])
        assert daemon.get("/-/ready").status_code == 503
        assert "still trying" in daemon.get("/-/ready").text
        assert daemon.get("/-/healthy").status_code == 200
        daemon.until(lambda: failures(daemon) > 0)
        assert daemon.document()["health"]["consumed"] == 0
        registry.start()
        daemon.consumed(30)
        daemon.until(lambda: daemon.logged("source_recovered"))
        assert daemon.get("/-/ready").status_code == 200
        assert not [line for line in daemon.log if "HTTP Request" in line]
        before = len(daemon.logged("source_trouble"))
        # Of a partition, only what comes after a record of the new version waits.
        registry.stop()
        later = [framed(newer, value[5:]) for value in values[40:60]]
        fill(broker, topic, {0: [*values[30:40], *later], 1: values[60:]})
        assert daemon.consumed(70)["health"]["valid"] == 70
        daemon.until(lambda: len(daemon.logged("source_trouble")) > before)
        assert daemon.get("/-/healthy").status_code == 200
        registry.start()
        health = daemon.consumed(COUNT)["health"]
        assert (health["valid"], invalid(health)) == (COUNT, {})
        fill(broker, topic, {0: [*bad]})
        health = daemon.consumed(COUNT + len(bad))["health"]
        assert (health["valid"], invalid(health)) == (COUNT, dict.fromkeys(bad.values(), 1))
        assert daemon.stop() == 0
    address = {"bootstrap_servers": broker.bootstrap_servers}
    dead_letters = [*DeadLetterReader(address, [f"{topic}.dlq"], [topic])]
    assert {dead_letter.value: dead_letter.reason for dead_letter in dead_letters} == bad
    assert {dead_letter.stage for dead_letter in dead_letters} == {"decode"}


def invalid(health: dict[str, Any]) -> dict[str, int]:
    return {reason: count for reason, count in health["invalid"].items() if count}


def failures(daemon: Running) -> float:
    name = 'streameval_kafka_connection_failures_total{reason="schema_registry"} '
    lines = daemon.get("/metrics").text.splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)


JOIN = """
metrics = ["ctr", "mrr"]
event = {{ time = "at", time_unit = "ms" }}
state = {{ path = "{folder}/{clicked}", interval = "1s" }}
web = {{ listen = "127.0.0.1:0" }}
source = {{ type = "kafka", topics = ["{shown}", "{clicked}"], group = "{shown}", \
kafka = {{ bootstrap_servers = "{address}" }} }}
[attribution]
impressions = "{shown}"
window = "1m"
lateness = "0s"
idle_timeout = "1s"
interactions = [{{ source = "{clicked}", format = "avro" }}]
"""


def test_clicks_in_avro_join_impressions_in_json(
    broker: Broker, registry: SmallRegistry, tmp_path: Path
) -> None:
    shown = [
        {"request_id": f"r{n}", "at": 1_000 * n, "recommendations": ["a", "b", "c"]}
        for n in range(60)
    ]
    clicks = [
        {"request_id": f"r{n}", "at": 1_000 * n + 500, "item": "abc"[n % 3], "type": "click"}
        for n in range(0, 60, 2)
    ]
    at = {"type": "long", "logicalType": "timestamp-millis"}
    texts = dict.fromkeys(("request_id", "item", "type"), "string")
    schema = record("Clicked", {"at": at, **texts})
    number = register(registry.url, "clicked-value", json.dumps(schema))
    topics = {"shown": create(broker), "clicked": create(broker)}
    fill(broker, topics["shown"], {0: as_json(shown)})
    fill(
        broker, topics["clicked"], {0: [framed(number, payload(schema, click)) for click in clicks]}
    )
    config = JOIN.format(**topics, address=broker.bootstrap_servers, folder=tmp_path)
    with running(config + REGISTRY.format(url=registry.url), tmp_path) as daemon:
        daemon.until(lambda: outcomes(daemon) == [60, 30])
        by_metric = {reading["metric"]: reading for reading in readings(daemon.document())}
        assert (by_metric["ctr"]["count"], by_metric["ctr"]["value"]) == (180, 30 / 180)
        assert (by_metric["mrr"]["count"], by_metric["mrr"]["value"]) == (
            60,
            (10 + 5 + 10 / 3) / 60,
        )
        assert daemon.stop() == 0
    done = run("explain", "r2", "--config", tmp_path / "streameval.toml")
    assert "click c: open. It is attributed to a list" in done.stdout, done
    # The registry answers, or it is said that it does not.
    done = run("check", tmp_path / "streameval.toml", "--connect")
    assert f"schemas    The schema registry at {registry.url} answers" in done.stdout, done
    registry.stop()
    done = run("check", tmp_path / "streameval.toml", "--connect")
    assert (done.returncode, "it cannot be reached" in done.stderr) == (1, True), done


def outcomes(daemon: Running) -> list[int]:
    join = daemon.document().get("health", {}).get("join") or {}
    return [stream["outcomes"]["counted"] for stream in join.get("streams", [])]
