"""What a test can do to a group in memory, beyond the contract of sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from streameval.events.records import Partition, RecordBatch
from streameval.sources.source import Positions
from tests.logs.group import Group
from tests.logs.log import Log
from tests.logs.source import LogSource

P, Q = Partition("events", 0), Partition("events", 1)


class World(NamedTuple):
    group: Group
    a: LogSource
    b: LogSource


@pytest.fixture
def world() -> World:
    log = Log()
    log.add_topic("events", partitions=2)
    for number in range(4):
        log.append(P, b"%d" % number, timestamp=number)
    group = Group(log, ["events"])
    made = World(group, LogSource(group, "a"), LogSource(group, "b"))
    made.a.open(Positions())
    made.b.open(Positions())
    return made


def _offsets(batches: Sequence[RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.offsets]


def test_a_zombie_delivers_and_its_commits_fail(world: World) -> None:
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


def test_a_crash_leaves_all_partitions_to_others(world: World) -> None:
    world.group.assign("a", [P, Q])
    world.group.crash("a")
    world.group.assign("b", [P, Q])
    assert _offsets(world.b.poll(0)) == [0, 1, 2, 3]
    with pytest.raises(AssertionError, match="crashed"):
        world.a.poll(0)
    again = LogSource(world.group, "a")
    again.open(Positions())
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
