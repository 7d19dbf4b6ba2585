"""One daemon of a simulated group: the real loop, between a simulated disk and broker."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from streameval.checkpoints.checkpointer import Checkpointer
from streameval.checkpoints.format import ROUNDS, Shard, round_of
from streameval.checkpoints.scheduler import ProcessClock
from streameval.checkpoints.settings import CheckpointSettings
from streameval.checkpoints.storage import Folder, Storage
from streameval.checkpoints.store import Store
from streameval.daemon.assembly import Assembly, snapshots_of
from streameval.daemon.loop import Loop
from streameval.daemon.systemd import Pulse, Supervisor
from streameval.engine.dead_letters import Identity
from streameval.engine.evidence import EvidenceReader
from streameval.engine.snapshot import Snapshot
from streameval.events.errors import DeadLetterError, StoreError
from streameval.events.records import CommitAnswer, Partition, PartitionOwner, RecordBatch
from streameval.sources.source import SourceStatus
from tests.crashes.simulated_disk import Crash, SimulatedDisk
from tests.crashes.virtual import Process, Scheduler, VirtualLock, VirtualWorker
from tests.crashes.workload import Workload
from tests.durability.process import DISK, STORE, DeadLetterLog, Inline
from tests.logs.group import Group
from tests.logs.source import LogSource

NOON: Final = 1_800_000_000.0
"""The wall clock at the start, long after all event times."""

_WRITES: Final = frozenset({"create", "write", "sync", "sync_folder", "rename_new", "remove"})
_LOOKS: Final = frozenset({"is_folder", "size", "modified"})
_SNAPSHOT: Final = 0.2
"""Processor time of a snapshot, seconds: then one is taken every four seconds."""


class Replica(Process):
    """A daemon with its own clocks and trouble.

    Attributes:
        is_stopping: whether it was told to end.
        refused: calls of the disk that fail for it, with the number of the error.
        letters_fail: whether dead letters cannot be written.
        stale: age of the listings that it gets, seconds.
        was_stale: whether it has ever got such a listing.
        was_fenced: whether the group has ever taken partitions from it.
        slow: seconds of each sync.
        late: seconds after which a round lands whose write has failed; 0 while writes succeed.
        most: records of a batch.
        last: the last batch that it has polled.
        taken: when it last restored each partition.
    """

    def __init__(
        self, name: str, world: World, *, settings: CheckpointSettings, skew: float
    ) -> None:
        super().__init__(name)
        self.is_stopping = self.letters_fail = self.was_stale = self.was_fenced = False
        self.refused: dict[str, int] = {}
        self.stale = self.slow = self.late = 0.0
        self.most = world.scheduler.random.choice([2, 5, 100])
        self.last: RecordBatch | None = None
        self.taken: dict[Partition, float] = {}
        self._scheduler = world.scheduler
        self._world = world
        self._left = -1
        self.ingest = world.workload.ingest()
        clock = ProcessClock(
            wall=lambda: NOON + skew + world.scheduler.now,
            monotonic=lambda: world.scheduler.now,
            busy=lambda: world.scheduler.spent,
            sleep=world.scheduler.pause,
        )
        self.letters = _DeadLetterLog(self, world.safe)
        self.source = _Source(self, world.group, world.scheduler)
        worker = VirtualWorker(world.scheduler, self)
        self.checkpointer = Checkpointer(
            self.ingest,
            _Store(world.scheduler, _Late(self, world)),
            settings,
            commit=self.source.commit,
            evidence=EvidenceReader(self.ingest),
            dead_letters=self.letters,
            clock=clock,
            worker=worker,
        )
        parts = Assembly(
            config=world.workload.config,
            source=self.source,
            ingest=self.ingest,
            checkpointer=self.checkpointer,
            dead_letters=self.letters,
            snapshots=snapshots_of(
                world.workload.config, self.source, self.ingest.layout, clock.wall()
            ),
            worker=worker,
            pulse=Pulse(clock.monotonic, lambda: None),
            supervisor=Supervisor({}, clock.monotonic),
        )
        loop = Loop(parts, self._publish, clock, lambda: None, Inline())

        def run() -> None:
            loop.run(lambda: self.is_stopping)
            self.has_ended = True

        world.scheduler.spawn(self, run)

    @property
    def runs(self) -> bool:
        return not self.is_dead and not self.has_ended and self.error is None

    @property
    def positions(self) -> Mapping[Partition, int]:
        """The next offset of each partition that it counts; none once it has ended."""
        return self.ingest.positions if self.runs else {}

    def die_in(self, steps: int) -> None:
        """Kill it after so many more steps."""
        self._left = steps

    def step(self, what: str) -> None:
        """Pass a point at which others may have their turn, and at which it may be killed."""
        if self.is_dead:
            raise Crash
        self._scheduler.note(what)
        if not self._left:
            self.is_dead = True
            raise Crash
        self._left -= 1
        seconds = 0.01 * self._scheduler.random.random()
        if what == "sync":
            seconds += self.slow
        self._scheduler.pause(seconds)
        number = self.refused.get(what)
        if number is not None:
            raise OSError(number, os.strerror(number), what)

    def _publish(self, snapshot: Snapshot) -> None:
        if self.is_dead:
            raise Crash
        self._scheduler.spend(_SNAPSHOT)
        self._world.judge_snapshot(self, snapshot)


class World(Protocol):
    """What a replica knows of the rest."""

    scheduler: Scheduler
    workload: Workload
    disk: SharedDisk
    group: Group
    safe: set[Identity]

    def judge_snapshot(self, replica: Replica, snapshot: Snapshot) -> None:
        """Compare what a replica shows with the log."""


class SharedDisk(SimulatedDisk):
    """A disk that all replicas use, some of which see its folders late.

    Attributes:
        written: number of calls that have changed it.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(DISK, seed=scheduler.random.getrandbits(32))
        self.before = self._turn
        self.written = 0
        self._scheduler = scheduler
        self._writers: dict[str, Replica] = {}
        self._changes: list[tuple[float, Process | None, Path | None, Path | None]] = []

    def crash(self, kept: float = 0.5) -> None:
        super().crash(kept)
        self._changes = []
        self.written += 1

    def names(self, folder: Path) -> list[str]:
        names = super().names(folder)
        replica = self._scheduler.process
        if not isinstance(replica, Replica) or not replica.stale:
            return names
        listed = {*names}
        for at, by, source, target in reversed(self._changes):
            if at < self._scheduler.now - replica.stale:
                break
            if by is not replica:
                replica.was_stale = True
                if target is not None and target.parent == folder:
                    listed.discard(target.name)
                if source is not None and source.parent == folder:
                    listed.add(source.name)
        return sorted(listed)

    def writers(self) -> Mapping[str, Replica]:
        """The daemon of each folder of rounds."""
        return self._writers

    def content(self, path: Path) -> bytes:
        """The bytes of a file."""
        return self._file(path).content

    def age(self, folder: Path, seconds: float) -> None:
        """Make the files of a folder older."""
        for path in self.files():
            if path.parent == folder:
                self._file(path).modified -= seconds

    def _turn(self, step: Any) -> None:
        replica = self._scheduler.process
        # A look at a file takes no time, and is no point of its own.
        if isinstance(replica, Replica) and step.call not in _LOOKS:
            replica.step(step.call)
        self.steps.clear()
        self.now = NOON + self._scheduler.now
        self.written += step.call in _WRITES

    def _change(self, source: Path | None, target: Path | None, node: Any) -> None:
        super()._change(source, target, node)
        by = self._scheduler.process
        self._changes.append((self._scheduler.now, by, source, target))
        if target is not None and target.parent == STORE / ROUNDS and isinstance(by, Replica):
            self._writers[target.name] = by


