"""Ids in a form that msgpack has."""

from __future__ import annotations

from streameval.events import Id
from streameval.statistics.packing import exact


def portable(item: Id) -> str | int | bytes:
    """An id as text, as an integer, or as the digits of one that is too long.

    >>> portable(2**70)
    b'1180591620717411303424'
    """
    item = exact(item)
    if isinstance(item, int) and not -(2**63) <= item < 2**64:
        return b"%d" % item
    return item


def restored(saved: str | int | bytes) -> Id:
    """What `portable` was given."""
    return int(saved) if isinstance(saved, bytes) else saved
