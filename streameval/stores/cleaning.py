"""What a store throws away after a checkpoint was written; never what another process needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from streameval.durability.checkpoint import Header
from streameval.errors import DamagedStateError, StateVersionError
from streameval.stores.disk import Disk
from streameval.stores.naming import ASIDE, BLOBS, TEMPORARY, file_of, offset_of
from streameval.stores.reading import light, offsets_in
from streameval.stores.retention import Aged, kept

GRACE: Final = 600.0
"""Seconds for which a file that nothing names is left alone: somebody may be just writing."""


class _Said(NamedTuple):
    """What a file says of itself; blobs: None where its version is not known."""

    aged: Aged
    blobs: frozenset[str] | None


class Cleaner:
    """Removes what is no longer kept; remembers the tables of files, for they never change.

    Args:
        disk: where the store is.
        history: seconds for which a checkpoint of each day is kept.
    """

    def __init__(self, disk: Disk, history: float) -> None:
        self._disk = disk
        self._history = history
        self._said: dict[Path, tuple[float, _Said]] = {}

    def clean(self, store: Path, folder: Path, header: Header) -> None:
        """Throw away what the checkpoint just written makes superfluous.

        Nothing above its offset is touched, nor what that needs: should this process be one that
        no longer owns the place, the owner does not notice.

        Raises:
            OSError: the disk refuses; nothing that is needed is gone.
        """
        # The clock of the disk itself: that of this machine may be another.
        written = folder / file_of(header.offset)
        now = self._disk.modified(written)
        self._said.pop(written, None)
        self._remove_checkpoints(folder, header)
        self._remove_blobs(folder, now)
        for each in (store, folder, folder / BLOBS):
            self._remove_temporaries(each, now)

    def _remove_checkpoints(self, folder: Path, header: Header) -> None:
        mine = [n for n in offsets_in(self._disk, folder) if n <= header.offset]
        aged = [said.aged for said in map(self._read, (folder / file_of(n) for n in mine)) if said]
        keep = kept(aged, header.written_at, self._history)
        spare = [each.offset for each in aged if each.offset not in keep]
        for offset in sorted(spare):
            self._remove(folder / file_of(offset))
        if spare:
            self._disk.sync_folder(folder)

    def _remove_blobs(self, folder: Path, now: float) -> None:
        said = [found for found in map(self._read, self._files(folder)) if found is not None]
        if any(each.blobs is None for each in said):
            return
        named = frozenset().union(*(each.blobs or () for each in said))
        for name in self._disk.names(folder / BLOBS):
            if name not in named and not name.endswith(TEMPORARY):
                self._remove_if_old(folder / BLOBS / name, now)

    def _files(self, folder: Path) -> Iterator[Path]:
        names = self._disk.names(folder)
        yield from (folder / name for name in names if offset_of(name) is not None)
        if ASIDE in names:
            yield from (folder / ASIDE / name for name in self._disk.names(folder / ASIDE))

    def _remove_temporaries(self, folder: Path, now: float) -> None:
        for name in self._disk.names(folder):
            if name.endswith(TEMPORARY):
                self._remove_if_old(folder / name, now)

    def _remove_if_old(self, path: Path, now: float) -> None:
        try:
            old = self._disk.modified(path) < now - GRACE
        except FileNotFoundError:
            return
        if old:
            self._remove(path)

    def _remove(self, path: Path) -> None:
        self._said.pop(path, None)
        try:
            self._disk.remove(path)
        except FileNotFoundError:
            return

    def _read(self, path: Path) -> _Said | None:
        """What a file says, from memory where it is still the same; None where it has gone."""
        try:
            modified = self._disk.modified(path)
            if path not in self._said or self._said[path][0] != modified:
                self._said[path] = modified, _said(self._disk, path)
        except FileNotFoundError:
            return None
        return self._said[path][1]


def _said(disk: Disk, path: Path) -> _Said:
    offset = int(path.name[:20])
    try:
        content = light(disk, path)
    except DamagedStateError:
        return _Said(Aged(offset, None, 0.0), frozenset())
    except StateVersionError as error:
        return _Said(Aged(offset, int(str(error.found)), 0.0), None)
    blobs = frozenset(each.digest for each in content.entries if each.start is None)
    return _Said(Aged(offset, content.header.version, content.header.written_at), blobs)