class _Late(Folder):
    """The folder, where a round may land after its write was given up, as in a bucket."""

    def __init__(self, replica: Replica, world: World) -> None:
        super().__init__(STORE, world.disk)
        self._replica, self._world = replica, world

    def put_new(self, key: str, pieces: Iterable[bytes]) -> bool:
        if not self._replica.late or round_of(key) is None:
            return super().put_new(key, pieces)
        content = b"".join(pieces)
        self._replica.step("late")

        def land() -> None:
            self._world.scheduler.note(f"{key} of {self._replica.name} lands")
            Folder.put_new(self, key, [content])

        self._world.scheduler.at(self._replica.late, land)
        raise StoreError(self.path_of(key), "put failed: no answer", "try again")


class _Store(Store):
    """The store; what waits for a lock lets others have their turn."""

    def __init__(self, scheduler: Scheduler, storage: Storage) -> None:
        super().__init__(storage)
        self._turn = VirtualLock(scheduler)

    def save(self, *arguments: Any) -> frozenset[Shard]:
        with self._turn:
            return super().save(*arguments)


class _Source(LogSource):
    """A member of the group; each call takes time."""

    budget = 15.0

    def __init__(self, replica: Replica, group: Group, scheduler: Scheduler) -> None:
        super().__init__(group, replica.name)
        self._replica, self._scheduler = replica, scheduler

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        self._replica.step("poll")
        # The machine is busy, so that few polls make a schedule long.
        self._scheduler.pause(seconds + self._scheduler.random.random())
        batches = super().poll(seconds)
        for batch in batches:
            self._replica.last = batch
        return batches

    def _take(self, owner: PartitionOwner, partitions: Sequence[Partition]) -> None:
        super()._take(owner, partitions)
        self._replica.taken |= dict.fromkeys(partitions, self._scheduler.now)

    def _batch(
        self, partition: Partition, position: int, limit: int | None = None
    ) -> RecordBatch | None:
        return super()._batch(partition, position, limit or self._replica.most)

    def commit(
        self, positions: Mapping[Partition, int], *, wait: bool = True
    ) -> str | CommitAnswer | None:
        self._replica.step("commit")
        answer = super().commit(positions, wait=wait)
        self._replica.step("committed")
        return answer

    def pause(self, partitions: Collection[Partition]) -> None:
        del partitions

    @property
    def status(self) -> SourceStatus:
        if self._replica.is_dead:
            raise Crash
        return super().status


class _DeadLetterLog(DeadLetterLog):
    """Dead letters whose flush takes time for each of them, and fails as long as it is told to."""

    def __init__(self, replica: Replica, safe: set[Identity]) -> None:
        super().__init__(safe)
        self._replica = replica

    def flush(self) -> None:
        self._replica.step("flush")
        if self._replica.letters_fail:
            raise DeadLetterError("events.dlq", "no broker answers", "see that it runs")
        taken, self._waiting = self._waiting, []
        for dead_letter in taken:
            self._safe.add(dead_letter.identity)
            self._replica.step("letter")
