"""The ingest loop: poll, count, save, and now and then publish a picture of it all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from streameval.daemon.assembly import Assembly
from streameval.daemon.clock import Clock
from streameval.daemon.garbage import Garbage
from streameval.daemon.joining import Joining, owner_of
from streameval.daemon.reports import Advice, InvalidRecords, SourceTrouble, tell_news
from streameval.daemon.snapshot_reader import SnapshotReader
from streameval.errors import StreamevalError
from streameval.pipeline.circumstances import Circumstances
from streameval.pipeline.snapshot import ReloadHealth, Snapshot
from streameval.records import Assignment, Owner, Partition, RecordBatch

_LONGEST_WAIT = 0.2
"""Seconds; a signal is noticed within them."""

_STUCK = 60.0
"""Seconds; no batch and no snapshot takes so long."""


class Loop:
    """Counts what a source delivers, on one thread; another one reads copies of what was counted.

    Args:
        parts: what is read, counted and kept.
        publish: handed each snapshot; must be quick.
        clock: where time comes from.
        reload: how the last reload ended; None where there are none.
        reader: takes snapshots; None means a thread of its own.
    """

    def __init__(
        self,
        parts: Assembly,
        publish: Callable[[Snapshot], None],
        clock: Clock,
        reload: Callable[[], ReloadHealth | None],
        reader: Executor | None = None,
    ) -> None:
        thread = reader or ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshots")
        self._reload = reload
        self._parts = parts
        self._publish = publish
        self._clock = clock
        self._reader = SnapshotReader(parts.snapshots, self._published, clock, thread)
        self._invalid = InvalidRecords(clock.monotonic)
        self._trouble, self._advice = SourceTrouble(clock.monotonic), Advice()
        self._joining = Joining(parts, clock.monotonic)
        self._garbage = Garbage(clock.monotonic)
        self._owned: OwnedShare | None = None
        self._ready = False
        self._turned_at = clock.monotonic()

    @property
    def turning(self) -> bool:
        """Whether it has got on with its work lately; may be asked from any thread."""
        return self._clock.monotonic() - self._turned_at < _STUCK

    def run(self, until: Callable[[], bool]) -> None:
        """Read until told to stop; then save, and take one last snapshot.

        What has been polled is counted before it ends. A source that has finished is waited on
        all the same, so that its values can still be looked at. Where it ends by an error, no
        state is saved that was not saved before.

        Raises:
            StreamevalError: the source cannot be read, state must not go on, or too many records
                are invalid; waiting will not help. Or the last checkpoint could not be written.
        """
        try:
            self._owned = OwnedShare(owner_of(self._parts))
            self._parts.source.open(self._owned)
            with self._garbage:
                while not until():
                    self._turn()
            self._ready = False
            self._parts.owner.finish()
        except StreamevalError:
            self._ready = False
            self._parts.owner.abandon()
            raise
        finally:
            self._end()

    def _turn(self) -> None:
        source, owner = self._parts.source, self._parts.owner
        batches = self._poll(min(_LONGEST_WAIT, self._reader.due_in))
        self._ready = self._ready or (source.joined and source.trouble is None)
        for batch in batches:
            owner.apply(batch)
            owner.turn()
            self._show_when_due()
        self._joining.turn()
        owner.turn()
        self._show_when_due()
        self._turned_at = self._clock.monotonic()
        self._garbage.turn(idle=not batches)
        self._tell()

    def _poll(self, seconds: float) -> Sequence[RecordBatch]:
        if self._parts.source.finished:
            self._clock.sleep(seconds)
            return ()
        return self._parts.source.poll(seconds)

    def _show_when_due(self) -> None:
        if self._reader.due_in <= 0:
            self._reader.begin(self._parts.ingest.copied(), self._around())

    def _around(self) -> Circumstances:
        source, owner = self._parts.source, self._parts.owner
        return Circumstances(
            ready=self._ready,
            trouble=source.trouble,
            ends=source.end_offsets(),
            counted=owner.counted,
            checkpoint=owner.health,
            commit_failures=owner.commit_failures,
            dead_lettered=self._parts.dead_lettered,
            recoveries=self._parts.recoveries,
            connection_failures=self._parts.connection_failures,
            reload=self._reload(),
            join=self._joining.health(),
            unread=0 if self._owned is None else self._owned.unread,
        )

    def _published(self, snapshot: Snapshot, around: Circumstances) -> None:
        self._publish(snapshot)
        if around.trouble is None:
            self._advice.observe(snapshot.health.trouble)

    def _tell(self) -> None:
        tell_news(self._parts.owner.take_news())
        self._trouble.observe(self._parts.source.trouble)
        ingest = self._parts.ingest
        self._invalid.observe(ingest.take_invalid(), ingest.tally.invalid)

    def _end(self) -> None:
        self._tell()
        self._reader.finish(self._parts.ingest.copied(), self._around())
        self._invalid.summarize(self._parts.ingest.tally.invalid)
        self._parts.close()


class OwnedShare:
    """An owner that also knows how many partitions of its topics other processes own.

    Args:
        owner: that does the work.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._counts: dict[str, int] = {}
        self._mine: set[Partition] = set()

    @property
    def unread(self) -> int:
        """Partitions that other processes own; 0 where the source has no notion of others."""
        return max(0, sum(self._counts.values()) - len(self._mine)) if self._counts else 0

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Note how many partitions each topic has, and which are ours."""
        found = self._owner.assigned(assignments)
        self._mine |= {each.partition for each in assignments}
        for each in assignments:
            if each.partitions is not None:
                self._counts[each.partition.topic] = each.partitions
        return found

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """These are no longer ours."""
        self._owner.revoked(partitions)
        self._mine.difference_update(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """These are no longer ours."""
        self._owner.lost(partitions)
        self._mine.difference_update(partitions)
