"""Checkpoint drafts whose content is a function of place and offset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import msgpack

from streameval.accumulator.codec import STATE_VERSION
from streameval.checkpoints.format import (
    CheckpointDraft,
    Entry,
    Header,
    Part,
    Place,
    digest_of,
    file_of,
    folder_of,
)
from streameval.checkpoints.storage import Folder
from streameval.checkpoints.store import SavedCheckpoint, Store, folder_store
from streameval.events.errors import StoreError
from tests.crashes.simulated_disk import SimulatedDisk

PLACE = Place("shop.events", "Zq3kTgZrQ1-xbW5uZ2fQ0A", 3)
NOON = 1_750_000_000.0
SPAN = 100
"""Number of offsets with the same content of a settled part."""


def draft(
    offset: int,
    place: Place = PLACE,
    *,
    version: int = STATE_VERSION,
    written_at: float = NOON,
    counted: int | None = None,
    last: Sequence[Entry] = (),
) -> CheckpointDraft:
    """Two settled parts (one changes every hundred offsets, one never) and two others.

    Parts that `last` has in a blob are given without content.
    """
    there = {entry.digest for entry in last if entry.blob is not None}
    parts = [
        part(name, pieces, settled="/" in name, there=there)
        for name, pieces in contents(place, offset).items()
    ]
    made = header(
        place,
        offset,
        version=version,
        counted=offset if counted is None else counted,
        clock=offset * 60_000_000,
        settings={"pane": "1m", "labels": ["variant"]},
        written_at=written_at,
    )
    return CheckpointDraft(header=made, parts=parts, last=last)


def header(place: Place, offset: int, **more: Any) -> Header:
    """The header of a checkpoint that covers every record before its offset."""
    usual: dict[str, Any] = {
        "release": "0.1.0",
        "cluster": "c1",
        "group": "g1",
        "counted": offset,
        "clock": None,
        "settings": {},
        "written_at": NOON,
    }
    return Header(place=place, offset=offset, **(usual | more))


def contents(place: Place, offset: int) -> Mapping[str, Sequence[bytes]]:
    """Name -> pieces of each part, sorted by name."""
    return {
        "empty": [],
        "labels/1": [b"one %s" % str(place).encode(), b" and the same"],
        "labels/2": [b"two", b"\n\0\xff" * 50, b"%d" % (offset // SPAN)],
        "meta": [b"\x81", msgpack.encode("offset"), msgpack.encode(offset)],
    }


def part(
    name: str, pieces: Iterable[bytes], *, settled: bool = False, there: Collection[str] = ()
) -> Part:
    """A part of these bytes, or without content if it is settled and its digest is stored."""
    content = b"".join(pieces)
    if settled and digest_of(content) in there:
        return Part(name=name, content=None, settled=True)
    return Part(name=name, content=lambda: iter([content]), settled=settled)


class Writer:
    """A process that saves drafts, each with the table of the previous one.

    Attributes:
        last: the table of its last checkpoint.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.last: Sequence[Entry] = ()

    def save(self, offset: int, **more: Any) -> None:
        """Save a draft; after a failure the next draft has all content."""
        try:
            self.last = self.store.save(draft(offset, last=self.last, **more))
        except StoreError:
            self.last = ()
            raise


def whole(saved: SavedCheckpoint | None, place: Place = PLACE) -> int:
    """The offset of a checkpoint, after a check that every part is as saved."""
    assert saved is not None
    offset = saved.header.offset
    wanted = {name: b"".join(pieces) for name, pieces in contents(place, offset).items()}
    assert {name: saved.read(name) for name in saved.digests} == wanted
    return offset


def read_at(store: Store, offset: int, place: Place = PLACE) -> SavedCheckpoint:
    """The checkpoint of a place at this offset."""
    (location,) = (at for at in store.listing().places[place] if at.offset == offset)
    return store.read(location)


STORE = Path("/disk/state")
FOLDER = STORE / folder_of(PLACE)


def opened(disk: SimulatedDisk) -> Store:
    """The store on a disk, as a new process has it."""
    store = folder_store(STORE, disk)
    store.claim("c1", "g1")
    return store


def restored(disk: SimulatedDisk) -> int | None:
    """The offset that a new process restores, with all parts intact; None without a checkpoint."""
    newest = opened(disk).newest(PLACE)
    assert not newest.damaged, newest.damaged
    return None if newest.saved is None else whole(newest.saved)


class MemoryStore(Store):
    def __init__(self) -> None:
        self.disk = SimulatedDisk(STORE.parent)
        super().__init__(Folder(STORE, self.disk))

    def lose(self, place: Place, offset: int) -> None:
        self.disk.remove(STORE / folder_of(place) / file_of(offset))
