from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Intervals
from streameval.accumulator import Accumulator
from streameval.engine import ingest as module
from streameval.engine.partition import META
from streameval.errors import DamagedStateError
from streameval.events.records import Partition
from tests.effort import every_case
from tests.engine.counting import MINUTE, batch, fed, ingest, layout, lists, parts, record, state

PLACE = Partition("events", 0)
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
        patch.setattr(module, "AT_ONCE", size)
        split = fed(WINDOWS, values, ends)
    whole = fed(WINDOWS, values)
    assert parts(split) == parts(whole)
    tally = whole.tally
    lost = sum(tally.invalid.values()) + tally.tombstones + tally.duplicates
    assert tally.consumed == len(values) == tally.valid + lost
    assert tally.valid == sum(lists(whole).values())


@given(logs, logs)
def test_a_restored_state_continues_as_if_never_stopped(
    before: list[bytes | None], after: list[bytes | None]
) -> None:
    lasting = ingest(WINDOWS)
    lasting.begin(PLACE, {PLACE: 0})
    lasting.apply(batch(before))
    restored = ingest(WINDOWS)
    restored.restore(PLACE, {PLACE: len(before)}, parts(lasting))
    assert parts(restored) == parts(lasting)
    for each in (lasting, restored):
        each.apply(batch(after, start=len(before)))
    assert parts(restored) == parts(lasting)
    assert state(restored) == state(lasting)


def test_a_new_statistic_says_since_when_it_is_kept() -> None:
    before = ingest(layout(["hit_rate@3"], spans=(5 * MINUTE,)))
    before.apply(batch([record(ts=600)]))
    more = layout(["hit_rate@3", "distinct_items@3"], spans=(10 * MINUTE,))
    after = ingest(more)
    after.restore(PLACE, {PLACE: 1}, parts(before))
    since = after.partitions[PLACE].since
    assert since["labels:panes"] == (600 - 5 * 60 - 120) * 1_000_000
    (name,) = Accumulator("distinct_items@3").needs("distinct_items@3")
    assert since[f"labels:{name}"] == 600_000_000
    assert not [key for key in since if key.startswith("labels:hits")]


def test_a_state_without_its_meta_is_damaged() -> None:
    of = ingest()
    of.apply(batch([record()]))
    held = parts(of)
    del held[META]
    with pytest.raises(DamagedStateError, match=META):
        ingest().restore(PLACE, {PLACE: 1}, held)


@every_case(
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
    held = parts(of)
    held[META] = msgspec.msgpack.encode({**msgspec.msgpack.decode(held[META]), **wrong})
    with pytest.raises(DamagedStateError):
        ingest().restore(PLACE, {PLACE: 1}, held)


def test_a_dropped_partition_is_in_no_view() -> None:
    of = ingest()
    of.apply(batch([record()]))
    of.apply(batch([record()] * 2, number=1))
    of.drop(PLACE)
    assert list(lists(of).values()) == [2]
    assert of.positions == {Partition("events", 1): 2}
