"""A log, a group, a disk and three processes; the expected states, and the invariants."""

from __future__ import annotations

import copy
import errno
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from streameval.checkpoints.format import Place
from streameval.checkpoints.store import folder_store
from streameval.engine.dead_letters import Identity
from streameval.engine.ingest import Ingest
from streameval.engine.windows.times import PAST_PANE
from streameval.events.errors import SourceError
from streameval.events.records import Partition, RecordBatch
from tests.crashes.simulated_disk import Crash, SimulatedDisk, Step
from tests.durability.process import DISK, METRIC, MINUTE, STORE, TIMES, Process, digests, ingest
from tests.logs.group import Entry, Group, Log


class Recount(NamedTuple):
    """A partition's log up to an offset.

    Attributes:
        hits: sum of the metric, by label value before folding.
        events: valid events, by label value before folding.
        kept: events whose panes are kept at the end.
        records: number of records.
    """

    hits: Mapping[str, int]
    events: Mapping[str, int]
    kept: int
    records: int


class Truth:
    """Counts a log again, and caches the results."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._recounts: dict[tuple[Partition, int], Recount] = {}
        self._pieces: dict[tuple[Partition, int], Mapping[str, str]] = {}
        self._reached: dict[Partition, Ingest] = {}

    def recount(self, partition: Partition, offset: int) -> Recount:
        key = partition, offset
        if key not in self._recounts:
            self._recounts[key] = _recount(
                [entry.value for entry in self._below(partition, offset)]
            )
        return self._recounts[key]

    def bad(self, partition: Partition, offset: int) -> set[int]:
        return {e.offset for e in self._below(partition, offset) if _is_bad(e.value)}

    def pieces(self, partition: Partition, offset: int) -> Mapping[str, str]:
        key = partition, offset
        if key not in self._pieces:
            reached = self._reached.get(partition)
            if reached is None or reached.positions[partition] > offset:
                reached = self._reached[partition] = ingest()
                reached.begin(partition, {partition: 0})
            self._go_on(reached, partition, offset)
            self._pieces[key] = digests(reached, partition)
        return self._pieces[key]

    def _go_on(self, reached: Ingest, partition: Partition, offset: int) -> None:
        start = reached.positions[partition]
        entries = [entry for entry in self._below(partition, offset) if entry.offset >= start]
        reached.apply(
            RecordBatch(
                partition=partition,
                values=[entry.value for entry in entries],
                offsets=[entry.offset for entry in entries],
                next_offset=offset,
                timestamps=[entry.timestamp for entry in entries],
            )
        )

    def _below(self, partition: Partition, offset: int) -> list[Entry]:
        return [entry for entry in self._log.entries(partition) if entry.offset < offset]


def _is_bad(value: bytes | None) -> bool:
    return value is not None and not value.startswith(b"{")


class _Event(msgspec.Struct):
    id: str
    ts: int
    variant: str
    interactions: list[str]


def _recount(values: list[bytes | None]) -> Recount:
    """A count by definition, record by record, without the package."""
    events = [msgspec.json.decode(v, type=_Event) for v in values if v and not _is_bad(v)]
    clock = max((event.ts for event in events), default=0) * 1_000_000
    first = {event.id: event for event in reversed(events)}.values()
    hits, counts = Counter[str](), Counter[str]()
    for event in first:
        hits[event.variant] += event.interactions == ["a"]
        counts[event.variant] += 1
    border = (clock - TIMES.kept) // MINUTE * MINUTE
    kept = sum(event.ts * 1_000_000 >= border for event in first)
    return Recount(hits, counts, kept, len(values))


TOPIC: Final = "events"
PARTITIONS: Final = (Partition(TOPIC, 0), Partition(TOPIC, 1))
NAMES: Final = ("a", "b", "c")
WRITES: Final = frozenset({"create", "write", "sync", "sync_folder", "rename", "remove"})


class KillPoint:
    """Kills the process when it passes a point for the nth time."""

    def __init__(self) -> None:
        self._point, self._left = "", 0
        self.refused: frozenset[str] = frozenset()

    def set(self, point: str, times: int) -> None:
        self._point, self._left = point, times

    def __call__(self, point: str) -> None:
        if point in self.refused:
            raise OSError(errno.ENOSPC, "no space left on device", point)
        if self._left and point == self._point:
            self._left -= 1
            if not self._left:
                raise Crash(point)


class SimulatedCluster:
    def __init__(self) -> None:
        self.log = Log()
        self.log.add_topic(TOPIC, len(PARTITIONS))
        self.group = Group(self.log, [TOPIC])
        self.disk = SimulatedDisk(DISK)
        self.kill_point = KillPoint()
        self.disk.before = self._step
        self.safe: set[Identity] = set()
        self.truth = Truth(self.log)
        self.untouched = True
        self.processes = {name: self._start(name) for name in NAMES}
        self._gone: Counter[tuple[int, str, str]] = Counter()
        self._shown: dict[str, Counter[tuple[int, str, str]]] = {}
        self._checked: set[tuple[Partition, int, int]] = set()
        self._durable: dict[Partition, int] = {}

    def crash(self, name: str, act: Callable[[], None], *, power: bool) -> None:
        """Let a process act until it is killed, and start another one with its name."""
        try:
            act()
        except Crash:
            pass
        finally:
            self.kill_point.set("", 0)
        self.group.crash(name)
        if power:
            self.disk.crash()
        self.restart(name)
        self.untouched = False

    def restart(self, name: str) -> None:
        """Start another process with the name of one that has ended."""
        self._gone.update(_shown(self.processes[name]))
        self._shown.pop(name, None)
        self.processes[name] = self._start(name)

    def holder(self, partition: Partition) -> Process | None:
        name = self.group.holder.get(partition)
        return None if name is None else self.processes[name]

    def readers(self, partition: Partition) -> list[Process]:
        """All processes that believe to own a partition."""
        return [process for process in self.processes.values() if partition in process.positions]

    def lose(self, name: str, partition: Partition) -> None:
        self.group.lose(name, [partition])
        self.untouched = False

    def fail_commit(self, name: str, *, landed: bool) -> None:
        """Fail the next commit of a process; `landed`: the group takes it nevertheless."""
        self.group.fail_commits(name, landed=landed)
        self.untouched = False

    def check(self) -> None:
        for process in self.processes.values():
            self._check_states(process)
            self._check_never_falls(process)
        self._check_durable()
        self._check_counters()

    def deliver_twice(self, process: Process) -> None:
        """Deliver a batch again: it is refused, and nothing changes."""
        batch = process.last
        if batch is None or batch.partition not in process.positions or not batch.offsets:
            return
        if process.positions[batch.partition] < batch.next_offset:
            return
        before = process.positions[batch.partition]
        try:
            process.checkpointer.apply(batch)
        except SourceError:
            assert process.positions[batch.partition] == before
        else:
            raise AssertionError("it was counted twice")

    def _start(self, name: str) -> Process:
        return Process(name, self.group, self.disk, self.safe, self.kill_point)

    def _step(self, step: Step) -> None:
        self.kill_point(f"disk: {step.call}")

    def _check_states(self, process: Process) -> None:
        for partition, position in process.positions.items():
            state = process.ingest.partitions[partition]
            key = partition, position, id(state)
            if key in self._checked:
                continue
            recount = self.truth.recount(partition, position)
            assert digests(process.ingest, partition) == self.truth.pieces(partition, position)
            tally = state.tally
            invalid = sum(tally.invalid.values())
            assert tally.valid + invalid + tally.tombstones + tally.duplicates == recount.records
            panes = state.families["labels"].copied().panes
            kept = [t.lists(t.cells) for place, t in panes.items() if place != PAST_PANE]
            assert sum(int(lists.sum()) for lists in kept) == recount.kept
            self._checked.add(key)

    def _check_durable(self) -> None:
        """After a power failure now, checkpoints are valid and cover the commits."""
        self._look()
        for partition, offset in self._durable.items():
            assert self.group.committed.get(partition, 0) <= offset, "committed <= checkpoint"
            bad = self.truth.bad(partition, offset)
            safe = {letter.offset for letter in self.safe if letter.partition == partition}
            assert bad <= safe, "letters are safe before the checkpoint that passes them"
            assert safe <= self.truth.bad(partition, self.log.end(partition))
        for process in self.processes.values():
            for partition, offset in process.checkpointer.durable.items():
                assert offset <= process.positions[partition], "checkpoint <= processed"

    def _look(self) -> None:
        """Read the checkpoints as after a power failure now, if anything was written."""
        written = sum(step.call in WRITES for step in self.disk.steps)
        self.disk.steps.clear()
        if not written:
            return
        self.disk.before = _nothing
        disk = copy.deepcopy(self.disk)
        self.disk.before = self._step
        disk.crash()
        store = folder_store(STORE, disk)
        for partition in PARTITIONS:
            place = Place(TOPIC, self.log.identity(TOPIC) or "", partition.number)
            newest = store.newest(place)
            assert not newest.damaged, newest.damaged
            assert newest.saved is not None
            offset = self._durable[partition] = newest.saved.header.offset
            assert newest.saved.digests == self.truth.pieces(partition, offset)

    def _check_never_falls(self, process: Process) -> None:
        before, now = self._shown.get(process.name, Counter()), _shown(process)
        assert all(now[key] >= count for key, count in before.items()), "a counter fell"
        self._shown[process.name] = now

    def _check_counters(self) -> None:
        """All processes together, ended ones included, have shown no more than was committed."""
        shown = self._gone + sum(map(_shown, self.processes.values()), Counter())
        recounts = [self.truth.recount(p, self.group.committed.get(p, 0)) for p in PARTITIONS]
        events: Counter[str] = sum((Counter(recount.events) for recount in recounts), Counter())
        hits: Counter[str] = sum((Counter(recount.hits) for recount in recounts), Counter())
        for kind, true in (("sum", hits), ("count", events)):
            for variant, most in true.items():
                assert shown[0, variant, kind] <= most, (variant, kind)
            for family in range(2):
                total = sum(n for (of, _, what), n in shown.items() if (of, what) == (family, kind))
                assert total <= true.total(), (family, kind)
                assert total == true.total() or not self.untouched, (family, kind)


def _shown(process: Process) -> Counter[tuple[int, str, str]]:
    counts: Counter[tuple[int, str, str]] = Counter()
    for (family, labels, metric), (total, count) in process.counted.items():
        assert metric == METRIC
        assert total == int(total)
        counts[family, labels[0], "sum"] += int(total)
        counts[family, labels[0], "count"] += count
    return counts


def _nothing(_: Step) -> None:
    pass
