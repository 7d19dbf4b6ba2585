"""A bucket: the lists of one short span of event time, as columns and as bytes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.msgpack import Ext
from numpy.typing import NDArray

from streameval.events import Id
from streameval.events.per_item import PerItem
from streameval.statistics.relation import decode_column, encode_column, next_version
from streameval.statistics.vocabulary import builtin_id

_NUMBER: Final = 105
"""Type of the msgpack extension that holds the digits of a long integer."""

PLACES: Final = 24
"""Bits of a row that are the place in its bucket; the others number buckets up to the year 9999."""


def _column(kind: str) -> Any:
    return msgspec.field(default_factory=lambda: array(kind))


class ImpressionBucket(msgspec.Struct, eq=False):
    """The lists of one short span of event time, as columns.

    Attributes:
        ends: end of each list in the columns of items.
        items: number of each item.
        dimensions: number of each list's label values.
        requests: id of each list; empty if the stream has none.
        users: user of each list; empty if users are not needed.
        positions: rank of each item; empty if all are 1, 2, 3, ...
        scores: of each item, NaN if the list has none; empty if no list has.
        baselines: items of another recommender for each list; empty if no list has.
        histories: items that the user of each list knew, None if unknown; empty if no list has.
        per_item: values of the items by name, as msgpack; empty if no list has.
        rankers: items of each ranker that was not shown, for each list; empty without rankers.
        offsets: of each record in its log; -1 if an earlier release did not save it.
    """

    times: array[int] = _column("q")
    ends: array[int] = _column("I")
    items: array[int] = _column("I")
    dimensions: array[int] = _column("I")
    requests: list[str] = []
    users: list[str] = []
    positions: array[int] = _column("I")
    scores: array[float] = _column("d")
    baselines: list[array[int]] = []
    histories: list[array[int] | None] = []
    per_item: list[bytes] = []
    rankers: list[list[array[int]]] = []
    logs: array[int] = _column("I")
    offsets: array[int] = _column("q")
    version: int = msgspec.field(default_factory=next_version)

    def __len__(self) -> int:
        return len(self.times)

    def span(self, place: int) -> slice:
        """The range of a list's items."""
        return slice(self.ends[place - 1] if place else 0, self.ends[place])

    def columns(self) -> list[array[int]]:
        """All columns of item numbers: the lists, the baselines, the histories and the rankers'."""
        histories = (history for history in self.histories if history is not None)
        return [self.items, *self.baselines, *histories, *chain.from_iterable(self.rankers)]

    def renumber(self, fresh: Iterator[array[int]]) -> None:
        """Replace the columns that `columns` gives, in its order."""
        self.items = next(fresh)
        self.baselines = [next(fresh) for _ in self.baselines]
        self.histories = [None if history is None else next(fresh) for history in self.histories]
        self.rankers = [[next(fresh) for _ in lists] for lists in self.rankers]

    def copy(self) -> ImpressionBucket:
        """An independent copy."""
        copy = ImpressionBucket()
        for name in self.__struct_fields__:
            column = getattr(self, name)
            setattr(copy, name, column if name == "version" else column[:])
        return copy


def encode_bucket(
    bucket: ImpressionBucket, items: Sequence[Id], labels: Sequence[tuple[str, ...]]
) -> bytes:
    """A bucket as bytes; the same lists in the same order give the same bytes."""
    return msgspec.msgpack.encode(_saved(bucket, items, labels))


