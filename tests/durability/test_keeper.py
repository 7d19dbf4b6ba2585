"""The checkpointer, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from streameval.checkpoints.checkpoint import Draft, Entry, Place, Skip
from streameval.checkpoints.cleaning import GRACE
from streameval.checkpoints.format import Content
from streameval.checkpoints.store import Found, SavedCheckpoint, Store
from streameval.decoding.columns import Decoded
from streameval.decoding.decode import Decoder
from streameval.errors import (
    DamagedStateError,
    SourceError,
    StoreError,
    UncountableRecordError,
    UnsavedStateError,
)
from streameval.events.records import Partition
from tests.durability.counting import MINUTE, START, digests
from tests.durability.keeping import Kept, P, Recorded, after, assignment, batch
from tests.stores.memory import MemoryStore

PANES = [f"labels/60/{START + minute}" for minute in range(3)]


class Failing(MemoryStore):
    """Refuses to save while it is told to."""

    full = False

    def save(self, draft: Draft) -> Any:
        if self.full:
            raise StoreError("memory", "no space left on device", "make room")
        return super().save(draft)


class Rotting(MemoryStore):
    """Its newest checkpoint is damaged as soon as it was chosen; then only the one before is left.

    Attributes:
        rotten: how many of them, newest first.
    """

    rotten = 1

    def newest(self, place: Place) -> Found:
        found = super().newest(place)
        if found.saved is None or not self.rotten:
            return found
        self.rotten -= 1
        header, entries = found.saved.header, found.saved.entries
        self.lose(place, header.offset)
        return Found(
            saved=SavedCheckpoint("", Content(header=header, entries=entries), _unreadable)
        )


def _unreadable(entry: Entry) -> bytes:
    """Of what was sound when it was looked at, and is no more."""
    raise DamagedStateError(entry.name, "a bit has flipped")


class Untidy(MemoryStore):
    """Superseded files cannot be removed, for this reason."""

    reason: str | None = None

    def save(self, draft: Draft) -> Any:
        saved = super().save(draft)
        self.cleanup_failure = self.reason
        return saved


class Costly(Recorded):
    """Each checkpoint takes two seconds of a processor."""

    kept: Kept

    def save(self, draft: Draft) -> Any:
        self.kept.spent += 2.0
        return super().save(draft)

    @property
    def took(self) -> float:
        return 2.0 * len(self.drafts)


def test_rounds_take_no_more_than_a_twentieth_of_the_time() -> None:
    kept = Kept(store := Costly())
    store.kept = kept
    kept.assign()
    before = kept.now
    for offset in range(100):
        kept.count(offset, offset + 1)
        kept.checkpoint()
    assert 2.0 < store.took <= 3 * 2.0 + (kept.now - before) / 20


def test_a_starved_process_spends_no_larger_share_of_its_work_on_rounds() -> None:
    kept = Kept(store := Costly())
    store.kept = kept
    kept.assign()
    for offset in range(400):
        kept.count(offset, offset + 1)
        # It has a tenth of a processor, and always work to do.
        kept.now += 10.0
        kept.spent += 1.0
        kept.checkpointer.advance()
    assert 2.0 < store.took <= 3 * 2.0 + kept.spent / 20


def test_what_is_damaged_after_it_was_chosen_is_passed_over() -> None:
    store = Rotting()
    store.rotten = 0
    kept = Kept(store)
    kept.assign()
    kept.count(0, 5)
    kept.checkpoint()
    kept.count(5, 9)
    kept.checkpoint()
    store.rotten = 1
    heir = Kept(store)
    assert heir.assign() == 5
    heir.count(5, 9)
    heir.checkpoint()
    store.rotten = 2
    with pytest.raises(DamagedStateError, match="a bit has flipped"):
        Kept(store).assign()


def test_a_partition_goes_on_from_its_checkpoint_and_its_counters_from_zero() -> None:
    kept = Kept(after(10))
    assert kept.assign(committed=10) == 10
    assert kept.shown == 0
    kept.count(10, 14)
    assert kept.shown == 0
    kept.checkpoint()
    assert (kept.shown, kept.commits) == (4, [{P: 14}])


def test_one_that_begins_has_a_checkpoint_at_once() -> None:
    store = MemoryStore()
    Kept(store).assign(start=40)
    assert Kept(store).assign(start=90) == 40


def test_checkpoints_are_made_after_the_interval_and_only_of_what_changed() -> None:
    kept = Kept(store := Recorded())
    kept.assign()
    kept.count(0, 5)
    kept.now = 9.9
    kept.checkpointer.advance()
    assert len(store.drafts) == 1
    kept.now = 10.0
    kept.checkpointer.advance()
    assert [draft.header.offset for draft in store.drafts] == [0, 5]
    kept.checkpoint()
    assert len(store.drafts) == 2


def test_checkpoints_are_made_after_so_many_records() -> None:
    kept = Kept(store := Recorded(), events=5)
    kept.assign()
    kept.count(0, 4)
    kept.checkpointer.advance()
    assert len(store.drafts) == 1
    kept.count(4, 5)
    kept.checkpointer.advance()
    assert store.drafts[-1].header.offset == 5


def test_what_did_not_change_is_written_once_and_found_again_after_a_restart() -> None:
    kept = Kept(store := Recorded())
    kept.assign()
    for start in (0, 5, 10):
        kept.count(start, start + 5)
        kept.checkpoint()
    assert [each.name for each in store.drafts[-1].parts if each.content is None] == ["labels/past"]
    heir = Kept(store)
    heir.assign(committed=15)
    heir.count(15, 16)
    heir.checkpoint()
    before, after = ({each.name: each.blob for each in table} for table in store.tables[-2:])
    assert before["labels/past"] is not None
    assert after["labels/past"] == before["labels/past"]


def test_a_pane_that_came_and_closed_since_the_last_checkpoint_is_written_once() -> None:
    kept = Kept(store := Recorded())
    kept.assign()

    def panes() -> list[tuple[bool, bool]]:
        """Which panes are settled, and which are not given again."""
        parts = [each for each in store.drafts[-1].parts if each.name in PANES]
        return [(each.settled, each.content is None) for each in parts]

    for minute in range(3):
        kept.count(minute, minute + 1, minute)
    kept.checkpoint()
    # An event may come a minute late: nothing more is awaited in the first minute alone.
    assert panes() == [(True, False), (False, False), (False, False)]
    kept.count(3, 4, minute=2)
    kept.checkpoint()
    assert panes() == [(True, True), (True, False), (False, False)]
    kept.count(4, 5, minute=0)
    kept.checkpoint()
    assert panes() == [(False, False), (True, True), (True, False)]


def test_a_former_owner_whose_blobs_are_gone_takes_nothing_from_its_heir() -> None:
    store = Recorded()
    late = Kept(store)
    late.assign()
    for start in (0, 5, 10):
        late.count(start, start + 5)
        late.checkpoint()
    late.count(15, 30, minute=1)
    heir = Kept(store)
    heir.assign()
    for end in (16, 17, 18):
        # Events without a pane: the past of the heir is no longer that of the other.
        heir.count(end - 1, end, minute=-10)
        heir.checkpoint()
        store.disk.now += GRACE + 1
    late.checkpoint()
    (news,) = late.news()
    assert "of an earlier checkpoint is missing" in news.fields["problem"]
    late.count(30, 31, minute=1)
    late.checkpoint()
    again = Kept(store)
    assert again.assign() == 31
    assert digests(again.ingest, P) == digests(late.ingest, P)


def test_a_damaged_blob_fails_one_checkpoint_and_the_next_writes_everything_anew() -> None:
    store = Recorded()
    kept = Kept(store)
    kept.assign()
    ends = (1, 2, 3, 6, 10)
    for minute, (start, stop) in enumerate(pairwise((0, *ends))):
        kept.count(start, stop, minute)
    kept.checkpoint()
    (blob,) = {each.blob for each in store.tables[-1]} - {None}
    (path,) = [each for each in store.disk.files() if each.name == blob]
    store.disk.overwrite(path, bytes(store.disk.size(path)))
    # Late events: less than half of the blob is needed, so the rest of it is to be written anew.
    for minute in range(3):
        kept.count(10 + minute, 11 + minute, minute)
    kept.checkpoint()
    (news,) = kept.news()
    problem = str(news.fields["problem"])
    assert "is not what was written" in problem
    assert "the next checkpoint writes it again" in problem
    kept.count(13, 14, minute=4)
    kept.checkpoint()
    assert kept.events == ["checkpoints recovered"]
    heir = Kept(store)
    assert heir.assign() == 14
    assert digests(heir.ingest, P) == digests(kept.ingest, P)


def test_what_a_restart_folds_into_the_past_is_in_its_first_checkpoint() -> None:
    store = MemoryStore()
    kept = Kept(store, spans=(3 * MINUTE,))
    kept.assign()
    for minute in range(4):
        kept.count(minute, minute + 1, minute)
        kept.checkpoint()
    heir = Kept(store, spans=(MINUTE,))
    heir.assign()
    heir.count(4, 5, minute=3)
    heir.checkpoint()
    again = Kept(store, spans=(MINUTE,))
    again.assign()
    assert digests(again.ingest, P) == digests(heir.ingest, P)


def test_a_failed_checkpoint_shows_and_commits_nothing_and_is_tried_again() -> None:
    store = Failing()
    kept = Kept(store)
    kept.assign()
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


def test_superseded_files_that_stay_are_told_once_until_they_could_be_removed() -> None:
    store = Untidy()
    kept = Kept(store)
    kept.assign()
    told = []
    for place, trouble in enumerate(["permission denied", "permission denied", None, "read-only"]):
        store.reason = trouble
        kept.count(5 * place, 5 * place + 5)
        kept.checkpoint()
        told.append([each.fields["problem"] for each in kept.news()])
    assert told == [["permission denied"], [], [], ["read-only"]]


def test_a_last_checkpoint_that_fails_ends_with_an_error() -> None:
    store = Failing()
    kept = Kept(store)
    kept.assign()
    kept.checkpointer.finish()
    kept.count(0, 5)
    store.full = True
    with pytest.raises(UnsavedStateError, match=r"events.*no space left on device") as raised:
        kept.checkpointer.finish()
    assert len(raised.value.places) == 1


def test_dead_letters_that_are_not_safe_hold_the_checkpoint_back() -> None:
    kept = Kept(store := Recorded())
    kept.assign()
    kept.count(0, 5)
    kept.letters.failing = True
    kept.checkpoint()
    assert [draft.header.offset for draft in store.drafts] == [0]
    kept.checkpoint()
    assert [draft.header.offset for draft in store.drafts] == [0, 5]


def test_what_the_group_does_not_take_is_not_shown_until_it_does() -> None:
    kept = Kept()
    kept.assign()
    kept.checkpoint()
    kept.count(0, 5)
    kept.trouble = "the group refused the commit"
    kept.checkpoint()
    kept.checkpoint()
    assert (kept.shown, kept.checkpointer.commit_failures) == (0, 2)
    assert kept.checkpointer.health.offsets == {P: 5}
    kept.trouble = None
    kept.checkpoint()
    assert (kept.shown, kept.commits[-1]) == (5, {P: 5})
    assert kept.events == ["offsets were not committed", "commits recovered"]


def test_what_is_revoked_is_saved_and_gone_and_its_counters_stay() -> None:
    store: Store = MemoryStore()
    kept = Kept(store)
    kept.assign()
    kept.count(0, 5)
    kept.checkpointer.revoked([P])
    assert (kept.shown, kept.commits) == (5, [{P: 5}])
    assert not kept.ingest.positions
    assert Kept(store).assign(committed=5) == 5


def test_what_is_lost_is_forgotten_unsaved() -> None:
    store: Store = MemoryStore()
    kept = Kept(store)
    kept.assign()
    kept.count(0, 5)
    kept.checkpointer.lost([P])
    assert (kept.shown, kept.commits, kept.ingest.positions) == (0, [], {})
    assert Kept(store).assign() == 0


def test_no_budget_leaves_the_work_to_the_next_owner() -> None:
    store: Store = MemoryStore()
    kept = Kept(store, budget=0.0)
    kept.assign()
    kept.count(0, 5)
    kept.checkpointer.revoked([P])
    assert kept.shown == 0
    heir = Kept(store)
    assert heir.assign() == 0


def test_a_partition_that_comes_back_is_not_shown_twice_though_its_checkpoint_is_older() -> None:
    kept = Kept()
    kept.assign()
    kept.count(0, 5)
    kept.checkpoint()
    assert isinstance(kept.store, MemoryStore)
    kept.store.lose(kept.store.places()[0], 5)
    kept.checkpointer.lost([P])
    assert kept.assign() == 0
    kept.count(0, 7)
    kept.checkpoint()
    assert kept.shown == 7


def test_abandoning_saves_nothing_not_even_when_partitions_are_revoked_after_it() -> None:
    kept = Kept(store := Recorded())
    kept.assign()
    kept.count(0, 5)
    kept.checkpointer.abandon()
    kept.checkpoint()
    kept.checkpointer.revoked([P])
    assert [draft.header.offset for draft in store.drafts] == [0]


def test_a_batch_that_comes_twice_is_refused_and_changes_nothing() -> None:
    kept = Kept()
    kept.assign()
    kept.count(0, 5)
    with pytest.raises(SourceError, match="was delivered again"):
        kept.checkpointer.apply(batch(3, 8))
    assert kept.ingest.positions == {P: 5}


def test_a_record_that_is_skipped_between_two_processes_is_passed_and_safe_before_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    kept = Kept(store)
    kept.assign()
    kept.count(0, 5)
    kept.checkpoint()
    decode_many = Decoder.decode_many

    def mistaken(self: Decoder, values: Sequence[bytes | None]) -> Decoded:
        if batch(7, 8).values[0] in values:
            raise KeyError("note")
        return decode_many(self, values)

    monkeypatch.setattr(Decoder, "decode_many", mistaken)
    with pytest.raises(UncountableRecordError) as caught:
        kept.count(5, 10)
    kept.checkpointer.abandon()
    noted = kept.checkpointer.note(caught.value)
    assert "--topic events --partition 0 --offset 7" in str(noted)
    (place,) = store.places()
    (stop,) = store.stops(place)
    assert (stop.offset, str(stop.record)) == (7, "events/0/7")
    store.skip(place, Skip(stop=stop, by="ada", at=0))
    heir = Kept(store)
    assert heir.assign(committed=5) == 5
    heir.count(5, 10)
    heir.checkpoint()
    assert (heir.shown, heir.checkpointer.health.offsets) == (4, {P: 10})
    assert heir.safe == {stop.record}


def test_trouble_with_checkpoints_is_told_once_and_its_end_once() -> None:
    kept = Kept(store := Failing())
    other = Partition("events", 1)
    kept.assign()
    kept.checkpointer.assigned([assignment(partition=other)])
    kept.news()
    store.full = True
    for offset in range(3):
        kept.count(offset, offset + 1)
        kept.checkpointer.apply(batch(offset, offset + 1, other))
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
