"""The whole in one process: a log, a group, a disk, and daemons that crash, freeze and lose writes.

A seed decides the records, the faults, and whose turn it is. The daemons run the code of the
product from their loop down; time, disk, broker and dead letters are simulated. A schedule ends
when its faults have ended, all records are counted, and all daemons have stopped.
"""

from __future__ import annotations

import errno
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from unittest import mock

import msgspec

from streameval.checkpoints.restore import offsets_saved
from streameval.checkpoints.store import GRACE, SavedCheckpoint, folder_store
from streameval.engine.dead_letters import Identity
from streameval.engine.ingest import Ingest
from streameval.engine.snapshot import Snapshot
from streameval.events.errors import (
    DamagedStateError,
    RefusedStateError,
    SourceError,
    StoreError,
    StreamevalError,
    UnsavedStateError,
)
from streameval.events.records import Partition, RecordBatch
from tests.crashes.fold import Means, Truth
from tests.crashes.replica import Replica, SharedDisk
from tests.crashes.simulated_disk import SimulatedDisk
from tests.crashes.virtual import Scheduler
from tests.crashes.workload import Events, Joined, Produced, Workload
from tests.durability.checkpointing import with_policy
from tests.durability.process import METRIC, SETTINGS, STORE, digests
from tests.logs.group import Group, Log

DAEMONS: Final = ("a", "b", "c")
SESSION: Final = 4.0
"""Seconds without a sign of life after which the group gives the partitions of a member away."""
FAULTS: Final = 30.0
"""Seconds in which records come and faults happen."""
PATIENCE: Final = 300.0
"""Seconds within which all must be counted once the faults have ended."""

Found = dict[Partition, SavedCheckpoint]
Key = tuple[int, str, str]
Offsets = Mapping[Partition, int]


class BrokenInvariantError(AssertionError):
    """A schedule in which something is not as it must be."""


