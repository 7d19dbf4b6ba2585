"""A checkpoint: the state of one partition together with the offset that it covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

VERSION = 2
"""Of the format; docs/state.md describes it."""


class Place(NamedTuple):
    """Which log a state belongs to.

    Attributes:
        topic: its name.
        identity: the id that it got when it was made.
        number: of the partition.
    """

    topic: str
    identity: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint says of itself; everything needed to read it elsewhere.

    Attributes:
        version: of the format.
        release: of streameval that wrote it.
        cluster: id of the Kafka cluster, or what stands for it.
        group: the consumer group.
        place: which log.
        offset: the next offset to be counted.
        counted: records below it were shown in counters by some process; at most `offset`, but
            for a state that was rewound.
        clock: largest event time, microseconds since the epoch; None where there was none.
        settings: what must be the same for the state to go on: decoding, labels, panes, depth.
        schema: what was counted, and how: all that is needed to read the state elsewhere.
        written_at: wall-clock seconds since the epoch; for people only.
        partitions: how many the topic had when this state began; None where unknown.
        offsets: where streams are joined, log -> its next offset; `offset` grows with them.
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


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of a state, for example one pane of one family.

    Attributes:
        name: unique in its checkpoint: "meta", "labels/past", "labels/60/28333333", ...
        content: its canonical bytes, in pieces that each take a few milliseconds at most.
        settled: whether it is the same as in the checkpoint before; worth a file of its own.
        digest: of its bytes, where known already.
    """

    name: str
    content: Callable[[], Iterator[bytes]]
    settled: bool = False
    digest: str | None = None


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to be written.

    Attributes:
        header: what it says of itself.
        parts: sorted by name.
    """

    header: Header
    parts: Sequence[Part]
