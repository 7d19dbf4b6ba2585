"""Lists that were shown, kept by event time, compactly, until no interaction can come any more."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.msgpack import Ext
from numpy.typing import NDArray

from streameval.aggregation.section import Section, next_version
from streameval.attribution.interner import Interner
from streameval.attribution.portable import portable, restored
from streameval.errors import DamagedStateError
from streameval.events import Batch, Id
from streameval.pipeline.decode import Decoded
from streameval.statistics.packing import column_of, integers

PREFIX: Final = "~join/shown/"
_PLACES: Final = 32
_PLACE: Final = (1 << _PLACES) - 1
_FEW: Final = 65_536
_ROW_BYTES: Final = 250
"""Of one list besides its items and its id: its places in columns and indexes."""


class ShownBucket:
    """The lists of one short span of event time, as columns; one list after the other.

    Attributes:
        times: event time of each, microseconds.
        ends: where its items end in `items`.
        items: numbers of the items of all lists.
        dimensions: number of its label values.
        requests: its id; empty where the stream has none.
        users: who saw it; empty where nobody asks.
        positions: rank of each item; empty where they are 1, 2, 3, ...
        scores: of each item; NaN where the list has none; empty where no list has.
        baselines: numbers of the items of another recommender's lists; one a list, or none.
        version: while it stays the same, so does the content.
    """

    __slots__ = (
        "baselines",
        "dimensions",
        "ends",
        "items",
        "positions",
        "requests",
        "scores",
        "times",
        "users",
        "version",
    )

    def __init__(self) -> None:
        self.times = array("q")
        self.ends = array("I")
        self.items = array("I")
        self.dimensions = array("I")
        self.requests: list[str] = []
        self.users: list[str] = []
        self.positions = array("I")
        self.scores = array("d")
        self.baselines: list[array[int]] = []
        self.version = next_version()

    def __len__(self) -> int:
        return len(self.times)

    def span(self, place: int) -> slice:
        """Where the items of a list lie."""
        return slice(self.ends[place - 1] if place else 0, self.ends[place])

    def copy(self) -> ShownBucket:
        """An independent copy; memory is moved, nothing is looked at."""
        twin = ShownBucket()
        for name in self.__slots__:
            found = getattr(self, name)
            setattr(twin, name, found if name == "version" else found[:])
        return twin


class Shown:
    """All lists that are open, and those closed lately.

    A list is known by its row: its bucket and its place in it.

    Args:
        width: span of event time of a bucket, microseconds.
        users: whether it is kept who saw each list.

    Attributes:
        buckets: number of the span since the epoch -> its lists.
        size: rough bytes of all of them.
    """

    def __init__(self, width: int, *, users: bool = False) -> None:
        self._keeps_users = users
        self.buckets: dict[int, ShownBucket] = {}
        self.size = 0
        self._width = width
        self._items: Interner[Id] = Interner()
        self._labels: Interner[tuple[str, ...]] = Interner()
        self._compacted_at = 0

    def __len__(self) -> int:
        return sum(map(len, self.buckets.values()))

    def add(self, decoded: Decoded, row: int, time: int) -> int:
        """Keep a list; returns its row."""
        number = time // self._width
        bucket = self.buckets.get(number)
        if bucket is None:
            bucket = self.buckets[number] = ShownBucket()
        place = len(bucket.times)
        batch, items = decoded.batch, decoded.batch.recommendations[row]
        bucket.times.append(time)
        bucket.items.extend(map(self._items.code, items))
        bucket.ends.append(len(bucket.items))
        labels = decoded.dimensions[row] if decoded.dimensions else ()
        bucket.dimensions.append(self._labels.code(labels))
        if decoded.event_ids is not None:
            bucket.requests.append(decoded.event_ids[row])
            self.size += len(decoded.event_ids[row])
        if self._keeps_users and decoded.users is not None:
            bucket.users.append(decoded.users[row] or "")
        if batch.positions is not None or batch.scores is not None or batch.baselines is not None:
            self._add_beside(bucket, batch, row)
        self.size += _ROW_BYTES + 4 * len(items)
        return number << _PLACES | place

    def touched(self, rows: Iterator[int] | Sequence[int]) -> None:
        """These rows were added: their buckets are to be saved again."""
        for number in {row >> _PLACES for row in rows}:
            self.buckets[number].version = next_version()

    def time(self, row: int) -> int:
        """When a list was shown."""
        return self.buckets[row >> _PLACES].times[row & _PLACE]

    def request(self, row: int) -> str:
        """The id of a list; empty where the stream has none."""
        requests = self.buckets[row >> _PLACES].requests
        return requests[row & _PLACE] if requests else ""

    def labels(self, row: int) -> tuple[str, ...]:
        """Its label values."""
        return self._labels.value(self.buckets[row >> _PLACES].dimensions[row & _PLACE])

    def items(self, row: int) -> list[Id]:
        """What was shown, rank 1 first."""
        bucket, place = self.buckets[row >> _PLACES], row & _PLACE
        return list(map(self._items.value, bucket.items[bucket.span(place)]))

    def holds(self, row: int, item: Id) -> bool:
        """Whether a list shows an item."""
        bucket, place = self.buckets[row >> _PLACES], row & _PLACE
        return self._items.known(item) in bucket.items[bucket.span(place)]

    def between(self, begin: int, end: int) -> list[int]:
        """Rows of the lists shown in [begin, end), by time; then as they came."""
        found: list[tuple[int, int]] = []
        for number in sorted(self.buckets):
            if (number + 1) * self._width <= begin:
                continue
            if number * self._width >= end:
                break
            times = np.array(self.buckets[number].times)
            order = np.argsort(times, kind="stable")
            ordered = times[order]
            first, last = np.searchsorted(ordered, [begin, end])
            found += [(number, place) for place in order[first:last].tolist()]
        return [number << _PLACES | place for number, place in found]

    def events(self, rows: Sequence[int], outcome: Callable[[int], tuple[Any, Any]]) -> Decoded:
        """Lists as events.

        Args:
            rows: which.
            outcome: the interactions of a row, and the same with types.
        """
        outcomes = [outcome(row) for row in rows]
        typed = [each[1] for each in outcomes]
        return Decoded(
            batch=Batch(
                recommendations=[self.items(row) for row in rows],
                interactions=[each[0] for each in outcomes],
                typed=typed if any(typed) else None,
                positions=_present([self._positions(row) for row in rows]),
                scores=_present([self._scores(row) for row in rows]),
                baselines=_present([self._baseline(row) for row in rows]),
            ),
            places=range(len(rows)),
            times=np.array([self.time(row) for row in rows], dtype=np.int64),
            dimensions=[self.labels(row) for row in rows],
            event_ids=None,
            invalid=(),
            tombstones=(),
        )

    def drop(self, before: int) -> list[tuple[int, ShownBucket]]:
        """Forget all buckets that end at or before a moment; returns them."""
        gone = [number for number in self.buckets if (number + 1) * self._width <= before]
        dropped = [(number, self.buckets.pop(number)) for number in sorted(gone)]
        for _, bucket in dropped:
            self.size -= _ROW_BYTES * len(bucket) + 4 * len(bucket.items)
            self.size -= sum(map(len, bucket.requests))
        if dropped:
            self._compact()
        return dropped

    def sections(self) -> Iterator[Section]:
        """One for each bucket."""
        for number in sorted(self.buckets):
            bucket = self.buckets[number]
            yield Section(f"{PREFIX}{number}", bucket.version, self._content(bucket))

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Take the place of the content by what `sections` gave.

        Raises:
            DamagedStateError: it is not that.
        """
        for name, content in sorted(sections.items()):
            try:
                number = int(name.removeprefix(PREFIX))
                saved = msgspec.msgpack.decode(content, type=_Saved)
                bucket = self.buckets[number] = self._restored(saved)
            except (ValueError, IndexError, msgspec.MsgspecError) as error:
                raise DamagedStateError(name, f"{type(error).__name__}: {error}") from error
            self.size += _ROW_BYTES * len(bucket) + 4 * len(bucket.items)
            self.size += sum(map(len, bucket.requests))

    def _add_beside(self, bucket: ShownBucket, batch: Batch, row: int) -> None:
        """Positions, scores and baselines, where the stream has any."""
        items = len(batch.recommendations[row])
        positions = batch.positions[row] if batch.positions is not None else None
        scores = batch.scores[row] if batch.scores is not None else None
        begin = len(bucket.items) - items
        if positions is not None:
            bucket.positions.extend([0] * (begin - len(bucket.positions)))
            bucket.positions.extend(positions)
        if scores is not None:
            bucket.scores.extend([math.nan] * (begin - len(bucket.scores)))
            bucket.scores.extend(scores)
        if batch.baselines is not None:
            baseline = batch.baselines[row]
            bucket.baselines.append(array("I", map(self._items.code, baseline or ())))

    def _positions(self, row: int) -> list[int] | None:
        bucket, place = self.buckets[row >> _PLACES], row & _PLACE
        found = bucket.positions[bucket.span(place)].tolist() if bucket.positions else []
        return found if found and found[0] else None

    def _scores(self, row: int) -> list[float] | None:
        bucket, place = self.buckets[row >> _PLACES], row & _PLACE
        found = bucket.scores[bucket.span(place)].tolist() if bucket.scores else []
        return found if found and not math.isnan(found[0]) else None

    def _baseline(self, row: int) -> list[Id] | None:
        bucket, place = self.buckets[row >> _PLACES], row & _PLACE
        if not bucket.baselines:
            return None
        return list(map(self._items.value, bucket.baselines[place]))

    def _compact(self) -> None:
        """Forget items that no list shows any more, where most are such."""
        if len(self._items) < max(_FEW, 4 * self._compacted_at):
            return
        items, labels = self._items.values, self._labels.values
        self._items, self._labels = Interner(), Interner()
        for bucket in self.buckets.values():
            bucket.items = array("I", map(self._items.code, map(items.__getitem__, bucket.items)))
            again = map(labels.__getitem__, bucket.dimensions)
            bucket.dimensions = array("I", map(self._labels.code, again))
            bucket.baselines = [
                array("I", map(self._items.code, map(items.__getitem__, each)))
                for each in bucket.baselines
            ]
        self._compacted_at = len(self._items)

    def _content(self, bucket: ShownBucket) -> Callable[[], Callable[[], Iterator[bytes]]]:
        items, labels = self._items.values, self._labels.values

        def copied() -> Callable[[], Iterator[bytes]]:
            twin = bucket.copy()
            return lambda: iter([msgspec.msgpack.encode(_saved(twin, items, labels))])

        return copied

    def _restored(self, saved: _Saved) -> ShownBucket:
        bucket = ShownBucket()
        bucket.times.extend(column_of(saved.times).tolist())
        lengths = column_of(saved.lengths)
        bucket.ends.extend(np.cumsum(lengths).tolist())
        names = list(map(restored, saved.names))
        codes = np.array(list(map(self._items.code, names)), dtype=np.int64)
        bucket.items.extend(codes[column_of(saved.items)].tolist())
        labels = [self._labels.code(tuple(each)) for each in saved.labels]
        bucket.dimensions.extend([labels[each] for each in column_of(saved.dimensions)])
        bucket.requests, bucket.users = saved.requests, saved.users
        bucket.positions.extend(column_of(saved.positions).tolist())
        bucket.scores.extend(saved.scores)
        bucket.baselines = [array("I", codes[column_of(each)].tolist()) for each in saved.baselines]
        if lengths.sum() != len(bucket.items) or len(bucket.times) != len(lengths):
            raise ValueError(f"{len(bucket.items)} items for lists of {lengths.sum()} in all")
        return bucket


