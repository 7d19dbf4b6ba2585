"""Open records of a join: a table for each side, in buckets of event time, and its bytes."""

from __future__ import annotations

import operator
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby, repeat
from types import GenericAlias
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast, get_type_hints

import msgspec
import numpy as np
from msgspec.msgpack import Ext
from numpy.typing import NDArray

from streameval.decoding.columns import Decoded
from streameval.engine.clock import BEFORE_ALL
from streameval.engine.windows.sections import Section
from streameval.events import Id, built_in_id
from streameval.events.batch import ColumnSet
from streameval.events.errors import RefusedRecordsError
from streameval.events.per_item import PerItem
from streameval.events.ragged import IdColumn, Ragged
from streameval.join.kernel import Contents, are_copies, interaction_content, list_content
from streameval.statistics.arrays import BoolArray, IntArray
from streameval.statistics.relation import decode_column, encode_column, next_version
from streameval.statistics.vocabulary import Codes, decode_id, encode_id

_INDEX_BITS: Final = 24
"""Bits of a row that are the index in its bucket; the others number buckets up to the year 9999."""

_LARGEST_INDEX: Final = (1 << _INDEX_BITS) - 1

_PARTS: Final = 16
"""Number of parts of a bucket that are joined to one."""

_MANY: Final = 262_144
"""Items below which they are never renumbered: that would cost more than it saves."""

ListLabels: TypeAlias = list[tuple[str, ...]]

_SAVED: Final[Mapping[Any, Any]] = {
    IntArray: Ext,
    # Distinct items by first occurrence, the number of each item in them, and lengths of lists.
    Ragged: tuple[list[str | int | Ext], Ext, Ext],
    # Distinct label values by first occurrence, and the number of each list in them.
    ListLabels: tuple[ListLabels, Ext],
}
"""Type of a column -> type of its saved form; others are saved as they are."""


class OpenLists(ColumnSet, frozen=True, kw_only=True, eq=False):
    """Lists that were shown.

    Attributes:
        items: numbers of their items.
        dimensions: label and segment values.
        requests: id of each list; empty if the stream has none.
        users: user of each list; empty if users are not needed.
        optional: columns that only some lists have, packed by `pack`.
        logs, offsets: of the record.
    """

    times: IntArray
    items: Ragged
    dimensions: ListLabels
    requests: list[str]
    users: list[str]
    optional: list[bytes]
    logs: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.requests)


class OpenInteractions(ColumnSet, frozen=True, kw_only=True, eq=False):
    """Interactions that count.

    Attributes:
        items: number of the only item of each.
        keys: id of the list, or the user.
        ids: hash of stream and event id; 0 if the stream has none.
        logs, offsets: of the record.
    """

    times: IntArray
    items: Ragged
    keys: list[str]
    types: list[str | None]
    gains: list[float]
    ids: IntArray
    logs: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.keys)


OpenRecords: TypeAlias = OpenLists | OpenInteractions
R = TypeVar("R", OpenLists, OpenInteractions)
RowKey: TypeAlias = str | int | tuple[str, str]
"""A key in an `Index`; an empty text or 0 for a row without an id."""

KeysOf: TypeAlias = Callable[[R, list[int]], Sequence[RowKey]]
"""The keys of the records with these indices."""


def size_of(records: OpenRecords) -> int:
    """Approximate bytes of memory, with indexes."""
    if isinstance(records, OpenLists):
        fixed, texts = 250, chain[Any](records.requests, records.optional)
    else:
        fixed, texts = 300, chain[Any](records.keys)
    return fixed * len(records) + records.items.values.nbytes + sum(map(len, texts))


