"""The contract of every source, and its owners: partitions of numbered records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from streameval.events.records import Assignment, Owner, Partition, RecordBatch


class Source(Protocol):
    """Partitions of numbered records.

    A source assigns its partitions to an owner, which says where each begins; delivers every record
    at or after that exactly once and in order; and is closed. It never decodes and never skips.
    """

    @property
    def name(self) -> str:
        """What to call it in a message: a topic, a path, "simulator"."""

    @property
    def cluster(self) -> str:
        """What offsets belong to: the id of a Kafka cluster, "files", "simulator".

        Known from the first time on that partitions are handed over.
        """

    @property
    def finished(self) -> bool:
        """Whether no record can come any more (the end of files); never true of live sources."""

    def open(self, owner: Owner) -> None:
        """Begin; `poll` assigns partitions to the owner, revokes them, and delivers in between.

        Raises:
            SourceError: it cannot be read, and waiting will not help.
        """

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """Records that are there, at most one batch a partition; waits up to `seconds` for one.

        An empty answer means nothing came in time. Trouble that may pass (a broker that is
        away) shows in `trouble` and never raises.

        Raises:
            SourceError: it cannot be read, and waiting will not help.
        """

    def pause(self, partitions: Collection[Partition]) -> None:
        """Deliver nothing from exactly these partitions until the next call.

        What was asked for already may still come. Ignored where all partitions go on together.
        """

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """Tell others how far has been counted; returns the problem in one sentence, or None.

        Correctness never rests on it.
        """

    @property
    def joined(self) -> bool:
        """Whether it has received its partitions at least once, possibly none."""

    @property
    def ended(self) -> Collection[Partition]:
        """Partitions that ended: everything was delivered and nothing more can come (files)."""

    def end_offsets(self) -> Mapping[Partition, int]:
        """For each partition, the offset after its last record, as last known; may be empty."""

    @property
    def trouble(self) -> str | None:
        """One sentence while the source cannot be reached, else None."""

    @property
    def budget(self) -> float:
        """Seconds within which revoked partitions should be finished."""

    @property
    def recoveries(self) -> Mapping[str, int]:
        """How often the source itself mended a reading that stood still, by remedy."""

    @property
    def connection_failures(self) -> Mapping[str, int]:
        """How often the source could not be reached since `open`, by reason."""

    def close(self) -> None:
        """Let go of connections and files; may be called twice."""


NO_END: Final = 2**63 - 1
"""`Assignment.end` of a log whose end nobody knows before it has been read (files, a pipe)."""

UNHURRIED: Final = 60.0
"""`Source.budget` where nobody waits for the partitions."""

NO_COUNTS: Final[Mapping[str, int]] = MappingProxyType({})
"""`Source.recoveries` and `connection_failures` of what is on this machine."""


class Positions:
    """An owner without state: begins at given positions, else where configured."""

    def __init__(self, positions: Mapping[Partition, int] | None = None) -> None:
        self._positions = dict(positions or {})

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Where to begin each."""
        return {a.partition: self._positions.get(a.partition, a.start) for a in assignments}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Nothing to finish."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to forget."""
