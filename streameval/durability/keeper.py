"""Keeps state over crashes, restarts and moves: restores, saves, and shows what became durable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from shlex import quote
from typing import Final

from streameval.durability.confirming import Commit, Confirming
from streameval.durability.counted import Durable
from streameval.durability.holding import Holding
from streameval.durability.needs import Clock, Counts, Evidence, Totals
from streameval.durability.news import News
from streameval.durability.outbox import Outbox
from streameval.durability.resuming import Resuming, Resumption
from streameval.durability.saving import Saving
from streameval.durability.skipping import Stop
from streameval.durability.splitting import split
from streameval.durability.store import Store
from streameval.durability.terms import Terms
from streameval.errors import (
    DamagedStateError,
    UncountableRecordError,
    UnlikeStateError,
    UnsavedStateError,
)
from streameval.pipeline.dead_letters import DeadLetters
from streameval.pipeline.snapshot import CheckpointHealth
from streameval.records import Assignment, Partition, RecordBatch

_LAST_SECONDS: Final = 8.0
"""Whoever ends a process waits ten, as a rule."""


class Keeper:
    """Owns partitions: each goes on from its newest checkpoint, and is saved every so often.

    All of it is called on the polling thread; only the worker has another one.

    Args:
        counts: what is counted.
        store: where checkpoints lie.
        terms: under which state is kept.
        commit: tells the group how far has been counted, as `Source.commit` does.
        evidence: reads what counters show.
        letters: where invalid records go; None where they are counted only.
        clock: where time comes from.
        worker: writes checkpoints, one after the other.
    """

    def __init__(
        self,
        counts: Counts,
        store: Store,
        terms: Terms,
        *,
        commit: Commit,
        evidence: Evidence,
        letters: DeadLetters | None,
        clock: Clock,
        worker: Executor,
    ) -> None:
        self._skipped = 0
        self._counts = counts
        self._store = store
        self._terms = terms
        self._evidence = evidence
        self._commit = commit
        self._letters = letters
        self._clock = clock
        self._outbox = Outbox(letters)
        self._durable = Durable()
        self._confirming = Confirming(commit, self._durable, evidence)
        self._saving = Saving(
            store, self._outbox, self._confirming, terms=terms, clock=clock, worker=worker
        )
        self._holdings: dict[Partition, Holding] = {}
        self._news: list[News] = []
        self._claimed = False
        self._abandoned = False

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        """Restore each partition from its newest sound checkpoint; see `Owner.assigned`.

        Nothing is begun unless all may go on. One that begins with nothing has a checkpoint when
        this returns, so that where it began is never in doubt.

        Raises:
            ForeignStoreError: the store belongs to another cluster or group.
            RefusedStateError: going on would be wrong, and no policy says how.
            StoreError: the store cannot be used.
        """
        if not self._claimed:
            self._store.claim(self._terms.cluster(), self._terms.group)
            self._claimed = True
        self.lost([each.partition for each in assignments if each.partition in self._holdings])
        resuming = Resuming(self._store, self._terms, self._confirming.shown)
        decided = [resuming.decide(each) for each in assignments]
        adopted = [self._adopt(resuming, each) for each in decided]
        return {log: offset for each in adopted for log, offset in each.offsets.items()}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Save them, within the budget; what is not saved then is counted by the next owner."""
        self._save_all(partitions)
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget whatever is not durable of them; what counters have shown stays."""
        self._confirming.forget(partitions)
        for partition in sorted(partitions):
            if self._holdings.pop(partition, None) is not None:
                self._durable.leave(partition)
                self._evidence.leave(partition)
                self._counts.drop(partition)

    def apply(self, batch: RecordBatch) -> None:
        """Count a batch; its invalid records go their way at once.

        Raises:
            SourceError: it begins before its partition's position.
            UncountableRecordError: counting failed by a mistake; says which record to skip.
        """
        holding = self._holdings[self._counts.home(batch.partition)]
        for piece in _pieces(holding, batch):
            if not holding.showing and holding.passes(piece):
                self._show(holding)
            self._count(holding, piece)
        self._saving.events += len(batch.values)
        self._outbox.send(self._counts.take_letters())

    def _count(self, holding: Holding, batch: RecordBatch) -> None:
        try:
            self._counts.apply(batch)
        except UncountableRecordError as error:
            if error.offset is None:
                raise
            topic, number = batch.partition
            stop = Stop(
                topic=topic,
                partition=number,
                offset=error.offset,
                problem=error.problem,
                at=self._clock.wall(),
            )
            self._store.note(holding.resumption.place, stop)
            remedy = (
                "Nothing after it is counted. To make it a dead letter and go on: streameval skip "
                f"CONFIG --topic {quote(topic)} --partition {number} --offset {error.offset}"
            )
            raise UncountableRecordError(
                error.where, error.offsets, error.problem, remedy
            ) from error

    def saved(self, partition: Partition, position: int) -> bool:
        """Whether a checkpoint covers this position."""
        holding = self._holdings.get(partition)
        return holding is not None and holding.offset is not None and holding.offset >= position

    def hasten(self) -> None:
        """Begin the next checkpoints at the next turn."""
        self._saving.hasten()

    def turn(self) -> None:
        """Get on with checkpoints, a few milliseconds of work; to be called between batches."""
        if not self._abandoned:
            self._news += self._saving.turn(self._holdings)

    def finish(self) -> None:
        """Save everything that has changed, within a few seconds: the end of the process.

        Raises:
            UnsavedStateError: not everything could be.
        """
        self._save_all(list(self._holdings), _LAST_SECONDS)
        unsaved = [each for _, each in sorted(self._holdings.items()) if each.changed]
        if unsaved:
            places = [str(each.resumption.place) for each in unsaved]
            told = [str(each.fields["problem"]) for each in self._news if "problem" in each.fields]
            raise UnsavedStateError(places, told[-1] if told else "there was no time left")

    def abandon(self) -> None:
        """End without another checkpoint: what was counted last must not be passed over."""
        self._abandoned = True
        self._news += self._saving.wait(self._holdings.values())

    @property
    def counted(self) -> Totals:
        """What checkpoints made durable since this process started."""
        return self._durable.totals()

    @property
    def health(self) -> CheckpointHealth:
        """How well state is being kept."""
        offsets = {
            log: offset
            for _, holding in sorted(self._holdings.items())
            for log, offset in holding.durable.items()
        }
        return CheckpointHealth(
            last_success=self._saving.last_success,
            failures=dict(self._saving.failures),
            offsets=offsets,
            skipped=self._skipped,
        )

    @property
    def commit_failures(self) -> int:
        """Commits that the group did not take."""
        return self._confirming.failures

    def take_news(self) -> Sequence[News]:
        """What happened since the last call."""
        taken, self._news = self._news, []
        return taken

    def _save_all(self, partitions: Sequence[Partition], most: float = math.inf) -> None:
        if self._abandoned:
            return
        chosen = [self._holdings[each] for each in sorted(partitions) if each in self._holdings]
        self._news += self._saving.save(chosen, most)

    def _adopt(
        self, resuming: Resuming, resumption: Resumption, *, once_more: bool = True
    ) -> Resumption:
        self._news += resumption.news
        saved = resumption.saved
        if saved is None:
            return self._begin(resumption)
        try:
            parts = {name: saved.read(name) for name in sorted(saved.digests)}
            self._counts.restore(resumption.assignment.partition, resumption.offsets, parts)
        except UnlikeStateError as error:
            problem = f"its state cannot go on: {error}".rstrip(".")
            assignment = resumption.assignment
            return self._adopt(resuming, resuming.anew(assignment, "on_other_settings", problem))
        except DamagedStateError:
            # It was sound when it was chosen: whoever damaged it since, another one may be left.
            if not once_more:
                raise
            decided = resuming.decide(resumption.assignment)
            return self._adopt(resuming, decided, once_more=False)
        holding = self._hold(resumption)
        holding.restored(saved)
        self._skipped += resumption.skipped
        return resumption

    def _begin(self, resumption: Resumption) -> Resumption:
        if resumption.given_up:
            self._store.set_aside(resumption.place)
        self._counts.begin(resumption.assignment.partition, resumption.offsets)
        self._saving.first(self._hold(resumption))
        return resumption

    def _hold(self, resumption: Resumption) -> Holding:
        holding = Holding(resumption, self._counts, self._evidence, self._store)
        self._holdings[holding.partition] = holding
        skips = self._store.skips(resumption.place)
        self._counts.skip({each.stop.record: each.message for each in skips})
        if holding.position >= holding.counted:
            self._show(holding)
        return holding

    def _show(self, holding: Holding) -> None:
        holding.showing = True
        self._durable.begin(holding.partition, holding.totals_now(), self._evidence.shown())


def _pieces(holding: Holding, batch: RecordBatch) -> list[RecordBatch]:
    """Cut where counters begin; of several logs, they begin with a whole batch."""
    if holding.showing or holding.joined:
        return [batch]
    return split(batch, holding.counted)
