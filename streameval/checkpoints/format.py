"""The content of a checkpoint and the bytes of a round's file; see docs/reference/state.md.

Reading raises DamagedStateError if bytes are not as written, and StateVersionError for a version
that this release does not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

import msgspec
from msgspec import Meta

from streameval.events.errors import RefusedStateError
from streameval.events.saved_states import damage_as_error, damaged, unknown_version

VERSION: Final = 5
"""Version of the format that this release reads and writes."""
FIRST_LINE: Final = b"streameval round %d\n" % VERSION
SEAL: Final = 65
"""Bytes of the digest that ends a file of any version: 64 hexadecimal digits and a newline."""
TAIL: Final = 21 + SEAL
"""Bytes at the end of a file of any version: the position of its table or directory, the seal."""
IDENTITY_FILE: Final = "store.json"
ROUNDS: Final = "rounds"
ARCHIVE: Final = "aside"
TEMPORARY: Final = ".tmp"
# No encoded name is a lone "%", so it can stand for the empty name.
_EMPTY: Final = "%"
_DOTTED: Final = frozenset({".", "..", IDENTITY_FILE})
_ROUND: Final = re.compile(ROUNDS + r"/([0-9a-f]{16})/([0-9]{20})\.round")
_IDENTITY_VERSION: Final = 1


Digest: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""blake2b of some bytes, 32 bytes in hexadecimal."""

Size: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]

Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=2**37)]
"""Wall-clock time, seconds since the epoch: until the year 6325, so that it can be printed."""


class Shard(NamedTuple):
    """The unit of a checkpoint: a partition, or one number of the copartitioned topics of a join.

    Attributes:
        identity: the id of the topic, which changes when it is deleted and created again.
    """

    topic: str
    identity: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class StateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """State that the checkpoints of one process share.

    Attributes:
        cluster: id of the Kafka cluster, or its equivalent in other sources.
        settings: must be the same to resume: decoding, labels, panes, depth.
        schema: families and metrics that are counted.
    """

    release: str
    cluster: str
    group: str
    settings: Mapping[str, Any]
    schema: Mapping[str, Any] = {}


class CheckpointProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a checkpoint in the log of its shard.

    Attributes:
        generation: number of times that the state of this shard has started over; the highest wins.
        offset: the next offset to count; of a join, a number that grows with each record.
        counted: log -> offset below which earlier checkpoints may have been exported, while
            counters do not export this one; empty once they do.
        clock: event time, microseconds since the epoch; None if unknown.
        written_at: wall-clock seconds since the epoch; of equal offsets, the later one wins.
        partitions: number of partitions of the topic when this state began; None if unknown.
        offsets: next offset of each log of a join.
    """

    shard: Shard = msgspec.field(name="place")
    generation: Size = 0
    offset: Size
    counted: Mapping[str, Size] = {}
    clock: Annotated[int, Meta(ge=-(2**62), le=2**62)] | None
    written_at: Seconds
    partitions: int | None = None
    offsets: Mapping[str, int] = {}


class Header(CheckpointProgress, frozen=True, kw_only=True):
    """The header of a checkpoint; enough to read the state without a configuration.

    Attributes:
        state: what it shares with the other checkpoints of its process.
    """

    state: StateSettings


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The table entry of a part.

    Attributes:
        digest: of its bytes.
        start: its position in its file.
        key: of its file, relative to the store.
    """

    name: str
    size: int
    digest: str
    start: int
    key: str


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a state, for example one pane of one family.

    Attributes:
        name: unique in its checkpoint: "meta", "labels/past", "labels/60/28333333", ...
        content: yields its canonical bytes in chunks of a few milliseconds; None if it has not
            changed since this process last saved the shard.
    """

    name: str
    content: Callable[[], Iterator[bytes]] | None


class CheckpointDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to write; `parts`: sorted by name."""

    header: Header
    parts: Sequence[Part]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A part in a record; `round`: number of the round of this writer that has its bytes."""

    name: str
    size: Size
    digest: Digest
    start: Size
    round: Size


class ShardRecord(CheckpointProgress, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint as it is in a round: its header without the settings, and its parts."""

    parts: Sequence[Row]


