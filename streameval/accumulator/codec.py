"""Encodes and decodes a table: one msgpack value, equal for equal content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.errors import DamagedStateError, StateVersionError, UnlikeStateError
from streameval.events.ids import IdKind
from streameval.statistics.arrays import IntArray
from streameval.statistics.groups import Groups
from streameval.statistics.relation import Relation
from streameval.statistics.statistic import Statistic
from streameval.statistics.vocabulary import Items, SavedItems, loaded, packed, saved

VERSION: Final = 2
_WHAT: Final = "accumulator"

Made: TypeAlias = dict[str, int | str | None]
"""What the values of a statistic were made with; states of unlike ones do not mix."""


class Content(NamedTuple):
    """What a table has."""

    ids: IdKind | None
    items: Items
    events: Relation
    statistics: Mapping[str, Statistic]
    made_with: Mapping[str, Made]


class _Entry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    inputs: Made
    relations: list[list[Ext]]


def dumped(content: Content, order: Sequence[int]) -> Iterator[bytes]:
    """These cells in pieces; cells are written as 0, 1, 2, ... in this order, items by name."""
    cells = np.array(order, np.int64)
    yield b"\x95" + packed(VERSION) + packed(content.ids)
    yield packed(content.events.saved(cells, None))
    numbers = None
    used = [each.item_codes(cells) for each in content.statistics.values()]
    for piece in saved(content.items, np.unique(np.concatenate([np.zeros(0, np.int64), *used]))):
        if isinstance(piece, bytes):
            yield piece
        else:
            numbers = np.zeros(len(content.items.names), np.int64)
            numbers[piece] = np.arange(piece.size)
    yield b"\xdf" + len(content.statistics).to_bytes(4, "big")
    for name, statistic in content.statistics.items():
        yield packed(name) + b"\x92" + packed(content.made_with[name])
        yield b"\xdd" + len(statistic.relations).to_bytes(4, "big")
        for relation in statistic.relations.values():
            yield packed(relation.saved(cells, numbers))


def restored(
    content: Content, data: bytes, cells: Sequence[int]
) -> tuple[IdKind | None, Relation, frozenset[str]]:
    """Fill empty statistics from the bytes of `dumped`.

    Args:
        content: of an empty table; its items and statistics are filled.
        data: the bytes.
        cells: the number here of each cell that was written.

    Returns:
        The kind of ids, the events of each cell, and the names of the statistics that were not
        there.

    Raises:
        StateVersionError: this release does not know the version.
        UnlikeStateError: the values of a statistic were made with other inputs, or ids of the
            other kind were counted.
        DamagedStateError: it is not the output of `dumped`.
    """
    try:
        return _restored(content, data, np.array(cells, np.int64))
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.DecodeError) as error:
        raise DamagedStateError(_WHAT, f"{type(error).__name__}: {error}") from error


def _restored(
    content: Content, data: bytes, cells: IntArray
) -> tuple[IdKind | None, Relation, frozenset[str]]:
    version, *rest = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    found = msgspec.msgpack.decode(version)
    if found != VERSION:
        raise StateVersionError(_WHAT, found, VERSION)
    ids, lists, names, entries = rest
    kind = one_kind("ids", content.ids, msgspec.msgpack.decode(ids, type=IdKind | None))
    codes = loaded(content.items, msgspec.msgpack.decode(names, type=SavedItems))
    known = msgspec.msgpack.decode(entries, type=dict[str, msgspec.Raw])
    columns = msgspec.msgpack.decode(lists, type=list[Ext])
    events = content.events.restored(columns, cells, codes)
    missing = set()
    for name, statistic in content.statistics.items():
        if name not in known:
            missing.add(name)
            continue
        entry = msgspec.msgpack.decode(known[name], type=_Entry)
        if isinstance(statistic, Groups):
            statistic.restore(entry.relations, list(entry.inputs), cells)
            continue
        if entry.inputs != (made_with := content.made_with[name]):
            raise UnlikeStateError(f"inputs of {name}", made_with, entry.inputs)
        pairs = zip(statistic.relations.items(), entry.relations, strict=True)
        for (place, relation), saved_one in [*pairs]:
            statistic.relations[place] = relation.restored(saved_one, cells, codes)
    return kind, events, frozenset(missing)


def one_kind(of: str, mine: IdKind | None, theirs: IdKind | None) -> IdKind | None:
    """The kind of what both have; None where neither has any.

    Raises:
        UnlikeStateError: they have different ones.
    """
    if mine is not None and theirs is not None and mine != theirs:
        raise UnlikeStateError(of, mine, theirs)
    return mine or theirs
