from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Intervals
from streameval.accumulator import Accumulator
from streameval.engine import ingest as module
from streameval.engine.dead_letters import Limits
from streameval.engine.ingest import Ingest
from streameval.engine.partition import META
from streameval.events.errors import DamagedStateError, RefusedRecordsError, SourceError
from streameval.events.records import Partition, RecordBatch
from tests.decoding.records import mutilated, records
from tests.engine.counting import (
    MINUTE,
    Taking,
    batch,
    fed,
    ingest,
    layout,
    lists,
    parts,
    record,
    state,
)

values_of_any_kind = st.lists(st.none() | records() | mutilated(records()), max_size=30)


def lifetime(of: Ingest) -> list[tuple[tuple[str, ...], int]]:
    return sorted(lists(of).items())


def test_every_partition_has_its_own_state_position_and_time() -> None:
    of = ingest()
    of.apply(batch([record(ts=5)] * 2, number=0))
    of.apply(batch([record(ts=3, variant="b")] * 3, number=1, start=100))
    of.apply(batch([record(ts=4)], number=0, start=2))
    content = {name.number: part for name, part in of.partitions.items()}
    assert {number: part.position for number, part in content.items()} == {0: 3, 1: 103}
    assert {number: part.clock for number, part in content.items()} == {
        0: 5_000_000,
        1: 3_000_000,
    }
    assert lifetime(of) == [(("a",), 3), (("b",), 3)]


def test_a_log_with_gaps_moves_to_the_next_offset_of_its_batch() -> None:
    of = ingest()
    name = Partition("events", 0)
    of.apply(
        RecordBatch(partition=name, values=[record(), record()], offsets=[3, 9], next_offset=15)
    )
    assert of.positions == {name: 15}
    of.apply(RecordBatch(partition=name, values=[], offsets=[], next_offset=40))
    assert of.positions == {name: 40}
    assert of.tally.consumed == 2


def test_records_that_are_delivered_again_are_refused() -> None:
    of = ingest()
    of.apply(batch([record()] * 3))
    with pytest.raises(SourceError, match="record 2 was delivered again"):
        of.apply(batch([record()], start=2))
    assert of.tally.consumed == 3
    assert of.positions == {Partition("events", 0): 3}


@given(values_of_any_kind, st.randoms(use_true_random=False))
def test_any_split_over_partitions_and_batches_gives_the_same_state(
    values: list[bytes | None], draw: Any
) -> None:
    total = ingest()
    total.apply(batch(values))
    split = ingest()
    shuffled = draw.sample(values, len(values))
    positions = [0, 0, 0]
    while shuffled:
        number, size = draw.randrange(3), draw.randint(1, 4)
        some, shuffled = shuffled[:size], shuffled[size:]
        split.apply(batch(some, number, positions[number]))
        positions[number] += len(some)
        lifetime(split)
    assert state(split) == state(total)
    assert split.tally.invalid == total.tally.invalid


def test_equal_labels_of_different_kinds_are_one_slice() -> None:
    of = ingest()
    of.apply(batch([record(variant=1), record(variant="1"), record(variant=True)]))
    assert lifetime(of) == [(("1",), 2), (("true",), 1)]


def test_the_first_invalid_records_of_each_reason_are_kept_as_examples() -> None:
    of = ingest()
    of.apply(batch([record(), *[b"\x1b[31m" + b"x" * 1_000] * 10, b"[]"], start=5))
    told = of.take_invalid()
    assert [(dead_letter.offset, dead_letter.reason) for dead_letter in told] == [
        (6, "not_json"),
        (7, "not_json"),
        (8, "not_json"),
        (16, "not_an_object"),
    ]
    assert told[0].preview == "\\x1b[31m" + "x" * 75 + "..."
    assert str(told[0]).startswith("events[0] offset 6: not_json: ")
    assert of.take_invalid() == []
    assert of.tally.invalid["not_json"] == 10


def test_too_many_invalid_records_are_an_error_that_has_the_last_one() -> None:
    of = ingest(limits=Limits(max_ratio=1, max_run=2))
    with pytest.raises(
        RefusedRecordsError, match=r"The last one: events\[0\] offset 4: not_an_obj"
    ):
        of.apply(batch([record(), b"x", b"x", b"x", b"[]", record()]))