class _Saved(msgspec.Struct, array_like=True):
    """A bucket as it is saved: items and labels by their places among those that occur."""

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


def _saved(bucket: ShownBucket, items: Sequence[Id], labels: Sequence[tuple[str, ...]]) -> _Saved:
    """Equal lists in equal order give equal bytes, whatever numbers their items have here."""
    shown = np.array(bucket.items, dtype=np.int64)
    beside = [np.array(each, dtype=np.int64) for each in bucket.baselines]
    everything = np.concatenate([shown, *beside])
    codes, places = _first_seen(everything)
    kinds, dimensions = _first_seen(np.array(bucket.dimensions, dtype=np.int64))
    edges = np.cumsum([shown.size, *(each.size for each in beside)])[:-1]
    own, *others = np.split(places, edges)
    ends = np.array(bucket.ends, dtype=np.int64)
    return _Saved(
        times=integers(np.array(bucket.times, dtype=np.int64)),
        lengths=integers(ends - np.concatenate([[0], ends[:-1]]) if ends.size else ends),
        items=integers(own),
        names=[portable(items[code]) for code in codes.tolist()],
        dimensions=integers(dimensions),
        labels=[list(labels[code]) for code in kinds.tolist()],
        requests=bucket.requests,
        users=bucket.users,
        positions=integers(np.array(bucket.positions, dtype=np.int64)),
        scores=bucket.scores.tolist(),
        baselines=[integers(each) for each in others],
    )


def _first_seen(column: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values in the order in which they first come, and the place of each value."""
    values, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return values[order], rank[inverse]


def _present(column: list[Any]) -> list[Any] | None:
    return column if any(each is not None for each in column) else None
