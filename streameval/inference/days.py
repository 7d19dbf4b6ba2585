"""The days of a time zone: as numbers, as dates, and when each begins and ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from typing import Final, NamedTuple

import numpy as np

from streameval.events.errors import MetricError, named_fields
from streameval.events.spelling import nearest
from streameval.events.times import EPOCH
from streameval.statistics.arrays import IntArray

_EPOCH: Final = date(1970, 1, 1).toordinal()

_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_STEP: Final = 6 * 3_600
"""Seconds between two looks at the offset of a zone: none changes twice in a shorter time."""

_BLOCK: Final = 256 * _DAY
"""Microseconds whose offsets are looked up together."""

_FARTHEST: Final = 26 * 3_600 * _SECOND
"""More than any offset from UTC has ever been, microseconds."""


class _Offsets(NamedTuple):
    """The offsets from UTC in a block of time: each holds from its start on. Microseconds."""

    starts: IntArray
    offsets: IntArray


class Calendar:
    """The days of a time zone: the day that a time belongs to, and when a day begins and ends.

    A day is a date of the zone: it has 23 or 25 hours when the clocks change, and none if the zone
    skips it. Its number is that of the date, days since 1970-01-01, in every zone. All times are
    microseconds since the epoch, in the years 2 to 9998.

    `time_zone`: a name of the IANA time zone database; None for UTC.

    Raises:
        TimeZoneError: there is no such zone.

    Example:
        >>> berlin = Calendar("Europe/Berlin")
        >>> changed = number_of_day(date(2026, 3, 29))
        >>> (berlin.end(changed) - berlin.begin(changed)) // 3_600_000_000
        23
        >>> berlin.text(berlin.begin(changed))
        '2026-03-29T00:00:00+01:00'
    """

    def __init__(self, time_zone: str | None = None) -> None:
        self.time_zone = None if time_zone is None else checked_time_zone(time_zone)
        self._zone = None if self.time_zone is None else _zone(self.time_zone)
        self._blocks: dict[int, _Offsets] = {}

    def days(self, times: IntArray) -> IntArray:
        """The day of each time, shape (n,)."""
        if self._zone is None or not times.size:
            return _day_numbers(times)
        first, last = int(times.min()) // _BLOCK, int(times.max()) // _BLOCK
        if first == last:
            return _day_numbers(self._local(times, first))
        blocks, local = times // _BLOCK, np.empty_like(times)
        for block in np.unique(blocks).tolist():
            in_block = blocks == block
            local[in_block] = self._local(times[in_block], block)
        return _day_numbers(local)

    def day(self, time: int) -> int:
        """The day of one time."""
        return int(self.days(np.array([time], np.int64))[0])

    def begin(self, day: int) -> int:
        """The first time whose date is this day or a later one: a zone may skip a day."""
        midnight = day * _DAY
        if self._zone is None:
            return midnight
        first, last = ((midnight + by) // _BLOCK for by in (-_FARTHEST, _FARTHEST))
        for block in range(first, last + 1):
            starts, offsets = self._block(block)
            ends = [*starts[1:].tolist(), (block + 1) * _BLOCK]
            for start, end, offset in zip(starts.tolist(), ends, offsets.tolist(), strict=True):
                if (time := max(start, midnight - offset)) < end:
                    return int(time)
        raise AssertionError(day)  # pragma: no cover  the last offset reaches past midnight

    def end(self, day: int) -> int:
        """The time at which the next day begins.

        Where clocks go back over midnight, as in Newfoundland until 2011, it begins twice: an hour
        of this day comes after the first time.
        """
        return self.begin(day + 1)

    def ended(self, time: int) -> int:
        """The last day that is over at a time: no time from it on has that date or an earlier one.

        Example:
            >>> newfoundland, midnight = Calendar("America/St_Johns"), 1_162_089_000_000_000
            >>> newfoundland.text(midnight), newfoundland.text(midnight + 60_000_000)
            ('2006-10-29T00:00:00-02:30', '2006-10-28T23:01:00-03:30')
            >>> [date_of(newfoundland.ended(midnight + by)).day for by in (0, 3_660_000_000)]
            [27, 28]
        """
        days = [self.day(time)]
        if self._zone is not None:
            # A change to an earlier date comes within its size after midnight.
            last = time + _FARTHEST
            for block in range(time // _BLOCK, last // _BLOCK + 1):
                starts = self._block(block).starts.tolist()
                days += [self.day(start) for start in starts if time < start <= last]
        return min(days) - 1

    def text(self, time: int) -> str:
        """A time in RFC 3339, with the zone's offset at that time."""
        moment = EPOCH + timedelta(microseconds=time)
        return moment.astimezone(self._zone or EPOCH.tzinfo).isoformat()

    def _local(self, times: IntArray, block: int) -> IntArray:
        """Times of one block as the clocks of the zone show them."""
        starts, offsets = self._block(block)
        at = np.searchsorted(starts, times, side="right") - 1 if offsets.size > 1 else 0
        local: IntArray = times + offsets[at]
        return local

    def _block(self, block: int) -> _Offsets:
        """The offsets of a block; looked up once."""
        if block not in self._blocks:
            changes = [*self._changes(block * _BLOCK // _SECOND)]
            starts, offsets = (np.array(column, np.int64) for column in zip(*changes, strict=True))
            self._blocks[block] = _Offsets(starts * _SECOND, offsets * _SECOND)
        return self._blocks[block]

    def _changes(self, start: int) -> Iterator[tuple[int, int]]:
        """The offset at the start of a block, and each time at which it changes; seconds.

        `zoneinfo` tells the offset of a time, but not when it changes: that is between two looks.
        """
        before = self._offset(start)
        yield start, before
        for end in range(start + _STEP, start + _BLOCK // _SECOND + 1, _STEP):
            offset = self._offset(end)
            if offset != before:
                low, high = end - _STEP, end
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if self._offset(middle) == before else (low, middle)
                if high < start + _BLOCK // _SECOND:
                    yield high, offset
            before = offset

    def _offset(self, seconds: int) -> int:
        seconds = min(max(seconds, _FIRST_SECOND), _LAST_SECOND)
        moment = (EPOCH + timedelta(seconds=seconds)).astimezone(self._zone)
        offset = moment.utcoffset()
        return 0 if offset is None else offset // timedelta(seconds=1)


def _day_numbers(times: IntArray) -> IntArray:
    days: IntArray = times // _DAY
    return days


_FIRST_SECOND: Final = (datetime(2, 1, 1, tzinfo=EPOCH.tzinfo) - EPOCH) // timedelta(seconds=1)
_LAST_SECOND: Final = (datetime(9998, 12, 31, tzinfo=EPOCH.tzinfo) - EPOCH) // timedelta(seconds=1)


@named_fields
class TimeZoneError(MetricError):
    """There is no such time zone, or no data of time zones.

    Attributes:
        time_zone: the argument.
        problem: why it is invalid, and what to do; without the name of the setting.
    """

    time_zone: object
    problem: str


@lru_cache(maxsize=64)
def calendar_of(time_zone: str | None) -> Calendar:
    """The calendar of a time zone; raises as `Calendar`."""
    return Calendar(time_zone)


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415  most programs count days of UTC

    return ZoneInfo(name)


@cache
def _names() -> set[str]:
    """All names; reading them takes some milliseconds."""
    from zoneinfo import available_timezones  # noqa: PLC0415  only for misspelt zones

    return available_timezones()


def checked_time_zone(time_zone: object) -> str | None:
    """The name of a time zone; None for UTC.

    Raises:
        TimeZoneError: there is no such zone, or this machine has no data of time zones.

    Example:
        >>> checked_time_zone("Asia/Tokyo"), checked_time_zone("UTC")
        ('Asia/Tokyo', None)
        >>> checked_time_zone("Berlin")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        TimeZoneError: ...  Did you mean 'Europe/Berlin'?
    """
    if time_zone is None or time_zone == "UTC":
        return None
    problem = f"found {time_zone!r:.80}"
    if not isinstance(time_zone, str):
        problem += "; give a name, like 'Europe/Berlin'."
    elif time_zone in (names := _names()):
        return time_zone
    elif not names:
        problem += "; this machine has no time zones: install the system's package tzdata, or "
        problem += "`pip install tzdata`."
    else:
        by_lower = {name.lower(): name for name in sorted(names)}
        close = " or ".join(repr(by_lower[name]) for name in nearest(time_zone, by_lower))
        hint = f" Did you mean {close}?" if close else " Give a name, like 'Europe/Berlin'."
        problem += f", which is not an IANA time zone.{hint}"
    raise TimeZoneError(f"time_zone: {problem}", time_zone=time_zone, problem=problem)


def date_of(number: int) -> date:
    """The date of a day since 1970-01-01, within the years 1 to 9999.

    Example:
        >>> date_of(20_513).isoformat(), date_of(-10**9).isoformat()
        ('2026-03-01', '0001-01-01')
    """
    # An offset from UTC may lead to a day before the year 1 or after 9999.
    return date.fromordinal(min(max(number + _EPOCH, 1), date.max.toordinal()))


def period_text(days: Sequence[int]) -> str:
    """The first and the last of some days, as people write them; days since 1970-01-01.

    Example:
        >>> period_text([20_513, 20_526]), period_text([20_513])
        ('1 to 14 March 2026', '1 March 2026')
        >>> period_text([20_452, 20_456]), period_text([20_500, 20_513])
        ('30 December 2025 to 3 January 2026', '16 February to 1 March 2026')
    """
    first, last = date_of(min(days)), date_of(max(days))
    last_text = f"{last.day} {last:%B} {last.year}"
    if first == last:
        return last_text
    if first.year != last.year:
        return f"{first.day} {first:%B} {first.year} to {last_text}"
    if first.month != last.month:
        return f"{first.day} {first:%B} to {last_text}"
    return f"{first.day} to {last_text}"


def number_of_day(day: date) -> int:
    """Days since 1970-01-01."""
    return day.toordinal() - _EPOCH


def require_day(name: str, day: object) -> int:
    """The number of a day that is an argument; raises a MetricError if it is not a day.

    Example:
        >>> require_day("since", date(1970, 1, 2))
        1
        >>> require_day("since", datetime(1970, 1, 2))  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        MetricError: since: found datetime.datetime(1970, 1, 2, 0, 0); give a day, ...
    """
    # A datetime is a date, too, but may be one of another zone.
    if isinstance(day, date) and not isinstance(day, datetime):
        return number_of_day(day)
    raise MetricError(f"{name}: found {day!r:.80}; give a day, like date(2026, 3, 1)")