class ItemNumbers:
    """The numbers of the items of open records, which all tables of a join share.

    Attributes:
        codes: number of each item.
    """

    def __init__(self) -> None:
        self.codes: Codes[Id] = Codes()
        self._retained = 0

    def numbers(self, lists: Sequence[Sequence[Id]]) -> Ragged:
        """The numbers of the items of lists; a new item gets the next."""
        if isinstance(lists, IdColumn):
            if lists.names is self.codes.names:
                return lists.ragged
            # Numbered before the last `compact`.
            return Ragged(self.number(lists.ids()), lists.ragged.offsets)
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        return Ragged.of_lengths(self.number(chain.from_iterable(lists)), lengths)

    def number(self, items: Iterable[Id]) -> NDArray[np.uint32]:
        """The numbers of items, in half the memory."""
        return self.codes.codes(items).astype(np.uint32)

    def id_column(self, lists: Ragged) -> IdColumn:
        """Numbers as a column of lists of ids."""
        return IdColumn(Ragged(lists.values.astype(np.int64), lists.offsets), self.codes.names)

    def compact(self, tables: Sequence[OpenTable[Any]]) -> bool:
        """Forget the items that no open record has, once they may be the majority.

        Returns True if the others have new numbers.
        """
        if len(self.codes) < max(_MANY, 4 * self._retained):
            return False
        occurs = np.zeros(len(self.codes), dtype=np.bool_)
        for table in tables:
            for bucket in table.buckets.values():
                occurs[bucket.rows.items.values] = True
        numbers = (np.cumsum(occurs) - 1).astype(np.uint32)
        names = self.codes.names
        self.codes = Codes([names[code] for code in np.flatnonzero(occurs).tolist()])
        self._retained = len(self.codes)
        for table in tables:
            for bucket in table.buckets.values():
                items = bucket.rows.items
                fresh = Ragged(numbers[items.values], items.offsets)
                bucket.parts = [msgspec.structs.replace(bucket.rows, items=fresh)]
        return True


