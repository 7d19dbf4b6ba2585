"""Rules of attribution: how interactions find their lists."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Key: TypeAlias = Literal["request_id", "user_item"]
"""What an interaction names: the list itself, or who saw which item."""

FOREVER: Final = 2**62
"""A moment after every event time, microseconds: the watermark when nothing more can come."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What is joined with what; durations are event time in microseconds.

    Attributes:
        key: "request_id": an interaction names its list; "user_item": it belongs to the latest
            list that showed the item to the user before it.
        window: an interaction belongs to a list shown at t if it happened in [t, t + window].
        lateness: a record so much older than the newest of its own log is late.
        combine: what several interactions with one item are worth together.
        per: places of the labels by which "user_item" attributes separately: an interaction
            belongs to one list of each combination of their values.
        max_open: most lists and interactions that may wait at a time, in each partition.
        max_bytes: most memory that they may take, roughly.
        users: whether it is kept who saw each list, for metrics and intervals that need it.
    """

    key: Key = "request_id"
    window: int = 1_800_000_000
    lateness: int = 120_000_000
    combine: Literal["max", "sum"] = "max"
    per: tuple[int, ...] = ()
    max_open: int = 1_000_000
    max_bytes: int = 1_000_000_000
    users: bool = False

    @property
    def keeps_users(self) -> bool:
        """Whether anything needs to know who saw a list."""
        return self.users or self.key == "user_item"

    @property
    def bucket(self) -> int:
        """Span of event time whose records are kept and saved together."""
        return min(max(self.window // 64, 1_000_000), 60_000_000)
