"""Spans of time for which accumulators are kept, and what their sections are called."""

from __future__ import annotations

from typing import Final, NamedTuple

from streameval.aggregation.time import HOUR, SECOND
from streameval.errors import DamagedStateError, UnlikeStateError

META: Final = "meta"
_PAST: Final = "past"


class Place(NamedTuple):
    """A span of time for which accumulators are kept; microseconds.

    Attributes:
        size: how long it is; 0 for all that is no longer kept in panes.
        start: when it begins; a multiple of the size.
    """

    size: int
    start: int


BEYOND: Final = Place(0, 0)
"""Where events go whose pane is not kept, and those without time."""


def section_name(family: str, place: Place) -> str:
    """Name of the section that holds a place.

    Example:
        >>> section_name("labels", Place(60 * SECOND, 120 * SECOND)), section_name("labels", BEYOND)
        ('labels/60/2', 'labels/past')
    """
    if place == BEYOND:
        return f"{family}/{_PAST}"
    return f"{family}/{_size(place.size)}/{place.start // place.size}"


def place_of(name: str, pane: int) -> Place:
    """The place that a section holds.

    Args:
        name: of the section.
        pane: size of panes here, microseconds.

    Raises:
        DamagedStateError: no section is called so.
        UnlikeStateError: it is of panes of another size.
    """
    _, _, rest = name.partition("/")
    size, _, index = rest.partition("/")
    if rest == _PAST:
        return BEYOND
    if not index.removeprefix("-").isdecimal() or str(int(index)) != index:
        raise DamagedStateError(name, "no section has such a name")
    for known in (pane, HOUR):
        if size == _size(known):
            return Place(known, int(index) * known)
    raise UnlikeStateError("panes", _size(pane), size)


def _size(microseconds: int) -> str:
    return f"{microseconds / SECOND:g}"
