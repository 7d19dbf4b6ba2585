"""Removes the superseded files of a place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from streameval.checkpoints.format import (
    ARCHIVE,
    BLOBS,
    TEMPORARY,
    Entry,
    Header,
    checked_content,
    file_of,
    offset_of,
)
from streameval.checkpoints.storage import Storage, StoredFile
from streameval.events.errors import DamagedStateError, StateVersionError, StoreError

Files: TypeAlias = Mapping[str, StoredFile]
"""The files of a place, by their name in its folder."""

GRACE: Final = 600.0
"""Seconds for which an unreferenced file is kept, as another process may be writing it."""


class References(NamedTuple):
    """What decides whether a checkpoint file is kept.

    Attributes:
        version: of its format; None if it is damaged.
        blobs: names of its blobs; None if its version is unknown.
    """

    offset: int
    version: int | None
    blobs: frozenset[str] | None = frozenset()


def references(name: str, data: bytes) -> References:
    """The references of a checkpoint file."""
    offset = int(name.removeprefix(f"{ARCHIVE}/")[:20])
    try:
        content = checked_content(name, data)
    except DamagedStateError:
        return References(offset, None)
    except StateVersionError as error:
        return References(offset, int(str(error.found)), None)
    return References(offset, content.header.version, blobs_of(content.entries))


def blobs_of(entries: Iterable[Entry]) -> frozenset[str]:
    """The names of the blobs of these parts."""
    return frozenset(entry.blob for entry in entries if entry.blob is not None)


def offsets_to_keep(files: Sequence[References]) -> set[int]:
    """The offsets of one place to keep.

    These are the two highest offsets, and the highest of each format version, to go back to
    another release. Damaged files are not kept.

    Example:
        >>> versions = [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2)]
        >>> sorted(offsets_to_keep([References(*each) for each in versions]))
        [2, 4, 5]
    """
    readable = sorted((file.offset, file.version) for file in files if file.version is not None)
    newest = {version: offset for offset, version in readable}
    return {offset for offset, _ in readable[-2:]} | set(newest.values())


_UNREAD: Final = ("", References(0, None))


class Cleaner:
    """Removes superseded checkpoints and blobs; caches the references of files by their tags."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cache: dict[str, tuple[str, References]] = {}

    def note_checkpoint(self, key: str, tag: str, header: Header, entries: Sequence[Entry]) -> None:
        """Cache the references of a checkpoint that this process has written."""
        self._cache[key] = tag, References(header.offset, header.version, blobs_of(entries))

    def clean(self, folder: str, files: Files, offset: int) -> str | None:
        """Remove the files that a new checkpoint supersedes; returns the failure, or None.

        `files`: of the place before it was written.
        """
        try:
            superseded = self._superseded(folder, files, offset)
            if superseded:
                self._storage.delete([f"{folder}/{name}" for name in superseded])
        except StoreError as error:
            return str(error)
        for name in superseded:
            self._cache.pop(f"{folder}/{name}", None)
        return None

    def _superseded(self, folder: str, files: Files, offset: int) -> list[str]:
        """The files that the checkpoint of this offset supersedes.

        It supersedes no higher offset, and no blob of one: this process may no longer own the
        place.
        """
        checkpoint_references = self._references_of(folder, files, file_of(offset))
        if checkpoint_references is None:
            return []
        current = [
            reference
            for name, reference in checkpoint_references.items()
            if offset_of(name) == reference.offset <= offset
        ]
        keep = offsets_to_keep(current)
        superseded = [
            file_of(reference.offset) for reference in current if reference.offset not in keep
        ]
        if any(reference.blobs is None for reference in checkpoint_references.values()):
            return superseded
        referenced = frozenset().union(
            *(reference.blobs or () for reference in checkpoint_references.values())
        )
        # By the clock of the storage, which may differ from that of this machine.
        now = max((file.modified for file in files.values()), default=0.0)
        for name, file in files.items():
            blob = name.removeprefix(f"{BLOBS}/")
            unreferenced = blob != name and blob not in referenced
            if (unreferenced or name.endswith(TEMPORARY)) and file.modified < now - GRACE:
                superseded.append(name)
        return superseded

    def _references_of(
        self, folder: str, files: Files, newest: str
    ) -> dict[str, References] | None:
        """The references of all files of a place; None if more than one has not been read yet.

        It reads at most one file, as other processes may have written any number.
        """
        names = [
            name
            for name in files
            if name != newest and (offset_of(name) is not None or name.startswith(f"{ARCHIVE}/"))
        ]
        new = [n for n in names if self._cache.get(f"{folder}/{n}", _UNREAD)[0] != files[n].tag]
        for name in new[:1]:
            with suppress(FileNotFoundError):
                key = f"{folder}/{name}"
                self._cache[key] = files[name].tag, references(name, self._storage.get(key))
        if len(new) > 1:
            return None
        cached = {name: self._cache.get(f"{folder}/{name}") for name in (*names, newest)}
        return {name: entry[1] for name, entry in cached.items() if entry is not None}
