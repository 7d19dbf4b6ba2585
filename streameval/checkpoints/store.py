"""A store of checkpoints, in a bucket or in a folder that all replicas share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from streameval.checkpoints.cleaning import Cleaner, Files
from streameval.checkpoints.format import (
    ARCHIVE,
    BLOBS,
    CLAIM,
    CheckpointContent,
    CheckpointDraft,
    Claim,
    Entry,
    Header,
    Place,
    check_content,
    claim_in,
    digest_of,
    encode_checkpoint,
    entry_of,
    file_of,
    folder_of,
    header_of,
    offset_of,
    offsets_in,
    place_of_folder,
)
from streameval.checkpoints.settings import AS_ENVIRONMENT, SCHEMES, BucketOptions, is_url
from streameval.checkpoints.storage import Disk, Folder, Storage
from streameval.events.errors import (
    DamagedStateError,
    ForeignStoreError,
    StateVersionError,
    StoreError,
    UnownedStoreError,
)
from streameval.events.extras import imports_of

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
_REWRITTEN: Final = "the next checkpoint writes it again"
_TRIES: Final = 5
_PLACES_AT_ONCE: Final = 8
_BLOBS_AT_ONCE: Final = 16
_BLOBS: Final = 64
"""Most blobs of a checkpoint; beyond it, each new blob absorbs the smallest one."""


class SavedCheckpoint:
    """A valid checkpoint in a store.

    Attributes:
        path: of its file.
        entries: the table of its parts.
    """

    def __init__(
        self, path: str, content: CheckpointContent, read: Callable[[Entry], bytes]
    ) -> None:
        self.path = path
        self.header: Header = content.header
        self.entries: Sequence[Entry] = content.entries
        self._by_name = {entry.name: entry for entry in self.entries}
        self._read = read

    @property
    def digests(self) -> Mapping[str, str]:
        """Part name -> digest of its bytes; equal states have equal digests."""
        return {entry.name: entry.digest for entry in self.entries}

    def read(self, part: str) -> bytes:
        """The bytes of a part.

        Raises:
            DamagedStateError: they are not as written.
        """
        return self._read(self._by_name[part])


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a checkpoint is. Equal locations have equal bytes.

    Attributes:
        key: of its file, relative to the store.
        tag: changes whenever the bytes do.
        modified: when a file last named it, by the clock of the storage, seconds since the epoch.
    """

    place: Place
    offset: int
    key: str
    tag: str
    modified: float = field(compare=False)


class Listing(msgspec.Struct, frozen=True):
    """What one listing of a store shows; no checkpoint has been read.

    Attributes:
        places: the checkpoints of each place, sorted by place, newest first; at least one each.
    """

    places: Mapping[Place, Sequence[Location]]

    def damage(self, place: Place) -> list[str]:  # noqa: ARG002  a checkpoint that is a file of its own hides no other
        """A message for each damaged file that may hide a newer checkpoint of this place."""
        return []


class Found(msgspec.Struct, kw_only=True):
    """The newest valid checkpoint of a place, if any.

    Attributes:
        damaged: a message for each newer file, which is damaged.
    """

    saved: SavedCheckpoint | None
    damaged: Sequence[str] = ()


