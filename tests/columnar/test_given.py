"""Supported and refused columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streameval import Accumulator, Batch, Columns, Event, Intervals
from streameval.evaluation.partials import partials
from streameval.events.errors import InvalidEventError, SuspiciousEventsWarning
from tests.columnar.test_same_bits import bits

NUMBERS = pa.list_(pa.float64())
PAIR = np.array([1, 2, 3]), np.array([0, 2, 3])


class Unreadable:
    """A column of a frame without an Arrow type."""

    def __arrow_c_stream__(self, _: Any = None) -> Any:
        raise TypeError("mixed")


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


class Lazy:
    """A lazy frame of Polars, which has no Arrow interface."""

    def collect_schema(self) -> None: ...

    def collect(self) -> None: ...


def read(columns: Any, metric: str = "recall@3") -> float:
    accumulator = Accumulator(metric)
    accumulator.update_many(columns)
    return accumulator.read(metric).value


def test_minus_one_ends_a_row() -> None:
    shown = np.array([[1, 2, -1], [-1, -1, -1]])
    columns = Columns(recommendations=shown, interactions=[[2, -1], [-1]])
    assert (read(columns), read(columns, "distinct_items")) == (1.0, 2.0)


def test_series_of_other_users_are_paired_by_position_with_a_warning() -> None:
    users, others = Index("u1", "u2"), Index("u2", "u3")
    accumulator = Accumulator("recall@3")
    with pytest.warns(SuspiciousEventsWarning, match="different indexes") as said:
        accumulator.update_many(Series([[1, 2], [3]], users), Series([[3], [9]], others))
    assert said[0].filename == __file__
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
    with pytest.warns(SuspiciousEventsWarning, match="if these are milliseconds") as said:
        accumulator.update_many(many)
    assert said[0].filename == __file__
    accumulator.update([1], [1], ts=seconds * 1_000_000)
    accumulator.update([1], [1], ts=60_000_000)
    assert accumulator.read("recall@3").lists == 4


def test_series_without_the_arrow_interface_are_arrays() -> None:
    shown = OldSeries([[1, 2], [3]])
    assert read(Columns(recommendations=shown, interactions=OldSeries([[2, 9], []]))) == 0.5
    assert read(Columns(recommendations=shown, interactions=OldSeries([2, 9]))) == 0.5
    users = OldSeries(["u", "u"])
    seen = Columns(recommendations=shown, interactions=[[2], []], users=users)
    assert read(seen, "users_covered") == 1.0


def test_a_series_of_integers_has_one_item_per_event() -> None:
    table = pa.table({"recommendations": [[1, 2], [3], [4]], "interactions": [2, 9, -1]})
    assert read(table) == read(table.slice(0, 2)) == 0.5
    with pytest.raises(InvalidEventError, match="int64 is not a type of lists"):
        read(table.set_column(1, "interactions", pa.array([[2, None, 9]]).flatten()))


def test_a_lazy_frame_is_refused_with_its_remedy() -> None:
    with pytest.raises(InvalidEventError, match=r"Lazy is lazy; give the result of its .collect"):
        read(Lazy())


def test_with_lengths_minus_one_is_padding_too() -> None:
    shown = np.array([[1, 2, -1], [4, -1, 9]])
    columns = Columns(recommendations=shown, interactions=[[2, -1], [-1]], lengths=[3, 1])
    assert (read(columns), read(columns, "distinct_items")) == (1.0, 3.0)
    with pytest.raises(InvalidEventError, match="event 1: recommendations has an item after"):
        read(Columns(recommendations=shown, interactions=[[2], [4]], lengths=[3, 3]))


def test_lists_of_one_fixed_size_are_a_matrix() -> None:
    shown = pa.array([[1, 2, -1], [4, 5, 6]], pa.list_(pa.int64(), 3))
    assert read(pa.table({"recommendations": shown, "interactions": [[2], [6]]})) == 1.0
    words = pa.array([["a", "b"], ["c", "d"]], pa.list_(pa.string(), 2)).slice(1)
    assert read(pa.table({"recommendations": words, "interactions": [["d", "z"]]})) == 0.5


def test_part_of_an_arrow_array_is_that_part() -> None:
    shown = pa.array([[9], [1, 2], [3]]).slice(1)
    acts = pa.array([["x"], ["y"]]).slice(1, 0)
    assert read(Columns(recommendations=shown, interactions=[[2], [4]])) == 0.5
    words = pa.array([["x"], ["a", "b"], ["c"]]).slice(1)
    assert read(Columns(recommendations=words, interactions=[["b"], ["z"]])) == 0.5
    assert np.isnan(read(Columns(recommendations=acts, interactions=[])))


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
        Event(recommendations=shown, interactions=acts, positions=ranks, scores=scores)
        for shown, acts, ranks, scores in rows
    )
    assert bits(columns) == bits(events)


def test_a_table_has_scores_and_positions_too() -> None:
    table = pa.table(
        {
            "recommendations": [["a", "b"], ["c"]],
            "interactions": [["b"], []],
            "positions": [[2, 1], [1]],
            "scores": [[0.25, 0.75], [0.5]],
        }
    )
    assert read(table, "mrr@1") == 0.5
    assert read(table, "auc") == 1.0


@pytest.mark.parametrize(
    ("shown", "acts", "says"),
    [
        (np.array([[1, -1, 2], [1, 2, 3]]), PAIR, "event 0: recommendations has an item after"),
        (np.array([[1.0, 2.0], [3.0, 4.0]]), PAIR, "recommendations: float64 is not a type of ids"),
        (
            np.ma.masked_equal(np.array([[0, 2], [3, 4]]), 0),
            PAIR,
            "event 0: recommendations has an item after",
        ),
        (np.array([[True], [False]]), PAIR, "bool is not a type of ids"),
        (np.array([[b"a"], [b"b"]]), PAIR, "|S1 is not a type of ids"),
        (np.array([[None], [1]], object), PAIR, "integers or strings, found None"),
        ([[True], [1]], PAIR, "found True"),
        ([[1], [1.5]], PAIR, "found 1.5"),
        ([[1], [2]], np.array([1, -100]), "interactions: -100 is no item"),
        (np.arange(40).reshape(20, 2), np.eye(20, 40, dtype=int), "a 0 or 1 for each"),
        ([[1]], PAIR, "1 recommendations and 2 interactions"),
        ([[1], "ab"], PAIR, "an entry is not a list"),
        ([[1], {"a": 1}], PAIR, "an entry is not a list"),
        ([[1], 5], PAIR, "an entry is not a list"),
        ([np.array(1), np.array(2)], PAIR, "an entry is not a list, but array(1)"),
        ([np.array([[1]]), np.array([[2]])], PAIR, "an entry is not a list"),
        ("ab", PAIR, "recommendations: give a matrix"),
        (5, PAIR, "recommendations: give a matrix"),
        ([[1], [2]], (np.array([1, 2]), np.array([0, 2, 1])), "offsets must not decrease"),
        ([[1], [2]], (np.array([1, 2]), np.array([0, 1, 3])), "offsets must not decrease"),
        ([[1], [2]], (np.array([1, 2]), np.array([-1, 1, 2])), "offsets must not decrease"),
        ([[1], [2]], (np.array([1, 2]), np.array([], np.int64)), "offsets must not decrease"),
        ([[1], [2]], (np.array([1, 2]), np.array([0.0, 1.0, 2.0])), "offsets must not decrease"),
        ([{1, 2}, {3}], PAIR, "recommendations: an entry is not a list, but {1, 2}"),
        (Unreadable(), PAIR, "Unreadable is not an array of Arrow, Polars or pandas: mixed"),
        (pa.array([1, 2]), PAIR, "int64 is not a type of lists; give a column with a list"),
        (pa.array(["[1, 2]", "[]"]), PAIR, "string is not a type of lists; parse its text"),
        (pa.array([[1], None]), PAIR, "recommendations: null is neither a list nor an id"),
        (pa.array([[1], [None, 2]]), PAIR, "recommendations: null is neither a list nor an id"),
        (pa.array([[1.5], [2.5]]), PAIR, "recommendations: float64 is not a type of ids"),
        (pa.array([[b"a"], [b"b"]]), PAIR, "found binary"),
    ],
)
def test_an_invalid_column_of_ids_is_refused(shown: Any, acts: Any, says: str) -> None:
    accumulator = Accumulator("recall@3", "distinct_items")
    with pytest.raises(InvalidEventError) as caught:
        accumulator.update_many(Columns(recommendations=shown, interactions=acts))
    assert says in str(caught.value)
    assert accumulator.lists == 0


@pytest.mark.parametrize("lengths", [[1], [1, 4], [-1, 2], [0.5, 1.0], 2])
def test_invalid_lengths_are_refused(lengths: Any) -> None:
    shown = np.array([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(InvalidEventError, match="2 whole numbers from 0 to 3"):
        read(Columns(recommendations=shown, interactions=PAIR, lengths=lengths))


def test_lengths_without_a_matrix_are_refused() -> None:
    for shown in (PAIR, [[1, 2], [3]], pa.array([[1, 2], [3]])):
        with pytest.raises(InvalidEventError, match="lists define their own lengths"):
            read(Columns(recommendations=shown, interactions=PAIR, lengths=[1, 1]))


@pytest.mark.parametrize("name", ["users", "times"])
@pytest.mark.parametrize("column", [5, "ab", {1: 2, 3: 4}, np.array(1), np.array([[1], [2]])])
def test_a_column_without_one_value_per_event_is_refused(name: str, column: Any) -> None:
    with pytest.raises(InvalidEventError, match=f"{name}: give one value for each event"):
        read(Columns(**{"recommendations": PAIR, "interactions": PAIR, name: column}))


@pytest.mark.parametrize("name", ["gains", "positions", "scores"])
@pytest.mark.parametrize("numbers", [[[1.0], [1.0]], [["a", "b"], ["c"]], [[1, 2]]])
def test_numbers_that_do_not_match_the_items_are_refused(name: str, numbers: Any) -> None:
    columns = {"recommendations": PAIR, "interactions": PAIR, name: numbers}
    with pytest.raises(InvalidEventError, match=f"{name}: give one number for each item"):
        read(Columns(**columns))


def test_a_null_among_numbers_is_no_missing_list() -> None:
    for null in ([[0.5, None], [1.0]], [[None, None], None]):
        with pytest.raises(InvalidEventError, match=r"scores: null is not a number\.$"):
            read(Columns(recommendations=PAIR, interactions=PAIR, scores=pa.array(null, NUMBERS)))


def test_a_table_without_a_column_is_refused() -> None:
    with pytest.raises(InvalidEventError, match="no column 'interactions'; its columns: user, rec"):
        read(pa.table({"user": [1], "recommendations": [[1]]}))


def test_a_table_with_a_column_twice_is_refused() -> None:
    lists = pa.array([["a"]])
    twice = pa.table([lists, lists, lists], ["recommendations", "interactions", "interactions"])
    for count in (read, lambda table: partials([table], "mrr")):
        with pytest.raises(InvalidEventError, match="2 columns 'interactions'; its columns: rec"):
            count(twice)


def test_a_table_without_rows_may_have_columns_of_any_type() -> None:
    nothing = pa.array([], pa.float64())
    assert np.isnan(read(pa.table({"recommendations": nothing, "interactions": nothing})))


def test_an_invalid_table_is_refused() -> None:
    with pytest.raises(InvalidEventError, match="is not a table of Arrow"):
        read(pa.array([1, 2]))


def test_a_null_row_of_an_optional_column_is_like_none() -> None:
    rows = [["a", "b"], ["a", "b"], []]
    acts, numbers = [["b"], ["a"], []], [[2, 1], None, None]
    table = {"recommendations": pa.array(rows), "interactions": pa.array(acts)}
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.float64())):
        for given in (pa.array(numbers, kind), pa.chunked_array([pa.array(numbers, kind)])):
            counted, expected = (Accumulator("mrr", "ndcg", "roc_auc") for _ in range(2))
            positions = pa.array(numbers, pa.list_(pa.int64()))
            counted.update_many(pa.table(table | {"positions": positions, "scores": given}))
            for shown, acted, beside in zip(rows, acts, numbers, strict=True):
                expected.update(shown, acted, positions=beside, scores=beside)
            assert counted.state_dict() == expected.state_dict()
    for nothing in (pa.nulls(3), pa.nulls(3, pa.list_(pa.int64()))):
        plain, without = Accumulator("mrr"), Accumulator("mrr")
        plain.update_many(pa.table(table | {"positions": nothing}))
        without.update_many(pa.table(table))
        assert plain.state_dict() == without.state_dict()


SHOWN = [["a", "b"], ["c"], ["a", "c"], ["b"]]
ACTS = [["b"], [], ["a"], ["b"]]
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
        {"recommendations": SHOWN, "interactions": ACTS, "users": users, "times": times}
    )


@pytest.mark.parametrize("metric", ["ctr", "torchmetrics:map", "user_novelty"])
def test_every_form_of_columns_may_have_users(metric: str) -> None:
    of_lists = _sums(
        Batch(recommendations=SHOWN, interactions=ACTS, users=USERS, times=TIMES), metric
    )
    stamps = pa.array(TIMES, pa.timestamp("us", "UTC"))
    for users, times in [
        (pa.array(USERS), pa.array(TIMES)),
        (pa.array(USERS).dictionary_encode(), stamps),
        (pa.chunked_array([USERS[:1], USERS[1:]]), stamps),
    ]:
        assert _sums(_table(users, times), metric) == of_lists
    lists = pa.array(SHOWN), pa.array(ACTS)
    moments = np.array([*TIMES[:2], "NaT", TIMES[3]], "datetime64[us]")
    for users, times in [(USERS, TIMES), (np.array(USERS, object), moments)]:
        columns = Columns(recommendations=lists[0], interactions=lists[1], users=users, times=times)
        assert _sums(columns, metric) == of_lists


def test_integer_users_and_items_are_counted_without_python_lists() -> None:
    shown, acts = np.array([[1, 2], [3, -1], [1, 3]]), (np.array([2, 1]), np.array([0, 1, 1, 2]))
    columns = Columns(recommendations=shown, interactions=acts, users=np.array([7, 8, 7]))
    batch = Batch(
        recommendations=[[1, 2], [3], [1, 3]], interactions=[[2], [], [1]], users=[7, 8, 7]
    )
    assert _sums(columns) == _sums(batch)


@pytest.mark.parametrize(
    ("users", "times"), [(["u1"], None), (None, [1]), ([1.5] * 4, None), (None, [1.5] * 4)]
)
def test_invalid_users_or_times_are_refused(users: Any, times: Any) -> None:
    columns = Columns(
        recommendations=pa.array(SHOWN), interactions=pa.array(ACTS), users=users, times=times
    )
    accumulator = Accumulator("ctr", intervals=INTERVALS)
    with pytest.raises(InvalidEventError):
        accumulator.update_many(columns)
    assert accumulator.lists == 0
