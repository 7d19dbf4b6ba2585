"""The protocol broken on purpose, to show that it would be noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from streameval.checkpoints.committer import DurableCheckpoint
from streameval.checkpoints.restore import RestorePlanner
from streameval.checkpoints.scheduler import CheckpointScheduler
from streameval.dead_letters.queue import Queue


def commit_first() -> None:
    """The group is told before the checkpoint is written."""
    scheduler: Any = CheckpointScheduler
    submitted = scheduler._submitted

    def hasty(self: Any, checkpoints: Any) -> Any:
        self._committer._commit({checkpoints.partition: checkpoints.position})
        return submitted(self, checkpoints)

    scheduler._submitted = hasty


def count_first() -> None:
    """Counters show what no checkpoint covers yet."""
    scheduler: Any = CheckpointScheduler
    submitted = scheduler._submitted

    def hasty(self: Any, checkpoints: Any) -> Any:
        checkpoints.took_early = checkpoints.totals_now() if checkpoints.showing else None
        if checkpoints.took_early is not None:
            durable = DurableCheckpoint(
                place=checkpoints.plan.place,
                offset=checkpoints.position,
                offsets=checkpoints.offsets,
                totals=checkpoints.took_early,
                fold=checkpoints._evidence.folding(checkpoints.partition),
            )
            self._committer._show(checkpoints.partition, durable)
        return submitted(self, checkpoints)

    scheduler._submitted = hasty


def restore_late() -> None:
    """Reading goes on one record behind the checkpoint."""
    planner: Any = RestorePlanner
    onward = planner._resume

    def late(self: Any, assignment: Any, saved: Any, **named: Any) -> Any:
        found = onward(self, assignment, saved, **named)
        after = min(found.offset + 1, assignment.end)
        return msgspec.structs.replace(found, offsets={assignment.partition: after})

    planner._resume = late


def letters_forgotten() -> None:
    """A checkpoint does not wait for the dead letters that it passes."""
    queue: Any = Queue
    queue.send = queue.flush = lambda *_: None


BREAKAGES: Mapping[str, Callable[[], None]] = MappingProxyType(
    {
        "commit-first": commit_first,
        "count-first": count_first,
        "restore-late": restore_late,
        "letters-forgotten": letters_forgotten,
    }
)
"""Each must make the scenarios of tests/chaos/test_breakages.py fail."""