class Index:
    """Rows by key, in the order in which they were added, which is that of time.

    >>> index = Index()
    >>> index.extend(["r1", "", "r1"], [5, 6, 7]); list(index.rows("r1")), list(index.rows(""))
    ([5, 7], [])
    >>> index.forget(["r1"], 6); list(index.rows("r1"))
    [7]
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        # A single row to save memory, or several if a key was used again.
        self._rows: dict[RowKey, int | deque[int]] = {}

    def extend(self, keys: Sequence[RowKey], added: Sequence[int]) -> None:
        """Add rows; those with an empty key are not indexed."""
        if self.are_new(keys) and all(keys):
            self._rows.update(zip(keys, added, strict=True))
            return
        for row, key in zip(added, keys, strict=True):
            rows = self._rows.get(key)
            if rows is None:
                if key:
                    self._rows[key] = row
            elif isinstance(rows, deque):
                rows.append(row)
            else:
                self._rows[key] = deque((rows, row))

    def are_new(self, keys: Sequence[RowKey]) -> bool:
        """True if the keys are distinct, and none has a row."""
        return len(set(keys)) == len(keys) and self._rows.keys().isdisjoint(keys)

    def rows(self, key: RowKey) -> Sequence[int]:
        """The rows of a key, in the order in which they were added; a view."""
        rows = self._rows.get(key, ())
        return (rows,) if isinstance(rows, int) else rows

    def forget(self, keys: Iterable[RowKey], before: int) -> None:
        """Remove the rows below `before` of these keys."""
        for key in keys:
            rows = self._rows.pop(key, ())
            if isinstance(rows, deque):
                while rows and rows[0] < before:
                    rows.popleft()
                if rows:
                    self._rows[key] = rows
            elif rows and rows >= before:
                self._rows[key] = rows


class _Bucket(Generic[R]):
    """The records of one short span of event time, in parts of falling size.

    Attributes:
        removed: indices of records that do not count; the indices of the others do not change.
    """

    __slots__ = ("parts", "removed", "version")

    def __init__(self, part: R) -> None:
        self.parts: list[R] = [part]
        self.removed: list[int] = []
        self.version = next_version()

    @property
    def remaining(self) -> IntArray:
        """Indices of the records that count."""
        return np.delete(np.arange(len(self)), self.removed)

    @property
    def rows(self) -> R:
        if len(self.parts) > 1:
            self.parts = [self.parts[0].joined(*self.parts[1:])]
        return self.parts[0]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def append(self, part: R) -> None:
        self.parts.append(part)
        # So each record is copied only a few times, however many batches fill the bucket.
        while len(self.parts) >= _PARTS:
            last = self.parts[-_PARTS:]
            if len(last[0]) >= _PARTS * len(last[-1]):
                break
            self.parts[-_PARTS:] = [last[0].joined(*last[1:])]
        self.version = next_version()


class OpenTable(Generic[R]):
    """Open records of one side, and recently closed ones; a row is a bucket and an index in it.

    Args:
        prefix: of the names of its sections.
        kind: of its records.
        width: of a bucket, microseconds of event time.
        span: longest distance of a copy, microseconds.
        items: numbers of items.
        keys: functions of the keys of each index; copies are found by "ids".

    Attributes:
        by: name of a key -> index of the decided rows.
        size: approximate bytes.
        first: all rows are at or after it.
    """

    def __init__(
        self,
        prefix: str,
        kind: type[R],
        width: int,
        span: int,
        items: ItemNumbers,
        keys: Mapping[str, KeysOf[R]],
    ) -> None:
        self.buckets: dict[int, _Bucket[R]] = {}
        self.by = {key: Index() for key in keys}
        self.size = 0
        self.first = BEFORE_ALL
        self._prefix = prefix
        self._kind: type[R] = kind
        self._width = width
        self._span = span
        self._items = items
        self._keys: Mapping[str, KeysOf[R]] = keys

    def __len__(self) -> int:
        return sum(len(bucket) - len(bucket.removed) for bucket in self.buckets.values())

    def add(self, rows: R) -> None:
        """Add records.

        Raises:
            RefusedRecordsError: a bucket has too many records.
        """
        numbers = rows.times // self._width
        for number in np.unique(numbers).tolist():
            selected = np.flatnonzero(numbers == number)
            part = rows if selected.size == numbers.size else rows.take(selected)
            bucket = self.buckets.get(number)
            waiting = selected.size + (0 if bucket is None else len(bucket))
            if waiting > _LARGEST_INDEX:
                raise too_many_open("max_open", waiting, _LARGEST_INDEX)
            if bucket is None:
                self.buckets[number] = _Bucket(part)
            else:
                bucket.append(part)
            self.size += size_of(part)

    def decide(self, begin: int, end: int) -> tuple[list[int], set[int]]:
        """Decide which of the rows in [begin, end) count, and index them.

        All rows before `begin` must be decided, and none after `end`.

        Returns:
            The rows that count, by time, and the copies, which the caller removes.
        """
        rows = self.between(begin, end)
        keys = {name: self._keys_of(rows, name) for name in self.by}
        copies = self._copies(rows, keys["ids"])
        if copies:
            retained = [index for index, row in enumerate(rows) if row not in copies]
            rows = [rows[index] for index in retained]
            keys = {name: [column[index] for index in retained] for name, column in keys.items()}
        for name, index in self.by.items():
            index.extend(keys[name], rows)
        return rows, copies

    def _copies(self, rows: Sequence[int], ids: Sequence[RowKey]) -> set[int]:
        """The rows that repeat an earlier one of these or of those decided before."""
        index, present = self.by["ids"], [key for key in ids if key]
        if index.are_new(present):
            return set()
        times_seen = Counter(present)
        repeated = {key for key in times_seen if times_seen[key] > 1 or index.rows(key)}
        pairs = [(key, row) for key in repeated for row in index.rows(key)]
        pairs += [pair for pair in zip(ids, rows, strict=True) if pair[0] in repeated]
        rows_of_pairs = np.fromiter((row for _, row in pairs), np.int64, len(pairs))
        copies = are_copies(
            Codes[RowKey]().codes(key for key, _ in pairs),
            self.times(rows_of_pairs),
            self._span,
            self.contents(rows_of_pairs),
        )
        return set(rows_of_pairs[copies].tolist())

    def remove(self, rows: Sequence[int]) -> None:
        """Remove copies; `rows`: ascending."""
        for number, of_bucket in groupby(rows, lambda row: row >> _INDEX_BITS):
            bucket, indices = self.buckets[number], [row & _LARGEST_INDEX for row in of_bucket]
            bucket.removed += indices
            bucket.version = next_version()
            self.size -= size_of(bucket.rows.take(np.array(indices)))
            if len(bucket.removed) == len(bucket):
                del self.buckets[number]

    def content(self, row: int) -> str:
        """The content of a row, by which rows of equal times are ordered."""
        return _content(self._items, *self.at(row))

    def contents(self, rows: IntArray) -> Contents:
        """The contents of these rows, by their index in `rows`."""
        return Contents(
            lambda some: [*map(self.content, some.tolist())],
            lambda first, second: _are_equal(self.take(first.tolist()), self.take(second.tolist())),
        ).of(rows)

    def _keys_of(self, rows: Sequence[int], name: str) -> list[RowKey]:
        keys_of, keys = self._keys[name], list[RowKey]()
        for number, of_bucket in groupby(rows, lambda row: row >> _INDEX_BITS):
            indices = [row & _LARGEST_INDEX for row in of_bucket]
            keys += keys_of(self.buckets[number].rows, indices)
        return keys

    def at(self, row: int) -> tuple[R, int]:
        """The bucket of a row, and the index in it."""
        return self.buckets[row >> _INDEX_BITS].rows, row & _LARGEST_INDEX

    def time(self, row: int) -> int:
        """The event time of a row."""
        return int(self.buckets[row >> _INDEX_BITS].rows.times[row & _LARGEST_INDEX])

    def times(self, rows: IntArray) -> IntArray:
        """The event times of rows."""
        numbers, times = rows >> _INDEX_BITS, np.empty(rows.size, np.int64)
        for number in np.unique(numbers).tolist():
            of_bucket = numbers == number
            indices = rows[of_bucket] & _LARGEST_INDEX
            times[of_bucket] = self.buckets[number].rows.times[indices]
        return times

    def take(self, rows: Sequence[int]) -> R:
        """These rows, at least one, in this order."""
        # Bucket by bucket, then back into their order.
        order = np.argsort(rows, kind="stable")
        ordered = np.array(rows, dtype=np.int64)[order]
        numbers, indices = ordered >> _INDEX_BITS, ordered & _LARGEST_INDEX
        edges: IntArray = np.flatnonzero(np.diff(numbers)) + 1
        parts: list[R] = [
            self.buckets[int(numbers[start])].rows.take(part)
            for start, part in zip([0, *edges.tolist()], np.split(indices, edges), strict=True)
        ]
        return parts[0].joined(*parts[1:]).take(np.argsort(order))

    def times_and_items(self, rows: IntArray) -> tuple[IntArray, Ragged]:
        """Times and items of these rows; `rows`: ascending."""
        numbers = rows >> _INDEX_BITS
        edges = np.flatnonzero(np.diff(numbers)) + 1
        times, items = [np.zeros(0, np.int64)], Ragged(np.zeros(0, np.int64), np.zeros(1, np.int64))
        lists = list[Ragged]()
        for part in np.split(rows, edges) if rows.size else ():
            bucket, indices = self.buckets[int(part[0]) >> _INDEX_BITS].rows, part & _LARGEST_INDEX
            times.append(bucket.times[indices])
            lists.append(bucket.items.take(indices))
        return np.concatenate(times), items.joined(*lists)

    def between(self, begin: int, end: int) -> list[int]:
        """The rows in [begin, end), by time, log and offset."""
        rows: list[int] = []
        for number, times in self._times_in(begin, end):
            bucket = self.buckets[number].rows
            indices = np.flatnonzero((begin <= times) & (times < end))
            if removed := self.buckets[number].removed:
                indices = indices[~np.isin(indices, removed)]
            columns = (bucket.offsets[indices], bucket.logs[indices], times[indices])
            rows += ((number << _INDEX_BITS) + indices[np.lexsort(columns)]).tolist()
        return rows

    def moment_after(self, begin: int, end: int, most: int) -> int:
        """A time up to `end` with about `most` records from `begin` until then.

        These are at least one record, if there is any, and all records of equal times.
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

    def latest(self, until: int, among: Callable[[R], BoolArray] | None = None) -> int:
        """The largest time up to a limit; BEFORE_ALL without one.

        `among`: which records to look at; None: all.
        """
        for number in sorted(self.buckets, reverse=True):
            rows = self.buckets[number].rows
            times = rows.times if among is None else rows.times[among(rows)]
            if (times <= until).any():
                return int(times[times <= until].max())
        return BEFORE_ALL

    def _times_in(self, begin: int, end: int) -> Iterator[tuple[int, IntArray]]:
        """Number and times of the buckets that overlap with [begin, end), ascending."""
        for number in sorted(self.buckets):
            if (number + 1) * self._width > begin and number * self._width < end:
                yield number, self.buckets[number].rows.times

    def drop(self, before: int) -> None:
        """Remove all buckets that end at or before a time; all of their rows must be decided."""
        for number in sorted(n for n in self.buckets if (n + 1) * self._width <= before):
            bucket, self.first = self.buckets[number], (number + 1) << _INDEX_BITS
            remaining = bucket.remaining
            for name, index in self.by.items():
                index.forget(self._keys[name](bucket.rows, remaining.tolist()), self.first)
            self.size -= size_of(bucket.rows.take(remaining) if bucket.removed else bucket.rows)
            del self.buckets[number]

    def sections(self) -> Iterator[Section]:
        """One section for each bucket."""
        for number in sorted(self.buckets):
            bucket = self.buckets[number]
            yield Section(f"{self._prefix}{number}", bucket.version, self._content(bucket))

    def restore(self, sections: Mapping[str, bytes]) -> None:
        """Replace the content with the output of `sections`; `sections` may have others, too."""
        for name, content in sorted(sections.items()):
            if name.startswith(self._prefix):
                number = int(name.removeprefix(self._prefix))
                rows = _decode(content, self._kind, self._items)
                self.buckets[number] = _Bucket(rows)
                self.size += size_of(rows)

    def _content(self, bucket: _Bucket[R]) -> Callable[[], Callable[[], Iterator[bytes]]]:
        def copied() -> Callable[[], Iterator[bytes]]:
            # Columns are never changed in place, so nothing has to be copied.
            rows, names = bucket.rows, self._items.codes.names
            if bucket.removed:
                rows = rows.take(bucket.remaining)
            return lambda: iter([_encode(rows, names)])

        return copied


