"""A store of checkpoints, in a bucket or in a folder that all replicas share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeVar

import msgspec

from streameval.checkpoints.earlier import earlier_version, shard_and_offset
from streameval.checkpoints.format import (
    ARCHIVE,
    IDENTITY_FILE,
    ROUNDS,
    TEMPORARY,
    VERSION,
    CheckpointDraft,
    Directory,
    Entry,
    Header,
    LaterDirectory,
    Part,
    Region,
    Shard,
    StateSettings,
    StoreIdentity,
    digest_of,
    directory_in,
    directory_position,
    identity_in,
    record_content,
    round_key,
    round_of,
    to_json,
)
from streameval.checkpoints.rounds import RoundWriter
from streameval.checkpoints.settings import AS_ENVIRONMENT, SCHEMES, BucketOptions, is_url
from streameval.checkpoints.storage import Disk, Folder, Storage, StoredFile, missing_file
from streameval.events.errors import (
    DamagedStateError,
    RefusedStateError,
    StateVersionError,
    StoreError,
)
from streameval.events.extras import imports_of
from streameval.events.saved_states import damaged, unknown_version

A = TypeVar("A")
B = TypeVar("B")

GRACE: Final = 600.0
"""Seconds without a round after which a process counts as ended; others write each minute."""

_TRIES: Final = 5
_SHARDS_AT_ONCE: Final = 8
_FILES_AT_ONCE: Final = 16
_DIRECTORY: Final = 1 << 16
"""Bytes at the end of a round that are read first: the directory of some hundred shards."""
_SWEEP: Final = 60
"""Rounds between two removals of the files of processes that have ended.

The first is before the first round: even a process that never writes a second one removes files of
earlier processes.
"""


def refuse_foreign(store: str, identity: StoreIdentity, cluster: str, group: str) -> None:
    """Raise RefusedStateError if a store belongs to another cluster or group."""
    for what, actual in (("cluster", cluster), ("group", group)):
        claimed = getattr(identity, what)
        if actual != claimed:
            problem = f"its state belongs to {what} {claimed!r}, and this process reads {actual!r}"
            remedy = "give another [state] path"
            owner = what, actual, claimed
            message = f"{store}: {problem}; {remedy}."
            raise RefusedStateError(message, where=store, problem=problem, owner=owner)


class SavedCheckpoint:
    """A valid checkpoint in a store.

    Attributes:
        path: of the file with its header.
        entries: the table of its parts.
    """

    def __init__(
        self,
        path: str,
        header: Header,
        entries: Sequence[Entry],
        read: Callable[[Entry], bytes],
    ) -> None:
        self.path = path
        self.header = header
        self.entries = entries
        self._by_name = {entry.name: entry for entry in self.entries}
        self._read = read

    @property
    def digests(self) -> Mapping[str, str]:
        """Part name -> digest of its bytes; equal states have equal digests."""
        return {entry.name: entry.digest for entry in self.entries}

    def read(self, part: str) -> bytes:
        """The bytes of a part.

        Raises:
            DamagedStateError: they are not as written, or not there.
        """
        entry = self._by_name.get(part)
        if entry is None:
            raise damaged(self.path, f"it has no part {part!r}")
        return self._read(entry)

    @property
    def draft(self) -> CheckpointDraft:
        """The same checkpoint, to write it to another store."""

        def content(name: str) -> Callable[[], Iterator[bytes]]:
            return lambda: iter([self.read(name)])

        parts = [Part(name=name, content=content(name)) for name in sorted(self.digests)]
        return CheckpointDraft(header=self.header, parts=parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The location of a checkpoint; equal locations have equal bytes.

    Attributes:
        key: of its file, relative to the store.
        tag: changes whenever the bytes do.
        modified: when a file last named it, by the clock of the storage, seconds since the epoch.
        region: where it is in its file; None for a checkpoint of a release before 0.3.
        settings: its settings; None as well if its version is unknown to this release.
        writer: name of the process that wrote it; "" for such a release.
        version: of its format, and the release that wrote it.
    """

    shard: Shard
    offset: int
    key: str
    tag: str
    generation: int = 0
    writer: str = ""
    written_at: float = 0.0
    modified: float = field(compare=False)
    region: Region | None = field(default=None, compare=False)
    settings: StateSettings | None = field(default=None, compare=False)
    version: tuple[int, str] = field(default=(VERSION, ""), compare=False)

    @property
    def order(self) -> tuple[int, int, float, str]:
        """The order of the checkpoints of a shard: the highest wins.

        A process removes only a checkpoint that is lower than another one. So the highest is never
        removed, whatever several processes do at once.
        """
        # A copy by a new owner is written later.
        return self.generation, self.offset, self.written_at, self.writer


