"""The lists of a batch with their hits, as columns: what rank metrics read of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from streameval.events import Batch, Matches
from streameval.events.ragged import Ragged
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray, read_only, up_to
from streameval.statistics.hitrows import FIRST, IDEAL, INTERACTED, HitRows, HitsView
from streameval.statistics.kernel import WHOLE
from streameval.statistics.matching import Search, first_hits, hits_of, kind_of_ids, with_hits

Repeats: TypeAlias = Literal["first", "every", "compact_before_cut", "compact_after_cut"]
"""A repeated item of a list counts at its first place, at every place, or repeats are removed
before or after the list is cut."""

Relevant: TypeAlias = Literal["positive", "nonzero", "all"]
"""Relevant items: those with a gain above 0, with one other than 0, or all with a gain."""

InteractionCounting: TypeAlias = Literal["distinct", "every", "joined"]
"""How often an item of the interactions counts: once, each time, or as often as the whole list has
it, as a join of recommendations and interactions does."""

POSITIONED, REFUSED = 1, 2


class HitsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a Hits statistic; only equal options merge.

    Attributes:
        depth: ranks kept; None keeps the whole list.
        repeats: how repeated items of a list count.
        rows: for "compact_after_cut", the number of rows kept before repeats are removed.
        min_gain: smallest relevant gain; 0 for no limit.
        relevant: which items with a gain are relevant.
        counting: how repeated items of the interactions count.
        ids: whether interactions without gains are refused unless all ids are integers.
        type: the type of interactions that count; "" for all types.
        among: the attribute and value of the items that count, as "tier:tail"; "" for all items.
            The table gives only their lists, so it has no effect here.
    """

    depth: int | None = None
    repeats: Repeats = "first"
    rows: int | None = None
    min_gain: float = 0.0
    relevant: Relevant = "positive"
    counting: InteractionCounting = "distinct"
    ids: Literal["any", "integer"] = "any"
    type: str = ""
    among: str = ""

    @property
    def last(self) -> int:
        """The last rank kept."""
        return WHOLE if self.depth is None else self.depth

    @property
    def needs_gains(self) -> bool:
        """True if an interaction without a gain, which counts 1, is below `min_gain`."""
        return self.min_gain > 1

    @property
    def reads_hits_only(self) -> bool:
        """True if lists follow from their hits at the first or at each place, not their ids."""
        plain = self.repeats in {"first", "every"} and self.counting != "joined"
        return plain and self.ids == "any" and not self.type

    @property
    def search(self) -> Search:
        """The search of lists for hits."""
        joined = self.counting == "joined"
        whole = joined or self.repeats.startswith("compact")
        return Search(WHOLE if whole else self.last, every=joined or self.repeats == "every")


class Gains(NamedTuple):
    """The gains of lists.

    Attributes:
        of_hits: gain of each hit.
        ideal: the relevant gains of each list, in descending order.
    """

    of_hits: FloatArray
    ideal: Ragged