def _content(items: ItemNumbers, rows: OpenRecords, index: int) -> str:
    recommended = items.id_column(rows.items.rows(index, index + 1)).ids()
    if isinstance(rows, OpenInteractions):
        return interaction_content(recommended[0], rows.types[index], rows.gains[index])
    others = (*rows.dimensions[index], rows.optional[index].hex())
    return list_content(rows.requests[index], rows.users[index] or None, recommended, *others)


def _are_equal(rows: OpenRecords, others: OpenRecords) -> BoolArray:
    """True for the rows whose content is that of the other row with the same index."""
    equal = rows.items.equals(others.items)
    if isinstance(rows, OpenInteractions) and isinstance(others, OpenInteractions):
        # 0.0 and -0.0 are not the same content.
        first, second = (np.array(part.gains).view(np.int64) for part in (rows, others))
        equal &= first == second
        names = ["types"]
    else:
        names = ["requests", "users", "dimensions", "optional"]
    for name in names:
        pairs = map(operator.eq, getattr(rows, name), getattr(others, name))
        equal &= np.fromiter(pairs, np.bool_, len(rows))
    return equal


def _encode(rows: OpenRecords, names: Sequence[Id]) -> bytes:
    """The bytes of a bucket, in the order of logs: they do not depend on which was read first."""
    rows = rows.take(np.lexsort((rows.offsets, rows.logs)))
    columns = [_saved_column(getattr(rows, name), names) for name in rows.__struct_fields__]
    return msgspec.msgpack.encode(columns)


