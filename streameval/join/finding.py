"""Finds the lists that an interaction could belong to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from streameval.join.reported import Reported
from streameval.join.rules import Rules
from streameval.join.shown import Shown

Rows: TypeAlias = int | deque[int]
"""One row as a rule, for memory; several where an id or a user has several lists."""


class Index:
    """Rows by text; they go about in the order in which they came.

    >>> index = Index()
    >>> index.add("r1", 5); index.add("r1", 9); list(index.rows("r1")), list(index.rows("r2"))
    ([5, 9], [])
    >>> index.forget(["r1"], 5); list(index.rows("r1"))
    [9]
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}

    def clear(self) -> None:
        """Remove all rows."""
        self._rows.clear()

    def add(self, key: str, row: int) -> None:
        """Add a row."""
        known = self._rows.get(key)
        if known is None:
            self._rows[key] = row
        elif isinstance(known, deque):
            known.append(row)
        else:
            self._rows[key] = deque((known, row))

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

    def rows(self, key: str) -> Sequence[int]:
        """The rows of a key, in the order in which they were added; not to be kept."""
        found = self._rows.get(key, ())
        return (found,) if isinstance(found, int) else found

    def forget(self, keys: Iterable[str], first: int) -> None:
        """Remove a row of each of these keys: `first` and those that follow it."""
        rows = self._rows
        for row, key in enumerate(keys, first):
            known = rows.pop(key, None)
            if isinstance(known, deque) and len(known) > 1:
                known.remove(row)  # near its front
                rows[key] = known


class ByRequest(NamedTuple):
    """Interactions that name their list."""

    shown: Shown
    requests: Index
    window: int

    def find(self, reported: Reported) -> list[int]:
        """The list of that id that was shown in the window before; two cannot be."""
        earliest = reported.time - self.window
        for row in reversed(self.requests.rows(reported.key)):
            if earliest <= self.shown.time(row) <= reported.time:
                return [row]
        return []


class ByUserItem(NamedTuple):
    """Interactions that name a user and an item: last touch.

    Attributes:
        slack: so much older may a list be than one whose time the clock had reached before it came,
            microseconds.
        recent: so many records of its log come at most before the clock has reached a list's time.
    """

    shown: Shown
    users: Index
    rules: Rules
    slack: int
    recent: int

    def find(self, reported: Reported) -> list[int]:
        """The latest list in the window before that shows the item; one of each combination."""
        shown, latest = self.shown, dict[tuple[str, ...], tuple[int, str, int, int]]()
        earliest, ahead = reported.time - self.rules.window, self.recent
        rows = self.users.rows(reported.key)
        for order, row in zip(range(len(rows), 0, -1), reversed(rows), strict=True):
            time = shown.time(row)
            if time < earliest - self.slack:
                # What came before is older still, but for lists that were ahead of the clock.
                ahead -= 1
                if ahead < 0:
                    break
            if earliest <= time <= reported.time and shown.holds(row, reported.item):
                labels = shown.labels(row)
                group = tuple(labels[place] for place in self.rules.per)
                touch = (time, shown.request(row), order, row)
                latest[group] = max(latest.get(group, touch), touch)
        return [row for _, _, _, row in sorted(latest.values())]