class Fault(NamedTuple):
    """A round of which the directory is damaged.

    Attributes:
        is_newest: True if it is the newest round of its writer.
        is_all: True if no directory of its writer can be read.
    """

    problem: str
    modified: float
    writer: str
    is_newest: bool
    is_all: bool


class Listing(msgspec.Struct, frozen=True):
    """The result of one listing of a store; of checkpoints, only directories have been read.

    Attributes:
        shards: the checkpoints of each shard, sorted by shard, newest first; at least one each.
        writers: the two newest directories of each writer, newest first; None for a damaged one.
        files: all files, by key.
        faults: the damaged directories among them.
    """

    shards: Mapping[Shard, Sequence[Location]]
    writers: Mapping[str, Sequence[Mapping[Shard, Location] | None]]
    files: Mapping[str, StoredFile]
    faults: Sequence[Fault] = ()

    def damage(self, shard: Shard) -> list[str]:
        """A message for each damaged directory that may hide a newer checkpoint of this shard."""
        locations = self.shards.get(shard)
        if locations is None:
            # If the shard is new, its first checkpoint is in the damaged round.
            return [fault.problem for fault in self.faults if fault.is_all]
        # Its writer names a checkpoint in each round. What others name later, as a former owner
        # does, says nothing about rounds in between.
        newest = locations[0]
        file = self.files.get(newest.key)
        written = newest.modified if file is None else file.modified
        return [
            fault.problem
            for fault in self.faults
            if (
                fault.modified >= newest.modified
                if fault.writer == newest.writer
                else fault.is_newest and fault.modified >= written
            )
        ]

    def superseded_by(
        self, location: Location, damaged: Collection[Location] = ()
    ) -> frozenset[str]:
        """The other processes with a higher checkpoint of the shard, if two of their rounds do.

        Two, because one may be damaged; of one process or of two: one that ends after its first
        round leaves a single one. `damaged`: checkpoints that do not count.
        """
        rounds = Counter[str]()
        for writer, directories in self.writers.items():
            for directory in directories if writer != location.writer else ():
                other = None if directory is None else directory.get(location.shard)
                if other is None or other in damaged or other.key not in self.files:
                    break
                if other.order <= location.order:
                    break
                rounds[writer] += 1
        return frozenset(rounds if rounds.total() > 1 else ())


class NewestCheckpoint(msgspec.Struct, kw_only=True):
    """The newest valid checkpoint of a shard, if any.

    Attributes:
        damaged: a message for each newer file, which is damaged.
    """

    saved: SavedCheckpoint | None
    damaged: Sequence[str] = ()


def skip_message(location: Location, error: DamagedStateError) -> str:
    """The message that an older checkpoint is loaded instead of a damaged one."""
    return f"offset {location.offset:,} is skipped: {error.what}: {error.problem}"


