"""What the checkpointer needs of its surroundings, and the log events it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from streameval.engine.dead_letters import DeadLetter, Identity
from streameval.engine.partition import Progress
from streameval.engine.snapshot import Counted, CountedKey
from streameval.events.records import Partition, RecordBatch
from streameval.windows.sections import Section

Totals: TypeAlias = Mapping[CountedKey, Counted]
"""Numerator and denominator of every additive metric, by family, labels and metric."""

Fold: TypeAlias = Callable[[CountedKey], CountedKey]
"""Maps a key to the key it is counted under: itself where its label values are kept."""


class Clocked(Protocol):
    """What a header says of the state of a partition."""

    @property
    def clock(self) -> int | None:
        """Largest event time so far, microseconds since the epoch; None where unknown."""

    @property
    def position(self) -> int:
        """Grows with every record that is counted."""

    def progress(self) -> Mapping[Partition, Progress]:
        """The progress of each log of the partition."""


class Counts(Protocol):
    """The state of the assigned partitions; `streameval.engine.ingest.Ingest` is one."""

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

    def remove(self, letter: DeadLetter) -> None:
        """Make a dead letter of a record that waits; nothing where it does not."""

    def home(self, partition: Partition) -> Partition:
        """The partition that a log is counted under."""

    def begin(self, partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Start empty, at the given offset of each log of the partition."""

    def restore(
        self, partition: Partition, offsets: Mapping[Partition, int], parts: Mapping[str, bytes]
    ) -> None:
        """Load saved parts and continue at the given offset of each log.

        Raises:
            DamagedStateError: the parts are not what `sections` gave; nothing has changed.
            UnlikeStateError: the parts were made with other settings.
        """

    def drop(self, partition: Partition) -> None:
        """Forget a partition."""

    def sections(self, partition: Partition) -> Sequence[Section]:
        """The state of a partition in sections, sorted by name."""

    def take_letters(self) -> Sequence[DeadLetter]:
        """The invalid records since the last call."""


class Evidence(Protocol):
    """Reads the additive metrics of a partition's state."""

    def totals(self, partition: Partition) -> Callable[[], Totals]:
        """Copy the counts of a partition; the returned function reads the copy, on any thread.

        Only one copy of a partition may be read at a time.
        """

    def leave(self, partition: Partition) -> None:
        """Drop what is cached for a partition."""

    def folding(self, partition: Partition) -> Fold:
        """How the partition folds label values now; the result does not change later."""

    def shown(self) -> Fold:
        """How all partitions together fold: the key that each key is exported under."""


class Clock(Protocol):
    """A source of time; `streameval.daemon.assembly.Clock` is one."""

    @property
    def wall(self) -> Callable[[], float]:
        """Seconds since the epoch, for people."""

    @property
    def monotonic(self) -> Callable[[], float]:
        """Seconds that only grow, for measuring."""

    @property
    def busy(self) -> Callable[[], float]:
        """Seconds that the processor spent on this thread."""


class LogEvent(msgspec.Struct, frozen=True):
    """A line for the log."""

    level: Literal["info", "warning", "error"]
    event: str
    fields: Mapping[str, Any]
