"""The places where letters go, each with a way to read what is there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from streameval.broker import Broker
from streameval.letters.build import letters_to
from streameval.letters.file import letters_in
from streameval.letters.headers import letter_of
from streameval.pipeline.letters import DeadLetter, DeadLetters
from streameval.sources.options import FilesOptions, KafkaOptions
from tests.kafka.topics import create
from tests.letters.records import records_in


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
    """Partition and letter of each record of a topic, in the order of the records."""
    read = [
        (each.partition, letter_of(each.key, each.value, each.headers))
        for each in records_in(broker, topic)
    ]
    found = [(number, letter) for number, letter in read if letter is not None]
    assert len(found) == len(read)
    return sorted(found, key=lambda each: each[1].identity)