class Store:
    """Checkpoints by shard and offset, shared by all replicas; the highest valid offset wins.

    docs/reference/state.md describes its files. Methods raise StoreError if the storage fails.
    In a bucket, a round takes three requests: list the rounds of this process, write one file,
    delete superseded ones; and some more to copy parts, and to look for what others have saved.

    Attributes:
        path: of the folder, or the URL.
        cleanup_failure: why superseded files could not be removed after the last save, or None.
    """

    def __init__(self, storage: Storage) -> None:
        self.path = storage.path
        self.cleanup_failure: str | None = None
        self._storage = storage
        self._claimed = False
        self._writer = RoundWriter(storage)
        self._rounds = 0
        self._damaged: set[Location] = set()
        self._saving = Lock()
        self._directories: dict[
            tuple[str, str], Directory | LaterDirectory | DamagedStateError
        ] = {}

    def claim(self, cluster: str, group: str) -> None:
        """Claim the store for a cluster and group; the first claim wins.

        Raises:
            RefusedStateError: it belongs to another cluster or group, or has checkpoints and no
                `store.json`.
            StoreError: it cannot be used.
        """
        existing = self._identity_or_none()
        if existing is None:
            # Every process claims before it writes a checkpoint, so look for checkpoints first.
            headers = self.headers()
            existing = self._identity_or_none()
            if existing is None and headers:
                claims = {
                    str(StoreIdentity(cluster=header.state.cluster, group=header.state.group))
                    for header in headers.values()
                    if header is not None
                }
                hint = f"; its checkpoints say {' or '.join(sorted(claims))}" if claims else ""
                problem = f"it has checkpoints of {len(headers)} partitions"
                problem += f" and no {IDENTITY_FILE} with their owner"
                raise RefusedStateError(
                    f"{self.path}: {problem}; bring {IDENTITY_FILE} back{hint}, or give another "
                    "[state] path.",
                    where=self.path,
                    problem=problem,
                )
            if existing is None:
                identity = StoreIdentity(cluster=cluster, group=group)
                self._storage.put_new(IDENTITY_FILE, [f"{identity}\n".encode()])
                existing = self.identity()
        refuse_foreign(self.path, existing, cluster, group)
        self._claimed = True

    def _identity_or_none(self) -> StoreIdentity | None:
        with suppress(FileNotFoundError):
            return identity_in(
                self._storage.path_of(IDENTITY_FILE), self._storage.get(IDENTITY_FILE)
            )
        return None

    def identity(self) -> StoreIdentity:
        """The cluster and group of the store; raises StoreError before it is claimed."""
        identity = self._identity_or_none()
        if identity is None:
            raise StoreError(self.path, f"{IDENTITY_FILE} is missing", self._storage.remedy)
        return identity

    def exists(self) -> bool:
        """True if a process has claimed the store."""
        return self._identity_or_none() is not None

    def gather(
        self, read: Callable[[A], B], items: Iterable[A], limit: int = _SHARDS_AT_ONCE
    ) -> list[B]:
        """Call a function that reads the store for each item; concurrently if it is remote."""
        return map_concurrently(limit if self._storage.remote else 1, read, items)

    def listing(self) -> Listing:
        """The checkpoints of all shards, by one listing; writes nothing.

        Directories of rounds are read once and cached.

        Raises:
            StoreError: the store cannot be read.
        """
        for _ in range(_TRIES):
            # A running process may remove a round; then list again.
            with suppress(FileNotFoundError):
                return self._listing()
        raise StoreError(self.path, "its files vanish while they are read", "try again")

    def _listing(self) -> Listing:
        files = self._storage.files()
        rounds: dict[str, list[str]] = {}
        all_locations: list[Location] = []
        for key, file in sorted(files.items(), reverse=True):
            if (of_round := round_of(key)) is not None:
                rounds.setdefault(of_round[0], []).append(key)
            elif (checkpoint := shard_and_offset(key)) is not None:
                shard, offset = checkpoint
                all_locations.append(
                    Location(
                        shard=shard, offset=offset, key=key, tag=file.tag, modified=file.modified
                    )
                )
        newest = [(key, files[key].tag) for keys in rounds.values() for key in keys[:2]]
        cached = dict(self._directories)
        unread = [key for key, tag in newest if (key, tag) not in cached]
        read = self.gather(lambda key: self._directory(key, files[key]), unread, _FILES_AT_ONCE)
        for key, directory in zip(unread, read, strict=True):
            if directory is not None:
                cached[key, files[key].tag] = directory
        # Some of many processes write meanwhile; the next try reads only their rounds.
        self._directories = cached
        if None in read:
            raise missing_file(self._storage.path_of(unread[read.index(None)]))
        self._directories = {name: cached[name] for name in newest}
        writers: dict[str, list[Mapping[Shard, Location] | None]] = {}
        faults = []
        for writer, keys in rounds.items():
            directories = [cached[key, files[key].tag] for key in keys[:2]]
            hidden = all(isinstance(directory, DamagedStateError) for directory in directories)
            writers[writer] = []
            for key, directory in zip(keys, directories, strict=False):
                modified = files[key].modified
                if isinstance(directory, DamagedStateError):
                    problem = f"{directory.what}: {directory.problem}"
                    faults.append(Fault(problem, modified, writer, key == keys[0], hidden))
                    writers[writer].append(None)
                    continue
                # Of equal locations, the first is retained: that of the newest round.
                locations = _locations(key, directory, modified)
                all_locations += locations.values()
                writers[writer].append(locations)
        return Listing(_newest_first(all_locations), writers, files, faults)

    def _directory(
        self, key: str, file: StoredFile
    ) -> Directory | LaterDirectory | DamagedStateError | None:
        """The directory of a round, or the damage to it; None if it has been removed."""
        path = self._storage.path_of(key)
        start = max(0, file.size - _DIRECTORY)
        try:
            # A file of no bytes has no range.
            tail = self._storage.get_range(key, start, file.size - start) if file.size else b""
            position = directory_position(path, tail)
            if position < start:
                start = position
                tail = self._storage.get_range(key, start, file.size - start)
            return directory_in(path, key, tail, start)
        except DamagedStateError as error:
            return error
        except FileNotFoundError:
            return None

    def shards(self) -> list[Shard]:
        """The shards with checkpoints, sorted."""
        return [*self.listing().shards]

    def last(self, topics: Collection[str] = ()) -> Header | None:
        """The header of the checkpoint written last; of these topics, or of all if empty."""
        headers = [
            header
            for shard, header in self.headers().items()
            if header is not None and (not topics or shard.topic in topics)
        ]
        return max(headers, key=lambda header: header.written_at, default=None)

    def headers(self) -> dict[Shard, Header | None]:
        """The newest header of each shard, without a check of its parts.

        It is None if no header is readable, or if its version is unknown to this release.
        """
        shards = self.listing().shards
        headers = self.gather(self._header, shards.values(), _FILES_AT_ONCE)
        return dict(zip(shards, headers, strict=True))

    def _header(self, locations: Sequence[Location]) -> Header | None:
        for location in locations:
            try:
                return self._content(location, with_parts=False)[0]
            except StateVersionError:
                return None
            except (DamagedStateError, FileNotFoundError):
                continue
        return None

    def newest(self, shard: Shard, listing: Listing | None = None) -> NewestCheckpoint:
        """The valid checkpoint with the highest offset, after a check of all its bytes.

        Raises:
            StateVersionError: the version of the newest is unknown to this release.
            StoreError: the store cannot be read.
        """
        for _ in range(_TRIES):
            # Another process may delete a superseded file; then list again.
            listing = listing or self.listing()
            with suppress(FileNotFoundError):
                return self._newest(shard, listing)
            listing = None
        raise StoreError(self.path, "its files vanish while they are read", "try again")

    def _newest(self, shard: Shard, listing: Listing) -> NewestCheckpoint:
        locations = listing.shards.get(shard, ())
        if not locations:
            self._check_identity()
        damaged = listing.damage(shard)
        for location in locations:
            try:
                saved = self.read_valid(location)
            except DamagedStateError as error:
                self._damaged.add(location)
                damaged.append(skip_message(location, error))
            else:
                # Its writer may have been killed before it was durable.
                self._storage.sync(location.key.rpartition("/")[0])
                return NewestCheckpoint(saved=saved, damaged=damaged)
        return NewestCheckpoint(saved=None, damaged=damaged)

    def read_valid(
        self, location: Location, needs: Callable[[Entry], bool] = lambda _: True
    ) -> SavedCheckpoint:
        """`read`, but a file that is still listed and cannot be found counts as damaged."""
        try:
            return self.read(location, needs)
        except FileNotFoundError as error:
            if location not in self.listing().shards.get(location.shard, ()):
                raise
            raise damaged(error.filename, "it is missing") from error

    def read(
        self, location: Location, needs: Callable[[Entry], bool] = lambda _: True
    ) -> SavedCheckpoint:
        """A checkpoint, after a check of its header, its table and the parts that are needed.

        `needs`: returns True for a part that will be read; no other part may be read then.

        Raises:
            DamagedStateError: it is not as written.
            FileNotFoundError: it was superseded after the listing; list again.
            StateVersionError: its version is unknown to this release.
            StoreError: the store cannot be read.
        """
        # A request costs more than the bytes of parts that are not needed.
        header, entries, start, data = self._content(location, with_parts=self._storage.remote)
        in_file: list[Entry] = []
        elsewhere: dict[str, list[Entry]] = {}
        for entry in filter(needs, entries):
            inside = start <= entry.start <= start + len(data) - entry.size
            if entry.key == location.key and inside:
                in_file.append(entry)
            else:
                elsewhere.setdefault(entry.key, []).append(entry)
        parts = self._cut(in_file, data, start)
        for of_file in self.gather(self._parts, elsewhere.values(), _FILES_AT_ONCE):
            parts |= of_file
        path = self._storage.path_of(location.key)
        if self._storage.remote:
            return SavedCheckpoint(path, header, entries, lambda entry: parts[entry.name])

        def read_again(entry: Entry) -> bytes:
            try:
                return self._parts([entry])[entry.name]
            except FileNotFoundError as error:
                problem = f"the file of part {entry.name!r} is missing"
                raise damaged(error.filename, problem) from error

        # Local parts are read again instead of staying in memory.
        return SavedCheckpoint(path, header, entries, read_again)

    def _content(
        self, location: Location, *, with_parts: bool
    ) -> tuple[Header, Sequence[Entry], int, bytes]:
        """Header and table of a checkpoint; bytes of its file that were read, and their position.

        `with_parts`: whether to read the parts that were written with it, too.
        """
        key, region = location.key, location.region
        path = self._storage.path_of(key)
        if not location.writer:
            raise earlier_version(path, self._storage.get(key))
        if region is None or location.settings is None:
            number, release = location.version
            raise unknown_version(path, number, VERSION, f"release {release}")
        size = region.size if with_parts else region.record
        start = region.start + region.size - size
        data = self._storage.get_range(key, start, size)
        record = data[size - region.record :]
        content = record_content(path, location.writer, region, location.settings, record)
        return *content, start, data

    def _parts(self, entries: Sequence[Entry]) -> dict[str, bytes]:
        """Read and check parts that are in the same file."""
        begin = min(entry.start for entry in entries)
        size = max(entry.start + entry.size for entry in entries) - begin
        data = self._storage.get_range(entries[0].key, begin, size) if size else b""
        return self._cut(entries, data, begin)

    def _cut(self, entries: Sequence[Entry], data: bytes, begin: int) -> dict[str, bytes]:
        """Check parts and cut them out of `data`, the bytes of their file from `begin` on."""
        parts = {}
        for entry in entries:
            part = data[entry.start - begin : entry.start - begin + entry.size]
            if len(part) != entry.size or digest_of(part) != entry.digest:
                problem = f"part {entry.name!r} is not what was written"
                raise damaged(self._storage.path_of(entry.key), problem)
            parts[entry.name] = part
        return parts

    @property
    def retained(self) -> Collection[Shard]:
        """The shards that this process has saved, so that unchanged parts need no content."""
        return self._writer.retained.keys()

    def save(
        self,
        drafts: Sequence[CheckpointDraft],
        owned: Collection[Shard] | None = None,
        enough: Callable[[], bool] = lambda: False,
    ) -> frozenset[Shard]:
        """Write a round: checkpoints and the list of all shards of this process, as one file.

        It is written atomically and durably. Then superseded files are removed: those that neither
        this round nor the one before needs, and now and then those of processes that have ended.

        Args:
            drafts: the checkpoints; a round without any shows that this process is running.
            owned: the shards of this process, those of the drafts among them; None for all that it
                has. Another shard is retained until another process has saved it twice.
            enough: returns True if the other drafts must wait; called before each but the first.

        Returns:
            The shards that were saved.

        Raises:
            StoreError: the write failed, or a file with an unchanged part is missing or damaged.
                Checkpoints are as before; a shard that left the directory needs all parts again.
        """
        with self._saving:
            writer = self._writer
            files = writer.files()
            if not files:
                self._check_identity()
            foreign = set() if owned is None else writer.retained.keys() - set(owned)
            superseded: list[str] = []
            dropped: set[Shard] = set()
            if foreign or self._rounds % _SWEEP == 0:
                listing = self.listing()
                superseding: set[str] = set()

                def is_superseded(location: Location) -> bool:
                    # An older checkpoint must remain if a restore skipped this one as damaged.
                    writers = listing.superseded_by(location, self._damaged)
                    superseding.update(writers)
                    return bool(writers)

                retained = listing.writers.get(writer.name, [None])[0] or {}
                dropped = {
                    shard for shard in foreign & retained.keys() if is_superseded(retained[shard])
                }
                superseded = self._files_of_ended(listing, is_superseded)
                for other in sorted(superseding):
                    # It may have been killed before its only round was durable.
                    self._storage.sync(f"{ROUNDS}/{other}")
            owned_shards = writer.retained.keys() - foreign | {
                draft.header.shard for draft in drafts
            }
            saved, rounds = writer.write(drafts, files, owned_shards, dropped, enough)
            self._rounds += 1
            # The round is durable, so a failed cleanup can wait for the next. Files of other users
            # come last: this one may not be allowed to remove them.
            self.cleanup_failure = None
            if keys := [*rounds, *superseded]:
                try:
                    self._storage.delete(keys)
                except StoreError as error:
                    self.cleanup_failure = str(error)
            return saved

    def _files_of_ended(
        self, listing: Listing, is_superseded: Callable[[Location], bool]
    ) -> list[str]:
        """The files of ended processes of which others have saved all shards since."""
        # By the clock of the storage, which may differ from that of this machine.
        now = max((file.modified for file in listing.files.values()), default=0.0)
        by_writer: dict[str, list[str]] = {}
        for key in listing.files:
            if key.startswith(f"{ROUNDS}/") and (key.endswith(TEMPORARY) or round_of(key)):
                by_writer.setdefault(key.split("/")[1], []).append(key)
        ended = []
        for writer, keys in by_writer.items():
            last = max(listing.files[key].modified for key in keys)
            newest = listing.writers.get(writer, [{}])[0]
            # A release does not remove files that it cannot read.
            if writer == self._writer.name or last >= now - GRACE or newest is None:
                continue
            is_readable = all(at.version[0] <= VERSION for at in newest.values())
            if is_readable and all(map(is_superseded, newest.values())):
                # Newest first: after a crash in between, no directory names the rest.
                ended += sorted(keys, reverse=True)
        return ended

    def archive(self, shard: Shard, listing: Listing | None = None) -> bool:
        """Copy the newest valid checkpoint of a shard to a store of its own, below `aside`.

        A checkpoint of a higher generation replaces it. An interrupted call can be repeated: an
        existing copy is not made again.

        Returns:
            True if there is a copy; a state that is damaged or of a later version has none.
        """
        try:
            saved = self.newest(shard, listing).saved
        except StateVersionError:
            return False
        if saved is None:
            return False
        folder = f"{ARCHIVE}/{digest_of(to_json(saved.header))[:16]}/"
        copied = self._storage.files(folder + ROUNDS)
        if not any(round_of(f"{ROUNDS}/{name}") for name in copied):
            identity = f"{self.identity()}\n".encode()
            self._storage.put_new(folder + IDENTITY_FILE, [identity])
            archive_writer = RoundWriter(self._storage, folder)
            archive_writer.write([saved.draft], {}, {shard}, (), lambda: False)
        return True

    def _check_identity(self) -> None:
        """Refuse a store that was claimed and has been emptied since."""
        if self._claimed:
            self.identity()


