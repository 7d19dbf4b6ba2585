"""The rules of a join on integer codes: copies, and the list of an interaction.

The result depends on the rows, not on their order. The daemon and `streameval.attribution` call
these functions.

All columns are numpy arrays of one value per row. A code is an integer from 0, equal for equal ids;
-1 is an absent id. Times are microseconds. `Contents` orders rows that time does not order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streameval.events import Id
from streameval.events.ragged import Ragged
from streameval.statistics.arrays import BoolArray, IntArray


class Contents(NamedTuple):
    """The contents of rows, by which rows of one time are ordered.

    Attributes:
        texts: returns the content of each of these rows, such as `list_content`; called only for
            rows that differ from another one of their time.
        equal: compares two columns of rows; True where both rows have the same content. False for
            equal rows is allowed: it costs only their texts.
    """

    texts: Callable[[IntArray], Sequence[str]]
    equal: Callable[[IntArray, IntArray], BoolArray]

    def of(self, rows: IntArray) -> Contents:
        """The contents of these rows, by their index in `rows`."""
        return Contents(
            lambda some: self.texts(rows[some]),
            lambda first, second: self.equal(rows[first], rows[second]),
        )


def list_content(
    request: str | None, user: Id | None, recommendations: Sequence[Id], *others: object
) -> str:
    """The content of an impression: of equal times, the smallest counts as the original of copies.

    For an interaction, the list with the largest content wins.

    `others`: its other columns as text, in the order of their names.

    Example:
        >>> list_content("r1", None, ["a"]) < list_content("r1", None, ["b"])
        True
    """
    named = "" if user is None else user
    # The user is last: a join by request id may have no users, and the same list must win.
    return f"{request or ''}\0{[*recommendations]!r}\0{others!r}\0{named}"


def interaction_content(item: Id, kind: str | None, gain: float) -> str:
    """The content of an interaction: of equal times, the smallest is the original of copies."""
    return f"{item!r}\0{kind!r}\0{gain!r}"


def tuple_codes(*columns: IntArray) -> IntArray:
    """A code of each combination of codes; -1 where one of them is absent.

    Example:
        >>> tuple_codes(np.array([0, 1, 0, 0]), np.array([5, 5, 5, -1])).tolist()
        [0, 1, 0, -1]
    """
    first, *others = columns
    codes, present = first, first >= 0
    for column in others:
        # Renumbered after each step, so that products of row counts never overflow.
        width = int(column.max(initial=0)) + 1
        codes = np.unique(codes * width + column, return_inverse=True)[1]
        present = present & (column >= 0)
    codes = np.unique(codes[present], return_inverse=True)[1]
    joint = np.full(first.size, -1, np.int64)
    joint[present] = codes
    return joint


def are_copies(ids: IntArray, times: IntArray, span: int, contents: Contents) -> BoolArray:
    """True for the copies: rows at most `span` later than an original of the same id.

    The earliest row of an id is an original; of equal times, the one with the smallest content.
    The next row that is more than `span` later is an original again, and so on. To decide rows in
    steps of time, include the originals of the last `span` before a step.

    Args:
        ids: scoped, so that only rows of one join key (and stream) can share one; -1 for no copy.
        times: of the rows.
        span: longest distance of a copy.
        contents: of the rows.

    Example:
        >>> ids, times = np.array([7, 7, 7, -1]), np.array([40, 0, 20, 0])
        >>> alike = Contents(lambda rows: [""] * rows.size, lambda first, _: first >= 0)
        >>> are_copies(ids, times, 30, alike).tolist()
        [False, False, True, False]
    """
    copies = np.zeros(ids.size, np.bool_)
    order = np.argsort(ids, kind="stable")
    alike = np.concatenate(([False], ids[order][1:] == ids[order][:-1]))
    alike[:-1] |= alike[1:]
    rows = order[alike & (ids[order] >= 0)]
    if not rows.size:
        return copies
    rows = rows[_order(ids[rows], times[rows], contents.of(rows))]
    keys, after = _moments(ids[rows], times[rows], ids[rows], times[rows] + span)
    # The first row of the same id that is no copy of a row.
    following = np.searchsorted(keys, after)
    last = np.searchsorted(ids[rows], ids[rows], side="right")
    is_first = np.zeros(rows.size, np.bool_)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(ids[rows]) != 0)))
    is_first[starts] = True
    more = starts[following[starts] < last[starts]]
    onward, ends = following.tolist(), last.tolist()
    for start in more.tolist():
        row = start
        while (row := onward[row]) < ends[start]:
            is_first[row] = True
    copies[rows[~is_first]] = True
    return copies


def latest_lists(
    keys: IntArray,
    times: IntArray,
    requested: IntArray,
    requested_times: IntArray,
    window: int,
    contents: Contents,
) -> IntArray:
    """The row of the latest list with the key of each interaction, in the window before it.

    A list counts if `list <= interaction <= list + window`; of equal times, the list with the
    largest content.

    Args:
        keys: of the lists.
        times: of the lists.
        requested: the key of each interaction.
        requested_times: of the interactions.
        window: from a list to its last interaction.
        contents: of the lists.

    Returns:
        The row of a list for each interaction; -1 without one.

    Example:
        >>> keys, times = np.array([3, 3]), np.array([10, 20])
        >>> requested, at = np.array([3, 3, 3, 4]), np.array([19, 25, 31, 25])
        >>> alike = Contents(lambda rows: [""] * rows.size, lambda first, _: first >= 0)
        >>> latest_lists(keys, times, requested, at, 10, alike).tolist()
        [0, 1, -1, -1]
    """
    if not keys.size or not requested.size:
        return np.full(requested.size, -1, np.int64)
    order = _order(keys, times, contents)
    keys, times = keys[order], times[order]
    moments, after = _moments(keys, times, requested, requested_times)
    candidates = np.searchsorted(moments, after) - 1
    hit = (candidates >= 0) & (requested >= 0) & (keys[candidates] == requested)
    hit &= times[candidates] >= requested_times - window
    return np.where(hit, order[candidates], -1)


class ListColumns(NamedTuple):
    """Lists for an attribution by user and item.

    Attributes:
        users: code of the user of each list, shape (lists,).
        items: codes of the items of each list.
        times: of each list, shape (lists,).
        groups: code of the labels by which interactions are attributed separately, shape (lists,).
    """

    users: IntArray
    items: Ragged
    times: IntArray
    groups: IntArray


class InteractionKeys(NamedTuple):
    """Interactions for an attribution by user and item, as columns of shape (interactions,)."""

    users: IntArray
    items: IntArray
    times: IntArray


def last_touches(
    lists: ListColumns, interactions: InteractionKeys, window: int, contents: Contents
) -> tuple[IntArray, IntArray]:
    """The latest list that showed the item to the user, in each group; see `latest_lists`.

    Returns:
        Rows of interactions, ascending, and the row of the list of each. An interaction occurs once
        for each group that has such a list, in the order of the groups' codes.

    Example:
        >>> items = Ragged(np.array([8, 9, 8]), np.array([0, 2, 3]))
        >>> lists = ListColumns(np.array([5, 5]), items, np.array([10, 20]), np.array([0, 1]))
        >>> clicks = InteractionKeys(np.array([5, 5]), np.array([8, 9]), np.array([20, 20]))
        >>> alike = Contents(lambda rows: [""] * rows.size, lambda first, _: first >= 0)
        >>> rows, of = last_touches(lists, clicks, 30, alike)
        >>> rows.tolist(), of.tolist()
        ([0, 0, 1], [0, 1, 0])
    """
    users, items, times = interactions
    users_seen, items_seen = _membership(users), _membership(items)
    rows = np.flatnonzero(_member(users_seen, lists.users))
    recommended = lists.items.take(rows)
    entries = np.flatnonzero(_member(items_seen, recommended.values))
    rows = rows[recommended.list_indices(entries)]
    width = items_seen.size + 1
    pair_of = users * width + items
    pair_of[(users < 0) | (items < 0)] = -1
    pairs = np.unique(pair_of[pair_of >= 0])
    number, is_requested = _numbers(pairs, lists.users[rows] * width + recommended.values[entries])
    rows, number = rows[is_requested], number[is_requested]
    if not rows.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # A key is a pair in a group; the interactions of a pair are looked up in each of its groups.
    span = int(lists.groups.max(initial=0)) + 1
    keys = number * span + lists.groups[rows]
    distinct = np.unique(keys)
    pair_number, is_pair = _numbers(pairs, pair_of)
    queries = np.flatnonzero(is_pair)
    first = np.searchsorted(distinct, pair_number[queries] * span)
    groups = np.searchsorted(distinct, (pair_number[queries] + 1) * span) - first
    spread = Ragged.of_lengths(queries, groups)
    queries = spread.spread(queries)
    index = np.arange(queries.size) - spread.spread(spread.offsets[:-1] - first)
    touched = latest_lists(
        keys,
        lists.times[rows],
        distinct[index],
        times[queries],
        window,
        contents.of(rows),
    )
    hit = touched >= 0
    return queries[hit], rows[touched[hit]]


def are_in_lists(items: Ragged, lists: IntArray, clicked: IntArray) -> BoolArray:
    """True for the interactions with an item of their list; shape (interactions,).

    Args:
        items: codes of the items of each list.
        lists: the row of the list of each interaction.
        clicked: the code of its item.
    """
    recommended = items.take(lists)
    inside = np.zeros(clicked.size, np.bool_)
    inside[
        recommended.list_indices(np.flatnonzero(recommended.values == recommended.spread(clicked)))
    ] = True
    return inside


def _order(keys: IntArray, times: IntArray, contents: Contents) -> IntArray:
    """The rows by key, time and content."""
    order: IntArray = np.lexsort((times, keys))
    tied = (np.diff(keys[order]) == 0) & (np.diff(times[order]) == 0)
    differ = np.flatnonzero(tied)
    if differ.size:
        differ = differ[~contents.equal(order[differ], order[differ + 1])]
    if not differ.size:
        return order
    # All rows of a key and time in which two differ.
    runs = np.concatenate(([0], np.cumsum(~tied)))
    tied_indices = np.flatnonzero(np.isin(runs, runs[differ]))
    rows = order[tied_indices]
    texts = contents.texts(rows)
    numbers = {text: number for number, text in enumerate(sorted(set(texts)))}
    ranks = np.fromiter(map(numbers.__getitem__, texts), np.int64, rows.size)
    order[tied_indices] = rows[np.lexsort((ranks, times[rows], keys[rows]))]
    return order


def _moments(
    keys: IntArray, times: IntArray, requested: IntArray, requested_times: IntArray
) -> tuple[IntArray, IntArray]:
    """A number for each row, and for each query the number that ends its rows.

    The rows of the requested key up to the requested time have smaller numbers, and no later row
    has. Times are replaced by their ranks, so that nothing overflows.
    """
    moments = np.unique(times)
    width = moments.size + 1
    numbers = keys * width + np.searchsorted(moments, times)
    return numbers, requested * width + np.searchsorted(moments, requested_times, side="right")


def _membership(codes: IntArray) -> BoolArray:
    """True for the codes that occur; shape (largest code + 1,)."""
    seen = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
    seen[codes[codes >= 0]] = True
    return seen


def _member(seen: BoolArray, codes: IntArray) -> BoolArray:
    """True for the codes that are marked in `seen`."""
    if not seen.size:
        return np.zeros(codes.size, np.bool_)
    in_range = (codes >= 0) & (codes < seen.size)
    return in_range & seen[np.where(in_range, codes, 0)]


def _numbers(values: IntArray, requested: IntArray) -> tuple[IntArray, Any]:
    """The index of each requested value in ascending ones, and True where it is one of them."""
    if not values.size:
        return np.zeros(requested.size, np.int64), np.zeros(requested.size, np.bool_)
    index = np.minimum(np.searchsorted(values, requested), values.size - 1)
    return index, values[index] == requested
