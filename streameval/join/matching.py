"""Matches interactions with the lists that they belong to."""

from __future__ import annotations

from typing import NamedTuple

from streameval.join.open_records import OpenLists, OpenTable
from streameval.join.options import Rules


class RequestMatcher(NamedTuple):
    """Matches interactions that name their list."""

    lists: OpenTable[OpenLists]
    window: int

    def match(self, key: str, time: int, _: int) -> list[int]:
        """The list with this id in the window before the interaction; there is at most one."""
        for row in reversed(self.lists.by["requests"].rows(key)):
            if time - self.window <= self.lists.time(row) <= time:
                return [row]
        return []


class LastTouchMatcher(NamedTuple):
    """Matches interactions that name a user and an item: last touch.

    Attributes:
        slack: how far behind the clock a list may come, microseconds.
        patience: how many records of its log may follow a list before the clock reaches its time.
    """

    lists: OpenTable[OpenLists]
    rules: Rules
    slack: int
    patience: int

    def match(self, key: str, time: int, item: int) -> list[int]:
        """The latest list with the item in the window before, for each combination of `per`.

        `item`: its number.
        """
        latest = dict[tuple[str, ...], tuple[int, str, int, int, int]]()
        earliest, ahead = time - self.rules.window, self.patience
        for row in reversed(self.lists.by["users"].rows(key)):
            lists, place = self.lists.at(row)
            shown_at = int(lists.times[place])
            if shown_at < earliest - self.slack:
                # Earlier rows are older still, except for lists that were ahead of the clock.
                ahead -= 1
                if ahead < 0:
                    break
            start, stop = lists.items.offsets[place : place + 2]
            if earliest <= shown_at <= time and item in lists.items.values[start:stop]:
                labels = lists.dimensions[place]
                group = tuple(labels[index] for index in self.rules.per)
                origin = int(lists.logs[place]), int(lists.offsets[place])
                touch = (shown_at, lists.requests[place], *origin, row)
                latest[group] = max(latest.get(group, touch), touch)
        return [row for *_, row in sorted(latest.values())]
