"""Owns partitions without keeping anything of them: everything begins where it is configured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streameval.durability.needs import Clock, Counts
from streameval.durability.news import News
from streameval.durability.outbox import Outbox
from streameval.durability.worker import Job, Worker
from streameval.errors import DeadLetterError
from streameval.pipeline.letters import DeadLetters
from streameval.records import Assignment, Partition, RecordBatch


class Stateless:
    """What `Keeper` is without a store: counters follow what is counted, nothing is committed.

    Args:
        counts: what is counted.
        letters: where invalid records go; None where they are counted only.
        clock: where time comes from.
        worker: does what is slow.
        interval: seconds between flushes of dead letters.
    """

    skipped = 0
    counted = None
    health = None
    commit_failures = 0

    def __init__(
        self,
        counts: Counts,
        *,
        letters: DeadLetters | None,
        clock: Clock,
        worker: Worker,
        interval: float = 10.0,
    ) -> None:
        self._counts = counts
        self._outbox = Outbox(letters)
        self._clock = clock
        self._worker = worker
        self._interval = interval
        self._flushed_at = clock.monotonic()
        self._job: Job[None] | None = None
        self._news: list[News] = []

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Begin each with nothing."""
        for each in assignments:
            self._counts.begin(each.partition, each.start)
        return {each.partition: each.start for each in assignments}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        for partition in sorted(partitions):
            self._counts.drop(partition)

    def apply(self, batch: RecordBatch) -> None:
        """Count a batch; its invalid records go their way at once.

        Raises:
            SourceError: it begins before its partition's position.
        """
        self._counts.apply(batch)
        self._outbox.send(self._counts.take_letters())

    def turn(self) -> None:
        """Flush dead letters when that is due; to be called between batches."""
        if self._job is not None and self._job.done():
            self._take(self._job)
        if self._job is None and self._clock.monotonic() - self._flushed_at >= self._interval:
            self._flushed_at = self._clock.monotonic()
            self._job = self._worker.submit(self._outbox.flush)

    def finish(self) -> None:
        """Flush dead letters: the end of the process."""
        if self._job is not None:
            self._take(self._job)
        self._take(self._worker.submit(self._outbox.flush))

    def abandon(self) -> None:
        """The end of the process."""
        self.finish()

    def take_news(self) -> Sequence[News]:
        """What happened since the last call."""
        taken, self._news = self._news, []
        return taken

    def _take(self, job: Job[None]) -> None:
        self._job = None
        try:
            job.result()
        except DeadLetterError as error:
            told = News("warning", "dead letters are not safe yet", {"problem": str(error)})
            self._news.append(told)
