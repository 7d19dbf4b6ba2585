"""Finds the hits of the lists of a batch, by the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from streameval.events import Batch, Matches
from streameval.events.errors import InvalidEventError
from streameval.events.ids import IdKind
from streameval.events.ragged import GradedIds, IdColumn, Ragged
from streameval.statistics.arrays import IntArray
from streameval.statistics.kernel import WHOLE, match, match_codes


class Search(NamedTuple):
    """A search of lists for hits.

    Attributes:
        depth: ranks that are searched.
        every: whether an item is a hit at each of its places, not only at the first.
    """

    depth: int = WHOLE
    every: bool = False

    def of(self, batch: Batch) -> Search:
        """The search that a batch needs, whose items may be at explicit positions."""
        return self if batch.positions is None else Search(every=True)


def widest(searches: Sequence[Search]) -> Search:
    """The search that finds all hits of these."""
    return Search(
        max((search.depth for search in searches), default=0),
        every=any(search.every for search in searches),
    )


def matched(batch: Batch, search: Search) -> Batch:
    """The batch with its hits, of this search or a wider one; unchanged if no rank is searched.

    Example:
        >>> batch = Batch(recommendations=[["a", "b"]], interactions=[["b", "c"]])
        >>> matched(batch, Search()).matches.rank_index.tolist()
        [1]
    """
    if not search.depth:
        return batch
    matches = _matches(batch, search.of(batch))
    return batch if matches is batch.matches else msgspec.structs.replace(batch, matches=matches)


def hits_of(batch: Batch, search: Search) -> Matches:
    """The hits of the lists of a batch."""
    matches, (depth, every) = _matches(batch, search), search
    if matches.depth > depth:
        length = np.minimum(matches.length, depth)
        matches = with_hits(matches, np.flatnonzero(matches.rank_index < depth))
        matches = matches._replace(length=length, depth=depth)
    if matches.every and not every:
        matches = with_hits(matches, first_hits(matches.list_index, matches.item))._replace(
            every=False
        )
    return matches


def kind_of_ids(batch: Batch) -> IdKind:
    """The kind of the first id of a batch whose ids are of one kind."""
    lists = chain(batch.recommendations, batch.interactions)
    return "text" if isinstance(next(chain.from_iterable(lists), ""), str) else "integer"


def first_hits(list_index: IntArray, item: IntArray) -> IntArray:
    """Which hits are the first of their item in their list, ascending."""
    order = np.lexsort((item, list_index))
    list_index, item = list_index[order], item[order]
    first = np.ones(order.size, np.bool_)
    first[1:] = (list_index[1:] != list_index[:-1]) | (item[1:] != item[:-1])
    return np.sort(order[first])


def with_hits(matches: Matches, hits: IntArray) -> Matches:
    """The matches with these hits only, which ascend."""
    if hits.size == matches.list_index.size:
        return matches
    return matches._replace(
        list_index=matches.list_index[hits],
        rank_index=matches.rank_index[hits],
        item=matches.item[hits],
        gain=matches.gain[hits] if matches.gain.size else matches.gain,
    )


def _matches(batch: Batch, search: Search) -> Matches:
    matches = batch.matches
    if matches is not None and matches.covers(*search):
        return matches
    lists, interactions, (depth, every) = batch.recommendations, batch.interactions, search
    if isinstance(lists, IdColumn) and isinstance(interactions, IdColumn):
        matches = match_codes(lists.ragged, interactions.ragged, depth, every=every)
        if isinstance(interactions, GradedIds):
            return _with_gains(matches, lists.ragged, interactions)
        return matches
    matches = match(lists, interactions, kind_of_ids(batch), depth, every=every, sound=True)
    if matches.skipped.size:
        detail = f"event {matches.skipped[0]} has ids of another kind, or that are not built-in"
        raise InvalidEventError("invalid_id", detail)
    return matches


def _with_gains(matches: Matches, lists: Ragged, interactions: GradedIds) -> Matches:
    """The matches of codes with the gains of interactions."""
    ragged, gains = interactions.ragged, interactions.gains
    entries = np.flatnonzero(~np.isnan(gains))
    if not entries.size:
        return matches
    list_index = ragged.spread(np.arange(len(ragged)))
    hits = lists.values[lists.offsets[matches.list_index] + matches.rank_index]
    # Numbers of items, because ids may be any integers.
    items = np.unique(np.concatenate((ragged.values[entries], hits)), return_inverse=True)[1]
    width = int(items.max(initial=0)) + 1
    keys = list_index[entries] * width + items[: entries.size]
    order = np.argsort(keys)
    hit_keys = matches.list_index * width + items[entries.size :]
    index = np.minimum(np.searchsorted(keys[order], hit_keys), keys.size - 1)
    has_gain = keys[order][index] == hit_keys
    return matches._replace(
        gain=np.where(has_gain, gains[entries][order][index], 1.0),
        graded=np.unique(list_index[entries]),
        gains=gains[entries],
    )
