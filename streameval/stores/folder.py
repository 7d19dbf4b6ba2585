"""Checkpoints in a folder that all replicas share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from streameval.durability.checkpoint import Draft, Header, Place
from streameval.durability.skipping import Skip, Stop
from streameval.errors import DamagedStateError, StateVersionError, StoreError
from streameval.stores.aside import move_aside
from streameval.stores.claim import Claim, claim, text_of
from streameval.stores.cleaning import Cleaner
from streameval.stores.disk import Disk, RealDisk
from streameval.stores.layout import Entry
from streameval.stores.naming import BLOBS, CLAIM, SKIPS, decoded, file_of, folder_of, number_of
from streameval.stores.reading import FolderSaved, FoundSaved, light, offsets_in, sound
from streameval.stores.skips import read_skips, read_stops, write_skip, write_stop
from streameval.stores.trouble import told_of
from streameval.stores.writing import ensured, write

_REAL: Final = RealDisk()
_TRIES: Final = 5


class FolderStore:
    """A store on a disk; `durability.store.Store` is its contract, docs/state.md has its bytes.

    One thread at a time may save a place; places are independent.

    Attributes:
        path: the folder.
        trouble: what kept the store from tidying up after the last save; None where nothing did.

    Args:
        path: the folder; made by `claim` where it is not there.
        disk: what reads and writes it.
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
        with told_of(self.path):
            ensured(self.disk, self.path, self.path)
            self._refuse_unclaimed()
            claim(self.disk, self.path, Claim(cluster=cluster, group=group))
        self._claimed = True

    def _refuse_unclaimed(self) -> None:
        """Take no folder whose checkpoints might be of another cluster or group."""
        # Listed first: whoever writes a checkpoint has made the claim before.
        kept = self.places()
        if not kept or CLAIM in self.disk.names(self.path):
            return
        headers = [header for place in kept for header in self._headers(place)]
        owners = {text_of(Claim(cluster=each.cluster, group=each.group)) for each in headers}
        said = f"; its checkpoints say {' or '.join(sorted(owners))}" if owners else ""
        problem = f"there are checkpoints of {len(kept)} partitions, and no {CLAIM} says whose"
        remedy = f"bring {CLAIM} back{said}, or name another folder under [state] path"
        raise StoreError(str(self.path), problem, remedy)

    def places(self) -> list[Place]:
        """See `Store.places`."""
        with told_of(self.path):
            return sorted(place for place in self._places() if self.offsets(place))

    def _places(self) -> Iterator[Place]:
        for topic_part in self._within(self.path):
            for identity_part in self._within(self.path / topic_part):
                topic, identity = decoded(topic_part), decoded(identity_part)
                for number in map(number_of, self._within(self.path / topic_part / identity_part)):
                    if topic is not None and identity is not None and number is not None:
                        yield Place(topic, identity, number)

    def _within(self, folder: Path) -> list[str]:
        """Names in it that are a place's; none where it is not a folder, or has just gone."""
        with suppress(NotADirectoryError, FileNotFoundError):
            return [name for name in self.disk.names(folder) if decoded(name) is not None]
        return []

    def settings(self) -> Mapping[str, Any]:
        """What the state that was written last says of its settings; empty where there is none.

        A quick look: files that are damaged are passed over, nothing is checked as a whole.

        Raises:
            StoreError: the store cannot be read.
        """
        with told_of(self.path):
            headers = [header for place in self._places() for header in self._headers(place)]
        last = max(headers, key=lambda header: header.written_at, default=None)
        return {} if last is None else last.settings

    def _headers(self, place: Place) -> Iterator[Header]:
        folder = folder_of(self.path, place)
        for offset in offsets_in(self.disk, folder)[-1:]:
            with suppress(DamagedStateError, StateVersionError, FileNotFoundError):
                yield light(self.disk, folder / file_of(offset)).header

    def offsets(self, place: Place) -> list[int]:
        """Of all its checkpoints that are there, sound or not, ascending."""
        with told_of(self.path):
            return offsets_in(self.disk, folder_of(self.path, place))

    def checked(self, place: Place, offset: int, seen: set[str] | None = None) -> FolderSaved:
        """One checkpoint, checked as a whole; `seen`: blobs that need no other check, grows.

        Raises:
            StateVersionError: its version is not one that this release reads.
            DamagedStateError: it is not what was written.
            StoreError: it cannot be read.
        """
        with told_of(self.path):
            path = folder_of(self.path, place) / file_of(offset)
            try:
                return sound(self.disk, path, place, seen)
            except FileNotFoundError as error:
                raise DamagedStateError(str(path), "it has gone") from error

    def newest(self, place: Place) -> FoundSaved:
        """See `Store.newest`."""
        with told_of(self.path):
            self._see_claim()
            for _ in range(_TRIES):
                # A file that goes while we look was one too many for somebody: look again.
                with suppress(FileNotFoundError):
                    return self._newest(place)
        folder = folder_of(self.path, place)
        raise StoreError(str(folder), "its files vanish while they are read", "try again")

    def _newest(self, place: Place) -> FoundSaved:
        folder = folder_of(self.path, place)
        passed_over: list[str] = []
        for offset in reversed(offsets_in(self.disk, folder)):
            try:
                saved = sound(self.disk, folder / file_of(offset), place)
            except DamagedStateError as error:
                passed_over.append(
                    f"offset {offset:,} is passed over: {error.what}: {error.problem}"
                )
                continue
            # Whoever wrote it may have been killed before this.
            self.disk.sync_folder(folder)
            self._know(place, saved.entries)
            return FoundSaved(saved=saved, passed_over=passed_over)
        return FoundSaved(saved=None, passed_over=passed_over)

    def save(self, draft: Draft) -> Mapping[str, str]:
        """See `Store.save`."""
        place = draft.header.place
        folder = folder_of(self.path, place)
        with told_of(self.path):
            self._see_claim()
            if place not in self._made:
                ensured(self.disk, folder / BLOBS, self.path)
                self._made.add(place)
            entries = write(self.disk, folder, draft, self._known.get(place, {}))
        self._know(place, entries)
        self._clean(folder, draft)
        return {each.name: each.digest for each in entries}

    def note(self, place: Place, stop: Stop) -> None:
        """See `Store.note`."""
        with told_of(self.path):
            self._see_claim()
            ensured(self.disk, self._skips_of(place), self.path)
            write_stop(self.disk, self._skips_of(place), stop)

    def stops(self, place: Place) -> Sequence[Stop]:
        """Records that could not be counted, passed since or not.

        Raises:
            DamagedStateError: a note of one cannot be read.
            StoreError: the store cannot be read.
        """
        with told_of(self.path):
            return read_stops(self.disk, self._skips_of(place))

    def skip(self, place: Place, skip: Skip) -> bool:
        """Order that a record is skipped, which was noted before; durable when this returns.

        Returns:
            Whether nobody had ordered it before.

        Raises:
            StoreError: it could not be written.
        """
        with told_of(self.path):
            return write_skip(self.disk, self._skips_of(place), skip)

    def skips(self, place: Place) -> Sequence[Skip]:
        """See `Store.skips`."""
        with told_of(self.path):
            return read_skips(self.disk, self._skips_of(place))

    def _skips_of(self, place: Place) -> Path:
        return folder_of(self.path, place) / SKIPS

    def set_aside(self, place: Place) -> None:
        """See `Store.set_aside`."""
        self._known.pop(place, None)
        if offsets := self.offsets(place):
            with told_of(self.path):
                move_aside(self.disk, folder_of(self.path, place), offsets)

    def _know(self, place: Place, entries: Sequence[Entry]) -> None:
        self._known[place] = {each.digest: each.size for each in entries if each.start is None}

    def _clean(self, folder: Path, draft: Draft) -> None:
        """The checkpoint is safe: what cannot be removed now is tried again after the next."""
        self.trouble = None
        try:
            with told_of(self.path):
                self._cleaner.clean(self.path, folder, draft.header)
        except StoreError as error:
            self.trouble = f"older checkpoints stay: {error}"

    def _see_claim(self) -> None:
        if self._claimed:
            try:
                self.disk.size(self.path / CLAIM)
            except FileNotFoundError as error:
                raise StoreError(
                    str(self.path), f"{CLAIM} has gone", "see that the disk is mounted"
                ) from error