def read(
    content: bytes, item: Callable[[Id], int], label: Callable[[tuple[str, ...]], int]
) -> ImpressionBucket:
    """The bucket of these bytes."""
    saved = msgspec.msgpack.decode(content, type=_SavedBucket)
    bucket = ImpressionBucket()
    bucket.times.extend(decode_column(saved.times).tolist())
    lengths = decode_column(saved.lengths)
    bucket.ends.extend(np.cumsum(lengths).tolist())
    codes = np.array([item(decode_id(name)) for name in saved.names], dtype=np.int64)
    bucket.items.extend(codes[decode_column(saved.items)].tolist())
    labels = [label(tuple(values)) for values in saved.labels]
    bucket.dimensions.extend([labels[code] for code in decode_column(saved.dimensions)])
    bucket.requests, bucket.users = saved.requests, saved.users
    bucket.positions.extend(decode_column(saved.positions).tolist())
    bucket.scores.extend(saved.scores)
    bucket.baselines = [_recoded(codes, baseline) for baseline in saved.baselines]
    bucket.histories = [
        None if history is None else _recoded(codes, history) for history in saved.histories or []
    ]
    bucket.logs.extend(decode_column(saved.logs).tolist())
    bucket.offsets.extend(decode_column(saved.offsets).tolist())
    bucket.per_item = saved.per_item or []
    bucket.rankers = [[_recoded(codes, column) for column in row] for row in saved.rankers or []]
    lists = {len(lengths), len(bucket.times), len(bucket.logs), len(bucket.offsets)}
    if lengths.sum() != len(bucket.items) or len(lists) > 1:
        raise ValueError(f"{len(bucket.items)} items for lists of {lengths.sum()} in all")
    return bucket


class _SavedBucket(msgspec.Struct, array_like=True):
    """A saved bucket; items and label values are numbered by first occurrence in it."""

    times: Ext
    lengths: Ext
    items: Ext
    names: list[str | int | Ext]
    dimensions: Ext
    labels: list[list[str]]
    requests: list[str]
    users: list[str]
    positions: Ext
    scores: list[float]
    baselines: list[Ext]
    logs: Ext
    offsets: Ext
    per_item: list[bytes] | None = None
    histories: list[Ext | None] | None = None
    rankers: list[list[Ext]] | None = None


def _recoded(codes: NDArray[np.int64], saved: Ext) -> array[int]:
    return array("I", codes[decode_column(saved)].tolist())


def _saved(
    bucket: ImpressionBucket, items: Sequence[Id], labels: Sequence[tuple[str, ...]]
) -> _SavedBucket:
    columns = [np.array(column, dtype=np.int64) for column in bucket.columns()]
    codes, places = _first_seen(np.concatenate(columns))
    label_codes, dimensions = _first_seen(np.array(bucket.dimensions, dtype=np.int64))
    shown, *others = np.split(places, np.cumsum([column.size for column in columns])[:-1])
    other_items = map(encode_column, others)
    ends = np.array(bucket.ends, dtype=np.int64)
    return _SavedBucket(
        times=encode_column(np.array(bucket.times, dtype=np.int64)),
        lengths=encode_column(ends - np.concatenate([[0], ends[:-1]]) if ends.size else ends),
        items=encode_column(shown),
        names=[encode_id(items[code]) for code in codes.tolist()],
        dimensions=encode_column(dimensions),
        labels=[list(labels[code]) for code in label_codes.tolist()],
        requests=bucket.requests,
        users=bucket.users,
        positions=encode_column(np.array(bucket.positions, dtype=np.int64)),
        scores=bucket.scores.tolist(),
        baselines=[next(other_items) for _ in bucket.baselines],
        logs=encode_column(np.array(bucket.logs, dtype=np.int64)),
        offsets=encode_column(np.array(bucket.offsets, dtype=np.int64)),
        per_item=bucket.per_item or None,
        histories=[None if history is None else next(other_items) for history in bucket.histories]
        or None,
        rankers=[[next(other_items) for _ in lists] for lists in bucket.rankers] or None,
    )


def _first_seen(column: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values in order of first occurrence, and the index of each value in them."""
    values, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return values[order], rank[inverse]


def packed(values: PerItem | None) -> bytes:
    """The values of a list's items as bytes; empty if there are none."""
    return b"" if values is None else msgspec.msgpack.encode(values)


def unpacked(content: bytes) -> PerItem | None:
    """The values that `packed` converted."""
    return msgspec.msgpack.decode(content) if content else None


def encode_id(item: Id) -> str | int | Ext:
    """An id for msgpack: text, an integer, or the digits of a long integer.

    >>> encode_id(2**70).data
    b'1180591620717411303424'
    """
    item = builtin_id(item)
    if isinstance(item, int) and not -(2**63) <= item < 2**64:
        return Ext(_NUMBER, b"%d" % item)
    return item


def decode_id(saved: str | int | Ext) -> Id:
    """The id that `encode_id` converted."""
    return int(saved.data) if isinstance(saved, Ext) else saved
