"""Supported and refused columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streameval import Accumulator, Batch, Columns, Event, Intervals
from streameval.events.errors import SuspiciousEventsWarning
from tests.contract.laws import bits


class Index:
    """The index of a pandas series."""

    def __init__(self, *users: str) -> None:
        self.users = users

    def equals(self, other: Index) -> bool:
        return self.users == other.users


class Series:
    """A column of pandas: lists with an index."""

    def __init__(self, lists: list[list[int]], index: Index) -> None:
        self.lists, self.index = pa.chunked_array([lists]), index

    def __arrow_c_stream__(self, wanted: Any = None) -> Any:
        return self.lists.__arrow_c_stream__(wanted)


class OldSeries:
    """A column of pandas before 3, without the Arrow interface."""

    def __init__(self, values: list[Any]) -> None:
        self.values = pa.array(values).to_numpy(zero_copy_only=False)

    def to_numpy(self) -> Any:
        return self.values


def read(columns: Any, metric: str = "recall@3") -> float:
    accumulator = Accumulator(metric)
    accumulator.update_many(columns)
    return accumulator.read(metric).value


def test_series_of_other_users_are_paired_by_position_with_a_warning() -> None:
    users, others = Index("u1", "u2"), Index("u2", "u3")
    accumulator = Accumulator("recall@3")
    with pytest.warns(SuspiciousEventsWarning, match="different indexes") as caught:
        accumulator.update_many(Series([[1, 2], [3]], users), Series([[3], [9]], others))
    assert caught[0].filename == __file__
    assert accumulator.read("recall@3").value == 0.0
    accumulator.update_many(Series([[1, 2], [3]], users), Series([[1], [3]], Index("u1", "u2")))
    assert accumulator.read("recall@3").value == 0.5


def test_times_in_another_unit_are_warned_of_whatever_brings_them() -> None:
    accumulator, seconds = Accumulator("recall@3"), 1_790_000_000
    with pytest.warns(
        SuspiciousEventsWarning, match="if these are seconds, multiply them by 1,000,000"
    ):
        accumulator.update([1], [1], ts=seconds)
    many = Columns(recommendations=[[1]], interactions=[[1]], times=[seconds * 1_000])
    with pytest.warns(SuspiciousEventsWarning, match="if these are milliseconds") as caught:
        accumulator.update_many(many)
    assert caught[0].filename == __file__
    accumulator.update([1], [1], ts=seconds * 1_000_000)
    accumulator.update([1], [1], ts=60_000_000)
    assert accumulator.read("recall@3").lists == 4


def test_series_without_the_arrow_interface_are_arrays() -> None:
    ranked = OldSeries([[1, 2], [3]])
    assert read(Columns(recommendations=ranked, interactions=OldSeries([[2, 9], []]))) == 0.5
    assert read(Columns(recommendations=ranked, interactions=OldSeries([2, 9]))) == 0.5
    users = OldSeries(["u", "u"])
    seen = Columns(recommendations=ranked, interactions=[[2], []], users=users)
    assert read(seen, "users_covered") == 1.0


def test_a_series_of_integers_has_one_item_per_event() -> None:
    table = pa.table({"recommendations": [[1, 2], [3], [4]], "interactions": [2, 9, -1]})
    assert read(table) == read(table.slice(0, 2)) == 0.5


def test_with_lengths_minus_one_is_padding_too() -> None:
    ranked = np.array([[1, 2, -1], [4, -1, 9]])
    columns = Columns(recommendations=ranked, interactions=[[2, -1], [-1]], lengths=[3, 1])
    assert (read(columns), read(columns, "distinct_items")) == (1.0, 3.0)


def test_lists_of_one_fixed_size_are_a_matrix() -> None:
    ranked = pa.array([[1, 2, -1], [4, 5, 6]], pa.list_(pa.int64(), 3))
    assert read(pa.table({"recommendations": ranked, "interactions": [[2], [6]]})) == 1.0
    words = pa.array([["a", "b"], ["c", "d"]], pa.list_(pa.string(), 2)).slice(1)
    assert read(pa.table({"recommendations": words, "interactions": [["d", "z"]]})) == 0.5


def test_a_table_may_have_columns_that_no_metric_reads() -> None:
    table = pa.table({"user": ["u"], "recommendations": [[1, 2]], "interactions": [[2]]})
    assert read(table) == 1.0


def test_gains_positions_and_scores_are_those_of_events() -> None:
    metrics = ("ndcg@3", "ctr@2", "recbole:gauc")
    columns, events = Accumulator(*metrics), Accumulator(*metrics)
    columns.update_many(
        Columns(
            recommendations=np.array([[7, 8, 9], [8, 9, -1]]),
            interactions=(np.array([9, 8, 9, 8]), np.array([0, 3, 4])),
            gains=(np.array([3.0, 2.0, 0.5, 1.0]), np.array([0, 3, 4])),
            positions=np.array([[2, 1, 3], [1, 5, 0]]),
            scores=np.array([[0.5, 0.25, 0.5], [0.1, 0.2, np.nan]]),
        )
    )
    rows = [
        ([7, 8, 9], {9: 3.0, 8: 2.0}, [2, 1, 3], [0.5, 0.25, 0.5]),
        ([8, 9], {8: 1.0}, [1, 5], [0.1, 0.2]),
    ]
    events.update_many(
        Event(recommendations=ranked, interactions=clicks, positions=ranks, scores=scores)
        for ranked, clicks, ranks, scores in rows
    )
    assert bits(columns) == bits(events)


def test_a_table_without_rows_may_have_columns_of_any_type() -> None:
    nothing = pa.array([], pa.float64())
    assert np.isnan(read(pa.table({"recommendations": nothing, "interactions": nothing})))


def test_a_null_row_of_an_optional_column_is_like_none() -> None:
    rows = [["a", "b"], ["a", "b"], []]
    clicks, numbers = [["b"], ["a"], []], [[2, 1], None, None]
    table = {"recommendations": pa.array(rows), "interactions": pa.array(clicks)}
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.float64())):
        for inputs in (pa.array(numbers, kind), pa.chunked_array([pa.array(numbers, kind)])):
            counted, expected = (Accumulator("mrr", "ndcg", "roc_auc") for _ in range(2))
            positions = pa.array(numbers, pa.list_(pa.int64()))
            counted.update_many(pa.table(table | {"positions": positions, "scores": inputs}))
            for ranked, acted, beside in zip(rows, clicks, numbers, strict=True):
                expected.update(ranked, acted, positions=beside, scores=beside)
            assert counted.state_dict() == expected.state_dict()
    for nothing in (pa.nulls(3), pa.nulls(3, pa.list_(pa.int64()))):
        plain, without = Accumulator("mrr"), Accumulator("mrr")
        plain.update_many(pa.table(table | {"positions": nothing}))
        without.update_many(pa.table(table))
        assert plain.state_dict() == without.state_dict()


LISTS = [["a", "b"], ["c"], ["a", "c"], ["b"]]
CLICKS = [["b"], [], ["a"], ["b"]]
USERS = ["u1", "u2", None, "u1"]
DAY = 86_400 * 1_000_000
TIMES = [5, DAY, None, 2 * DAY + 7]
INTERVALS = Intervals(groups=16)


def _sums(batch: Any, metric: str = "ctr") -> tuple[object, ...]:
    accumulator = Accumulator(metric, intervals=INTERVALS)
    accumulator.update_many(batch)
    sums, audience = accumulator.groups(metric), accumulator.audience
    assert sums is not None
    assert audience is not None
    return tuple(np.asarray(column).tolist() for column in (*sums, *audience))


def _table(users: Any, times: Any) -> pa.Table:
    return pa.table(
        {"recommendations": LISTS, "interactions": CLICKS, "users": users, "times": times}
    )


@pytest.mark.parametrize("metric", ["ctr", "torchmetrics:map", "user_novelty"])
def test_every_form_of_columns_may_have_users(metric: str) -> None:
    of_lists = _sums(
        Batch(recommendations=LISTS, interactions=CLICKS, users=USERS, times=TIMES), metric
    )
    stamps = pa.array(TIMES, pa.timestamp("us", "UTC"))
    for users, times in [
        (pa.array(USERS), pa.array(TIMES)),
        (pa.array(USERS).dictionary_encode(), stamps),
        (pa.chunked_array([USERS[:1], USERS[1:]]), stamps),
    ]:
        assert _sums(_table(users, times), metric) == of_lists
    lists = pa.array(LISTS), pa.array(CLICKS)
    moments = np.array([*TIMES[:2], "NaT", TIMES[3]], "datetime64[us]")
    for users, times in [(USERS, TIMES), (np.array(USERS, object), moments)]:
        columns = Columns(recommendations=lists[0], interactions=lists[1], users=users, times=times)
        assert _sums(columns, metric) == of_lists


def test_integer_users_and_items_are_counted_without_python_lists() -> None:
    ranked, clicks = np.array([[1, 2], [3, -1], [1, 3]]), (np.array([2, 1]), np.array([0, 1, 1, 2]))
    columns = Columns(recommendations=ranked, interactions=clicks, users=np.array([7, 8, 7]))
    batch = Batch(
        recommendations=[[1, 2], [3], [1, 3]], interactions=[[2], [], [1]], users=[7, 8, 7]
    )
    assert _sums(columns) == _sums(batch)
