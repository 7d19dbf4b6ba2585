"""The contract of sources: partitions of numbered records, assigned to an owner."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from streameval.events.errors import SourceError
from streameval.events.records import (
    Assignment,
    CommitAnswer,
    Partition,
    PartitionOwner,
    RecordBatch,
)


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a source between two polls; it never changes afterwards.

    Attributes:
        joined: whether partitions, possibly none, have been assigned at least once.
        finished: whether no more records can come (the end of files); never for live sources.
        ended: partitions that have ended: all records were delivered and no more can come (files).
        ends: partition -> offset after its last record, as last known; may be empty.
        problem: one sentence while the source cannot be reached, else None.
        warning: sentences about what was read, or left, that need attention; None without.
        recoveries: number of recoveries from stalled reading, by remedy.
        connection_failures: number of failed connections since `open`, by reason.
    """

    joined: bool
    finished: bool = False
    ended: Collection[Partition] = ()
    ends: Mapping[Partition, int] = {}
    problem: str | None = None
    warning: str | None = None
    recoveries: Mapping[str, int] = {}
    connection_failures: Mapping[str, int] = {}


class LogEnds(Protocol):
    """Queries the ends of logs on a thread of its own.

    Attributes:
        ends: partition -> offset after its last record, as last known.
        answers: True if they are known now.
        failure: the error that has stopped it, else None.
        cluster: id of the cluster; empty before it answers.
    """

    cluster: str
    ends: Mapping[Partition, int]
    answers: bool
    failure: SourceError | None

    def start(self) -> None:
        """Start to query."""

    def stop(self) -> None:
        """Stop to query."""


class Source(Protocol):
    """Partitions of numbered records.

    A source assigns its partitions to an owner, which returns the start offset of each. It delivers
    every record from there on exactly once and in order. It never decodes and never skips.
    """

    @property
    def name(self) -> str:
        """Name for messages: a topic, a path, "simulator"."""
        ...

    @property
    def cluster(self) -> str:
        """Scope of the offsets: the id of a Kafka cluster, "files", "simulator".

        Known once partitions have been assigned.
        """
        ...

    @property
    def budget(self) -> float:
        """Seconds within which revoked partitions should be finished."""
        ...

    @property
    def status(self) -> SourceStatus:
        """The current progress, ends and problem; takes no time."""
        ...

    def open(self, owner: PartitionOwner, /) -> None:
        """Start; `poll` then assigns partitions to the owner, delivers records, and revokes.

        Raises:
            SourceError: the source cannot be read, and waiting will not help.
        """

    def poll(self, seconds: float, /) -> Sequence[RecordBatch]:
        """Available records, at most one batch per partition; waits up to `seconds` for the first.

        The result is empty if nothing arrives in time. A temporary problem (an unreachable broker)
        is reported by `status` and not raised.

        Raises:
            SourceError: the source cannot be read, and waiting will not help.
        """
        ...

    def pause(self, partitions: Collection[Partition], /) -> None:
        """Pause exactly these partitions until the next call.

        Records already requested may still arrive. Sources that cannot pause ignore the call.
        """

    def commit(
        self, positions: Mapping[Partition, int], /, *, wait: bool = True
    ) -> str | CommitAnswer | None:
        """Commit the counted positions; returns the problem in one sentence, or None once accepted.

        Without `wait` it may return PENDING: ask again after the next `poll`.
        """
        ...

    def close(self) -> None:
        """Close connections and files; may be called twice."""


NO_END: Final = 2**63 - 1
"""`Assignment.end` of a log whose end is unknown before it is reached (files, a pipe)."""

UNHURRIED: Final = 60.0
"""`Source.budget` of sources whose partitions no other process waits for."""


class Positions:
    """An owner without state: starts at these positions, or else where configured."""

    def __init__(self, positions: Mapping[Partition, int] | None = None) -> None:
        self._positions = dict(positions or {})

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """The start offset of each partition."""
        return {a.partition: self._positions.get(a.partition, a.start) for a in assignments}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""
