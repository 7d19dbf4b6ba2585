"""Event time as it is written, and as exact microseconds since the epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from streameval.pipeline.fields import TimeUnit
from streameval.pipeline.invalid import Refusal, shown

Written: TypeAlias = float | int | datetime
"""Event time as decoded: a number of the configured unit, or a datetime with an offset."""

_FIRST = -62_135_596_800  # 0001-01-01, in seconds since the epoch
_END = 253_402_300_800  # the year 10000, likewise
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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
"""What msgspec must find in a record, by unit; bool, NaN and times without offset do not pass."""


def _from_seconds(written: Any) -> int:
    # The shortest text of a float is what was written; a product of floats would round it.
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
    """Event time in microseconds since the epoch, exact; finer digits are rounded.

    Example:
        >>> microseconds(1700000000.123457, "s"), microseconds(1700000000123, "ms")
        (1700000000123457, 1700000000123000)
    """
    return _CONVERSIONS[unit](written)


def written_time(value: object, unit: TimeUnit, field: str) -> Written:
    """A decoded JSON value as event time of the configured unit.

    Raises:
        Refusal: it is not of that unit.
    """
    try:
        time: Written = msgspec.convert(value, KINDS[unit])
    except msgspec.ValidationError as error:
        problem = f"{field}: {shown(value)} is no time in {unit!r} ({error})"
        raise Refusal("invalid_time", problem) from None
    return time
