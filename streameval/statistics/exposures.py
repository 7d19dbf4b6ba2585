"""How often each item was shown, by cut-off: what coverage and popularity are read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import add, itemgetter
from typing import Any, Literal, TypeAlias

import msgspec

from streameval.columns import Coded
from streameval.errors import UnlikeStateError
from streameval.events import Batch, Event, Id, Interactions, plain
from streameval.statistics.arrays import occurrences
from streameval.statistics.packing import (
    Count,
    SavedItems,
    array_from,
    array_of,
    item_rows,
    packed,
    rows_of,
)
from streameval.statistics.samples import gains_of
from streameval.statistics.sampling import HASHES, bounds_of, hash_of, limit_of, narrowed
from streameval.statistics.saved import check_saved

VERSION = 1
MAX_ITEMS = 1_000_000
Exposed: TypeAlias = Literal["items", "users", "users_with_hits"]
"""What is counted: every item shown, the users who got one, or those who got a hit."""

_Saved: TypeAlias = tuple[Count, str, list[SavedItems]]


class ExposuresOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of an Exposures statistic; unlike ones do not merge.

    Attributes:
        cutoffs: cut-offs that can be read, ascending; whole=True adds the whole list.
        whole: whether the whole list can be read.
        max_items: most items kept exactly; an item counts once in each band between cut-offs.
        of: what is counted; a user stands where the list's first item, or first hit, stood.
    """

    cutoffs: tuple[int, ...] = ()
    whole: bool = False
    max_items: int = MAX_ITEMS
    of: Exposed = "items"


