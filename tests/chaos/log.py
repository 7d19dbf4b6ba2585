"""A log with everything in it that a log can hold, and what it holds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing

import msgspec
from kafka import KafkaProducer

PATIENCE = 60.0
"""Seconds after which an answer of the broker counts as lost."""

START = 1_750_000_000
"""Event time of the first record, seconds."""

_ITEMS = [f"item-{number}" for number in range(200)]
_BAD = (b"{", b"\xff\xfe", b"[]", b'{"recommendations": 3}', b'{"recommendations": [NaN]}')


class Content(msgspec.Struct):
    """What was written to the partitions of a topic.

    Attributes:
        records: how many, by partition.
        bad: places of those that are no event, as (partition, offset).
    """

    records: dict[int, int] = {}
    bad: set[tuple[int, int]] = set()

    @property
    def count(self) -> int:
        """All records."""
        return sum(self.records.values())


class Writer:
    """Writes seeded records; each record of a partition follows the one before it.

    Args:
        address: of the broker.
        topic: with as many partitions as are asked for.
        partitions: how many it has.
        seed: equal seeds give equal records.
    """

    def __init__(self, address: str, topic: str, partitions: int, seed: int) -> None:
        self._address = address
        self._topic = topic
        self._partitions = partitions
        self._random = random.Random(seed)
        self._written = 0
        self.content = Content()

    def write(self, count: int) -> None:
        """Append so many records; all are acknowledged when this returns.

        Raises:
            KafkaError: the broker refuses one.
        """
        settings = {"bootstrap_servers": self._address, "linger_ms": 5, "retries": 100}
        with closing(KafkaProducer(**settings)) as producer:
            sent = [
                producer.send(self._topic, value, key, partition=partition)
                for partition, key, value in self._records(count)
            ]
            for future in sent:
                future.get(timeout=PATIENCE)

    def _records(self, count: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        for _ in range(count):
            draw = self._random.random()
            partition = self._random.randrange(self._partitions)
            offset = self.content.records.get(partition, 0)
            self.content.records[partition] = offset + 1
            self._written += 1
            value: bytes | None = self._event()
            if draw < 0.01:
                value = self._random.choice(_BAD)
                self.content.bad.add((partition, offset))
            elif draw < 0.015:
                value = None
            yield partition, b"user-%d" % self._random.randrange(50), value

    def _event(self) -> bytes:
        draw = self._random
        # A second each, out of order by minutes, and now and then a whole day late.
        late = draw.choices((0, 90, 900, 86_400), weights=(80, 15, 4, 1))[0] * draw.random()
        shown = draw.sample(_ITEMS, 10)
        event = {
            "id": f"event-{draw.randrange(self._written + 1)}",
            "ts": START + self._written * 2 - late,
            "variant": draw.choice(("control", "treatment")),
            "country": draw.choice(("nl", "de", "fr")),
            "recommendations": shown,
            "interactions": draw.sample(shown, draw.choice((0, 0, 1, 2))),
        }
        return json.dumps(event).encode()
