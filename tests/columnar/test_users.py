"""Columns of users and times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streameval import Accumulator, Batch, Columns, Intervals
from streameval.errors import InvalidEventError
from tests.effort import every_case

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
    return (*(each.tolist() for each in (*sums, audience.hashes)), *audience[1:])


def _table(users: Any, times: Any) -> pa.Table:
    return pa.table(
        {"recommendations": SHOWN, "interactions": ACTS, "users": users, "times": times}
    )


@every_case("metric", ["ctr", "map(denominator=hits)", "user_novelty"])
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


@every_case(("users", "times"), [(["u1"], None), (None, [1]), ([1.5] * 4, None), (None, [1.5] * 4)])
def test_invalid_users_or_times_are_refused(users: Any, times: Any) -> None:
    columns = Columns(
        recommendations=pa.array(SHOWN), interactions=pa.array(ACTS), users=users, times=times
    )
    accumulator = Accumulator("ctr", intervals=INTERVALS)
    with pytest.raises(InvalidEventError):
        accumulator.update_many(columns)
    assert accumulator.lists == 0