class Exposures:
    """Counts of every item shown, in bands between the configured cut-offs.

    Above `max_items` items only those are kept whose hash lies below the largest power
    of two that fits (bottom-k sampling by hash: Cohen and Kaplan, 2007), so that the content is a
    function of the multiset of events alone; readings then say `estimated`.

    Example:
        >>> exposures = Exposures(ExposuresOptions(cutoffs=(1, 2)))
        >>> exposures.update(["a", "b"], [])
        >>> exposures.update(["a", "c"], [])
        >>> exposures.distinct(1), exposures.distinct(2)
        (1.0, 3.0)
    """

    __slots__ = ("_bands", "_edges", "_limit", "lists", "options")

    def __init__(self, options: ExposuresOptions) -> None:
        self.options = options
        stops: list[int | None] = [*options.cutoffs]
        if options.whole:
            stops.append(None)
        self._edges = list(zip([0, *options.cutoffs], stops, strict=False))
        self._bands: list[Counter[Id]] = [Counter() for _ in self._edges]
        self._limit = HASHES
        self.lists = 0

    def update(
        self,
        recommendations: Sequence[Id],
        interactions: Interactions,
        positions: Sequence[int] | None = None,
    ) -> None:
        """Count the items of one list; interactions play no part.

        Args:
            recommendations: item ids, rank 1 first.
            interactions: not read.
            positions: rank of each item; None means 1, 2, 3, ...
        """
        columns = Batch(
            recommendations=[recommendations], interactions=[interactions], positions=[positions]
        )
        self.update_many(columns)

    def update_many(self, batch: Batch) -> None:
        """Count the items of many lists; the same content as one by one."""
        if self.options.of != "items":
            batch = _of_users(batch, hits=self.options.of == "users_with_hits")
        self.lists += len(batch)
        placed = batch.positions
        for band, (start, stop) in zip(self._bands, self._edges, strict=True):
            shown: Iterable[Iterable[Id]]
            if placed is None:
                shown = _cut(batch.recommendations, start, stop)
            else:
                rows = zip(batch.recommendations, placed, strict=True)
                shown = (_between(items, ranks, start, stop) for items, ranks in rows)
            self._count(band, chain.from_iterable(shown))
        if self._entries > self.options.max_items:
            self._thin()

    def update_coded(self, coded: Coded) -> None:
        """Count the items of many lists whose ids are numbers; the same content as one by one."""
        if self.options.of != "items":
            self.update_many(coded.batch)
            return
        self.lists += len(coded)
        for band, (start, stop) in zip(self._bands, self._edges, strict=True):
            codes, counts = occurrences(coded.recommendations.between(start, stop).values)
            shown = dict(zip(coded.named(codes), counts.tolist(), strict=True))
            self._add(band, shown)
        if self._entries > self.options.max_items:
            self._thin()

    def covers(self, k: int | None) -> bool:
        """Whether the cut-off is one that items are counted at."""
        return any(stop == k for _, stop in self._edges)

    def distinct(self, k: int | None) -> float:
        """Distinct items shown up to rank k (None: anywhere); an estimate where `estimated`."""
        return self._kept(k) * self._scale

    def distinct_among(self, items: frozenset[Id], k: int | None) -> float:
        """Distinct items shown up to rank k that belong to `items`."""
        return len(self._known(k, items)) * self._scale

    def bounds(self, k: int | None, among: frozenset[Id] | None = None) -> tuple[float, float]:
        """What the distinct items up to rank k are at least and at most; of `among` only, if given.

        Exact ones are both; an estimate lies within at a confidence of 99.9 %.
        """
        if among is None:
            return bounds_of(self._kept(k), self.share)
        low, high = bounds_of(len(self._known(k, among)), self.share)
        return low, min(high, float(len(among)))

    def counts(self, k: int | None, among: frozenset[Id] | None = None) -> list[int]:
        """How often each item kept was shown up to rank k, ascending; of `among` only, if given."""
        together: Counter[Id] = sum(self._up_to(k), Counter())
        return sorted(n for item, n in together.items() if among is None or item in among)

    @property
    def share(self) -> float:
        """The share of all items that is kept: 1 unless `estimated`."""
        return self._limit / HASHES

    @property
    def estimated(self) -> bool:
        """Whether more than `max_items` items came, so that counts are estimates."""
        return self._limit < HASHES

    def merge(self, other: Exposures) -> None:
        """Add what another one counted.

        Raises:
            UnlikeStateError: its options differ.
        """
        if other.options != self.options:
            raise UnlikeStateError("exposures", self.options, other.options)
        self.lists += other.lists
        self._limit = min(self._limit, other._limit)
        for band, more in zip(self._bands, other._bands, strict=True):
            _add(band, more)
        self._thin()

    def state_dict(self) -> dict[str, Any]:
        """Plain integers and strings; equal content gives equal state."""
        options: dict[str, Any] = msgspec.to_builtins(self.options)
        return {
            "version": VERSION,
            "options": options,
            "lists": self.lists,
            "limit": hex(self._limit),
            "bands": [_rows(band) for band in self._bands],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the place of the content by what `state_dict` gave.

        Raises:
            StateVersionError: the version is not known.
            UnlikeStateError: its options differ.
        """
        check_saved("exposures", state, VERSION, self.options)
        self.lists = state["lists"]
        self._limit = int(state["limit"], 16)
        self._bands = [Counter(dict(rows)) for rows in state["bands"]]

    def copy(self) -> Exposures:
        """An independent one with the same content."""
        twin = Exposures(self.options)
        twin.lists, twin._limit = self.lists, self._limit
        for mine, theirs in zip(twin._bands, self._bands, strict=True):
            # As a dict: a Counter would count them one by one.
            dict.update(mine, theirs)
        return twin

    def dump(self) -> Iterator[bytes]:
        """The content as msgpack, in pieces; equal content gives equal bytes."""
        yield array_of(3) + packed(self.lists) + packed(hex(self._limit))
        yield array_of(len(self._bands))
        for band in self._bands:
            yield from item_rows(band, array_from(band.values()))

    def adopt(self, saved: bytes | msgspec.Raw) -> None:
        """Take the place of the content by what `dump` gave.

        Raises:
            ValueError: it is not what that gave.
            msgspec.DecodeError: it is no msgpack of that kind.
        """
        lists, limit, bands = msgspec.msgpack.decode(saved, type=_Saved)
        known = [_band(band) for band in bands]
        if len(known) != len(self._edges):
            message = f"{len(known)} bands of {len(self._edges)}"
            raise ValueError(message)
        self._limit = limit_of(limit)
        self.lists, self._bands = lists, known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exposures) and self.state_dict() == other.state_dict()

    __hash__ = None  # type: ignore[assignment]  # changes as it counts

    @property
    def _scale(self) -> float:
        return HASHES / self._limit

    def _up_to(self, k: int | None) -> list[Counter[Id]]:
        return self._bands[: [stop for _, stop in self._edges].index(k) + 1]

    def _known(self, k: int | None, items: frozenset[Id]) -> set[Id]:
        return set(chain.from_iterable(self._up_to(k))).intersection(items)

    def _kept(self, k: int | None) -> int:
        bands = self._up_to(k)
        return len(bands[0]) if len(bands) == 1 else len(set().union(*bands))

    @property
    def _entries(self) -> int:
        return sum(map(len, self._bands))

    def _count(self, band: Counter[Id], items: Iterable[Id]) -> None:
        if not self.estimated:
            band.update(items)
            return
        self._add(band, Counter(items))

    def _add(self, band: Counter[Id], shown: Mapping[Id, int]) -> None:
        if self.estimated:
            kept = (item for item in shown if item in band or hash_of(item) < self._limit)
            shown = {item: shown[item] for item in kept}
        _add(band, shown)

    def _thin(self) -> None:
        if self._entries <= self.options.max_items and not self.estimated:
            return
        hashes = {item: hash_of(item) for item in chain.from_iterable(self._bands)}
        entries = [hashes[item] for item in chain.from_iterable(self._bands)]
        self._limit = narrowed(self._limit, entries, self.options.max_items)
        for band in self._bands:
            for item in [item for item in band if hashes[item] >= self._limit]:
                del band[item]


def _of_users(batch: Batch, *, hits: bool) -> Batch:
    """The user of each list as its only item, at the rank of its first item or hit."""
    shown: list[list[Id]] = []
    ranks: list[list[int]] = []
    for event in batch.events():
        rank = _first_rank(event, hits=hits)
        if rank is None or event.user is None:
            shown.append([])
            ranks.append([])
        else:
            shown.append([event.user])
            ranks.append([rank])
    return Batch(recommendations=shown, interactions=batch.interactions, positions=ranks)


def _first_rank(event: Event, *, hits: bool) -> int | None:
    ranks = event.positions or range(1, len(event.recommendations) + 1)
    if not hits:
        return min(ranks, default=None)
    gains = gains_of(event.interactions)
    pairs = zip(event.recommendations, ranks, strict=True)
    return min((rank for item, rank in pairs if gains.get(item, 0) > 0), default=None)


def _cut(lists: Sequence[Sequence[Id]], start: int, stop: int | None) -> Iterable[Sequence[Id]]:
    if not start and (stop is None or max(map(len, lists), default=0) <= stop):
        return lists
    return map(itemgetter(slice(start, stop)), lists)


def _add(band: Counter[Id], shown: Mapping[Id, int]) -> None:
    together = map(add, shown.values(), map(band.get, shown, repeat(0)))
    dict.update(band, zip(shown, together, strict=True))


def _between(
    items: Sequence[Id], ranks: Sequence[int] | None, start: int, stop: int | None
) -> Iterable[Id]:
    if ranks is None:
        return items[start:stop]
    pairs = zip(items, ranks, strict=True)
    return [item for item, rank in pairs if rank > start and (stop is None or rank <= stop)]


def _band(saved: SavedItems) -> Counter[Id]:
    items, (counts,) = rows_of(saved, columns=1)
    band: Counter[Id] = Counter()
    dict.update(band, zip(items, counts, strict=True))
    if len(band) != len(items):
        message = "an item stands there twice"
        raise ValueError(message)
    return band


def _rows(band: Counter[Id]) -> list[list[Id]]:
    rows = ([plain(item), count] for item, count in band.items())
    return sorted(rows, key=lambda row: (isinstance(row[0], str), row[0]))
