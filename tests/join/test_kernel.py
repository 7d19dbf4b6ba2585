"""The kernel of a join: equal to plain loops, and blind to the order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.events.ragged import Ragged
from streameval.join.kernel import Contents, InteractionKeys, ListColumns, are_copies, last_touches

_SMALL = st.integers(0, 3)
_rows = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 12), _SMALL), max_size=12)


def _column(rows: list[tuple[Any, ...]], number: int) -> Any:
    return np.array([row[number] for row in rows], np.int64)


@given(_rows, st.integers(0, 6))
def test_the_earliest_of_copies_is_kept(rows: list[tuple[int, int, int]], span: int) -> None:
    ids, times, content = (_column(rows, number) for number in range(3))
    contents = Contents(
        lambda tied: content[tied].astype(str).tolist(),
        lambda first, second: (content[first] == content[second]) & (content[first] > 0),
    )
    copies = are_copies(ids, times, span, contents)
    kept: dict[int, int] = {}
    expected = []
    for key, time, which in sorted(rows):
        if key >= 0 and key in kept and time - kept[key] <= span:
            expected.append((key, time, which))
        else:
            kept[key] = time
    assert sorted(row for row, copy in zip(rows, copies, strict=True) if copy) == expected


_lists = st.tuples(_SMALL, _SMALL, st.integers(0, 1), st.lists(_SMALL, max_size=3), _SMALL)


@given(
    st.lists(_lists, max_size=8),
    st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 4), st.integers(0, 8)), max_size=8),
    st.integers(0, 4),
)
def test_the_latest_list_of_each_group_is_touched(
    lists: list[tuple[int, int, int, list[int], int]],
    wanted: list[tuple[int, int, int]],
    window: int,
) -> None:
    items = [row[3] for row in lists]
    codes = Ragged.of_lengths(
        np.array([item for row in items for item in row], np.int64),
        np.array([*map(len, items)], np.int64),
    )
    shown = ListColumns(_column(lists, 0), codes, _column(lists, 1), _column(lists, 2))
    columns = InteractionKeys(*(_column(wanted, number) for number in range(3)))

    def texts(rows: Any) -> list[str]:
        return [repr(lists[row]) for row in rows.tolist()]

    def equal(first: Any, second: Any) -> Any:
        return np.array([lists[a] == lists[b] for a, b in zip(first, second, strict=True)], bool)

    rows, of = last_touches(shown, columns, window, Contents(texts, equal))
    expected = []
    for row, (user, item, time) in enumerate(wanted):
        for group in (0, 1):
            of_group = [
                each
                for each in lists
                if (each[0], each[2]) == (user, group)
                and item in each[3]
                and time - window <= each[1] <= time
            ]
            if of_group:
                expected.append((row, max(of_group, key=lambda each: (each[1], repr(each)))))
    assert [
        (row, lists[at]) for row, at in zip(rows.tolist(), of.tolist(), strict=True)
    ] == expected
