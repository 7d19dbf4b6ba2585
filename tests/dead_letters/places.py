"""The places where letters go, each with a way to read what is there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from streameval.dead_letters.file import read_letters
from streameval.dead_letters.queue import dead_letters_of
from streameval.dead_letters.topic import letter_of
from streameval.engine.dead_letters import DeadLetter, DeadLetters
from streameval.sources.options import FilesOptions, KafkaOptions, SourceOptions
from streameval.testing.broker import Broker
from tests.dead_letters.records import records_in
from tests.kafka.topics import create


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where letters go.

    Attributes:
        topic: of the records.
        new: another one of the same place, as after a restart.
        kept: what is there.
    """

    topic: str
    new: Callable[[], DeadLetters]
    kept: Callable[[], Sequence[DeadLetter]]


def topic_place(broker: Broker, partitions: int = 2) -> Place:
    """A topic for the letters of a fresh topic."""
    topic = create(broker, partitions=partitions)
    source = KafkaOptions(topics=[topic], kafka={"bootstrap_servers": broker.bootstrap_servers})
    return Place(
        topic=topic,
        new=lambda: destination(source),
        kept=lambda: [found for _, found in in_topic(broker, f"{topic}.dlq")],
    )


def file_place(folder: Path) -> Place:
    """A file, which no program has opened before."""
    path = folder / f"{uuid.uuid4().hex}.ndjson"
    return Place(
        topic="events",
        new=lambda: destination(FilesOptions(paths=["x"]), path=str(path)),
        kept=lambda: list(read_letters(str(path))),
    )


def destination(
    source: SourceOptions, *, topic: str | None = None, path: str | None = None
) -> DeadLetters:
    """Where the dead letters of a source go."""
    found = dead_letters_of(source, {}, topic=topic, path=path)
    assert found is not None
    return found


def in_topic(broker: Broker, topic: str) -> list[tuple[int, DeadLetter]]:
    """Partition and letter of each record of a topic, in the order of the records."""
    read = [
        (each.partition, letter_of(each.key, each.value, each.headers))
        for each in records_in(broker, topic)
    ]
    found = [(number, letter) for number, letter in read if letter is not None]
    assert len(found) == len(read)
    return sorted(found, key=lambda each: each[1].identity)
