"""What stands in for a keeper where no state is kept: everything is since start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future

from streameval.durability.needs import Clock, Counts, Totals
from streameval.durability.news import News
from streameval.durability.outbox import Outbox
from streameval.errors import DeadLetterError
from streameval.pipeline.dead_letters import DeadLetters
from streameval.pipeline.snapshot import CheckpointHealth
from streameval.records import Assignment, Partition, RecordBatch

INTERVAL = 10.0
"""Seconds between flushes of dead letters."""


class Transient:
    """Owns partitions for as long as the process lives; each begins where the source says.

    Args:
        counts: what is counted.
        letters: where invalid records go; None where they are counted only.
        clock: where time comes from.
        worker: flushes dead letters.
    """

    counted: Totals | None = None
    health: CheckpointHealth | None = None
    commit_failures = 0

    def __init__(
        self, counts: Counts, letters: DeadLetters | None, clock: Clock, worker: Executor
    ) -> None:
        self._counts = counts
        self._outbox = Outbox(letters)
        self._clock = clock
        self._worker = worker
        self._flushed_at = clock.monotonic()
        self._flush: Future[None] | None = None
        self._news: list[News] = []

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Begin each with nothing counted, where it is configured to begin."""
        for each in assignments:
            self._counts.begin(each.partition, {log.partition: log.start for log in each.logs})
        return {log.partition: log.start for each in assignments for log in each.logs}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        for partition in partitions:
            self._counts.drop(partition)

    def apply(self, batch: RecordBatch) -> None:
        """Count a batch; its invalid records go their way at once.

        Raises:
            SourceError: it begins before its partition's position.
        """
        self._counts.apply(batch)
        self._outbox.send(self._counts.take_letters())

    def saved(self, _partition: Partition, _position: int) -> bool:
        """Nothing is saved, so nothing needs to be waited for."""
        return True

    def hasten(self) -> None:
        """Nothing is saved."""

    def turn(self) -> None:
        """Make invalid records safe now and then; to be called between batches."""
        if self._flush is not None and self._flush.done():
            self._take(self._flush)
        due = self._clock.monotonic() - self._flushed_at >= INTERVAL
        if due and self._flush is None:
            self._flushed_at = self._clock.monotonic()
            self._flush = self._worker.submit(self._outbox.flush)

    def finish(self) -> None:
        """Make invalid records safe.

        Raises:
            DeadLetterError: they cannot be.
        """
        self._outbox.flush()

    def abandon(self) -> None:
        """Make invalid records safe, if that is possible."""
        try:
            self._outbox.flush()
        except DeadLetterError:
            return  # whatever ends the process is told instead

    def take_news(self) -> Sequence[News]:
        """What happened since the last call."""
        taken, self._news = self._news, []
        return taken

    def _take(self, flush: Future[None]) -> None:
        self._flush = None
        try:
            flush.result()
        except DeadLetterError as error:
            fields = {"problem": str(error)}
            self._news.append(News("warning", "dead letters are not safe yet", fields))