class Lists(HitsView):
    """Lists as read-only columns, with one sum per list.

    Attributes:
        cell: the cell in which the list occurred, shape (n,).
        kind: sum of POSITIONED for a list with explicit positions, and REFUSED for a list on which
            the convention raises an error.
        interacted: number of relevant items interacted with.
        length: number of items in the list, up to the depth.
        list_index: index of the list of each hit, shape (hits,).
        rank: rank of each hit.
        gains: None if the interactions have no gains other than 1.
    """

    def __init__(self, columns: Sequence[IntArray], gains: Gains | None = None) -> None:
        # Read-only, because several metrics read them.
        self.cell, self.kind, self.interacted, self.length, self.list_index, self.rank = map(
            read_only, columns
        )
        self.gains = gains

    @cached_property
    def ordinal(self) -> IntArray:
        """1 for the first hit of its list, 2 for the second, ..."""
        starts = np.searchsorted(self.list_index, np.arange(len(self)))
        ordinals: IntArray = np.arange(self.list_index.size) - starts[self.list_index] + 1
        return read_only(ordinals)

    @property
    def is_graded(self) -> bool:
        """True if the interactions have gains other than 1."""
        return self.gains is not None

    @cached_property
    def gain(self) -> FloatArray:
        """Gain of each hit; 1 without gains."""
        return read_only(np.ones(self.rank.size) if self.gains is None else self.gains.of_hits)

    def take(self, rows: IntArray) -> Lists:
        """These lists, which ascend."""
        index = np.full(len(self), -1)
        index[rows] = np.arange(rows.size)
        hits = np.flatnonzero(index[self.list_index] >= 0)
        gains = self.gains and Gains(self.gains.of_hits[hits], self.gains.ideal.take(rows))
        columns = [column[rows] for column in (self.cell, self.kind, self.interacted, self.length)]
        return Lists([*columns, index[self.list_index[hits]], self.rank[hits]], gains)

    def __len__(self) -> int:
        return self.length.size

    def items(self, k: int | None) -> IntArray:
        """Number of items of each list up to rank k, shape (n,)."""
        return self.length.copy() if k is None else np.minimum(self.length, k)

    def wanted(self) -> IntArray:
        """Number of items interacted with, shape (n,)."""
        return self.interacted.copy()

    def best(self, k: int | None) -> HitRows:
        """The hits of the ideal order: the relevant items by descending gain, up to rank k."""
        widths = self.interacted if self.gains is None else self.gains.ideal.lengths
        list_index = np.repeat(np.arange(widths.size), widths)
        rank = np.arange(list_index.size) - (np.cumsum(widths) - widths)[list_index] + 1
        gain = np.ones(rank.size) if self.gains is None else self.gains.ideal.values
        inside = up_to(rank, k)
        list_index, rank = list_index[inside], rank[inside]
        return HitRows(
            rank=rank,
            hits=np.ones_like(rank),
            ordinals=rank,
            size=self.interacted[list_index],
            gain=gain[inside],
            list_index=list_index,
            lists=len(self),
        )

    def rows_by(self, size: int, k: int | None) -> HitRows:
        """See `HitsView`."""
        inside = up_to(self.rank, k)
        if size == FIRST:
            inside &= self.ordinal == 1
        list_index = self.list_index[inside]
        return HitRows(
            rank=self.rank[inside],
            hits=np.ones(list_index.size, np.int64),
            ordinals=self.ordinal[inside],
            size=self._size(size)[list_index],
            gain=self.gain[inside],
            list_index=list_index,
            lists=len(self),
        )

    def _size(self, size: int) -> IntArray:
        if size == FIRST:
            return np.ones_like(self.length)
        if size == IDEAL:
            return np.minimum(self.interacted, self.length)
        return self.interacted if size == INTERACTED else self.length


