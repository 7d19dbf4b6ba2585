"""A table of many cells equals one accumulator per cell: counted, moved, saved and read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Accumulator, Columns, Intervals
from streameval.accumulator.plan import make_plan
from streameval.accumulator.reading_intervals import IntervalMethod
from streameval.accumulator.readings import readings_of
from streameval.accumulator.table import Table
from streameval.events import columns_of
from streameval.events.columns import read_columns
from streameval.events.errors import DamagedStateError, UnlikeStateError
from streameval.testing.laws import update
from tests.contract import laws
from tests.contract.metric_cases import a_text_of_each, inputs, stream
from tests.effort import few_examples

ALL = a_text_of_each()
SOME = ["ndcg@5", "mrr", "distinct_items@3", "personalization", "auc", "novelty@3"]
EVENTS = stream(60)

INTERVALS = Intervals(groups=16)

places = st.lists(st.sampled_from([0, 1, 3, 4, 9]), min_size=len(EVENTS), max_size=len(EVENTS))


def _made(texts: Sequence[str]) -> Accumulator:
    return Accumulator(*texts, **inputs(EVENTS).of_package, intervals=INTERVALS)


def _table(texts: Sequence[str] = SOME, max_items: int = 1_000_000) -> Table:
    accumulator = _made(texts)
    plan = make_plan(accumulator.metrics, None, max_items, groups=16)
    return Table(plan, accumulator.context, ids="text")


def _counted(
    cells: Sequence[int], texts: Sequence[str] = SOME, max_items: int = 1_000_000
) -> Table:
    table = _table(texts, max_items)
    table.count(columns_of(EVENTS[: len(cells)]), np.array(cells))
    return table


def _pane(cells: Sequence[int], max_items: int = 1_000_000) -> Table:
    total = _counted(cells, max_items=max_items)
    pane = total.empty(total.plan.at("pane"))
    pane.add(total)
    return pane


def _apart(cells: Sequence[int], texts: Sequence[str] = SOME) -> Mapping[int, Accumulator]:
    accumulators: defaultdict[int, Accumulator] = defaultdict(lambda: _made(texts))
    for cell, event in zip(cells, EVENTS, strict=False):
        update(accumulators[cell], event)
    return accumulators


def _dumped(table: Table, cell: int) -> bytes:
    return b"".join(table.dump([cell]))


def _is(table: Table, expected: Mapping[int, Accumulator]) -> None:
    assert table.cells.tolist() == sorted(expected)
    for cell, accumulator in expected.items():
        assert _dumped(table, cell) == laws.dumped(accumulator)


@few_examples()
@given(places)
def test_each_cell_is_what_an_accumulator_would_be(cells: list[int]) -> None:
    _is(_counted(cells), _apart(cells))


def test_all_cells_are_read_in_one_pass_with_the_bits_of_each() -> None:
    cells = [index % 5 for index in range(len(EVENTS))]
    table, apart = _counted(cells, ALL), _apart(cells, ALL)
    order = [3, 0, 77, 4, 1, 2]
    for metric in laws.made(ALL, EVENTS).metrics:
        cells_asked = np.array(order)
        readings = readings_of(metric, table, cells_asked, IntervalMethod(INTERVALS))
        expected = [apart[cell].read(metric.text) for cell in order]
        assert list(map(laws.seen, readings)) == list(map(laws.seen, expected)), metric.text


@few_examples()
@given(places, st.permutations([0, 1, 3, 4, 9]))
def test_it_is_restored_with_other_cell_numbers(cells: list[int], order: list[int]) -> None:
    table = _counted(cells)
    data = b"".join(table.dump(order))
    numbers = [70, 20, 30, 10, 50]
    loaded = _table()
    _ = loaded.items["an item that was there before"]
    assert loaded.load(data, numbers) == frozenset()
    assert b"".join(loaded.dump(numbers)) == data
    again = _table()
    again.count(columns_of(EVENTS[::-1]), np.array(cells[::-1]))
    assert b"".join(again.dump(order)) == data


def test_bytes_of_more_cells_than_are_named_are_damaged() -> None:
    data = b"".join(_counted([0, 1, 3] * 20).dump([0, 1, 3]))
    with pytest.raises(DamagedStateError, match="code 2 of only"):
        _table().load(data, [0, 1])


def test_a_table_with_users_or_a_thinned_cell_is_reduced() -> None:
    assert _counted([0] * 60).reduced
    assert not _pane([0] * 60).reduced
    assert _pane([0] * 60, max_items=2).reduced


def test_a_sample_stays_small_though_nobody_reads_it() -> None:
    table, width = _table(["distinct_items"], max_items=1_000), 1_024
    for first in range(0, 2 * 2**20, width**2 // 2):
        items = np.arange(first, first + width**2 // 2).reshape(-1, width)
        none = np.full((len(items), 1), -1)
        table.ids = "integer"
        table.count(read_columns(Columns(recommendations=items, interactions=none)))
    rows = [each.size for one in table.statistics.values() for each in one.relations.values()]
    assert sum(rows) < 1.25 * 2**20


def test_a_copy_is_independent_and_every_change_has_a_version() -> None:
    table = _counted([0, 1] * 30)
    before = [_dumped(table, 0), _dumped(table, 1)]
    duplicate = table.copy()
    seen = {table.version, duplicate.version}
    duplicate.count(columns_of(EVENTS), 0)
    duplicate.rename({1: 5})
    duplicate.add(table)
    seen.add(duplicate.version)
    assert len(seen) == 3
    assert [_dumped(table, 0), _dumped(table, 1)] == before


def test_tables_of_other_statistics_are_refused() -> None:
    with pytest.raises(UnlikeStateError, match="different statistics"):
        _table(["mrr"]).add(_table(["ndcg@5"]))


def test_a_change_invalidates_cached_readings() -> None:
    mrr = laws.made(["mrr"], EVENTS).metrics[0]
    here, there = _pane([0] * 60), _pane([1] * 60)
    changes: list[tuple[Callable[[], None], list[int]]] = [
        (lambda: here.add(there), [60, 60]),
        (lambda: here.rename({1: 0}), [120, 0]),
        (lambda: here.subtract(_pane([0] * 60)), [60, 0]),
        (lambda: here.count(columns_of(EVENTS), 1), [60, 60]),
    ]
    for change, lists in changes:
        readings_of(mrr, here, np.array([0, 1]))
        change()
        readings = readings_of(mrr, here, np.array([0, 1]))
        assert [reading.lists for reading in readings] == lists
