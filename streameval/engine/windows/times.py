"""Event time: panes, the windows made of them, and the retention of panes."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from streameval.events.saved_states import LOADED, damaged, unlike
from streameval.events.times import moment_of
from streameval.inference.days import calendar_of
from streameval.statistics.arrays import IntArray, place_values

SECOND: Final = 1_000_000
HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR
FINE: Final = 2 * HOUR
"""Age up to which panes are stored one by one, microseconds; older ones are summed by hour."""

PAST: Final = -(2**63)
"""Start of the panes that are no longer retained."""

HOW: Final = "give a whole number and s, m, h or d, for example '90s', '5m', '1h' or '7d'"
"""The forms of a duration, for errors."""

_PAST_NAME: Final = "past"
_UNITS: Final = {"d": DAY, "h": HOUR, "m": 60 * SECOND, "s": SECOND}
_DURATION: Final = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>[smhd])")
_LOOSE: Final = re.compile(
    # Not any word after the unit: 500ms are not minutes.
    r"\s*(?P<number>[0-9]{1,9})\s*(?P<unit>[smhd])(ecs?|econds?|ins?|inutes?|rs?|ours?|ays?)?\s*",
    re.IGNORECASE,
)
_LONGEST: Final = 36_500 * DAY


class DurationError(ValueError):
    """The text is not a duration."""


class Spans(msgspec.Struct, frozen=True):
    """Spans of event time, by which counts are split: aligned to the epoch, or days of a zone.

    Attributes:
        length: microseconds; of spans of days, in UTC.
        days: number of days of a span in a time zone; None for spans of one length.
        time_zone: the zone of these days.

    Example:
        >>> parse_spans("1d", "Europe/Berlin").text(0), parse_spans("24h", "Europe/Berlin").text(0)
        ('1970-01-01T01:00:00+01:00', '1970-01-01T00:00:00Z')
    """

    length: int
    days: int | None = None
    time_zone: str | None = None

    def starts(self, times: IntArray) -> IntArray:
        """The start of the span of each time, microseconds; shape (n,)."""
        if self.days is None:
            return times // self.length * self.length
        calendar = calendar_of(self.time_zone)
        firsts, index = place_values(calendar.days(times) // self.days * self.days)
        return np.array([calendar.begin(day) for day in firsts.tolist()], np.int64)[index]

    def end(self, start: int) -> int:
        """The end of the span that begins at a time, microseconds."""
        if self.days is None:
            return start + self.length
        calendar = calendar_of(self.time_zone)
        # If a zone skips a day, the next day begins at the same time.
        first = calendar.day(start) // self.days * self.days
        return calendar.begin(first + self.days)

    def text(self, time: int) -> str:
        """The start of a span in RFC 3339, with the offset of the zone of days."""
        return moment_text(time) if self.days is None else calendar_of(self.time_zone).text(time)

    def drawn_at(self, start: int) -> int:
        """The start on the UTC axis of charts; for days, midnight UTC of the local date."""
        if self.days is None:
            return start
        return calendar_of(self.time_zone).day(start) // self.days * self.days * DAY


def parse_spans(text: str, time_zone: str | None = None) -> Spans:
    """The spans of a duration: of days, such as "1d", they are days of the time zone.

    Raises:
        DurationError: the text is not a duration.
        TimeZoneError: there is no such zone.
    """
    length = duration_of(text)
    if not text.endswith("d") or (zone := calendar_of(time_zone).time_zone) is None:
        return Spans(length)
    return Spans(length, length // DAY, zone)


def duration_of(text: str) -> int:
    """The length of a duration; 0 or more.

    Raises:
        DurationError: the text is not a duration, or longer than a hundred years.

    Example:
        >>> duration_of("90s"), duration_of("1h")
        (90000000, 3600000000)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise DurationError(f"found {text!r}; {HOW}.{_hint(text)}")
    length = int(match["number"]) * _UNITS[match["unit"]]
    if length > _LONGEST:
        raise DurationError(f"found {text!r}; that is more than a hundred years.")
    return length


def _hint(text: str) -> str:
    match = _LOOSE.fullmatch(text)
    return f" Did you mean '{match['number']}{match['unit'].lower()}'?" if match else ""


class Windowing(msgspec.Struct, frozen=True, kw_only=True):
    """The division of event time into panes and windows; all in microseconds.

    Attributes:
        pane: size of a pane; divides an hour.
        spans: lengths of the windows, ascending; empty if only the lifetime is read.
        lateness: distance behind the clock at which an event still counts in every window.
        names: windows with other names than `span_text` gives, and these names.
    """

    pane: int = 60 * SECOND
    spans: tuple[int, ...] = ()
    lateness: int = 120 * SECOND
    names: tuple[tuple[int, str], ...] = ()

    def name(self, span: int) -> str:
        """The name of a window.

        Example:
            >>> Windowing(names=((168 * HOUR, "7d"),)).name(168 * HOUR), Windowing().name(24 * HOUR)
            ('7d', '24h')
        """
        return dict(self.names).get(span) or span_text(span)

    @property
    def retention(self) -> int:
        """The time back from the clock for which panes are retained."""
        return (self.spans[-1] if self.spans else 0) + self.lateness


