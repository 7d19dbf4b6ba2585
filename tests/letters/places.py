"""The places where letters go, each with a way to read what is there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from kafka import KafkaConsumer, TopicPartition

from streameval.broker import Broker
from streameval.letters.build import letters_to
from streameval.letters.file import letters_in
from streameval.letters.headers import letter_of
from streameval.pipeline.letters import DeadLetter, DeadLetters
from streameval.sources.options import FilesOptions, KafkaOptions
from tests.kafka.topics import PATIENCE, create


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where letters go.

    Attributes:
        topic: of the records.
        new: another one of the same place, as after a restart.
        kept: what is there.
        keeps: whether anything is ever there.
    """

    topic: str
    new: Callable[[], DeadLetters]
    kept: Callable[[], Sequence[DeadLetter]]
    keeps: bool = True


def topic_place(broker: Broker, partitions: int = 2) -> Place:
    """A topic for the letters of a fresh topic."""
    topic = create(broker, partitions=partitions)
    source = KafkaOptions(topics=[topic], kafka={"bootstrap_servers": broker.bootstrap_servers})
    return Place(
        topic=topic,
        new=lambda: letters_to(source, {}),
        kept=lambda: [found for _, found in in_topic(broker, f"{topic}.dlq")],
    )


def file_place(folder: Path) -> Place:
    """A file, which no program has opened before."""
    path = folder / f"{uuid.uuid4().hex}.ndjson"
    return Place(
        topic="events",
        new=lambda: letters_to(FilesOptions(paths=["x"]), {}, path=str(path)),
        kept=lambda: list(letters_in(str(path))),
    )


def no_place() -> Place:
    """Where they are forgotten."""
    source = FilesOptions(paths=["x"])
    return Place(topic="events", new=lambda: letters_to(source, {}), kept=list, keeps=False)


def in_topic(broker: Broker, topic: str) -> list[tuple[int, DeadLetter]]:
    """Partition and letter of each record of a topic, read from beginning to end."""
    return sorted(_records(broker, topic), key=lambda each: each[1].identity)


def _records(broker: Broker, topic: str) -> Iterator[tuple[int, DeadLetter]]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    with closing(consumer):
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        left = sum(consumer.end_offsets(partitions).values())
        while left > 0:
            for records in consumer.poll(timeout_ms=round(PATIENCE * 100)).values():
                for record in records:
                    found = letter_of(record.key, record.value, record.headers)
                    assert found is not None
                    left -= 1
                    yield record.partition, found
