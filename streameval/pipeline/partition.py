"""What has been counted of one partition, and up to where; both move together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.aggregation.family import Family
from streameval.aggregation.lateness import late
from streameval.aggregation.section import Section, next_version
from streameval.aggregation.slices import A
from streameval.errors import DamagedStateError, SourceError
from streameval.pipeline.ahead import too_far_ahead
from streameval.pipeline.decode import Decoded
from streameval.pipeline.invalid import InvalidEvent
from streameval.pipeline.layout import Layout
from streameval.pipeline.memory import PREFIX, Memory
from streameval.pipeline.readable import ALL, PANES
from streameval.pipeline.tally import Tally
from streameval.records import Partition, RecordBatch

META = "meta"
"""Name of the section that holds everything but families and remembered ids."""


class Applied(NamedTuple):
    """What became of a batch.

    Attributes:
        invalid: place, and why the record there is no event; those from the future among them.
        tally: how many records became what.
    """

    invalid: Sequence[tuple[int, InvalidEvent]]
    tally: Tally


class Progress(NamedTuple):
    """How far a log was counted.

    Attributes:
        position: the next offset.
        clock: largest event time so far, microseconds; None where unknown.
    """

    position: int
    clock: int | None


class PartitionState(Generic[A]):
    """The fold of one partition's log up to `position`: a function of its records alone.

    Attributes:
        position: the next offset to be counted.
        clock: largest event time so far, microseconds since the epoch; None where unknown.
        tally: what became of its records.
        families: what is kept, by name.
        since: "family:statistic" -> clock at which it was first kept; those kept always are absent.
    """

    def __init__(self, layout: Layout[A], partition: Partition, position: int) -> None:
        self._partition = partition
        self._layout = layout
        self._version = next_version()
        self._memory = None if layout.dedup is None else Memory(layout.dedup)
        self.position = position
        self.clock: int | None = None
        self.tally = Tally()
        self.families = {spec.name: Family(spec, layout.times) for spec in layout.families}
        self.since: dict[str, int] = {}

    def apply(self, batch: RecordBatch, decoded: Decoded) -> Applied:
        """Count decoded records, and stand behind their batch.

        Raises:
            SourceError: it begins before the position, so records would count twice.
        """
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if first < self.position:
            problem = f"record {first} came again, although all before {self.position} are counted"
            raise SourceError(str(batch.partition), problem, "start again from the beginning")
        if decoded.times is not None and batch.timestamps is not None:
            decoded = too_far_ahead(decoded, batch.timestamps, self._layout.max_ahead)
        tally = Tally(consumed=len(batch.values), tombstones=len(decoded.tombstones))
        counted = self._novel(decoded)
        tally.late = self.count(counted)
        tally.valid = len(counted.places)
        tally.duplicates = len(decoded.places) - tally.valid
        tally.refuse([event for _, event in decoded.invalid])
        self.tally.add(tally)
        self.position = batch.next_offset
        self._version = next_version()
        return Applied(decoded.invalid, tally)

    def note(self, tally: Tally) -> None:
        """Add to what became of records, where another one judges them."""
        self.tally.add(tally)
        self._version = next_version()

    def count(self, decoded: Decoded) -> int:
        """Count events; returns how many were too late for every window."""
        self._version = next_version()
        if not decoded.places:
            return 0
        starts: NDArray[np.int64] | None = None
        too_late = 0
        if decoded.times is not None:
            judged = late(decoded.times, self.clock, self._layout.times)
            starts, self.clock, too_late = judged.starts, judged.clock, judged.late
        for family in self.families.values():
            # First the clock: what is old already then goes to where the old is at once.
            if self.clock is not None:
                family.advance(self.clock)
            family.update(decoded.batch, decoded.dimensions, starts, decoded.times)
        return too_late

    @property
    def crowded(self) -> Sequence[Partition]:
        """None: nothing waits."""
        return ()

    def end(self, partitions: Collection[Partition]) -> None:
        """Nothing waits for the end of its log."""

    def sections(self) -> list[Section]:
        """Its content in pieces, sorted by name; equal content gives equal pieces."""
        found = [Section(META, self._version, self._meta)]
        for family in self.families.values():
            found.extend(family.sections())
        if self._memory is not None:
            found.extend(self._memory.sections())
        return sorted(found, key=lambda section: section.name)

    def skip(self, offsets: Mapping[Partition, int]) -> None:
        """Go on at the offset of its log, where that has lost what lies before."""
        (self.position,) = offsets.values()

    def progress(self) -> Mapping[Partition, Progress]:
        """How far its log was counted."""
        return {self._partition: Progress(self.position, self.clock)}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Take the place of the content by what `sections` gave, with the layout of this one.

        What the layout asks for and the parts do not hold is kept from now on, see `since`.

        Raises:
            DamagedStateError: the parts are not what `sections` gave.
            UnlikeStateError: they were made with inputs or options that cannot go on.
        """
        kept = self._restore_meta(parts)
        now = 0 if self.clock is None else self.clock
        for name, family in self.families.items():
            own = {part: held for part, held in parts.items() if part.startswith(f"{name}/")}
            new = family.restore(own) if own else frozenset((ALL,))
            self.since |= {f"{name}:{each}": now for each in new}
            if own and family.kept > kept.get(name, 0):
                self.since[f"{name}:{PANES}"] = now - kept.get(name, 0)
        if self._memory is not None:
            own = {part: held for part, held in parts.items() if part.startswith(PREFIX)}
            self._memory.restore(own)

    def _novel(self, decoded: Decoded) -> Decoded:
        if self._memory is None or decoded.event_ids is None or decoded.times is None:
            return decoded
        novel = self._memory.novel(decoded.event_ids, decoded.times, self.clock)
        return decoded if novel.all() else decoded.keep(novel)

    def _meta(self) -> Callable[[], Iterator[bytes]]:
        state = {
            "clock": self.clock,
            "kept": {name: self.families[name].kept for name in sorted(self.families)},
            "since": dict(sorted(self.since.items())),
            "tally": self.tally.state_dict(),
        }
        return lambda: iter([msgspec.msgpack.encode(state)])

    def _restore_meta(self, parts: Mapping[str, bytes]) -> dict[str, int]:
        """Returns how far back panes of each family were kept, microseconds."""
        try:
            state: dict[str, Any] = msgspec.msgpack.decode(parts[META])
            self.clock, self.since = state["clock"], state["since"]
            kept: dict[str, int] = state["kept"]
            self.tally = Tally.from_state_dict(state["tally"])
        except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise DamagedStateError(META, f"{type(error).__name__}: {error}") from error
        return kept
