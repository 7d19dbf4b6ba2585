"""Event time: the instants that it can be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np

from streameval.events.errors import InvalidEventError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

FIRST_MOMENT: Final = datetime(2, 1, 1, tzinfo=UTC)
END_MOMENT: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""Event time is in [FIRST_MOMENT, END_MOMENT).

A year inside the calendar of `datetime` at both ends, so that offsets and neighbouring days exist.
The zero times of Go and .NET and the largest time of .NET lie outside.
"""

FIRST_TIME: Final = (FIRST_MOMENT - EPOCH) // timedelta(microseconds=1)
END_TIME: Final = (END_MOMENT - EPOCH) // timedelta(microseconds=1)
"""The same range in microseconds since the epoch."""

YEARS: Final = "the years 2 to 9998"
"""The range in words."""

_LAST_SECOND: Final = datetime.max.replace(tzinfo=UTC, microsecond=0)


def is_event_time(microseconds: int) -> bool:
    """True if an event can have this time, microseconds since the epoch."""
    return FIRST_TIME <= microseconds < END_TIME


def outside_range(times: Any) -> np.ndarray[tuple[Any, ...], np.dtype[np.intp]]:
    """The indices of the times that no event can have; `times` in microseconds since the epoch."""
    moments = np.asarray(times)
    return np.flatnonzero((moments < FIRST_TIME) | (moments >= END_TIME))


def outside_error(microseconds: int) -> InvalidEventError:
    """The error for a time that no event can have."""
    detail = f"an event time is {microseconds}, which is not in {YEARS}"
    remedy = "give timestamps, or microseconds since the epoch"
    return InvalidEventError("invalid_time", f"{detail}; {remedy}")


def moment_of(microseconds: int) -> datetime:
    """A time since the epoch in UTC; the nearest second of `datetime` if it lies outside.

    Example:
        >>> moment_of(1_700_000_000_000_000).isoformat(), moment_of(10**18).isoformat()
        ('2023-11-14T22:13:20+00:00', '9999-12-31T23:59:59+00:00')
    """
    try:
        return min(EPOCH + timedelta(microseconds=microseconds), _LAST_SECOND)
    except OverflowError:
        return _LAST_SECOND if microseconds > 0 else datetime.min.replace(tzinfo=UTC)
