"""Content as msgpack, in pieces that each take a moment: what is saved beside other work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise
from typing import Annotated, TypeAlias, cast
from zlib import crc32

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.events import Id, plain
from streameval.statistics.arrays import IntArray

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

SavedItems: TypeAlias = list[tuple[list[str | int | Ext], list[Ext]]]
"""What `item_rows` wrote."""

_BUCKET = 1_024
"""About so many items are sorted and written at once."""

_AT_ONCE = 8_192
"""So many Python integers become an array at once."""

_TEXT, _NUMBER = 115, 105
"""Codes of ids that msgpack has no form for: lone surrogates, and integers beyond 64 bits."""

packed = msgspec.msgpack.Encoder().encode


def array_of(size: int) -> bytes:
    """The head of an array, whose entries follow."""
    return b"\xdd" + size.to_bytes(4, "big")


def map_of(size: int) -> bytes:
    """The head of a map, whose names and entries follow by turns."""
    return b"\xdf" + size.to_bytes(4, "big")


def integers(column: IntArray) -> Ext:
    """A column in the fewest bytes that hold all of it; their number is the extension's code.

    Example:
        >>> saved = integers(np.array([1, 300]))
        >>> saved.code, saved.data.hex()
        (2, '01002c01')
    """
    low, high = (int(column.min()), int(column.max())) if column.size else (0, 0)
    width = next(each for each in (1, 2, 4, 8) if max(high, ~low) < 1 << 8 * each - 1)
    return Ext(width, column.astype(f"<i{width}").tobytes())


def column_of(saved: Ext) -> IntArray:
    """The column that `integers` was given.

    Raises:
        ValueError: it is none.
    """
    if saved.code not in (1, 2, 4, 8):
        message = f"integers of {saved.code} bytes"
        raise ValueError(message)
    found = np.frombuffer(memoryview(saved.data), np.dtype(f"<i{saved.code}"))
    return found.astype(np.int64)


def columns_of(saved: Iterable[Ext], *, columns: int) -> list[IntArray]:
    """So many columns of equal length.

    Raises:
        ValueError: they are not.
    """
    found = [column_of(each) for each in saved]
    if len(found) != columns or len({column.size for column in found}) > 1:
        message = f"columns of {[column.size for column in found]} integers; {columns} were saved"
        raise ValueError(message)
    return found


def sorted_counts(counts: Mapping[int, int]) -> tuple[IntArray, IntArray]:
    """Keys in ascending order, and their counts."""
    keys, values = array_from(counts.keys()), array_from(counts.values())
    order = np.argsort(keys)
    return keys[order], values[order]


def array_from(numbers: Iterable[int]) -> IntArray:
    """Integers of Python as an array, some at a time."""
    found, rest = [np.zeros(0, np.int64)], iter(numbers)
    while (some := np.fromiter(islice(rest, _AT_ONCE), np.int64)).size:
        found.append(some)
    return np.concatenate(found)


def item_rows(items: Iterable[Id], *columns: IntArray) -> Iterator[bytes]:
    """Items with integer columns as one array of buckets; equal rows give equal bytes.

    Args:
        items: one of each row; they may repeat.
        columns: of shape (rows,) each; no two rows of an item are alike in them.
    """
    known, codes = _coded(items)
    buckets = 1 << (len(known) // _BUCKET).bit_length()
    codes &= buckets - 1
    order = np.lexsort((*reversed(columns), codes))
    edges = np.searchsorted(codes[order], np.arange(buckets + 1)).tolist()
    yield array_of(buckets)
    for start, stop in pairwise(edges):
        rows = order[start:stop]
        names = [known[row] for row in rows.tolist()]
        places = _in_order(names)
        kept = [integers(column[rows[places]]) for column in columns]
        yield _bucket([names[place] for place in places], kept)


def rows_of(saved: SavedItems, *, columns: int) -> tuple[list[Id], list[list[int]]]:
    """The rows that `item_rows` was given, in another order: the items, and the columns.

    Raises:
        ValueError: it is not what that wrote.
    """
    items: list[Id] = []
    found: list[list[int]] = [[] for _ in range(columns)]
    for names, kept in saved:
        packed = Ext in set(map(type, names))
        items.extend(map(_item, names) if packed else cast("list[Id]", names))
        for column, more in zip(found, columns_of(kept, columns=columns), strict=True):
            column.extend(more.tolist())
        if len(items) != len(found[0]):
            message = f"{len(items)} items with {len(found[0])} rows"
            raise ValueError(message)
    return items, found


def exact(item: Id) -> Id:
    """The id as a str or int and nothing more special."""
    if type(item) is str or type(item) is int:
        return item
    known = plain(item)
    return int(known) if isinstance(known, int) else known


def _coded(items: Iterable[Id]) -> tuple[list[Id], IntArray]:
    """The items, and a hash of each that is the same everywhere."""
    known: list[Id] = []
    codes, rest = [np.zeros(0, np.int64)], iter(items)
    while some := list(islice(rest, _AT_ONCE)):
        known += some
        try:
            # All of them text, as a rule: without a step of Python for each.
            found = np.fromiter(map(crc32, map(str.encode, some)), np.int64)  # type: ignore[arg-type]  # refused if not
        except (TypeError, UnicodeEncodeError):
            found = np.fromiter(map(_code, some), np.int64)
        codes.append(found)
    return known, np.concatenate(codes)


def _code(item: Id) -> int:
    text = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else b"%x" % item
    return crc32(text)


def _in_order(names: list[Id]) -> list[int]:
    """Places of the names, sorted: numbers before text; equal ones stay as they are."""
    try:
        return sorted(range(len(names)), key=names.__getitem__)
    except TypeError:
        return sorted(range(len(names)), key=lambda place: _kind(names[place]))


def _kind(item: Id) -> tuple[bool, Id]:
    return isinstance(item, str), item


def _bucket(names: list[Id], columns: list[Ext]) -> bytes:
    if set(map(type, names)) - {str, int}:
        names = list(map(exact, names))
    try:
        return packed((names, columns))
    except (UnicodeEncodeError, OverflowError):
        return packed((list(map(_escaped, names)), columns))


def _escaped(item: Id) -> str | int | Ext:
    """An id that msgpack has no form for, as an extension."""
    try:
        packed(item)
    except (UnicodeEncodeError, OverflowError):
        if isinstance(item, str):
            return Ext(_TEXT, item.encode("utf-8", "surrogatepass"))
        return Ext(_NUMBER, b"%x" % item)
    return item


def _item(saved: str | int | Ext) -> Id:
    if not isinstance(saved, Ext):
        return saved
    if saved.code == _TEXT:
        return bytes(saved.data).decode("utf-8", "surrogatepass")
    return int(bytes(saved.data), 16)
