"""Reading: snapshots of the counts, taken on a thread beside the polling loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

from streameval.checkpoints.scheduler import ProcessClock
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.ingest import IngestCopy
from streameval.engine.pace import Pace
from streameval.engine.snapshot import Snapshot

_MIN_INTERVAL, _MAX_INTERVAL = 1.0, 4.0
"""Least and most seconds between snapshots; more where they would take half of the time."""

_MAX_AGE = 9.0
"""Age of a snapshot, seconds, at which the loop gives its time to the next; a second is spare."""

_YIELD = 0.5
"""Most seconds for which the loop gives way between two pieces of a batch."""

_NAP = 0.01


class SnapshotReader:
    """Takes snapshots on another thread, one at a time.

    Counting takes precedence until the last snapshot would become too old; then the loop waits.

    `publish`: receives each snapshot and its status on that thread; must be fast.
    """

    def __init__(
        self,
        snapshots: SnapshotCapture,
        publish: Callable[[Snapshot, RuntimeStatus], None],
        clock: ProcessClock,
        thread: Executor,
    ) -> None:
        self._snapshots = snapshots
        self._publish = publish
        self._clock = clock
        self._pace = Pace(_MIN_INTERVAL, _MAX_INTERVAL)
        self._began = self._next = clock.monotonic()
        self._took = 0.0
        self._thread = thread
        self._taking: Future[None] | None = None

    @property
    def due_in(self) -> float:
        """Seconds until the next snapshot should begin; infinite while one is being taken.

        Raises:
            StreamevalError: the last one failed.
        """
        if self._taking is not None:
            if not self._taking.done():
                return float("inf")
            self._taking.result()
            self._taking = None
        return max(0.0, self._next - self._clock.monotonic())

    def begin(self, counts: IngestCopy, status: RuntimeStatus) -> None:
        """Start a snapshot on the other thread."""
        self._began = self._clock.monotonic()
        self._taking = self._thread.submit(self._take, counts, status)

    def give_way(self) -> None:
        """Wait a little for the snapshot that is being taken if it would otherwise be late."""
        now, patience = self._clock.monotonic(), _MAX_AGE - self._pace.interval - self._took
        if now - self._began > patience:
            until = now + _YIELD
            while self._clock.monotonic() < until and self._taking and not self._taking.done():
                self._clock.sleep(_NAP)

    def finish(self, counts: IngestCopy, status: RuntimeStatus) -> None:
        """Take the last snapshot and wait for it."""
        self.begin(counts, status)
        self._thread.shutdown()
        if self._taking is not None:
            self._taking.result()

    def _take(self, counts: IngestCopy, status: RuntimeStatus) -> None:
        worked = self._clock.busy()
        self._publish(self._snapshots.take(counts, self._clock.wall(), status), status)
        self._pace.note(self._clock.busy() - worked)
        self._took = self._clock.monotonic() - self._began
        self._next = self._began + self._pace.interval
