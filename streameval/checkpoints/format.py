"""The content of a checkpoint, the bytes of its file and its names; see docs/reference/state.md.

Reading raises DamagedStateError if bytes are not as written, and StateVersionError for a version
that this release does not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote

import msgspec
from msgspec import Meta

from streameval.accumulator.codec import STATE_VERSION
from streameval.events.errors import (
    DamagedStateError,
    StateVersionError,
    UnownedStoreError,
    damage_as_error,
)

MAGIC: Final = b"streameval checkpoint "
SEAL: Final = 65
"""Bytes of the digest that ends a file of any version: 64 hexadecimal digits and a newline."""
_TAIL: Final = 21 + SEAL
_HEAD: Final = 1 << 14
CLAIM: Final = "store.json"
BLOBS: Final = "blobs"
ARCHIVE: Final = "aside"
TEMPORARY: Final = ".tmp"
# No encoded name is a lone "%", so it can stand for the empty name.
_EMPTY: Final = "%"
_DOTTED: Final = frozenset({".", "..", CLAIM})
_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint")
_FIRST_LINE: Final = re.compile(MAGIC + rb"([0-9]{1,9})")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")
_CLAIM_VERSION: Final = 1

T = TypeVar("T")


Digest: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""blake2b of some bytes, 32 bytes in hexadecimal."""

Size: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]


class Place(NamedTuple):
    """The log that a state belongs to.

    Attributes:
        identity: the id of the topic, which changes when it is deleted and created again.
    """

    topic: str
    identity: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a checkpoint; enough to read the state without a configuration.

    Attributes:
        cluster: id of the Kafka cluster, or its equivalent in other sources.
        offset: the next offset to count.
        counted: offset below which counters have shown the records.
        clock: event time, microseconds since the epoch; None if unknown.
        settings: must be the same to resume: decoding, labels, panes, depth.
        written_at: wall-clock seconds since the epoch; for people only.
        partitions: number of partitions of the topic when this state began; None if unknown.
        schema: what is counted.
        offsets: next offset of each log of a join; `offset` grows with them.
    """

    version: int = STATE_VERSION
    release: str
    cluster: str
    group: str
    place: Place
    offset: Size
    counted: Size
    clock: Annotated[int, Meta(ge=-(2**62), le=2**62)] | None
    settings: Mapping[str, Any]
    written_at: float
    partitions: int | None = None
    schema: Mapping[str, Any] = {}
    offsets: Mapping[str, int] = {}


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The table entry of a part.

    Attributes:
        digest: of its bytes.
        start: its position in the checkpoint file or blob.
        blob: the name of the blob that holds it, a digest; None for the checkpoint file.
    """

    name: str
    size: Size
    digest: Digest
    start: Size
    blob: Digest | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a state, for example one pane of one family.

    Attributes:
        name: unique in its checkpoint: "meta", "labels/past", "labels/60/28333333", ...
        content: yields its canonical bytes in chunks of a few milliseconds; None if the last
            checkpoint has the same content in a blob.
        settled: whether it is unlikely to change, so that it is written to a blob.
    """

    name: str
    content: Callable[[], Iterator[bytes]] | None
    settled: bool = False


class CheckpointDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to write.

    Attributes:
        parts: sorted by name.
        last: the table of the last checkpoint that this process wrote or loaded, whose blobs are
            reused.
    """

    header: Header
    parts: Sequence[Part]
    last: Sequence[Entry] = ()


