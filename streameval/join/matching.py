"""Matches interactions with the lists that they belong to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from streameval.join.impression_buffer import ImpressionBuffer
from streameval.join.interaction_buffer import InteractionRecord
from streameval.join.options import Rules

Rows: TypeAlias = int | deque[int]
"""A single row to save memory, or several if an id or user has several lists."""


class Index:
    """Rows by key; they are removed roughly in the order in which they were added.

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
        rows = self._rows.get(key)
        if rows is None:
            self._rows[key] = row
        elif isinstance(rows, deque):
            rows.append(row)
        else:
            self._rows[key] = deque((rows, row))

    def extend(self, keys: Sequence[str], rows: Sequence[int]) -> None:
        """Add many rows at once."""
        if len(set(keys)) == len(keys) and self.has_none(keys):
            self._rows.update(zip(keys, rows, strict=True))
        else:
            for key, row in zip(keys, rows, strict=True):
                self.add(key, row)

    def has_none(self, keys: Iterable[str]) -> bool:
        """Whether no key has a row."""
        return self._rows.keys().isdisjoint(keys)

    def rows(self, key: str) -> Sequence[int]:
        """The rows of a key, in the order in which they were added; a view."""
        rows = self._rows.get(key, ())
        return (rows,) if isinstance(rows, int) else rows

    def forget(self, keys: Iterable[str], first: int) -> None:
        """Remove one row of each key: `first`, `first` + 1, ..."""
        rows = self._rows
        for row, key in enumerate(keys, first):
            remaining = rows.pop(key, None)
            if isinstance(remaining, deque) and len(remaining) > 1:
                remaining.remove(row)  # near the front, so quick
                rows[key] = remaining


class RequestMatcher(NamedTuple):
    """Matches interactions that name their list."""

    shown: ImpressionBuffer
    requests: Index
    window: int

    def match(self, interaction: InteractionRecord) -> list[int]:
        """The list with this id in the window before the interaction; there is at most one."""
        earliest = interaction.time - self.window
        for row in reversed(self.requests.rows(interaction.key)):
            if earliest <= self.shown.time(row) <= interaction.time:
                return [row]
        return []


class LastTouchMatcher(NamedTuple):
    """Matches interactions that name a user and an item: last touch.

    Attributes:
        slack: how far behind the clock a list may come, microseconds.
        patience: how many records of its log may follow a list before the clock reaches its time.
    """

    shown: ImpressionBuffer
    users: Index
    rules: Rules
    slack: int
    patience: int

    def match(self, interaction: InteractionRecord) -> list[int]:
        """The latest list with the item in the window before, for each combination of `per`."""
        shown, latest = self.shown, dict[tuple[str, ...], tuple[int, str, int, int]]()
        earliest, ahead = interaction.time - self.rules.window, self.patience
        rows = self.users.rows(interaction.key)
        for order, row in zip(range(len(rows), 0, -1), reversed(rows), strict=True):
            time = shown.time(row)
            if time < earliest - self.slack:
                # Earlier rows are older still, except for lists that were ahead of the clock.
                ahead -= 1
                if ahead < 0:
                    break
            if earliest <= time <= interaction.time and shown.holds(row, interaction.item):
                labels = shown.labels(row)
                group = tuple(labels[place] for place in self.rules.per)
                touch = (time, shown.request(row), order, row)
                latest[group] = max(latest.get(group, touch), touch)
        return [row for _, _, _, row in sorted(latest.values())]
