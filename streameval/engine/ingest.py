"""Counts batches of records: moves the states and positions of partitions together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from streameval.decoding.columns import Decoded
from streameval.decoding.framing import BatchDecoder
from streameval.decoding.invalid import InvalidEvent
from streameval.engine.backfill import Backfill
from streameval.engine.clock import provisional
from streameval.engine.dead_letters import DeadLetter, Examples, Identity, letters_of
from streameval.engine.limits import Limits
from streameval.engine.partition import Layout, PartitionState, Progress, Tally
from streameval.errors import (
    DamagedStateError,
    StreamevalError,
    TooManyInvalidError,
    UncountableRecordError,
)
from streameval.events.records import Partition, RecordBatch
from streameval.windows.family import FamilyCopy
from streameval.windows.labels import Folding
from streameval.windows.sections import Section

_UNLIKE_OURS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Raised for bytes with a valid digest that are not a state: another program wrote them."""
SKIPPABLE: Final = "Report this, with the record; where state is kept, an operator can skip it"
"""What to do about a record that is known to be at fault."""

AT_ONCE: Final = 1_024
"""Records decoded and counted together: their strings fill no more than a cache of 2 MB."""


class IngestCopy(NamedTuple):
    """What was counted at one moment.

    Attributes:
        since: of each partition: "family:statistic" -> clock at which it was first kept.
        clock: event time at which windows are read, microseconds; None where unknown.
    """

    families: Mapping[str, Sequence[FamilyCopy]]
    since: Sequence[Mapping[str, int]]
    clock: int | None
    tally: Tally
    progress: Mapping[Partition, Progress]


