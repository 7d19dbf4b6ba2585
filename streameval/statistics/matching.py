"""Finds the hits of the lists of a batch: by the kernel, or of coded ids in NumPy."""

from __future__ import annotations

from itertools import chain
from typing import Final, NamedTuple

import msgspec
import numpy as np

from streameval.events import Batch, Matches
from streameval.events.errors import InvalidEventError
from streameval.events.ids import IdKind
from streameval.events.ragged import IdColumn, Ragged
from streameval.statistics.arrays import IntArray, among, distinct
from streameval.statistics.kernel import WHOLE, match


class Search(NamedTuple):
    """How lists are searched for hits.

    Attributes:
        depth: ranks that are searched.
        every: whether an item is a hit at each of its places, not only at the first.
    """

    depth: int = WHOLE
    every: bool = False

    def of(self, batch: Batch) -> Search:
        """The search that a batch needs, whose items may be at explicit positions."""
        return self if batch.positions is None else Search(every=True)


def matched(batch: Batch, search: Search) -> Batch:
    """The batch with its hits, of this search or a wider one; unchanged if no rank is searched.

    Example:
        >>> batch = Batch(recommendations=[["a", "b"]], interactions=[["b", "c"]])
        >>> matched(batch, Search()).matches.place.tolist()
        [1]
    """
    if not search.depth:
        return batch
    matches = _matches(batch, search.of(batch))
    return batch if matches is batch.matches else msgspec.structs.replace(batch, matches=matches)


def hits_of(batch: Batch, search: Search) -> Matches:
    """The hits of the lists of a batch."""
    return _narrowed(_matches(batch, search), search)


def kind_of_ids(batch: Batch) -> IdKind:
    """The kind of the first id of a batch whose ids are of one kind."""
    lists = chain(batch.recommendations, batch.interactions)
    return "text" if isinstance(next(chain.from_iterable(lists), ""), str) else "integer"


def first_hits(owner: IntArray, item: IntArray) -> IntArray | None:
    """Which hits are the first of their item in their list, ascending; None if all are."""
    order = np.lexsort((item, owner))
    owner, item = owner[order], item[order]
    again = (owner[1:] == owner[:-1]) & (item[1:] == item[:-1])
    if not again.any():
        return None
    return np.sort(order[np.concatenate(([True], ~again))])


def _matches(batch: Batch, search: Search) -> Matches:
    matches = batch.matches
    if matches is not None and matches.covers(*search):
        return matches
    shown, acts = batch.recommendations, batch.interactions
    if isinstance(shown, IdColumn) and isinstance(acts, IdColumn):
        return match_codes(shown, acts, search)
    depth, every = search
    matches = match(shown, acts, kind_of_ids(batch), depth, every=every, sound=True)
    if matches.odd.size:
        detail = f"event {matches.odd[0]} has ids of another kind, or that are not built-in"
        raise InvalidEventError("invalid_id", detail)
    return matches


def _narrowed(matches: Matches, search: Search) -> Matches:
    depth, every = search
    if matches.depth > depth:
        kept = np.flatnonzero(matches.place < depth)
        length = np.minimum(matches.length, depth)
        matches = _with_hits(matches, kept)._replace(length=length, depth=depth)
    if matches.every and not every:
        first = first_hits(matches.owner, matches.item)
        matches = matches if first is None else _with_hits(matches, first)
    return matches


def _with_hits(matches: Matches, hits: IntArray) -> Matches:
    """The matches with these hits only."""
    if hits.size == matches.owner.size:
        return matches
    return matches._replace(
        owner=matches.owner[hits],
        place=matches.place[hits],
        item=matches.item[hits],
        gain=matches.gain[hits] if matches.gain.size else matches.gain,
    )


_ENTRIES: Final = 65_536
"""Entries of lists matched together, so that their arrays stay in the processor's cache."""

_SPARSITY: Final = 16
"""Slots per interaction: about one entry in so many is a false candidate."""

_LARGEST: Final = 2**62
_ITEM, _LIST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_NO_GAINS: Final = np.zeros(0, np.float64)
_NO_ROWS: Final = np.zeros(0, np.int64)


class _Part(NamedTuple):
    """Distinct interactions of each list; and list, entry and item of each hit."""

    interacted: IntArray
    owner: IntArray
    entry: IntArray
    item: IntArray


