"""A protocol of checkpoints that is wrong; the schedules of tests/durability must notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec
import pytest

from streameval.checkpoints import format as files
from streameval.checkpoints import store
from streameval.checkpoints.checkpoint import Part
from streameval.checkpoints.checkpointer import Checkpointer
from streameval.checkpoints.committer import DurableCheckpoint, DurableCounters, OffsetCommitter
from streameval.checkpoints.restore import RestorePlan, RestorePlanner
from streameval.checkpoints.scheduler import (
    CheckpointScheduler,
    Outbox,
    PartitionCheckpoints,
)
from streameval.engine import partition as counting
from streameval.events.records import Assignment, Partition
from streameval.windows import times
from tests.durability.running import run
from tests.mutation.mistake import Broken, Mistake


def _before_each_save(act: Callable[[CheckpointScheduler, PartitionCheckpoints], None]) -> Broken:
    def broken(patch: pytest.MonkeyPatch) -> None:
        kept = CheckpointScheduler._submitted

        def submitted(
            self: CheckpointScheduler, checkpoints: PartitionCheckpoints
        ) -> Future[DurableCheckpoint]:
            act(self, checkpoints)
            return kept(self, checkpoints)

        patch.setattr(CheckpointScheduler, "_submitted", submitted)

    return broken


def _commit(self: CheckpointScheduler, checkpoints: PartitionCheckpoints) -> None:
    self._committer._commit({checkpoints.partition: checkpoints.position})


def _publish(self: CheckpointScheduler, checkpoints: PartitionCheckpoints) -> None:
    if checkpoints.showing:
        evidence = self._committer._evidence
        totals, fold = checkpoints.totals_now(), evidence.folding(checkpoints.partition)
        self._committer._counters.publish(checkpoints.partition, totals, fold, evidence.shown())


def _begins_elsewhere(choose: Callable[[Assignment, int], int]) -> Broken:
    def broken(patch: pytest.MonkeyPatch) -> None:
        kept = RestorePlanner.plan

        def plan(self: RestorePlanner, assignment: Assignment) -> RestorePlan:
            found = kept(self, assignment)
            offset = max(0, choose(assignment, found.offset))
            offsets = {assignment.partition: offset}
            return msgspec.structs.replace(found, offsets=offsets)

        patch.setattr(RestorePlanner, "plan", plan)

    return broken


def _late_events_are_in_the_newest_pane(patch: pytest.MonkeyPatch) -> None:
    kept = times.late

    def late(times: Any, clocks: Any, division: Any) -> Any:
        judged = kept(times, clocks, division)
        newest = clocks // division.pane * division.pane
        judged.starts[judged.late] = newest[judged.late]
        return judged

    patch.setattr(counting, "late", late)


def _no_flush_of_dead_letters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outbox, "flush", lambda _: None)


def _a_refused_commit_is_shown_all_the_same(patch: pytest.MonkeyPatch) -> None:
    kept = OffsetCommitter.add

    def add(
        self: OffsetCommitter, partition: Partition, durable_checkpoint: DurableCheckpoint
    ) -> None:
        kept(self, partition, durable_checkpoint)
        self._show(partition, durable_checkpoint)

    patch.setattr(OffsetCommitter, "add", add)


def _what_is_lost_is_saved_and_shown(patch: pytest.MonkeyPatch) -> None:
    kept = Checkpointer.lost

    def lost(self: Checkpointer, partitions: Sequence[Partition]) -> None:
        self._save_all(partitions)
        for partition, durable_checkpoint in self._committer._waiting.items():
            self._committer._show(partition, durable_checkpoint)
        kept(self, partitions)

    patch.setattr(Checkpointer, "lost", lost)


def _counters_begin_at_what_was_restored(patch: pytest.MonkeyPatch) -> None:
    kept = DurableCounters.begin
    patch.setattr(DurableCounters, "begin", lambda self, of, _, shown: kept(self, of, {}, shown))


def _the_lowest_checkpoint_is_loaded(patch: pytest.MonkeyPatch) -> None:
    kept = files.offsets_in
    patch.setattr(store, "offsets_in", lambda *of: kept(*of)[::-1])


def _what_has_changed_is_taken_for_settled(patch: pytest.MonkeyPatch) -> None:
    kept = PartitionCheckpoints._part

    def part(self: PartitionCheckpoints, section: Any) -> Part:
        mark = self._versions.get(section.name)
        return kept(self, section if mark is None else section._replace(version=mark.version))

    patch.setattr(PartitionCheckpoints, "_part", part)


def _folded_values_begin_at_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        DurableCounters, "_move", lambda self, lines, key, *_: self._settle(lines.pop(key))
    )


_SCHEDULES = 150
_BROKEN: dict[str, Broken] = {
    "commit before save": _before_each_save(_commit),
    "publish before save": _before_each_save(_publish),
    "restore to the end - 1": _begins_elsewhere(lambda _, offset: offset - 1),
    "restore to the commit": _begins_elsewhere(lambda of, offset: of.committed or offset),
    "a late event counts in a window": _late_events_are_in_the_newest_pane,
    "no flush of dead letters": _no_flush_of_dead_letters,
    "a refused commit is shown all the same": _a_refused_commit_is_shown_all_the_same,
    "what is lost is saved and shown": _what_is_lost_is_saved_and_shown,
    "counters begin at what was restored": _counters_begin_at_what_was_restored,
    "the lowest checkpoint is loaded": _the_lowest_checkpoint_is_loaded,
    "what has changed is taken for settled": _what_has_changed_is_taken_for_settled,
    "folded values begin at zero": _folded_values_begin_at_zero,
}

MISTAKES = tuple(
    Mistake(what, partial(run, _SCHEDULES), broken) for what, broken in _BROKEN.items()
)
