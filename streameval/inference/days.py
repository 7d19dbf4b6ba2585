"""Event days as numbers and as dates."""

from __future__ import annotations

from datetime import date
from typing import Final

_EPOCH: Final = date(1970, 1, 1).toordinal()


def date_of(number: int) -> date:
    """The date of a day since 1970-01-01 (UTC), within the years 1 to 9999.

    Example:
        >>> date_of(20_513).isoformat(), date_of(-10**9).isoformat()
        ('2026-03-01', '0001-01-01')
    """
    # An offset from UTC may lead to a day before the year 1 or after 9999.
    return date.fromordinal(min(max(number + _EPOCH, 1), date.max.toordinal()))
