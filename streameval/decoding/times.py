"""Reads event time as microseconds since the epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from streameval.decoding.fields import TimeUnit
from streameval.decoding.invalid import Refusal, excerpt
from streameval.events import END_TIME, FIRST_TIME

Written: TypeAlias = float | int | datetime
"""Event time as decoded: a number of the configured unit, or a datetime with an offset."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_SECOND = 1_000_000
_FIRST = FIRST_TIME // _PER_SECOND
_END = END_TIME // _PER_SECOND


def _whole(per_second: int) -> Any:
    return Annotated[int, Meta(ge=_FIRST * per_second, lt=_END * per_second)]


KINDS: Mapping[TimeUnit, Any] = MappingProxyType(
    {
        "s": Annotated[float, Meta(ge=_FIRST, lt=_END)],
        "ms": _whole(1_000),
        "us": _whole(1_000_000),
        "iso8601": Annotated[datetime, Meta(tz=True)],
    }
)
"""Type of event time for msgspec, by unit; refuses bool, NaN and times without an offset."""


def _from_seconds(written: Any) -> int:
    # `repr` gives the digits as written; multiplying the float would round them.
    return int(Decimal(repr(written)).scaleb(6).to_integral_value())


def _from_datetime(written: Any) -> int:
    return int((written - _EPOCH) // _MICROSECOND)


_CONVERSIONS: Mapping[TimeUnit, Callable[[Any], int]] = {
    "s": _from_seconds,
    "ms": lambda written: int(written) * 1_000,
    "us": int,
    "iso8601": _from_datetime,
}


def microseconds(written: Written, unit: TimeUnit) -> int:
    """Convert event time to microseconds since the epoch, exactly; finer digits are rounded.

    Example:
        >>> microseconds(1700000000.123457, "s"), microseconds(1700000000123, "ms")
        (1700000000123457, 1700000000123000)
    """
    return _CONVERSIONS[unit](written)


def microsecond_column(written: Sequence[Any], unit: TimeUnit) -> NDArray[np.int64]:
    """Convert a column as `microseconds` does, much faster.

    Example:
        >>> microsecond_column([1700000000.123457, -1.5], "s").tolist()
        [1700000000123457, -1500000]
    """
    if unit == "s":
        return _second_column(np.array(written, dtype=np.float64))
    if unit == "iso8601":
        return _moment_column([moment - _EPOCH for moment in written])
    return np.array(written, dtype=np.int64) * (1_000 if unit == "ms" else 1)


def _second_column(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    # From 1987 to 2106 adjacent floats are 0.1 to 0.5 microseconds apart: seven decimals determine
    # the rounding. The fraction of a second has so few bits that its product is exact.
    whole = np.floor(seconds)
    tenths = (seconds - whole) * 1e7
    nearest = np.rint(tenths)
    sure = (seconds >= 2.0**29) & (seconds < 2.0**32) & (np.abs(tenths - nearest) != 0.5)
    result = whole.astype(np.int64) * _PER_SECOND + np.rint(nearest / 10).astype(np.int64)
    for place in np.flatnonzero(~sure).tolist():
        result[place] = _from_seconds(seconds[place].item())
    return result


def _moment_column(since: Sequence[timedelta]) -> NDArray[np.int64]:
    days = np.array([duration.days for duration in since], dtype=np.int64)
    seconds = np.array([duration.seconds for duration in since], dtype=np.int64)
    micros = np.array([duration.microseconds for duration in since], dtype=np.int64)
    return (days * 86_400 + seconds) * _PER_SECOND + micros


def check_time(value: object, unit: TimeUnit, field: str) -> Written:
    """Check that a decoded JSON value is event time in this unit."""
    try:
        time: Written = msgspec.convert(value, KINDS[unit])
    except msgspec.ValidationError as error:
        problem = f"{field}: {excerpt(value)} is not a time in {unit!r} ({error})"
        raise Refusal("invalid_time", problem) from None
    return time
