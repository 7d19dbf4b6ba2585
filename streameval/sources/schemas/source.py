"""A source that holds records back until their schemas are known."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from streameval.decoding.framing import HEADER, Encoding
from streameval.events.records import Assignment, Owner, Partition, RecordBatch
from streameval.sources.schemas.loading import Schemas
from streameval.sources.source import Pausable, Source

_NAMED: Final = 5
"""Partitions that a sentence lists."""

_BUDGET: Final = 60.0


class SchemaSource:
    """Holds records back until their schemas have been fetched; delivers all others as they come.

    While the registry does not answer, the partitions whose next record needs it are paused: no
    record is lost, and none is invalid for it.

    Attributes:
        budget: seconds within which revoked partitions should be finished.
        recoveries: what the watchdog of the source did.
    """

    def __init__(self, source: Source, schemas: Schemas, encodings: Mapping[str, Encoding]) -> None:
        self._source = source
        self._schemas = schemas
        self._encodings = encodings
        self._held: dict[Partition, deque[RecordBatch]] = {}
        self._asked: frozenset[Partition] = frozenset()
        self._paused: frozenset[Partition] = frozenset()
        self.name = source.name
        self.budget: float = getattr(source, "budget", _BUDGET)
        self.recoveries: Mapping[str, int] = getattr(source, "recoveries", {})

    @property
    def cluster(self) -> str:
        """See `Source.cluster`."""
        return self._source.cluster

    @property
    def finished(self) -> bool:
        """See `Source.finished`."""
        return self._source.finished and not self._held

    @property
    def joined(self) -> bool:
        """See `Source.joined`."""
        return self._source.joined

    @property
    def ended(self) -> Collection[Partition]:
        """See `Source.ended`."""
        return [each for each in self._source.ended if each not in self._held]

    @property
    def connection_failures(self) -> Mapping[str, int]:
        """How often the source could not be reached, by reason."""
        found: Mapping[str, int] = getattr(self._source, "connection_failures", {})
        return found

    @property
    def trouble(self) -> str | None:
        """That of the source; else that the registry never answered, or why records wait for it."""
        why = self._schemas.trouble
        if self._source.trouble is not None or why is None:
            return self._source.trouble
        if not self._held:
            return None if self._schemas.answered else f"{why}; still trying."
        waiting = ", ".join(map(str, sorted(self._held)[:_NAMED]))
        more = f" and {len(self._held) - _NAMED} more" if len(self._held) > _NAMED else ""
        return f"{why}; records of {waiting}{more} wait for it; still trying."

    def open(self, owner: Owner) -> None:
        """See `Source.open`."""
        self._held.clear()
        self._schemas.start()
        self._source.open(_Released(owner, self._held))

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        """See `Source.poll`; a record is among them once its schema is known."""
        # First the source: what it takes away from us meanwhile must not be delivered.
        new = self._source.poll(0.0 if any(map(self._is_ready, self._held)) else seconds)
        found = self._deliverable()
        delivered = {batch.partition for batch in found}
        for batch in new:
            if batch.partition in self._held or batch.partition in delivered:
                self._held.setdefault(batch.partition, deque()).append(batch)
            else:
                found += self._split(batch)
        self._ask()
        return found

    def commit(self, positions: Mapping[Partition, int]) -> str | None:
        """See `Source.commit`."""
        return self._source.commit(positions)

    def end_offsets(self) -> Mapping[Partition, int]:
        """See `Source.end_offsets`."""
        return self._source.end_offsets()

    def pause(self, partitions: Collection[Partition]) -> None:
        """Deliver nothing from these until the next call."""
        self._asked = frozenset(partitions)
        self._pause()

    def close(self) -> None:
        """See `Source.close`."""
        self._source.close()
        self._schemas.close()

    def _is_ready(self, partition: Partition) -> bool:
        """Whether a record that waited can be delivered."""
        return not self._schemas.missing(
            self._encodings[partition.topic], self._held[partition][0].values[:1]
        )

    def _deliverable(self) -> list[RecordBatch]:
        """Of each partition that waits, the first batch as far as its schemas are known."""
        found: list[RecordBatch] = []
        for partition, waiting in list(self._held.items()):
            found += self._split(waiting.popleft())
            if not waiting:
                del self._held[partition]
        return found

    def _split(self, batch: RecordBatch) -> list[RecordBatch]:
        """The part of a batch that can be delivered; the rest waits, before all that follows."""
        encoding = self._encodings.get(batch.partition.topic)
        if encoding is None:
            return [batch]
        missing = self._schemas.missing(encoding, batch.values)
        if not missing:
            return [batch]
        headers = {each.header for each in missing}
        place = next(
            place
            for place, value in enumerate(batch.values)
            if value is not None and value[:HEADER] in headers
        )
        rest = batch.piece(place, len(batch.values), batch.next_offset)
        self._held.setdefault(batch.partition, deque()).appendleft(rest)
        return [batch.piece(0, place, batch.offsets[place])] if place else []

    def _ask(self) -> None:
        if not self._held and not self._paused:
            return
        self._schemas.want(
            wanted
            for partition, waiting in self._held.items()
            for wanted in self._schemas.missing(self._encodings[partition.topic], waiting[0].values)
        )
        self._pause()

    def _pause(self) -> None:
        wanted = self._asked.union(self._held)
        if isinstance(self._source, Pausable) and (wanted or self._paused):
            self._source.pause(wanted)
        self._paused = wanted


class _Released:
    """An owner; of a partition that goes, nothing is held back any more."""

    def __init__(self, owner: Owner, held: dict[Partition, deque[RecordBatch]]) -> None:
        self._owner = owner
        self._held = held

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        return self._owner.assigned(assignments)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self._owner.revoked(partitions)
        self._drop(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self._owner.lost(partitions)
        self._drop(partitions)

    def _drop(self, partitions: Sequence[Partition]) -> None:
        for each in partitions:
            self._held.pop(each, None)
