"""The contract of every source: partitions of numbered records, readable from any position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from streameval.records import Partition, RecordBatch


class Source(Protocol):
    """Partitions of numbered records.

    A source is opened at a position per partition, delivers every record at or after it exactly
    once and in order, and is closed. It never decodes, never skips, and never commits.
    """

    @property
    def name(self) -> str:
        """What to call it in a message: a topic, a path, "simulator"."""

    @property
    def finished(self) -> bool:
        """Whether no record can come any more (the end of files); never true of live sources."""

    def open(self, positions: Mapping[Partition, int]) -> None:
        """Start at the given next offsets; partitions not named start where configured.

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

    def end_offsets(self) -> Mapping[Partition, int]:
        """For each partition, the offset after its last record, as last known; may be empty."""

    @property
    def trouble(self) -> str | None:
        """One sentence while the source cannot be reached, else None."""

    def close(self) -> None:
        """Let go of connections and files; may be called twice."""
