"""Reads checkpoints of format 3, each of which is a file of its own; the next release drops it.

Nothing of it is written, moved or deleted: the release before can go on from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from streameval.checkpoints.format import (
    SEAL,
    TAIL,
    VERSION,
    Digest,
    Entry,
    Header,
    Place,
    Size,
    decode_name,
    digest_of,
    share_bytes,
)
from streameval.events.errors import DamagedStateError, StateVersionError, damage_as_error

BLOBS: Final = "blobs"
_VERSION: Final = 3
_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint")
_FIRST_LINE: Final = re.compile(rb"streameval checkpoint ([0-9]{1,9})")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")


class _DirectoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A part in the table; `blob`: the blob that has it, None for the checkpoint's own file."""

    name: str
    size: Size
    digest: Digest
    start: Size
    blob: Digest | None = None


def place_and_offset(key: str) -> tuple[Place, int] | None:
    """What the key of a checkpoint says; None if it is not a checkpoint's.

    Example:
        >>> place_and_offset("shop.events/Zq3kTgZr/3/00000000000000004711.checkpoint")
        (Place(topic='shop.events', identity='Zq3kTgZr', number=3), 4711)
    """
    if key.count("/") != 3:
        return None
    topic_part, identity_part, number, name = key.split("/")
    topic, identity = decode_name(topic_part), decode_name(identity_part)
    offset = _CHECKPOINT.fullmatch(name)
    if topic is None or identity is None or offset is None or not _NUMBER.fullmatch(number):
        return None
    return Place(topic, identity, int(number)), int(offset[1])


def checked_content(what: str, key: str, data: bytes) -> tuple[Header, Sequence[Entry]]:
    """Header and table of a checkpoint, after a check of all bytes of the file; reads no blobs.

    `what`: the path of the file. `key`: of the file, relative to the store.
    """
    opening, *rest = data.split(b"\n", 2)
    version = _FIRST_LINE.fullmatch(opening)
    if version is None or len(rest) < 2:
        raise DamagedStateError(what, "its first line is not that of a checkpoint")
    if data[-SEAL:] != digest_of(memoryview(data)[:-SEAL]).encode() + b"\n":
        raise DamagedStateError(what, "its bytes do not match the digest at its end")
    with damage_as_error(what):
        said = msgspec.json.decode(rest[0], type=dict[str, Any])
        if int(version[1]) != _VERSION:
            release = f"release {said.get('release')}"
            raise StateVersionError(what, int(version[1]), VERSION, release)
        header = msgspec.convert(said, Header)
    if (header.place, header.offset) != place_and_offset(key):
        raise DamagedStateError(
            what, f"its header names {header.place} at offset {header.offset:,}"
        )
    position = data[-TAIL : -SEAL - 1]
    if not position.isdigit():
        raise DamagedStateError(what, "the position of its table of parts is missing")
    end = int(position)
    with damage_as_error(what):
        rows = msgspec.json.decode(data[end:-TAIL], type=list[_DirectoryRow])
    folder = key.rpartition("/")[0]
    entries = [
        Entry(
            name=row.name,
            size=row.size,
            digest=row.digest,
            start=row.start,
            key=key if row.blob is None else f"{folder}/{BLOBS}/{row.blob}",
        )
        for row in rows
    ]
    inline = [entry for entry in entries if entry.key == key]
    inside = all(0 < entry.start <= end - entry.size for entry in inline)
    if not inside or share_bytes(entries) or len({entry.name for entry in entries}) < len(entries):
        raise DamagedStateError(what, "its table of parts contradicts itself")
    return header, entries
