"""How often each item stood in lists of each length: what personalization is read from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec
from msgspec.msgpack import Ext

from streameval.errors import UnlikeStateError
from streameval.events import Batch, Id, plain
from streameval.statistics.packing import (
    Count,
    SavedItems,
    array_from,
    array_of,
    columns_of,
    integers,
    item_rows,
    packed,
    rows_of,
    sorted_counts,
)
from streameval.statistics.sampling import HASHES, hash_of, limit_of, narrowed
from streameval.statistics.saved import check_saved

VERSION = 1
MAX_CELLS = 1_000_000
_Saved: TypeAlias = tuple[Count, Count, str, list[Ext], SavedItems]


class PairingsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a Pairings statistic; unlike ones do not merge.

    Attributes:
        cutoff: ranks that count; None for the whole list.
        max_cells: most pairs of an item and a length that are kept exactly.
    """

    cutoff: int | None = None
    max_cells: int = MAX_CELLS


class Pairings:
    """Counts of (item, number of distinct items in the list) over all lists that are not empty.

    Above `max_cells` of them only items with a small hash are kept, as in Exposures, and the mean
    cosine is an estimate.

    Example:
        >>> pairings = Pairings(PairingsOptions())
        >>> lists = [["a", "b"], ["b", "c"]]
        >>> pairings.update_many(Batch(recommendations=lists, interactions=[[], []]))
        >>> round(pairings.mean_cosine(), 12)
        0.5
    """

    __slots__ = ("_counts", "_limit", "empty", "lengths", "options", "repeating")

    def __init__(self, options: PairingsOptions) -> None:
        self.options = options
        self._counts: Counter[tuple[Id, int]] = Counter()
        self.lengths: Counter[int] = Counter()
        self._limit = HASHES
        self.empty = 0
        self.repeating = 0

    @property
    def estimated(self) -> bool:
        """Whether there were too many items to keep, so that the mean cosine is an estimate."""
        return self._limit < HASHES

    def update_many(self, batch: Batch) -> None:
        """Count the items of many lists."""
        for items in batch.recommendations:
            shown = items[: self.options.cutoff]
            distinct = set(shown)
            length = len(distinct)
            self.repeating += length < len(shown)
            if not distinct:
                self.empty += 1
                continue
            self.lengths[length] += 1
            self._counts.update((item, length) for item in distinct if self._keeps(item))
            if len(self._counts) > self.options.max_cells:
                self._thin()

    @property
    def lists(self) -> int:
        """All lists, empty ones too."""
        return self.lengths.total() + self.empty

    def mean_cosine(self) -> float:
        """Mean over pairs of lists of the cosine of their item sets; NaN below two lists."""
        n = self.lengths.total()
        if n < 2:
            return math.nan
        by_item: dict[Id, list[tuple[int, int]]] = {}
        for (item, length), count in self._counts.items():
            by_item.setdefault(item, []).append((length, count))
        squares = math.fsum(_weight(pairs) for pairs in by_item.values())
        cosine = (squares * (HASHES / self._limit) - n) / (n * (n - 1))
        return min(max(cosine, 0.0), 1.0) if self.estimated else cosine

    def merge(self, other: Pairings) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: its options differ.
        """
        if other.options != self.options:
            raise UnlikeStateError("pairings", self.options, other.options)
        self._counts.update(other._counts)
        self.lengths.update(other.lengths)
        self.empty += other.empty
        self.repeating += other.repeating
        self._limit = min(self._limit, other._limit)
        self._thin()

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        counts = (
            [isinstance(item, str), plain(item), length, n]
            for (item, length), n in self._counts.items()
        )
        return {
            "version": VERSION,
            "options": msgspec.to_builtins(self.options),
            "counts": [row[1:] for row in sorted(counts)],
            "lengths": [list(pair) for pair in sorted(self.lengths.items())],
            "limit": hex(self._limit),
            "empty": self.empty,
            "repeating": self.repeating,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            StateVersionError: the version is not known.
            UnlikeStateError: its options differ.
        """
        check_saved("pairings", state, VERSION, self.options)
        self._counts = Counter({(item, length): n for item, length, n in state["counts"]})
        self.lengths = Counter(dict(state["lengths"]))
        self._limit = int(state["limit"], 16)
        self.empty, self.repeating = state["empty"], state["repeating"]

    def copy(self) -> Pairings:
        """An independent one with the same content."""
        twin = Pairings(self.options)
        # As dicts: a Counter would count them one by one.
        dict.update(twin._counts, self._counts)
        dict.update(twin.lengths, self.lengths)
        twin._limit, twin.empty, twin.repeating = self._limit, self.empty, self.repeating
        return twin

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""
        lengths = array_from(map(itemgetter(1), self._counts))
        counts = array_from(self._counts.values())
        yield array_of(5) + packed(self.empty) + packed(self.repeating) + packed(hex(self._limit))
        yield packed([integers(column) for column in sorted_counts(self.lengths)])
        yield from item_rows(map(itemgetter(0), self._counts), lengths, counts)

    def adopt(self, saved: bytes | msgspec.Raw) -> None:
        """Take the place of the content by what `dump` gave.

        Raises:
            ValueError: it is not what that gave.
            msgspec.DecodeError: it is no msgpack of that kind.
        """
        empty, repeating, limit, by_length, rows = msgspec.msgpack.decode(saved, type=_Saved)
        items, (lengths, counts) = rows_of(rows, columns=2)
        sizes, lists = columns_of(by_length, columns=2)
        cells = dict(zip(zip(items, lengths, strict=True), counts, strict=True))
        if len(cells) != len(items):
            message = "an item stands there twice"
            raise ValueError(message)
        self._limit = limit_of(limit)
        self.empty, self.repeating = empty, repeating
        self._counts = Counter(cells)
        self.lengths = Counter(dict(zip(sizes.tolist(), lists.tolist(), strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pairings) and self.state_dict() == other.state_dict()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    def _keeps(self, item: Id) -> bool:
        return not self.estimated or hash_of(item) < self._limit

    def _thin(self) -> None:
        most = self.options.max_cells
        if len(self._counts) <= most and not self.estimated:
            return
        hashes = {item: hash_of(item) for item, _ in self._counts}
        self._limit = narrowed(self._limit, [hashes[item] for item, _ in self._counts], most)
        for cell in [cell for cell in self._counts if hashes[cell[0]] >= self._limit]:
            del self._counts[cell]


def _weight(pairs: list[tuple[int, int]]) -> float:
    together = math.fsum(count / math.sqrt(length) for length, count in pairs)
    return together * together if len(pairs) > 1 else pairs[0][1] ** 2 / pairs[0][0]
