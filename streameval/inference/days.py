"""Event days as numbers and as dates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

from streameval.events.errors import MetricError

_EPOCH: Final = date(1970, 1, 1).toordinal()


def date_of(number: int) -> date:
    """The date of a day since 1970-01-01 (UTC), within the years 1 to 9999.

    Example:
        >>> date_of(20_513).isoformat(), date_of(-10**9).isoformat()
        ('2026-03-01', '0001-01-01')
    """
    # An offset from UTC may lead to a day before the year 1 or after 9999.
    return date.fromordinal(min(max(number + _EPOCH, 1), date.max.toordinal()))


def period_text(days: Sequence[int]) -> str:
    """The first and the last of some days, as people write them; days since 1970-01-01 (UTC).

    Example:
        >>> period_text([20_513, 20_526]), period_text([20_513])
        ('1 to 14 March 2026', '1 March 2026')
        >>> period_text([20_452, 20_456]), period_text([20_500, 20_513])
        ('30 December 2025 to 3 January 2026', '16 February to 1 March 2026')
    """
    first, last = date_of(min(days)), date_of(max(days))
    whole = f"{last.day} {last:%B} {last.year}"
    if first == last:
        return whole
    if first.year != last.year:
        return f"{first.day} {first:%B} {first.year} to {whole}"
    if first.month != last.month:
        return f"{first.day} {first:%B} to {whole}"
    return f"{first.day} to {whole}"


def number_of_day(day: date) -> int:
    """Days since 1970-01-01 (UTC)."""
    return day.toordinal() - _EPOCH


def given_day(name: str, day: object) -> int:
    """The number of a day that was given as an argument; raises a MetricError if it is none.

    Example:
        >>> given_day("since", date(1970, 1, 2))
        1
        >>> given_day("since", datetime(1970, 1, 2))  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        MetricError: since: found datetime.datetime(1970, 1, 2, 0, 0); give a day, ...
    """
    # A datetime is a date, too, but may be one of another zone.
    if isinstance(day, date) and not isinstance(day, datetime):
        return number_of_day(day)
    raise MetricError(f"{name}: found {day!r:.80}; give a day, like date(2026, 3, 1)")