def _locations(
    key: str, directory: Directory | LaterDirectory, modified: float
) -> dict[Shard, Location]:
    """The checkpoints in the directory of the round with this key."""
    writer = key.split("/")[1]
    locations = {}
    for region in directory.shards:
        location = Location(
            shard=region.shard,
            generation=region.generation,
            offset=region.offset,
            written_at=region.written_at,
            writer=writer,
            key=key,
            tag="",
            modified=modified,
            version=(directory.version, directory.release),
        )
        if isinstance(directory, Directory) and isinstance(region, Region):
            location = replace(
                location,
                key=round_key(writer, region.round),
                tag=region.digest,
                region=region,
                settings=directory.settings[region.settings],
            )
        locations[region.shard] = location
    return locations


def _newest_first(candidates: Iterable[Location]) -> dict[Shard, list[Location]]:
    """The distinct checkpoints of each shard, the highest first; only of its newest generation."""
    shards: dict[Shard, list[Location]] = {}
    for location in candidates:
        locations = shards.setdefault(location.shard, [])
        if location not in locations:
            locations.append(location)
    for shard, locations in shards.items():
        newest = max(location.generation for location in locations)
        shards[shard] = sorted(
            (location for location in locations if location.generation == newest),
            key=lambda location: location.order,
            reverse=True,
        )
    return {shard: shards[shard] for shard in sorted(shards)}


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
    """True if a path has a store.

    Raises:
        MissingExtraError: it is the URL of a bucket, and the extra is not installed.
        StoreError: it cannot be read.
    """
    if is_url(path) and path.partition(":")[0] not in SCHEMES:
        return False
    return store_of(path, options).exists()


def map_concurrently(limit: int, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Call a function for each item, at most `limit` at a time; results keep the order."""
    arguments = list(items)
    if limit == 1 or len(arguments) < 2:
        return [read(argument) for argument in arguments]
    with ThreadPoolExecutor(min(limit, len(arguments)), "object-storage") as pool:
        return list(pool.map(read, arguments))
