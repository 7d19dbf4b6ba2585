"""Event time: panes, windows made of them, and where a pane is kept as the clock advances."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.errors import DamagedStateError, UnlikeStateError

SECOND: Final = 1_000_000
HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR
FINE: Final = 2 * HOUR
"""Panes are kept as they are for so long; older ones are folded into hours. Microseconds."""

PAST: Final = -(2**63)
"""The start of a pane that is no longer kept."""

HOW: Final = "give a whole number and s, m, h or d, for example '90s', '5m', '1h' or '7d'"
"""How to write a duration, for errors."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = -62_135_596_800_000_000
_LAST: Final = 253_402_300_799_000_000
"""The first and the last second that a `datetime` can have, microseconds since the epoch."""

_BEYOND: Final = "past"
_UNITS: Final = {"d": DAY, "h": HOUR, "m": 60 * SECOND, "s": SECOND}
_DURATION: Final = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>[smhd])")
_LOOSE: Final = re.compile(r"\s*(?P<number>[0-9]{1,9})\s*(?P<unit>[smhd])[a-z]*\s*", re.IGNORECASE)
_LONGEST: Final = 36_500 * DAY


class DurationError(ValueError):
    """The text is not a duration."""


def microseconds(text: str) -> int:
    """How long a duration is; 0 or more.

    Raises:
        DurationError: the text is not a duration, or longer than a hundred years.

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


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """How event time is divided; all in microseconds.

    Attributes:
        pane: smallest span kept; divides an hour.
        spans: of the windows, ascending; empty where only the lifetime is asked for.
        lateness: so much later than the clock an event may come and still be in every window.
    """

    pane: int = 60 * SECOND
    spans: tuple[int, ...] = ()
    lateness: int = 120 * SECOND

    @property
    def kept(self) -> int:
        """How far back from the clock panes are kept."""
        return (self.spans[-1] if self.spans else 0) + self.lateness


class Borders(NamedTuple):
    """How event time is kept while the clock stands; microseconds.

    Attributes:
        kept: what is before it belongs to no pane any more.
        fine: what is before it is kept by the hour.
    """

    kept: int
    fine: int


def unit(span: int, pane: int) -> int:
    """A window of this span begins at a multiple of it: an hour above FINE, a pane up to it."""
    return HOUR if span > FINE else pane


def borders(times: Times, clock: int) -> Borders:
    """What is still kept at this clock, and how.

    Hours are dropped as a whole where any window has more than FINE; without windows nothing is
    kept. Both borders only move forward as the clock does.
    """
    if not times.spans:
        return Borders(-PAST - 1, PAST)
    size = unit(times.spans[-1], times.pane)
    kept = (clock - times.kept) // size * size
    if size == times.pane:
        return Borders(kept, PAST)
    return Borders(kept, (clock - FINE - times.lateness) // times.pane * times.pane)


class Pane(NamedTuple):
    """A span of event time for which a table is kept, an hour or a day as well; microseconds.

    Attributes:
        size: how long it is; 0 for everything that is no longer in panes.
        start: when it begins; a multiple of the size.
    """

    size: int
    start: int


BEYOND: Final = Pane(0, 0)
"""Holds the events whose pane is not kept any more, and those without time."""


def section_name(family: str, pane: Pane) -> str:
    """Name of the section that holds a pane.

    Example:
        >>> section_name("labels", Pane(60 * SECOND, 120 * SECOND)), section_name("labels", BEYOND)
        ('labels/60/2', 'labels/past')
    """
    if pane == BEYOND:
        return f"{family}/{_BEYOND}"
    return f"{family}/{_size(pane.size)}/{pane.start // pane.size}"


def pane_of(name: str, pane: int) -> Pane:
    """The pane that a section holds.

    Raises:
        DamagedStateError: no section is called so.
        UnlikeStateError: it is of panes of another size.
    """
    _, _, rest = name.partition("/")
    size, _, index = rest.partition("/")
    if rest == _BEYOND:
        return BEYOND
    if not index.removeprefix("-").isdecimal() or str(int(index)) != index:
        raise DamagedStateError(name, "no section has such a name")
    for known in (pane, HOUR, DAY):
        if size == _size(known):
            return Pane(known, int(index) * known)
    raise UnlikeStateError("panes", _size(pane), size)


def span_text(microseconds: int) -> str:
    """A span in the largest of hours, minutes, seconds and microseconds that divides it.

    Example:
        >>> span_text(300 * SECOND), span_text(24 * HOUR), span_text(90 * SECOND)
        ('5m', '24h', '90s')
    """
    for name, size in (("h", HOUR), ("m", 60 * SECOND), ("s", SECOND)):
        if microseconds % size == 0:
            return f"{microseconds // size}{name}"
    return f"{microseconds}us"


def duration_problem(text: str, least: int = SECOND) -> str | None:
    """Why a text is not a duration of at least so many microseconds, or None."""
    try:
        length = microseconds(text)
    except DurationError as error:
        return str(error)
    return f"found {text!r}; at least {span_text(least)} is needed." if length < least else None


def moment_text(microseconds: int) -> str:
    """A time since the epoch as RFC 3339 has it; beyond the years 1 to 9999, their first or last.

    Example:
        >>> moment_text(1_700_000_000_000_000)
        '2023-11-14T22:13:20Z'
        >>> moment_text(-(10**18)), moment_text(10**18)
        ('0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z')
    """
    moment = _EPOCH + timedelta(microseconds=min(max(microseconds, _FIRST), _LAST))
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


def _size(microseconds: int) -> str:
    return f"{microseconds / SECOND:g}"


class Judged(NamedTuple):
    """What the clock of a partition says of its events.

    Attributes:
        starts: start of the pane of each, microseconds; PAST where it is late.
        late: whether each is late.
    """

    starts: NDArray[np.int64]
    late: NDArray[np.bool_]


def late(times: NDArray[np.int64], clocks: NDArray[np.int64], division: Times) -> Judged:
    """Judge the events of a partition in the order of its log.

    An event is late if its pane is no longer kept when it comes: judged by the clock of the
    partition then, so by the log alone and never by where a batch ends. Without windows no event
    is late.

    Example:
        >>> minute = 60_000_000
        >>> times = Times(pane=minute, spans=(minute,), lateness=minute)
        >>> late(np.array([2, 0, 5, 1, 3]) * minute, np.array([2, 2, 5, 5, 5]) * minute, times).late
        array([False, False, False,  True, False])
    """
    starts = times // division.pane * division.pane
    if not division.spans:
        return Judged(starts, np.zeros(len(times), dtype=np.bool_))
    size = unit(division.spans[-1], division.pane)
    too_late = times < (clocks - division.kept) // size * size
    starts[too_late] = PAST
    return Judged(starts, too_late)