def _saved_column(column: Any, names: Sequence[Id]) -> Any:
    if isinstance(column, np.ndarray):
        return encode_column(column)
    if isinstance(column, Ragged):
        items, numbers = _first_seen(column.values.astype(np.int64))
        ids = [encode_id(built_in_id(names[item])) for item in items.tolist()]
        return ids, encode_column(numbers), encode_column(column.lengths)
    if isinstance(column[0], tuple):
        labels: Codes[tuple[str, ...]] = Codes()
        numbers = labels.codes(column)
        return labels.names, encode_column(numbers)
    return column


@cache
def _saved_decoder(kind: type[OpenRecords]) -> msgspec.msgpack.Decoder[Any]:
    types = get_type_hints(kind)
    columns = tuple(_SAVED.get(types[name], types[name]) for name in kind.__struct_fields__)
    return msgspec.msgpack.Decoder(GenericAlias(tuple, columns))


def _decode(content: bytes, kind: type[R], items: ItemNumbers) -> R:
    saved = _saved_decoder(kind).decode(content)
    columns: dict[str, Any] = dict(zip(kind.__struct_fields__, saved, strict=True))
    for name, column in columns.items():
        if isinstance(column, Ext):
            columns[name] = decode_column(column).astype(np.int64)
        elif name == "items":
            ids, numbers, lengths = column
            codes = items.number(map(decode_id, ids))
            lists = Ragged.of_lengths(codes[decode_column(numbers)], decode_column(lengths))
            if lists.offsets[-1] != lists.values.size or (lists.lengths < 0).any():
                raise ValueError(f"{lists.values.size} items for lists of {lists.offsets[-1]}")
            columns[name] = lists
        elif name == "dimensions":
            labels, numbers = column
            columns[name] = [labels[number] for number in decode_column(numbers).tolist()]
    if len({*map(len, columns.values())}) > 1:
        raise ValueError("columns of several lengths")
    for optional in columns.get("optional", ()):
        _ = unpack(optional)
    return kind(**columns)


