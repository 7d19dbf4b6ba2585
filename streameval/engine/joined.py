"""Health of a join of streams, as the page and the API show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from streameval.events.records import Partition

_FEWEST: Final = 10
"""Fewer records prove nothing."""


class StreamHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the records of one stream.

    Attributes:
        outcomes: records by outcome since the process started; those that were open
            when it started are among them as they end.
        outside: interactions counted with items that their list did not show, likewise.
    """

    name: str
    outcomes: Mapping[str, int]
    open: int
    outside: int

    def suspicion(self, *, by_request: bool) -> str | None:
        """A sentence when most of its interactions count in no list.

        `by_request`: whether each names its list; where it does not, most may well be with items
        that no list has shown.
        """
        counted, lost = self.outcomes["counted"], {"are invalid": self.outcomes["invalid"]}
        kept = counted
        if by_request or not counted:
            lost["belong to no list"] = self.outcomes["orphan"]
        else:
            kept += self.outcomes["orphan"]
        if not counted:
            lost["are of no type that counts"] = self.outcomes["ignored"]
        many = sum(lost.values())
        if many < _FEWEST or many <= kept:
            return None
        told = ", ".join(f"{count:,} {how}" for how, count in lost.items() if count)
        return (
            f"{self.name}: {many:,} of {many + kept:,} interactions count in no list ({told}): "
            "do the fields and types in [attribution] name what the records have?"
        )


class JoinHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a join is.

    Attributes:
        bytes: approximate memory of the records that wait.
        clocks: newest event time of each log, microseconds; those that have none are absent.
        passed_by: how often a log was waited for no longer, because it was idle.
    """

    streams: tuple[StreamHealth, ...]
    bytes: int
    clocks: Mapping[Partition, int]
    passed_by: int
    by_request: bool

    @property
    def open_lists(self) -> int:
        """Lists that are not counted yet."""
        return self.streams[0].open

    def suspicion(self) -> str | None:
        """A sentence when most interactions of a stream count in no list."""
        told = (each.suspicion(by_request=self.by_request) for each in self.streams[1:])
        return next((each for each in told if each is not None), None)
