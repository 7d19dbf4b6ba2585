"""The rules of attribution, and the outcomes of records: exactly one for each record."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Key: TypeAlias = Literal["request_id", "user_item"]
"""What an interaction names: the list, or a user and an item."""

FOREVER: Final = 2**62
"""After every event time, microseconds: the watermark when no more records come."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of [attribution], see `AttributionOptions`; durations in microseconds.

    Attributes:
        per: indices of the labels by which "user_item" attributes separately.
        keeps_users: whether the join or metrics need users.
    """

    key: Key
    window: int
    lateness: int
    combine: Literal["max", "sum"]
    per: tuple[int, ...]
    max_open: int
    max_bytes: int
    keeps_users: bool

    @property
    def bucket(self) -> int:
        """Width of a bucket, microseconds of event time."""
        return min(max(self.window // 64, 1_000_000), 60_000_000)


Outcome: TypeAlias = Literal[
    "counted", "duplicate", "late", "future", "orphan", "ignored", "invalid", "tombstone"
]
"""The outcome of a record, which is open until its window ends."""

OUTCOMES: Final[dict[Outcome, str]] = {
    "counted": "It is part of an event that was counted.",
    "duplicate": "Its request or event id was seen before.",
    "late": "It is behind the clock of its log by more than the lateness.",
    "future": "It is ahead of the clock of its log, and the records after it do not confirm that.",
    "orphan": "No list that it could belong to was shown in the window before it.",
    "ignored": "Its type does not count.",
    "invalid": "It is not a valid impression or interaction; see the reasons.",
    "tombstone": "It has no value.",
}
"""Each outcome with its explanation."""


class OutcomeCounts(msgspec.Struct, kw_only=True, gc=False):
    """Records of one stream by outcome.

    Attributes:
        outside: counted interactions with items that their list did not show.

    >>> counts = OutcomeCounts(records=3, counted=1, late=1)
    >>> counts.open
    1
    """

    records: int = 0
    counted: int = 0
    duplicate: int = 0
    late: int = 0
    future: int = 0
    orphan: int = 0
    ignored: int = 0
    invalid: int = 0
    tombstone: int = 0
    outside: int = 0

    @property
    def open(self) -> int:
        """Records without an outcome yet."""
        closed: int = sum(getattr(self, name) for name in OUTCOMES)
        return self.records - closed

    def add(self, other: OutcomeCounts) -> None:
        """Add the counts of another one."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def since(self, other: OutcomeCounts) -> OutcomeCounts:
        """The difference to an earlier copy."""
        return OutcomeCounts(
            **{name: getattr(self, name) - getattr(other, name) for name in self.__struct_fields__}
        )
