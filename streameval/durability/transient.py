"""What stands in for a keeper where no state is kept: everything is since start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streameval.durability.needs import Counts, Totals
from streameval.durability.news import News
from streameval.durability.outbox import Outbox
from streameval.errors import DeadLetterError
from streameval.pipeline.letters import DeadLetters
from streameval.pipeline.snapshot import CheckpointHealth
from streameval.records import Assignment, Partition, RecordBatch


class Transient:
    """Owns partitions for as long as the process lives; each begins where the source says.

    Args:
        counts: what is counted.
        letters: where invalid records go; None where they are counted only.
    """

    counted: Totals | None = None
    health: CheckpointHealth | None = None
    commit_failures = 0

    def __init__(self, counts: Counts, letters: DeadLetters | None) -> None:
        self._counts = counts
        self._outbox = Outbox(letters)

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Begin each with nothing counted, where it is configured to begin."""
        for each in assignments:
            self._counts.begin(each.partition, each.start)
        return {each.partition: each.start for each in assignments}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget them."""
        for partition in partitions:
            self._counts.drop(partition)

    def apply(self, batch: RecordBatch) -> None:
        """Count a batch; its invalid records go their way at once."""
        self._counts.apply(batch)
        self._outbox.send(self._counts.take_letters())

    def turn(self) -> None:
        """Nothing is to be saved."""

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
        """There is none."""
        return ()
