"""Reads event time as microseconds since the epoch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from streameval.decoding.fields import TimeUnit
from streameval.decoding.invalid import Refusal
from streameval.events.ids import is_number
from streameval.events.previews import preview
from streameval.events.times import END_TIME, EPOCH, FIRST_TIME, YEARS, is_event_time

RawTime: TypeAlias = float | int | datetime
"""Event time as decoded: a number of the configured unit, or a datetime with an offset."""

_MICROSECOND = timedelta(microseconds=1)
_PER_SECOND = 1_000_000
_FIRST = FIRST_TIME // _PER_SECOND
_END = END_TIME // _PER_SECOND


def _integer_time(per_second: int) -> Any:
    return Annotated[int, Meta(ge=_FIRST * per_second, lt=_END * per_second)]


TIME_TYPES: Mapping[TimeUnit, Any] = MappingProxyType(
    {
        "s": Annotated[float, Meta(ge=_FIRST, lt=_END)],
        "ms": _integer_time(1_000),
        "us": _integer_time(1_000_000),
        "iso8601": Annotated[datetime, Meta(tz=True)],
    }
)
"""Type of event time for msgspec, by unit; refuses bool, NaN and times without an offset."""


def _from_seconds(raw: Any) -> int:
    # `repr` gives the digits as written; multiplying the float would round them.
    return int(Decimal(repr(raw)).scaleb(6).to_integral_value())


def _from_datetime(raw: Any) -> int:
    return int((raw - EPOCH) // _MICROSECOND)


_CONVERSIONS: Mapping[TimeUnit, Callable[[Any], int]] = {
    "s": _from_seconds,
    "ms": lambda raw: int(raw) * 1_000,
    "us": int,
    "iso8601": _from_datetime,
}


def microseconds(raw: RawTime, unit: TimeUnit) -> int:
    """Convert event time to microseconds since the epoch, exactly; finer digits are rounded.

    Example:
        >>> microseconds(1700000000.123457, "s"), microseconds(1700000000123, "ms")
        (1700000000123457, 1700000000123000)
    """
    return _CONVERSIONS[unit](raw)


def microsecond_column(raw: Sequence[Any], unit: TimeUnit) -> NDArray[np.int64]:
    """Convert a column as `microseconds` does, much faster.

    Example:
        >>> microsecond_column([1700000000.123457, -1.5], "s").tolist()
        [1700000000123457, -1500000]
    """
    if unit == "s":
        return _second_column(np.array(raw, dtype=np.float64))
    if unit == "iso8601":
        return _moment_column([moment - EPOCH for moment in raw])
    return np.array(raw, dtype=np.int64) * (1_000 if unit == "ms" else 1)


def _second_column(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    # From 1987 to 2106 adjacent floats are 0.1 to 0.5 microseconds apart: seven decimals determine
    # the rounding. The fraction of a second has so few bits that its product is exact.
    whole_seconds = np.floor(seconds)
    tenths = (seconds - whole_seconds) * 1e7
    nearest = np.rint(tenths)
    sure = (seconds >= 2.0**29) & (seconds < 2.0**32) & (np.abs(tenths - nearest) != 0.5)
    result = whole_seconds.astype(np.int64) * _PER_SECOND + np.rint(nearest / 10).astype(np.int64)
    for index in np.flatnonzero(~sure).tolist():
        result[index] = _from_seconds(seconds[index].item())
    return result


def _moment_column(since: Sequence[timedelta]) -> NDArray[np.int64]:
    days = np.array([duration.days for duration in since], dtype=np.int64)
    seconds = np.array([duration.seconds for duration in since], dtype=np.int64)
    micros = np.array([duration.microseconds for duration in since], dtype=np.int64)
    return (days * 86_400 + seconds) * _PER_SECOND + micros


def _is_moment(text: str) -> bool:
    """True for a time in any form that is read, with an offset or without."""
    with suppress(msgspec.ValidationError):
        return bool(msgspec.convert(text, datetime))
    return _moment_of(text) is not None


def _why_not(value: object, unit: TimeUnit, error: msgspec.ValidationError) -> str:
    """The reason why a value is not a time in a unit, and the unit that reads it."""
    if isinstance(value, str) and unit != "iso8601":
        return "it is text, which only 'iso8601' reads"
    if unit == "iso8601" and is_number(value):
        return "it is a number, which 's', 'ms' and 'us' read"
    if isinstance(value, str) and _is_moment(value):
        return "it has no offset or Z"
    return str(error)


def check_time(
    value: object, unit: TimeUnit, field: str, *, naive: tzinfo | None = None
) -> RawTime:
    """Check that a decoded JSON value is event time in this unit.

    `naive`: the zone of text without an offset; None refuses such text.
    """
    try:
        time: RawTime = msgspec.convert(value, TIME_TYPES[unit])
    except msgspec.ValidationError as error:
        moment = _moment_of(value) if unit == "iso8601" and isinstance(value, str) else None
        if moment is not None and moment.tzinfo is None:
            moment = None if naive is None else moment.replace(tzinfo=naive)
        if moment is None:
            problem = f"{field}: {preview(value)} is not a time in {unit!r}"
            raise Refusal("invalid_time", f"{problem} ({_why_not(value, unit, error)})") from None
        time = moment
    if not is_event_time(microseconds(time, unit)):
        raise Refusal("invalid_time", f"{field}: {preview(value)} is not in {YEARS}")
    return time


_OTHER_FORM: Final = re.compile(
    r"(?P<date>\d{4}(?P<dash>-?)\d\d(?P=dash)\d\d)"
    r"([Tt ](?P<hour>\d\d)((?P<colon>:?)(?P<minute>\d\d)((?P=colon)(?P<second>\d\d)"
    r"([.,](?P<digits>\d+))?)?)?(?P<zone>[Zz]|(?P<hours>[+-]\d\d)(:?(?P<minutes>\d\d))?)?)?",
    re.ASCII,
)


def _moment_of(text: str) -> datetime | None:
    """A time in a form of RFC 3339, ISO 8601 or PostgreSQL that msgspec does not read.

    These are the basic form, times without seconds or minutes, offsets without minutes, and leap
    seconds, which are the first second of the next day, as in POSIX. None if it is another text;
    naive without an offset.
    """
    form = _OTHER_FORM.fullmatch(text)
    if form is None:
        return None
    part = form.groupdict("00")
    day = part["date"].replace("-", "")
    is_leap = part["second"] == "60"
    time = f"{part['hour']}:{part['minute']}:{'59' if is_leap else part['second']}"
    zone = form["zone"] and (f"{part['hours']}:{part['minutes']}" if form["hours"] else "Z")
    extended = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time}.{part['digits']}{zone or ''}"
    try:
        moment = msgspec.convert(extended, datetime) + timedelta(seconds=is_leap)
        utc = moment - (moment.utcoffset() or timedelta())
    except (msgspec.ValidationError, OverflowError):
        return None
    return None if is_leap and (utc.hour, utc.minute, utc.second) != (0, 0, 0) else moment
