"""Backfills: counts of earlier events that are merged into a state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from streameval.engine.windows.family import unfit
from streameval.engine.windows.times import Spans, moment_text


class BackfillRow(NamedTuple):
    """The counts of one slice in one span of event time.

    Attributes:
        start: of the span, microseconds since the epoch; None for lists without event time.
        content: the `dump` of a table with one cell.
    """

    labels: tuple[str, ...]
    start: int | None
    lists: int
    content: bytes


class Extent(NamedTuple):
    """The event time that a backfill covers, microseconds since the epoch; None for all time."""

    begin: int | None
    end: int | None

    def overlaps(self, other: Extent) -> bool:
        """True if a list may be in both extents."""
        if self.begin is None or self.end is None or other.begin is None or other.end is None:
            return True
        return self.begin < other.end and other.begin < self.end

    def __str__(self) -> str:
        if self.begin is None or self.end is None:
            return "all time"
        return f"{moment_text(self.begin)} to {moment_text(self.end)}"


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are merged into a state together.

    Attributes:
        every: their spans; None if they cover all time.
    """

    rows: Sequence[BackfillRow]
    every: Spans | None

    @property
    def extent(self) -> Extent:
        """The event time that the rows cover."""
        starts = [row.start for row in self.rows if row.start is not None]
        if self.every is None or not starts:
            return Extent(None, None)
        return Extent(min(starts), self.every.end(max(starts)))

    def check_new(self, before: Iterable[Extent]) -> None:
        """Check against the backfills of a state.

        Raises:
            UsageError: it overlaps with one of them.
        """
        for earlier in before:
            if earlier.overlaps(self.extent):
                raise unfit(
                    f"it covers {self.extent}, and the state already has a backfill of {earlier}: "
                    "lists in both would count twice",
                    "merge only new spans, or start from the state before the backfill",
                )
