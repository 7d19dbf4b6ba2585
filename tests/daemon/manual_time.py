"""A manual clock, a scripted source, and the loop that they drive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from streameval.config import Config
from streameval.daemon import ProcessClock
from streameval.daemon.assembly import Assembly
from streameval.daemon.loop import Loop
from streameval.engine.snapshot import Snapshot
from streameval.events.records import Assignment, Partition, PartitionOwner, RecordBatch
from streameval.sources.settings import SimulatorOptions
from streameval.sources.source import UNHURRIED, SourceStatus
from tests.durability.process import Inline

PARTITION = Partition("here", 0)
CONFIG = Config(metrics=["hit_rate@10"], source=SimulatorOptions())
HIT = b'{"recommendations": ["a", "b"], "interactions": ["b"]}'


class ManualTime:
    """Time that advances only by waiting or on request."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def read(self) -> float:
        return self.now

    @property
    def clock(self) -> ProcessClock:
        return ProcessClock(
            wall=self.read, monotonic=self.read, busy=lambda: 0.0, sleep=self.advance
        )


def loop_of(
    parts: Assembly, manual_time: ManualTime, publish: Callable[[Snapshot], None] = lambda _: None
) -> Loop:
    return Loop(parts, publish, manual_time.clock, lambda: None, Inline())


class Script:
    """A source that delivers one batch per poll, after a delay."""

    name = cluster = "script"
    ended: Collection[Partition] = ()
    budget = UNHURRIED

    def __init__(self, manual_time: ManualTime, batches: Sequence[Sequence[bytes | None]]) -> None:
        self.manual_time = manual_time
        self._batches = list(batches)
        self._offset = 0
        self.trouble: str | None = None
        self.closed = False
        self.paused = False
        self.committed: dict[Partition, int] = {}

    def open(self, owner: PartitionOwner) -> None:
        end = sum(map(len, self._batches))
        assignment = Assignment(partition=PARTITION, identity="script", begin=0, end=end, start=0)
        self._offset = owner.assigned([assignment])[PARTITION]

    def poll(self, seconds: float) -> Sequence[RecordBatch]:
        self.manual_time.advance(seconds)
        if self.paused or not self._batches:
            return ()
        values = self._batches.pop(0)
        offsets = range(self._offset, self._offset + len(values))
        self._offset += len(values)
        return [
            RecordBatch(
                partition=PARTITION, values=values, offsets=offsets, next_offset=self._offset
            )
        ]

    def commit(self, positions: Mapping[Partition, int], **_: bool) -> str | None:
        self.committed = dict(positions)
        return None

    def pause(self, partitions: Collection[Partition]) -> None:
        self.paused = PARTITION in partitions

    @property
    def status(self) -> SourceStatus:
        ends = {PARTITION: self._offset}
        return SourceStatus(joined=True, ended=self.ended, ends=ends, problem=self.trouble)

    def close(self) -> None:
        self.closed = True


class Countdown:
    """Stops after a number of calls."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0
