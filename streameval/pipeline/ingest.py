"""Counts records: the one place where states and positions move, and they move together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from streameval.aggregation.section import Section
from streameval.aggregation.slices import A
from streameval.aggregation.views import Views
from streameval.errors import SourceError
from streameval.pipeline.decode import Decoder
from streameval.pipeline.examples import Examples, InvalidRecord, invalid_record
from streameval.pipeline.invalid import InvalidEvent
from streameval.pipeline.layout import Layout
from streameval.pipeline.letters import DeadLetter, letters_of
from streameval.pipeline.limits import Limits
from streameval.pipeline.partition import PartitionState
from streameval.pipeline.tally import Tally
from streameval.records import Partition, RecordBatch


class Ingest(Generic[A]):
    """Counts batches of records, partition by partition; reads no clock, logs nothing.

    Args:
        decoder: from bytes to events.
        layout: what is kept of each partition.
        keep_letters: whether invalid records are kept for whoever takes them away.
        limits: when so many records are invalid that counting must stop; None: never.

    Attributes:
        layout: what is kept of each partition.
        tally: what became of all records that this object was given.
        views: all partitions as one, for reading; one for each family of the layout.
    """

    def __init__(
        self,
        decoder: Decoder,
        layout: Layout[A],
        *,
        keep_letters: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.layout = layout
        self.tally = Tally()
        self.views = {spec.name: Views(spec) for spec in layout.families}
        self._decoder = decoder
        self._partitions: dict[Partition, PartitionState[A]] = {}
        self._examples = Examples()
        self._keep_letters = keep_letters
        self._limits = limits
        self._letters: list[DeadLetter] = []

    def apply(self, batch: RecordBatch) -> Tally:
        """Count the records of a batch and move its partition's position behind it.

        A partition that was not begun begins with the batch.

        Returns:
            What became of them.

        Raises:
            SourceError: it begins before that position, so records would count twice.
            TooManyInvalidError: the limits are passed; the batch is counted, and must be given up.
        """
        state = self._partition(batch)
        decoded, tally = state.apply(batch, self._decoder.decode_many(batch.values))
        self.tally.add(tally)
        if decoded.invalid:
            self._examples.add(batch, decoded.invalid)
            if self._keep_letters:
                self._letters.extend(letters_of(batch, decoded.invalid))
        if self._limits is not None:
            self._judge(self._limits, batch, decoded.invalid)
        return tally

    def begin(self, partition: Partition, offset: int) -> None:
        """Start with nothing counted, at this offset."""
        self._hold(partition, PartitionState(self.layout, offset))

    def restore(self, partition: Partition, offset: int, parts: Mapping[str, bytes]) -> None:
        """Go on from what `sections` gave when the position was `offset`.

        Raises:
            DamagedStateError: the parts are not what `sections` gave; nothing has changed.
            UnlikeStateError: they were made with inputs or options that cannot go on.
        """
        state = PartitionState(self.layout, offset)
        state.restore(parts)
        self._hold(partition, state)

    def drop(self, partition: Partition) -> None:
        """Forget a partition: it is somebody else's."""
        self._partitions.pop(partition, None)
        self._share()

    def sections(self, partition: Partition) -> list[Section]:
        """The state of a partition in pieces, sorted by name."""
        return self._partitions[partition].sections()

    @property
    def partitions(self) -> Mapping[Partition, PartitionState[A]]:
        """What has been counted, by partition."""
        return self._partitions

    @property
    def positions(self) -> dict[Partition, int]:
        """The next offset to be counted, by partition."""
        return {partition: state.position for partition, state in self._partitions.items()}

    @property
    def clock(self) -> int | None:
        """Largest event time in any partition, microseconds; windows are read at it."""
        clocks = [state.clock for state in self._partitions.values() if state.clock is not None]
        return max(clocks, default=None)

    def take_invalid(self) -> Sequence[InvalidRecord]:
        """Examples of invalid records since the last call: the first few of each reason."""
        return self._examples.take()

    def take_letters(self) -> list[DeadLetter]:
        """All invalid records since the last call, where they are kept."""
        taken, self._letters = self._letters, []
        return taken

    def _partition(self, batch: RecordBatch) -> PartitionState[A]:
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if batch.partition not in self._partitions:
            self.begin(batch.partition, first)
        state = self._partitions[batch.partition]
        if first < state.position:
            problem = f"record {first} came again, although all before {state.position} are counted"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")
        return state

    @staticmethod
    def _judge(
        limits: Limits, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]
    ) -> None:
        found = limits.observe(len(batch.values), [place for place, _ in invalid])
        if found is not None:
            example = invalid_record(batch, *invalid[-1]) if invalid else "among the first ones"
            raise found.error(example)

    def _hold(self, partition: Partition, state: PartitionState[A]) -> None:
        self._partitions[partition] = state
        self._share()

    def _share(self) -> None:
        states = [state for _, state in sorted(self._partitions.items())]
        for name, view in self.views.items():
            view.families = [state.families[name] for state in states]
