"""Writes logs with valid, invalid, late and duplicate records, and tombstones."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import msgspec
from kafka import KafkaProducer

from tests.effort import PATIENCE

START = 1_750_000_000
"""Event time of the first record, seconds."""

_ITEMS = [f"item-{number}" for number in range(200)]
_BAD = (b"{", b"\xff\xfe", b"[]", b'{"recommendations": 3}', b'{"recommendations": [NaN]}')
_BURSTS = 10
"""Bursts per second of traffic."""


class LogContents(msgspec.Struct):
    """The readable content of a topic: all records, and (partition, offset) of invalid ones."""

    count: int = 0
    bad: set[tuple[int, int]] = msgspec.field(default_factory=set)

    def mark_lost(self, partition: int, begin: int, end: int) -> None:
        """Remove offsets of a partition that nobody can read any more."""
        self.count -= end - begin
        self.bad -= {(partition, offset) for offset in range(begin, end)}


class Writer:
    """Writes seeded records in order; `step` is the seconds of event time between them."""

    def __init__(
        self,
        address: str,
        topic: str,
        partitions: int,
        seed: int,
        *,
        step: float = 0.25,
        **settings: Any,
    ) -> None:
        self.content = LogContents()
        self.topic = topic
        self.partitions = partitions
        self._random = random.Random(seed)
        self._step = step
        self._written = 0
        self.producer = KafkaProducer(
            bootstrap_servers=address,
            linger_ms=5,
            acks="all",
            enable_idempotence=True,
            delivery_timeout_ms=round(1_000 * PATIENCE),
            **settings,
        )

    def write(self, count: int, *, counts: bool = True) -> None:
        """Append records, and wait for their acknowledgements.

        Those of a transaction that will be aborted do not count.
        """
        sent = [
            (bad, self.producer.send(self.topic, value, key, partition=partition))
            for partition, key, value, bad in self._records(count)
        ]
        for bad, future in sent:
            written = future.get(timeout=PATIENCE)
            self.content.count += counts
            if bad and counts:
                self.content.bad.add((written.partition, written.offset))

    @contextmanager
    def traffic(self, rate: int) -> Iterator[None]:
        """Write `rate` records per second in the background of the block."""
        ended = threading.Event()

        def flow() -> None:
            while not ended.is_set():
                self.write(max(1, rate // _BURSTS))
                ended.wait(1 / _BURSTS)

        with ThreadPoolExecutor(1, "traffic") as pool:
            traffic = pool.submit(flow)
            try:
                yield
            finally:
                ended.set()
            traffic.result(PATIENCE)

    def close(self) -> None:
        self.producer.close(timeout=5)

    def _records(self, count: int) -> Iterator[tuple[int, bytes, bytes | None, bool]]:
        for _ in range(count):
            draw, partition = self._random.random(), self._random.randrange(self.partitions)
            self._written += 1
            value: bytes | None = self._event()
            bad = draw < 0.01
            if bad:
                value = self._random.choice(_BAD)
            elif draw < 0.015:
                value = None
            yield partition, b"user-%d" % self._random.randrange(50), value, bad

    def _event(self) -> bytes:
        draw = self._random
        # Out of order by minutes, and sometimes a day late.
        late = draw.choices((0, 90, 900, 86_400), weights=(90, 8, 1.5, 0.5))[0] * draw.random()
        recommended = draw.sample(_ITEMS, 10)
        event = {
            "id": f"event-{self._written - draw.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7, 400))}",
            "ts": START + self._written * self._step - late,
            "variant": draw.choice(("control", "treatment")),
            "country": draw.choice(("nl", "de", "fr")),
            "recommendations": recommended,
            "interactions": draw.sample(recommended, draw.choice((0, 0, 1, 2))),
        }
        return json.dumps(event).encode()
