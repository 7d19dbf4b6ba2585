"""Impressions as columns, buffered by event time until their windows are over."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
import numpy as np

from streameval.decoding.columns import Decoded
from streameval.engine.windows.sections import Section
from streameval.events import Batch, Id
from streameval.events.errors import TooManyOpenError
from streameval.events.ragged import IdColumn, Ragged
from streameval.join.open_lists import PLACES, ImpressionBucket, encode_bucket, packed, read
from streameval.statistics.arrays import IntArray
from streameval.statistics.relation import next_version
from streameval.statistics.vocabulary import Codes

V = TypeVar("V", bound=Hashable)


def _times(lists: Decoded) -> IntArray:
    """Event time of each list; the streams of a join have one."""
    return cast("IntArray", lists.times)


def compact(
    codes: Codes[V], columns: Sequence[array[int]]
) -> tuple[Codes[V], Iterator[array[int]]]:
    """The codes of the values that occur in columns, and the columns renumbered for them.

    >>> fresh, columns = compact(Codes("abcd"), [array("I", [3, 1]), array("I", [3])])
    >>> fresh.names, [column.tolist() for column in columns]
    (['b', 'd'], [[1, 0], [1]])
    """
    views = [np.array(column, dtype=np.int64) for column in columns]
    occurs = np.zeros(len(codes), dtype=np.bool_)
    for view in views:
        occurs[view] = True
    numbers = (np.cumsum(occurs) - 1).astype(np.uint32)
    kept = [codes.names[code] for code in np.flatnonzero(occurs).tolist()]
    return Codes(kept), (array("I", numbers[view].tobytes()) for view in views)


PREFIX: Final = "~join/shown/"
_PLACE: Final = (1 << PLACES) - 1
_MANY: Final = 262_144
"""Fewer interned values are never compacted: renumbering all buckets would cost more."""

Parts: TypeAlias = Sequence[tuple[ImpressionBucket, list[int]]]
"""Buckets, each with places of lists in it."""

_ROW_BYTES: Final = 250
"""Approximate size of a list in columns and indexes, without its items and id."""


class ImpressionBuffer:
    """Open lists, and lists closed recently. The row of a list is its bucket and place there.

    Attributes:
        size: approximate bytes.
    """

    def __init__(self, width: int, *, users: bool = False) -> None:
        self._keeps_users = users
        self.buckets: dict[int, ImpressionBucket] = {}
        self.size = 0
        self._width = width
        self._items: Codes[Id] = Codes()
        self._labels: Codes[tuple[str, ...]] = Codes()
        self._kept_items = self._kept_labels = 0

    def __len__(self) -> int:
        return sum(map(len, self.buckets.values()))

    def numbered(self, decoded: Decoded) -> Decoded:
        """The lists with numbers of items, taken while the ids are in the processor's cache."""
        lists = decoded.batch.recommendations
        codes = self._items.codes(chain.from_iterable(lists))
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        shown = IdColumn(Ragged.of_lengths(codes, lengths), self._items.names)
        return msgspec.structs.replace(
            decoded,
            batch=msgspec.structs.replace(decoded.batch, recommendations=shown, matches=None),
            places=np.array(decoded.places, dtype=np.int64),
        )

    def add(self, lists: Decoded, log: int, offsets: IntArray) -> list[int]:
        """Add lists; returns their rows.

        Raises:
            TooManyOpenError: a bucket has too many lists.
        """
        numbers = _times(lists) // self._width
        rows = np.zeros(numbers.size, dtype=np.int64)
        for number in np.unique(numbers).tolist():
            selected = np.flatnonzero(numbers == number)
            bucket = self.buckets.setdefault(number, ImpressionBucket())
            begin = len(bucket)
            if begin + selected.size > _PLACE:
                raise TooManyOpenError("max_open", begin + selected.size, _PLACE)
            rows[selected] = (number << PLACES) + begin + np.arange(selected.size)
            self._extend(bucket, lists if selected.size == numbers.size else lists.take(selected))
            bucket.logs.extend([log] * selected.size)
            bucket.offsets.frombytes(offsets[selected].tobytes())
            bucket.version = next_version()
        result: list[int] = rows.tolist()
        return result

    def time(self, row: int) -> int:
        """The event time of a list."""
        return self.buckets[row >> PLACES].times[row & _PLACE]

    def request(self, row: int) -> str:
        """The id of a list; empty if the stream has none."""
        requests = self.buckets[row >> PLACES].requests
        return requests[row & _PLACE] if requests else ""

    def user(self, row: int) -> str:
        """The user of a list; empty if users are not kept."""
        users = self.buckets[row >> PLACES].users
        return users[row & _PLACE] if users else ""

    def labels(self, row: int) -> tuple[str, ...]:
        """The label values of a list."""
        return self._labels.names[self.buckets[row >> PLACES].dimensions[row & _PLACE]]

    def named(self, codes: Iterable[int]) -> list[Id]:
        """The items with these numbers."""
        return list(map(self._items.names.__getitem__, codes))

    def labelled(self, codes: Iterable[int]) -> list[tuple[str, ...]]:
        """The label values with these numbers."""
        return list(map(self._labels.names.__getitem__, codes))

    def by_bucket(self, rows: Sequence[int]) -> Iterator[tuple[ImpressionBucket, list[int]]]:
        """The buckets of consecutive rows, each with the places in it."""
        ordered = np.array(rows, dtype=np.int64)
        numbers, places = ordered >> PLACES, ordered & _PLACE
        edges = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
        # Numbers of buckets before 1970 are negative: no number can stand for an edge.
        for start, stop in pairwise([0, *edges, numbers.size] if rows else ()):
            yield self.buckets[int(numbers[start])], places[start:stop].tolist()

    def lists(self, parts: Parts) -> Ragged:
        """The items of lists, as numbers."""
        ragged = []
        for bucket, places in parts:
            offsets = np.zeros(len(bucket) + 1, dtype=np.int64)
            offsets[1:] = bucket.ends
            items = Ragged(np.asarray(bucket.items), offsets)
            taken = items.take(np.array(places, dtype=np.int64))
            # Copied: an array with an exported buffer cannot grow.
            ragged.append(Ragged(taken.values.astype(np.int64), taken.offsets))
        return ragged[0].joined(*ragged[1:])

    def codes(self, items: Iterable[Id]) -> IntArray:
        """The numbers of items; a new item gets the next."""
        return self._items.codes(items)

    @property
    def names(self) -> Sequence[Id]:
        """The item of each number."""
        return self._items.names

    def items(self, row: int) -> list[Id]:
        """The items of a list, rank 1 first."""
        bucket, place = self.buckets[row >> PLACES], row & _PLACE
        return self.named(bucket.items[bucket.span(place)])

    def holds(self, row: int, item: Id) -> bool:
        """Whether a list shows an item."""
        bucket, place = self.buckets[row >> PLACES], row & _PLACE
        return self._items.get(item, -1) in bucket.items[bucket.span(place)]

    def origin(self, row: int) -> tuple[int, int]:
        """Number of the log and offset of its record."""
        bucket, place = self.buckets[row >> PLACES], row & _PLACE
        return bucket.logs[place], bucket.offsets[place]

    def between(self, begin: int, end: int) -> list[int]:
        """Rows of the lists shown in [begin, end), by time and order of arrival."""
        rows: list[int] = []
        for number, times in self._times_in(begin, end):
            order = np.argsort(times, kind="stable")
            ordered = times[order]
            first, last = np.searchsorted(ordered, [begin, end])
            rows += ((number << PLACES) + order[first:last]).tolist()
        return rows

    def moment_after(self, begin: int, end: int, most: int) -> int:
        """A time up to `end`, so that about `most` lists were shown from `begin` until then.

        At least one list, if there is any, and all lists of the same time together.
        """
        left, lowest = most, None
        for _, column in self._times_in(begin, end):
            times = column[(begin <= column) & (column < end)]
            if times.size and lowest is None:
                lowest = int(times.min())
            if lowest is not None and times.size > left:
                return max(int(np.partition(times, left)[left]), lowest + 1)
            left -= times.size
        return end

    def _times_in(self, begin: int, end: int) -> Iterator[tuple[int, IntArray]]:
        """Number and times of the buckets that overlap with [begin, end), ascending."""
        for number in sorted(self.buckets):
            if (number + 1) * self._width <= begin:
                continue
            if number * self._width >= end:
                break
            yield number, np.array(self.buckets[number].times)

    def drop(self, before: int) -> list[tuple[int, ImpressionBucket]]:
        """Remove and return all buckets that end at or before a time."""
        expired = [number for number in self.buckets if (number + 1) * self._width <= before]
        dropped = [(number, self.buckets.pop(number)) for number in sorted(expired)]
        self.size -= sum(self._bytes(bucket) for _, bucket in dropped)
        if dropped:
            self._compact()
        return dropped

    def sections(self) -> Iterator[Section]:
        """One section for each bucket."""
        for number in sorted(self.buckets):
            bucket = self.buckets[number]
            yield Section(f"{PREFIX}{number}", bucket.version, self._content(bucket))

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`."""
        for name, content in sorted(sections.items()):
            number = int(name.removeprefix(PREFIX))
            bucket = read(content, self._items.__getitem__, self._labels.__getitem__)
            self.buckets[number] = bucket
            self.size += self._bytes(bucket)

    @staticmethod
    def _bytes(bucket: ImpressionBucket) -> int:
        texts = (*bucket.requests, *bucket.per_item)
        size = _ROW_BYTES * len(bucket) + 4 * len(bucket.items) + sum(map(len, texts))
        return size + _bytes_of_histories(bucket.histories) + _bytes_of_rankers(bucket.rankers)

    def _extend(self, bucket: ImpressionBucket, lists: Decoded) -> None:
        """Append lists, without their logs and offsets."""
        begin, before, size = len(bucket.items), len(bucket), len(lists.batch)
        items, users = self._numbers(lists.batch), lists.batch.users
        bucket.times.frombytes(_times(lists).tobytes())
        bucket.items.frombytes(items.values.astype(np.uint32).tobytes())
        bucket.ends.frombytes((items.offsets[1:] + begin).astype(np.uint32).tobytes())
        labels = lists.dimensions if lists.dimensions is not None else [()] * size
        bucket.dimensions.extend(map(self._labels.__getitem__, labels))
        if lists.event_ids is not None:
            bucket.requests.extend(lists.event_ids)
            self.size += sum(map(len, lists.event_ids))
        if self._keeps_users:
            # The bucket may have been saved by a configuration that needed no users.
            bucket.users.extend([""] * (before - len(bucket.users)))
            bucket.users.extend([str(user or "") for user in users or [""] * size])
        self.size += _ROW_BYTES * size + 4 * (len(bucket.items) - begin)
        self._extend_optional(bucket, lists.batch, items.lengths.tolist(), before, begin)
        if lists.rankers is not None:
            self._extend_rankers(bucket, lists.rankers)

    def _numbers(self, batch: Batch) -> Ragged:
        """The item numbers of lists, renumbered if the codes were compacted meanwhile."""
        lists = cast("IdColumn", batch.recommendations)
        if lists.names is self._items.names:
            return lists.ragged
        return Ragged(self._items.codes(lists.ids()), lists.ragged.offsets)

    def _extend_optional(
        self, bucket: ImpressionBucket, batch: Batch, lengths: list[int], before: int, begin: int
    ) -> None:
        """Append what only some lists have, if any list of the bucket has it."""
        if batch.positions is not None or bucket.positions:
            ranks = batch.positions or [None] * len(lengths)
            _extend_padded(bucket.positions, ranks, lengths, begin, 0)
        if batch.scores is not None or bucket.scores:
            scores = batch.scores or [None] * len(lengths)
            _extend_padded(bucket.scores, scores, lengths, begin, math.nan)
        if bucket.baselines or any(batch.baselines or ()):
            bucket.baselines.extend(array("I") for _ in range(before - len(bucket.baselines)))
            baselines = batch.baselines or [None] * len(lengths)
            bucket.baselines.extend(
                array("I", map(self._items.__getitem__, baseline or ())) for baseline in baselines
            )
        if bucket.histories or any(history is not None for history in batch.histories or ()):
            self._extend_histories(bucket, batch.histories or [None] * len(lengths), before)
        if bucket.per_item or any(batch.per_item or ()):
            bucket.per_item.extend([b""] * (before - len(bucket.per_item)))
            values = [packed(item_value) for item_value in batch.per_item or [None] * len(lengths)]
            bucket.per_item.extend(values)
            self.size += sum(map(len, values))

    def _extend_histories(
        self, bucket: ImpressionBucket, histories: Sequence[Sequence[Id] | None], before: int
    ) -> None:
        bucket.histories.extend([None] * (before - len(bucket.histories)))
        columns = [
            None if history is None else array("I", map(self._items.__getitem__, history))
            for history in histories
        ]
        bucket.histories.extend(columns)
        self.size += _bytes_of_histories(columns)

    def _extend_rankers(
        self, bucket: ImpressionBucket, rankers: Sequence[Sequence[Sequence[Id]]]
    ) -> None:
        rows = [
            [array("I", map(self._items.__getitem__, items)) for items in of_event]
            for of_event in rankers
        ]
        bucket.rankers.extend(rows)
        self.size += _bytes_of_rankers(rows)

    def _compact(self) -> None:
        """Remove unused items and label values, once they may be the majority."""
        buckets = list(self.buckets.values())
        if len(self._items) >= max(_MANY, 4 * self._kept_items):
            columns = [column for bucket in buckets for column in bucket.columns()]
            self._items, fresh = compact(self._items, columns)
            self._kept_items = len(self._items)
            for bucket in buckets:
                bucket.renumber(fresh)
        if len(self._labels) >= max(_MANY, 4 * self._kept_labels):
            self._labels, fresh = compact(self._labels, [each.dimensions for each in buckets])
            self._kept_labels = len(self._labels)
            for bucket in buckets:
                bucket.dimensions = next(fresh)

    def _content(self, bucket: ImpressionBucket) -> Callable[[], Callable[[], Iterator[bytes]]]:
        items, labels = self._items.names, self._labels.names

        def copied() -> Callable[[], Iterator[bytes]]:
            copy = bucket.copy()
            return lambda: iter([encode_bucket(copy, items, labels)])

        return copied


def _bytes_of_histories(histories: Iterable[array[int] | None]) -> int:
    return sum(4 * len(history) for history in histories if history is not None)


def _bytes_of_rankers(rankers: Iterable[Sequence[array[int]]]) -> int:
    return sum(4 * len(items) for of_event in rankers for items in of_event)


def _extend_padded(
    column: array[Any],
    values: Sequence[Sequence[float] | None],
    lengths: Sequence[int],
    begin: int,
    absent: float,
) -> None:
    """Extend a column to the length of the items, padded with `absent`, if any list has values."""
    if column or any(values):
        column.extend([absent] * (begin - len(column)))
        for value, length in zip(values, lengths, strict=True):
            column.extend(value or [absent] * length)
