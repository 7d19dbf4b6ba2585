"""Rules of attribution, and the outcomes of records: exactly one for each."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Key: TypeAlias = Literal["request_id", "user_item"]
"""What an interaction names: the list itself, or who saw which item."""

FOREVER: Final = 2**62
"""A moment after every event time, microseconds: the watermark when nothing more can come."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What is joined with what; durations are event time in microseconds.

    As [attribution] says, see `AttributionOptions`.

    Attributes:
        per: places of the labels by which "user_item" attributes separately.
        keeps_users: whether anything needs to know who saw a list.
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
        """Span of event time whose records are kept and saved together."""
        return min(max(self.window // 64, 1_000_000), 60_000_000)


Outcome: TypeAlias = Literal[
    "counted", "duplicate", "late", "future", "orphan", "ignored", "invalid", "tombstone"
]
"""Where a record ends; until then it is open."""

OUTCOMES: Final[dict[Outcome, str]] = {
    "counted": "It is part of an event that was counted.",
    "duplicate": "The same request, or the same event id, came before.",
    "late": "It is older than the clock of its log by more than the lateness.",
    "future": "It is ahead of the clock of its log, and the records after it do not confirm that.",
    "orphan": "No list that it could belong to was shown in the window before it.",
    "ignored": "Its type does not count.",
    "invalid": "It is not an impression or interaction; see the reasons.",
    "tombstone": "It has no value.",
}
"""Each outcome, with its sentence."""


class Account(msgspec.Struct, kw_only=True, gc=False):
    """Records of one stream by outcome; `open` are those that still wait.

    Attributes:
        outside: those of the counted that are with items which the list did not show.

    >>> account = Account(records=3, counted=1, late=1)
    >>> account.open
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
        """Records that still wait for what they belong to, or for it to be counted."""
        ended: int = sum(getattr(self, name) for name in OUTCOMES)
        return self.records - ended

    def add(self, other: Account) -> None:
        """Count what another one counted."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def less(self, other: Account) -> Account:
        """What has been counted since it was like another one."""
        return Account(
            **{name: getattr(self, name) - getattr(other, name) for name in self.__struct_fields__}
        )
