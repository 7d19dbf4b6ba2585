"""Durations as a person writes them: "90s", "5m", "1h", "7d".

`streameval.windows.times.span_text` writes them.
"""

from __future__ import annotations

import re

SECOND = 1_000_000
HOW = "give a whole number and s, m, h or d, for example '90s', '5m', '1h' or '7d'"

_UNITS = {"d": 86_400 * SECOND, "h": 3_600 * SECOND, "m": 60 * SECOND, "s": SECOND}
_DURATION = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>[smhd])")
_LOOSE = re.compile(r"\s*(?P<number>[0-9]{1,9})\s*(?P<unit>[smhd])[a-z]*\s*", re.IGNORECASE)
_LONGEST = 36_500 * _UNITS["d"]


class DurationError(ValueError):
    """A text is no duration; the message says what to write."""


def microseconds(text: str) -> int:
    """How long a duration is; 0 or more.

    Raises:
        DurationError: it is none, or longer than a hundred years.

    Example:
        >>> microseconds("90s"), microseconds("1h")
        (90000000, 3600000000)
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise DurationError(f"found {text!r}; {HOW}.{_hint(text)}")
    length = int(found["number"]) * _UNITS[found["unit"]]
    if length > _LONGEST:
        raise DurationError(f"found {text!r}; that is more than a hundred years.")
    return length


def _hint(text: str) -> str:
    found = _LOOSE.fullmatch(text)
    return f" Did you mean '{found['number']}{found['unit'].lower()}'?" if found else ""
