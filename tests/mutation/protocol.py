"""A protocol of checkpoints that is wrong; the schedules of tests/crashes must notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from streameval.checkpoints import store
from streameval.checkpoints.committer import DurableCheckpoint, DurableCounters, OffsetCommitter
from streameval.checkpoints.owners import Checkpointer
from streameval.checkpoints.restore import RestorePlanner
from streameval.checkpoints.scheduler import CheckpointScheduler, PartitionCheckpoints
from streameval.engine import partition as counting
from streameval.events.records import Assignment, Partition
from tests.crashes.test_machine import run
from tests.mutation.mistake import Broken, Mistake, around, replaced


def _before_each_save(act: Callable[[CheckpointScheduler, PartitionCheckpoints], None]) -> Broken:
    def broken(kept: Any) -> Any:
        def submitted(self: CheckpointScheduler, checkpoints: PartitionCheckpoints) -> Any:
            act(self, checkpoints)
            return kept(self, checkpoints)

        return submitted

    return around(CheckpointScheduler, "_submitted", broken)


def _commit(self: CheckpointScheduler, checkpoints: PartitionCheckpoints) -> None:
    self._committer._commit({checkpoints.partition: checkpoints.position}, wait=True)


def _publish(self: CheckpointScheduler, checkpoints: PartitionCheckpoints) -> None:
    if checkpoints.showing:
        evidence = self._committer._evidence
        totals, fold = checkpoints.totals_now(), evidence.folding(checkpoints.partition)
        self._committer._counters.publish(checkpoints.partition, totals, fold, evidence.shown())


def _begins_elsewhere(choose: Callable[[Assignment, int], int]) -> Broken:
    def broken(kept: Any) -> Any:
        def plan(self: RestorePlanner, assignment: Assignment) -> Any:
            start = kept(self, assignment)
            offset = max(0, choose(assignment, start.offset))
            return msgspec.structs.replace(start, offsets={assignment.partition: offset})

        return plan

    return around(RestorePlanner, "plan", broken)


def _in_the_newest_pane(kept: Any) -> Any:
    def assign_panes(times: Any, clocks: Any, windowing: Any) -> Any:
        panes = kept(times, clocks, windowing)
        newest = clocks // windowing.pane * windowing.pane
        panes.starts[panes.late] = newest[panes.late]
        return panes

    return assign_panes


def _shown_all_the_same(kept: Any) -> Any:
    def add(self: OffsetCommitter, partition: Partition, durable: DurableCheckpoint) -> None:
        kept(self, partition, durable)
        self._show(partition, durable)

    return add


def _saved_and_shown(kept: Any) -> Any:
    def lost(self: Checkpointer, partitions: Sequence[Partition]) -> None:
        self._scheduler.save(self._settled(partitions))
        for partition, durable_checkpoint in self._committer._waiting.items():
            self._committer._show(partition, durable_checkpoint)
        kept(self, partitions)

    return lost


def _taken_for_settled(kept: Any) -> Any:
    def part(self: PartitionCheckpoints, section: Any, blobs: Any) -> Any:
        version = self._versions.get(section.name, section.version)
        return kept(self, section._replace(version=version), blobs)

    return part


_SCHEDULES = 150
_BROKEN: dict[str, Broken] = {
    "commit before save": _before_each_save(_commit),
    "publish before save": _before_each_save(_publish),
    "restore to the end - 1": _begins_elsewhere(lambda _, offset: offset - 1),
    "restore to the commit": _begins_elsewhere(lambda of, offset: of.committed or offset),
    "a late event counts in a window": around(counting, "assign_panes", _in_the_newest_pane),
    "no flush of dead letters": around(
        PartitionCheckpoints,
        "copied",
        lambda kept: lambda *of: lambda store, _: kept(*of)(store, None),
    ),
    "a refused commit is shown all the same": around(OffsetCommitter, "add", _shown_all_the_same),
    "what is lost is saved and shown": around(Checkpointer, "lost", _saved_and_shown),
    "counters begin at what was restored": around(
        DurableCounters, "begin", lambda kept: lambda self, of, _, shown: kept(self, of, {}, shown)
    ),
    "the lowest checkpoint is loaded": around(
        store, "offsets_in", lambda kept: lambda *of: kept(*of)[::-1]
    ),
    "what has changed is taken for settled": around(
        PartitionCheckpoints, "_part", _taken_for_settled
    ),
    "folded values begin at zero": replaced(
        DurableCounters, "_move", lambda self, lines, key, *_: self._settle(lines.pop(key))
    ),
}

MISTAKES = tuple(
    Mistake(what, partial(run, _SCHEDULES), broken) for what, broken in _BROKEN.items()
)
