"""The content of a checkpoint, and the notes about records that cannot be counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from streameval.accumulator.codec import STATE_VERSION


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
    offset: int
    counted: int
    clock: int | None
    settings: Mapping[str, Any]
    written_at: float
    partitions: int | None = None
    schema: Mapping[str, Any] = {}
    offsets: Mapping[str, int] = {}


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The table entry of a part.

    Attributes:
        digest: blake2b of its bytes, 32 bytes in hexadecimal.
        start: its position in the checkpoint file or blob.
        blob: the name of the blob that holds it; None for the checkpoint file.
    """

    name: str
    size: int
    digest: str
    start: int
    blob: str | None = None


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


class LogEvent(NamedTuple):
    """A log line."""

    level: Literal["info", "warning", "error"]
    event: str
    fields: Mapping[str, Any]


Log: TypeAlias = Callable[[LogEvent], None]
"""Takes log lines in order, on the polling thread."""
