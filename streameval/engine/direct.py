"""The contract of the first stage of a pipeline; and the stage of a stream of whole events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from streameval.decoding.columns import Decoded
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.backfill import Backfill, Extent
from streameval.engine.clock import Clock
from streameval.engine.dead_letters import Identity
from streameval.engine.partition import Layout, PartitionState, Progress, Tally
from streameval.events.records import Partition, RecordBatch
from streameval.windows.family import Family
from streameval.windows.sections import Section


class Applied(Protocol):
    """Outcomes of a batch."""

    @property
    def invalid(self) -> Sequence[tuple[int, InvalidEvent]]:
        """Place and reason of each invalid record."""

    @property
    def tally(self) -> Tally:
        """How many records became what."""


class State(Protocol):
    """What has been counted of one partition, or of several that are counted as one."""

    @property
    def tally(self) -> Tally:
        """Outcomes of its records."""

    @property
    def since(self) -> Mapping[str, int]:
        """`family:statistic` -> clock at which it was first kept; absent where it always was."""

    @property
    def position(self) -> int:
        """Grows with every record that is counted."""

    @property
    def clock(self) -> int | None:
        """Event time up to which events were counted, microseconds; None where unknown."""

    @property
    def time(self) -> Clock:
        """Its clock."""

    @property
    def families(self) -> Mapping[str, Family]:
        """What is kept, by name."""

    def apply(self, batch: RecordBatch, content: Any) -> Applied:
        """Count a batch, and stand behind it.

        Raises:
            SourceError: it begins before the position, so records would count twice.
        """

    @property
    def backpressured(self) -> Sequence[Partition]:
        """Logs that lead so far that no more of them should be read now."""

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these logs."""

    @property
    def unfinished(self) -> bool:
        """Whether complete lists are not counted yet; count them before reading the state."""

    def proceed(self) -> None:
        """Count a part of that: some milliseconds of work."""

    def sections(self) -> list[Section]:
        """Its content in pieces, sorted by name."""

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`.

        Raises:
            DamagedStateError: the parts are not the output of `sections`.
            UnlikeStateError: they were made with other inputs or options.
        """

    def remove(self, record: Identity) -> bool:
        """Forget a record that waits, as if it had never been there; whether it waited."""

    @property
    def backfills(self) -> Sequence[Extent]:
        """Event time of what was taken over from elsewhere."""

    def take_over(self, backfill: Backfill) -> None:
        """Add what was counted elsewhere; positions stay.

        Raises:
            BackfillError: it does not fit; what was added is not to be used.
            UnlikeStateError: it was made with other metrics, inputs or ids; likewise.
            DamagedStateError: a row of it is not what was counted; likewise.
        """

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Go on at these offsets, where a log has lost what lies before them."""

    def progress(self) -> Mapping[Partition, Progress]:
        """How far each log behind it was counted."""


class Front(Protocol):
    """Makes of records what a state counts."""

    @property
    def layout(self) -> Layout:
        """What is kept of each partition."""

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a log is counted."""

    def decode(self, batch: RecordBatch) -> Any:
        """What a state takes besides the batch."""

    def state(self, offsets: Mapping[Partition, int]) -> State:
        """One that has counted nothing; the logs behind it begin at these offsets."""


class Direct:
    """Every record is an event with its outcome; every log is counted for itself."""

    def __init__(self, decoder: BatchDecoder[Decoded], layout: Layout) -> None:
        self.layout = layout
        self._decoder = decoder

    def home(self, partition: Partition) -> Partition:
        """Itself."""
        return partition

    def decode(self, batch: RecordBatch) -> Decoded:
        """The events in it."""
        return self._decoder.decode_many(batch.values)

    def state(self, offsets: Mapping[Partition, int]) -> PartitionState:
        """One that has counted nothing."""
        ((partition, offset),) = offsets.items()
        return PartitionState(self.layout, partition, offset)
