"""Splitting batches, and owning partitions without checkpoints."""

from __future__ import annotations

import pytest

from streameval.checkpoints.checkpointer import MemoryOnly, split
from streameval.checkpoints.scheduler import Clock
from streameval.engine.dead_letters import Identity
from streameval.errors import DeadLetterError
from streameval.events.records import Origin, RecordBatch
from tests.batches import batch_of
from tests.durability.checkpointing import P, assignment, batch
from tests.durability.counting import ingest
from tests.durability.process import Inline, Letters
from tests.effort import every_case

WHOLE = RecordBatch(
    partition=P,
    values=[b"a", None, b"c"],
    offsets=[3, 5, 6],
    next_offset=9,
    timestamps=[30, 50, 60],
    origin=lambda place: Origin(b"abc"[place : place + 1], ()),
)


@every_case("offset", [4, 5])
def test_a_batch_is_split_with_all_its_columns(offset: int) -> None:
    head, tail = split(WHOLE, offset)
    assert (head.values, head.offsets, head.next_offset) == ([b"a"], [3], offset)
    assert (tail.values, tail.offsets, tail.next_offset) == ([None, b"c"], [5, 6], 9)
    assert (head.timestamps, tail.timestamps) == ([30], [50, 60])
    assert tail.origin is not None
    assert tail.origin(1).key == b"c"


@every_case("offset", [0, 3, 9, 12])
def test_a_batch_on_one_side_stays_whole(offset: int) -> None:
    assert split(WHOLE, offset) == [WHOLE]


def test_without_a_store_partitions_start_at_the_configured_offset() -> None:
    now, safe, counts = [0.0], set[Identity](), ingest()
    letters = Letters(safe, lambda _: None)
    owner = MemoryOnly(counts, letters, Clock(monotonic=lambda: now[0]), Inline())
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
    letters = Letters(set(), lambda _: None)
    owner = MemoryOnly(ingest(), letters, Clock(monotonic=lambda: now[0]), Inline())
    letters.failing = True
    now[0] = 10.0
    owner.advance()
    owner.advance()
    assert [each.event for each in owner.take_log_events()] == ["dead letters are not safe yet"]
    letters.failing = True
    with pytest.raises(DeadLetterError):
        owner.finish()
    letters.failing = True
    owner.abandon()
    owner.finish()
