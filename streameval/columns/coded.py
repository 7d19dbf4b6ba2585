"""Checked columns, as statistics count them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from streameval.columns.ragged import IntArray, Ragged
from streameval.events import Batch, Id


class Coded:
    """Lists with their interactions, where every id is a 64-bit integer.

    Items stand at 1, 2, 3, ... and every interaction is worth 1.

    Attributes:
        recommendations: one list of codes an event.
        interactions: likewise, as many.
        ids: the id behind each code from 0; None where the codes are the ids themselves.
        users: who saw each list, or None where that is not said.
        times: event time of each, microseconds since the epoch, or None where there is none.
        event_ids: identity of each event, or None where there is none.
    """

    def __init__(
        self,
        recommendations: Ragged,
        interactions: Ragged,
        ids: Sequence[Id] | None,
        *,
        users: Sequence[Id | None] | None = None,
        times: Sequence[int | None] | None = None,
        event_ids: Sequence[str | None] | None = None,
    ) -> None:
        self.recommendations = recommendations
        self.interactions = interactions
        self.ids = ids
        self.users, self.times, self.event_ids = users, times, event_ids

    def __len__(self) -> int:
        return len(self.recommendations)

    @cached_property
    def texts(self) -> bool | None:
        """Whether the ids are strings; None where only some are."""
        kinds = {type(item) is str for item in self.ids or ()}
        return None if len(kinds) > 1 else kinds == {True}

    @cached_property
    def batch(self) -> Batch:
        """The same with Python's lists and ids."""
        shown, acts = self.recommendations, self.interactions
        return Batch(
            recommendations=shown.cut(self.named(shown.values)),
            interactions=acts.cut(self.named(acts.values)),
            users=self.users,
            times=self.times,
            event_ids=self.event_ids,
        )

    def rows(self, start: int, stop: int) -> Coded:
        """The events from start up to stop."""
        shown, acts = self.recommendations, self.interactions
        return Coded(shown.rows(start, stop), acts.rows(start, stop), self.ids)

    def named(self, codes: IntArray) -> list[Id]:
        """The ids behind codes."""
        found: list[int] = codes.tolist()
        return list(found) if self.ids is None else [self.ids[code] for code in found]
