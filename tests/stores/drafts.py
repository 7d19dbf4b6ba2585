"""Checkpoint drafts whose content is a function of shard and offset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import msgpack

from streameval.checkpoints.format import (
    ROUNDS,
    VERSION,
    CheckpointDraft,
    Header,
    Part,
    Shard,
    StateSettings,
    digest_of,
    round_key,
    to_json,
)
from streameval.checkpoints.storage import Folder
from streameval.checkpoints.store import SavedCheckpoint, Store, folder_store
from tests.crashes.simulated_disk import SimulatedDisk

SHARD = Shard("shop.events", "Zq3kTgZrQ1-xbW5uZ2fQ0A", 3)
NOON = 1_750_000_000.0
SPAN = 100
"""Number of offsets with the same content of the part "labels/2"."""


def draft(
    offset: int,
    shard: Shard = SHARD,
    *,
    written_at: float = NOON,
    counted: Mapping[str, int] | None = None,
    generation: int = 0,
    unchanged: Collection[str] = (),
) -> CheckpointDraft:
    """Two parts that change seldom (one every hundred offsets, one never) and two others.

    Those that are unchanged are given without content.
    """
    parts = [
        part(name, None if name in unchanged else pieces)
        for name, pieces in contents(shard, offset).items()
    ]
    made = header(
        shard,
        offset,
        generation=generation,
        counted=counted or {},
        clock=offset * 60_000_000,
        settings={"pane": "1m", "labels": ["variant"]},
        written_at=written_at,
    )
    return CheckpointDraft(header=made, parts=parts)


def header(shard: Shard, offset: int, **more: Any) -> Header:
    """The header of a checkpoint that covers every record before its offset."""
    usual: dict[str, Any] = {
        "release": "0.1.0",
        "cluster": "c1",
        "group": "g1",
        "clock": None,
        "settings": {},
        "written_at": NOON,
    }
    return header_of({"shard": shard, "offset": offset} | usual | more)


def header_of(fields: Mapping[str, Any]) -> Header:
    """The header with these fields of its own and of its `state`."""
    shared = StateSettings.__struct_fields__
    state = StateSettings(**{name: fields[name] for name in shared if name in fields})
    own = {name: value for name, value in fields.items() if name not in shared}
    return Header(state=state, **own)


def contents(shard: Shard, offset: int) -> Mapping[str, Sequence[bytes]]:
    """Name -> pieces of each part, sorted by name."""
    return {
        "empty": [],
        "labels/1": [b"one %s" % str(shard).encode(), b" and the same"],
        "labels/2": [b"two", b"\n\0\xff" * 50, b"%d" % (offset // SPAN)],
        "meta": [b"\x81", msgpack.encode("offset"), msgpack.encode(offset)],
    }


def part(name: str, pieces: Iterable[bytes] | None) -> Part:
    """A part of these bytes, or without content."""
    return Part(name=name, content=None if pieces is None else lambda: iter([*pieces]))


def later_round(offset: int, shard: Shard = SHARD) -> tuple[str, bytes]:
    """Key and bytes of a round of a later version, of which this release knows the end."""
    regions = [{"place": shard, "generation": 0, "offset": offset, "written_at": NOON}]
    start = b"streameval round 5\nother bytes\n"
    line = to_json({"version": VERSION + 1, "release": "9.0", "places": regions, "new": 1}) + b"\n"
    end = line + b"%020d " % len(start)
    return round_key("f" * 16, 7), start + end + digest_of(end).encode() + b"\n"


class Writer:
    """A process that saves drafts, each without the parts that have not changed since the last."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._last: dict[Shard, Mapping[str, Sequence[bytes]]] = {}

    def save(self, offset: int, **more: Any) -> None:
        """Save the usual shard."""
        self.save_all({SHARD: offset}, **more)

    def save_all(
        self,
        offsets: Mapping[Shard, int],
        owned: Collection[Shard] | None = None,
        generation: int = 0,
    ) -> None:
        """Save shards in one round; after a failure their next drafts have all content."""
        new = {shard: contents(shard, offset) for shard, offset in offsets.items()}
        drafts = []
        for shard, offset in offsets.items():
            last = self._last.pop(shard, {}) if shard in self.store.retained else {}
            same = {name for name in last if last[name] == new[shard][name]}
            drafts.append(draft(offset, shard, unchanged=same, generation=generation))
        self.store.save(drafts, owned)
        self._last |= new


def whole(saved: SavedCheckpoint | None, shard: Shard = SHARD) -> int:
    """The offset of a checkpoint, after a check that every part is as saved."""
    assert saved is not None
    offset = saved.header.offset
    expected = {name: b"".join(pieces) for name, pieces in contents(shard, offset).items()}
    assert {name: saved.read(name) for name in saved.digests} == expected
    return offset


STORE = Path("/disk/state")


def opened(disk: SimulatedDisk) -> Store:
    """The store on a disk, as a new process has it."""
    store = folder_store(STORE, disk)
    store.claim("c1", "g1")
    return store


def restored(disk: SimulatedDisk) -> int | None:
    """The offset that a new process restores, with all parts intact; None without a checkpoint."""
    newest = opened(disk).newest(SHARD)
    assert not newest.damaged, newest.damaged
    return None if newest.saved is None else whole(newest.saved)


class MemoryStore(Store):
    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self.disk = disk or SimulatedDisk(STORE.parent)
        super().__init__(Folder(STORE, self.disk))

    def lose_round(self, shard: Shard) -> None:
        """Remove the newest round of the process that saved this shard last."""
        listing = self.listing()
        writer = listing.shards[shard][0].writer
        rounds = [key for key in listing.files if key.startswith(f"{ROUNDS}/{writer}/")]
        self.disk.remove(STORE / max(rounds))

    def offset(self, shard: Shard) -> int | None:
        """The offset of the newest checkpoint of a shard."""
        saved = self.newest(shard).saved
        return None if saved is None else saved.header.offset
