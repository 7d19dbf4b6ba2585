"""What must be true at the end: the fold of the log, and of nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import msgspec
from kafka import KafkaConsumer, TopicPartition

from streameval.config import Config, load
from streameval.config.counting import counting
from streameval.pipeline.tally import Tally
from streameval.records import Partition
from streameval.sources.kafka import KafkaSource
from streameval.sources.options import KafkaOptions
from streameval.sources.owning import Positions
from streameval.stores.folder import FolderStore

PATIENCE = 120.0
"""Seconds after which reading a topic counts as hanging."""

Digests = Mapping[Partition, Mapping[str, str]]


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """The fold of a whole log, made without any store, group or crash.

    Attributes:
        digests: of each part of each partition's state.
        positions: offset after the last record of each partition.
        tally: what became of all records.
    """

    digests: Digests
    positions: Mapping[Partition, int]
    tally: Tally


def folded(path: Path, count: int) -> Truth:
    """The log that a configuration reads, folded by a single process from its beginning.

    Args:
        path: of the configuration.
        count: how many records there are in all.

    Raises:
        TimeoutError: they do not come.
    """
    config = load(path)
    ingest = counting(config)
    deadline = time.monotonic() + PATIENCE
    with closing(KafkaSource(_options(config), {})) as source:
        source.open(Positions())
        while ingest.tally.consumed < count:
            for batch in source.poll(0.2):
                ingest.apply(batch)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} records awaited, {ingest.tally.consumed} read")
        tally = ingest.tally
    digests = {
        partition: {
            section.name: _digest(b"".join(section.content()()))
            for section in ingest.sections(partition)
        }
        for partition in ingest.partitions
    }
    return Truth(digests=digests, positions=ingest.positions, tally=tally)


def saved(store: Path) -> tuple[Digests, dict[Partition, int]]:
    """What the newest sound checkpoints hold: digests of their parts, and their offsets."""
    digests, positions = {}, {}
    kept = FolderStore(store)
    for place in kept.places():
        found = kept.newest(place).saved
        if found is not None:
            partition = Partition(place.topic, place.number)
            digests[partition] = dict(found.digests)
            positions[partition] = found.header.offset
    return digests, positions


def dead_letters(address: str, topic: str) -> set[tuple[int, int]]:
    """Identities of the records that were set aside, as (partition, offset)."""
    settings = {"bootstrap_servers": address, "consumer_timeout_ms": 2_000}
    with closing(KafkaConsumer(**settings)) as consumer:
        numbers = consumer.partitions_for_topic(topic) or ()
        consumer.assign([TopicPartition(topic, number) for number in numbers])
        consumer.seek_to_beginning()
        found = [dict(record.headers) for record in consumer] if numbers else []
    return {
        (int(each["streameval.dlq.partition"]), int(each["streameval.dlq.offset"]))
        for each in found
    }


def _options(config: Config) -> KafkaOptions:
    assert isinstance(config.source, KafkaOptions)
    return config.source


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=32).hexdigest()