def _first_seen(column: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values in order of first occurrence, and the index of each value in them."""
    values, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return values[order], rank[inverse]


def as_open_lists(
    lists: Decoded, items: ItemNumbers, log: int, offsets: IntArray, *, users: bool
) -> OpenLists:
    """Decoded impressions as open lists; `users`: whether users are needed."""
    size = len(lists.batch)
    none = [""] * size
    user_column = lists.batch.users if users else None
    return OpenLists(
        times=cast("IntArray", lists.times),
        items=items.numbers(lists.batch.recommendations),
        dimensions=[*lists.dimensions] if lists.dimensions is not None else [()] * size,
        requests=none if lists.event_ids is None else [*lists.event_ids],
        users=none if user_column is None else [str(user or "") for user in user_column],
        optional=pack(lists),
        logs=np.full(size, log),
        offsets=offsets,
    )


OPTIONAL: Final = ("positions", "scores", "baselines", "histories", "per_item")
"""Columns of a batch that only some lists have; the lists of rankers come after them."""

Optional: TypeAlias = tuple[
    list[int] | None,
    list[float] | None,
    list[Any] | None,
    list[Any] | None,
    PerItem | None,
    list[list[Any]] | None,
]
"""The values of a list in these columns."""

NOTHING: Final[Optional] = (None, None, None, None, None, None)


def pack(lists: Decoded) -> list[bytes]:
    """The optional values of each list as msgpack; empty if it has none."""
    columns = [*(getattr(lists.batch, name) for name in OPTIONAL), lists.rankers]
    if all(column is None for column in columns):
        return [b""] * len(lists.batch)
    rows = zip(*(repeat(None) if column is None else column for column in columns), strict=False)
    return [b"" if row == NOTHING else _pack_row(row) for row in rows]


def _pack_row(row: tuple[Any, ...]) -> bytes:
    try:
        return msgspec.msgpack.encode(row)
    except (OverflowError, UnicodeEncodeError):  # an id that msgpack cannot encode
        return msgspec.msgpack.encode(_escape(row))


def _escape(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_escape, value)]
    return encode_id(value) if type(value) in (int, str) else value


_decode_optional = msgspec.msgpack.Decoder(
    Optional, ext_hook=lambda code, data: decode_id(Ext(code, bytes(data)))
).decode


def unpack(content: bytes) -> Optional:
    """Decode the output of `pack` for one list."""
    return _decode_optional(content) if content else NOTHING


def too_many_open(limit: str, waiting: int, allowed: int) -> RefusedRecordsError:
    """The error for more open records than a limit of [attribution] allows."""
    what = "bytes of lists and interactions" if limit == "max_bytes" else "records"
    return RefusedRecordsError(
        f"{waiting:,} {what} wait for the end of their window, and [attribution] {limit} = "
        f"{allowed}. Nothing was dropped. Raise {limit}, or make the window shorter; reading "
        "more slowly does not help.",
        limit=limit,
        found=waiting,
        allowed=allowed,
    )
