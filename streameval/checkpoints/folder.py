"""A store of checkpoints in a folder that all replicas share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from streameval.checkpoints.checkpoint import A, B, Draft, Found, Header, Place, Skip, Stop
from streameval.checkpoints.disk import Disk, store_errors
from streameval.checkpoints.files import (
    Blob,
    CheckpointFile,
    Cleaner,
    archive,
    make_folders,
    offsets_in,
    read_checked,
    read_unchecked,
    temporary,
    write,
)
from streameval.checkpoints.format import (
    BLOBS,
    CLAIM,
    SKIPS,
    Entry,
    decoded,
    encoded,
    file_of,
    folder_of,
    number_of,
)
from streameval.errors import DamagedStateError, ForeignStoreError, StateVersionError, StoreError

_REAL: Final = Disk()
_TRIES: Final = 5
_VERSION: Final = 1
_LARGEST: Final = 1 << 20
STOP: Final = ".stop"
SKIP: Final = ".skip"

T = TypeVar("T")


class FolderStore:
    """A store on a disk; `Store` is its contract, docs/reference/state.md describes its bytes.

    One thread at a time may save a place; places are independent.
    Methods raise StoreError where the disk fails, and DamagedStateError for a file that is not what
    was written.

    Attributes:
        trouble: see `Store`.
    """

    def __init__(self, path: Path, disk: Disk = _REAL) -> None:
        self.path = path
        self.disk = disk
        self.trouble: str | None = None
        self._claimed = False
        self._made: set[Place] = set()
        self._known: dict[Place, Mapping[str, int]] = {}
        self._cleaner = Cleaner(disk)

    def claim(self, cluster: str, group: str) -> None:
        """See `Store.claim`."""
        with store_errors(self.path):
            make_folders(self.disk, self.path, self.path)
            self._refuse_unclaimed()
            wanted = Claim(cluster=cluster, group=group)
            if CLAIM not in self.disk.names(self.path):
                _write_new(self.disk, self.path / CLAIM, claim_text(wanted).encode() + b"\n")
            self.disk.sync_folder(self.path)
            compare_claims(str(self.path), wanted, self.owner())
        self._claimed = True

    def _refuse_unclaimed(self) -> None:
        """Refuse a folder whose checkpoints may belong to another cluster or group."""
        # List places first: a process claims the store before it writes a checkpoint.
        kept = self.places()
        if not kept or CLAIM in self.disk.names(self.path):
            return
        headers = [header for place in kept for header in self._headers(place)]
        raise unclaimed(str(self.path), len(kept), headers)

    def places(self) -> list[Place]:
        """See `Store.places`."""
        with store_errors(self.path):
            return sorted(place for place in self._places() if self.offsets(place))

    def _places(self) -> Iterator[Place]:
        for topic_part in self._within(self.path):
            for identity_part in self._within(self.path / topic_part):
                topic, identity = decoded(topic_part), decoded(identity_part)
                for number in map(number_of, self._within(self.path / topic_part / identity_part)):
                    if topic is not None and identity is not None and number is not None:
                        yield Place(topic, identity, number)

    def _within(self, folder: Path) -> list[str]:
        """Names in it that belong to a place; none if it is missing or not a folder."""
        with suppress(NotADirectoryError, FileNotFoundError):
            return [name for name in self.disk.names(folder) if decoded(name) is not None]
        return []

    def settings(self) -> Mapping[str, Any]:
        """The settings in the header written last; empty without a checkpoint.

        Skips damaged files, and reads headers only.
        """
        with store_errors(self.path):
            headers = [header for place in self._places() for header in self._headers(place)]
        last = max(headers, key=lambda header: header.written_at, default=None)
        return {} if last is None else last.settings

    def _headers(self, place: Place) -> Iterator[Header]:
        folder = folder_of(self.path, place)
        for offset in offsets_in(self.disk, folder)[-1:]:
            with suppress(DamagedStateError, StateVersionError, FileNotFoundError):
                yield read_unchecked(self.disk, folder / file_of(offset)).header

    def owner(self) -> Claim:
        """Whose store it is."""
        with store_errors(self.path):
            path = self.path / CLAIM
            return decoded_claim(str(path), self.disk.read(path, 0, _LARGEST))

    def claimed(self) -> bool:
        """Whether somebody has claimed it: whether there is a store."""
        with store_errors(self.path), suppress(FileNotFoundError, NotADirectoryError):
            return CLAIM in self.disk.names(self.path)
        return False

    def gather(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """See `Store.gather`."""
        return [read(each) for each in items]

    def offsets(self, place: Place) -> list[int]:
        """The offsets of all its checkpoints, valid or not, ascending."""
        with store_errors(self.path):
            return offsets_in(self.disk, folder_of(self.path, place))

    def checked(self, place: Place, offset: int, seen: set[Blob] | None = None) -> CheckpointFile:
        """One checkpoint, after a check of all its bytes; `seen`: blobs already checked."""
        with store_errors(self.path):
            path = folder_of(self.path, place) / file_of(offset)
            try:
                return read_checked(self.disk, path, place, seen)
            except FileNotFoundError as error:
                raise DamagedStateError(str(path), "it is missing") from error

    def newest(self, place: Place) -> Found:
        """See `Store.newest`."""
        with store_errors(self.path):
            self._check_claim()
            for _ in range(_TRIES):
                # Another process removed a superseded file: list again.
                with suppress(FileNotFoundError):
                    return self._newest(place)
        folder = folder_of(self.path, place)
        raise StoreError(str(folder), "its files vanish while they are read", "try again")

    def _newest(self, place: Place) -> Found:
        folder = folder_of(self.path, place)
        damaged: list[str] = []
        for offset in reversed(offsets_in(self.disk, folder)):
            try:
                saved = read_checked(self.disk, folder / file_of(offset), place)
            except DamagedStateError as error:
                damaged.append(f"offset {offset:,} is skipped: {error.what}: {error.problem}")
                continue
            # Its writer may have been killed before this.
            self.disk.sync_folder(folder)
            self._remember_blobs(place, saved.entries)
            return Found(saved=saved, damaged=damaged)
        return Found(saved=None, damaged=damaged)

    def save(self, draft: Draft) -> Mapping[str, str]:
        """See `Store.save`."""
        place = draft.header.place
        folder = folder_of(self.path, place)
        with store_errors(self.path):
            self._check_claim()
            if place not in self._made:
                make_folders(self.disk, folder / BLOBS, self.path)
                self._made.add(place)
            entries = write(self.disk, folder, draft, self._known.get(place, {}))
        self._remember_blobs(place, entries)
        self._clean(folder, draft)
        return {each.name: each.digest for each in entries}

    def note(self, place: Place, stop: Stop) -> None:
        """See `Store.note`."""
        with store_errors(self.path):
            self._check_claim()
            folder = self._skips_of(place)
            make_folders(self.disk, folder, self.path)
            with temporary(self.disk, folder / name_of(stop, STOP)) as path:
                self.disk.create(path, [text_of(stop)])
                self.disk.sync(path)
                self.disk.rename(path, folder / name_of(stop, STOP))
            self.disk.sync_folder(folder)

    def stops(self, place: Place) -> Sequence[Stop]:
        """Records that could not be counted, passed since or not."""
        with store_errors(self.path):
            return list(self._notes(place, STOP, Stop))

    def skip(self, place: Place, skip: Skip) -> bool:
        """Order that a record is skipped, which was noted before; durable when this returns.

        Returns:
            Whether nobody had ordered it before.
        """
        with store_errors(self.path):
            folder = self._skips_of(place)
            first = _write_new(self.disk, folder / name_of(skip.stop, SKIP), text_of(skip))
            self.disk.sync_folder(folder)
            return first

    def skips(self, place: Place) -> Sequence[Skip]:
        """See `Store.skips`."""
        with store_errors(self.path):
            return list(self._notes(place, SKIP, Skip))

    def _notes(self, place: Place, suffix: str, kind: type[T]) -> Iterator[T]:
        folder = self._skips_of(place)
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = [each for each in self.disk.names(folder) if each.endswith(suffix)]
        for path in (folder / name for name in names):
            yield decoded_note(str(path), self.disk.read(path, 0, _LARGEST), kind)

    def _skips_of(self, place: Place) -> Path:
        return folder_of(self.path, place) / SKIPS

    def archive(self, place: Place) -> None:
        """See `Store.archive`."""
        self._known.pop(place, None)
        if offsets := self.offsets(place):
            with store_errors(self.path):
                archive(self.disk, folder_of(self.path, place), offsets)

    def _remember_blobs(self, place: Place, entries: Sequence[Entry]) -> None:
        self._known[place] = {each.digest: each.size for each in entries if each.start is None}

    def _clean(self, folder: Path, draft: Draft) -> None:
        """Remove superseded files; the checkpoint is durable, so a failure waits for the next."""
        self.trouble = None
        try:
            with store_errors(self.path):
                self._cleaner.clean(self.path, folder, draft.header)
        except StoreError as error:
            self.trouble = str(error)

    def _check_claim(self) -> None:
        if self._claimed:
            try:
                self.disk.size(self.path / CLAIM)
            except FileNotFoundError as error:
                raise StoreError(
                    str(self.path), f"{CLAIM} is missing", "check that the disk is mounted"
                ) from error


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The content of store.json."""

    version: int = _VERSION
    cluster: str
    group: str