class Store:
    """Checkpoints by place and offset, shared by all replicas; the highest valid offset wins.

    docs/reference/state.md describes its files. One thread at a time may save a place; places are
    independent. Methods raise StoreError if the storage fails. In a bucket, a checkpoint takes at
    most six requests: list the place, read a file of another process, read a blob to absorb, write
    settled parts as one blob, write the checkpoint, delete superseded files.

    Attributes:
        path: of the folder, or the URL.
        cleanup_failure: why superseded files could not be removed after the last save, or None.
    """

    def __init__(self, storage: Storage) -> None:
        self.path = storage.path
        self.cleanup_failure: str | None = None
        self._storage = storage
        self._claimed = False
        self._cleaner = Cleaner(storage)

    def claim(self, cluster: str, group: str) -> None:
        """Claim the store for a cluster and group; the first claim wins.

        Raises:
            ForeignStoreError: it belongs to another cluster or group.
            StoreError: it cannot be used; UnownedStoreError if it has no claim, and checkpoints.
        """
        owner = self._owner() or self._claim(Claim(cluster=cluster, group=group))
        for what, here in (("cluster", cluster), ("group", group)):
            claimed = getattr(owner, what)
            if here != claimed:
                raise ForeignStoreError(self.path, what, here, claimed)
        self._claimed = True

    def _claim(self, wanted: Claim) -> Claim:
        # Every process claims before it writes a checkpoint, so look for checkpoints first.
        headers = self.headers()
        if not headers:
            self._storage.put_new(CLAIM, f"{wanted}\n".encode())
            return self.owner()
        if (owner := self._owner()) is not None:
            return owner
        headers_read = [header for header in headers.values() if header is not None]
        owners = {
            str(Claim(cluster=claimed.cluster, group=claimed.group)) for claimed in headers_read
        }
        said = f"; its checkpoints say {' or '.join(sorted(owners))}" if owners else ""
        problem = f"it has checkpoints of {len(headers)} partitions and no {CLAIM} with their owner"
        remedy = f"bring {CLAIM} back{said}, or give another [state] path"
        raise UnownedStoreError(self.path, problem, remedy)

    def _owner(self) -> Claim | None:
        with suppress(FileNotFoundError):
            return claim_in(self._storage.path_of(CLAIM), self._storage.get(CLAIM))
        return None

    def owner(self) -> Claim:
        """The claim of the store; raises StoreError without one."""
        owner = self._owner()
        if owner is None:
            raise StoreError(self.path, f"{CLAIM} is missing", self._storage.remedy)
        return owner

    def claimed(self) -> bool:
        """Whether the store is claimed, that is, exists."""
        return self._owner() is not None

    def gather(
        self, read: Callable[[A], B], items: Iterable[A], limit: int = _PLACES_AT_ONCE
    ) -> list[B]:
        """Call a function that reads the store for each item; concurrently if it is remote."""
        return map_concurrently(limit if self._storage.remote else 1, read, items)

    def listing(self) -> Listing:
        """The checkpoints of all places, by one listing; writes nothing.

        Raises:
            StoreError: the store cannot be read.
        """
        return self._listing("")

    def _listing(self, folder: str) -> Listing:
        """The checkpoints below a folder: that of a place, or "" for all."""
        places: dict[Place, list[Location]] = {}
        for name, file in self._storage.files(folder).items():
            key = f"{folder}/{name}" if folder else name
            parent, _, name_of_file = key.rpartition("/")
            offset, place = offset_of(name_of_file), place_of_folder(parent)
            if offset is not None and place is not None:
                places.setdefault(place, []).append(
                    Location(
                        place=place, offset=offset, key=key, tag=file.tag, modified=file.modified
                    )
                )
        newest_first = {
            place: sorted(places[place], key=lambda location: -location.offset)
            for place in sorted(places)
        }
        return Listing(newest_first)

    def places(self) -> list[Place]:
        """The places with checkpoints, sorted."""
        return [*self.listing().places]

    def last(self, topics: Collection[str] = ()) -> Header | None:
        """The header of the checkpoint written last, of these topics if any are given."""
        headers = [
            header
            for place, header in self.headers().items()
            if header is not None and (not topics or place.topic in topics)
        ]
        return max(headers, key=lambda header: header.written_at, default=None)

    def headers(self) -> dict[Place, Header | None]:
        """The newest header of each place, without a check of the rest.

        It is None if no header is readable, or if its version is unknown to this release.
        """
        places = self.listing().places
        headers = self.gather(self._header, places.values(), _BLOBS_AT_ONCE)
        return dict(zip(places, headers, strict=True))

    def _header(self, locations: Sequence[Location]) -> Header | None:
        for location in locations:
            read = partial(self._storage.get_range, location.key, 0)
            try:
                return header_of(self._storage.path_of(location.key), read)
            except StateVersionError:
                return None
            except (DamagedStateError, FileNotFoundError):
                continue
        return None

    def offsets(self, place: Place) -> list[int]:
        """The offsets of all checkpoints of a place, valid or not, ascending."""
        locations = self._listing(folder_of(place)).places.get(place, ())
        return [location.offset for location in reversed(locations)]

    def newest(self, place: Place) -> Found:
        """The valid checkpoint with the highest offset, after a check of all its bytes.

        Raises:
            StateVersionError: the version of the newest is unknown to this release.
            StoreError: the store cannot be read.
        """
        for _ in range(_TRIES):
            # Another process may delete a superseded file; then list again.
            with suppress(FileNotFoundError):
                return self._newest(place)
        path = self._storage.path_of(folder_of(place))
        raise StoreError(path, "its files vanish while they are read", "try again")

    def _newest(self, place: Place) -> Found:
        locations = self._listing(folder_of(place)).places.get(place, ())
        if not locations:
            self._check_claim()
        damaged: list[str] = []
        for location in locations:
            try:
                saved = self.read(location)
            except DamagedStateError as error:
                problem = f"{error.what}: {error.problem}"
                damaged.append(f"offset {location.offset:,} is skipped: {problem}")
                continue
            self._storage.sync(folder_of(place))
            return Found(saved=saved, damaged=damaged)
        return Found(saved=None, damaged=damaged)

    def read(
        self, location: Location, wanted: Callable[[Entry], bool] = lambda _: True
    ) -> SavedCheckpoint:
        """A checkpoint, after a check of its header, its table and the wanted parts.

        `wanted`: whether a part will be read; nothing else may be read of the checkpoint then.

        Raises:
            DamagedStateError: it is not as written.
            FileNotFoundError: it was superseded after the listing; list again.
            StateVersionError: its version is unknown to this release.
            StoreError: the store cannot be read.
        """
        key = location.key
        path = self._storage.path_of(key)
        data = self._storage.get(key)
        content = check_content(path, data, location.place)
        entries = [entry for entry in content.entries if wanted(entry)]

        def read(file: Sequence[Entry]) -> dict[str, bytes]:
            return self._parts(key, file)

        blobs = self.gather(read, _by_blob(entries).values(), _BLOBS_AT_ONCE)
        if not self._storage.remote:
            # Local parts are read again instead of being kept in memory.
            return SavedCheckpoint(path, content, lambda entry: read([entry])[entry.name])
        parts = {entry.name: _part(data, entry) for entry in entries if entry.blob is None}
        for parts_of_blob in blobs:
            parts |= parts_of_blob
        return SavedCheckpoint(path, content, lambda entry: parts[entry.name])

    def _parts(self, key: str, entries: Sequence[Entry]) -> dict[str, bytes]:
        """Read and check parts of a checkpoint that are in the same file.

        `key`: of the checkpoint.
        """
        blob = entries[0].blob
        key = key if blob is None else f"{key.rpartition('/')[0]}/{BLOBS}/{blob}"
        begin = min(part_entry.start for part_entry in entries)
        size = max(part_entry.start + part_entry.size for part_entry in entries) - begin
        try:
            data = self._storage.get_range(key, begin, size) if size else b""
        except FileNotFoundError as error:
            problem = f"the file of part {entries[0].name!r} is missing"
            raise DamagedStateError(self._storage.path_of(key), problem) from error
        parts = {}
        for entry in entries:
            part = _part(data, entry, begin)
            if len(part) != entry.size or digest_of(part) != entry.digest:
                problem = f"part {entry.name!r} is not what was written"
                raise DamagedStateError(self._storage.path_of(key), problem)
            parts[entry.name] = part
        return parts

    def save(self, draft: CheckpointDraft) -> Sequence[Entry]:
        """Write a checkpoint atomically and durably, and remove superseded ones.

        Keeps the two newest of the place, and the newest of each format version.

        Returns:
            The table of its parts.

        Raises:
            StoreError: the write failed, or a blob of the last checkpoint is missing or damaged;
                the store is unchanged.
        """
        folder = folder_of(draft.header.place)
        files = self._storage.files(folder)
        if not offsets_in(files):
            self._check_claim()
        key = f"{folder}/{file_of(draft.header.offset)}"
        pieces, entries = encode_checkpoint(draft.header, *self._divided(draft, key, files))
        tag = self._storage.put(key, *pieces)
        self._cleaner.note_checkpoint(key, tag, draft.header, entries)
        # The checkpoint is durable, so a failed cleanup can wait for the next.
        self.cleanup_failure = self._cleaner.clean(folder, files, draft.header.offset)
        return entries

    def _divided(
        self, draft: CheckpointDraft, key: str, files: Files
    ) -> tuple[dict[str, bytes], dict[str, Entry]]:
        """Write settled parts to blobs; returns the other contents, and the entries in blobs."""
        last = {
            last_entry.name: last_entry
            for last_entry in draft.last
            if f"{BLOBS}/{last_entry.blob}" in files
        }
        by_digest = {last_entry.digest: last_entry for last_entry in last.values()}
        unsettled: dict[str, bytes] = {}
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
                (new if part.settled else unsettled)[part.name] = content
        absorbed = _to_absorb(entries.values(), files, most=_BLOBS - bool(new))
        try:
            new |= self._parts(key, absorbed) if absorbed else {}
        except DamagedStateError as error:
            raise StoreError(error.what, error.problem, _REWRITTEN) from error
        return unsettled, entries | self._packed(folder_of(draft.header.place), new)

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

    def archive(self, place: Place) -> None:
        """Archive all checkpoints of a place: they are kept and never loaded again.

        An interrupted call can be repeated.
        """
        folder = folder_of(place)
        files = self._storage.files(folder)
        # The highest is moved last, as it is loaded until then.
        for name in map(file_of, offsets_in(files)):
            # The time is part of the name, as an offset may be archived with several states.
            target = f"{folder}/{ARCHIVE}/{name}.{files[name].modified:.6f}"
            self._storage.move(f"{folder}/{name}", target)

    def _check_claim(self) -> None:
        """Refuse a store that was claimed and has been emptied since."""
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

    `progress`: called after each read and each write.

    Raises:
        MissingExtraError: it is a URL, and the extra is not installed.
        StoreError: options or credentials of the bucket are invalid.
    """
    if not is_url(path):
        return folder_store(Path(path), Disk(progress))
    with imports_of(f"a state at {path}", "objectstore"):
        from streameval.checkpoints.bucket import open_bucket  # noqa: PLC0415  needs an extra
    return Store(open_bucket(path, options, progress))


def is_store(path: str, options: BucketOptions = AS_ENVIRONMENT) -> bool:
    """Whether a path has a store.

    Raises:
        MissingExtraError: it is the URL of a bucket, and the extra is not installed.
        StoreError: it cannot be read.
    """
    if is_url(path) and path.partition(":")[0] not in SCHEMES:
        return False
    return store_of(path, options).claimed()


def _by_blob(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The entries of each blob."""
    blobs: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.blob is not None:
            blobs.setdefault(entry.blob, []).append(entry)
    return blobs


def _to_absorb(entries: Iterable[Entry], files: Files, most: int) -> list[Entry]:
    """The entries of the blob that the next one absorbs, or none.

    A blob qualifies if less than half of it is needed, or if files are too many. The one with the
    fewest needed bytes is chosen.
    """
    blobs = _by_blob(entries)
    needed = {name: sum(part.size for part in parts) for name, parts in blobs.items()}
    candidates = [name for name in blobs if 2 * needed[name] < files[f"{BLOBS}/{name}"].size]
    if len(blobs) > most:
        candidates = list(blobs)
    return blobs[min(candidates, key=lambda name: needed[name])] if candidates else []


def _part(data: bytes, entry: Entry, begin: int = 0) -> bytes:
    """The bytes of a part; `begin`: position of the data in the file."""
    start = entry.start - begin
    return data[start : start + entry.size]


def map_concurrently(limit: int, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Call a function for each item, at most `limit` at a time; results keep the order."""
    given = list(items)
    if limit == 1 or len(given) < 2:
        return [read(argument) for argument in given]
    with ThreadPoolExecutor(min(limit, len(given)), "object-storage") as pool:
        return list(pool.map(read, given))
