"""The content of a checkpoint, and what an operator says of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from streameval.engine.dead_letters import DeadLetter, Identity
from streameval.events.records import Partition

VERSION = 2
"""Of the format; docs/reference/state.md describes it."""


class Place(NamedTuple):
    """The log that a state belongs to.

    Attributes:
        identity: the id of the topic; differs after it is deleted and made again.
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
        counted: counters have shown the records below it.
        clock: largest event time, microseconds since the epoch; None before the first.
        settings: must be the same to resume: decoding, labels, panes, depth.
        written_at: wall-clock seconds since the epoch; for people only.
        partitions: how many the topic had when this state began; None where unknown.
        offsets: of joined logs, log -> its next offset; `offset` grows with them.
    """

    version: int = VERSION
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
        digest: blake2b of 32 bytes over them, hexadecimal.
        start: their position in the checkpoint file, or in the blob.
        blob: the name of the blob that holds them; None where the checkpoint file does.
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
        content: its canonical bytes, in chunks of a few milliseconds each; None where it is the
            same as in the last checkpoint, which has it in a blob.
        settled: whether it is not likely to change; then it becomes a blob.
    """

    name: str
    content: Callable[[], Iterator[bytes]] | None
    settled: bool = False


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to write.

    Attributes:
        parts: sorted by name.
        last: the table of the last checkpoint that this process wrote or loaded; its blobs are
            used again.
    """

    header: Header
    parts: Sequence[Part]
    last: Sequence[Entry] = ()


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a process could not count; it ended there.

    Attributes:
        waiting: whether it had been read before, and failed when the window of its list was over.
    """

    topic: str
    partition: int
    offset: int
    problem: str
    at: float
    waiting: bool = False

    @property
    def record(self) -> Identity:
        """Names the record."""
        return Identity(Partition(self.topic, self.partition), self.offset)


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """The order of an operator to pass a record.

    Attributes:
        letter: the record, where it had been read before and waits in the state.
    """

    stop: Stop
    by: str
    at: float
    letter: DeadLetter | None = None

    @property
    def message(self) -> str:
        """Who, when and why; the message of its dead letter."""
        moment = datetime.fromtimestamp(round(self.at), UTC).isoformat()
        return f"skipped by {self.by} at {moment}; counting it failed ({self.stop.problem})"


class LogEvent(NamedTuple):
    """A line for the log."""

    level: Literal["info", "warning", "error"]
    event: str
    fields: Mapping[str, Any]
