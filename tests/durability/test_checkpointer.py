"""The checkpointer, step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from streameval.checkpoints.format import CheckpointDraft, Entry, Shard
from streameval.checkpoints.store import (
    Listing,
    NewestCheckpoint,
    SavedCheckpoint,
    folder_store,
)
from streameval.decoding.fields import EventFields
from streameval.engine.clock import ClockRule
from streameval.engine.partition import Layout
from streameval.events.errors import DamagedStateError, RefusedStateError
from streameval.events.records import CommitAnswer, Partition
from streameval.events.saved_states import damaged
from streameval.join.attribution import AttributionOptions, InteractionOptions
from streameval.join.frontend import JoinFrontend
from streameval.join.state import JoinedState
from tests.batches import batch_of
from tests.crashes.workload import Joined
from tests.durability.checkpointing import (
    OTHER,
    LoneMember,
    P,
    Recorded,
    after,
    assignment,
    batch,
    owner,
    with_policy,
)
from tests.durability.process import MINUTE, START, STORE, digests
from tests.stores.drafts import MemoryStore

SHOWN, CLICKS = Partition("shown", 0), Partition("clicks", 0)
PANES = [f"labels/60/{START + minute}" for minute in range(3)]


class Rotting(MemoryStore):
    """Its newest checkpoints are damaged after they were chosen.

    Attributes:
        rotten: number of damaged checkpoints, newest first.
    """

    rotten = 1

    def newest(self, shard: Shard, listing: Listing | None = None) -> NewestCheckpoint:
        newest = super().newest(shard, listing)
        if newest.saved is None or not self.rotten:
            return newest
        self.rotten -= 1
        self.lose_round(shard)
        return NewestCheckpoint(
            saved=SavedCheckpoint("", newest.saved.header, newest.saved.entries, _unreadable)
        )


def _unreadable(entry: Entry) -> bytes:
    """Reads a part that was damaged after its check."""
    raise damaged(entry.name, "a bit has flipped")


class Costly(Recorded):
    """A round takes two seconds of processor time."""

    member: LoneMember

    def save(self, drafts: Sequence[CheckpointDraft], *more: Any) -> frozenset[Shard]:
        self.member.spent += 2.0
        return super().save(drafts, *more)

    @property
    def took(self) -> float:
        return 2.0 * len(self.rounds)


def test_rounds_take_no_more_than_a_twentieth_of_the_time() -> None:
    member = LoneMember(store := Costly())
    store.member = member
    member.assign()
    before = member.now
    for offset in range(100):
        member.count(offset, offset + 1)
        member.checkpoint()
    assert 2.0 < store.took <= 3 * 2.0 + (member.now - before) / 20


def test_a_starved_process_spends_no_larger_share_of_its_work_on_rounds() -> None:
    member = LoneMember(store := Costly())
    store.member = member
    member.assign()
    for offset in range(400):
        member.count(offset, offset + 1)
        # It gets a tenth of a processor, and always has work to do.
        member.now += 10.0
        member.spent += 1.0
        member.checkpointer.advance()
    assert 2.0 < store.took <= 3 * 2.0 + member.spent / 20


def test_a_checkpoint_that_is_damaged_after_planning_is_skipped() -> None:
    store = Rotting()
    store.rotten = 0
    member = owner(store)
    member.count(0, 5)
    member.checkpoint()
    member.count(5, 9)
    member.checkpoint()
    store.rotten = 1
    heir = LoneMember(store)
    assert heir.assign() == 5
    for start in (5, 9):
        heir.count(start, start + 4)
        heir.checkpoint()
    store.rotten = 2
    with pytest.raises(DamagedStateError, match="a bit has flipped"):
        LoneMember(store).assign()


def test_a_partition_resumes_from_its_checkpoint_and_its_counters_start_at_zero() -> None:
    member = LoneMember(after(10))
    assert member.assign(committed=10) == 10
    assert member.shown == 0
    member.count(10, 14)
    assert member.shown == 0
    member.checkpoint()
    assert (member.shown, member.commits) == (4, [{P: 14}])


def test_a_partition_that_starts_empty_has_a_checkpoint_at_once() -> None:
    store = MemoryStore()
    LoneMember(store).assign(start=40)
    assert LoneMember(store).assign(start=90) == 40


def test_checkpoints_are_written_at_the_interval_if_the_partition_changed() -> None:
    member = owner(store := Recorded())
    member.count(0, 5)
    member.now = 9.9
    member.checkpointer.advance()
    assert store.offsets == [0]
    member.now = 10.0
    member.checkpointer.advance()
    assert store.offsets == [0, 5]
    member.checkpoint()
    assert store.offsets == [0, 5]
    member.count(5, 9)
    member.checkpointer.advance()
    assert store.offsets == [0, 5]
    member.checkpoint()
    assert store.offsets == [0, 5, 9]


def test_a_round_without_a_change_says_each_minute_that_the_process_lives() -> None:
    member = owner(store := Recorded())
    for _ in range(12):
        member.checkpoint()
    assert [len(drafts) for drafts in store.rounds] == [1, 0, 0]
    assert store.rounds[0][0].header.offset == store.offset(store.shards()[0])
    idle = LoneMember(other := Recorded())
    idle.checkpointer.assigned([])
    for _ in range(12):
        idle.checkpoint()
    assert other.rounds == []


def test_all_changed_partitions_are_one_round() -> None:
    member = LoneMember(store := Recorded())
    logs = [Partition("events", number) for number in range(64)]
    member.checkpointer.assigned([assignment(partition=log, partitions=64) for log in logs])
    for log in logs[:63]:
        member.checkpointer.apply(batch(0, 3, log))
    member.checkpoint()
    assert [len(drafts) for drafts in store.rounds] == [64, 63]
    assert member.commits[-1] == dict.fromkeys(logs[:63], 3)
    assert member.checkpointer.durable == {**dict.fromkeys(logs, 3), logs[63]: 0}
    member.checkpointer.apply(batch(0, 3, logs[63]))
    member.checkpointer.finish()
    assert [len(drafts) for drafts in store.rounds] == [64, 63, 1]


def test_sections_that_did_not_change_are_not_copied_but_by_a_new_owner() -> None:
    member = owner(store := Recorded())

    def unchanged() -> list[str]:
        return [part.name for part in store.rounds[-1][0].parts if part.content is None]

    for start in (0, 5, 10):
        member.count(start, start + 5)
        member.checkpoint()
    assert "labels/past" in unchanged()
    assert PANES[0] not in unchanged()
    member.count(15, 16, minute=1)
    member.checkpoint()
    assert PANES[0] in unchanged()
    heir = LoneMember(store)
    heir.assign(committed=16)
    heir.checkpoint()
    assert [draft.header.offset for draft in store.rounds[-1]] == [16]


def test_a_partition_that_was_taken_over_is_copied_although_nothing_changed() -> None:
    first = owner(MemoryStore())
    first.count(0, 5)
    first.checkpoint()
    heir = LoneMember(folder_store(STORE, first.store.disk))  # type: ignore[attr-defined]  # a store in memory
    heir.assign(committed=5)
    shard = heir.store.shards()[0]
    (before,) = {at.writer for at in heir.store.listing().shards[shard]}
    heir.checkpoint()
    assert len({at.writer for at in heir.store.listing().shards[shard]} - {before}) == 1
    assert heir.commits == []


def test_records_are_tried_until_a_checkpoint_has_some_of_them() -> None:
    """A record that ended the process before may come long after the takeover."""
    heir = LoneMember(after(10))
    heir.assign(committed=10)
    state = heir.ingest.partitions[P]
    heir.checkpoint()
    assert state.cautious
    heir.count(10, 14)
    heir.checkpoint()
    assert not state.cautious


def test_a_missing_round_fails_one_round_and_the_next_writes_everything_again() -> None:
    member = owner(store := Recorded())
    member.checkpointer.assigned([assignment(partition=OTHER)])
    for minute in range(3):
        member.count(minute, minute + 1, minute)
        member.checkpoint()
    for path in store.disk.files():
        if path.suffix == ".round":
            store.disk.remove(path)
    member.count(3, 4, minute=3)
    member.checkpoint()
    (news,) = member.news()
    assert "the next round writes it again" in str(news.fields["problem"])
    # Also what has not changed since.
    member.checkpoint()
    assert member.events == ["checkpoints recovered"]
    heir = LoneMember(folder_store(STORE, store.disk))
    assert heir.assign() == 4
    assert digests(heir.ingest, P) == digests(member.ingest, P)
    assert heir.checkpointer.assigned([assignment(partition=OTHER)]) == {OTHER: 0}


def test_panes_folded_by_a_restart_are_in_its_first_checkpoint() -> None:
    store = MemoryStore()
    member = owner(store, spans=(3 * MINUTE,))
    for minute in range(4):
        member.count(minute, minute + 1, minute)
        member.checkpoint()
    heir = owner(store, spans=(MINUTE,))
    heir.count(4, 5, minute=3)
    heir.checkpoint()
    again = owner(store, spans=(MINUTE,))
    assert digests(again.ingest, P) == digests(heir.ingest, P)


def test_no_checkpoint_is_written_before_its_dead_letters_are_durable() -> None:
    member = owner(store := Recorded())
    member.count(0, 5)
    member.letters.failing = True
    member.checkpoint()
    assert store.offsets == [0]
    member.checkpoint()
    assert store.offsets == [0, 5]


@pytest.mark.parametrize(("committed", "commits"), [(None, [{P: 5}]), (3, [{P: 5}]), (5, [])])
def test_a_commit_that_never_came_is_made_up_for(
    committed: int | None, commits: list[Mapping[Partition, int]]
) -> None:
    member = LoneMember(after(5))
    member.assign(committed=committed, end=5)
    member.checkpoint()
    assert (member.shown, member.commits) == (0, commits)


@pytest.mark.parametrize(
    ("committed", "commits"),
    [
        ((None, None), [{SHOWN: 1, CLICKS: 2}]),
        ((1, 1), [{CLICKS: 2}]),
        ((0, 2), [{SHOWN: 1}]),
        ((1, 2), []),
        # Of another owner, which had read the logs to other offsets.
        ((2, 1), [{CLICKS: 2}]),
    ],
)
def test_a_commit_that_never_came_is_made_up_for_where_a_joined_log_lacks_it(
    committed: tuple[int | None, int | None], commits: list[Mapping[Partition, int]]
) -> None:
    leaver = LoneMember(frontend=_join())
    _assign_joined(leaver)
    for log, records, time in ((SHOWN, 3, 5), (CLICKS, 2, 1)):
        record = {"ts": time, "request_id": "r", "shown": ["a"], "item": "a"}
        values = [json.dumps(record).encode()] * records
        leaver.checkpointer.apply(batch_of(log, values))
    leaver.checkpointer.finish()
    heir = LoneMember(leaver.store, frontend=_join())
    # A join counts no further than to the time that its slowest log has reached.
    assert _assign_joined(heir, committed) == {SHOWN: 1, CLICKS: 2}
    heir.checkpoint()
    assert heir.commits == commits


def test_a_commit_that_is_ahead_of_a_join_is_foreign() -> None:
    heir = LoneMember(frontend=_join())
    with pytest.raises(RefusedStateError, match=r"shown\[0\]: the group has committed offset 1"):
        _assign_joined(heir, (1, 0))


def test_counters_of_a_join_begin_behind_all_lists_that_may_have_been_exported() -> None:
    lists, clicks = (joins := Joined(idle=False)).partitions[Partition("lists", 0)]
    policies = with_policy("on_foreign_progress", "rebuild")
    member = LoneMember(frontend=joins.frontend(), policies=policies)
    _assign_joined(member, (10, 2), (lists, clicks))
    for minute in range(30):
        for log in (clicks, lists):
            value = joins.value(log, f"r{minute}", "x", minute)
            member.checkpointer.apply(batch_of(log, [value], minute))
    member.checkpoint()
    # Those of the first 26 minutes are over.
    assert member.shown == 26 - 10


def test_counters_of_a_join_wait_for_each_log_to_reach_its_commit() -> None:
    lists, clicks = (joins := Joined(idle=False)).partitions[Partition("lists", 0)]
    policies = with_policy("on_foreign_progress", "rebuild")
    member = LoneMember(frontend=joins.frontend(), policies=policies)
    _assign_joined(member, (10, 20), (lists, clicks))
    # The lists of the commit are over, and both logs together are past the sum of its offsets.
    for minute in range(30):
        value = joins.value(lists, f"r{minute}", "x", minute)
        member.checkpointer.apply(batch_of(lists, [value], minute))
        if not minute % 2:
            value = joins.value(clicks, f"r{minute}", "x", minute)
            member.checkpointer.apply(batch_of(clicks, [value], minute // 2))
    member.checkpoint()
    assert member.shown == 0
    for minute in range(30, 40):
        for log, offset in ((clicks, minute - 15), (lists, minute)):
            value = joins.value(log, f"r{minute}", "x", minute)
            member.checkpointer.apply(batch_of(log, [value], offset))
    member.checkpoint()
    # 36 lists are over now; 30 were when the clicks reached their commit.
    assert member.shown == 36 - 30


def test_counters_of_a_join_export_no_list_that_another_owner_closed_before_its_window() -> None:
    lists, clicks = (joins := Joined(idle=True)).partitions[Partition("lists", 0)]

    def count(member: LoneMember, clicked: range, shown: range) -> None:
        for log, minutes in ((clicks, clicked), (lists, shown)):
            for minute in minutes:
                value = joins.value(log, f"r{minute}", "x", minute)
                member.checkpointer.apply(batch_of(log, [value], minute))
        member.checkpoint()

    fenced = LoneMember(MemoryStore(), frontend=joins.frontend())
    fenced.trouble = "another member has the partition"
    successor = LoneMember(fenced.store, frontend=joins.frontend())
    for member in (fenced, successor):
        _assign_joined(member, (None, None), (lists, clicks))
    count(successor, range(2), range(10))
    (state,) = successor.ingest.partitions.values()
    assert isinstance(state, JoinedState)
    state.propose([lists, clicks])
    successor.checkpoint()
    state.accept([lists, clicks])
    state.finish()
    successor.checkpoint()
    assert successor.shown == 10
    # It has read on meanwhile, and its checkpoint is the newest.
    count(fenced, range(11), range(14))
    committed = successor.commits[-1]
    heir = LoneMember(fenced.store, frontend=joins.frontend())
    starts = _assign_joined(heir, (committed[lists], committed[clicks]), (lists, clicks))
    assert starts[clicks] > committed[clicks]
    count(heir, range(starts[clicks], 30), range(starts[lists], 30))
    # 26 lists are over.
    assert 0 < heir.shown <= 26 - 10


def _join() -> JoinFrontend:
    options = AttributionOptions(
        impressions=[SHOWN.topic],
        interactions=[InteractionOptions(source=[CLICKS.topic])],
        request_id="request_id",
        window="1h",
    )
    event = EventFields(recommendations="shown", time="ts", time_unit="s")
    return JoinFrontend(options, event, [], Layout(families=[], clock=ClockRule(voters=1)))


def _assign_joined(
    member: LoneMember,
    committed: tuple[int | None, int | None] = (None, None),
    logs: Sequence[Partition] = (SHOWN, CLICKS),
) -> Mapping[Partition, int]:
    pairs = zip(logs, committed, strict=True)
    members = tuple(assignment(partition=log, committed=offset) for log, offset in pairs)
    return member.checkpointer.assigned([assignment(partition=logs[0], members=members)])


def test_evidence_is_not_shown_before_the_group_accepts_the_commit() -> None:
    member = owner()
    member.checkpoint()
    member.count(0, 5)
    member.trouble = "the group refused the commit"
    member.checkpoint()
    member.checkpoint()
    assert (member.shown, member.checkpointer.health.commit_failures) == (0, 2)
    assert member.checkpointer.durable == {P: 5}
    member.trouble = None
    member.checkpoint()
    assert (member.shown, member.commits[-1]) == (5, {P: 5})
    told = [(event.event, event.fields["partitions"]) for event in member.news()]
    assert told == [("offsets were not committed", "events[0]"), ("commits recovered", "events[0]")]


def test_a_commit_without_an_answer_is_asked_for_again_at_once() -> None:
    member = owner()
    member.checkpoint()
    member.count(0, 5)
    member.trouble = CommitAnswer.PENDING
    member.checkpoint()
    assert (member.shown, member.checkpointer.health.commit_failures, member.events) == (0, 0, [])
    member.trouble = None
    member.checkpointer.advance()
    assert (member.shown, member.commits) == (5, [{P: 0}, {P: 5}])


def test_a_late_answer_shows_the_evidence_it_is_about_and_the_next_commit_follows() -> None:
    member = LoneMember()
    member.assign()
    member.checkpoint()
    member.count(0, 5)
    member.trouble = CommitAnswer.PENDING
    member.checkpoint()
    member.count(5, 8)
    member.checkpoint()
    member.trouble = None
    member.checkpointer.advance()
    assert (member.shown, member.commits) == (5, [{P: 0}, {P: 5}])
    member.checkpointer.advance()
    assert (member.shown, member.commits) == (8, [{P: 0}, {P: 5}, {P: 8}])


@pytest.mark.parametrize("trouble", ["the group refused the commit", CommitAnswer.PENDING])
def test_a_commit_that_waits_is_forgotten_with_its_partition(trouble: str | CommitAnswer) -> None:
    """Its next owner commits it; asked of us, the group would refuse those of all others, too."""
    member = owner()
    member.checkpointer.assigned([assignment(partition=OTHER)])
    member.checkpoint()
    for log in (P, OTHER):
        member.checkpointer.apply(batch(0, 5, log))
    member.trouble = trouble
    member.checkpoint()
    member.checkpointer.lost([P])
    member.trouble = None
    member.checkpoint()
    assert member.commits[1:] == [{OTHER: 5}]
    assert member.checkpointer.durable == {OTHER: 5}


def test_a_process_that_has_counted_nothing_since_its_last_round_ends_without_another() -> None:
    store = Recorded()
    member = owner(store)
    member.count(0, 5)
    member.checkpoint()
    before = len(store.rounds)
    member.checkpointer.finish()
    assert len(store.rounds) == before > 0


def test_a_revoked_partition_is_saved_and_dropped_and_its_counters_stay() -> None:
    member = owner(store := MemoryStore())
    member.count(0, 5)
    member.checkpointer.revoked([P])
    assert (member.shown, member.commits) == (5, [{P: 5}])
    assert not member.ingest.positions
    assert LoneMember(store).assign(committed=5) == 5


def test_a_lost_partition_is_dropped_without_a_checkpoint() -> None:
    member = owner(store := MemoryStore())
    member.count(0, 5)
    member.checkpointer.lost([P])
    assert (member.shown, member.commits, member.ingest.positions) == (0, [], {})
    assert LoneMember(store).assign() == 0


def test_a_partition_that_returns_with_an_older_checkpoint_is_not_shown_twice() -> None:
    member = owner()
    member.count(0, 5)
    member.checkpoint()
    assert isinstance(member.store, MemoryStore)
    member.store.lose_round(member.store.shards()[0])
    member.checkpointer.lost([P])
    assert member.assign() == 0
    member.count(0, 7)
    member.checkpoint()
    assert member.shown == 7


def test_after_abandoning_not_even_revoked_partitions_are_saved() -> None:
    member = owner(store := Recorded())
    member.count(0, 5)
    member.checkpointer.abandon()
    member.checkpoint()
    member.checkpointer.revoked([P])
    assert store.offsets == [0]
