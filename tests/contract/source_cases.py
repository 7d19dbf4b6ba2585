"""Every kind of source with content that is known, for the contract suite to read."""

from __future__ import annotations

import gzip
import itertools
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
import zstandard

from streameval.events.records import Partition
from streameval.sources.kinds import build
from streameval.sources.settings import FilesOptions, SimulatorOptions, SourceOptions
from streameval.sources.simulator import BLOCK_RECORDS, block
from streameval.sources.source import Source
from streameval.testing.broker import Broker
from tests.logs.group import Group, Log
from tests.logs.source import LogSource

Records: TypeAlias = Mapping[Partition, Sequence[tuple[int, bytes]]]
"""What each partition holds: offsets with values."""

_VALUES = [b'{"user":"u%d"}' % number for number in range(5000)]
_ON_KAFKA = {0: _VALUES, 1: _VALUES[:7]}


class Content(NamedTuple):
    """What a source is to read.

    Attributes:
        source: a new source, not yet opened; where there is a group, one more member of it.
        records: what each partition holds.
        bounded: whether the source ends.
        ends: the offset after each partition's last record.
    """

    source: Callable[[], Source]
    records: Records
    bounded: bool
    ends: Mapping[Partition, int]


class Case(NamedTuple):
    """A kind of source.

    Attributes:
        kind: name of its class.
        prepare: writes the content, given a folder and a way to ask for fixtures.
        marks: what it needs.
        group: whether its partitions come and go.
    """

    kind: str
    prepare: Callable[[Path, pytest.FixtureRequest], Content]
    marks: tuple[pytest.MarkDecorator, ...] = ()
    group: bool = False


def _made(options: SourceOptions, *, shared: bool = False) -> Callable[[], Source]:
    return lambda: build(options, {}, shared=shared)


def _files(suffix: str, compress: Callable[[bytes], bytes], *marks: pytest.MarkDecorator) -> Case:
    def prepare(folder: Path, _: pytest.FixtureRequest) -> Content:
        # A blank line in the middle, several members, and no newline at the end of the second.
        first = compress(b"\n".join(_VALUES[:2500]) + b"\n \n") + compress(
            b"\n".join(_VALUES[2500:]) + b"\n"
        )
        texts = {"first": first, "second": compress(b"\n".join(_VALUES[:7]))}
        paths = [str(folder / f"{name}.ndjson{suffix}") for name in texts]
        for path, content in zip(paths, texts.values(), strict=True):
            Path(path).write_bytes(content)
        numbers = [*range(2500), *range(2501, 5001)]
        return Content(
            source=_made(FilesOptions(paths=paths)),
            records={
                Partition(paths[0], 0): list(zip(numbers, _VALUES, strict=True)),
                Partition(paths[1], 0): list(enumerate(_VALUES[:7])),
            },
            bounded=True,
            ends={Partition(paths[0], 0): 5001, Partition(paths[1], 0): 7},
        )

    return Case("FilesSource", prepare, marks)


def _simulator(events: int, *marks: pytest.MarkDecorator, **options: Any) -> Case:
    @cache
    def simulated() -> Content:
        chosen = SimulatorOptions(events=events, **options)
        records: dict[Partition, list[tuple[int, bytes]]] = {
            Partition("simulator", number): [] for number in range(chosen.partitions)
        }
        blocks = [block(chosen.seed, number) for number in range(-(-events // BLOCK_RECORDS))]
        everything = [pair for block in blocks for pair in zip(*block, strict=True)]
        for offset, (value, user) in enumerate(everything[:events]):
            partition = Partition("simulator", int(user) % chosen.partitions)
            records[partition].append((offset, value))
        return Content(_made(chosen), records, bounded=True, ends=dict.fromkeys(records, events))

    return Case("SimulatorSource", lambda _, __: simulated(), marks)


def _log(_: Path, __: pytest.FixtureRequest) -> Content:
    log, mine = Log(), [Partition("events", number) for number in (0, 1)]
    log.add_topic("events", partitions=2)
    for partition, values in zip(mine, (_VALUES, _VALUES[:7]), strict=True):
        for value in values:
            log.append(partition, value)
    log.skip(mine[1], 3)
    group, names = Group(log, ["events"], automatic=True), itertools.count()
    return Content(
        source=lambda: LogSource(group, f"member-{next(names):03}"),
        records={
            partition_: [(entry.offset, entry.value or b"") for entry in log.entries(partition_)]
            for partition_ in mine
        },
        bounded=False,
        ends={mine[0]: 5000, mine[1]: 10},
    )


@cache
def _topic(broker: Broker) -> str:
    """The records of all tests: they only read, each in a group of its own."""
    from tests.kafka.topics import filled  # noqa: PLC0415  others need no client

    return filled(broker, _ON_KAFKA)


def _kafka(client: str, *marks: pytest.MarkDecorator, shared: bool) -> Case:
    def prepare(_: Path, request: pytest.FixtureRequest) -> Content:
        from tests.kafka.topics import options  # noqa: PLC0415  others need no client

        broker = request.getfixturevalue("broker")
        topic = _topic(broker)
        ends = {Partition(topic, number): len(entries) for number, entries in _ON_KAFKA.items()}
        # Members that poll in turns would join twice where each hears of the other at once.
        source_options = options(
            broker,
            topic,
            group=uuid.uuid4().hex,
            client=client,
            heartbeat_interval_ms=3_000,
            max_poll_records=1_500,
        )
        return Content(
            source=_made(source_options, shared=shared),
            records={partition: list(enumerate(_ON_KAFKA[partition.number])) for partition in ends},
            bounded=False,
            ends=ends,
        )

    return Case("KafkaSource", prepare, (pytest.mark.kafka, *marks), group=shared)


CASES = {
    "simulator": _simulator(2345, pytest.mark.nightly),
    "paced simulator": _simulator(3000, events_per_second=1e6, seed=7, partitions=3),
    "plain files": _files("", bytes),
    "gzip files": _files(".gz", gzip.compress, pytest.mark.nightly),
    "zstd files": _files(".zst", zstandard.compress),
    "log in memory": Case("LogSource", _log, group=True),
    "kafka, all partitions, by confluent": _kafka("confluent", shared=False),
    "kafka, shared, by kafka-python": _kafka("kafka-python", shared=True),
    "kafka, shared, by confluent": _kafka("confluent", pytest.mark.nightly, shared=True),
}
