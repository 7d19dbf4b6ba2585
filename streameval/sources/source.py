"""The contract of sources: partitions of numbered records, assigned to an owner."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from streameval.events.records import Assignment, CommitAnswer, Owner, Partition, RecordBatch


class Source(Protocol):
    """Partitions of numbered records.

    A source assigns its partitions to an owner, which returns the start offset of each. It delivers
    every record from there on exactly once and in order. It never decodes and never skips.
    """

    @property
    def name(self) -> str:
        """Name for messages: a topic, a path, "simulator"."""

    @property
    def cluster(self) -> str:
        """Scope of the offsets: the id of a Kafka cluster, "files", "simulator".

        Known once partitions have been assigned.
        """

    @property
    def finished(self) -> bool:
        """Whether no more records can come (the end of files); never true for live sources."""

    def open(self, owner: Owner) -> None:
        """Start; `poll` then assigns partitions to the owner, delivers records, and revokes.

        Raises:
            SourceError: the source cannot be read, and waiting will not help.
        """

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Available records, at most one batch per partition; waits up to `seconds` for the first.

        The result is empty if nothing arrives in time. Temporary trouble (an unreachable broker)
        is reported by `trouble` and not raised.

        Raises:
            SourceError: the source cannot be read, and waiting will not help.
        """

    def pause(self, partitions: Collection[Partition]) -> None:
        """Pause exactly these partitions until the next call.

        Records already requested may still arrive. Sources that cannot pause ignore the call.
        """

    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool = True
    ) -> str | CommitAnswer | None:
        """Commit the counted positions; returns the problem in one sentence, or None once accepted.

        Without `wait` it may return PENDING: ask again after the next `poll`.
        """

    @property
    def joined(self) -> bool:
        """Whether partitions, possibly none, have been assigned at least once."""

    @property
    def ended(self) -> Collection[Partition]:
        """Partitions that have ended: all records were delivered and no more can come (files)."""

    def end_offsets(self) -> Mapping[Partition, int]:
        """Partition -> offset after its last record, as last known; may be empty."""

    @property
    def trouble(self) -> str | None:
        """One sentence while the source cannot be reached, else None."""

    @property
    def budget(self) -> float:
        """Seconds within which revoked partitions should be finished."""

    @property
    def recoveries(self) -> Mapping[str, int]:
        """Number of recoveries from stalled reading, by remedy."""

    @property
    def connection_failures(self) -> Mapping[str, int]:
        """Number of failed connections since `open`, by reason."""

    def close(self) -> None:
        """Close connections and files; may be called twice."""


NO_END: Final = 2**63 - 1
"""`Assignment.end` of a log whose end is unknown before it is reached (files, a pipe)."""

UNHURRIED: Final = 60.0
"""`Source.budget` of sources whose partitions no other process waits for."""

NO_COUNTS: Final[Mapping[str, int]] = MappingProxyType({})
"""`Source.recoveries` and `connection_failures` of sources without connections."""


class Positions:
    """An owner without state: starts at given positions, or else where configured."""

    def __init__(self, positions: Mapping[Partition, int] | None = None) -> None:
        self._positions = dict(positions or {})

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """The start offset of each partition."""
        return {a.partition: self._positions.get(a.partition, a.start) for a in assignments}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""
