"""Snapshots beside the loop: it copies what was counted, and another thread reads the copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager

from streameval.daemon.clock import Clock
from streameval.pipeline.circumstances import Circumstances
from streameval.pipeline.ingest import IngestCopy
from streameval.pipeline.snapshot import Snapshot
from streameval.pipeline.snapshots import Snapshots

_SHORTEST = 1.0
_COST_MULTIPLE = 20.0


class Pace:
    """When something costly is due again: at most once a second, for at most 5 % of the time.

    The cheaper of the last two times counts: one that was slow by chance, or the first after a
    restart that reads everything, does not delay the next.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = clock()
        self._before = 0.0

    @property
    def remaining(self) -> float:
        """Seconds until it is due; 0 when it is."""
        return max(0.0, self._next - self._clock())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Around doing it; the next one is due max(1 s, 20 x the cost) after its start."""
        start = self._clock()
        yield
        cost = self._clock() - start
        self._next = start + max(_SHORTEST, _COST_MULTIPLE * min(cost, self._before))
        self._before = cost


class SnapshotReader:
    """Takes snapshots on a thread of its own, one at a time.

    Args:
        snapshots: takes them.
        publish: handed each with what it was taken of, on that thread; must be quick.
        clock: where time comes from.
        thread: runs one after the other; shut down at the end.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        publish: Callable[[Snapshot, Circumstances], None],
        clock: Clock,
        thread: Executor,
    ) -> None:
        self._snapshots = snapshots
        self._publish = publish
        self._clock = clock
        self._pace = Pace(clock.monotonic)
        self._thread = thread
        self._taking: Future[None] | None = None

    @property
    def due_in(self) -> float:
        """Seconds until the next one should begin; infinite while one is being taken.

        Raises:
            StreamevalError: the last one failed.
        """
        if self._taking is not None:
            if not self._taking.done():
                return float("inf")
            self._taking.result()
            self._taking = None
        return self._pace.remaining

    def begin(self, counts: IngestCopy, around: Circumstances) -> None:
        """Take one of these counts, beside everything else."""
        self._taking = self._thread.submit(self._take, counts, around)

    def finish(self, counts: IngestCopy, around: Circumstances) -> None:
        """Take the last one, and wait for it."""
        self.begin(counts, around)
        self._thread.shutdown()
        if self._taking is not None:
            self._taking.result()

    def _take(self, counts: IngestCopy, around: Circumstances) -> None:
        with self._pace.turn():
            self._publish(self._snapshots.take(counts, self._clock.wall(), around), around)
