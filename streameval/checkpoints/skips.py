"""Files that name records that could not be counted, and the orders to skip them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from streameval.checkpoints.checkpoint import Skip, Stop
from streameval.checkpoints.disk import Disk
from streameval.checkpoints.files import temporary
from streameval.checkpoints.format import encoded
from streameval.errors import DamagedStateError

T = TypeVar("T")

_STOP: Final = ".stop"
_SKIP: Final = ".skip"
_LARGEST: Final = 1 << 20


def write_stop(disk: Disk, folder: Path, stop: Stop) -> None:
    """Note a record that could not be counted, in place of an earlier note about it."""
    with temporary(disk, _path(folder, stop, _STOP)) as path:
        _write(disk, path, stop)
        disk.rename(path, _path(folder, stop, _STOP))
    disk.sync_folder(folder)


def write_skip(disk: Disk, folder: Path, skip: Skip) -> bool:
    """Order that a record is skipped; returns whether nobody had ordered it before."""
    with temporary(disk, _path(folder, skip.stop, _SKIP)) as path:
        _write(disk, path, skip)
        try:
            disk.rename_new(path, _path(folder, skip.stop, _SKIP))
        except FileExistsError:
            disk.remove(path)
            return False
    disk.sync_folder(folder)
    return True


def read_stops(disk: Disk, folder: Path) -> list[Stop]:
    """Every note in a folder; none where it is not there."""
    return list(_read(disk, folder, _STOP, Stop))


def read_skips(disk: Disk, folder: Path) -> list[Skip]:
    """Every order in a folder; none where it is not there.

    Raises:
        DamagedStateError: one is not what was written.
    """
    return list(_read(disk, folder, _SKIP, Skip))


def _path(folder: Path, stop: Stop, suffix: str) -> Path:
    return folder / f"{encoded(str(stop.record))}{suffix}"


def _write(disk: Disk, path: Path, content: object) -> None:
    disk.create(path, [msgspec.json.encode(content) + b"\n"])
    disk.sync(path)


def _read(disk: Disk, folder: Path, suffix: str, kind: type[T]) -> Iterator[T]:
    names: list[str] = []
    with suppress(FileNotFoundError):
        names = [each for each in disk.names(folder) if each.endswith(suffix)]
    for name in names:
        try:
            yield msgspec.json.decode(disk.read(folder / name, 0, _LARGEST), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamagedStateError(str(folder / name), str(error)) from error
