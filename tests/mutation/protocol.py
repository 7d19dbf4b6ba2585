"""A protocol of checkpoints that is wrong; the schedules of tests/durability must notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec
import pytest

from streameval.durability.checkpoint import Part
from streameval.durability.confirming import Confirmed, Confirming
from streameval.durability.counted import Durable
from streameval.durability.holding import Holding, Outcome
from streameval.durability.keeper import Keeper
from streameval.durability.outbox import Outbox
from streameval.durability.resuming import Resuming, Resumption
from streameval.durability.saving import Saving
from streameval.pipeline import partition as counting
from streameval.records import Assignment, Partition
from streameval.stores import folder, reading
from streameval.windows import lateness
from tests.durability.running import run
from tests.mutation.mistake import Broken, Mistake


def _before_each_save(act: Callable[[Saving, Holding], None]) -> Broken:
    def broken(patch: pytest.MonkeyPatch) -> None:
        kept = Saving._submitted

        def submitted(self: Saving, holding: Holding) -> Future[Outcome]:
            act(self, holding)
            return kept(self, holding)

        patch.setattr(Saving, "_submitted", submitted)

    return broken


def _commit(self: Saving, holding: Holding) -> None:
    self._confirming._commit({holding.partition: holding.position})


def _publish(self: Saving, holding: Holding) -> None:
    if holding.showing:
        evidence = self._confirming._evidence
        totals, fold = holding.totals_now(), evidence.folding(holding.partition)
        self._confirming._durable.publish(holding.partition, totals, fold, evidence.shown())


def _begins_elsewhere(choose: Callable[[Assignment, int], int]) -> Broken:
    def broken(patch: pytest.MonkeyPatch) -> None:
        kept = Resuming.decide

        def decide(self: Resuming, assignment: Assignment) -> Resumption:
            found = kept(self, assignment)
            offset = max(0, choose(assignment, found.offset))
            offsets = {assignment.partition: offset}
            return msgspec.structs.replace(found, offsets=offsets)

        patch.setattr(Resuming, "decide", decide)

    return broken


def _late_events_are_in_the_newest_pane(patch: pytest.MonkeyPatch) -> None:
    kept = lateness.late

    def late(times: Any, clocks: Any, division: Any) -> Any:
        judged = kept(times, clocks, division)
        newest = clocks // division.pane * division.pane
        judged.starts[judged.late] = newest[judged.late]
        return judged

    patch.setattr(counting, "late", late)


def _no_flush_of_dead_letters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outbox, "flush", lambda _: None)


def _a_refused_commit_is_shown_all_the_same(patch: pytest.MonkeyPatch) -> None:
    kept = Confirming.add

    def add(self: Confirming, partition: Partition, confirmed: Confirmed) -> None:
        kept(self, partition, confirmed)
        self._show(partition, confirmed)

    patch.setattr(Confirming, "add", add)


def _what_is_lost_is_saved_and_shown(patch: pytest.MonkeyPatch) -> None:
    kept = Keeper.lost

    def lost(self: Keeper, partitions: Sequence[Partition]) -> None:
        self._save_all(partitions)
        for partition, confirmed in self._confirming._waiting.items():
            self._confirming._show(partition, confirmed)
        kept(self, partitions)

    patch.setattr(Keeper, "lost", lost)


def _counters_begin_at_what_was_restored(patch: pytest.MonkeyPatch) -> None:
    kept = Durable.begin
    patch.setattr(Durable, "begin", lambda self, of, _, shown: kept(self, of, {}, shown))


def _the_lowest_checkpoint_is_loaded(patch: pytest.MonkeyPatch) -> None:
    kept = reading.offsets_in
    patch.setattr(folder, "offsets_in", lambda *of: kept(*of)[::-1])


def _what_has_changed_is_taken_for_settled(patch: pytest.MonkeyPatch) -> None:
    kept = Holding._part

    def part(self: Holding, section: Any) -> Part:
        mark = self._marks.get(section.name)
        return kept(self, section if mark is None else section._replace(version=mark.version))

    patch.setattr(Holding, "_part", part)


def _folded_values_begin_at_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Durable, "_move", lambda self, lines, key, *_: self._settle(lines.pop(key)))


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