class Simulation:
    """One schedule.

    Attributes:
        seed: decides everything.
        workload: what is counted.
        mended: whether the faults have ended.
        is_lost: whether damage has left no checkpoint of a partition, so that none may go on.
    """

    def __init__(self, seed: int, faults: float = FAULTS, *, joins: bool = False) -> None:
        self.seed, self.faults = seed, faults
        self.scheduler = Scheduler(seed)
        self.workload: Workload = Joined(idle=seed % 2 == 1) if joins else Events()
        self.partitions = self.workload.partitions
        topics = list(dict.fromkeys(log.topic for logs in self.partitions.values() for log in logs))
        self.log = Log()
        for topic in topics:
            self.log.add_topic(topic, len(self.partitions))
        self.group = Group(self.log, topics)
        self.disk = SharedDisk(self.scheduler)
        self.safe: set[Identity] = set()
        self.mended = self.is_ending = self.is_over = self.is_lost = False
        self._judge = Judge(self)
        self._random = self.scheduler.random
        self.daemons: dict[str, Replica] = {}
        self.ended: list[Replica] = []
        self._silent: dict[str, float] = {}
        self._joined: dict[str, Replica] = {}
        self._lost: set[str] = set()
        self._damaged = ""
        self._starts = 0
        # A calm schedule shows that nothing is lost where nothing fails.
        self.calm = self._random.random() < 0.05
        choice = self._random.choice(["fail", "restart"])
        self._settings = msgspec.structs.replace(
            SETTINGS,
            interval=self._random.choice([1.0, 2.0, 4.0]),
            budget=15.0,
            # The log never loses a record, so nothing may ever start over.
            policies=with_policy("on_truncated", choice),
        )

    @property
    def running(self) -> list[Replica]:
        return [replica for replica in self.daemons.values() if replica.runs]

    def run(self) -> None:
        """Run to the end.

        Raises:
            BrokenInvariantError: with the seed, the time, and what is wrong.
        """
        for name in DAEMONS:
            self._start(name)
        at = self.scheduler.at
        at(0.0, self._coordinate)
        at(0.1, self._produce)
        at(1.0, self._judge_now)
        if not self.calm:
            at(2.0, self._disturb)
        at(self.faults, self._mend)
        self._go(lambda: self.is_lost or (self.mended and self._is_idle()), self.faults + PATIENCE)
        if self.is_lost:
            return
        self.is_ending = True
        for replica in self.running:
            replica.is_stopping = True
        self._go(lambda: not self.running, self.scheduler.now + PATIENCE)
        self.is_over = True
        self._judge.finish()

    def judge_snapshot(self, replica: Replica, snapshot: Snapshot) -> None:
        self._judge.snapshot(replica, snapshot)

    def _go(self, until: Callable[[], bool], latest: float) -> None:
        checked = -1.0

        def over() -> bool:
            nonlocal checked
            if self.scheduler.now > latest:
                left = {
                    str(log): (self.log.end(log), offsets.get(log))
                    for partition, logs in self.partitions.items()
                    for offsets in [self._judge.durable.get(partition, {})]
                    for log in logs
                }
                raise self.broken(f"it does not come to rest; end and checkpoint of each: {left}")
            self._reap()
            if self.scheduler.now - checked < 0.5:
                return False
            checked = self.scheduler.now
            return until()

        self.scheduler.run(over)

    def broken(self, what: str) -> BrokenInvariantError:
        trace = "\n".join(f"{at:9.3f} {name:5} {text}" for at, name, text in self.trace[-60:])
        return BrokenInvariantError(
            f"seed {self.seed}, second {self.scheduler.now:.3f}: {what}\n{trace}"
        )

    @property
    def trace(self) -> list[tuple[float, str, str]]:
        return self.scheduler.trace

    # Processes and the group.

    def _start(self, name: str) -> None:
        if self.is_ending:
            return
        self._starts += 1
        replica = Replica(
            f"{name}{self._starts}",
            self,
            settings=self._settings,
            skew=self._random.uniform(-30.0, 30.0),
        )
        self.daemons[name] = replica

    def _reap(self) -> None:
        """Note daemons that have ended, and start others in their place."""
        for name, replica in [*self.daemons.items()]:
            if replica.runs or replica in self.ended:
                continue
            self.ended.append(replica)
            self.scheduler.note(f"{replica.name} ended: {replica.error!r}")
            self._judge.gone(replica)
            if replica.error is not None:
                self._judge.death(replica, replica.error)
            self.scheduler.at(self._random.uniform(0.2, 1.5), partial(self._start, name))

    def _coordinate(self) -> None:
        """The coordinator of the group: fences who is silent, and shares out what is free."""
        now = self.scheduler.now
        for replica in [*self.ended, *self.running]:
            name = replica.name
            if name in self._lost:
                continue
            silent = not replica.runs or replica.frozen_until > now
            since = self._silent.setdefault(name, now) if silent else None
            if not silent:
                self._silent.pop(name, None)
            elif since is not None and now - since > SESSION:
                if not replica.runs:
                    self._lost.add(name)
                    if replica.is_dead and self.group.has_member(name):
                        self.group.crash(name)
                elif partitions := self.group.held_by(name):
                    self._fence(replica, partitions)
        for replica in self.running:
            if self._random.random() < 0.2 and self.group.has_lost(replica.name):
                self.group.tell(replica.name)
        members = [
            r.name
            for r in self.running
            if self.group.has_member(r.name) and r.name not in self._silent and not r.is_stopping
        ]
        for logs in self.partitions.values():
            if members and logs[0] not in self.group.holder and self._random.random() < 0.7:
                self.group.assign(self._random.choice(members), logs)
        self.scheduler.at(0.5, self._coordinate)

    def _fence(self, replica: Replica, partitions: Sequence[Partition]) -> None:
        self.scheduler.note(f"the group takes {len(partitions)} from {replica.name}")
        self.group.lose(replica.name, partitions)
        replica.was_fenced = True

    def _is_idle(self) -> bool:
        durable = self._judge.look()
        return all(
            self.group.holder.get(log) in {r.name for r in self.running}
            and durable.get(partition, {}).get(log)
            == self.group.committed.get(log, 0)
            == self.log.end(log)
            for partition, logs in self.partitions.items()
            for log in logs
        )

    def _held_by(self, replica: Replica) -> list[Partition]:
        """The partitions that belong to a daemon, as the group knows."""
        partitions = self.group.held_by(replica.name)
        return [partition for partition, logs in self.partitions.items() if logs[0] in partitions]

    # Records.

    def _produce(self) -> None:
        if self.mended:
            return
        self._append(self.workload.produce(self._random))
        self.scheduler.at(self._random.expovariate(1.0), self._produce)

    def _append(self, records: Sequence[Produced]) -> None:
        for log, value, is_gap in records:
            if is_gap:
                self.log.skip(log)
            else:
                self.log.append(log, value, timestamp=2_000_000_000_000)

    # Faults.

    def _disturb(self) -> None:
        if self.mended:
            return
        fault, weight = zip(*FAULTS_BY_WEIGHT.items(), strict=True)
        (chosen,) = self._random.choices(fault, weight)
        replica = self._random.choice(self.running) if self.running else None
        if replica is not None:
            self.scheduler.note(f"fault: {chosen.__name__} {replica.name}")
            chosen(self, replica)
        self.scheduler.at(self._random.expovariate(1 / 1.5), self._disturb)

    def _mend(self) -> None:
        self.mended = True
        self._append(self.workload.last())
        self.scheduler.note("the faults have ended")
        for replica in self.running:
            replica.refused.clear()
            replica.stale = replica.slow = replica.late = 0.0
            replica.letters_fail = False
            replica.frozen_until = min(replica.frozen_until, self.scheduler.now)
            replica.die_in(-1)

    def _judge_now(self) -> None:
        self._judge.check()
        self.scheduler.at(1.0, self._judge_now)

    def crash(self, replica: Replica) -> None:
        self.scheduler.kill(replica)

    def crash_soon(self, replica: Replica) -> None:
        replica.die_in(self._random.randint(1, 60))

    def lose_power(self, _: Replica) -> None:
        """All daemons lose power, and the disk."""
        for replica in self.running:
            self.scheduler.kill(replica)
        self.disk.crash()

    def freeze(self, replica: Replica) -> None:
        replica.frozen_until = self.scheduler.now + self._random.choice([0.5, 3.0, 10.0])

    def move(self, replica: Replica) -> None:
        if partitions := self._held_by(replica):
            self._move(self._random.choice(partitions))

    def fence(self, replica: Replica) -> None:
        """Give a partition away; its holder is told later."""
        if partitions := self._held_by(replica):
            self._fence(replica, self.partitions[self._random.choice(partitions)])

    def refuse_commits(self, replica: Replica) -> None:
        times, landed = self._random.randint(1, 3), self._random.random() < 0.5
        if self.group.has_member(replica.name):
            self.group.fail_commits(replica.name, times, landed=landed)

    def fill_disk(self, replica: Replica) -> None:
        call = self._random.choice(["create", "write", "sync", "rename_new", "sync_folder"])
        number = errno.ENOSPC if call in {"create", "write"} else errno.EIO
        self._for_a_while(lambda: replica.refused.update({call: number}), replica.refused.clear)

    def fail_dead_letters(self, replica: Replica) -> None:
        self._for_a_while(
            lambda: setattr(replica, "letters_fail", True),
            lambda: setattr(replica, "letters_fail", False),
        )

    def list_late(self, replica: Replica) -> None:
        self._for_a_while(
            lambda: setattr(replica, "stale", self._random.choice([0.5, 2.0])),
            lambda: setattr(replica, "stale", 0.0),
        )

    def slow_down(self, replica: Replica) -> None:
        self._for_a_while(
            lambda: setattr(replica, "slow", self._random.choice([0.5, 2.0, 20.0])),
            lambda: setattr(replica, "slow", 0.0),
        )

    def answer_late(self, replica: Replica) -> None:
        self._for_a_while(
            lambda: setattr(replica, "late", self._random.choice([0.2, 1.0, 3.0, 8.0])),
            lambda: setattr(replica, "late", 0.0),
        )

    def stop(self, replica: Replica) -> None:
        replica.is_stopping = True

    def deliver_twice(self, replica: Replica) -> None:
        """Deliver a batch again: it is refused, and nothing changes."""
        batch = replica.last
        if batch is None or batch.partition not in replica.positions or not batch.offsets:
            return
        before = replica.positions[batch.partition]
        if before < batch.next_offset:
            return
        try:
            replica.checkpointer.apply(batch)
        except SourceError:
            if replica.positions[batch.partition] == before:
                return
        raise self.broken("a batch was counted twice")

    def age(self, _: Replica) -> None:
        """Let much time pass since dead daemons wrote."""
        for writer, replica in self.disk.writers().items():
            # Times tell what a damaged file may hide, and they pass for all files alike.
            if not replica.runs and writer != self._damaged:
                self.disk.age(STORE / "rounds" / writer, GRACE + 1)

    def damage(self, _: Replica) -> None:
        """Flip a bit where it matters: a daemon dies, and an older checkpoint is the newest valid.

        A second one may leave nothing that is valid, which no store survives.
        """
        before = dict(self._judge.look())
        writers = self.disk.writers()
        files = [path for path in self.disk.files() if path.suffix == ".round"] * 2
        self._random.shuffle(files)
        selected: tuple[Replica, Path, bytes, Found, list[Partition]] | None = None
        for path in files if self._judge.damaged_at is None else ():
            replica = writers.get(path.parent.name)
            content = self.disk.content(path)
            trial = self.disk.copied(self._random.getrandbits(32))
            trial.crash(0.0)
            if replica is None or not replica.runs or path not in trial.files():
                continue
            at, bit = self._random.randrange(len(content)), 1 << self._random.randrange(8)
            flipped = content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
            trial.overwrite(path, flipped)
            left = self._judge.newest(trial, excused=True)
            # What was removed may come back after a power loss, and may not.
            now = self.disk.copied(0)
            now.overwrite(path, flipped)
            total = self._judge.newest(now, excused=True).keys() & left.keys()
            lower = [p for p in left if left[p].header.offset < self._judge.heights[p]]
            if lower and total >= before.keys():
                # At best, both of its directories still name what is damaged.
                newest = folder_store(STORE, now).listing().writers[path.parent.name]
                heights = [
                    -1
                    if one is None or (shard := self.workload.shard(lower[0])) not in one
                    else one[shard].offset
                    for one in newest
                ]
                is_best = len(heights) == 2 and min(heights) > left[lower[0]].header.offset
                if selected is None or is_best:
                    selected = replica, path, flipped, left, lower
                if is_best:
                    break
        if selected is not None:
            replica, path, flipped, left, lower = selected
            self.crash(replica)
            self.disk.overwrite(path, flipped)
            self._damaged = path.parent.name
            self._judge.damaged(left)
            self._haunt(replica, lower)

    def _haunt(self, dead: Replica, partitions: Sequence[Partition]) -> None:
        """Who restores the older checkpoint is slow and loses it soon, and the next one freezes."""
        heirs = [replica for replica in self.running if self.group.held_by(replica.name)]
        self._lost.add(dead.name)
        if self.group.has_member(dead.name):
            self.group.crash(dead.name)
        partitions = [p for p in partitions if p not in self.group.holder]
        if not heirs or not partitions:
            return
        heir = self._random.choice(heirs)
        heir.most = 1
        self.group.assign(heir.name, [log for p in partitions for log in self.partitions[p]])
        for partition in partitions:
            later = self._random.uniform(2.0, 4.0)
            self.scheduler.at(later, partial(self._move, partition))
            self.scheduler.at(
                later + self._random.uniform(1.5, 3.0), partial(self._freeze, partition)
            )

    def _freeze(self, partition: Partition) -> None:
        holder = self.group.holder.get(partition)
        for replica in self.running:
            if replica.name == holder:
                replica.frozen_until = self.scheduler.now + 10.0

    def _move(self, partition: Partition) -> None:
        name = self.group.holder.get(partition)
        if name is not None and not self.group.has_orders(name):
            self.group.revoke(name, self.partitions[partition])

    def _for_a_while(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        begin()
        self.scheduler.at(self._random.uniform(0.5, 5.0), end)


Fault = Callable[[Simulation, Replica], None]

FAULTS_BY_WEIGHT: Final[Mapping[Fault, int]] = {
    Simulation.crash: 2,
    Simulation.crash_soon: 6,
    Simulation.lose_power: 2,
    Simulation.freeze: 4,
    Simulation.move: 6,
    Simulation.fence: 3,
    Simulation.refuse_commits: 2,
    Simulation.fill_disk: 3,
    Simulation.fail_dead_letters: 2,
    Simulation.list_late: 1,
    Simulation.slow_down: 2,
    Simulation.answer_late: 2,
    Simulation.stop: 1,
    Simulation.deliver_twice: 1,
    Simulation.age: 1,
    Simulation.damage: 4,
}
"""Fault -> how often it happens, beside the others."""


class Judge:
    """Compares what daemons show and save with the log counted again.

    Attributes:
        durable: offsets of the newest valid checkpoint of each partition, after a power loss now.
        heights: positions of these checkpoints.
        damaged_at: when a file was damaged; None if none was.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        workload, self._partitions = simulation.workload, simulation.partitions
        self._truth = Truth(simulation.log, self._partitions, workload.fold)
        self._most = Truth(simulation.log, self._partitions, workload.evidence)
        self._reached: dict[Partition, Ingest] = {}
        self._pieces: dict[tuple[Partition, tuple[int, ...]], Mapping[str, str]] = {}
        self._shown: dict[str, Counter[Key]] = {}
        self._gone: Counter[Key] = Counter()
        self._seen = -1
        self._compared: set[tuple[str, tuple[tuple[Partition, int], ...]]] = set()
        self.durable: dict[Partition, Offsets] = {}
        self.heights: dict[Partition, int] = {}
        self.damaged_at: float | None = None
        self._by: dict[Partition, str] = {}

    # What is saved.

    def newest(self, disk: SimulatedDisk, *, excused: bool) -> dict[Partition, SavedCheckpoint]:
        """The newest valid checkpoint of each partition on a disk.

        `excused`: whether some may be damaged.
        """
        store = folder_store(STORE, disk)
        listing = store.listing()
        result = {}
        for partition in self._partitions:
            newest = store.newest(self._simulation.workload.shard(partition), listing)
            self._require(excused or not newest.damaged, f"{newest.damaged}")
            if newest.saved is not None:
                result[partition] = newest.saved
        return result

    def look(self) -> Mapping[Partition, Offsets]:
        """Look at what a power loss would leave, if anything was written."""
        simulation = self._simulation
        # The worst, on which all rests, and now and then something between that and the best.
        for retained in (0.0, 0.5) if simulation.scheduler.random.random() < 0.3 else (0.0,):
            if retained or simulation.disk.written != self._seen:
                disk = simulation.disk.copied(simulation.scheduler.random.getrandbits(32))
                disk.crash(retained)
                self._look(
                    self.newest(disk, excused=self.damaged_at is not None), is_sure=not retained
                )
        self._seen = simulation.disk.written
        return self.durable

    def _look(self, found: Mapping[Partition, SavedCheckpoint], *, is_sure: bool) -> None:
        for partition in self._partitions:
            saved, before = found.get(partition), self.heights.get(partition, -1)
            offset = -1 if saved is None else saved.header.offset
            self._require(
                offset >= before or self._may_fall(partition),
                f"the checkpoint of {partition} fell from {before} to {offset}",
            )
            if saved is None:
                continue
            if is_sure:
                self._note(partition, saved)
            if self._simulation.workload.is_determined:
                same = saved.digests == self.pieces(partition, _offsets(partition, saved))
                self._require(same, f"the checkpoint of {partition} at {offset} is not of its logs")

    def _note(self, partition: Partition, saved: SavedCheckpoint) -> None:
        self.durable[partition] = _offsets(partition, saved)
        self.heights[partition] = saved.header.offset
        self._by[partition] = saved.path.rsplit("/", 2)[-2]

    def damaged(self, left: Mapping[Partition, SavedCheckpoint]) -> None:
        """Note that a file was damaged, and what is left."""
        self.damaged_at = self._simulation.scheduler.now
        for partition, saved in left.items():
            self._note(partition, saved)

    def _may_fall(self, partition: Partition) -> bool:
        """Whether the newest valid checkpoint may go, because a damaged one is newer.

        That may hold for all who have not met the damage, and for what they removed.
        """
        replica = self._simulation.disk.writers().get(self._by.get(partition, ""))
        if self.damaged_at is None:
            return False
        return (
            replica is None
            or not replica.runs
            or replica.taken.get(partition, 0.0) < self.damaged_at
        )

    def pieces(self, partition: Partition, offsets: Offsets) -> Mapping[str, str]:
        """Digests of the state of a daemon that was never interrupted."""
        logs = self._partitions[partition]
        key = partition, tuple(offsets[log] for log in logs)
        if key not in self._pieces:
            reached = self._reached.get(partition)
            if reached is None or any(reached.positions[log] > offsets[log] for log in logs):
                reached = self._reached[partition] = self._simulation.workload.ingest()
                reached.begin(partition, dict.fromkeys(logs, 0))
            for log in logs:
                reached.apply(self._batch(log, reached.positions[log], offsets[log]))
            # What waits for other records is read again.
            if reached.positions != offsets:
                del self._reached[partition]
            self._require(reached.positions == offsets, f"{offsets} waits at {reached.positions}")
            self._pieces[key] = digests(reached, partition)
        return self._pieces[key]

    def _batch(self, log: Partition, start: int, stop: int) -> RecordBatch:
        entries = [
            entry for entry in self._simulation.log.entries(log, start) if entry.offset < stop
        ]
        return RecordBatch(
            partition=log,
            values=[entry.value for entry in entries],
            offsets=[entry.offset for entry in entries],
            next_offset=stop,
            timestamps=[entry.timestamp for entry in entries],
        )

    # What is shown.

    def check(self) -> None:
        """All invariants that hold at any time."""
        simulation = self._simulation
        durable = self.look()
        for partition, offsets in durable.items():
            logs = self._partitions[partition]
            committed = sum(simulation.group.committed.get(log, 0) for log in logs)
            if self.damaged_at is None:
                self._require(
                    committed <= self.heights[partition],
                    f"{partition}: {committed} is committed, and the checkpoint is at {offsets}",
                )
            bad = self._truth.fold(partition, offsets).bad
            safe = {letter for letter in simulation.safe if letter.partition in logs}
            self._require(
                bad <= safe, f"{partition}: letters {bad - safe} of a checkpoint are lost"
            )
            every = self._truth.fold(partition, {log: simulation.log.end(log) for log in logs}).bad
            self._require(
                safe <= every, f"{partition}: letters {safe - every} are of no bad record"
            )
        for replica in simulation.running:
            for partition, offset in replica.checkpointer.durable.items():
                position = replica.positions.get(partition, offset)
                self._require(offset <= position, f"{partition}: saved beyond what was counted")
            self._note_shown(replica)
        self._check_counters()

    def snapshot(self, replica: Replica, snapshot: Snapshot) -> None:
        """Compare the readings of a daemon with the log."""
        positions = {entry.log: entry.position for entry in snapshot.health.partitions}
        key = replica.name, tuple(sorted(positions.items()))
        if key in self._compared:
            return
        self._compared.add(key)
        shown: dict[tuple[str, str, str], tuple[int, int]] = {}
        for series in snapshot.series:
            if series.reading.count:
                name = snapshot.families[series.family].label_names[0]
                hits = int(series.reading.total or 0)
                shown[name, series.labels[0], series.window] = hits, series.reading.count
        if not self._simulation.workload.is_determined:
            return
        truth: Means = self._truth.means(positions)
        self._require(shown == truth, f"{replica.name} shows {shown} and not {truth}")
        for partition, logs in self._partitions.items():
            if positions.keys().isdisjoint(logs):
                continue
            fold = self._truth.fold(partition, positions)
            tally = replica.ingest.partitions[partition].tally
            counted = [tally.consumed, tally.late, tally.tombstones]
            of_log = [fold.records, fold.late, fold.tombstones]
            if fold.duplicates is not None:
                counted += [tally.valid, tally.duplicates]
                of_log += [len(fold.events), fold.duplicates]
            self._require(counted == of_log, f"{partition}: {counted} and not {of_log}")

    def _note_shown(self, replica: Replica) -> None:
        before, now = self._shown.get(replica.name, Counter()), _counters(replica)
        fallen = [key for key, count in before.items() if now[key] < count]
        self._require(not fallen, f"{replica.name}: counters {fallen} fell")
        self._shown[replica.name] = now

    def gone(self, replica: Replica) -> None:
        """Keep what a daemon has shown that has ended."""
        self._note_shown(replica)

    def _check_counters(self) -> None:
        """All daemons together have shown no more than was committed."""
        shown = sum(self._shown.values(), Counter[Key]())
        committed = self._simulation.group.committed
        evidence = [self._most.fold(p, committed).evidence() for p in self._partitions]
        for kind, number in (("sum", 0), ("count", 1)):
            true = sum((pair[number] for pair in evidence), Counter[str]())
            for variant, most in true.items():
                said = shown[0, variant, kind]
                self._require(said <= most, f"counters of {variant} show {said} of {most} ({kind})")
            for family in range(2):
                total = sum(n for (of, _, what), n in shown.items() if (of, what) == (family, kind))
                self._require(total <= true.total(), f"counters show {total} of {true.total()}")
                if self._is_all_shown:
                    self._require(total == true.total(), f"{true.total() - total} are not shown")

    @property
    def _is_all_shown(self) -> bool:
        simulation = self._simulation
        return simulation.calm and simulation.is_over and simulation.workload.is_determined

    def death(self, replica: Replica, error: Exception) -> None:
        """Judge the error with which a daemon has ended."""
        if isinstance(error, BrokenInvariantError):
            raise error
        fails = isinstance(error, (StoreError, UnsavedStateError))
        if isinstance(error, RefusedStateError):
            # It has not seen what others have written, and says so.
            fails = replica.was_stale or (error.policy == "on_truncated" and replica.was_fenced)
            if error.policy == "on_damaged" and self.damaged_at is not None:
                # Those with the last valid one may have dropped it for one that was damaged then.
                left = self.newest(self._simulation.disk.copied(0), excused=True)
                lost = self.durable.keys() - left.keys()
                fails = self._simulation.is_lost = bool(lost)
        if isinstance(error, SourceError):
            # The group has not let it start over a state of which it is not the owner.
            fails = replica.was_fenced
        if isinstance(error, DamagedStateError):
            fails = self.damaged_at is not None
        known = isinstance(error, StreamevalError) and fails and not self._simulation.calm
        if not known:
            raise self._simulation.broken(f"{replica.name} ended: {error!r}") from error

    def finish(self) -> None:
        """All is counted, saved, committed, and every invalid record has its letter."""
        simulation = self._simulation
        self.check()
        for partition, logs in self._partitions.items():
            ends = {log: simulation.log.end(log) for log in logs}
            fold = self._truth.fold(partition, ends)
            safe = {letter for letter in simulation.safe if letter.partition in logs}
            committed = {log: simulation.group.committed.get(log, 0) for log in logs}
            counted = self.durable.get(partition), committed
            self._require(counted == (ends, ends), f"{partition}: {counted} and not {ends}")
            self._require(safe == fold.bad, f"{partition}: letters {safe} and not {fold.bad}")

    def _require(self, holds: bool, otherwise: str) -> None:  # noqa: FBT001  reads as an assertion
        if not holds:
            raise self._simulation.broken(otherwise)


def _offsets(partition: Partition, saved: SavedCheckpoint) -> Offsets:
    return offsets_saved(saved.header, partition)


def _counters(replica: Replica) -> Counter[Key]:
    counts: Counter[Key] = Counter()
    for (family, labels, metric), (total, count) in replica.checkpointer.counted.items():
        assert metric == METRIC
        counts[family, labels[0], "sum"] += int(total)
        counts[family, labels[0], "count"] += count
    return counts


@contextmanager
def _determined(scheduler: Scheduler) -> Iterator[None]:
    """Take names from the seed, and log nothing."""
    random = scheduler.random

    def token_hex(size: int = 32) -> str:
        return random.randbytes(size).hex()

    log = logging.getLogger("streameval")
    before, log.disabled = log.disabled, True
    try:
        with mock.patch.object(secrets, "token_hex", token_hex):
            yield
    finally:
        log.disabled = before


def simulate(seed: int, faults: float = FAULTS, *, joins: bool = False) -> Simulation:
    """Run the schedule of a seed, in which faults happen for some seconds.

    `joins`: whether daemons join lists with clicks; with odd seeds they do not wait for idle logs.

    Raises:
        BrokenInvariantError: something is not as it must be.
    """
    simulation = Simulation(seed, faults, joins=joins)
    with _determined(simulation.scheduler):
        simulation.run()
    return simulation
