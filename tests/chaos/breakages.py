"""The protocol broken on purpose, to show that it would be noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from streameval.dead_letters.queue import Queue
from streameval.durability.confirming import Confirmed
from streameval.durability.resuming import Resuming
from streameval.durability.saving import Saving


def commit_first() -> None:
    """The group is told before the checkpoint is written."""
    saving: Any = Saving
    submitted = saving._submitted

    def hasty(self: Any, holding: Any) -> Any:
        self._confirming._commit({holding.partition: holding.position})
        return submitted(self, holding)

    saving._submitted = hasty


def count_first() -> None:
    """Counters show what no checkpoint covers yet."""
    saving: Any = Saving
    submitted = saving._submitted

    def hasty(self: Any, holding: Any) -> Any:
        holding.took_early = holding.totals_now() if holding.showing else None
        if holding.took_early is not None:
            place, fold = holding.resumption.place, holding._evidence.folding(holding.partition)
            confirmed = Confirmed(
                place, holding.position, holding.offsets, holding.took_early, fold
            )
            self._confirming._show(holding.partition, confirmed)
        return submitted(self, holding)

    saving._submitted = hasty


def restore_late() -> None:
    """Reading goes on one record behind the checkpoint."""
    resuming: Any = Resuming
    onward = resuming._onward

    def late(self: Any, assignment: Any, saved: Any, **named: Any) -> Any:
        found = onward(self, assignment, saved, **named)
        after = min(found.offset + 1, assignment.end)
        return msgspec.structs.replace(found, offsets={assignment.partition: after})

    resuming._onward = late


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