class CheckpointContent(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a file and its table of parts."""

    header: Header
    entries: Sequence[Entry]


def encode_checkpoint(
    header: Header, contents: Mapping[str, bytes], blobs: Mapping[str, Entry]
) -> tuple[list[bytes], list[Entry]]:
    """The bytes of a checkpoint file, in pieces, and its table of parts.

    `contents`: of the parts in the file. `blobs`: entries of the parts in blobs.
    """
    pieces = [b"%s%d\n%s\n" % (MAGIC, header.version, _json(header))]
    position = len(pieces[0])
    entries: list[Entry] = []
    for name in sorted({*contents, *blobs}):
        entry = blobs.get(name)
        if entry is None:
            entry = entry_of(name, contents[name], position)
            pieces.append(contents[name])
            position += entry.size
        entries.append(entry)
    pieces += (_json(entries) + b"\n", b"%020d " % position)
    return [*pieces, digest_of(*pieces).encode() + b"\n"], entries


def entry_of(name: str, content: bytes, start: int, blob: str | None = None) -> Entry:
    """The table entry of a part that begins at `start`."""
    return Entry(name=name, size=len(content), digest=digest_of(content), start=start, blob=blob)


def checked_content(what: str, data: bytes) -> CheckpointContent:
    """The content of a whole file."""
    version, _ = _opening(what, data)
    return READERS[version](what, data)


def check_content(what: str, data: bytes, place: Place) -> CheckpointContent:
    """Header and table of a checkpoint, after a check of all bytes of the file; reads no blobs.

    `what`: the path of the file.
    """
    if not data.startswith(MAGIC):
        raise DamagedStateError(what, "its first line is not that of a checkpoint")
    if data[-SEAL:] != digest_of(memoryview(data)[:-SEAL]).encode() + b"\n":
        raise DamagedStateError(what, "its bytes do not match the digest at its end")
    content = checked_content(what, data)
    header = content.header
    if (header.place, header.offset) != (place, offset_of(what.rpartition("/")[2])):
        raise DamagedStateError(
            what, f"its header names {header.place} at offset {header.offset:,}"
        )
    return content


def header_of(what: str, read: Callable[[int], bytes]) -> Header:
    """The header of a file, without a check of the rest.

    `read`: size -> at most so many bytes from the beginning of the file.
    """
    size = _HEAD
    while (head := read(size)).count(b"\n") < 2 and len(head) == size:
        size *= 2
    _, header = _opening(what, head)
    with damage_as_error(what):
        return msgspec.convert(header, Header)


def _opening(what: str, data: bytes) -> tuple[int, Mapping[str, Any]]:
    """Version and header of a file; the version must be known."""
    first = data.find(b"\n")
    second = data.find(b"\n", first + 1)
    opening = _FIRST_LINE.fullmatch(data, 0, max(first, 0))
    if opening is None or second <= first:
        raise DamagedStateError(what, "its first line is not that of a checkpoint")
    version = int(opening[1])
    header = _decode(what, data[first + 1 : second], dict[str, Any])
    if version not in READERS:
        raise StateVersionError(what, version, STATE_VERSION, f"release {header.get('release')}")
    return version, header


def _json(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def digest_of(*pieces: bytes | memoryview) -> str:
    """The digest of all pieces together, hexadecimal."""
    digest = blake2b(digest_size=32)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _content(what: str, data: bytes) -> CheckpointContent:
    tail = data[-_TAIL:]
    position = tail[:20]
    if len(tail) < _TAIL or not position.isdigit():
        raise DamagedStateError(what, "the position of its table of parts is missing")
    start = int(position)
    entries = _decode(what, data[start:-_TAIL], list[Entry])
    _check_positions(what, entries, start)
    return CheckpointContent(header=header_of(what, lambda size: data[:size]), entries=entries)


def _check_positions(what: str, entries: Sequence[Entry], end: int) -> None:
    inline = [entry for entry in entries if entry.blob is None]
    inside = all(0 < entry.start <= end - entry.size for entry in inline)
    if not inside or _overlap(entries) or len({entry.name for entry in entries}) < len(entries):
        raise DamagedStateError(what, "its table of parts contradicts itself")


def _overlap(entries: Sequence[Entry]) -> bool:
    """Whether parts share bytes of a file, other than parts that are equal.

    So all of them together are no larger than the files.
    """
    distinct = {(entry.blob or "", entry.start, entry.size) for entry in entries if entry.size}
    return any(
        blob == next_blob and start + size > next_start
        for (blob, start, size), (next_blob, next_start, _) in pairwise(sorted(distinct))
    )


def _decode(what: str, line: bytes, kind: Any) -> Any:
    with damage_as_error(what):
        return msgspec.json.decode(line, type=kind)


READERS: Final[Mapping[int, Callable[[str, bytes], CheckpointContent]]] = {STATE_VERSION: _content}
"""Format version -> reader. A new format adds its reader and keeps the previous one."""


def folder_of(place: Place) -> str:
    """The folder of a place: TOPIC/TOPIC ID/PARTITION."""
    return f"{encode_name(place.topic)}/{encode_name(place.identity)}/{place.number}"


def place_of_folder(folder: str) -> Place | None:
    """The place of a folder; None if it is not a place's folder."""
    if folder.count("/") != 2:
        return None
    topic_part, identity_part, number = folder.split("/")
    topic, identity = decode_name(topic_part), decode_name(identity_part)
    if topic is None or identity is None or not _NUMBER.fullmatch(number):
        return None
    return Place(topic, identity, int(number))


def encode_name(name: str) -> str:
    """A name as one part of a path; `decode_name` is the inverse.

    Example:
        >>> encode_name("shop.events-2"), encode_name("data/day 1.ndjson"), encode_name("..")
        ('shop.events-2', 'data%2Fday%201.ndjson', '%2E%2E')
    """
    if name in _DOTTED:
        return name.replace(".", "%2E")
    return quote(name, safe="", errors="surrogateescape") or _EMPTY


def decode_name(part: str) -> str | None:
    """The name of a part of a path; None if `encode_name` did not make it.

    Example:
        >>> decode_name("data%2Fday%201.ndjson"), decode_name("lost+found")
        ('data/day 1.ndjson', None)
    """
    name = "" if part == _EMPTY else unquote(part, errors="surrogateescape")
    return name if encode_name(name) == part else None


def file_of(offset: int) -> str:
    """The name of the checkpoint of an offset; the highest sorts last.

    Example:
        >>> file_of(4711)
        '00000000000000004711.checkpoint'
    """
    return f"{offset:020d}.checkpoint"


def offset_of(name: str) -> int | None:
    """The offset in a file's name; None if it is not a checkpoint's."""
    match = _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else None


def offsets_in(names: Iterable[str]) -> list[int]:
    """The offsets of the checkpoints among file names, ascending."""
    return sorted(offset for offset in map(offset_of, names) if offset is not None)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The content of store.json."""

    version: int = _CLAIM_VERSION
    cluster: str
    group: str

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def claim_in(path: str, content: bytes) -> Claim:
    """The claim in a file."""
    try:
        said = msgspec.json.decode(content, type=dict[str, object])
        if said.get("version") != _CLAIM_VERSION:
            raise StateVersionError(path, said.get("version"), _CLAIM_VERSION)
        return msgspec.convert(said, Claim)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnownedStoreError(
            path,
            f"it names no cluster and group ({error})",
            "restore it from a copy, or remove it after checking that this is the right store",
        ) from error
