"""Saved states with other metrics, other inputs, damage, or another version."""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator, Intervals
from streameval.accumulator.codec import STATE_VERSION
from streameval.events.errors import (
    DamagedStateError,
    NotKeptError,
    StateVersionError,
    StreamevalError,
)
from streameval.statistics.hits import Hits
from streameval.testing.laws import update
from tests.contract import laws
from tests.contract.laws import dumped
from tests.contract.metric_cases import a_text_of_each, stream
from tests.effort import many_examples

ALL = a_text_of_each()
FEW = ["ndcg@2", "distinct_items@2", "personalization", "auc"]
SHORT = dumped(laws.counted(FEW, stream(8)))
BY_USER = Intervals(groups=16)
SUMS = dumped(laws.counted(["value_per_list"], stream(2), intervals=BY_USER))


def test_pieces_are_one_msgpack_value() -> None:
    total = dumped(laws.counted(ALL, stream()))
    version, ids, (cells, lists), _, statistics = msgspec.msgpack.decode(total)
    assert (version, ids) == (STATE_VERSION, "text")
    assert ([*cells.data], [*lists.data]) == ([0], [len(stream())])
    assert [*statistics] == sorted(statistics)


@given(st.data())
def test_a_truncated_dump_is_damaged_and_changes_nothing(data: st.DataObject) -> None:
    accumulator = laws.counted(FEW, stream(3))
    before = dumped(accumulator)
    cut = data.draw(st.integers(0, len(SHORT) - 1))
    with pytest.raises(DamagedStateError, match="Nothing was loaded"):
        accumulator.adopt(SHORT[:cut])
    assert dumped(accumulator) == before


def test_any_other_byte_of_sums_by_user_gives_a_typed_error_or_a_state() -> None:
    accumulator = laws.made(["value_per_list"], intervals=BY_USER)
    for index in range(len(SUMS)):
        flipped = bytearray(SUMS)
        flipped[index] ^= 64
        with suppress(StreamevalError):
            accumulator.adopt(bytes(flipped))


@many_examples()
@given(place=st.integers(0, len(SHORT) - 1), other=st.integers(1, 255))
def test_a_changed_byte_that_breaks_the_structure_is_a_typed_error(place: int, other: int) -> None:
    """Other changes are detected by the digest of the file."""
    flipped = bytearray(SHORT)
    flipped[place] ^= other
    accumulator = laws.made(FEW)
    empty = dumped(accumulator)
    try:
        accumulator.adopt(bytes(flipped))
    except StreamevalError:
        assert dumped(accumulator) == empty


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc0", b"\x95\x03\xc0\x90\x90\xc0", b"{}", b"\x91" * 5_000, SHORT * 2, SHORT + b"\x00"],
)
def test_an_invalid_dump_is_damaged(data: bytes) -> None:
    with pytest.raises(DamagedStateError):
        laws.made(FEW).adopt(data)


@pytest.mark.parametrize("version", [0, 1, STATE_VERSION + 1, "2", None])
def test_a_dump_of_another_version_is_refused(version: object) -> None:
    data = msgspec.msgpack.encode([version, "whatever", "follows", "there"])
    with pytest.raises(StateVersionError) as error:
        laws.made(ALL).adopt(data)
    assert error.value.found == version


def _lists_with_gains(accumulator: Accumulator) -> int:
    hits = next(
        statistic
        for statistic in accumulator.table.statistics.values()
        if isinstance(statistic, Hits)
    )
    return int(hits.view(np.array([0])).graded[0])


def test_a_metric_added_later_reads_only_later_events() -> None:
    """Earlier lists with gains are not in a mean that needs their gains."""
    events, late = stream(), stream(seed=8)
    early = laws.counted(["mrr@5"], events)
    grown = laws.made(["mrr@5", "ndcg@5"])
    assert grown.adopt(dumped(early)) == {"graded:ndcg@5"}
    for event in late:
        update(grown, event)
    graded = _lists_with_gains(early)
    without_gains = [sent for sent in events if type(sent.interactions) is not dict]
    dicts = [sent for sent in events if type(sent.interactions) is dict]
    ones = [sent for sent in dicts if all(g in (1, 0, -1) for g in sent.interactions.values())]  # type: ignore[union-attr]  # a dict
    assert len(dicts) - len(ones) == graded > 0
    expected = laws.counted(["mrr@5", "ndcg@5"], [*without_gains, *ones, *late])
    assert grown.read("ndcg@5").value == expected.read("ndcg@5").value
    assert grown.read("ndcg@5").count == expected.read("ndcg@5").count
    assert grown.lists == len(events) + len(late)