IntOrArray = TypeVar("IntOrArray", int, NDArray[np.int64])


class Borders(NamedTuple):
    """Event times from `retained_from` on have a pane, before `fine` of an hour. Microseconds."""

    retained_from: int
    fine: int


def alignment(span: int, pane: int) -> int:
    """A window begins at a multiple of this: an hour if it is longer than FINE, else a pane."""
    return HOUR if span > FINE else pane


def borders(windowing: Windowing, clock: int) -> Borders:
    """The panes that are retained at this clock, and those that are retained by the hour.

    If any window is longer than FINE, panes are dropped by the hour. Without windows none is
    retained. As the clock advances, both borders only move forward.
    """
    if not windowing.spans:
        return Borders(-PAST - 1, PAST)
    oldest = retained_from(clock, windowing)
    if alignment(windowing.spans[-1], windowing.pane) == windowing.pane:
        return Borders(oldest, PAST)
    return Borders(oldest, (clock - FINE - windowing.lateness) // windowing.pane * windowing.pane)


def retained_from(clock: IntOrArray, windowing: Windowing) -> IntOrArray:
    """The late rule: at this clock, events before the result are late; they have no pane."""
    size = alignment(windowing.spans[-1], windowing.pane)
    return (clock - windowing.retention) // size * size


class Pane(NamedTuple):
    """A span of event time with a table of its own; may be an hour or a day. Microseconds.

    Attributes:
        size: its length; 0 for `PAST_PANE`.
        start: its beginning; a multiple of the size.
    """

    size: int
    start: int


PAST_PANE: Final = Pane(0, 0)
"""The pane of events whose own is no longer retained, and of events without time."""


def section_name(family: str, pane: Pane) -> str:
    """The name of a pane's section.

    Example:
        >>> section_name("labels", Pane(60 * SECOND, 120 * SECOND))
        'labels/60/2'
        >>> section_name("labels", PAST_PANE)
        'labels/past'
    """
    if pane == PAST_PANE:
        return f"{family}/{_PAST_NAME}"
    return f"{family}/{_size(pane.size)}/{pane.start // pane.size}"


def pane_of(name: str, pane: int) -> Pane:
    """The pane of a section.

    Raises:
        DamagedStateError: no section has such a name.
        UnlikeStateError: the pane has another size.
    """
    _, _, rest = name.partition("/")
    size, _, index = rest.partition("/")
    if rest == _PAST_NAME:
        return PAST_PANE
    if not index.removeprefix("-").isdecimal() or str(int(index)) != index:
        raise damaged(name, "no section has such a name")
    for length in (pane, HOUR, DAY):
        if size == _size(length):
            return Pane(length, int(index) * length)
    raise unlike("panes", _size(pane), size, sides=LOADED)


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
    """The problem with a text that is not a duration of at least `least` microseconds, or None."""
    try:
        length = duration_of(text)
    except DurationError as error:
        return str(error)
    return f"found {text!r}; give at least {span_text(least)}." if length < least else None


def moment_text(microseconds: int) -> str:
    """A time since the epoch in RFC 3339; clipped to the years 1 to 9999.

    Example:
        >>> moment_text(1_700_000_000_000_000)
        '2023-11-14T22:13:20Z'
        >>> moment_text(-(10**18)), moment_text(10**18)
        ('0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z')
    """
    return f"{moment_of(microseconds).replace(tzinfo=None).isoformat()}Z"


_EARLY: Final = 3_652 * DAY
"""The year 1980."""


def unit_warning(newest: int, field: str, unit: str) -> str | None:
    """A warning if the newest event is before 1980, or None.

    Seconds that are read as milliseconds, or milliseconds as microseconds, are times in 1970.

    Example:
        >>> unit_warning(1_767_225_600 * 1_000, "ts", "ms")
        "the newest event is of 1970-01-21: is 'ms' the unit of ts?"
    """
    if newest >= _EARLY:
        return None
    return f"the newest event is of {moment_text(newest)[:10]}: is {unit!r} the unit of {field}?"


def _size(microseconds: int) -> str:
    return f"{microseconds / SECOND:g}"


def assign_panes(
    times: NDArray[np.int64], clocks: NDArray[np.int64], windowing: Windowing
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Assign the events of a partition to panes, in the order of its log.

    Returns the start of each event's pane, microseconds, PAST if it is late; and which are late.
    An event is late if its pane is no longer retained at the partition's clock after the event. So
    the result depends on the log alone, never on batches. Without windows no event is late.

    Example:
        >>> minute = 60_000_000
        >>> windowing = Windowing(pane=minute, spans=(minute,), lateness=minute)
        >>> times, clocks = np.array([2, 0, 5, 1, 3]) * minute, np.array([2, 2, 5, 5, 5]) * minute
        >>> _, late = assign_panes(times, clocks, windowing)
        >>> late
        array([False, False, False,  True, False])
    """
    starts = times // windowing.pane * windowing.pane
    if not windowing.spans:
        return starts, np.zeros(len(times), dtype=np.bool_)
    too_late = times < retained_from(clocks, windowing)
    starts[too_late] = PAST
    return starts, too_late
