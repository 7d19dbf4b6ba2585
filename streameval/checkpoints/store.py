"""A store of checkpoints in a folder that all replicas share, or in a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from streameval.checkpoints.checkpoint import Draft, Entry, Header, Place, Skip, Stop
from streameval.checkpoints.cleaning import Cleaner, There
from streameval.checkpoints.disk import Disk
from streameval.checkpoints.format import (
    ARCHIVE,
    BLOBS,
    CLAIM,
    SKIP,
    SKIPS,
    STOP,
    Claim,
    Content,
    checked_content,
    claim_in,
    decoded,
    digest_of,
    entry_of,
    file_of,
    folder_of,
    header_of,
    note_bytes,
    note_file,
    note_in,
    offsets_in,
    place_of,
    written,
)
from streameval.checkpoints.settings import AS_ENVIRONMENT, SCHEMES, BucketOptions, is_url
from streameval.checkpoints.storage import Folder, Storage
from streameval.errors import (
    DamagedStateError,
    ForeignStoreError,
    MissingExtraError,
    StateVersionError,
    StoreError,
    UnownedStoreError,
)

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
Blob: TypeAlias = tuple[str | None, str]
"""Name of a blob, and digest of the part in it."""

_REWRITTEN: Final = "the next checkpoint writes it again"
_TRIES: Final = 5
_PLACES_AT_ONCE: Final = 8
_BLOBS_AT_ONCE: Final = 16
_BLOBS: Final = 64
"""At most so many blobs are in use; above it, each new one takes up the smallest of them."""


class SavedCheckpoint:
    """A valid checkpoint in a store.

    Attributes:
        path: of its file.
        entries: the table of its parts.
    """

    def __init__(self, path: str, content: Content, read: Callable[[Entry], bytes]) -> None:
        self.path = path
        self.header: Header = content.header
        self.entries: Sequence[Entry] = content.entries
        self._read = read

    @property
    def digests(self) -> Mapping[str, str]:
        """Part name -> digest of its bytes; equal states have equal digests."""
        return {each.name: each.digest for each in self.entries}

    def read(self, part: str) -> bytes:
        """The bytes of a part.

        Raises:
            DamagedStateError: they are not what was written.
        """
        return next(self._read(each) for each in self.entries if each.name == part)


class Found(msgspec.Struct, kw_only=True):
    """What a store has of one place.

    Attributes:
        damaged: one message for each newer file that is damaged.
    """

    saved: SavedCheckpoint | None
    damaged: Sequence[str] = ()


class Store:
    """Checkpoints by place and offset, shared by all replicas; the highest valid offset wins.

    docs/reference/state.md describes its files. One thread at a time may save a place; places are
    independent. Methods raise StoreError where the storage fails. In a bucket a checkpoint takes at
    most six requests: list the place, read a file that another process wrote, read a blob to take
    up, write what has settled as one blob, write the checkpoint, delete what it supersedes.

    Attributes:
        path: of the folder, or the URL.
        trouble: why superseded files could not be removed after the last save, or None.
    """

    def __init__(self, storage: Storage) -> None:
        self.path = storage.path
        self.trouble: str | None = None
        self._storage = storage
        self._claimed = False
        self._cleaner = Cleaner(storage)

    def claim(self, cluster: str, group: str) -> None:
        """Claim the store for a cluster and group; the first claim decides.

        Raises:
            ForeignStoreError: it belongs to another cluster or group.
            StoreError: it cannot be used; UnownedStoreError if it has no claim, and checkpoints.
        """
        found = self._owner() or self._claim(Claim(cluster=cluster, group=group))
        for what, here in (("cluster", cluster), ("group", group)):
            there = getattr(found, what)
            if here != there:
                raise ForeignStoreError(self.path, what, here, there)
        self._claimed = True

    def _claim(self, wanted: Claim) -> Claim:
        # A process claims the store before it writes a checkpoint: so places first.
        headers = self.headers()
        if not headers:
            self._storage.put_new(CLAIM, f"{wanted}\n".encode())
            return self.owner()
        if (found := self._owner()) is not None:
            return found
        known = [header for header in headers.values() if header is not None]
        owners = {str(Claim(cluster=each.cluster, group=each.group)) for each in known}
        said = f"; its checkpoints say {' or '.join(sorted(owners))}" if owners else ""
        problem = f"there are checkpoints of {len(headers)} partitions, and no {CLAIM} says whose"
        remedy = f"bring {CLAIM} back{said}, or give another [state] path"
        raise UnownedStoreError(self.path, problem, remedy)

    def _owner(self) -> Claim | None:
        with suppress(FileNotFoundError):
            return claim_in(self._storage.path_of(CLAIM), self._storage.get(CLAIM))
        return None

    def owner(self) -> Claim:
        """Whose store it is."""
        found = self._owner()
        if found is None:
            raise StoreError(self.path, f"{CLAIM} is missing", self._storage.remedy)
        return found

    def claimed(self) -> bool:
        """Whether it has been claimed: whether there is a store."""
        return self._owner() is not None

    def gather(
        self, read: Callable[[A], B], items: Iterable[A], limit: int = _PLACES_AT_ONCE
    ) -> list[B]:
        """Call a function that reads the store for each item; at once where requests take long."""
        return at_once(limit if self._storage.remote else 1, read, items)

    def places(self) -> list[Place]:
        """Every place that has a checkpoint, sorted."""
        return sorted(self._places())

    def _places(self) -> dict[Place, list[int]]:
        """Every place that has checkpoints, with their offsets; four requests in sequence."""
        topics = self._within([""])
        numbers = self._within(self._within(topics))
        found = [place for place in map(place_of, numbers) if place is not None]
        offsets = self.gather(self.offsets, found, _BLOBS_AT_ONCE)
        return {place: each for place, each in zip(found, offsets, strict=True) if each}

    def _within(self, folders: Sequence[str]) -> list[str]:
        """What is in these folders and may belong to a place."""
        listings = self.gather(self._storage.names, folders, _BLOBS_AT_ONCE)
        return [
            f"{folder}/{name}" if folder else name
            for folder, names in zip(folders, listings, strict=True)
            for name in names
            if decoded(name) is not None
        ]

    def settings(self) -> Mapping[str, Any]:
        """The settings in the header written last; empty without a checkpoint."""
        headers = [header for header in self.headers().values() if header is not None]
        last = max(headers, key=lambda header: header.written_at, default=None)
        return {} if last is None else last.settings

    def headers(self) -> dict[Place, Header | None]:
        """The newest header of each place; reads and checks nothing else.

        It is None where no header is readable, or a version that this release does not know.
        """
        places = self._places()
        headers = self.gather(self._header, places.items(), _BLOBS_AT_ONCE)
        return dict(zip(places, headers, strict=True))

    def _header(self, found: tuple[Place, Sequence[int]]) -> Header | None:
        place, offsets = found
        for offset in reversed(offsets):
            key = f"{folder_of(place)}/{file_of(offset)}"
            read = partial(self._storage.get_range, key, 0)
            try:
                return header_of(self._storage.path_of(key), read)
            except StateVersionError:
                return None
            except (DamagedStateError, FileNotFoundError):
                continue
        return None

    def offsets(self, place: Place) -> list[int]:
        """The offsets of all its checkpoints, valid or not, ascending."""
        return offsets_in(self._storage.names(folder_of(place)))

    def newest(self, place: Place) -> Found:
        """The valid checkpoint of the highest offset, after a check of all its bytes.

        Raises:
            StateVersionError: the newest has a version that this release does not know.
            StoreError: the store cannot be read.
        """
        for _ in range(_TRIES):
            # Another process deleted a superseded file: list again.
            with suppress(FileNotFoundError):
                return self._newest(place)
        path = self._storage.path_of(folder_of(place))
        raise StoreError(path, "its files vanish while they are read", "try again")

    def _newest(self, place: Place) -> Found:
        offsets = self.offsets(place)
        if not offsets:
            self._check_claim()
        damaged: list[str] = []
        for offset in reversed(offsets):
            try:
                saved = self._read(place, offset, set())
            except DamagedStateError as error:
                damaged.append(f"offset {offset:,} is skipped: {error.what}: {error.problem}")
                continue
            self._storage.settle(folder_of(place))
            return Found(saved=saved, damaged=damaged)
        return Found(saved=None, damaged=damaged)

    def checked(self, place: Place, offset: int, seen: set[Blob] | None = None) -> SavedCheckpoint:
        """One checkpoint, after a check of all its bytes; `seen`: blobs already checked."""
        try:
            return self._read(place, offset, set() if seen is None else seen)
        except FileNotFoundError as error:
            raise DamagedStateError(str(error), "it is missing") from error

    def _read(self, place: Place, offset: int, seen: set[Blob]) -> SavedCheckpoint:
        key = f"{folder_of(place)}/{file_of(offset)}"
        path = self._storage.path_of(key)
        data = self._storage.get(key)
        content = checked_content(path, data, place)
        wanted = [each for each in content.entries if (each.blob, each.digest) not in seen]

        def read(file: Sequence[Entry]) -> dict[str, bytes]:
            return self._parts(key, file)

        blobs = self.gather(read, _by_blob(wanted).values(), _BLOBS_AT_ONCE)
        seen.update((each.blob, each.digest) for each in wanted)
        if not self._storage.remote:
            # What is near is read again rather than kept in memory.
            return SavedCheckpoint(path, content, lambda entry: read([entry])[entry.name])
        parts = {each.name: _part(data, each) for each in content.entries if each.blob is None}
        for found in blobs:
            parts |= found
        return SavedCheckpoint(path, content, lambda entry: parts[entry.name])

    def _parts(self, key: str, entries: Sequence[Entry]) -> dict[str, bytes]:
        """Parts of a checkpoint that are in the same file, checked.

        `key`: of the checkpoint.
        """
        blob = entries[0].blob
        key = key if blob is None else f"{key.rpartition('/')[0]}/{BLOBS}/{blob}"
        begin = min(each.start for each in entries)
        size = max(each.start + each.size for each in entries) - begin
        try:
            data = self._storage.get_range(key, begin, size) if size else b""
        except FileNotFoundError as error:
            problem = f"the file of part {entries[0].name!r} is missing"
            raise DamagedStateError(self._storage.path_of(key), problem) from error
        parts = {}
        for entry in entries:
            part = _part(data, entry, begin)
            if digest_of(part) != entry.digest:
                problem = f"part {entry.name!r} is not what was written"
                raise DamagedStateError(self._storage.path_of(key), problem)
            parts[entry.name] = part
        return parts

    def save(self, draft: Draft) -> Sequence[Entry]:
        """Write a checkpoint atomically; it is durable when this returns.

        Keeps the two newest of the place, and the newest of each format version.

        Returns:
            The table of its parts.

        Raises:
            StoreError: the write failed, or a blob of the last checkpoint is missing or damaged;
                the store is unchanged.
        """
        folder = folder_of(draft.header.place)
        there = self._storage.files(folder)
        if not offsets_in(there):
            self._check_claim()
        key = f"{folder}/{file_of(draft.header.offset)}"
        pieces, entries = written(draft.header, *self._divided(draft, key, there))
        tag = self._storage.put(key, *pieces)
        self._cleaner.written(key, tag, draft.header, entries)
        # The checkpoint is durable, so a failure waits for the next.
        self.trouble = self._cleaner.clean(folder, there, draft.header.offset)
        return entries

    def _divided(
        self, draft: Draft, key: str, there: There
    ) -> tuple[dict[str, bytes], dict[str, Entry]]:
        """Contents for the file itself, and the entries of parts in blobs, which are written."""
        last = {each.name: each for each in draft.last if f"{BLOBS}/{each.blob}" in there}
        by_digest = {each.digest: each for each in last.values()}
        own: dict[str, bytes] = {}
        new: dict[str, bytes] = {}
        entries: dict[str, Entry] = {}
        for part in draft.parts:
            if part.content is None:
                if part.name not in last:
                    problem = f"the blob of part {part.name!r} of an earlier checkpoint is missing"
                    raise StoreError(self._storage.path_of(key), problem, _REWRITTEN)
                entries[part.name] = last[part.name]
                continue
            content = b"".join(part.content())
            same = by_digest.get(digest_of(content)) if part.settled else None
            if same is not None:
                entries[part.name] = msgspec.structs.replace(same, name=part.name)
            else:
                (new if part.settled else own)[part.name] = content
        spent = _spent(entries.values(), there, most=_BLOBS - bool(new))
        try:
            new |= self._parts(key, spent) if spent else {}
        except DamagedStateError as error:
            raise StoreError(error.what, error.problem, _REWRITTEN) from error
        return own, entries | self._packed(folder_of(draft.header.place), new)

    def _packed(self, folder: str, parts: Mapping[str, bytes]) -> dict[str, Entry]:
        """Write parts as one blob."""
        if not parts:
            return {}
        blob, start, entries = digest_of(*parts.values()), 0, {}
        for name, part in parts.items():
            entries[name] = entry_of(name, part, start, blob)
            start += len(part)
        self._storage.put(f"{folder}/{BLOBS}/{blob}", *parts.values())
        return entries

    def note(self, place: Place, stop: Stop) -> None:
        """Remember that a record could not be counted; durable when this returns."""
        self._check_claim()
        self._storage.put(f"{folder_of(place)}/{note_file(stop, STOP)}", note_bytes(stop))

    def stops(self, place: Place) -> Sequence[Stop]:
        """Records that could not be counted, passed since or not."""
        return list(self._notes(place, STOP, Stop))

    def skip(self, place: Place, skip: Skip) -> bool:
        """Order that a record is skipped, which was noted before; durable when this returns.

        Returns:
            Whether nobody had ordered it before.
        """
        key, order = f"{folder_of(place)}/{note_file(skip.stop, SKIP)}", note_bytes(skip)
        # A request that is repeated after its answer was lost finds what it wrote itself.
        return self._storage.put_new(key, order) or self._storage.get(key) == order

    def skips(self, place: Place) -> Sequence[Skip]:
        """Records that are not to be counted, in any order.

        Raises:
            DamagedStateError: an order to skip one cannot be read.
        """
        return list(self._notes(place, SKIP, Skip))

    def _notes(self, place: Place, suffix: str, kind: type[T]) -> Iterator[T]:
        folder = f"{folder_of(place)}/{SKIPS}"
        for name in self._storage.names(folder):
            if name.endswith(suffix):
                key = f"{folder}/{name}"
                yield note_in(self._storage.path_of(key), self._storage.get(key), kind)

    def archive(self, place: Place) -> None:
        """Archive all checkpoints of a place: they are kept and never loaded again.

        A call that was interrupted can be repeated.
        """
        folder = folder_of(place)
        there = self._storage.files(folder)
        # The highest goes last: until then it is the one that is loaded.
        for name in map(file_of, offsets_in(there)):
            # An offset may be archived several times with other states; the time tells them apart.
            target = f"{folder}/{ARCHIVE}/{name}.{there[name].modified:.6f}"
            self._storage.move(f"{folder}/{name}", target)

    def _check_claim(self) -> None:
        """Refuse a store that was emptied: it is none that never had anything."""
        if self._claimed:
            self.owner()


def folder_store(path: Path, disk: Disk | None = None) -> Store:
    """The store in a folder; nothing is read yet."""
    return Store(Folder(path, disk or Disk()))


def store_of(
    path: str,
    options: BucketOptions = AS_ENVIRONMENT,
    progress: Callable[[], None] = lambda: None,
) -> Store:
    """The store that a [state] path names; nothing is read yet.

    `progress`: called for each piece that is read or written.

    Raises:
        MissingExtraError: it is a URL, and the extra is not installed.
        StoreError: the client of the bucket cannot be made.
    """
    if not is_url(path):
        return folder_store(Path(path), Disk(progress))
    try:
        from streameval.checkpoints.bucket import opened  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtraError(f"a state at {path}", "objectstore", error) from error
    return Store(opened(path, options, progress))


def is_store(path: str, options: BucketOptions = AS_ENVIRONMENT) -> bool:
    """Whether there is a store at a path.

    Raises:
        MissingExtraError: it is the URL of a bucket, and the extra is not installed.
        StoreError: it cannot be read.
    """
    if is_url(path) and path.partition(":")[0] not in SCHEMES:
        return False
    return store_of(path, options).claimed()


def _by_blob(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The entries of each blob."""
    found: dict[str, list[Entry]] = {}
    for each in entries:
        if each.blob is not None:
            found.setdefault(each.blob, []).append(each)
    return found


def _spent(entries: Iterable[Entry], there: There, most: int) -> list[Entry]:
    """The entries of the blob to write anew, or none.

    A blob qualifies if less than half of it is needed; any does if there are too many. The one with
    the fewest bytes is chosen.
    """
    blobs = _by_blob(entries)
    needed = {name: sum(each.size for each in found) for name, found in blobs.items()}
    spent = [name for name in blobs if 2 * needed[name] < there[f"{BLOBS}/{name}"].size]
    if len(blobs) > most:
        spent = list(blobs)
    return blobs[min(spent, key=lambda name: needed[name])] if spent else []


def _part(data: bytes, entry: Entry, begin: int = 0) -> bytes:
    """The bytes of a part; `begin`: where the data begin in their file."""
    start = entry.start - begin
    return data[start : start + entry.size]


def at_once(limit: int, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Call a function for each item, so many at a time; the results in the order of the items."""
    given = list(items)
    if limit == 1 or len(given) < 2:
        return [read(each) for each in given]
    with ThreadPoolExecutor(min(limit, len(given)), "object-storage") as pool:
        return list(pool.map(read, given))
