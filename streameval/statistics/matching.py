"""Finds the hits of many lists of coded ids at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streameval.events.ragged import CodedBatch, Ragged
from streameval.statistics.arrays import IntArray, among, distinct
from streameval.statistics.lists import REFUSED, Lists
from streameval.statistics.profiles import HitsOptions

_ENTRIES = 65_536
"""Entries of lists matched together, so that their arrays stay in the processor's cache."""

_SPARSITY = 16
"""Slots per interaction: about one entry in so many is a false candidate."""

_LARGEST = 2**62
_ITEM, _LIST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


class Matches(NamedTuple):
    """Hits of many lists.

    Attributes:
        interacted: number of distinct items interacted with, of each list.
        owner: the list of each hit, ascending.
        place: its place in the list, from 0, ascending within a list.
    """

    interacted: IntArray
    owner: IntArray
    place: IntArray


def matches(shown: Ragged, acts: Ragged, *, every: bool = False) -> Matches:
    """Find the places of items interacted with.

    Args:
        shown: codes of the items of each list.
        acts: codes of the items interacted with, for each list; repeats are ignored.
        every: whether an item counts at each of its places, not only at the first.

    Example:
        >>> shown = Ragged(np.array([7, 8, 7, 9]), np.array([0, 3, 4]))
        >>> acts = Ragged(np.array([7, 7, 8]), np.array([0, 2, 3]))
        >>> found = matches(shown, acts)
        >>> found.interacted.tolist(), found.owner.tolist(), found.place.tolist()
        ([1, 1], [0], [0])
    """
    longest = max(1, (shown.values.size + acts.values.size) // max(1, len(shown)))
    step = max(1, _ENTRIES // longest)
    parts = [
        (start, _of_rows(shown.rows(start, start + step), acts.rows(start, start + step), every))
        for start in range(0, max(1, len(shown)), step)
    ]
    return Matches(
        interacted=np.concatenate([part.interacted for _, part in parts]),
        owner=np.concatenate([part.owner + start for start, part in parts]),
        place=np.concatenate([part.place for _, part in parts]),
    )


def _of_rows(shown: Ragged, acts: Ragged, every: bool) -> Matches:  # noqa: FBT001  one caller
    entry = _candidates(shown, acts)
    owner = shown.owners(entry)
    wanted, found, span = _keys(shown.values[entry], owner, acts)
    wanted = distinct(wanted)
    interacted = np.bincount(wanted // span, minlength=len(shown))
    hit = among(found, wanted)
    entry, owner, found = entry[hit], owner[hit], found[hit]
    if not every and distinct(found).size < found.size:
        first = np.sort(np.unique(found, return_index=True)[1])
        entry, owner = entry[first], owner[first]
    return Matches(interacted, owner, entry - shown.offsets[owner])


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
    wanted, found, span = _dense(acts.values, items)
    if span * len(acts) >= _LARGEST:
        known = np.unique(acts.values)
        wanted, span = np.searchsorted(known, acts.values), known.size + 1
        found = np.searchsorted(known, items)
        found[~among(items, known)] = known.size
    return acts.spread(np.arange(len(acts)) * span) + wanted, owner * span + found, span


def _dense(wanted: IntArray, found: IntArray) -> tuple[IntArray, IntArray, int]:
    """Codes minus the smallest, and their span; codes wrap if it exceeds 64 bits."""
    both = [column for column in (wanted, found) if column.size]
    low = min((int(column.min()) for column in both), default=0)
    high = max((int(column.max()) for column in both), default=0)
    span = high - low + 1
    return wanted - low, found - low, span


def can_be_matched(options: HitsOptions, coded: CodedBatch) -> bool:
    """Whether a coded batch can be counted with these options without Python objects."""
    if options.type or options.repeats.startswith("compact"):
        return False
    return options.ids == "any" or coded.texts is not None


def matched(options: HitsOptions, coded: CodedBatch, cells: IntArray) -> Lists:
    """The lists of a coded batch that `can_be_matched`; `cells` has the cell of each.

    Example:
        >>> from streameval.events.ragged import Ragged
        >>> shown = Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))
        >>> acts = Ragged(np.array([8]), np.array([0, 1, 1]))
        >>> lists = matched(HitsOptions(depth=2), CodedBatch(shown, acts, None), np.array([0, 0]))
        >>> lists.rank.tolist()
        [2]
    """
    shown = coded.recommendations.between(0, options.depth)
    found = matches(shown, coded.interactions, every=options.repeats == "every")
    if options.needs_gains:
        none = np.zeros(0, np.int64)
        found = Matches(np.zeros(len(coded), np.int64), none, none)
    elif options.counting == "every":
        found = found._replace(interacted=coded.interactions.lengths)
    kind = _kind(options, coded)
    return Lists.of_hits(cells, kind, found.interacted, shown.lengths, found.owner, found.place + 1)


def _kind(options: HitsOptions, coded: CodedBatch) -> IntArray:
    refused = options.ids == "integer" and bool(coded.texts)
    return REFUSED * ((coded.interactions.lengths > 0) & refused).astype(np.int64)
