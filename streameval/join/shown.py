"""Open lists: kept by event time until no interaction can come; TooManyOpenError where too many."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from streameval.decoding.columns import Decoded
from streameval.errors import TooManyOpenError
from streameval.events import Id
from streameval.events.ragged import Ragged
from streameval.join.bucket import PLACES, ShownBucket, read, written
from streameval.join.impressions import Impressions, Interner, compacted
from streameval.statistics.arrays import IntArray
from streameval.windows.sections import Section, next_version

PREFIX: Final = "~join/shown/"
_PLACE: Final = (1 << PLACES) - 1
_MANY: Final = 262_144
Parts: TypeAlias = Sequence[tuple[ShownBucket, list[int]]]
"""Buckets, each with places of lists in it."""

_ROW_BYTES: Final = 250
"""Of one list besides its items and its id: its places in columns and indexes."""


class Shown:
    """All lists that are open, and those closed lately.

    A list is known by its row: its bucket and its place in it.

    Attributes:
        size: rough bytes of all of them.
    """

    def __init__(self, width: int, *, users: bool = False) -> None:
        self._keeps_users = users
        self.buckets: dict[int, ShownBucket] = {}
        self.size = 0
        self._width = width
        self._items: Interner[Id] = Interner()
        self._labels: Interner[tuple[str, ...]] = Interner()
        self._kept_items = self._kept_labels = 0

    def __len__(self) -> int:
        return sum(map(len, self.buckets.values()))

    def impressions(self, decoded: Decoded) -> Impressions:
        """Decoded lists with the numbers that their items have here."""
        return Impressions.of(decoded, self._items)

    def add(self, lists: Impressions, log: int, offsets: IntArray) -> list[int]:
        """Keep lists; returns their rows here."""
        numbers = lists.times // self._width
        rows = np.zeros(numbers.size, dtype=np.int64)
        for number in np.unique(numbers).tolist():
            mine = np.flatnonzero(numbers == number)
            bucket = self.buckets.setdefault(number, ShownBucket())
            begin = len(bucket)
            if begin + mine.size > _PLACE:
                raise TooManyOpenError("max_open", begin + mine.size, _PLACE)
            rows[mine] = (number << PLACES) + begin + np.arange(mine.size)
            self._extend(bucket, lists if mine.size == numbers.size else lists.take(mine))
            bucket.logs.extend([log] * mine.size)
            bucket.offsets.frombytes(offsets[mine].tobytes())
            bucket.version = next_version()
        found: list[int] = rows.tolist()
        return found

    def time(self, row: int) -> int:
        """When a list was shown."""
        return self.buckets[row >> PLACES].times[row & _PLACE]

    def request(self, row: int) -> str:
        """The id of a list; empty where the stream has none."""
        requests = self.buckets[row >> PLACES].requests
        return requests[row & _PLACE] if requests else ""

    def user(self, row: int) -> str:
        """Who saw a list; empty where that is not kept."""
        users = self.buckets[row >> PLACES].users
        return users[row & _PLACE] if users else ""

    def labels(self, row: int) -> tuple[str, ...]:
        """Its label values."""
        return self._labels.value(self.buckets[row >> PLACES].dimensions[row & _PLACE])

    def named(self, codes: Iterable[int]) -> list[Id]:
        """Items by their numbers in the buckets."""
        return list(map(self._items.value, codes))

    def labelled(self, codes: Iterable[int]) -> list[tuple[str, ...]]:
        """Label values by their numbers in the buckets."""
        return list(map(self._labels.value, codes))

    def by_bucket(self, rows: Sequence[int]) -> Iterator[tuple[ShownBucket, list[int]]]:
        """The buckets of rows, each with the places in it."""
        found = np.array(rows, dtype=np.int64)
        numbers, places = found >> PLACES, found & _PLACE
        edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(edges):
            yield self.buckets[int(numbers[start])], places[start:stop].tolist()

    def lists(self, parts: Parts) -> Ragged:
        """What lists of these buckets show, as numbers of items."""
        found = []
        for bucket, places in parts:
            offsets = np.zeros(len(bucket) + 1, dtype=np.int64)
            offsets[1:] = bucket.ends
            items = Ragged(np.asarray(bucket.items), offsets)
            taken = items.take(np.array(places, dtype=np.int64))
            # A copy: the bucket cannot grow while anything looks into it.
            found.append(Ragged(taken.values.astype(np.int64), taken.offsets))
        return Ragged.joined(found)

    def codes(self, items: Iterable[Id]) -> IntArray:
        """The numbers of items; one that no list has shown gets the next."""
        return np.array(self._items.codes(items), dtype=np.int64)

    @property
    def names(self) -> Sequence[Id]:
        """The item behind each number."""
        return self._items.values

    def items(self, row: int) -> list[Id]:
        """What was shown, rank 1 first."""
        bucket, place = self.buckets[row >> PLACES], row & _PLACE
        return self.named(bucket.items[bucket.span(place)])

    def holds(self, row: int, item: Id) -> bool:
        """Whether a list shows an item."""
        bucket, place = self.buckets[row >> PLACES], row & _PLACE
        return self._items.known(item, -1) in bucket.items[bucket.span(place)]

    def origin(self, row: int) -> tuple[int, int] | None:
        """Number of the log and offset of its record; None where an earlier release kept it."""
        bucket, place = self.buckets[row >> PLACES], row & _PLACE
        offset = bucket.offsets[place]
        return None if offset < 0 else (bucket.logs[place], offset)

    def row_of(self, log: int, offset: int) -> int | None:
        """The row of the list of a record; None where there is none."""
        for number, bucket in self.buckets.items():
            place = bucket.place_of(log, offset)
            if place is not None:
                return number << PLACES | place
        return None

    def remove(self, row: int) -> None:
        """Forget a list; those behind it in its bucket have other rows from now on."""
        bucket, place = self.buckets[row >> PLACES], row & _PLACE
        self.size -= self._bytes(bucket)
        bucket.remove(place)
        self.size += self._bytes(bucket)
        if not len(bucket):
            del self.buckets[row >> PLACES]

    def between(self, begin: int, end: int) -> list[int]:
        """Rows of the lists shown in [begin, end), by time; then as they came."""
        found: list[int] = []
        for number, times in self._times_in(begin, end):
            order = np.argsort(times, kind="stable")
            ordered = times[order]
            first, last = np.searchsorted(ordered, [begin, end])
            found += ((number << PLACES) + order[first:last]).tolist()
        return found

    def moment_after(self, begin: int, end: int, most: int) -> int:
        """`end`, or a moment before it, up to which about so many lists were shown since `begin`.

        Some were, where there are any; all those of one moment are on one side of it.
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
        """Buckets that overlap with [begin, end), ascending: number, and times of all lists."""
        for number in sorted(self.buckets):
            if (number + 1) * self._width <= begin:
                continue
            if number * self._width >= end:
                break
            yield number, np.array(self.buckets[number].times)

    def drop(self, before: int) -> list[tuple[int, ShownBucket]]:
        """Forget all buckets that end at or before a moment; returns them."""
        gone = [number for number in self.buckets if (number + 1) * self._width <= before]
        dropped = [(number, self.buckets.pop(number)) for number in sorted(gone)]
        self.size -= sum(self._bytes(bucket) for _, bucket in dropped)
        if dropped:
            self._compact()
        return dropped

    def sections(self) -> Iterator[Section]:
        """One for each bucket."""
        for number in sorted(self.buckets):
            bucket = self.buckets[number]
            yield Section(f"{PREFIX}{number}", bucket.version, self._content(bucket))

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`."""
        for name, content in sorted(sections.items()):
            number = int(name.removeprefix(PREFIX))
            bucket = read(content, self._items.code, self._labels.code)
            self.buckets[number] = bucket
            self.size += self._bytes(bucket)

    @staticmethod
    def _bytes(bucket: ShownBucket) -> int:
        return _ROW_BYTES * len(bucket) + 4 * len(bucket.items) + sum(map(len, bucket.requests))

    def _extend(self, bucket: ShownBucket, lists: Impressions) -> None:
        """Append lists, but for where their records are."""
        begin, before, size = len(bucket.items), len(bucket), len(lists.times)
        bucket.times.frombytes(lists.times.tobytes())
        bucket.items.frombytes(self._numbers(lists).tobytes())
        bucket.ends.frombytes((lists.items.offsets[1:] + begin).astype(np.uint32).tobytes())
        labels = lists.labels if lists.labels is not None else [()] * size
        bucket.dimensions.extend(self._labels.codes(labels))
        if lists.event_ids is not None:
            bucket.requests.extend(lists.event_ids)
            self.size += sum(map(len, lists.event_ids))
        if self._keeps_users and lists.users is not None:
            # A bucket may have been saved by a configuration that did not ask for users.
            bucket.users.extend([""] * (before - len(bucket.users)))
            bucket.users.extend([user or "" for user in lists.users])
        self.size += _ROW_BYTES * size + 4 * (len(bucket.items) - begin)
        self._extend_beside(bucket, lists, before, begin)

    def _numbers(self, lists: Impressions) -> IntArray:
        """Items of all lists; they have other numbers if some were forgotten meanwhile."""
        values = lists.items.values
        if lists.interner is self._items:
            return values
        named = map(lists.interner.value, values.tolist())
        return np.asarray(self._items.codes(named))

    def _extend_beside(
        self, bucket: ShownBucket, lists: Impressions, before: int, begin: int
    ) -> None:
        """Positions, scores and baselines: of all lists of a bucket in which any has them."""
        lengths: list[int] = lists.items.lengths.tolist()
        if lists.positions is not None or bucket.positions:
            ranks = lists.positions or [None] * len(lengths)
            _extend_beside(bucket.positions, ranks, lengths, begin, 0)
        if lists.scores is not None or bucket.scores:
            scores = lists.scores or [None] * len(lengths)
            _extend_beside(bucket.scores, scores, lengths, begin, math.nan)
        if bucket.baselines or any(lists.baselines or ()):
            bucket.baselines.extend(array("I") for _ in range(before - len(bucket.baselines)))
            baselines = lists.baselines or [None] * len(lengths)
            bucket.baselines.extend(self._items.codes(each or ()) for each in baselines)

    def _compact(self) -> None:
        """Forget items and label values that no list has any more, once many may be such."""
        buckets = list(self.buckets.values())
        if len(self._items) >= max(_MANY, 4 * self._kept_items):
            columns = [each for of in buckets for each in (of.items, *of.baselines)]
            self._items, fresh = compacted(self._items, columns)
            self._kept_items = len(self._items)
            for bucket in buckets:
                bucket.items = next(fresh)
                bucket.baselines = [next(fresh) for _ in bucket.baselines]
        if len(self._labels) >= max(_MANY, 4 * self._kept_labels):
            self._labels, fresh = compacted(self._labels, [each.dimensions for each in buckets])
            self._kept_labels = len(self._labels)
            for bucket in buckets:
                bucket.dimensions = next(fresh)

    def _content(self, bucket: ShownBucket) -> Callable[[], Callable[[], Iterator[bytes]]]:
        items, labels = self._items.values, self._labels.values

        def copied() -> Callable[[], Iterator[bytes]]:
            twin = bucket.copy()
            return lambda: iter([written(twin, items, labels)])

        return copied


def _extend_beside(
    column: array[Any],
    found: Sequence[Sequence[float] | None],
    lengths: Sequence[int],
    begin: int,
    absent: float,
) -> None:
    """As long as the items, once any list has something."""
    if column or any(found):
        column.extend([absent] * (begin - len(column)))
        for each, length in zip(found, lengths, strict=True):
            column.extend(each or [absent] * length)
