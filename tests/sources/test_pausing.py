"""Pausing partitions of a source."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from streameval.events.records import Partition, RecordBatch
from streameval.sources.files import FilesSource
from streameval.sources.kafka.source import KafkaSource
from streameval.sources.options import FilesOptions
from streameval.sources.source import Positions, Source
from streameval.testing.broker import Broker
from tests.kafka.topics import drained, fill, filled, on_each_client, options


def by_log(batches: list[RecordBatch]) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    for batch in batches:
        if batch.values:
            found[batch.partition] = found.get(batch.partition, 0) + len(batch.values)
    return found


def quiet(source: Source, polls: int = 10) -> list[RecordBatch]:
    return [batch for _ in range(polls) for batch in source.poll(0.1)]


def test_paused_files_are_not_opened_and_hold_up_no_others(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:02}" for number in range(60)]
    for path in paths:
        path.write_text("{}\n")
    with closing(FilesSource(FilesOptions(paths=list(map(str, paths))))) as source:
        source.open(Positions())
        source.pause([Partition(str(path), 0) for path in paths])
        assert quiet(source, 1) == []
        assert not source._files
        source.pause([Partition(str(path), 0) for path in paths[:40]])
        read = by_log(quiet(source, 4))
        assert read == {Partition(str(path), 0): 1 for path in paths[40:]}
        assert set(source.ended) == set(read)
        source.pause([])
        assert len(by_log(quiet(source, 6))) == 40
        assert source.finished


@pytest.mark.kafka
@on_each_client
def test_topics(broker: Broker) -> None:
    topic = filled(broker, {0: [b"a"], 1: [b"b"]})
    first, second = Partition(topic, 0), Partition(topic, 1)
    with closing(KafkaSource(options(broker, topic), {}, shared=False)) as source:
        source.open(Positions())
        assert by_log(drained(source, 2)) == {first: 1, second: 1}
        source.pause([first])
        fill(broker, topic, {0: [b"c"] * 3, 1: [b"d"] * 3})
        assert by_log(drained(source, 3)) == {second: 3}
        assert first not in by_log(quiet(source))
        source.pause([])
        assert by_log(drained(source, 3)) == {first: 3}
