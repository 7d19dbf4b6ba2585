"""Which lists an interaction could belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from streameval.attribution.bucket import ShownBucket
from streameval.attribution.reported import Reported
from streameval.attribution.rules import Rules
from streameval.attribution.shown import Shown

Rows = int | tuple[int, ...]
"""One row as a rule, for memory; several where an id or a user has several lists."""


class Finder(Protocol):
    """An index of lists."""

    def add(self, key: str, row: int) -> None:
        """A list was kept under its id or its user."""

    def find(self, reported: Reported) -> list[int]:
        """The lists that an interaction belongs to; the latest one last, none where none."""

    def forget(self, key: str, row: int) -> None:
        """A list is kept no longer."""


class Index:
    """Rows by text.

    >>> index = Index()
    >>> index.add("r1", 5); index.add("r1", 9); index.rows("r1"), index.rows("r2")
    ((5, 9), ())
    >>> index.forget("r1", 5); index.rows("r1")
    (9,)
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}

    def add(self, key: str, row: int) -> None:
        """Add a row."""
        known = self._rows.setdefault(key, row)
        if known is not row:
            self._rows[key] = (*known, row) if isinstance(known, tuple) else (known, row)

    def extend(self, keys: Sequence[str], rows: Sequence[int]) -> None:
        """Add many at once."""
        if len(set(keys)) == len(keys) and self.has_none(keys):
            self._rows.update(zip(keys, rows, strict=True))
        else:
            for key, row in zip(keys, rows, strict=True):
                self.add(key, row)

    def has_none(self, keys: Iterable[str]) -> bool:
        """Whether none of them has a row."""
        return self._rows.keys().isdisjoint(keys)

    def rows(self, key: str) -> tuple[int, ...]:
        """The rows of a key, in the order in which they were added."""
        found = self._rows.get(key, ())
        return found if isinstance(found, tuple) else (found,)

    def forget(self, key: str, row: int) -> None:
        """Remove a row."""
        left = tuple(each for each in self.rows(key) if each != row)
        if left:
            self._rows[key] = left if len(left) > 1 else left[0]
        else:
            self._rows.pop(key, None)


class ByRequest:
    """Interactions that name their list.

    Args:
        shown: the lists.
        requests: their rows by id.
        rules: of the join.
    """

    def __init__(self, shown: Shown, requests: Index, rules: Rules) -> None:
        self._shown = shown
        self._requests = requests
        self._window = rules.window

    def find(self, reported: Reported) -> list[int]:
        """The list of that id that was shown in the window before; two cannot be."""
        earliest = reported.time - self._window
        rows = self._requests.rows(reported.key)
        return [row for row in rows if earliest <= self._shown.time(row) <= reported.time][-1:]


class ByUserItem:
    """Interactions that name a user and an item: last touch.

    Args:
        shown: the lists.
        users: their rows by user.
        rules: of the join.
    """

    def __init__(self, shown: Shown, users: Index, rules: Rules) -> None:
        self._shown = shown
        self._users = users
        self._rules = rules

    def find(self, reported: Reported) -> list[int]:
        """The latest list in the window before that shows the item; one of each combination."""
        shown, latest = self._shown, dict[tuple[str, ...], tuple[int, str, int]]()
        earliest = reported.time - self._rules.window
        for order, row in enumerate(self._users.rows(reported.key)):
            time = shown.time(row)
            if earliest <= time <= reported.time and shown.holds(row, reported.item):
                labels = shown.labels(row)
                group = tuple(labels[place] for place in self._rules.per)
                touch = (time, shown.request(row), order)
                latest[group] = max(latest.get(group, touch), touch)
        rows = self._users.rows(reported.key)
        return [rows[order] for _, _, order in sorted(latest.values())]


def forgotten(dropped: list[tuple[int, ShownBucket]], requests: Index, users: Index | None) -> None:
    """Take lists that are kept no longer out of the indexes."""
    for number, bucket in dropped:
        for place, request in enumerate(bucket.requests):
            requests.forget(request, number << 32 | place)
        if users is not None:
            for place, user in enumerate(bucket.users):
                users.forget(user, number << 32 | place)
