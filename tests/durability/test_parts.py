"""Cutting batches, letters that wait, and owning partitions without keeping anything."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streameval.checkpoints.checkpointer import MemoryOnly, split
from streameval.checkpoints.scheduler import Clock, Outbox
from streameval.engine.dead_letters import DeadLetter
from streameval.errors import DeadLetterError
from streameval.events.records import Origin, Partition, RecordBatch
from tests.durability.counting import ingest
from tests.durability.inline import Inline
from tests.durability.keeping import P, assignment, batch
from tests.effort import every_case

WHOLE = RecordBatch(
    partition=P,
    values=[b"a", None, b"c"],
    offsets=[3, 5, 6],
    next_offset=9,
    timestamps=[30, 50, 60],
    origin=lambda place: Origin(b"abc"[place : place + 1], ()),
)


def letter(offset: int) -> DeadLetter:
    return DeadLetter(
        partition=Partition("events", 0),
        offset=offset,
        timestamp_ms=None,
        key=None,
        headers=(),
        value=b"garbage",
        stage="decode",
        reason="not_json",
        message="",
    )


class Small:
    """Dead letters of which only so many can wait; refuses to flush where told to."""

    def __init__(self, most: int) -> None:
        self.most, self.waiting, self.safe = most, list[int](), list[int]()
        self.refusing = False

    def send(self, letters: Sequence[DeadLetter]) -> None:
        if len(self.waiting) + len(letters) > self.most:
            raise DeadLetterError("events.dlq", "too many wait", "see that it runs")
        self.waiting += [each.offset for each in letters]

    def flush(self) -> None:
        if self.refusing:
            raise DeadLetterError("events.dlq", "no broker answers", "see that it runs")
        self.safe, self.waiting = [*self.safe, *self.waiting], []

    def close(self) -> None:
        pass


@every_case("offset", [4, 5])
def test_a_batch_is_cut_with_all_that_belongs_to_its_records(offset: int) -> None:
    head, tail = split(WHOLE, offset)
    assert (head.values, head.offsets, head.next_offset) == ([b"a"], [3], offset)
    assert (tail.values, tail.offsets, tail.next_offset) == ([None, b"c"], [5, 6], 9)
    assert (head.timestamps, tail.timestamps) == ([30], [50, 60])
    assert tail.origin is not None
    assert tail.origin(1).key == b"c"


@every_case("offset", [0, 3, 9, 12])
def test_a_batch_on_one_side_stays_whole(offset: int) -> None:
    assert split(WHOLE, offset) == [WHOLE]


def test_letters_that_cannot_be_sent_wait_and_are_safe_after_the_flush() -> None:
    outbox = Outbox(small := Small(2))
    outbox.send([letter(1), letter(2)])
    outbox.send([letter(3), letter(4)])
    assert small.waiting == [1, 2]
    outbox.flush()
    assert small.safe == [1, 2, 3, 4]


def test_letters_survive_a_flush_that_fails() -> None:
    outbox = Outbox(small := Small(1))
    outbox.send([letter(1)])
    outbox.send([letter(2)])
    small.refusing = True
    with pytest.raises(DeadLetterError):
        outbox.flush()
    small.refusing = False
    outbox.flush()
    assert small.safe == [1, 2]


def test_without_a_destination_nothing_waits() -> None:
    outbox = Outbox(None)
    outbox.send([letter(1)])
    outbox.flush()


def test_without_a_store_everything_begins_where_it_is_configured() -> None:
    now = [0.0]
    counts, small = ingest(), Small(100)
    owner = MemoryOnly(counts, small, Clock(monotonic=lambda: now[0]), Inline())
    assert owner.assigned([assignment(start=4, committed=50)]) == {P: 4}
    owner.apply(batch(4, 6))
    owner.apply(RecordBatch(partition=P, values=[b"garbage"], offsets=[6], next_offset=7))
    assert (counts.positions, small.waiting) == ({P: 7}, [6])
    owner.advance()
    assert small.safe == []
    now[0] = 10.0
    owner.advance()
    assert small.safe == [6]
    assert (owner.counted, owner.health) == (None, None)
    owner.revoked([P])
    assert not counts.positions


def test_without_a_store_letters_that_are_not_safe_are_told_of_and_tried_again() -> None:
    now = [0.0]
    small = Small(100)
    owner = MemoryOnly(ingest(), small, Clock(monotonic=lambda: now[0]), Inline())
    small.refusing = True
    now[0] = 10.0
    owner.advance()
    owner.advance()
    assert [each.event for each in owner.take_log_events()] == ["dead letters are not safe yet"]
    with pytest.raises(DeadLetterError):
        owner.finish()
    owner.abandon()
    small.refusing = False
    owner.finish()
