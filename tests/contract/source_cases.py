"""Every kind of source with content that is known, for the contract suite to read."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
import zstandard

from streameval.records import Partition
from streameval.sources.build import source_of
from streameval.sources.options import (
    FilesOptions,
    KafkaOptions,
    SimulatorOptions,
    SourceOptions,
)
from streameval.sources.source import Source
from streameval.sources.traffic import BLOCK, block

Records: TypeAlias = Mapping[Partition, Sequence[tuple[int, bytes]]]
"""What each partition holds: offsets with values."""

_VALUES = [b'{"user":"u%d"}' % number for number in range(5000)]


class Content(NamedTuple):
    """What a source is to read.

    Attributes:
        options: where it lies.
        records: what each partition holds.
        bounded: whether the source ends.
        ends: the offset after each partition's last record.
    """

    options: SourceOptions
    records: Records
    bounded: bool
    ends: Mapping[Partition, int]

    def source(self) -> Source:
        """A new source, not yet opened."""
        return source_of(self.options, {})


class Case(NamedTuple):
    """A kind of source.

    Attributes:
        options: what configures it.
        prepare: writes the content, given a folder and a way to ask for fixtures.
        marks: what it needs.
    """

    options: type[SourceOptions]
    prepare: Callable[[Path, pytest.FixtureRequest], Content]
    marks: tuple[pytest.MarkDecorator, ...] = ()


def _files(suffix: str, compress: Callable[[bytes], bytes]) -> Case:
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
            options=FilesOptions(paths=paths),
            records={
                Partition(paths[0], 0): list(zip(numbers, _VALUES, strict=True)),
                Partition(paths[1], 0): list(enumerate(_VALUES[:7])),
            },
            bounded=True,
            ends={Partition(paths[0], 0): 5001, Partition(paths[1], 0): 7},
        )

    return Case(FilesOptions, prepare)


def _simulator(events: int, **options: Any) -> Case:
    def prepare(_: Path, __: pytest.FixtureRequest) -> Content:
        chosen = SimulatorOptions(events=events, **options)
        records: dict[Partition, list[tuple[int, bytes]]] = {
            Partition("simulator", number): [] for number in range(chosen.partitions)
        }
        blocks = [block(chosen.seed, number) for number in range(-(-events // BLOCK))]
        everything = [pair for each in blocks for pair in zip(*each, strict=True)]
        for offset, (value, user) in enumerate(everything[:events]):
            partition = Partition("simulator", int(user) % chosen.partitions)
            records[partition].append((offset, value))
        return Content(chosen, records, bounded=True, ends=dict.fromkeys(records, events))

    return Case(SimulatorOptions, prepare)


def _kafka(_: Path, request: pytest.FixtureRequest) -> Content:
    from tests.kafka.topics import filled, options  # noqa: PLC0415  other sources need no client

    broker = request.getfixturevalue("broker")
    values = {0: _VALUES, 1: _VALUES[:7]}
    topic = filled(broker, values)
    return Content(
        options=options(broker, topic),
        records={Partition(topic, number): list(enumerate(it)) for number, it in values.items()},
        bounded=False,
        ends={Partition(topic, number): len(it) for number, it in values.items()},
    )


CASES = {
    "simulator": _simulator(2345),
    "paced simulator": _simulator(3000, events_per_second=1e6, seed=7, partitions=3),
    "plain files": _files("", bytes),
    "gzip files": _files(".gz", gzip.compress),
    "zstd files": _files(".zst", zstandard.compress),
    "kafka": Case(KafkaOptions, _kafka, (pytest.mark.kafka,)),
}
