"""The lists of a batch with their hits, as columns: what rank metrics read of them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.events import Batch, Matches
from streameval.events.ragged import Ragged
from streameval.statistics.arrays import BoolArray, FloatArray, IntArray, read_only, up_to
from streameval.statistics.hitrows import FIRST, IDEAL, INTERACTED, HitRows, HitsView
from streameval.statistics.kernel import WHOLE
from streameval.statistics.matching import Search, first_hits, hits_of, kind_of_ids

Repeats: TypeAlias = Literal["first", "every", "compact_before_cut", "compact_after_cut"]
"""A repeated item of a list counts at its first place, at every place, or repeats are removed
before or after the list is cut."""

Relevant: TypeAlias = Literal["positive", "all"]
"""Relevant items: those with a gain above 0, or all with a gain."""

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
        min_gain: smallest relevant gain; with `relevant` "all", 0 is no limit.
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
        """Whether an interaction without a gain, which counts 1, is below `min_gain`."""
        return self.min_gain > 1

    @property
    def reads_hits_only(self) -> bool:
        """Whether lists follow from their hits at the first or at each place, not their ids."""
        plain = self.repeats in {"first", "every"} and self.counting != "joined"
        return plain and self.ids == "any" and not self.type

    @property
    def search(self) -> Search:
        """How lists are searched for hits."""
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
        owner: index of the list of each hit, shape (hits,).
        rank: rank of each hit.
    """

    def __init__(
        self,
        cell: IntArray,
        kind: IntArray,
        interacted: IntArray,
        length: IntArray,
        *,
        owner: IntArray,
        rank: IntArray,
        gains: Gains | None = None,
    ) -> None:
        self.cell, self.kind = cell, kind
        self.interacted, self.length = interacted, length
        self.owner, self.rank, self.gains = owner, rank, gains

    def sealed(self) -> Lists:
        """The same lists with read-only columns, for metrics."""
        columns = (self.cell, self.kind, self.interacted, self.length)
        hits = {"owner": read_only(self.owner), "rank": read_only(self.rank)}
        return Lists(*map(read_only, columns), **hits, gains=self.gains)

    @cached_property
    def count(self) -> IntArray:
        """How often each list occurred: once."""
        return read_only(np.ones(len(self), np.int64))

    @cached_property
    def ordinal(self) -> IntArray:
        """1 for the first hit of its list, 2 for the second, ..."""
        starts = np.searchsorted(self.owner, np.arange(len(self)))
        ordinals: IntArray = np.arange(self.owner.size) - starts[self.owner] + 1
        return read_only(ordinals)

    @property
    def is_graded(self) -> bool:
        """Whether the interactions have gains other than 1."""
        return self.gains is not None

    @cached_property
    def gain(self) -> FloatArray:
        """Gain of each hit; 1 without gains."""
        return read_only(np.ones(self.rank.size) if self.gains is None else self.gains.of_hits)

    @cached_property
    def _ideal(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Relevant items in ideal order: list, rank from 1, and gain of each."""
        if self.gains is None:
            owner, rank = _ragged(self.interacted)
            return owner, rank, np.ones(rank.size)
        return *_ragged(self.gains.ideal.lengths), self.gains.ideal.values

    def with_gains(self, of_hits: FloatArray, ideal: Ragged) -> Lists:
        """The same lists, with these gains."""
        twin = copy(self)
        twin.gains = Gains(of_hits, ideal)
        return twin

    def take(self, rows: IntArray) -> Lists:
        """These lists, which ascend."""
        where = np.full(len(self), -1)
        where[rows] = np.arange(rows.size)
        hits = np.flatnonzero(where[self.owner] >= 0)
        gains = self.gains
        if gains is not None:
            gains = Gains(gains.of_hits[hits], gains.ideal.take(rows))
        columns = (self.cell, self.kind, self.interacted, self.length)
        return Lists(
            *(column[rows] for column in columns),
            owner=where[self.owner[hits]],
            rank=self.rank[hits],
            gains=gains,
        )

    def distinct(self) -> tuple[Lists, IntArray]:
        """These lists with equal ones once, if they have few hits, and the index of each there."""
        every = np.arange(len(self))
        hits = np.bincount(self.owner, minlength=len(self))
        few = np.flatnonzero(hits <= 1)
        if self.is_graded or 2 * few.size < len(self):
            return self, every
        rank = np.zeros(len(self), np.int64)
        rank[self.owner] = self.rank
        keys = [column[few] for column in (self.kind, self.interacted, self.length, rank)]
        order = np.lexsort(keys)
        new = np.ones(few.size, np.bool_)
        new[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
        rows = np.sort(np.concatenate((few[order[new]], np.flatnonzero(hits > 1))))
        first = every.copy()
        first[few[order]] = few[order[new]][np.cumsum(new) - 1]
        return self.take(rows), np.searchsorted(rows, first)

    def joined(self, *others: Lists) -> Lists:
        """These lists, then those of others, all graded or none."""
        if not others:
            return self
        parts = (self, *others)
        starts = np.cumsum([0, *map(len, parts[:-1])])
        gains = [part.gains for part in parts if part.gains is not None]

        def column(name: str) -> IntArray:
            return np.concatenate([getattr(part, name) for part in parts])

        return Lists(
            *map(column, ("cell", "kind", "interacted", "length")),
            owner=np.concatenate(
                [part.owner + start for part, start in zip(parts, starts, strict=True)]
            ),
            rank=column("rank"),
            gains=Gains(
                np.concatenate([gain.of_hits for gain in gains]),
                gains[0].ideal.joined(*(gain.ideal for gain in gains[1:])),
            )
            if gains
            else None,
        )

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
        owners, ranks, gains = self._ideal
        here = up_to(ranks, k)
        owner, rank = owners[here], ranks[here]
        return HitRows(
            rank=rank,
            hits=np.ones_like(rank),
            ordinals=rank,
            size=self.interacted[owner],
            gain=gains[here],
            owner=owner,
            lists=len(self),
        )

    def rows_by(self, size: int, k: int | None) -> HitRows:
        """See `HitsView`."""
        here = up_to(self.rank, k)
        if size == FIRST:
            here &= self.ordinal == 1
        owner = self.owner[here]
        return HitRows(
            rank=self.rank[here],
            hits=np.ones(owner.size, np.int64),
            ordinals=self.ordinal[here],
            size=self._size(size)[owner],
            gain=self.gain[here],
            owner=owner,
            lists=len(self),
        )

    def _size(self, size: int) -> IntArray:
        if size == FIRST:
            return np.ones_like(self.length)
        if size == IDEAL:
            return np.minimum(self.interacted, self.length)
        return self.interacted if size == INTERACTED else self.length


class ListRows(NamedTuple):
    """Some lists of a batch; `rows` are their indices there, ascending."""

    rows: IntArray
    lists: Lists


def lists_of(options: HitsOptions, batch: Batch, cells: IntArray) -> Iterator[ListRows]:
    """The lists of a batch, separately without and with gains other than 1.

    `cells`: the cell of each list.

    Example:
        >>> batch = Batch(recommendations=[["a", "b"], ["c"]], interactions=[["b"], []])
        >>> (rows, lists), = lists_of(HitsOptions(depth=2), batch, np.array([0, 0]))
        >>> lists.rank.tolist(), lists.interacted.tolist()
        ([2], [1, 0])
    """
    if options.type:
        batch = batch.of_type(options.type)
    positioned = _positioned(batch)
    hits, gains = _relevant(options, _searched(options, batch, positioned))
    if options.counting == "joined":
        hits, gains = _with_repeated(options, batch, hits, gains)
    length = np.minimum(hits.length, options.last)
    owner, rank, gain = _ranked(options, hits, batch, positioned)
    kind = _kinds(options, batch, hits, positioned)
    lists = Lists(cells, kind, hits.interacted, length, owner=owner, rank=rank)
    graded = np.zeros(len(lists), np.bool_)
    graded[gains.rows[gains.values != 1]] = True
    if not graded.any():
        yield ListRows(np.arange(len(lists)), lists)
        return
    if not graded.all():
        rows = np.flatnonzero(~graded)
        yield ListRows(rows, lists.take(rows))
    rows = np.flatnonzero(graded)
    yield ListRows(rows, lists.with_gains(gain, gains.in_order(len(lists))).take(rows))


class _RelevantGains(NamedTuple):
    """The relevant gains of interactions that have gains, and the list of each."""

    rows: IntArray
    values: FloatArray

    def in_order(self, lists: int) -> Ragged:
        """The gains of each list, in descending order."""
        order = np.lexsort((-self.values, self.rows))
        return Ragged.of_lengths(self.values[order], np.bincount(self.rows, minlength=lists))


def _searched(options: HitsOptions, batch: Batch, positioned: BoolArray | None) -> Matches:
    every = options.repeats == "every"
    if options.repeats.startswith("compact"):
        batch = _compacted(options, batch, positioned)
    if positioned is not None:
        return hits_of(batch, Search(every=True))
    return hits_of(batch, Search(options.last, every=every))


def _relevant(options: HitsOptions, hits: Matches) -> tuple[Matches, _RelevantGains]:
    """The relevant hits, with the number of relevant interactions, and the relevant gains."""
    interacted = hits.given if options.counting == "every" else hits.interacted
    if not hits.graded.size and not options.needs_gains:
        return hits._replace(interacted=interacted), _RelevantGains(hits.graded, hits.gains)
    rows = np.repeat(hits.graded, hits.interacted[hits.graded])
    kept = _are_relevant(options, hits.gains)
    gains = _RelevantGains(rows[kept], hits.gains[kept])
    # An interaction without a gain counts 1.
    interacted = np.zeros_like(interacted) if options.needs_gains else interacted.copy()
    interacted[hits.graded] = 0
    interacted += np.bincount(gains.rows, minlength=interacted.size)
    gain = hits.gain if hits.gain.size else np.ones(hits.owner.size)
    relevant = np.flatnonzero(_are_relevant(options, gain))
    relevant_hits = hits._replace(
        interacted=interacted,
        owner=hits.owner[relevant],
        place=hits.place[relevant],
        item=hits.item[relevant],
        gain=gain[relevant],
    )
    return relevant_hits, gains


def _are_relevant(options: HitsOptions, gains: FloatArray) -> BoolArray:
    if options.relevant == "all" and not options.min_gain:
        return np.ones(gains.size, np.bool_)
    return (gains > 0) & (gains >= options.min_gain)


def _with_repeated(
    options: HitsOptions, batch: Batch, hits: Matches, gains: _RelevantGains
) -> tuple[Matches, _RelevantGains]:
    """With an interaction more for each time that a list has one of its relevant items again."""
    every, _ = _relevant(options, hits_of(batch, Search(every=True)))
    first = first_hits(every.owner, every.item)
    if first is None:
        return hits, gains
    again = np.ones(every.owner.size, np.bool_)
    again[first] = False
    rows = every.owner[again]
    interacted = hits.interacted + np.bincount(rows, minlength=hits.interacted.size)
    if not gains.rows.size:
        return hits._replace(interacted=interacted), gains
    more = every.gain[again] if every.gain.size else np.ones(rows.size)
    together = _RelevantGains(
        np.concatenate((gains.rows, rows)), np.concatenate((gains.values, more))
    )
    return hits._replace(interacted=interacted), together


def _ranked(
    options: HitsOptions, hits: Matches, batch: Batch, positioned: BoolArray | None
) -> tuple[IntArray, IntArray, FloatArray]:
    """List, rank and gain of each hit up to the depth, by ascending list and rank."""
    gain = hits.gain if hits.gain.size else np.ones(hits.owner.size)
    if positioned is None:
        return hits.owner, hits.place + 1, gain
    ranks = explicit_ranks(batch)
    rank, there = hits.place + 1, positioned[hits.owner]
    starts = ranks.offsets[hits.owner[there]]
    rank[there] = ranks.values[starts + hits.place[there]]
    kept = np.flatnonzero(rank <= options.last)
    # The sort is stable, so items at one rank keep the order of the list.
    order = kept[np.lexsort((rank[kept], hits.owner[kept]))]
    if options.repeats != "every":
        first = first_hits(hits.owner[order], hits.item[order])
        order = order if first is None else order[first]
    return hits.owner[order], rank[order], gain[order]


def explicit_ranks(batch: Batch) -> Ragged:
    """The explicit rank of each item of a batch; no entries for a list without them."""
    given: Any = batch.positions
    if isinstance(given, Ragged):
        return given
    positions = [ranks if ranks is not None else () for ranks in given or ()]
    lengths = np.fromiter(map(len, positions), np.int64, len(positions))
    values = np.fromiter(chain.from_iterable(positions), np.int64, int(lengths.sum()))
    return Ragged.of_lengths(values, lengths)


def _positioned(batch: Batch) -> BoolArray | None:
    """Which lists have explicit positions; None if none has."""
    given: Any = batch.positions
    if given is None:
        return None
    if isinstance(given, Ragged):
        return np.ones(len(batch), np.bool_)
    has_positions = np.array([ranks is not None for ranks in given], np.bool_)
    return has_positions if has_positions.any() else None


def _compacted(options: HitsOptions, batch: Batch, positioned: BoolArray | None) -> Batch:
    """The batch with repeated items removed from lists without explicit positions."""
    explicit = np.zeros(len(batch), np.bool_) if positioned is None else positioned
    rows = zip(batch.recommendations, explicit.tolist(), strict=True)
    shown = [
        items if there else list(dict.fromkeys(items[: options.rows])) for items, there in rows
    ]
    acts = [*batch.interactions]
    return msgspec.structs.replace(batch, recommendations=shown, interactions=acts, matches=None)


def _kinds(
    options: HitsOptions, batch: Batch, hits: Matches, positioned: BoolArray | None
) -> IntArray:
    kinds = np.zeros(hits.length.size, np.int64)
    if positioned is not None:
        kinds += POSITIONED * positioned
    if options.ids == "integer" and kind_of_ids(batch) == "text":
        without_gains = hits.given > 0
        without_gains[hits.graded] = False
        kinds += REFUSED * without_gains
    return kinds


def _ragged(widths: IntArray) -> tuple[IntArray, IntArray]:
    """For rows of these widths, the row of each entry, and its place in the row from 1."""
    owner = np.repeat(np.arange(widths.size), widths)
    starts = np.cumsum(widths) - widths
    return owner, np.arange(owner.size) - starts[owner] + 1
