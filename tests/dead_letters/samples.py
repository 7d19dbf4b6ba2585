"""Dead letters, destinations, and readers of destinations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, get_args

from hypothesis import strategies as st
from kafka import KafkaConsumer, TopicPartition

from streameval.checkpoints.dead_letters.queue import Queue, dead_letters_of
from streameval.checkpoints.dead_letters.topic import HEADERS, dead_letter_of
from streameval.decoding.invalid import REASONS
from streameval.engine.dead_letters import DeadLetter, Stage
from streameval.events.errors import DeadLetterError
from streameval.events.records import Partition
from streameval.sources.settings import SourceOptions
from streameval.testing.broker import Broker
from tests.effort import PATIENCE


class FailingWriter:
    """A writer that can fail before or after writing."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.fails = False
        self.fails_after: int | None = None
        self._times = 0

    def write(self, dead_letters: Sequence[DeadLetter]) -> None:
        self.written += [dead_letter.offset for dead_letter in dead_letters]
        self._times += 1
        if self.fails or (self.fails_after is not None and self._times > self.fails_after):
            raise DeadLetterError("paper", "it is wet", "dry it")

    def close(self) -> None:
        pass


def make_dead_letter(
    offset: int = 14,
    *,
    topic: str = "events",
    number: int = 0,
    value: bytes = b"not json",
    key: bytes | None = b"key",
    headers: tuple[tuple[str, bytes], ...] = (("trace", b"7"),),
    size: int | None = None,
) -> DeadLetter:
    """A dead letter of a record that is not JSON."""
    return DeadLetter(
        partition=Partition(topic, number),
        offset=offset,
        timestamp_ms=1_700_000_000_000 + offset,
        key=key,
        headers=headers,
        value=value,
        stage="decode",
        reason="not_json",
        message=f"found {offset} at the beginning",
        size=size,
    )


header_names = st.text(max_size=5) | st.sampled_from([*HEADERS, "streameval.original"])
dead_letter_strategy = st.builds(
    DeadLetter,
    partition=st.builds(Partition, st.sampled_from(["events", "a/b.c"]), st.integers(0, 9)),
    offset=st.integers(0, 2**62),
    timestamp_ms=st.none() | st.integers(0, 2**62),
    key=st.none() | st.binary(),
    headers=st.lists(st.tuples(header_names, st.binary(max_size=5))).map(tuple),
    value=st.binary(),
    stage=st.sampled_from(get_args(Stage)),
    reason=st.sampled_from(list(REASONS)),
    message=st.text(),
    size=st.none() | st.integers(0, 2**62),
)


def destination(
    source: SourceOptions,
    *,
    topic: str | None = None,
) -> Queue:
    dead = dead_letters_of(source, {}, topic=topic)
    assert dead is not None
    return dead


def deliver(queue: Queue, *dead_letters: DeadLetter) -> None:
    """Write dead letters to a destination and close it."""
    with closing(queue):
        queue.send(dead_letters)
        queue.flush()


def in_topic(broker: Broker, topic: str) -> list[tuple[int, DeadLetter]]:
    """Partition and dead letter of each record of a topic, in the order of the records."""
    read = [
        (stored.partition, dead_letter_of(stored.key, stored.value, stored.headers))
        for stored in records_in(broker, topic)
    ]
    numbered = [(number, dead_letter) for number, dead_letter in read if dead_letter is not None]
    assert len(numbered) == len(read)
    return sorted(numbered, key=lambda pair: pair[1].identity)


def records_in(broker: Broker, topic: str) -> list[Any]:
    """The client's records, by partition and offset."""
    return sorted(_records(broker, topic), key=lambda record: (record.partition, record.offset))


def _records(broker: Broker, topic: str) -> Iterator[Any]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    with closing(consumer):
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        left = sum(consumer.end_offsets(partitions).values())
        while left > 0:
            for records in consumer.poll(timeout_ms=round(PATIENCE * 100)).values():
                left -= len(records)
                yield from records
