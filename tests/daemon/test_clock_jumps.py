"""The real daemon on real topics, where phones with a wrong clock send to one partition."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaProducer

from streameval.testing.broker import Broker
from tests.daemon.running import Running, kafka_source, running
from tests.effort import PATIENCE
from tests.kafka.topics import create

pytestmark = pytest.mark.kafka

PARTITIONS = 4
GOOD = 1_200
AHEAD = 41 * 24 * 3_600
CONFIG = """
metrics = ["hit_rate@1"]
labels = ["where"]
event = { time = "ts", time_unit = "s" }
windows = { spans = ["1h", "2h"] }
web = { listen = "127.0.0.1:0", first_exposure = "0s" }
"""


class Sent(NamedTuple):
    """A record of a partition, with its key."""

    partition: int
    key: str
    seconds: float

    @property
    def value(self) -> bytes:
        label = "phone" if self.key.startswith("phone") else f"p{self.partition}"
        fields = {"recommendations": ["a"], "interactions": ["a"], "ts": self.seconds}
        return json.dumps(fields | {"where": label}).encode()


def good(begin: float, count: int = GOOD) -> list[Sent]:
    users = [number * 7_919 % 300 for number in range(count)]
    return [
        Sent(user % PARTITIONS, f"user-{user}", begin + number / 2)
        for number, user in enumerate(users)
    ]


def send(broker: Broker, topic: str, records: Sequence[Sent], sent_at: float) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5)) as by:
        futures = [
            by.send(
                topic,
                record.value,
                key=record.key.encode(),
                partition=record.partition,
                timestamp_ms=round(sent_at * 1_000),
            )
            for record in records
        ]
        for future in futures:
            future.get(timeout=PATIENCE)


def counts(document: dict[str, Any], *, without: Sequence[str] = ()) -> dict[tuple[str, str], int]:
    """Lists by label and window."""
    return {
        (reading["labels"]["where"], reading["window"]): reading["count"]
        for reading in document["metrics"]
        if reading["window"] != "lifetime" and reading["labels"]["where"] not in without
    }


def expected(records: Sequence[Sent], *partitions: int) -> dict[tuple[str, str], int]:
    return {
        (f"p{number}", span): sum(record.partition == number for record in records)
        for number in partitions
        for span in ("1h", "2h")
    }


def test_a_phone_with_a_wrong_clock_changes_no_window(broker: Broker, tmp_path: Path) -> None:
    """The key of a record in Kafka is its voter, wherever in the log the phone sends."""
    topic, now, count = create(broker, partitions=PARTITIONS), time.time(), 200
    right = good(now - GOOD)
    wrong = [Sent(2, "phone", now + AHEAD + number) for number in range(count)]
    send(broker, topic, [*right[:600], *wrong, *right[600:]], now)
    with running(CONFIG + kafka_source(broker, topic), tmp_path) as daemon:
        document = daemon.consumed(GOOD + count)
        assert counts(document) == expected(right, *range(PARTITIONS))
        assert document["health"]["late"] == 0
        assert document["health"]["future"] == count
        assert daemon.sum_of("clock_jumps_total") == 0
        assert daemon.stop() == 0


def test_eleven_phones_harm_their_partition_alone_until_it_is_counted_again(
    broker: Broker, tmp_path: Path
) -> None:
    topic, now = create(broker, partitions=PARTITIONS), time.time()
    right = good(now - GOOD)
    wrong = [Sent(2, f"phone-{number}", now + AHEAD) for number in range(11)]
    send(broker, topic, [*right[:600], *wrong, *right[600:]], now - 20)
    source = kafka_source(broker, topic)
    with running(f'{CONFIG}state = {{ path = "state" }}\n{source}', tmp_path) as daemon:
        document = daemon.consumed(GOOD + 11)
        assert counts(document, without=["p2", "phone"]) == expected(right, 0, 1, 3)
        _assert_the_jump_is_reported(daemon, f"{topic}[2]")
        assert daemon.stop() == 0

    later = good(now - 300, 400)
    send(broker, topic, later, now)
    start = datetime.fromtimestamp(now - 10, UTC).isoformat()
    source = kafka_source(broker, topic, group=f"{topic}-again", start=start)
    with running(f'{CONFIG}state = {{ path = "again" }}\n{source}', tmp_path) as daemon:
        document = daemon.consumed(400)
        assert counts(document) == expected(later, *range(PARTITIONS))
        assert daemon.sum_of("clock_jumps_total") == 0
        assert daemon.stop() == 0


def _assert_the_jump_is_reported(daemon: Running, partition: str) -> None:
    (line,) = daemon.until(lambda: daemon.logged("clock_jumped"))
    assert partition in line
    assert daemon.sum_of("clock_jumps_total") == 1
    assert AHEAD - 3_600 < daemon.sum_of("clock_ahead_seconds") <= AHEAD
    assert f"{partition}: its clock is 98" in daemon.document()["health"]["trouble"]
    assert "(ahead of this machine)" in daemon.get("/").text
