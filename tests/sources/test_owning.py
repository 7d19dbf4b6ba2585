"""The identities that sources tell their owners, paused partitions, and imports."""

from __future__ import annotations

import gzip
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import zstandard

from streameval.events.records import Partition, RecordBatch
from streameval.sources.files import FilesSource
from streameval.sources.kafka.source import KafkaSource
from streameval.sources.settings import FilesOptions, SimulatorOptions
from streameval.sources.simulator import SimulatorSource
from streameval.sources.source import Positions, Source
from streameval.testing.broker import Broker
from tests.kafka.members import RecordingOwner
from tests.kafka.topics import drained, fill, filled, on_each_client, options


def _identity(source: Source) -> str:
    owner = RecordingOwner()
    source.open(owner)
    source.poll(0.0)
    source.close()
    return next(iter(owner.seen.values())).identity


def _of_file(path: Path) -> str:
    return _identity(FilesSource(FilesOptions(paths=[str(path)])))


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_a_file_that_grows_keeps_its_identity(tmp_path: Path, compress: type[bytes]) -> None:
    path = tmp_path / "events"
    path.write_bytes(compress(b'{"user":"a"}\n{"user":"b"}\n'))
    before = _of_file(path)
    with path.open("ab") as file:
        file.write(compress(b'{"user":"c"}\n' * 10_000))
    assert _of_file(path) == before


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (b'{"user":"a"}\n', b'{"user":"b"}\n', False),
        # A long line is identified by its beginning.
        (b"x" * 10_000, b"x" * 20_000, True),
    ],
)
def test_a_file_is_identified_by_its_first_line(
    tmp_path: Path, before: bytes, after: bytes, *, same: bool
) -> None:
    path = tmp_path / "events"
    identities = []
    for content in (before, after):
        path.write_bytes(content)
        identities.append(_of_file(path))
    assert (identities[0] == identities[1]) is same


def test_the_identity_of_a_simulator_does_not_depend_on_its_pace() -> None:
    def identity(**options: int) -> str:
        return _identity(SimulatorSource(SimulatorOptions(**options)))

    assert identity(seed=1) == identity(seed=1, events=100, events_per_second=5)
    assert len({identity(seed=1), identity(seed=2), identity(seed=1, partitions=3)}) == 3


def by_log(batches: list[RecordBatch]) -> dict[Partition, int]:
    counts: dict[Partition, int] = {}
    for batch in batches:
        if batch.values:
            counts[batch.partition] = counts.get(batch.partition, 0) + len(batch.values)
    return counts


def quiet(source: Source, polls: int = 10) -> list[RecordBatch]:
    return [batch for _ in range(polls) for batch in source.poll(0.1)]


def test_paused_files_are_not_opened_and_hold_up_no_others(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:02}" for number in range(60)]
    for path in paths:
        path.write_text("{}\n")
    with closing(FilesSource(FilesOptions(paths=list(map(str, paths))))) as source:
        source.open(Positions())
        source.pause([Partition(str(path), 0) for path in paths])
        assert source.name == "60 files"
        assert quiet(source, 1) == []
        opened = [file.path for file in psutil.Process().open_files()]
        assert not [path for path in opened if Path(path).parent == tmp_path]
        source.pause([Partition(str(path), 0) for path in paths[:40]])
        read = by_log(quiet(source, 4))
        assert read == {Partition(str(path), 0): 1 for path in paths[40:]}
        assert set(source.status.ended) == set(read)
        source.pause([])
        assert len(by_log(quiet(source, 6))) == 40
        assert source.status.finished


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


_HEAVY = {"kafka", "zstandard", "uvicorn", "starlette", "rich", "typer"}
_SCRIPT = """
import sys
from streameval.sources.settings import *
print(*sys.modules)
from streameval.sources.kinds import build
build(SimulatorOptions(), {}), build(FilesOptions(paths=['x']), {})
print(*sys.modules)
"""


def test_only_a_kafka_source_imports_the_kafka_client() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, check=True)
    options, built = (set(line.split()) for line in done.stdout.decode().splitlines())
    assert not _HEAVY & options
    assert "kafka" not in built
