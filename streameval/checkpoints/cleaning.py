"""Which files of a place are superseded, and their removal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from streameval.checkpoints.checkpoint import Entry, Header
from streameval.checkpoints.format import (
    ARCHIVE,
    BLOBS,
    TEMPORARY,
    content_of,
    file_of,
    offset_of,
)
from streameval.checkpoints.storage import Storage, StoredFile
from streameval.errors import DamagedStateError, StateVersionError, StoreError

There: TypeAlias = Mapping[str, StoredFile]
"""The files of a place, by their name in its folder."""

GRACE: Final = 600.0
"""Seconds that an unreferenced file is kept: another process may be writing it."""


class Listed(NamedTuple):
    """What decides whether a checkpoint file is kept.

    Attributes:
        version: of its format; None where it cannot be read.
        blobs: names of those it refers to; None where its version is unknown.
    """

    offset: int
    version: int | None
    blobs: frozenset[str] | None = frozenset()


def listed(name: str, data: bytes) -> Listed:
    """What decides whether a file is kept."""
    offset = int(name.removeprefix(f"{ARCHIVE}/")[:20])
    try:
        content = content_of(name, data)
    except DamagedStateError:
        return Listed(offset, None)
    except StateVersionError as error:
        return Listed(offset, int(str(error.found)), None)
    return Listed(offset, content.header.version, blobs_of(content.entries))


def blobs_of(entries: Iterable[Entry]) -> frozenset[str]:
    """The names of the blobs that hold some of these parts."""
    return frozenset(each.blob for each in entries if each.blob is not None)


def kept(files: Sequence[Listed]) -> set[int]:
    """The offsets of one place to keep.

    These are the two highest offsets, and the highest of each format version, for going back to
    another release. Unreadable files are not kept.

    Example:
        >>> sorted(kept([Listed(1, 1), Listed(2, 1), Listed(3, 2), Listed(4, 2), Listed(5, 2)]))
        [2, 4, 5]
    """
    readable = sorted((each.offset, each.version) for each in files if each.version is not None)
    newest = {version: offset for offset, version in readable}
    return {offset for offset, _ in readable[-2:]} | set(newest.values())


_UNREAD: Final = ("", Listed(0, None))


class Cleaner:
    """Removes superseded checkpoints and blobs; remembers the tables of files by their tags."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._tables: dict[str, tuple[str, Listed]] = {}

    def written(self, key: str, tag: str, header: Header, entries: Sequence[Entry]) -> None:
        """Take note of a checkpoint that this process has written."""
        self._tables[key] = tag, Listed(header.offset, header.version, blobs_of(entries))

    def clean(self, folder: str, there: There, offset: int) -> str | None:
        """Remove what the checkpoint just written supersedes; returns why that failed, or None.

        `there`: the files of the place before it was written.
        """
        try:
            spare = self._spare(folder, there, offset)
            if spare:
                self._storage.delete([f"{folder}/{name}" for name in spare])
        except StoreError as error:
            return str(error)
        for name in spare:
            self._tables.pop(f"{folder}/{name}", None)
        return None

    def _spare(self, folder: str, there: There, offset: int) -> list[str]:
        """What the checkpoint of this offset supersedes.

        Nothing above its offset is among it, nor the blobs of such files: this process may no
        longer own the place.
        """
        tables = self._tables_of(folder, there, file_of(offset))
        if tables is None:
            return []
        mine = [each for name, each in tables.items() if offset_of(name) == each.offset <= offset]
        keep = kept(mine)
        spare = [file_of(each.offset) for each in mine if each.offset not in keep]
        if any(each.blobs is None for each in tables.values()):
            return spare
        named = frozenset().union(*(each.blobs or () for each in tables.values()))
        # By the clock of the storage, which may differ from that of this machine.
        now = max((each.modified for each in there.values()), default=0.0)
        for name, found in there.items():
            blob = name.removeprefix(f"{BLOBS}/")
            unnamed = blob != name and blob not in named
            if (unnamed or name.endswith(TEMPORARY)) and found.modified < now - GRACE:
                spare.append(name)
        return spare

    def _tables_of(self, folder: str, there: There, newest: str) -> dict[str, Listed] | None:
        """What each file of the place says; None where more than one has not been read yet.

        At most one is read each time: other processes may have written any number.
        """
        names = [name for name in there if _is_checkpoint(name) and name != newest]
        new = [n for n in names if self._tables.get(f"{folder}/{n}", _UNREAD)[0] != there[n].tag]
        for name in new[:1]:
            with suppress(FileNotFoundError):
                key = f"{folder}/{name}"
                self._tables[key] = there[name].tag, listed(name, self._storage.get(key))
        if len(new) > 1:
            return None
        found = {name: self._tables.get(f"{folder}/{name}") for name in (*names, newest)}
        return {name: each[1] for name, each in found.items() if each is not None}


def _is_checkpoint(name: str) -> bool:
    return offset_of(name) is not None or name.startswith(f"{ARCHIVE}/")
