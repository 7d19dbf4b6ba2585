"""Checkpoints that cannot be written, and partitions without checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from streameval.checkpoints.checkpointer import MemoryOnly, split
from streameval.checkpoints.format import CheckpointDraft, Shard
from streameval.checkpoints.scheduler import ProcessClock
from streameval.checkpoints.store import folder_store
from streameval.engine.dead_letters import DeadLetter, Identity
from streameval.events.errors import (
    DeadLetterError,
    RefusedRecordsError,
    StoreError,
    UnsavedStateError,
)
from streameval.events.records import Partition, RecordBatch
from tests.batches import batch_of
from tests.crashes.simulated_disk import Step
from tests.dead_letters.samples import make_dead_letter
from tests.durability.checkpointing import OTHER, LoneMember, P, assignment, batch, owner
from tests.durability.process import DeadLetterLog, Inline, ingest
from tests.stores.drafts import MemoryStore


class Failing(MemoryStore):
    """Refuses to save while it is full."""

    full = False

    def save(self, drafts: Sequence[CheckpointDraft], *more: Any) -> frozenset[Shard]:
        if self.full:
            raise StoreError("memory", "no space left on device", "make room")
        return super().save(drafts, *more)


class Untidy(MemoryStore):
    """Cannot remove superseded files, for this reason."""

    reason: str | None = None

    def save(self, drafts: Sequence[CheckpointDraft], *more: Any) -> frozenset[Shard]:
        saved = super().save(drafts, *more)
        self.cleanup_failure = self.reason
        return saved


def test_failed_checkpoints_show_and_commit_nothing_and_are_logged_once_until_one_succeeds() -> (
    None
):
    member = owner(store := Failing())
    member.checkpointer.assigned([assignment(partition=OTHER)])
    member.checkpoint()
    member.news()
    committed = member.commits[-1]
    store.full = True
    for offset in range(3):
        member.count(offset, offset + 1)
        member.checkpointer.apply(batch(offset, offset + 1, OTHER))
        member.checkpoint()
    (begin,) = member.news()
    assert (begin.level, begin.event) == ("warning", "a checkpoint was not written")
    assert "no space left on device" in begin.fields["problem"]
    assert begin.fields["partitions"] == 2
    assert (member.shown, member.commits[-1]) == (0, committed)
    assert member.checkpointer.health.failures == {"store": 3, "dead_letters": 0, "timeout": 0}
    assert str(member.checkpointer.failure).startswith("checkpoints fail: ")
    store.full = False
    member.checkpoint()
    assert (member.shown, member.commits[-1]) == (6, {P: 3, OTHER: 3})
    assert member.checkpointer.durable == {P: 3, OTHER: 3}
    assert member.checkpointer.failure is None
    (end,) = member.news()
    assert (end.level, end.event) == ("info", "checkpoints recovered")
    member.count(3, 4)
    member.checkpoint()
    assert member.events == []
    store.full = True
    member.count(4, 5)
    member.checkpoint()
    assert member.events == ["a checkpoint was not written"]


def test_a_failed_cleanup_is_logged_once_until_it_succeeds() -> None:
    member = owner(store := Untidy())
    told = []
    for row, reason in enumerate(["permission denied", "permission denied", None, "read-only"]):
        store.reason = reason
        member.count(5 * row, 5 * row + 5)
        member.checkpoint()
        told.append([log_event.fields["problem"] for log_event in member.news()])
    assert told == [["permission denied"], [], [], ["read-only"]]


def test_a_failed_last_checkpoint_is_an_error() -> None:
    member = owner(store := Failing())
    member.checkpointer.finish()
    member.count(0, 5)
    member.now = 60.0
    store.full = True
    with pytest.raises(UnsavedStateError, match=r"events.*no space left on device") as raised:
        member.checkpointer.finish()
    assert raised.value.has_earlier == {"events[0]": True}
    assert str(raised.value).endswith("The next start resumes at the checkpoint before it.")
    # It took no time, so there is nothing to say of its progress.
    assert "saving state" not in member.events


def _with_a_slow_disk(seconds: float, **settings: Any) -> tuple[LoneMember, MemoryStore]:
    """A process that has counted a record of each of 40 partitions; a write takes some seconds."""
    member = LoneMember(store := MemoryStore(), **settings)
    logs = [Partition("events", number) for number in range(40)]
    member.checkpointer.assigned([assignment(partition=log, partitions=40) for log in logs])
    for log in logs:
        member.checkpointer.apply(batch(0, 1, log))

    def slowly(step: Step) -> None:
        member.now += seconds * (step.call == "write")

    store.disk.before = slowly
    return member, store


def test_what_the_budget_allows_is_saved_and_the_rest_is_counted_again() -> None:
    member, store = _with_a_slow_disk(0.1, budget=10.0)
    logs = [Partition("events", number) for number in range(40)]
    member.checkpointer.revoked(logs)
    offsets = [store.offset(shard) for shard in store.shards()]
    assert len(offsets) == 40
    assert 0 < offsets.count(1) < 40
    assert [member.commits[-1][log] for log in logs] == offsets


def test_the_last_round_has_all_partitions_however_long_that_takes() -> None:
    member, store = _with_a_slow_disk(0.5)
    member.checkpointer.finish()
    assert {store.offset(shard) for shard in store.shards()} == {1}
    (saved,) = member.news()
    assert (saved.event, saved.fields["partitions"]) == ("state saved", 40)


def test_a_last_checkpoint_without_an_earlier_one_does_not_promise_to_resume(
    tmp_path: Path,
) -> None:
    member = owner(folder_store(tmp_path / "state"))
    member.count(0, 5)
    member.checkpoint()
    member.count(5, 10)
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(UnsavedStateError) as raised:
        member.checkpointer.finish()
    assert raised.value.has_earlier == {"events[0]": False}
    no_promise = "The store has no earlier checkpoint of events[0] to resume at."
    assert str(raised.value).endswith(no_promise)


def test_a_recovery_after_a_rebalance_is_logged() -> None:
    member = owner(store := Failing())
    store.full = True
    member.count(0, 5)
    member.checkpoint()
    assert member.events == ["a checkpoint was not written"]
    store.full = False
    member.checkpointer.lost([P])
    member.assign()
    member.count(0, 5)
    member.checkpoint()
    assert member.events == ["checkpoints recovered"]


def test_full_dead_letters_are_written_although_no_partition_can_change() -> None:
    member = owner()
    member.checkpoint()
    member.letters.send([make_dead_letter(1)])
    member.letters.full = member.letters.failing = True
    member.checkpoint()
    assert not member.safe
    member.letters.full = False
    member.checkpoint()
    assert (member.safe, member.checkpointer.health.failures["dead_letters"]) == (set(), 1)
    member.letters.full = True
    member.checkpoint()
    assert member.safe == {make_dead_letter(1).identity}


def test_a_partition_starts_while_dead_letters_of_others_cannot_be_written() -> None:
    member = owner()
    member.letters.send([make_dead_letter(1)])
    member.letters.failing = True
    member.checkpointer.assigned([assignment(partition=OTHER)])
    assert member.checkpointer.durable == {P: 0, OTHER: 0}
    assert not member.safe


WHOLE = RecordBatch(
    partition=P,
    values=[b"a", None, b"c"],
    offsets=[3, 5, 6],
    next_offset=9,
    timestamps=[30, 50, 60],
    keys=[b"a", None, b"c"],
    headers=lambda place: [("place", b"%d" % place)],
)


@pytest.mark.parametrize("offset", [4, 5])
def test_a_batch_is_split_with_all_its_columns(offset: int) -> None:
    head, tail = split(WHOLE, offset)
    assert (head.values, head.offsets, head.next_offset) == ([b"a"], [3], offset)
    assert (tail.values, tail.offsets, tail.next_offset) == ([None, b"c"], [5, 6], 9)
    assert (head.timestamps, tail.timestamps) == ([30], [50, 60])
    assert (head.keys, tail.keys) == ([b"a"], [None, b"c"])
    assert tail.headers is not None
    assert tail.headers(1) == [("place", b"2")]


@pytest.mark.parametrize("offset", [0, 3, 9, 12])
def test_a_batch_on_one_side_stays_whole(offset: int) -> None:
    assert split(WHOLE, offset) == [WHOLE]


def test_without_a_store_partitions_start_at_the_configured_offset() -> None:
    now, safe, counts = [0.0], set[Identity](), ingest()
    dead_letters = DeadLetterLog(safe)
    owner = MemoryOnly(counts, dead_letters, ProcessClock(monotonic=lambda: now[0]), Inline())
    assert owner.assigned([assignment(start=4, committed=50)]) == {P: 4}
    owner.apply(batch(4, 6))
    owner.apply(batch_of(P, [b"garbage"], 6))
    assert counts.positions == {P: 7}
    owner.advance()
    assert safe == set()
    now[0] = 10.0
    owner.advance()
    assert safe == {Identity(P, 6)}
    assert (owner.counted, owner.health) == (None, None)
    owner.revoked([P])
    assert not counts.positions


def test_without_a_store_a_failed_flush_of_letters_is_logged_and_retried() -> None:
    now = [0.0]
    dead_letters = DeadLetterLog(set())
    owner = MemoryOnly(ingest(), dead_letters, ProcessClock(monotonic=lambda: now[0]), Inline())
    dead_letters.failing = True
    now[0] = 10.0
    owner.advance()
    owner.advance()
    assert [log_event.event for log_event in owner.take_log_events()] == [
        "dead letters are not safe yet"
    ]
    dead_letters.failing = True
    with pytest.raises(DeadLetterError):
        owner.finish()
    dead_letters.failing = True
    owner.abandon()
    assert [log_event.event for log_event in owner.take_log_events()] == [
        "dead letters were not written"
    ]
    owner.finish()


def test_without_a_store_letters_that_exceed_a_limit_at_the_end_are_written_and_hide_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    safe, counts = set[Identity](), ingest()
    owner = MemoryOnly(counts, DeadLetterLog(safe), ProcessClock(), Inline())
    taken: Iterator[RefusedRecordsError | list[DeadLetter]] = iter(
        [RefusedRecordsError("too many"), [make_dead_letter(3)]]
    )

    def take() -> list[DeadLetter]:
        if isinstance(outcome := next(taken), Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(counts, "take_dead_letters", take)
    owner.abandon()
    assert [record.offset for record in safe] == [3]
