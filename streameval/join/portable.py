"""Ids in a form that msgpack can encode."""

from __future__ import annotations

from typing import Final

from msgspec.msgpack import Ext

from streameval.events import Id
from streameval.statistics.vocabulary import exact

_NUMBER: Final = 105


def portable(item: Id) -> str | int | Ext:
    """An id as text, as an integer, or as the digits of one that is too long.

    >>> portable(2**70).data
    b'1180591620717411303424'
    """
    item = exact(item)
    if isinstance(item, int) and not -(2**63) <= item < 2**64:
        return Ext(_NUMBER, b"%d" % item)
    return item


def restored(saved: str | int | Ext) -> Id:
    """What `portable` was given."""
    return int(saved.data) if isinstance(saved, Ext) else saved
