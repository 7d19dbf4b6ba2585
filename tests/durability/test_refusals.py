"""States that must not resume silently: each has a message and a policy that allows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from streameval.checkpoints.format import Shard
from streameval.checkpoints.restore import other_settings
from streameval.checkpoints.settings import CHOICES, Policies
from streameval.checkpoints.store import Store
from streameval.events.errors import RefusedStateError, SourceError, StoreError
from streameval.events.records import Partition
from streameval.sources.files import FilesSource
from streameval.sources.settings import FilesOptions
from tests.batches import batch_of
from tests.crashes.simulated_disk import Step
from tests.durability.checkpointing import (
    LoneMember,
    P,
    Recorded,
    after,
    assignment,
    batch,
    owner,
    with_policy,
)
from tests.durability.process import record
from tests.stores.drafts import STORE, MemoryStore, later_round


class Case(NamedTuple):
    """A state that must not resume by default.

    Attributes:
        store: with the checkpoints.
        changes: of the assignment.
        settings: changes of the settings.
        says: part of the message.
        begins: start offset if the policy allows it.
        state: number of events in the state then.
        skipped: offsets counted as lost.
    """

    store: Callable[[], Store]
    changes: dict[str, Any]
    says: str
    begins: int
    state: int
    settings: Mapping[str, Any] = MappingProxyType({})
    skipped: int = 0


def newer() -> MemoryStore:
    """A store with a checkpoint of a later release."""
    after(10, store := MemoryStore())
    key, content = later_round(20, store.shards()[0])
    store.disk.make_folder((STORE / key).parent)
    store.disk.create(STORE / key, [content])
    return store


def torn(*numbers: int) -> MemoryStore:
    """A store with three rounds of one process, at 0, 10 and 20, of which these are damaged."""
    member = owner(store := MemoryStore())
    for start in (0, 10):
        member.count(start, start + 10)
        member.checkpoint()
    for path in store.disk.files():
        if path.suffix == ".round" and int(path.stem) in numbers:
            store.disk.overwrite(path, b"")
    return store


CASES = {
    "on_damaged": Case(lambda: torn(0, 1, 2), {}, "no checkpoint of it is valid", 0, 0),
    "on_retention": Case(
        lambda: after(10), {"begin": 15}, "5 offsets were never counted", 15, 10, skipped=5
    ),
    "on_recreated": Case(lambda: after(10), {"identity": "id-2"}, "state of id-1", 0, 0),
    "on_truncated": Case(lambda: after(10), {"end": 7}, "the log has lost records", 0, 0),
    "on_new_partitions": Case(
        lambda: after(10),
        {"partition": Partition("events", 4), "start": 90, "begin": 3, "partitions": 5},
        "the topic had 4 partitions",
        3,
        0,
    ),
    "on_unknown_version": Case(newer, {}, "state version 6 is not known", 0, 0),
    "on_other_settings": Case(
        lambda: after(10),
        {},
        'pane: "1m" → "5m"',
        0,
        0,
        {"fingerprint": {"pane": "5m"}},
    ),
    "on_foreign_progress": Case(
        lambda: after(10), {"committed": 30}, "has committed offset 30", 10, 10
    ),
}


@pytest.mark.parametrize("policy", CASES)
def test_the_default_policy_refuses_with_a_sentence_that_names_it(policy: str) -> None:
    case = CASES[policy]
    member = LoneMember(case.store(), **case.settings)
    with pytest.raises(RefusedStateError, match=case.says) as refused:
        member.assign(**case.changes)
    assert refused.value.policy == policy
    for choice, does in CHOICES[policy].items():
        assert f'{policy} = "{choice}" ({does})' in str(refused.value)
    assert refused.value.where.startswith("events[")
    assert not member.ingest.positions


@pytest.mark.parametrize("policy", CASES)
def test_the_policy_allows_resuming_and_logs_it(policy: str) -> None:
    case = CASES[policy]
    member = LoneMember(
        case.store(), policies=with_policy(policy, next(iter(CHOICES[policy]))), **case.settings
    )
    assert member.assign(**case.changes) == case.begins
    (state,) = member.ingest.partitions.values()
    assert state.tally.valid == case.state
    assert member.checkpointer.health.skipped == case.skipped
    news = member.news()[-1]
    assert case.says in news.fields["problem"]


def test_another_first_line_of_a_file_is_not_called_a_topic(tmp_path: Path) -> None:
    log = tmp_path / "events.ndjson"
    log.write_bytes(record(1, minute=0, variant="x") + b"\n")
    member = LoneMember()
    _assign(member, log)
    member.checkpointer.finish()
    for content in ("", '{"recommendations": ["b"]}\n'):
        log.write_text(content)
        with pytest.raises(RefusedStateError) as refused:
            _assign(LoneMember(member.store), log)
        assert refused.value.policy == "on_recreated"
        assert refused.value.problem == (
            f"the first line of {log} is not the one that was counted: the file was truncated, "
            "rotated or replaced"
        )


def _assign(member: LoneMember, log: Path) -> None:
    source = FilesSource(FilesOptions(paths=[str(log)]))
    source.open(member.checkpointer)
    with closing(source):
        for batch_read in source.poll(0.0):
            member.checkpointer.apply(batch_read)


def test_every_policy_has_a_case_and_fails_by_default() -> None:
    # Those of other inputs are in test_other_inputs.py.
    assert {*CASES, "on_other_inputs"} == set(CHOICES) == set(Policies.__struct_fields__)
    assert {getattr(Policies(), policy) for policy in CHOICES} == {"fail"}


ACCEPT = with_policy("on_other_settings", "accept")


def test_other_decoding_can_be_accepted_and_earlier_counts_stay() -> None:
    member = LoneMember(
        after(10), fingerprint={"pane": "1m", "event": {"time": "at"}}, policies=ACCEPT
    )
    assert member.assign() == 10
    (state,) = member.ingest.partitions.values()
    assert state.tally.valid == 10
    (news,) = member.news()
    assert news.event == "other decoding was accepted"


def test_accepted_decoding_is_saved_even_without_new_records() -> None:
    store, settings = after(10), {"pane": "1m", "event": {"time": "at"}}
    member = LoneMember(store, fingerprint=settings, policies=ACCEPT)
    member.assign()
    member.checkpointer.finish()
    assert LoneMember(store, fingerprint=settings).assign() == 10


def test_a_state_without_a_valid_record_starts_over_under_other_settings() -> None:
    first = owner(None)
    first.checkpointer.apply(batch_of(P, [b"{}"] * 10, 0))
    first.checkpointer.finish()
    member = LoneMember(first.store, fingerprint={"pane": "5m"})
    assert member.assign(committed=10) == 0
    (news,) = member.news()
    assert news.event == "state was archived"
    assert 'pane: "1m" → "5m"' in news.fields["problem"]


def test_other_settings_than_decoding_are_never_accepted() -> None:
    member = LoneMember(after(10), fingerprint={"pane": "5m"}, policies=ACCEPT)
    with pytest.raises(RefusedStateError, match="pane: "):
        member.assign()
    assert not member.ingest.positions


RANKED: Final = {"event": {"rankers": {"challenger": "challenger"}}}
RENAMED: Final = {"event": {"rankers": {"contender": "challenger"}}}
JOINED: Final = {"attribution": {"window": "30m"}}


@pytest.mark.parametrize(
    ("saved", "here"), [({}, RANKED), (RANKED, {}), (RANKED | JOINED, RENAMED | JOINED)]
)
def test_other_rankers_are_more_than_decoding_where_a_state_depends_on_them(
    saved: dict[str, Any], here: dict[str, Any]
) -> None:
    member = LoneMember(after(10, fingerprint=saved), fingerprint=here, policies=ACCEPT)
    with pytest.raises(RefusedStateError, match=r"event\.rankers"):
        member.assign()


def test_another_ranker_can_be_accepted_where_no_list_waits() -> None:
    member = LoneMember(after(10, fingerprint=RANKED), fingerprint=RENAMED, policies=ACCEPT)
    assert member.assign() == 10


def test_a_restart_is_not_undone_by_the_next_start() -> None:
    store = MemoryStore()
    after(10, store)
    policies = with_policy("on_other_settings", "restart")
    settings: dict[str, Any] = {"fingerprint": {"pane": "5m"}, "policies": policies}
    member = owner(MemoryStore(store.disk), **settings)
    member.count(0, 4)
    member.checkpointer.finish()
    again = LoneMember(MemoryStore(store.disk), fingerprint={"pane": "5m"})
    assert again.assign(committed=4) == 4
    assert again.events == []


def test_the_store_is_listed_once_for_all_partitions_that_start_over() -> None:
    """Each listing has all that was archived before, so one for each would be squares.

    The first round of a process lists it, too, for what others have left.
    """
    assignments = [assignment(partition=Partition("events", other)) for other in range(4)]
    store = MemoryStore()
    before = LoneMember(store)
    before.checkpointer.assigned(assignments)
    before.checkpointer.apply(*(batch(0, 10, each.partition) for each in assignments))
    before.checkpointer.finish()
    again = LoneMember(MemoryStore(store.disk), policies=with_policy("on_truncated", "restart"))
    store.disk.steps.clear()
    again.checkpointer.assigned([msgspec.structs.replace(each, end=7) for each in assignments])
    assert store.disk.steps.count(Step("names", STORE)) == 2
    assert [at[0].generation for at in store.listing().shards.values()] == [1] * 4


def test_a_restart_moves_the_commit_of_the_group_back() -> None:
    member = LoneMember(after(10), policies=with_policy("on_truncated", "restart"))
    member.assign(end=7)
    assert member.commits == [{Partition("events", 0): 0}]


def test_a_state_starts_over_only_if_the_group_accepts_its_commit() -> None:
    """A process that was frozen in between knows an end of the log that others have passed."""
    store = after(10)
    fenced = LoneMember(store, policies=with_policy("on_truncated", "restart"))
    fenced.trouble = "events[0]: not ours to commit."
    with pytest.raises(SourceError, match="not ours to commit") as refused:
        fenced.assign(end=7)
    assert refused.value.where == "events[0]"
    assert fenced.checkpointer.health.commit_failures == 1
    assert LoneMember(store).assign() == 10


def test_records_below_a_foreign_commit_enter_the_state_and_no_counter() -> None:
    member = LoneMember(after(10), policies=with_policy("on_foreign_progress", "rebuild"))
    member.assign(committed=30)
    member.count(10, 25)
    member.checkpoint()
    assert (member.shown, member.commits) == (0, [])
    member.count(25, 37)
    member.checkpoint()
    assert member.shown == 7
    assert member.ingest.partitions[Partition("events", 0)].tally.valid == 37


def test_a_rebuild_that_has_begun_goes_on_under_any_policy_up_to_the_same_commit() -> None:
    """What explained the commit, such as a damaged file, may be gone at the next takeover."""
    store = after(10)
    member = LoneMember(store, policies=with_policy("on_foreign_progress", "rebuild"))
    member.assign(committed=30)
    member.count(10, 25)
    member.checkpointer.finish()
    with pytest.raises(RefusedStateError, match="has committed offset 31"):
        LoneMember(store).assign(committed=31)
    heir = LoneMember(store)
    assert heir.assign(committed=30) == 25
    heir.count(25, 37)
    heir.checkpoint()
    assert heir.shown == 7


def test_a_commit_explained_by_a_damaged_checkpoint_needs_no_policy() -> None:
    member = LoneMember(torn(2))
    assert member.assign(committed=20) == 10
    assert member.events == [
        "a damaged checkpoint was skipped",
        "state is rebuilt up to the group's commit",
    ]
    member.count(10, 23)
    member.checkpoint()
    assert member.shown == 3


def test_a_commit_without_any_checkpoint_is_foreign() -> None:
    with pytest.raises(RefusedStateError, match="none is valid"):
        LoneMember().assign(committed=1)
    assert LoneMember().assign(committed=0) == 0


def test_partitions_of_the_first_start_are_not_new() -> None:
    store = after(10)
    assert LoneMember(store).assign(partition=Partition("events", 3)) == 0


def test_a_store_of_another_group_is_refused() -> None:
    with pytest.raises(RefusedStateError, match="'g2'"):
        LoneMember(after(10), group="g2").assign()


def test_a_partition_is_new_by_the_oldest_state_of_its_topic_even_if_another_was_accepted() -> None:
    store = after(10)
    accepting = LoneMember(store, policies=with_policy("on_new_partitions", "accept"))
    accepting.assign(partition=Partition("events", 5), partitions=6)
    with pytest.raises(RefusedStateError, match="the topic had 4 partitions"):
        LoneMember(store).assign(partition=Partition("events", 4), partitions=6)


def test_a_recreated_topic_with_more_partitions_has_no_new_ones() -> None:
    member = LoneMember(after(10), policies=with_policy("on_recreated", "restart"))
    assert member.assign(partition=Partition("events", 5), identity="id-2", partitions=6) == 0
    # What the store has of the former topic stays where it is.
    assert member.events == ["state starts over, and nothing was archived"]


@pytest.mark.parametrize(
    ("policy", "store"), [("on_damaged", lambda: torn(0, 1, 2)), ("on_unknown_version", newer)]
)
def test_a_state_that_cannot_be_copied_is_not_called_archived(
    policy: str, store: Callable[[], MemoryStore]
) -> None:
    member = LoneMember(store(), policies=with_policy(policy, "restart"))
    assert member.assign() == 0
    (event,) = [event for event in member.news() if "policy" in event.fields]
    assert (event.event, event.fields["policy"]) == (
        "state starts over, and nothing was archived",
        policy,
    )


def test_no_partition_starts_unless_all_can() -> None:
    store = after(10)
    member = LoneMember(store)

    fresh = assignment(partition=Partition("events", 1))
    with pytest.raises(RefusedStateError):
        member.checkpointer.assigned([fresh, assignment(end=7)])
    assert not member.ingest.positions
    assert [shard.number for shard in store.shards()] == [0]


def test_the_header_of_a_draft_is_enough_to_read_it_elsewhere() -> None:
    after(10, store := Recorded())
    header = store.rounds[-1][0].header
    assert (header.state.cluster, header.state.group, header.state.release) == ("c1", "g1", "0.1.0")
    assert header.shard == Shard("events", "id-1", 0)
    assert (header.offset, header.counted, header.partitions) == (10, {}, 4)
    assert header.clock == 1_700_000_000 // 60 * 60 * 1_000_000
    assert header.state.settings == {"pane": "1m"}


def test_offsets_that_retention_skipped_are_committed_with_a_checkpoint_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies = with_policy("on_retention", next(iter(CHOICES["on_retention"])))
    store = MemoryStore()
    member = LoneMember(after(10, store), policies=policies)
    assert member.assign(begin=15, committed=9) == 15

    def full(*_: object) -> None:
        raise StoreError("memory", "no space left on device", "make room")

    with monkeypatch.context() as patch:
        patch.setattr(member.store, "save", full)
        member.checkpoint()
    assert member.commits == []
    member.checkpoint()
    assert member.commits == [{P: 15}]


def test_limits_that_are_constants_now_are_no_other_settings() -> None:
    here = {"event": {"time": "ts"}, "pane": 60_000_000}
    limits = {"max_history": None, "max_id_bytes": 1_024, "max_label_bytes": 256}
    assert other_settings(here, {**here, "event": {"time": "ts", **limits}}) is None
    limits["max_history"] = 3
    message = "settings have changed since its state was made: event.max_history: 3 → absent"
    assert other_settings(here, {**here, "event": {"time": "ts", **limits}}) == message
