"""Events from the future: one bad clock would close every window of its partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.pipeline.invalid import InvalidEvent


class Timed(Protocol):
    """The content of a batch: a msgspec struct of columns."""

    @property
    def places(self) -> Sequence[int]:
        """Of each valid record in the batch."""

    @property
    def times(self) -> NDArray[np.int64] | None:
        """Event time of each."""

    @property
    def invalid(self) -> Sequence[tuple[int, InvalidEvent]]:
        """Places of the others, and why."""

    def keep(self, rows: NDArray[np.bool_]) -> Any:
        """Some of the valid ones only."""


C = TypeVar("C", bound=Timed)


def too_far_ahead(decoded: C, timestamps_ms: Sequence[int], max_ahead_us: int) -> C:
    """The same, with events from too far ahead of their records among the invalid.

    A function of the log alone: no clock of this machine has a say. Where events have no time,
    and for records of which the log has no time (below 0), there is nothing to compare.

    Args:
        decoded: the content of a batch.
        timestamps_ms: when the log took each record of the batch, milliseconds since the epoch.
        max_ahead_us: so far an event's time may be ahead of it, microseconds; 0 or more.
    """
    if decoded.times is None or not decoded.places:
        return decoded
    taken = np.array(timestamps_ms, dtype=np.int64)[np.array(decoded.places)]
    # times > taken * 1000 + max_ahead, without a product that could overflow.
    ahead = ((decoded.times - max_ahead_us - 1) // 1_000 >= taken) & (taken >= 0)
    if not ahead.any():
        return decoded
    rows = np.flatnonzero(ahead).tolist()
    found = [
        (decoded.places[row], _invalid(int(decoded.times[row]), int(taken[row]))) for row in rows
    ]
    invalid = sorted([*decoded.invalid, *found], key=lambda each: each[0])
    mended: C = msgspec.structs.replace(decoded.keep(~ahead), invalid=invalid)
    return mended


def _invalid(time: int, taken_ms: int) -> InvalidEvent:
    event, record = np.datetime64(time, "us"), np.datetime64(taken_ms, "ms")
    detail = f"event time {event}Z, but the log took the record at {record}Z"
    return InvalidEvent("future_time", detail)