def compare_claims(store: str, wanted: Claim, found: Claim) -> None:
    """Refuse a store of another cluster or group.

    Raises:
        ForeignStoreError: it is one.
    """
    for what in ("cluster", "group"):
        here, there = getattr(wanted, what), getattr(found, what)
        if here != there:
            raise ForeignStoreError(store, what, here, there)


def unclaimed(store: str, places: int, headers: Iterable[Header]) -> StoreError:
    """Refuses a store whose checkpoints may belong to another cluster or group."""
    owners = {claim_text(Claim(cluster=each.cluster, group=each.group)) for each in headers}
    said = f"; its checkpoints say {' or '.join(sorted(owners))}" if owners else ""
    problem = f"there are checkpoints of {places} partitions, and no {CLAIM} says whose"
    remedy = f"bring {CLAIM} back{said}, or give another [state] path"
    return StoreError(store, problem, remedy)


def decoded_claim(path: str, content: bytes) -> Claim:
    """The claim that a file holds."""
    try:
        said = msgspec.json.decode(content, type=dict[str, object])
        if said.get("version") != _VERSION:
            raise StateVersionError(path, said.get("version"), _VERSION)
        return msgspec.convert(said, Claim)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            path,
            f"it names no cluster and group ({error})",
            "bring it back from a copy, or remove it once you have seen that the store is right",
        ) from error


def claim_text(wanted: Claim) -> str:
    """The content of store.json, in one line."""
    return msgspec.json.encode(wanted).decode()


def _write_new(disk: Disk, target: Path, content: bytes) -> bool:
    """Write a file where there is none; returns whether this call did."""
    with temporary(disk, target) as path:
        disk.create(path, [content])
        disk.sync(path)
        try:
            disk.rename_new(path, target)
        except FileExistsError:
            disk.remove(path)
            return False
    return True


def name_of(stop: Stop, suffix: str) -> str:
    """The name of the file about a record."""
    return f"{encoded(str(stop.record))}{suffix}"


def text_of(content: Stop | Skip) -> bytes:
    """The content of the file about a record."""
    return msgspec.json.encode(content) + b"\n"


def decoded_note(path: str, content: bytes, kind: type[T]) -> T:
    """What the file about a record says."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedStateError(path, str(error)) from error
