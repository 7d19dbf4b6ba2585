"""Reads checkpoints of format 3, each of which is a file of its own; the next release drops it.

Nothing of it is written, moved or deleted: the release before can go on from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from streameval.checkpoints.format import (
    SEAL,
    TAIL,
    VERSION,
    CheckpointContent,
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
_HEAD: Final = 1 << 14
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


def checked_content(what: str, key: str, data: bytes) -> CheckpointContent:
    """Header and table of a checkpoint, after a check of all bytes of the file; reads no blobs.

    `what`: the path of the file. `key`: of the file, relative to the store.
    """
    if _FIRST_LINE.match(data) is None:
        raise DamagedStateError(what, "its first line is not that of a checkpoint")
    if data[-SEAL:] != digest_of(memoryview(data)[:-SEAL]).encode() + b"\n":
        raise DamagedStateError(what, "its bytes do not match the digest at its end")
    header = header_of(what, lambda size: data[:size])
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
    _check_positions(what, entries, key, end)
    return CheckpointContent(header=header, entries=entries)


def _check_positions(what: str, entries: Sequence[Entry], key: str, end: int) -> None:
    inline = [entry for entry in entries if entry.key == key]
    inside = all(0 < entry.start <= end - entry.size for entry in inline)
    if not inside or share_bytes(entries) or len({entry.name for entry in entries}) < len(entries):
        raise DamagedStateError(what, "its table of parts contradicts itself")


def header_of(what: str, read: Callable[[int], bytes]) -> Header:
    """The header of a file, without a check of the rest.

    `read`: size -> at most so many bytes from the beginning of the file.
    """
    size = _HEAD
    while (head := read(size)).count(b"\n") < 2 and len(head) == size:
        size *= 2
    first = head.find(b"\n")
    second = head.find(b"\n", first + 1)
    opening = _FIRST_LINE.fullmatch(head, 0, max(first, 0))
    if opening is None or second <= first:
        raise DamagedStateError(what, "its first line is not that of a checkpoint")
    with damage_as_error(what):
        header = msgspec.json.decode(head[first + 1 : second], type=dict[str, Any])
        if int(opening[1]) != _VERSION:
            release = f"release {header.get('release')}"
            raise StateVersionError(what, int(opening[1]), VERSION, release)
        return msgspec.convert(header, Header)