class LaterRegion(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a shard that every later version will have."""

    shard: Shard = msgspec.field(name="place")
    generation: Size
    offset: Size
    written_at: Seconds


class Region(LaterRegion, frozen=True, kw_only=True):
    """The position of the record of a shard, behind the parts that were written with it.

    Attributes:
        settings: number of its settings in the directory.
        round: number of the round.
        start: position of the first of these parts.
        size: bytes of these parts and the record.
        record: bytes of the record.
        digest: of the record.
    """

    settings: Size
    round: Size
    start: Size
    size: Size
    record: Size
    digest: Digest


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a round: every shard that its writer holds.

    Attributes:
        writer: random name of the process.
        number: of the round, from 0.
    """

    version: int = VERSION
    release: str
    writer: str
    number: Size
    settings: Sequence[StateSettings]
    shards: Sequence[Region] = msgspec.field(name="places")


class LaterDirectory(msgspec.Struct, frozen=True):
    """The fields of a directory that every later version will have."""

    version: int
    release: str
    shards: Sequence[LaterRegion] = msgspec.field(name="places")


def directory_in(what: str, key: str, tail: bytes, start: int) -> Directory | LaterDirectory:
    """The directory of a round.

    Args:
        what: path of the file.
        key: of the file, relative to the store.
        tail: the end of the file, with the whole directory.
        start: position of the tail in the file.
    """
    end, seal = tail[-TAIL:-SEAL], tail[-SEAL:]
    position = directory_position(what, tail)
    line = tail[position - start : -TAIL]
    if position < start or seal != digest_of(line, end).encode() + b"\n":
        raise damaged(what, "its directory does not match the digest at its end")
    with damage_as_error(what):
        later = msgspec.json.decode(line, type=LaterDirectory)
        if later.version != VERSION:
            return later
        directory = msgspec.json.decode(line, type=Directory)
        newest = max((region.round for region in directory.shards), default=0)
        settings = max((region.settings for region in directory.shards), default=-1)
        if (directory.writer, directory.number) != round_of(key) or newest > directory.number:
            raise damaged(what, f"it is round {directory.number} of {directory.writer}")
        if settings >= len(directory.settings):
            raise damaged(what, "its directory contradicts itself")
    return directory


def directory_position(what: str, tail: bytes) -> int:
    """The position of the directory, from the end of the file."""
    position = tail[-TAIL : -SEAL - 1]
    if len(tail) < TAIL or not position.isdigit():
        raise damaged(what, "the position of its directory is missing")
    return int(position)


def end_of_round(directory: Directory, start: int) -> list[bytes]:
    """The bytes of a round from the position `start` on, where its directory begins."""
    pieces = [to_json(directory) + b"\n", b"%020d " % start]
    return [*pieces, digest_of(*pieces).encode() + b"\n"]


def record_of(header: Header, rows: Sequence[Row]) -> bytes:
    """The bytes of a record."""
    return to_json(ShardRecord(**_progress_in(header), parts=rows))


def _progress_in(value: CheckpointProgress) -> dict[str, Any]:
    """The fields of the progress of a checkpoint."""
    return {name: getattr(value, name) for name in CheckpointProgress.__struct_fields__}


def record_content(
    what: str, writer: str, region: Region, settings: StateSettings, record: bytes
) -> tuple[Header, Sequence[Entry]]:
    """Header and table of a checkpoint.

    `what`: path of the file. `record`: its bytes.
    """
    if len(record) != region.record or digest_of(record) != region.digest:
        raise damaged(what, f"the record of {region.shard} is not what was written")
    with damage_as_error(what):
        decoded = msgspec.json.decode(record, type=ShardRecord)
    expected = region.shard, region.generation, region.offset
    if (decoded.shard, decoded.generation, decoded.offset) != expected:
        raise damaged(what, f"a record of it is of {decoded.shard} at {decoded.offset:,}")
    entries = [
        Entry(
            name=row.name,
            size=row.size,
            digest=row.digest,
            start=row.start,
            key=round_key(writer, row.round),
        )
        for row in decoded.parts
    ]
    ahead = any(row.round > region.round for row in decoded.parts)
    if ahead or share_bytes(entries) or len({entry.name for entry in entries}) < len(entries):
        raise damaged(what, f"the record of {region.shard} contradicts itself")
    return Header(state=settings, **_progress_in(decoded)), entries


def share_bytes(entries: Sequence[Entry]) -> bool:
    """True if parts share bytes of a file, other than parts that are equal.

    So all of them together are no larger than the files.
    """
    distinct = {(entry.key, entry.start, entry.size) for entry in entries if entry.size}
    return any(
        key == next_key and start + size > next_start
        for (key, start, size), (next_key, next_start, _) in pairwise(sorted(distinct))
    )


def to_json(value: object) -> bytes:
    """The bytes of a value; equal values have equal bytes."""
    return msgspec.json.encode(value, order="deterministic")


def digest_of(*pieces: bytes | memoryview) -> str:
    """The digest of all pieces together, hexadecimal."""
    digest = blake2b(digest_size=32)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def round_key(writer: str, number: int) -> str:
    """The key of a round; the newest of a writer sorts last.

    Example:
        >>> round_key("0123456789abcdef", 4711)
        'rounds/0123456789abcdef/00000000000000004711.round'
    """
    return f"{ROUNDS}/{writer}/{number:020d}.round"


def round_of(key: str) -> tuple[str, int] | None:
    """Writer and number of a round; None if the key is not a round's."""
    match = _ROUND.fullmatch(key)
    return (match[1], int(match[2])) if match else None


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


class StoreIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of store.json: the cluster and group whose state a store has."""

    version: int = _IDENTITY_VERSION
    cluster: str
    group: str

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def identity_in(path: str, content: bytes) -> StoreIdentity:
    """The identity of a store in the bytes of `store.json`."""
    try:
        decoded = msgspec.json.decode(content, type=dict[str, object])
        if decoded.get("version") != _IDENTITY_VERSION:
            raise unknown_version(path, decoded.get("version"), _IDENTITY_VERSION)
        return msgspec.convert(decoded, StoreIdentity)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"it names no cluster and group ({error})"
        raise RefusedStateError(
            f"{path}: {problem}; restore it from a copy, or remove it after checking that this is "
            "the right store.",
            where=path,
            problem=problem,
        ) from error
