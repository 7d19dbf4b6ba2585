"""Records at which a process stopped, and those among them that an operator has skipped."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from streameval.pipeline.dead_letters import Identity
from streameval.records import Partition


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a process could not count; it ended there.

    Attributes:
        topic: of the record.
        partition: its number.
        offset: of the record in its partition.
        problem: why it could not be counted.
        at: seconds since the epoch.
    """

    topic: str
    partition: int
    offset: int
    problem: str
    at: float

    @property
    def record(self) -> Identity:
        """Names the record."""
        return Identity(Partition(self.topic, self.partition), self.offset)


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """The order of an operator to pass a record.

    Attributes:
        stop: the record, and why it could not be counted.
        by: who gave it.
        at: seconds since the epoch.
    """

    stop: Stop
    by: str
    at: float

    @property
    def message(self) -> str:
        """Who, when and why; the message of its dead letter."""
        moment = datetime.fromtimestamp(round(self.at), UTC).isoformat()
        return f"skipped by {self.by} at {moment}; counting it failed ({self.stop.problem})"
