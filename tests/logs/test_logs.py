from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from streameval.errors import SourceError
from streameval.events.records import Assignment, Partition, RecordBatch
from streameval.sources.source import Positions
from tests.logs.group import Group
from tests.logs.log import Log
from tests.logs.source import LogSource

P, Q = Partition("events", 0), Partition("events", 1)


class Owner:
    """Says what it is told, and begins at `starts`, otherwise where it may."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[Partition]]] = []
        self.starts: dict[Partition, int] = {}
        self.seen: dict[Partition, Assignment] = {}

    def assigned(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        self.told.append(("assigned", [each.partition for each in assignments]))
        self.seen |= {each.partition: each for each in assignments}
        return Positions(self.starts).assigned(assignments)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self.told.append(("revoked", list(partitions)))

    def lost(self, partitions: Sequence[Partition]) -> None:
        self.told.append(("lost", list(partitions)))


class World(NamedTuple):
    log: Log
    group: Group
    a: LogSource
    b: LogSource
    owner: Owner
    other: Owner


@pytest.fixture
def world() -> World:
    log = Log()
    log.add_topic("events", partitions=2)
    for number in range(4):
        log.append(P, b"%d" % number, timestamp=number, key=b"k")
    group = Group(log, ["events"])
    made = World(log, group, LogSource(group, "a"), LogSource(group, "b"), Owner(), Owner())
    made.a.open(made.owner)
    made.b.open(made.other)
    return made


def _offsets(batches: Sequence[RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.offsets]


def test_nothing_happens_before_the_next_poll(world: World) -> None:
    world.group.assign("a", [P])
    assert world.owner.told == []
    assert not world.a.joined
    assert _offsets(world.a.poll(0)) == [0, 1, 2, 3]
    assert world.owner.told == [("assigned", [P])]
    assert world.a.joined


def test_a_partition_is_held_until_its_owner_has_finished_it(world: World) -> None:
    world.group.assign("a", [P])
    world.a.poll(0)
    world.group.revoke("a", [P])
    with pytest.raises(ValueError, match="are held"):
        world.group.assign("b", [P])
    assert world.a.commit({P: 4}) is None
    assert world.a.poll(0) == []
    world.group.assign("b", [P])
    world.b.poll(0)
    assert world.other.seen[P].committed == 4


def test_a_zombie_delivers_and_its_commits_are_refused(world: World) -> None:
    world.group.assign("a", [P])
    world.group.deliver("a", P, 1)
    world.a.poll(0)
    world.group.lose("a", [P])
    world.group.assign("b", [P])
    assert _offsets(world.a.poll(0)) == [1, 2, 3]
    assert world.a.commit({P: 4}) == "events[0]: not ours to commit."
    assert P not in world.group.committed
    world.group.tell("a")
    assert world.a.poll(0) == []
    assert world.owner.told == [("assigned", [P]), ("lost", [P])]


def test_records_come_again_where_the_owner_begins_again(world: World) -> None:
    world.group.assign("a", [P])
    world.a.poll(0)
    world.group.lose("a", [P])
    world.owner.starts[P] = 2
    world.group.assign("a", [P])
    assert _offsets(world.a.poll(0)) == [2, 3]
    assert [what for what, _ in world.owner.told] == ["assigned", "lost", "assigned"]


def test_a_crash_leaves_everything_to_others(world: World) -> None:
    world.group.assign("a", [P, Q])
    world.group.crash("a")
    world.group.assign("b", [P, Q])
    assert _offsets(world.b.poll(0)) == [0, 1, 2, 3]
    with pytest.raises(AssertionError, match="crashed"):
        world.a.poll(0)
    again = LogSource(world.group, "a")
    again.open(world.owner)
    assert again.poll(0) == []


def test_only_what_is_ordered_is_delivered_while_held(world: World) -> None:
    world.group.hold("a")
    world.group.assign("a", [P])
    assert world.a.poll(0) == []
    world.group.deliver("a", P, 3)
    assert _offsets(world.a.poll(0)) == [0, 1, 2]
    assert world.a.poll(0) == []


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_can_fail_and_land_all_the_same(world: World, *, landed: bool) -> None:
    world.group.assign("a", [P])
    world.a.poll(0)
    world.group.fail_commits("a", landed=landed)
    assert world.a.commit({P: 2}) is not None
    assert world.group.committed == ({P: 2} if landed else {})
    assert world.a.commit({P: 3}) is None


def test_a_gap_is_moved_over_by_a_batch_without_values(world: World) -> None:
    world.log.skip(Q, 5)
    world.group.assign("a", [Q])
    assert [(list(b.values), b.next_offset) for b in world.a.poll(0)] == [([], 5)]


def test_what_was_deleted_is_not_passed_over_in_silence(world: World) -> None:
    world.group.assign("a", [P])
    world.group.deliver("a", P, 1)
    world.a.poll(0)
    world.log.delete_until(P, 3)
    with pytest.raises(SourceError, match="no longer there"):
        world.a.poll(0)
    world.group.assign("b", [Q])
    world.b.poll(0)


def test_a_topic_made_again_has_another_identity(world: World) -> None:
    world.group.assign("a", [P])
    world.a.poll(0)
    world.log.recreate("events")
    with pytest.raises(SourceError, match="made again"):
        world.a.poll(0)
    before = world.owner.seen[P].identity
    world.group.lose("a", [P])
    world.group.assign("a", [P])
    world.a.poll(0)
    assert world.owner.seen[P].identity != before


def test_a_record_has_its_key_its_headers_and_its_time(world: World) -> None:
    world.log.append(P, b"fixed", headers=[("trace", b"7")])
    world.group.assign("a", [P])
    (batch,) = world.a.poll(0)
    assert batch.origin is not None
    assert batch.origin(0).key == b"k"
    assert batch.origin(4).headers == (("trace", b"7"),)
    assert batch.timestamps == [0, 1, 2, 3, 0]


def test_an_owner_that_fails_is_asked_again(world: World) -> None:
    world.group.assign("a", [P])
    world.owner.starts[P] = 99
    with pytest.raises(SourceError, match="99 is not within 0 to 4"):
        world.a.poll(0)
    assert not world.a.joined
    world.owner.starts[P] = 3
    assert _offsets(world.a.poll(0)) == [3]
