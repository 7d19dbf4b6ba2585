"""How a join of streams is, for whoever looks at it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streameval.records import Partition


class StreamHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the records of one stream.

    Attributes:
        name: its first topic or file.
        outcomes: records by what became of them since the process started; those that were open
            when it started are among them as they end.
        open: records that still wait.
        outside: interactions counted with items that their list did not show, likewise.
    """

    name: str
    outcomes: Mapping[str, int]
    open: int
    outside: int


class JoinHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a join is.

    Attributes:
        streams: that of impressions first.
        bytes: approximate memory of the records that wait.
        clocks: newest event time of each log, microseconds; those that have none are absent.
        passed_by: how often a log was waited for no longer, because it was idle.
    """

    streams: tuple[StreamHealth, ...]
    bytes: int
    clocks: Mapping[Partition, int]
    passed_by: int

    @property
    def open_lists(self) -> int:
        """Lists that are not counted yet."""
        return self.streams[0].open
