"""Serves the values of all partitions from the store that replicas share; counts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from streameval.checkpoints.format import StoreIdentity
from streameval.checkpoints.scheduler import ProcessClock
from streameval.checkpoints.store import refuse_foreign
from streameval.config import Config
from streameval.config.store_reader import StoreReader
from streameval.config.tables import StateOptions
from streameval.daemon.assembly import checkpoint_store, snapshots_of
from streameval.daemon.log import Onsets
from streameval.daemon.loop import STALL_SECONDS, SourceProblemLog
from streameval.daemon.site import Site
from streameval.daemon.systemd import Pulse, Supervisor
from streameval.engine.analysis import UnreadPartitions
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.engine.ingest import Ingest, IngestCopy
from streameval.engine.pace import Pace
from streameval.engine.partition import Layout
from streameval.engine.snapshot import Health, StoredPartition
from streameval.events.errors import ConfigError
from streameval.events.records import Partition
from streameval.exporters.page.state import uncovered_partitions
from streameval.sources.kinds import build, log_ends

_LONGEST: Final = 5.0
"""Most seconds between two looks at the store, as long as they take less than half of the time."""

_NAP: Final = 0.2
"""Seconds between two questions whether to stop."""

_STALE: Final = 10
"""Intervals of checkpoints after which records without one are a warning."""


class LongWaits:
    """Tells records that have waited for a checkpoint for long from the first after a quiet time.

    `longest`: seconds. `monotonic`: a clock, seconds.
    """

    def __init__(self, longest: float, monotonic: Callable[[], float]) -> None:
        self._longest, self._monotonic = longest, monotonic
        self._since: dict[tuple[Partition, int | None], float] = {}

    def any_in(self, stored: Sequence[StoredPartition]) -> bool:
        """True if a partition has had uncovered records for so long without a new checkpoint."""
        now, before = self._monotonic(), self._since
        behind = [(entry.log, entry.offset) for entry in stored if entry.lag]
        self._since = {log: before.get(log, now) for log in behind}
        return any(now - since >= self._longest for since in self._since.values())


class StoredReader(Protocol):
    """Reads counts that others have stored, again where they have changed.

    Attributes:
        config: what is shown.
        ingest: the counts.
        problem: why nothing can be read, in a sentence; None if it was.
        store_identity: cluster and group of what is stored; None if unknown.
    """

    config: Config
    ingest: Ingest
    problem: str | None
    store_identity: StoreIdentity | None

    def refresh(self) -> None:
        """Read what has changed; what cannot be read says so."""

    def copied(self) -> IngestCopy:
        """The counts, as one process has them that has counted all of it."""
        ...

    def stored(self, ends: Mapping[Partition, int]) -> tuple[StoredPartition, ...]:
        """Each partition that is stored or should be; `ends`: of each log, as far as known."""
        ...

    def unread(self, stored: Sequence[StoredPartition]) -> UnreadPartitions:
        """Partitions of these that have no values."""
        ...


def state_reader(config: Config, state: StateOptions, progress: Callable[[], None]) -> StoredReader:
    """A reader of the store that the replicas of a group share.

    The values are those of one daemon that has counted each partition up to its newest checkpoint.
    """
    return StoreReader(checkpoint_store(state, progress), config)


class StoreServer:
    """Serves the values that others have stored; the constructor starts to listen.

    It never writes to the store, and never joins a group: Kafka is only asked for the ends of the
    logs, if it answers.

    Args:
        config: of those who wrote the store.
        path: of the store, for messages.
        interval: seconds between two writes of a partition.
        reader: makes the reader; its argument is called for each piece that is read.
        environment: values of ${NAME} in the configuration, usually `os.environ`.

    Raises:
        UsageError: the address is in use.
        ConfigError: the configuration contradicts itself or the environment.
    """

    def __init__(
        self,
        config: Config,
        path: str,
        interval: float,
        reader: Callable[[Callable[[], None]], StoredReader],
        environment: Mapping[str, str],
    ) -> None:
        self._path, self._interval = path, interval
        self._clock = ProcessClock()
        self._supervisor = Supervisor(environment, self._clock.monotonic)
        self._pulse = Pulse(self._clock.monotonic, self._supervisor.alive)
        self._reader = reader(self._pulse.beat)
        self._source = build(config.source, environment, shared=True)
        self._monitor = partial(log_ends, config.source, environment)
        self._ends = self._monitor()
        self._ends_problem: str | None = None
        look = min(self._interval / 2, _LONGEST)
        self._pace = Pace(look, look)
        self._problem_log, self._problems = (
            SourceProblemLog(self._clock.monotonic),
            Onsets("advice"),
        )
        self._waits = LongWaits(_STALE * self._interval, self._clock.monotonic)
        self._site = Site(
            config,
            environment,
            self._clock,
            self._supervisor,
            healthy=lambda: self._pulse.silence < STALL_SECONDS,
            name="streameval-serve",
            counters=False,
        )
        self._capture: tuple[Layout, SnapshotCapture] | None = None

    def run(self, until: Callable[[], bool]) -> None:
        """Read the store again and again until a signal to stop.

        `until`: whether to stop.

        Raises:
            RefusedStateError: the store belongs to another group or cluster.
        """
        with self._site.open(f"reads {self._path}, and counts nothing"):
            if self._ends is not None:
                self._ends.start()
            try:
                while not until():
                    self._look(until)
            finally:
                self._supervisor.stopping()
                if self._ends is not None:
                    self._ends.stop()

    def _look(self, until: Callable[[], bool]) -> None:
        """Read what has changed, publish it, and wait for the next look."""
        began, worked = self._clock.monotonic(), self._clock.busy()
        self._reader.refresh()
        self._refuse_foreign()
        counts, now = self._reader.copied(), self._clock.wall()
        snapshot = self._capture_of(self._reader.ingest.layout).take(counts, now, self._status(now))
        self._site.publish(snapshot)
        self._problem_log.observe(self._reader.problem or self._ends_problem)
        # Once each: a sentence about a damaged checkpoint names each new file.
        self._problems.observe(
            {
                entry.log: {"advice": f"{entry.log}: {entry.problem}."}
                for entry in snapshot.stored
                if entry.problem is not None
            }
        )
        self._pulse.beat()
        self._pace.note(self._clock.busy() - worked)
        while not until() and self._clock.monotonic() < began + self._pace.interval:
            self._clock.sleep(_NAP)
            self._pulse.beat()

    def _refuse_foreign(self) -> None:
        """Refuse a store of another group, or of another cluster once Kafka says its id."""
        store_identity = self._reader.store_identity
        if store_identity is not None:
            cluster = (
                self._ends.cluster if self._ends is not None else ""
            ) or store_identity.cluster
            group = self._reader.config.source.group_of(cluster)
            refuse_foreign(self._path, store_identity, cluster, group)

    def _capture_of(self, layout: Layout) -> SnapshotCapture:
        """Takes snapshots of this layout; numbers them on where it is another one."""
        if self._capture is None or self._capture[0] is not layout:
            began = self._clock.wall() if self._capture is None else self._capture[1].started_at
            capture = snapshots_of(self._reader.config, self._source, layout, began)
            capture.version = 0 if self._capture is None else self._capture[1].version
            self._capture = layout, capture
        return self._capture[1]

    def _status(self, now: float) -> RuntimeStatus:
        ends = self._read_ends()
        stored = self._reader.stored(ends)
        return RuntimeStatus(
            health=Health(
                ready=any(entry.offset is not None for entry in stored),
                trouble=self._worst_problem(stored, now),
                web_config=self._site.web_config,
            ),
            ends=ends,
            counted={},
            unread=self._reader.unread(stored),
            stored=stored,
        )

    def _read_ends(self) -> Mapping[Partition, int]:
        """The ends of the logs, if Kafka answers."""
        self._ends_problem = None
        if self._ends is not None and self._ends.failure is not None:
            # A topic that is missing or was created again, or rights: asked anew.
            self._ends.stop()
            try:
                self._ends = self._monitor()
            except ConfigError as error:
                # The file of a secret is absent while it is replaced: the next look tries again.
                self._ends_problem = f"the ends of the logs are unknown: {error}"
                return {}
            if self._ends is not None:
                self._ends.start()
        return self._ends.ends if self._ends is not None and self._ends.answers else {}

    def _worst_problem(self, stored: Sequence[StoredPartition], now: float) -> str | None:
        """The worst problem with the values, in a sentence; None without any."""
        waits = self._waits.any_in(stored)
        if self._reader.problem is not None:
            is_read = any(entry.offset is not None for entry in stored)
            return (
                f"{self._reader.problem}{' The values are those read before.' if is_read else ''}"
            )
        if not stored:
            return f"{self._path} has nothing of the configured source yet."
        problems = [entry for entry in stored if entry.problem is not None]
        if problems:
            others = f" (and {len(problems) - 1:,} more partitions)" if len(problems) > 1 else ""
            return f"{problems[0].log}{others}: {problems[0].problem}."
        if self._ends_problem is not None:
            return self._ends_problem
        return uncovered_partitions(stored, now) if waits else None
