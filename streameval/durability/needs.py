"""What the keeper of state needs of those around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from streameval.pipeline.dead_letters import DeadLetter, Identity
from streameval.pipeline.partition import Progress
from streameval.pipeline.snapshot import Counted, CountedKey
from streameval.records import Partition, RecordBatch
from streameval.windows.sections import Section

Totals: TypeAlias = Mapping[CountedKey, Counted]
"""Numerator and denominator of every metric that adds up, by family, labels and metric."""

Fold: TypeAlias = Callable[[CountedKey], CountedKey]
"""Under which key a key is counted; itself where its label values are kept."""


class Clocked(Protocol):
    """The state of a partition, as far as its header says something of it."""

    @property
    def clock(self) -> int | None:
        """Largest event time so far, microseconds since the epoch; None where unknown."""

    @property
    def position(self) -> int:
        """Grows with every record that is counted."""

    def progress(self) -> Mapping[Partition, Progress]:
        """How far each log behind it was counted."""


class Counts(Protocol):
    """What was counted, partition by partition; `streameval.pipeline.ingest.Ingest` is one."""

    @property
    def partitions(self) -> Mapping[Partition, Clocked]:
        """The state of each partition."""

    def apply(self, batch: RecordBatch) -> object:
        """Count the records of a batch, and move its partition's position behind it.

        Raises:
            UncountableRecordError: counting failed by a mistake.
        """

    def skip(self, records: Mapping[Identity, str]) -> None:
        """Make dead letters of these records when they come; with the message of each."""

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a log is counted."""

    def begin(self, partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Start with nothing counted, at the offset of each log that is counted there."""

    def restore(
        self, partition: Partition, offsets: Mapping[Partition, int], parts: Mapping[str, bytes]
    ) -> None:
        """Go on from saved parts, at the offset of each log that is counted there.

        Raises:
            DamagedStateError: they are not what `sections` gave; nothing has changed.
            UnlikeStateError: they were made with other settings.
        """

    def drop(self, partition: Partition) -> None:
        """Forget a partition."""

    def sections(self, partition: Partition) -> Sequence[Section]:
        """Its state in pieces, sorted by name."""

    def take_letters(self) -> Sequence[DeadLetter]:
        """All invalid records since the last call."""


class Evidence(Protocol):
    """Reads what adds up in the state of a partition."""

    def totals(self, partition: Partition) -> Callable[[], Totals]:
        """A quick copy of what a partition counts; what it returns reads it, on any thread.

        No two of one partition may be read at once.
        """

    def leave(self, partition: Partition) -> None:
        """Forget what was kept for reading a partition."""

    def folding(self, partition: Partition) -> Fold:
        """How the partition folds label values now; does not change any more."""

    def shown(self) -> Fold:
        """How all partitions together do: under which key each is exported."""


class Clock(Protocol):
    """Where time comes from; `streameval.daemon.clock.Clock` is one."""

    @property
    def wall(self) -> Callable[[], float]:
        """Seconds since the epoch, for people."""

    @property
    def monotonic(self) -> Callable[[], float]:
        """Seconds that only grow, for measuring."""
