"""`resume`, the way from a checkpoint to counts that go on."""

from __future__ import annotations

import pytest

from streameval.checkpoints.restore import resume
from streameval.checkpoints.store import SavedCheckpoint, Store
from streameval.engine.ingest import Ingest
from streameval.events.errors import DamagedStateError
from streameval.events.records import Partition
from streameval.events.saved_states import damaged
from tests.durability.checkpointing import LoneMember, P, after, batch
from tests.durability.process import digests, ingest

ELSEWHERE = Partition("restored", 7)


def newest(store: Store) -> SavedCheckpoint:
    (shard,) = store.shards()
    saved = store.newest(shard).saved
    assert saved is not None
    return saved


def counted(stop: int) -> Ingest:
    """The counts of a process that never stopped."""
    member = LoneMember()
    member.assign()
    member.count(0, stop)
    return member.ingest


def test_a_state_goes_on_as_if_it_had_never_stopped_under_any_name() -> None:
    resumed = ingest()
    assert resume(resumed, ELSEWHERE, newest(after(10))) is None
    assert resumed.positions == {ELSEWHERE: 10}
    assert digests(resumed, ELSEWHERE) == digests(counted(10), P)
    resumed.apply(batch(10, 20, ELSEWHERE))
    assert digests(resumed, ELSEWHERE) == digests(counted(20), P)


def test_a_damaged_part_leaves_the_ingest_as_it_was() -> None:
    saved, resumed = newest(after(10)), counted(3)
    before = digests(resumed, P)
    last = max(saved.digests)
    content = {name: saved.read(name) for name in saved.digests}

    class Damaged(SavedCheckpoint):
        def __init__(self) -> None:
            self.header, self.entries = saved.header, saved.entries

        def read(self, part: str) -> bytes:
            if part == last:
                raise damaged("events[0]", "bytes differ")
            return content[part]

    with pytest.raises(DamagedStateError):
        resume(resumed, P, Damaged())
    assert (resumed.positions, digests(resumed, P)) == ({P: 3}, before)