def match_codes(lists: IdColumn, interactions: IdColumn, search: Search) -> Matches:
    """The hits of lists of codes; see `streameval.statistics.kernel.match`.

    Example:
        >>> shown = IdColumn(Ragged(np.array([7, 8, 7, 9]), np.array([0, 3, 4])))
        >>> acts = IdColumn(Ragged(np.array([7, 7, 8]), np.array([0, 2, 3])))
        >>> found = match_codes(shown, acts, Search())
        >>> found.interacted.tolist(), found.owner.tolist(), found.place.tolist()
        ([1, 1], [0], [0])
    """
    depth, every = search
    shown, acts = lists.ragged.between(0, depth), interactions.ragged
    longest = max(1, (shown.values.size + acts.values.size) // max(1, len(shown)))
    step = max(1, _ENTRIES // longest)
    parts = [
        (start, _of_rows(shown.rows(start, start + step), acts.rows(start, start + step), every))
        for start in range(0, max(1, len(shown)), step)
    ]
    return Matches(
        depth=depth,
        every=every,
        odd=_NO_ROWS,
        interacted=np.concatenate([part.interacted for _, part in parts]),
        given=acts.lengths,
        length=shown.lengths,
        owner=np.concatenate([part.owner + start for start, part in parts]),
        place=np.concatenate([part.entry for _, part in parts]),
        item=np.concatenate([part.item for _, part in parts]),
        gain=_NO_GAINS,
        graded=_NO_ROWS,
        gains=_NO_GAINS,
    )


def _of_rows(shown: Ragged, acts: Ragged, every: bool) -> _Part:  # noqa: FBT001  one caller
    entry = _candidates(shown, acts)
    owner = shown.owners(entry)
    wanted, items, span = _keys(shown.values[entry], owner, acts)
    wanted = distinct(wanted)
    interacted = np.bincount(wanted // span, minlength=len(shown))
    hit = among(items, wanted)
    entry, owner, items = entry[hit], owner[hit], items[hit]
    if not every:
        first = np.sort(np.unique(items, return_index=True)[1])
        if first.size < items.size:
            entry, owner, items = entry[first], owner[first], items[first]
    return _Part(interacted, owner, entry - shown.offsets[owner], items)


def _candidates(shown: Ragged, acts: Ragged) -> IntArray:
    """Entries that may be hits: all hits, and a few others (a Bloom filter with one hash)."""
    bits = max(10, (_SPARSITY * acts.values.size).bit_length())
    salt = np.arange(len(shown), dtype=np.uint64) * _LIST
    marked = np.zeros(2**bits, np.bool_)
    marked[_slots(acts, salt, bits)] = True
    return np.flatnonzero(marked.take(_slots(shown, salt, bits)))


def _slots(lists: Ragged, salt: np.ndarray[tuple[int], np.dtype[np.uint64]], bits: int) -> IntArray:
    """A slot for each entry, equal for equal list and item."""
    mixed = lists.values.view(np.uint64) * _ITEM
    mixed += lists.spread(salt)
    mixed >>= np.uint64(64 - bits)
    return mixed.view(np.int64)


def _keys(items: IntArray, owner: IntArray, acts: Ragged) -> tuple[IntArray, IntArray, int]:
    """One integer per (list, item) of the interactions and of the entries, and the item span."""
    wanted, shown, span = _dense(acts.values, items)
    if span * len(acts) >= _LARGEST:
        distinct_items = np.unique(acts.values)
        wanted, span = np.searchsorted(distinct_items, acts.values), distinct_items.size + 1
        shown = np.searchsorted(distinct_items, items)
        shown[~among(items, distinct_items)] = distinct_items.size
    return acts.spread(np.arange(len(acts)) * span) + wanted, owner * span + shown, span


def _dense(wanted: IntArray, shown: IntArray) -> tuple[IntArray, IntArray, int]:
    """Codes minus the smallest, and their span; codes wrap if it exceeds 64 bits."""
    both = [column for column in (wanted, shown) if column.size]
    low = min((int(column.min()) for column in both), default=0)
    high = max((int(column.max()) for column in both), default=0)
    return wanted - low, shown - low, high - low + 1
