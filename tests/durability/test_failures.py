"""Checkpoints that cannot be written: the log, and the error at the end."""

from __future__ import annotations

from typing import Any

import pytest

from streameval.checkpoints.checkpoint import Draft
from streameval.errors import StoreError, UnsavedStateError
from streameval.events.records import Partition
from tests.dead_letters.places import letter
from tests.durability.checkpointing import P, assignment, batch, owner
from tests.stores.drafts import MemoryStore

OTHER = Partition("events", 1)


class Failing(MemoryStore):
    """Refuses to save while it is full."""

    full = False

    def save(self, draft: Draft) -> Any:
        if self.full:
            raise StoreError("memory", "no space left on device", "make room")
        return super().save(draft)


class Untidy(MemoryStore):
    """Cannot remove superseded files, for this reason."""

    reason: str | None = None

    def save(self, draft: Draft) -> Any:
        saved = super().save(draft)
        self.cleanup_failure = self.reason
        return saved


def test_a_failed_checkpoint_shows_and_commits_nothing_and_is_retried() -> None:
    kept = owner(store := Failing())
    kept.count(0, 5)
    store.full = True
    kept.checkpoint()
    assert (kept.shown, kept.commits[-1]) == (0, {P: 0})
    assert kept.checkpointer.health.failures == {"store": 1, "dead_letters": 0, "timeout": 0}
    (news,) = kept.news()
    assert "no space left on device" in news.fields["problem"]
    assert news.fields["resumes_at"] == 0
    store.full = False
    kept.checkpoint()
    assert (kept.shown, kept.commits[-1]) == (5, {P: 5})
    assert kept.checkpointer.health.offsets == {P: 5}


def test_failing_checkpoints_are_logged_once_and_their_recovery_once() -> None:
    kept = owner(store := Failing())
    kept.checkpointer.assigned([assignment(partition=OTHER)])
    kept.news()
    store.full = True
    for offset in range(3):
        kept.count(offset, offset + 1)
        kept.checkpointer.apply(batch(offset, offset + 1, OTHER))
        kept.checkpoint()
    (begin,) = kept.news()
    assert (begin.level, begin.event) == ("warning", "a checkpoint was not written")
    assert kept.checkpointer.health.failures["store"] == 6
    store.full = False
    kept.checkpoint()
    (end,) = kept.news()
    assert (end.level, end.event) == ("info", "checkpoints recovered")
    kept.count(3, 4)
    kept.checkpoint()
    assert kept.events == []
    store.full = True
    kept.count(4, 5)
    kept.checkpoint()
    assert kept.events == ["a checkpoint was not written"]


def test_a_failed_cleanup_is_logged_once_until_it_succeeds() -> None:
    kept = owner(store := Untidy())
    told = []
    for place, trouble in enumerate(["permission denied", "permission denied", None, "read-only"]):
        store.reason = trouble
        kept.count(5 * place, 5 * place + 5)
        kept.checkpoint()
        told.append([each.fields["problem"] for each in kept.news()])
    assert told == [["permission denied"], [], [], ["read-only"]]


def test_a_failed_last_checkpoint_is_an_error() -> None:
    kept = owner(store := Failing())
    kept.checkpointer.finish()
    kept.count(0, 5)
    store.full = True
    with pytest.raises(UnsavedStateError, match=r"events.*no space left on device") as raised:
        kept.checkpointer.finish()
    assert len(raised.value.places) == 1


def test_a_recovery_after_a_rebalance_is_logged() -> None:
    kept = owner(store := Failing())
    store.full = True
    kept.count(0, 5)
    kept.checkpoint()
    assert kept.events == ["a checkpoint was not written"]
    store.full = False
    kept.checkpointer.lost([P])
    kept.assign()
    kept.count(0, 5)
    kept.checkpoint()
    assert kept.events == ["checkpoints recovered"]


def test_full_dead_letters_are_written_although_no_partition_can_change() -> None:
    kept = owner()
    kept.checkpoint()
    kept.letters.send([letter(1)])
    kept.letters.full = kept.letters.failing = True
    kept.checkpoint()
    assert not kept.safe
    kept.letters.full = False
    kept.checkpoint()
    assert (kept.safe, kept.checkpointer.health.failures["dead_letters"]) == (set(), 1)
    kept.letters.full = True
    kept.checkpoint()
    assert kept.safe == {letter(1).identity}


def test_a_partition_starts_while_dead_letters_of_others_cannot_be_written() -> None:
    kept = owner()
    kept.letters.send([letter(1)])
    kept.letters.failing = True
    kept.checkpointer.assigned([assignment(partition=OTHER)])
    assert kept.checkpointer.health.offsets == {P: 0, OTHER: 0}
    assert not kept.safe
