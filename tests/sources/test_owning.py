from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import zstandard

from streameval.events.records import Assignment, Partition
from streameval.sources.files import FilesSource
from streameval.sources.options import FilesOptions, SimulatorOptions
from streameval.sources.simulator import SimulatorSource
from streameval.sources.source import Positions, Source


class Keeping(Positions):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Assignment] = []

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        self.seen += assignments
        return super().assigned(assignments)


def _identity(source: Source) -> str:
    owner = Keeping()
    source.open(owner)
    source.poll(0.0)
    source.close()
    return owner.seen[0].identity


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


def test_another_file_of_the_same_name_has_another_identity(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b'{"user":"a"}\n')
    before = _of_file(path)
    path.write_bytes(b'{"user":"b"}\n')
    assert _of_file(path) != before


def test_a_long_line_is_identified_by_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"x" * 10_000)
    before = _of_file(path)
    path.write_bytes(b"x" * 20_000)
    assert _of_file(path) == before


def test_the_identity_of_a_simulator_does_not_depend_on_its_pace() -> None:
    def identity(**options: int) -> str:
        return _identity(SimulatorSource(SimulatorOptions(**options)))

    assert identity(seed=1) == identity(seed=1, events=100, events_per_second=5)
    assert len({identity(seed=1), identity(seed=2), identity(seed=1, partitions=3)}) == 3