class Front(Protocol):
    """Makes of records what a state counts."""

    @property
    def layout(self) -> Layout:
        """What is kept of each partition."""

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a log is counted."""

    def decode(self, batch: RecordBatch) -> Any:
        """What a state takes besides the batch."""

    def state(self, offsets: Mapping[Partition, int]) -> PartitionState:
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


class Ingest:
    """Counts batches of records, partition by partition; reads no clock, logs nothing.

    `keep_letters`: whether invalid records are kept until they are taken. `in_turns`: whether long
    work is left to `proceed`, a part at a time. `limits`: when so many records are invalid that
    counting must stop; None: never.
    """

    def __init__(
        self,
        front: Front,
        *,
        keep_letters: bool = False,
        in_turns: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.layout = front.layout
        self.tally = Tally()
        self._front = front
        self._partitions: dict[Partition, PartitionState] = {}
        self._examples = Examples()
        self._keep_letters = keep_letters
        self._in_turns = in_turns
        self._limits = limits
        self._letters: list[DeadLetter] = []
        self._skips: dict[Partition, dict[int, str]] = {}

    def skip(self, records: Mapping[Identity, str]) -> None:
        """Count none of these records when they come, but make dead letters of them.

        `records`: with the message of each letter.
        """
        for (partition, offset), message in records.items():
            self._skips.setdefault(partition, {})[offset] = message

    def remove(self, letter: DeadLetter) -> None:
        """Make a dead letter of a record that waits in a join; nothing where it does not."""
        state = self._partitions.get(self._front.home(letter.partition))
        if state is None or not state.remove(letter.identity):
            return
        tally = Tally(consumed=1)
        tally.refuse([InvalidEvent("skipped", letter.message)])
        self.tally.add(tally)
        self._examples.keep(letter)
        if self._keep_letters:
            self._letters.append(letter)

    def apply(self, batch: RecordBatch) -> None:
        """Count the records of a batch and move its partition's position behind it.

        A partition that was not begun begins with the batch.

        Raises:
            SourceError: it begins before that position, so records would count twice.
            TooManyInvalidError: the limits are passed; the batch is counted, and must be given up.
            UncountableRecordError: counting failed by a mistake; what was counted is not to be
                used.
        """
        skips = self._skips.get(batch.partition, {})
        for place, offset in enumerate(batch.offsets) if skips else ():
            if offset in skips:
                if place:
                    self._count(batch.piece(0, place, offset))
                self._pass(batch, place, skips[offset])
                self.apply(batch.piece(place + 1, len(batch.values), batch.next_offset))
                return
        self._count(batch)

    def _pass(self, batch: RecordBatch, place: int, message: str) -> None:
        """Leave a record out, as if its log had a gap there; no state ever knows of it."""
        skipped = [InvalidEvent("skipped", message)]
        tally = Tally(consumed=1)
        tally.refuse(skipped)
        self.tally.add(tally)
        self._set_aside(batch, [(place, skipped[0])])

    def _set_aside(self, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]) -> None:
        self._examples.add(batch, invalid)
        if self._keep_letters:
            self._letters.extend(letters_of(batch, invalid))

    def _count(self, batch: RecordBatch) -> None:
        """Count a batch in pieces: events are counted while the processor's cache has them."""
        for piece in batch.pieces(AT_ONCE):
            self._count_piece(piece)

    def _count_piece(self, batch: RecordBatch) -> None:
        state = self._state(batch)
        try:
            applied = state.apply(batch, self._front.decode(batch))
            self._proceed(state)
        except (StreamevalError, MemoryError):
            raise
        except Exception as error:
            if not batch.offsets:
                raise
            raise self._uncountable(batch, error) from error
        self.tally.add(applied.tally)
        if applied.invalid:
            self._set_aside(batch, applied.invalid)
        if self._limits is not None:
            self._judge(self._limits, batch, applied.invalid)

    @property
    def backpressured(self) -> list[Partition]:
        """Logs that lead so far that no more of them should be read now."""
        return [log for state in self._partitions.values() for log in state.backpressured]

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing more comes in these logs: what waited for that is counted."""
        for home in sorted({self._front.home(each) for each in partitions}):
            if home in self._partitions:
                self._partitions[home].end(partitions)
                self._proceed(self._partitions[home])

    @property
    def unfinished(self) -> bool:
        """Whether something that is complete is left to `proceed`."""
        return any(state.unfinished for state in self._partitions.values())

    def proceed(self) -> None:
        """Count a part of the rest; read a state only after all of it is counted.

        Raises:
            StreamevalError: as `apply`.
        """
        for state in self._partitions.values():
            if state.unfinished:
                state.proceed()
                return

    def home(self, partition: Partition) -> Partition:
        """The partition under whose name a log is counted: itself, but where streams are joined."""
        return self._front.home(partition)

    def begin(self, partition: Partition, offsets: Mapping[Partition, int]) -> None:
        """Start with nothing counted, at the offset of each log that is counted there."""
        self._partitions[partition] = self._front.state(offsets)

    def restore(
        self, partition: Partition, offsets: Mapping[Partition, int], parts: Mapping[str, bytes]
    ) -> None:
        """Continue from the output of `sections`, at the offset of each log that it covers.

        Raises:
            DamagedStateError: the parts are not the output of `sections`; nothing has changed.
            UnlikeStateError: they were made with other inputs or options.
        """
        state = self._front.state(offsets)
        try:
            state.restore(parts)
        except _UNLIKE_OURS as error:
            problem = f"{type(error).__name__}: {error}"
            raise DamagedStateError(str(partition), problem) from error
        state.skip(offsets)
        self._partitions[partition] = state

    def take_over(self, partition: Partition, backfill: Backfill) -> None:
        """Add to a partition what was counted elsewhere; offsets stay.

        Raises:
            BackfillError: it does not fit, or overlaps with one that is there; what was added is
                not to be used.
            UnlikeStateError: it was made with other metrics, inputs or ids; likewise.
            DamagedStateError: a row of it is not what was counted; likewise.
        """
        backfill.check_new(each for state in self._partitions.values() for each in state.backfills)
        self._partitions[partition].take_over(backfill)

    def drop(self, partition: Partition) -> None:
        """Forget a partition: another process has it."""
        self._partitions.pop(partition, None)

    def sections(self, partition: Partition) -> list[Section]:
        """The state of a partition in pieces, sorted by name."""
        return self._partitions[partition].sections()

    @property
    def partitions(self) -> Mapping[Partition, PartitionState]:
        """What has been counted, by partition."""
        return self._partitions

    @property
    def positions(self) -> dict[Partition, int]:
        """The next offset of each log."""
        return {log: each.position for log, each in self.progress.items()}

    @property
    def progress(self) -> dict[Partition, Progress]:
        """How far each log was counted."""
        found: dict[Partition, Progress] = {}
        for state in self._partitions.values():
            found |= state.progress()
        return found

    @property
    def clock(self) -> int | None:
        """Event time so far, microseconds; windows are read at it.

        The largest clock of a partition that is final; where none is, what the few events of all
        partitions say together.
        """
        clocks = [state.time for state in self._partitions.values()]
        final = [clock.now for clock in clocks if clock.is_final]
        few = [time for clock in clocks for time in clock.recent]
        return max(final) if final else provisional(few, self.layout.max_ahead)

    def take_invalid(self) -> Sequence[DeadLetter]:
        """Examples of invalid records since the last call: the first few of each reason."""
        return self._examples.take()

    def copied(self) -> IngestCopy:
        """What was counted, for reading on any thread; takes milliseconds."""
        states = [state for _, state in sorted(self._partitions.items())]
        return IngestCopy(
            families={
                spec.name: [state.families[spec.name].copied() for state in states]
                for spec in self.layout.families
            },
            since=[dict(state.since) for state in states],
            clock=self.clock,
            tally=msgspec.structs.replace(self.tally, invalid=dict(self.tally.invalid)),
            progress=self.progress,
        )

    def folding(self, family: str) -> Folding:
        """Which label values all partitions together keep apart."""
        spec = next(spec for spec in self.layout.families if spec.name == family)
        empty = Folding(spec.folding, len(spec.columns))
        return empty.merged(state.families[family].folding for state in self._partitions.values())

    def take_letters(self) -> list[DeadLetter]:
        """All invalid records since the last call, where they are kept."""
        taken, self._letters = self._letters, []
        return taken

    def _state(self, batch: RecordBatch) -> PartitionState:
        home = self._front.home(batch.partition)
        if home not in self._partitions:
            first = batch.offsets[0] if batch.offsets else batch.next_offset
            self.begin(home, {batch.partition: first})
        return self._partitions[home]

    def _uncountable(self, batch: RecordBatch, error: Exception) -> UncountableRecordError:
        """Which record it is: the last of the fewest first ones that a new state cannot count."""
        counted, failing = 0, len(batch.values)
        first, last = batch.offsets[0], batch.offsets[-1]
        remedy = "Report this, with the records: each alone may be right"
        if not self._can_count(batch):
            while failing - counted > 1:
                middle = (counted + failing) // 2
                if self._can_count(batch.piece(0, middle, batch.offsets[middle])):
                    counted = middle
                else:
                    failing = middle
            first = last = batch.offsets[counted]
            remedy = SKIPPABLE
        topic, number = batch.partition
        return UncountableRecordError(topic, number, (first, last), told(error), remedy)

    def _can_count(self, batch: RecordBatch) -> bool:
        for spec in self.layout.families:
            spec.pending.clear()
        progress = self._partitions[self._front.home(batch.partition)].progress()
        offsets = {log: each.position for log, each in progress.items()}
        state = self._front.state(offsets | {batch.partition: batch.offsets[0]})
        try:
            state.apply(batch, self._front.decode(batch))
            while state.unfinished:
                state.proceed()
        except Exception:  # noqa: BLE001  whatever the first attempt raised
            return False
        return True

    def _proceed(self, state: PartitionState) -> None:
        """Count a part of what is complete, or all of it."""
        if state.unfinished:
            state.proceed()
        while state.unfinished and not self._in_turns:
            state.proceed()

    @staticmethod
    def _judge(
        limits: Limits, batch: RecordBatch, invalid: Sequence[tuple[int, InvalidEvent]]
    ) -> None:
        found = limits.observe(len(batch.values), [place for place, _ in invalid])
        if found is not None:
            example = letters_of(batch, invalid[-1:])[0] if invalid else "among the first ones"
            raise TooManyInvalidError(*found, str(example))


def told(error: Exception) -> str:
    """The error, and where it was raised.

    Example:
        >>> told(KeyError("x"))
        "KeyError: 'x'"
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    at = extract_tb(error.__traceback__)[-1:]
    return "".join([text, *(f", {Path(each.filename).name}:{each.lineno}" for each in at)])
