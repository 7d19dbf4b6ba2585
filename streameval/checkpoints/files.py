"""Checkpoint files in a folder: written, checked, read, archived and removed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from streameval.checkpoints.checkpoint import Draft, Header, Part, Place
from streameval.checkpoints.disk import Disk, store_errors
from streameval.checkpoints.format import (
    ARCHIVE,
    BLOBS,
    TEMPORARY,
    Content,
    Digested,
    Entry,
    Layout,
    Read,
    check_whole,
    content_of,
    digest_of,
    file_of,
    offset_of,
)
from streameval.errors import DamagedStateError, StateVersionError, StoreError

Blob: TypeAlias = tuple[str | None, str]
"""Name of a blob, and digest of the part in it."""

_TRIES: Final = 3
GRACE: Final = 600.0
"""Seconds that an unreferenced file is kept: another process may be writing it."""


def write(disk: Disk, folder: Path, draft: Draft, known: Mapping[str, int]) -> Sequence[Entry]:
    """Write a checkpoint and its blobs; durable when this returns.

    `known`: digest -> size of the blobs that this process has written or checked; only these are
    trusted.

    Returns:
        The table of parts.

    Raises:
        OSError: the write failed; no valid checkpoint was changed.
        StoreError: other processes keep removing the blobs.
    """
    blobs = _write_blobs(disk, folder, [part for part in draft.parts if part.settled], known)
    layout = Layout(draft, blobs)
    target = folder / file_of(draft.header.offset)
    with temporary(disk, target) as path:
        disk.create(path, layout)
        disk.sync(path)
        _ensure_blobs(disk, folder, draft, blobs)
        disk.rename(path, target)
    disk.sync_folder(folder)
    return layout.entries


def _write_blobs(
    disk: Disk, folder: Path, parts: Iterable[Part], known: Mapping[str, int]
) -> dict[str, Entry]:
    there = set(disk.names(folder / BLOBS)) & known.keys()
    entries: dict[str, Entry] = {}
    wrote = False
    for part in parts:
        if part.digest is not None and part.digest in there:
            entry = Entry(name=part.name, size=known[part.digest], digest=part.digest, start=None)
        else:
            entry, wrote = _write_blob(disk, folder / BLOBS, part), True
        entries[part.name] = entry
    if wrote:
        disk.sync_folder(folder / BLOBS)
    return entries


def _write_blob(disk: Disk, folder: Path, part: Part) -> Entry:
    with temporary(disk, folder / "blob") as path:
        content = Digested(part.content())
        disk.create(path, content)
        disk.sync(path)
        disk.rename(path, folder / content.digest)
    return Entry(name=part.name, size=content.size, digest=content.digest, start=None)


def _ensure_blobs(disk: Disk, folder: Path, draft: Draft, blobs: Mapping[str, Entry]) -> None:
    """Write blobs again that another process has removed meanwhile."""
    for _ in range(_TRIES):
        there = set(disk.names(folder / BLOBS)) if blobs else set()
        gone = {entry.name for entry in blobs.values() if entry.digest not in there}
        if not gone:
            return
        _write_blobs(disk, folder, [part for part in draft.parts if part.name in gone], {})
    raise StoreError(
        str(folder), "the files of this state vanish while it is written", "see who removes them"
    )


@contextmanager
def temporary(disk: Disk, target: Path) -> Iterator[Path]:
    """A temporary name beside `target`; the file is removed after an error."""
    path = target.with_name(f"{target.name}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        yield path
    except Exception:
        with suppress(OSError):
            disk.remove(path)
        raise


def make_folders(disk: Disk, folder: Path, top: Path) -> None:
    """Create the folders down to `folder` and make their entries durable.

    Existing ones are synced too: a process may have been killed after creating them.
    """
    if folder != top:
        make_folders(disk, folder.parent, top)
    try:
        disk.make_folder(folder)
    except FileExistsError:
        # Above the store we may lack read access, and created nothing.
        with suppress(PermissionError):
            disk.sync_folder(folder.parent)
        return
    except FileNotFoundError:
        if folder == folder.parent:
            raise
        make_folders(disk, folder.parent, folder.parent)
        disk.make_folder(folder)
    disk.sync_folder(folder.parent)


def read_checked(
    disk: Disk, path: Path, place: Place, seen: set[Blob] | None = None
) -> CheckpointFile:
    """A checkpoint, after a check of all its bytes and blobs.

    `seen`: blobs already checked; new ones are added.
    """
    content = checked_content(str(path), partial(disk.read, path), disk.size(path), place)
    known = set() if seen is None else seen
    for entry in content.entries:
        blob = entry.file, entry.digest
        if entry.file is not None and blob not in known:
            check_blob(disk, blob_of(path.parent, entry.file), entry)
            known.add(blob)
    return CheckpointFile(disk, path, content)


def checked_content(what: str, read: Read, size: int, place: Place) -> Content:
    """Header and table of a checkpoint, after a check of all its bytes; blobs are not read.

    `what`: its path, which ends with the name of the file.
    """
    check_whole(what, read, size)
    content = content_of(what, read, size)
    header = content.header
    if (header.place, header.offset) != (place, offset_of(what.rpartition("/")[2])):
        raise DamagedStateError(
            what, f"it says that it is of {header.place} at offset {header.offset:,}"
        )
    return content


def check_blob(disk: Disk, path: Path, entry: Entry) -> None:
    """Check that a blob exists and holds what was written of a part."""
    first = entry.start or 0
    try:
        size = entry.size if entry.blob else disk.size(path)
        digest = digest_of(lambda start, size: disk.read(path, first + start, size), size)
    except FileNotFoundError as error:
        raise DamagedStateError(str(path), f"the file of part {entry.name!r} is missing") from error
    if (size, digest) != (entry.size, entry.digest):
        raise DamagedStateError(str(path), f"part {entry.name!r} is not what was written")


def read_unchecked(disk: Disk, path: Path) -> Content:
    """Header and table of a file, without a check of bytes and blobs.

    Raises:
        StateVersionError, DamagedStateError: see `content_of`.
    """
    return content_of(str(path), partial(disk.read, path), disk.size(path))


class CheckpointFile:
    """A valid checkpoint in a folder; see `SavedCheckpoint`."""

    def __init__(self, disk: Disk, path: Path, content: Content) -> None:
        self._disk = disk
        self._entries = {each.name: each for each in content.entries}
        self.path = path
        self.header: Header = content.header

    @property
    def digests(self) -> Mapping[str, str]:
        """Part name -> digest of its bytes."""
        return {name: entry.digest for name, entry in self._entries.items()}

    @property
    def entries(self) -> Sequence[Entry]:
        """The table of parts."""
        return list(self._entries.values())

    def read(self, part: str) -> bytes:
        """The bytes of a part.

        Raises:
            KeyError: the part is unknown.
            StoreError: they cannot be read.
        """
        entry = self._entries[part]
        path = self.path if entry.file is None else blob_of(self.path.parent, entry.file)
        with store_errors(self.path), _missed(path):
            data = self._disk.read(path, entry.start or 0, entry.size)
        if blake2b(data, digest_size=32).hexdigest() != entry.digest:
            raise DamagedStateError(str(path), f"part {part!r} is not what was written")
        return data


@contextmanager
def _missed(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedStateError(str(path), "it is missing") from error


def offsets_in(disk: Disk, folder: Path) -> list[int]:
    """The offsets of the checkpoints in a folder, ascending; none without a folder."""
    try:
        names = disk.names(folder)
    except FileNotFoundError:
        return []
    return [offset for offset in map(offset_of, names) if offset is not None]


def blob_of(folder: Path, name: str) -> Path:
    """The path of a blob."""
    return folder / BLOBS / name


def archive(disk: Disk, folder: Path, offsets: Sequence[int]) -> None:
    """Move these checkpoints of a place into its archive folder.

    The highest moves last: until then it is the one that is loaded, and an interruption changes
    nothing.

    Raises:
        OSError: the disk failed; the call can be repeated.
    """
    *lower, highest = sorted(offsets)
    with suppress(FileExistsError):
        disk.make_folder(folder / ARCHIVE)
    disk.sync_folder(folder)
    _move(disk, folder, lower)
    _move(disk, folder, [highest])


def _move(disk: Disk, folder: Path, offsets: Sequence[int]) -> None:
    for offset in offsets:
        path = folder / file_of(offset)
        # An offset may be archived several times with other states; the time makes names unique.
        name = f"{path.name}.{disk.modified(path):.6f}"
        disk.rename(path, folder / ARCHIVE / name)
    disk.sync_folder(folder / ARCHIVE)
    disk.sync_folder(folder)


class Cleaner:
    """Removes superseded checkpoints and blobs; caches the tables of files, which never change."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._listed: dict[Path, tuple[float, Listed]] = {}

    def clean(self, store: Path, folder: Path, header: Header) -> None:
        """Remove what the checkpoint just written supersedes.

        Nothing above its offset is touched, nor the blobs of such files: this process may no
        longer own the place.

        Raises:
            OSError: the disk failed; nothing that is needed was removed.
        """
        # By the clock of the disk, which may differ from that of this machine.
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
        if ARCHIVE in names:
            yield from (folder / ARCHIVE / name for name in self._disk.names(folder / ARCHIVE))

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
        """The header of a file, cached while it is unchanged; None if it is missing."""
        try:
            modified = self._disk.modified(path)
            if path not in self._listed or self._listed[path][0] != modified:
                self._listed[path] = modified, _listed(self._disk, path)
        except FileNotFoundError:
            return None
        return self._listed[path][1]


class Listed(NamedTuple):
    """What decides whether a checkpoint file is kept.

    Attributes:
        version: of its format; None where it cannot be read.
        blobs: digests it refers to; None where its version is unknown.
    """

    offset: int
    version: int | None
    blobs: frozenset[str] | None = frozenset()


def _listed(disk: Disk, path: Path) -> Listed:
    return listed_in(str(path), partial(disk.read, path), disk.size(path))


def listed_in(what: str, read: Read, size: int) -> Listed:
    """What decides whether a file is kept."""
    offset = int(what.rpartition("/")[2][:20])
    try:
        content = content_of(what, read, size)
    except DamagedStateError:
        return Listed(offset, None)
    except StateVersionError as error:
        return Listed(offset, int(str(error.found)), None)
    blobs = frozenset(each.file for each in content.entries if each.file is not None)
    return Listed(offset, content.header.version, blobs)


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