def test_a_metric_added_later_is_saved_and_merged() -> None:
    early = laws.counted(["mae"], stream())
    grown = laws.made(["mae", "rmse"])
    grown.adopt(dumped(early))
    twice, again = laws.made(["mae", "rmse"]), laws.made(["mae", "rmse"])
    twice.merge(grown)
    again.load_state_dict(grown.state_dict())
    assert laws.bits(twice) == laws.bits(again) == laws.bits(grown) == laws.bits(grown.copy())
    twice.merge(laws.counted(["mae", "rmse"], stream()))
    assert [twice.read(text).lists for text in ("mae", "rmse")] == [120, 60]


@pytest.mark.parametrize(
    ("old", "new", "begins"),
    [
        (["item_coverage@2"], ["item_coverage@2", "item_coverage@5"], {"exposures(cutoff=5)"}),
        (["item_coverage@2", "item_coverage@5"], ["item_coverage@5"], set()),
        (["item_coverage@2", "gini@5"], ["distinct_items@2"], set()),
        (["mrr@5"], ["mrr@5", "mrr(repeats=every)@5"], {"hits(depth=5,repeats=every)"}),
        (["ndcg@5"], ["ndcg@5", "ndcg@2"], {"graded:ndcg@2"}),
        (
            ["mrr(statistic=median)@5"],
            ["mrr(statistic=median)@5", "mrr(statistic=median)@2"],
            {"values:mrr@2"},
        ),
        (["mae"], ["mae", "rmse"], {"events:rmse"}),
    ],
)
def test_another_metric_keeps_the_existing_counts(
    old: list[str], new: list[str], begins: set[str]
) -> None:
    """Common statistics keep their bits; new ones count from then on."""
    early, late = stream(), stream(seed=8)
    grown = laws.made(new)
    assert grown.adopt(dumped(laws.counted(old, early))) == begins
    for event in late:
        update(grown, event)
    total, since = (laws.counted(new, events) for events in ([*early, *late], late))
    for metric in new:
        started, needed = grown.needs(metric) & begins, grown.needs(metric)
        if started in (frozenset(), needed):
            assert grown.read(metric) == (since if started else total).read(metric)
    assert any(not grown.needs(metric) & begins for metric in new)


@pytest.mark.parametrize("metric", ["auc", "rmse", "distinct_items@2", "mrr(statistic=median)@5"])
def test_a_metric_that_is_not_kept_reads_no_statistic(metric: str) -> None:
    with pytest.raises(NotKeptError):
        Accumulator("mrr@5").needs(metric)
    with pytest.raises(NotKeptError):
        Accumulator("mrr@5").needs("mrr@6")


def test_a_later_start_gives_no_warning_of_missing_scores() -> None:
    early, late = Accumulator("mrr"), Accumulator("mrr", "auc")
    early.update_many([(["a"], ["a"])] * 10_000)
    late.adopt(dumped(early))
    merged = late.copy()
    merged.merge(late)
    for accumulator in (late, merged, pickle.loads(pickle.dumps(late))):  # ours
        assert accumulator.advice() is None
    late.update_many([(["a"], ["a"])] * 10_000)
    assert "lists without scores" in str(late.advice())


def test_an_adopted_dump_changes_the_version() -> None:
    accumulator = laws.counted(["mrr"], stream())
    version, before = accumulator.version, accumulator.read("mrr")
    accumulator.adopt(dumped(laws.made(["mrr"])))
    assert accumulator.version != version
    assert accumulator.read("mrr") != before


def _example() -> Accumulator:
    accumulator = Accumulator("ndcg@2", "distinct_items@2", "mae", "auc")
    accumulator.update(["a", "b"], {"a": 2.0}, scores=[0.5, 0.1])
    return accumulator


@pytest.mark.parametrize("key", sorted({*_example().state_dict()} - {"metrics"}))
def test_a_state_without_a_part_is_refused_and_nothing_changes(key: str) -> None:
    accumulator = _example()
    before = accumulator.state_dict()
    with pytest.raises(StreamevalError):
        accumulator.load_state_dict({name: part for name, part in before.items() if name != key})
    assert accumulator.state_dict() == before


def test_a_state_with_one_other_bit_is_refused() -> None:
    accumulator, state = _example(), _example().state_dict()
    content = b64decode(state["content"])
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        with pytest.raises(DamagedStateError, match="its CRC-32 differs"):
            accumulator.load_state_dict(state | {"content": b64encode(changed).decode()})
    assert accumulator.state_dict() == state


@pytest.mark.parametrize("part", [None, {}, "text", "dGV4dA==", [1, 2]])
def test_a_part_of_another_type_is_refused(part: object) -> None:
    accumulator = _example()
    with pytest.raises(DamagedStateError, match="Nothing was loaded"):
        accumulator.load_state_dict(accumulator.state_dict() | {"content": part})
