"""The vocabulary: integer codes of items, and the encoding of their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, count, filterfalse, pairwise
from typing import Final, Generic, TypeAlias, TypeVar
from zlib import crc32

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from streameval.events import Id, built_in_id
from streameval.events.digests import blake2b
from streameval.events.forks import forkable_lock
from streameval.events.ragged import IdColumn, Ragged
from streameval.statistics.arrays import FloatArray, IntArray, occurrences, place_values

V = TypeVar("V", bound=Hashable)

SavedItems: TypeAlias = list[list[str | int | Ext]]
"""Names in buckets, as written by `encode_names`."""

_BUCKET: Final = 1_024
"""Approximate number of names that are sorted and written at once."""

_BUILT_IN: Final = frozenset({str, int})
_TEXT, _NUMBER = 115, 105
"""Extension codes of ids that msgpack cannot encode: lone surrogates, integers beyond 64 bits."""

packed = msgspec.msgpack.Encoder().encode


class Codes(dict[V, int], Generic[V]):
    """Value -> code; a new value gets the next code.

    Attributes:
        names: the value of each code.

    Example:
        >>> codes = Codes()
        >>> codes["b"], codes["a"], codes["b"], codes.names
        (0, 1, 0, ['b', 'a'])
    """

    __slots__ = ("names",)

    def __init__(self, names: Iterable[V] = ()) -> None:
        self.names = list(names)
        super().__init__(zip(self.names, count(), strict=False))

    def __missing__(self, value: V) -> int:
        code = len(self.names)
        self.names.append(value)
        self[value] = code
        return code

    def codes(self, values: Iterable[V], size: int = -1) -> IntArray:
        """The codes of these values, shape (values,)."""
        return np.fromiter(map(self.__getitem__, values), np.int64, size)


class Items(Codes[Id]):
    """The codes of items.

    Tables share them, and may be on several threads, so new items are added under a lock, which is
    taken once for all items of a batch.
    """

    __slots__ = ("_hashes", "_lock")

    def __init__(self) -> None:
        super().__init__()
        self._hashes = np.zeros(0, np.float64)
        # Reentrant, because a signal handler may count, too.
        self._lock = forkable_lock()

    def __missing__(self, value: Id) -> int:
        # A subclass of str cannot be saved.
        built_in = str.__str__(value) if isinstance(value, str) else value
        return self[built_in] if built_in in self else super().__missing__(built_in)

    def codes(self, values: Iterable[Id], size: int = -1) -> IntArray:
        """The codes of these items, shape (items,)."""
        with self._lock:
            return super().codes(values, size)

    def codes_of(self, items: Collection[Id]) -> IntArray:
        """The codes of distinct items; faster than `codes`, even if many are new."""
        with self._lock:
            with suppress(TypeError):  # None is no code: some are new.
                return np.fromiter(map(self.get, items), np.int64, len(items))
            new, first = [*filterfalse(self.__contains__, items)], len(self.names)
            if _BUILT_IN.issuperset(map(type, new)):
                self.names += new
                self.update(zip(new, count(first), strict=False))
            return self.codes(items, len(items))

    def coded(self, lists: Sequence[Sequence[Id]]) -> Ragged:
        """The codes of the items of lists."""
        if isinstance(lists, IdColumn):
            distinct_codes, indices = place_values(lists.ragged.values)
            return Ragged(self.codes_of(lists.named(distinct_codes))[indices], lists.ragged.offsets)
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        codes = self.codes(chain.from_iterable(lists), int(lengths.sum()))
        return Ragged.of_lengths(codes, lengths)

    def occurrences(self, lists: Sequence[Sequence[Id]]) -> tuple[IntArray, IntArray]:
        """The distinct codes of the items of lists, and how often each occurs."""
        if isinstance(lists, IdColumn):
            distinct_codes, counts = occurrences(lists.ragged.values)
            return self.codes_of(lists.named(distinct_codes)), counts
        times = Counter(chain.from_iterable(lists))
        counts = np.fromiter(times.values(), np.int64, len(times))
        return self.codes_of(times), counts

    def named(self, codes: IntArray) -> list[Id]:
        """The items of these codes."""
        names = self.names
        return [names[code] for code in codes.tolist()]

    def unit_hashes(self, codes: IntArray) -> FloatArray:
        """The hashes of the items of codes, scaled to [0, 1); the same on every machine."""
        with self._lock:
            new = map(built_in_id, self.names[self._hashes.size :])
            texts = (
                f"{type(name).__name__}:{name}".encode("utf-8", "surrogatepass") for name in new
            )
            # The upper 53 bits, which a float represents exactly.
            bits = [int.from_bytes(blake2b(text, 8), "big") >> 11 for text in texts]
            if bits:
                self._hashes = np.concatenate((self._hashes, np.array(bits) / 2.0**53))
            return self._hashes[codes]


def encode_names(items: Items, codes: IntArray) -> Iterator[bytes | IntArray]:
    """Names as one msgpack array of buckets, in pieces, and finally the codes in written order.

    The order depends only on the names.

    `codes`: distinct codes of the names to write.
    """
    names = items.named(codes)
    buckets = 1 << (len(names) // _BUCKET).bit_length()
    hashes = _crcs(names) & (buckets - 1)
    order = np.argsort(hashes, kind="stable")
    edges = np.searchsorted(hashes[order], np.arange(buckets + 1)).tolist()
    written = [np.zeros(0, np.int64)]
    yield b"\xdd" + buckets.to_bytes(4, "big")
    for start, stop in pairwise(edges):
        rows = order[start:stop]
        bucket = [names[row] for row in rows.tolist()]
        try:
            indices = sorted(range(len(bucket)), key=bucket.__getitem__)
        except TypeError:  # Users and items may be of two kinds: numbers first.
            kinds = [(isinstance(name, str), name) for name in bucket]
            indices = sorted(range(len(bucket)), key=kinds.__getitem__)
        written.append(codes[rows[indices]])
        bucket = [bucket[index] for index in indices]
        if set(map(type, bucket)) - _BUILT_IN:
            bucket = [*map(built_in_id, bucket)]
        try:
            yield packed(bucket)
        except (UnicodeEncodeError, OverflowError):
            yield packed([*map(encode_id, bucket)])
    yield np.concatenate(written)


def decode_names(items: Items, buckets: SavedItems) -> IntArray:
    """The codes of the names written by `encode_names`, in their order.

    Raises:
        ValueError: a name appears twice.
    """
    names: list[Id] = []
    for bucket in buckets:
        packed_ones = Ext in set(map(type, bucket))
        names.extend(map(decode_id, bucket) if packed_ones else bucket)  # type: ignore[arg-type]  # no Ext
    codes = items.codes(names, len(names))
    if np.unique(codes).size != codes.size:
        message = "an item appears twice"
        raise ValueError(message)
    return codes


def _crcs(names: Sequence[Id]) -> IntArray:
    try:
        # Usually all are text, and the loop runs in C.
        return np.fromiter(map(crc32, map(str.encode, names)), np.int64)  # type: ignore[arg-type]  # refused if not
    except (TypeError, UnicodeEncodeError):
        # An id is an integer, or a text with a lone surrogate.
        encoded = (
            name.encode("utf-8", "surrogatepass") if isinstance(name, str) else b"%x" % name
            for name in names
        )
        return np.fromiter(map(crc32, encoded), np.int64)


def encode_id(item: Id) -> str | int | Ext:
    """An id that msgpack cannot encode as an extension; other ids unchanged.

    >>> encode_id(2**70).data
    b'400000000000000000'
    """
    try:
        packed(item)
    except (UnicodeEncodeError, OverflowError):
        if isinstance(item, str):
            return Ext(_TEXT, item.encode("utf-8", "surrogatepass"))
        return Ext(_NUMBER, b"%x" % item)
    return item


def decode_id(saved: str | int | Ext) -> Id:
    """The id that `encode_id` converted."""
    if not isinstance(saved, Ext):
        return saved
    if saved.code == _TEXT:
        return bytes(saved.data).decode("utf-8", "surrogatepass")
    return int(bytes(saved.data), 16)