PARTITION = Partition("events", 0)
WINDOWS = layout(
    spans=(5 * MINUTE, 180 * MINUTE), dedup=10 * MINUTE, intervals=Intervals(groups=256)
)

good = st.builds(
    record,
    ts=st.integers(0, 6 * 3600),
    id=st.sampled_from("abcdefgh"),
    variant=st.sampled_from("abc"),
    user=st.sampled_from(["u1", "u2", None]),
    interactions=st.sampled_from([[], ["a"], ["a", "z"], {"a": 2.5}]),
)
logs = st.lists(st.none() | good | st.just(b"x"), max_size=25)


@given(logs, st.lists(st.integers(0, 25), max_size=4), st.integers(1, 5))
def test_the_state_depends_on_the_log_alone_for_any_batches_and_pieces(
    values: list[bytes | None], ends: list[int], size: int
) -> None:
    if not values:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RECORDS_AT_ONCE", size)
        split = fed(WINDOWS, values, ends)
    total = fed(WINDOWS, values)
    assert parts(split) == parts(total)
    tally = total.tally
    lost = sum(tally.invalid.values()) + tally.tombstones + tally.duplicates
    assert tally.consumed == len(values) == tally.valid + lost
    assert tally.valid == sum(lists(total).values())


@given(logs, logs)
def test_a_restored_state_continues_as_if_never_stopped(
    before: list[bytes | None], after: list[bytes | None]
) -> None:
    lasting = ingest(WINDOWS)
    lasting.begin(PARTITION, {PARTITION: 0})
    lasting.apply(batch(before))
    restored = ingest(WINDOWS)
    restored.restore(PARTITION, {PARTITION: len(before)}, parts(lasting))
    assert parts(restored) == parts(lasting)
    for ingest_ in (lasting, restored):
        ingest_.apply(batch(after, start=len(before)))
    assert parts(restored) == parts(lasting)
    assert state(restored) == state(lasting)


def test_a_new_statistic_says_since_when_it_is_kept() -> None:
    before = ingest(layout(["hit_rate@3"], spans=(5 * MINUTE,)))
    before.apply(batch([record(ts=600)]))
    more = layout(["hit_rate@3", "distinct_items@3"], spans=(10 * MINUTE,))
    after = ingest(more)
    after.restore(PARTITION, {PARTITION: 1}, parts(before))
    since = after.partitions[PARTITION].since
    assert since["labels:panes"] == (600 - 5 * 60 - 120) * 1_000_000
    (name,) = Accumulator("distinct_items@3").needs("distinct_items@3")
    assert since[f"labels:{name}"] == 600_000_000
    assert not [key for key in since if key.startswith("labels:hits")]
    read = {(line.metric.name, line.window): line.since for line in Taking(after).take().series}
    assert (read["hit_rate", "10m"], read["hit_rate", "lifetime"]) == (180.0, None)
    assert (read["distinct_items", "10m"], read["distinct_items", "lifetime"]) == (600.0, 600.0)


def test_a_state_without_its_meta_is_damaged() -> None:
    of = ingest()
    of.apply(batch([record()]))
    content = parts(of)
    del content[META]
    with pytest.raises(DamagedStateError, match=META):
        ingest().restore(PARTITION, {PARTITION: 1}, content)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kept": {"labels": None}},
        {"kept": 7},
        {"since": 7},
        {"clock": [0, 0, 7]},
        {"clock": [0, 0, [2**63]]},
        {"ahead": [7]},
        {"tally": []},
    ],
)
def test_a_state_with_any_wrong_field_is_damaged(wrong: dict[str, object]) -> None:
    of = ingest()
    of.apply(batch([record()]))
    content = parts(of)
    content[META] = msgspec.msgpack.encode({**msgspec.msgpack.decode(content[META]), **wrong})
    with pytest.raises(DamagedStateError):
        ingest().restore(PARTITION, {PARTITION: 1}, content)


def test_a_dropped_partition_is_in_no_view() -> None:
    of = ingest()
    of.apply(batch([record()]))
    of.apply(batch([record()] * 2, number=1))
    of.drop(PARTITION)
    assert list(lists(of).values()) == [2]
    assert of.positions == {Partition("events", 1): 2}
