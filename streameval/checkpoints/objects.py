"""A store of checkpoints in object storage; keeps the names and bytes of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from streameval.checkpoints.checkpoint import A, B, Draft, Found, Header, Place, Skip, Stop
from streameval.checkpoints.files import GRACE, Blob, Listed, checked_content, kept, listed_in
from streameval.checkpoints.folder import (
    SKIP,
    STOP,
    Claim,
    claim_text,
    compare_claims,
    decoded_claim,
    decoded_note,
    name_of,
    text_of,
    unclaimed,
)
from streameval.checkpoints.format import (
    ARCHIVE,
    BLOBS,
    CLAIM,
    SKIPS,
    Content,
    Entry,
    Layout,
    Read,
    decoded,
    file_of,
    folder_of,
    header_of,
    number_of,
    offset_of,
)
from streameval.errors import DamagedStateError, StateVersionError, StoreError

if TYPE_CHECKING:
    from streameval.checkpoints.bucket import Bucket, StoredObject

_TRIES: Final = 5
_PLACES_AT_ONCE: Final = 8
_BLOBS_AT_ONCE: Final = 16
_BLOBS: Final = 64
"""At most so many blobs are in use; above it, each new one takes up the smallest of them."""

_UNREAD: Final = ("", Listed(0, None))

T = TypeVar("T")
There: TypeAlias = "Mapping[str, StoredObject]"
"""The objects of a place, by their name in its folder."""


class ObjectStore:
    """A store in a bucket; `Store` is its contract, docs/reference/state.md describes its bytes.

    One thread at a time may save a place; places are independent. Methods raise StoreError where
    the service fails. A checkpoint takes at most six requests: list the place, read a file that
    another process wrote, read a blob to take up, write what has settled as one blob, write the
    checkpoint, delete what it supersedes.

    Attributes:
        trouble: see `Store`.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.path = bucket.url
        self.trouble: str | None = None
        self._bucket = bucket
        self._claimed = False
        self._known: dict[Place, Sequence[Entry]] = {}
        self._tables: dict[str, tuple[str, Listed]] = {}

    def claim(self, cluster: str, group: str) -> None:
        """See `Store.claim`."""
        wanted = Claim(cluster=cluster, group=group)
        found = self._owner() or self._claim(wanted)
        compare_claims(self.path, wanted, found)
        self._claimed = True

    def _claim(self, wanted: Claim) -> Claim:
        # A process claims the store before it writes a checkpoint: so places first.
        if places := self._places():
            found = self._owner()
            if found is None:
                headers = [each for each in self._headers(places) if each is not None]
                raise unclaimed(self.path, len(places), headers)
            return found
        self._bucket.put_new(CLAIM, f"{claim_text(wanted)}\n".encode())
        return self.owner()

    def _owner(self) -> Claim | None:
        with suppress(FileNotFoundError):
            return decoded_claim(self._bucket.path_of(CLAIM), self._bucket.get(CLAIM))
        return None

    def owner(self) -> Claim:
        """Whose store it is."""
        found = self._owner()
        if found is None:
            raise StoreError(self.path, f"{CLAIM} is missing", "check bucket and prefix")
        return found

    def claimed(self) -> bool:
        """Whether somebody has claimed it: whether there is a store."""
        return self._owner() is not None

    def gather(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """See `Store.gather`."""
        return _at_once(_PLACES_AT_ONCE, read, items)

    def places(self) -> list[Place]:
        """See `Store.places`."""
        return sorted(self._places())

    def _places(self) -> dict[Place, list[int]]:
        """Every place that has checkpoints, with their offsets; four requests in sequence."""
        topics = self._within([""])
        numbers = self._within(self._within(topics))
        found = [place for place in map(_place_of, numbers) if place is not None]
        offsets = _at_once(_BLOBS_AT_ONCE, self.offsets, found)
        return {place: each for place, each in zip(found, offsets, strict=True) if each}

    def _within(self, folders: Sequence[str]) -> list[str]:
        """The folders in these folders."""
        listings = _at_once(_BLOBS_AT_ONCE, self._bucket.names, folders)
        return [
            f"{folder}/{name}" if folder else name
            for folder, (names, _) in zip(folders, listings, strict=True)
            for name in names
        ]

    def settings(self) -> Mapping[str, Any]:
        """The settings in the header written last; empty without a checkpoint.

        Skips damaged files, and reads headers only.
        """
        headers = [header for header in self._headers(self._places()) if header is not None]
        last = max(headers, key=lambda header: header.written_at, default=None)
        return {} if last is None else last.settings

    def _headers(self, places: Mapping[Place, Sequence[int]]) -> list[Header | None]:
        keys = [f"{_folder(place)}/{file_of(offsets[-1])}" for place, offsets in places.items()]
        return _at_once(_BLOBS_AT_ONCE, self._header, keys)

    def _header(self, key: str) -> Header | None:
        def read(start: int, size: int) -> bytes:
            return self._bucket.get_range(key, start, size)

        with suppress(DamagedStateError, StateVersionError, FileNotFoundError):
            return header_of(self._bucket.path_of(key), read)
        return None

    def offsets(self, place: Place) -> list[int]:
        """The offsets of all its checkpoints, valid or not, ascending."""
        _, files = self._bucket.names(_folder(place))
        return _offsets(files)

    def newest(self, place: Place) -> Found:
        """See `Store.newest`."""
        for _ in range(_TRIES):
            # Another process deleted a superseded file: list again.
            with suppress(FileNotFoundError):
                return self._newest(place)
        path = self._bucket.path_of(_folder(place))
        raise StoreError(path, "its files vanish while they are read", "try again")

    def _newest(self, place: Place) -> Found:
        offsets = _offsets(self._bucket.objects(_folder(place)))
        if not offsets:
            self._check_claim()
        damaged: list[str] = []
        for offset in reversed(offsets):
            try:
                saved = self._read(place, offset, set())
            except DamagedStateError as error:
                damaged.append(f"offset {offset:,} is skipped: {error.what}: {error.problem}")
                continue
            self._known[place] = [each for each in saved.entries if each.file is not None]
            return Found(saved=saved, damaged=damaged)
        return Found(saved=None, damaged=damaged)

    def checked(self, place: Place, offset: int, seen: set[Blob] | None = None) -> CheckpointObject:
        """See `FolderStore.checked`."""
        try:
            return self._read(place, offset, set() if seen is None else seen)
        except FileNotFoundError as error:
            raise DamagedStateError(str(error), "it is missing") from error

    def _read(self, place: Place, offset: int, seen: set[Blob]) -> CheckpointObject:
        key = f"{_folder(place)}/{file_of(offset)}"
        path = self._bucket.path_of(key)
        data = self._bucket.get(key)
        content = checked_content(path, _reading(data), len(data), place)
        wanted = [each for each in content.entries if (each.file, each.digest) not in seen]
        blobs = self._parts(_folder(place), wanted)
        seen.update((each.file, each.digest) for each in wanted)
        own = (each for each in content.entries if each.file is None)
        parts = {each.name: _part(data, each) for each in own}
        return CheckpointObject(path, content, {**parts, **blobs})

    def _parts(self, folder: str, entries: Iterable[Entry]) -> dict[str, bytes]:
        """The parts of these entries that are in blobs, checked; one request for each blob."""

        def read(blob: Sequence[Entry]) -> dict[str, bytes]:
            return self._span(folder, blob)

        found = _at_once(_BLOBS_AT_ONCE, read, _by_file(entries).values())
        return {name: data for parts in found for name, data in parts.items()}

    def _span(self, folder: str, entries: Sequence[Entry]) -> dict[str, bytes]:
        """Parts that are in the same blob."""
        key = f"{folder}/{BLOBS}/{entries[0].file}"
        begin = min(each.start or 0 for each in entries)
        size = max((each.start or 0) + each.size for each in entries) - begin
        try:
            data = self._bucket.get_range(key, begin, size) if size else b""
        except FileNotFoundError as error:
            problem = f"the file of part {entries[0].name!r} is missing"
            raise DamagedStateError(self._bucket.path_of(key), problem) from error
        parts = {}
        for entry in entries:
            part = _part(data, entry, begin)
            if _digest(part) != entry.digest:
                problem = f"part {entry.name!r} is not what was written"
                raise DamagedStateError(self._bucket.path_of(key), problem)
            parts[entry.name] = part
        return parts

    def save(self, draft: Draft) -> Mapping[str, str]:
        """See `Store.save`."""
        place = draft.header.place
        folder = _folder(place)
        there = self._bucket.objects(folder)
        if not _offsets(there):
            self._check_claim()
        layout = Layout(draft, self._blobs(draft, folder, there))
        data = b"".join(layout)
        key = f"{folder}/{file_of(draft.header.offset)}"
        tag = self._bucket.put(key, data)
        self._known[place] = [each for each in layout.entries if each.file is not None]
        blobs = frozenset(each.file for each in layout.entries if each.file is not None)
        self._tables[key] = tag, Listed(draft.header.offset, draft.header.version, blobs)
        self._clean(folder, there, draft.header.offset)
        return {each.name: each.digest for each in layout.entries}

    def _blobs(self, draft: Draft, folder: str, there: There) -> dict[str, Entry]:
        """The entries of settled parts, after writing those that are in no blob yet."""
        known = {
            each.digest: each
            for each in self._known.get(draft.header.place, ())
            if f"{BLOBS}/{each.file}" in there
        }
        entries: dict[str, Entry] = {}
        parts: dict[str, bytes] = {}
        for part in draft.parts:
            if part.settled and part.digest is not None and part.digest in known:
                entries[part.name] = msgspec.structs.replace(known[part.digest], name=part.name)
            elif part.settled:
                parts[part.name] = b"".join(part.content())
        spent = _spent(entries.values(), there, most=_BLOBS - bool(parts))
        if spent:
            parts |= self._span(folder, spent)
        return entries | self._packed(folder, parts)

    def _packed(self, folder: str, parts: Mapping[str, bytes]) -> dict[str, Entry]:
        """Write parts as one blob."""
        if not parts:
            return {}
        data = b"".join(parts.values())
        blob, start, entries = _digest(data), 0, {}
        for name, part in parts.items():
            entries[name] = Entry(
                name=name, size=len(part), digest=_digest(part), start=start, blob=blob
            )
            start += len(part)
        self._bucket.put(f"{folder}/{BLOBS}/{blob}", data)
        return entries

    def _clean(self, folder: str, there: There, offset: int) -> None:
        """Delete superseded files; the checkpoint is durable, so a failure waits for the next."""
        self.trouble = None
        try:
            spare = self._spare(folder, there, offset)
            if spare:
                self._bucket.delete([f"{folder}/{name}" for name in spare])
        except StoreError as error:
            self.trouble = str(error)
            return
        for name in spare:
            self._tables.pop(f"{folder}/{name}", None)

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
        # By the clock of the service, which may differ from that of this machine.
        now = max((each.modified for each in there.values()), default=0.0)
        for name, found in there.items():
            blob = name.removeprefix(f"{BLOBS}/")
            if blob != name and blob not in named and found.modified < now - GRACE:
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
                data = self._bucket.get(key)
                self._tables[key] = there[name].tag, listed_in(key, _reading(data), len(data))
        if len(new) > 1:
            return None
        found = {name: self._tables.get(f"{folder}/{name}") for name in (*names, newest)}
        return {name: each[1] for name, each in found.items() if each is not None}

    def note(self, place: Place, stop: Stop) -> None:
        """See `Store.note`."""
        self._check_claim()
        self._bucket.put(f"{_folder(place)}/{SKIPS}/{name_of(stop, STOP)}", text_of(stop))

    def stops(self, place: Place) -> Sequence[Stop]:
        """See `FolderStore.stops`."""
        return list(self._notes(place, STOP, Stop))

    def skip(self, place: Place, skip: Skip) -> bool:
        """See `FolderStore.skip`."""
        key = f"{_folder(place)}/{SKIPS}/{name_of(skip.stop, SKIP)}"
        # A request that is repeated after its answer was lost finds what it wrote itself.
        return self._bucket.put_new(key, text_of(skip)) or self._bucket.get(key) == text_of(skip)

    def skips(self, place: Place) -> Sequence[Skip]:
        """See `Store.skips`."""
        return list(self._notes(place, SKIP, Skip))

    def _notes(self, place: Place, suffix: str, kind: type[T]) -> Iterator[T]:
        folder = f"{_folder(place)}/{SKIPS}"
        for name in self._bucket.names(folder)[1]:
            if name.endswith(suffix):
                key = f"{folder}/{name}"
                yield decoded_note(self._bucket.path_of(key), self._bucket.get(key), kind)

    def archive(self, place: Place) -> None:
        """See `Store.archive`."""
        self._known.pop(place, None)
        folder = _folder(place)
        there = self._bucket.objects(folder)
        # The highest goes last: until then it is the one that is loaded.
        for name in sorted(name for name in there if offset_of(name) is not None):
            target = f"{folder}/{ARCHIVE}/{name}.{there[name].modified:.6f}"
            self._bucket.copy(f"{folder}/{name}", target)
            self._bucket.delete([f"{folder}/{name}"])

    def _check_claim(self) -> None:
        """Refuse a store that was emptied: it is none that never had anything."""
        if self._claimed:
            self.owner()


class CheckpointObject:
    """A valid checkpoint in a bucket, with all its bytes; see `SavedCheckpoint`."""

    def __init__(self, path: str, content: Content, parts: Mapping[str, bytes]) -> None:
        self.path = path
        self.header: Header = content.header
        self.entries: Sequence[Entry] = content.entries
        self._parts = parts

    @property
    def digests(self) -> Mapping[str, str]:
        """Part name -> digest of its bytes."""
        return {each.name: each.digest for each in self.entries}

    def read(self, part: str) -> bytes:
        """The bytes of a part.

        Raises:
            KeyError: the part is unknown.
        """
        return self._parts[part]


def _folder(place: Place) -> str:
    """Where the objects of a place are: as in a folder."""
    return PurePosixPath(folder_of(Path(), place)).as_posix()


def _place_of(folder: str) -> Place | None:
    """The place whose objects are in a folder; None where they belong to none."""
    topic_part, identity_part, number_part = folder.split("/")
    topic, identity, number = decoded(topic_part), decoded(identity_part), number_of(number_part)
    if topic is None or identity is None or number is None:
        return None
    return Place(topic, identity, number)


def _offsets(names: Iterable[str]) -> list[int]:
    return sorted(offset for offset in map(offset_of, names) if offset is not None)


def _is_checkpoint(name: str) -> bool:
    return offset_of(name) is not None or name.startswith(f"{ARCHIVE}/")


def _by_file(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The entries of each blob."""

    def file(entry: Entry) -> str:
        return entry.file or ""

    found = groupby(sorted(entries, key=file), file)
    return {name: list(each) for name, each in found if name}


def _spent(entries: Iterable[Entry], there: There, most: int) -> list[Entry]:
    """The entries of the blob to write anew, or none.

    A blob qualifies if less than half of it is needed; any does if there are too many. The one with
    the fewest bytes is chosen.
    """
    blobs = _by_file(entries)
    needed = {name: sum(each.size for each in found) for name, found in blobs.items()}
    spent = [name for name in blobs if 2 * needed[name] < there[f"{BLOBS}/{name}"].size]
    if len(blobs) > most:
        spent = list(blobs)
    return blobs[min(spent, key=lambda name: needed[name])] if spent else []


def _part(data: bytes, entry: Entry, begin: int = 0) -> bytes:
    """The bytes of a part; `begin`: where the data begin in their file."""
    start = (entry.start or 0) - begin
    return data[start : start + entry.size]


def _reading(data: bytes) -> Read:
    return lambda start, size: data[start : start + size]


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


def _at_once(limit: int, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Call a function for each item, so many at a time; the results in the order of the items."""
    given = list(items)
    if len(given) < 2:
        return [read(each) for each in given]
    with ThreadPoolExecutor(min(limit, len(given)), "object-storage") as pool:
        return list(pool.map(read, given))
