"""Checkpoints that are not to be loaded any more, kept for people beside those that are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from streameval.stores.disk import Disk
from streameval.stores.naming import ASIDE, file_of


def move_aside(disk: Disk, folder: Path, offsets: Sequence[int]) -> None:
    """Move these checkpoints of a place into its folder `aside`.

    The highest goes last and alone: until then it is what is loaded, and whoever is cut off here
    has changed nothing.

    Raises:
        OSError: the disk refuses; called again, this goes on.
    """
    *lower, highest = sorted(offsets)
    with suppress(FileExistsError):
        disk.make_folder(folder / ASIDE)
    disk.sync_folder(folder)
    _move(disk, folder, lower)
    _move(disk, folder, [highest])


def _move(disk: Disk, folder: Path, offsets: Sequence[int]) -> None:
    for offset in offsets:
        path = folder / file_of(offset)
        # An offset may go aside several times, each with another state: the time tells them apart.
        name = f"{path.name}.{disk.modified(path):.6f}"
        disk.rename(path, folder / ASIDE / name)
    disk.sync_folder(folder / ASIDE)
    disk.sync_folder(folder)
