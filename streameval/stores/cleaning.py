"""What a store throws away after a checkpoint was written; never what another process needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streameval.durability.checkpoint import Header
from streameval.errors import DamagedStateError, StateVersionError
from streameval.stores.disk import Disk
from streameval.stores.naming import ASIDE, BLOBS, TEMPORARY, file_of, offset_of
from streameval.stores.reading import light, offsets_in

GRACE: Final = 600.0
"""Seconds for which a file that nothing names is left alone: somebody may be just writing."""


class Listed(NamedTuple):
    """A checkpoint file, as far as it matters to keeping it.

    Attributes:
        offset: that it covers.
        version: of its format; None where it cannot be read.
        blobs: digests that it names; None where its version is not known.
    """

    offset: int
    version: int | None
    blobs: frozenset[str] | None = frozenset()


class Cleaner:
    """Removes what is no longer kept; remembers the tables of files, for they never change.

    Args:
        disk: where the store is.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._listed: dict[Path, tuple[float, Listed]] = {}

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
        self._listed.pop(written, None)
        self._remove_checkpoints(folder, header.offset)
        self._remove_blobs(folder, now)
        for each in (store, folder, folder / BLOBS):
            self._remove_temporaries(each, now)

    def _remove_checkpoints(self, folder: Path, highest: int) -> None:
        mine = [n for n in offsets_in(self._disk, folder) if n <= highest]
        found = map(self._read, (folder / file_of(n) for n in mine))
        files = [each for each in found if each is not None]
        keep = kept(files)
        spare = [each.offset for each in files if each.offset not in keep]
        for offset in sorted(spare):
            self._remove(folder / file_of(offset))
        if spare:
            self._disk.sync_folder(folder)

    def _remove_blobs(self, folder: Path, now: float) -> None:
        files = [found for found in map(self._read, self._files(folder)) if found is not None]
        if any(each.blobs is None for each in files):
            return
        named = frozenset().union(*(each.blobs or () for each in files))
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
        self._listed.pop(path, None)
        try:
            self._disk.remove(path)
        except FileNotFoundError:
            return

    def _read(self, path: Path) -> Listed | None:
        """What a file says, from memory where it is still the same; None where it has gone."""
        try:
            modified = self._disk.modified(path)
            if path not in self._listed or self._listed[path][0] != modified:
                self._listed[path] = modified, _listed(self._disk, path)
        except FileNotFoundError:
            return None
        return self._listed[path][1]


def kept(files: Sequence[Listed]) -> set[int]:
    """Offsets of the checkpoints to keep, of one place.

    These are the two of the highest offsets, and the highest of each version of the format: the
    way back to another release. Files that cannot be read are not kept.

    Example:
        >>> sorted(kept([Listed(1, 1), Listed(2, 1), Listed(3, 2), Listed(4, 2), Listed(5, 2)]))
        [2, 4, 5]
    """
    readable = sorted((each.offset, each.version) for each in files if each.version is not None)
    newest = {version: offset for offset, version in readable}
    return {offset for offset, _ in readable[-2:]} | set(newest.values())


def _listed(disk: Disk, path: Path) -> Listed:
    offset = int(path.name[:20])
    try:
        content = light(disk, path)
    except DamagedStateError:
        return Listed(offset, None)
    except StateVersionError as error:
        return Listed(offset, int(str(error.found)), None)
    blobs = frozenset(each.digest for each in content.entries if each.start is None)
    return Listed(offset, content.header.version, blobs)
