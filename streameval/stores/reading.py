"""Checkpoint files that are there: found, checked as a whole, and read part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path

import msgspec

from streameval.durability.checkpoint import Header, Place
from streameval.durability.store import Saved
from streameval.errors import DamagedStateError
from streameval.stores.disk import Disk
from streameval.stores.layout import Content, Entry, check_whole, content_of, digest_of
from streameval.stores.naming import BLOBS, offset_of
from streameval.stores.trouble import told_of


class FoundSaved(msgspec.Struct, kw_only=True):
    """What a store has of a place; see `durability.store.Found`."""

    saved: Saved | None
    passed_over: Sequence[str]


class FolderSaved:
    """A sound checkpoint in a folder; see `durability.store.Saved`."""

    def __init__(self, disk: Disk, path: Path, content: Content) -> None:
        self._disk = disk
        self._entries = {each.name: each for each in content.entries}
        self.path = path
        self.header: Header = content.header

    @property
    def digests(self) -> Mapping[str, str]:
        """Name of each part -> digest of its bytes."""
        return {name: entry.digest for name, entry in self._entries.items()}

    @property
    def entries(self) -> Sequence[Entry]:
        """Where each part is."""
        return list(self._entries.values())

    def read(self, part: str) -> bytes:
        """The bytes of a part.

        Raises:
            KeyError: there is no such part.
            DamagedStateError: they are not what was written.
            StoreError: they cannot be read.
        """
        entry = self._entries[part]
        path = blob_of(self.path.parent, entry) if entry.start is None else self.path
        with told_of(self.path), _missed(path):
            data = self._disk.read(path, entry.start or 0, entry.size)
        if blake2b(data, digest_size=32).hexdigest() != entry.digest:
            raise DamagedStateError(str(path), f"part {part!r} is not what was written")
        return data


@contextmanager
def _missed(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedStateError(str(path), "it has gone") from error


def offsets_in(disk: Disk, folder: Path) -> list[int]:
    """The offsets of the checkpoints in a folder, ascending; none where there is no folder."""
    try:
        names = disk.names(folder)
    except FileNotFoundError:
        return []
    return [offset for offset in map(offset_of, names) if offset is not None]


def light(disk: Disk, path: Path) -> Content:
    """What a file says of itself, its bytes and blobs unchecked; quick.

    Raises:
        StateVersionError, DamagedStateError: see `content_of`.
    """
    return content_of(str(path), partial(disk.read, path), disk.size(path))


def sound(disk: Disk, path: Path, place: Place, seen: set[str] | None = None) -> FolderSaved:
    """A file, after a check of all its bytes and of all its blobs.

    Args:
        disk: where it is.
        path: of the file.
        place: of which it should be.
        seen: digests of blobs of the place that need no other check; grows.

    Raises:
        StateVersionError: its version is not one that this release reads.
        DamagedStateError: it is not what was written.
    """
    read, size = partial(disk.read, path), disk.size(path)
    check_whole(str(path), read, size)
    content = content_of(str(path), read, size)
    header = content.header
    if (header.place, header.offset) != (place, offset_of(path.name)):
        raise DamagedStateError(
            str(path), f"it says that it is of {header.place} at offset {header.offset:,}"
        )
    known = set() if seen is None else seen
    for entry in content.entries:
        if entry.start is None and entry.digest not in known:
            check_blob(disk, blob_of(path.parent, entry), entry)
            known.add(entry.digest)
    return FolderSaved(disk, path, content)


def blob_of(folder: Path, entry: Entry) -> Path:
    """Where a part is that is a file of its own."""
    return folder / BLOBS / entry.digest


def check_blob(disk: Disk, path: Path, entry: Entry) -> None:
    """See that a blob is there and right.

    Raises:
        DamagedStateError: it is not.
    """
    try:
        size = disk.size(path)
        digest = digest_of(partial(disk.read, path), size)
    except FileNotFoundError as error:
        raise DamagedStateError(str(path), f"the file of part {entry.name!r} is missing") from error
    if (size, digest) != (entry.size, entry.digest):
        raise DamagedStateError(str(path), f"part {entry.name!r} is not what was written")