def lists_of(
    options: HitsOptions, batch: Batch, cells: IntArray
) -> Iterator[tuple[IntArray, Lists]]:
    """The lists of a batch, separately without and with gains other than 1.

    `cells`: the cell of each list.

    Yields:
        Ascending indices of lists of the batch, and these lists.

    Example:
        >>> batch = Batch(recommendations=[["a", "b"], ["c"]], interactions=[["b"], []])
        >>> (rows, lists), = lists_of(HitsOptions(depth=2), batch, np.array([0, 0]))
        >>> lists.rank.tolist(), lists.interacted.tolist()
        ([2], [1, 0])
    """
    if options.type:
        batch = batch.of_type(options.type)
    positioned, searched = _positioned(batch), batch
    if options.repeats.startswith("compact"):
        # Lists with explicit positions keep their repeats.
        ranked = repeat(None) if positioned is None else positioned.tolist()
        recommendations = [
            items if there else list(dict.fromkeys(items[: options.rows]))
            for items, there in zip(batch.recommendations, ranked, strict=False)
        ]
        interactions = [*batch.interactions]
        searched = replace(
            batch, recommendations=recommendations, interactions=interactions, matches=None
        )
    search = Search(every=True)
    if positioned is None:
        search = Search(options.last, every=options.repeats == "every")
    hits, relevant, values = _relevant(options, hits_of(searched, search))
    if options.counting == "joined":
        # An interaction more for each time that a list has one of its relevant items again.
        every, _, _ = _relevant(options, hits_of(batch, Search(every=True)))
        again = np.ones(every.list_index.size, np.bool_)
        again[first_hits(every.list_index, every.item)] = False
        rows = every.list_index[again]
        more = np.bincount(rows, minlength=hits.interacted.size)
        hits = hits._replace(interacted=hits.interacted + more)
        if relevant.size:
            gains = every.gain[again] if every.gain.size else np.ones(rows.size)
            relevant, values = np.concatenate((relevant, rows)), np.concatenate((values, gains))
    list_index, rank = hits.list_index, hits.rank_index + 1
    gain = hits.gain if hits.gain.size else np.ones(list_index.size)
    kind = np.zeros(hits.length.size, np.int64)
    if positioned is not None:
        kind += POSITIONED * positioned
        ranks, there = explicit_ranks(batch), positioned[list_index]
        rank[there] = ranks.values[ranks.offsets[list_index[there]] + hits.rank_index[there]]
        inside = np.flatnonzero(rank <= options.last)
        # The sort is stable, so items at one rank keep the order of the list.
        order = inside[np.lexsort((rank[inside], list_index[inside]))]
        if options.repeats != "every":
            order = order[first_hits(list_index[order], hits.item[order])]
        list_index, rank, gain = list_index[order], rank[order], gain[order]
    if options.ids == "integer" and kind_of_ids(batch) == "text":
        without_gains = hits.interaction_count > 0
        without_gains[hits.graded] = False
        kind += REFUSED * without_gains
    length = np.minimum(hits.length, options.last)
    columns = [cells, kind, hits.interacted, length, list_index, rank]
    graded = np.zeros(length.size, np.bool_)
    graded[relevant[values != 1]] = True
    if not graded.any():
        yield np.arange(length.size), Lists(columns)
        return
    if not graded.all():
        plain = np.flatnonzero(~graded)
        yield plain, Lists(columns).take(plain)
    descending, rows = np.lexsort((-values, relevant)), np.flatnonzero(graded)
    lengths = np.bincount(relevant, minlength=length.size)
    ideal = Ragged.of_lengths(values[descending], lengths)
    yield rows, Lists(columns, Gains(gain, ideal)).take(rows)


def _relevant(options: HitsOptions, hits: Matches) -> tuple[Matches, IntArray, FloatArray]:
    """The relevant hits, with the number of relevant interactions; the relevant gains.

    Returns:
        Hits; of interactions with gains, the list and the gain of each relevant one.
    """
    interacted = hits.interaction_count if options.counting == "every" else hits.interacted
    if not hits.graded.size and not options.needs_gains:
        return hits._replace(interacted=interacted), hits.graded, hits.gains
    rows = np.repeat(hits.graded, hits.interacted[hits.graded])
    relevant_gains = _are_relevant(options, hits.gains)
    rows = rows[relevant_gains]
    # An interaction without a gain counts 1.
    interacted = np.zeros_like(interacted) if options.needs_gains else interacted.copy()
    interacted[hits.graded] = 0
    interacted += np.bincount(rows, minlength=interacted.size)
    gain = hits.gain if hits.gain.size else np.ones(hits.list_index.size)
    relevant = np.flatnonzero(_are_relevant(options, gain))
    hits = with_hits(hits, relevant)._replace(interacted=interacted, gain=gain[relevant])
    return hits, rows, hits.gains[relevant_gains]


def _are_relevant(options: HitsOptions, gains: FloatArray) -> BoolArray:
    if options.relevant == "positive" or options.min_gain:
        return (gains > 0) & (gains >= options.min_gain)
    return np.ones(gains.size, np.bool_) if options.relevant == "all" else gains != 0


def explicit_ranks(batch: Batch) -> Ragged:
    """The explicit rank of each item of a batch; no entries for a list without them."""
    positions: Any = batch.positions
    if isinstance(positions, Ragged):
        return positions
    ranks = [() if of_list is None else of_list for of_list in positions or ()]
    lengths = np.fromiter(map(len, ranks), np.int64, len(ranks))
    values = np.fromiter(chain.from_iterable(ranks), np.int64, int(lengths.sum()))
    return Ragged.of_lengths(values, lengths)


def _positioned(batch: Batch) -> BoolArray | None:
    """Which lists have explicit positions; None if none has."""
    positions: Any = batch.positions
    if positions is None:
        return None
    if isinstance(positions, Ragged):
        return np.ones(len(batch), np.bool_)
    has_positions = np.array([ranks is not None for ranks in positions], np.bool_)
    return has_positions if has_positions.any() else None
