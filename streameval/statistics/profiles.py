"""Finds the profile of one list (the hot path of each event), or the hits of many coded lists."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, KeysView, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.events import Id, Interactions
from streameval.events.ragged import CodedBatch, Ragged
from streameval.statistics.arrays import IntArray, among, distinct
from streameval.statistics.lists import POSITIONED, REFUSED, GradedProfile, Lists, Outcome, Profile

Repeats: TypeAlias = Literal["first", "every", "compact_before_cut", "compact_after_cut"]
"""A repeated item of a list counts at its first place, at every place, or repeats are removed
before or after the list is cut."""

Relevant: TypeAlias = Literal["positive", "all"]
"""Relevant items: those with a gain above 0, or all with a gain."""

Counting: TypeAlias = Literal["distinct", "every", "joined"]
"""How often an item of the interactions counts: once, each time, or as often as the whole list has
it, as a join of recommendations and interactions does."""

_USUAL_LENGTH: Final = 200
_FEW: Final = 16
"""Up to so many items are searched one by one; more would take quadratic time."""

Profiler: TypeAlias = Callable[[Sequence[Id], Interactions], Outcome]


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
    """

    depth: int | None = None
    repeats: Repeats = "first"
    rows: int | None = None
    min_gain: float = 0.0
    relevant: Relevant = "positive"
    counting: Counting = "distinct"
    ids: Literal["any", "integer"] = "any"
    type: str = ""

    @property
    def last(self) -> int:
        """The last rank kept."""
        return sys.maxsize if self.depth is None else self.depth

    @property
    def needs_gains(self) -> bool:
        """Whether an interaction without a gain, which counts 1, is below `min_gain`."""
        return self.min_gain > 1


@lru_cache(maxsize=256)
def profiler(options: HitsOptions) -> Profiler:
    """A function that gives the profile of a list without positions and gains."""
    plain = (options.repeats, options.counting, options.ids) == ("first", "distinct", "any")
    usual = plain and not options.needs_gains
    return _first_place_profiler(options.last) if usual else _general_profiler(options)


def _first_place_profiler(depth: int) -> Profiler:
    """Profiles in which an item counts at its first place."""
    # Most lists of click traffic: a Counter finds the identical tuple faster than an equal one.
    no_interactions = [(0, 0, length) for length in range(min(depth, _USUAL_LENGTH) + 1)]

    def profile(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        length = len(recommendations)
        if length > depth:
            length = depth
            if interactions:
                recommendations = recommendations[:length]
        if not interactions:
            return no_interactions[length] if length < len(no_interactions) else (0, 0, length)
        place = recommendations.index
        if len(interactions) == 1:
            (item,) = interactions
            return (0, 1, length, place(item)) if item in recommendations else (0, 1, length)
        wanted = set(interactions)
        found = wanted.intersection(recommendations)
        if not found:
            return (0, len(wanted), length)
        if len(found) == 1:
            (item,) = found
            return (0, len(wanted), length, place(item))
        return (0, len(wanted), length, *_first_places(recommendations, found))

    return profile


def _first_places(shown: Sequence[Id], found: Collection[Id]) -> list[int]:
    """The first place of each of these items of a list, ascending."""
    if len(found) <= _FEW:
        return sorted(map(shown.index, found))
    # The last of equal keys stays, so the list is read from its end.
    places = dict(zip(reversed(shown), range(len(shown) - 1, -1, -1), strict=True))
    return sorted(map(places.__getitem__, found))


def _general_profiler(options: HitsOptions) -> Profiler:
    """Profiles for any options."""
    depth, rows = options.depth, options.rows
    compact, every = options.repeats.startswith("compact"), options.repeats == "every"
    repeating, integers = options.counting == "every", options.ids == "integer"
    joined = options.counting == "joined"
    worthless = options.needs_gains

    def profile(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        kind = REFUSED if integers and _any_text(interactions) else 0
        whole = recommendations
        if compact:
            recommendations = list(dict.fromkeys(recommendations[:rows]))
        shown = recommendations[:depth]
        if worthless or not interactions:
            return (kind, 0, len(shown))
        wanted = set(interactions)
        interacted = len(interactions) if repeating else len(wanted)
        if joined:
            interacted += len(repeated(whole, wanted))
        if every:
            found = [place for place, item in enumerate(shown) if item in wanted]
        else:
            found = _first_places(shown, wanted.intersection(shown))
        return (kind, interacted, len(shown), *found)

    return profile


def repeated(shown: Sequence[Id], wanted: Collection[object]) -> list[Id]:
    """Those of these items that a list has again, each as often as it comes again.

    Example:
        >>> repeated(["a", "b", "a", "c", "c", "a"], {"a", "b"})
        ['a', 'a']
    """
    places = Counter(item for item in shown if item in wanted)
    places.subtract([*places])
    return [*places.elements()]


def _any_text(ids: Iterable[Id]) -> bool:
    return any(isinstance(item, str) for item in ids)


def outcome_of(
    options: HitsOptions,
    recommendations: Sequence[Id],
    interactions: Interactions,
    positions: Sequence[int] | None,
) -> Profile | GradedProfile:
    """Profile of a list that may have gains and positions."""
    kind = 0 if positions is None else POSITIONED
    if isinstance(interactions, Mapping):
        gains = _relevant(options, interactions)
        interacted = len(gains)
    else:
        gains = {} if options.needs_gains else dict.fromkeys(interactions, 1.0)
        every = options.counting == "every" and gains
        interacted = len(interactions) if every else len(gains)
        if options.ids == "integer" and _any_text(interactions):
            kind += REFUSED
    ideal = [*gains.values()]
    if options.counting == "joined":
        again = repeated(recommendations, gains)
        ideal += [gains[item] for item in again]
        interacted += len(again)
    length, hits = _placed(options, recommendations, gains.keys(), positions)
    head = (kind, interacted, length, *(place for place, _ in hits))
    if all(gain == 1 for gain in gains.values()):
        return head
    of_hits = tuple(gains[item] for _, item in hits)
    return head, of_hits, tuple(sorted(ideal, reverse=True))


def _relevant(options: HitsOptions, interactions: Mapping[Any, float]) -> dict[Id, float]:
    gains = {item: float(gain) for item, gain in interactions.items()}
    least = options.min_gain
    if options.relevant == "all" and not least:
        return gains
    return {item: gain for item, gain in gains.items() if gain > 0 and gain >= least}


def _placed(
    options: HitsOptions,
    recommendations: Sequence[Id],
    wanted: KeysView[Id],
    positions: Sequence[int] | None,
) -> tuple[int, list[tuple[int, Id]]]:
    """The length of a list, and the place and item of each hit, ascending."""
    every = options.repeats == "every"
    if positions is None:
        if options.repeats.startswith("compact"):
            recommendations = list(dict.fromkeys(recommendations[: options.rows]))
        shown = recommendations[: options.depth]
        if every:
            return len(shown), [pair for pair in enumerate(shown) if pair[1] in wanted]
        return len(shown), [(at, shown[at]) for at in _first_places(shown, wanted & set(shown))]
    pairs = zip(positions, recommendations, strict=True)
    kept = [pair for pair in pairs if pair[0] <= options.last and pair[1] in wanted]
    hits = [(rank - 1, item) for rank, item in sorted(kept, key=itemgetter(0))]
    if not every:
        firsts: dict[Id, int] = {}
        for place, item in hits:
            firsts.setdefault(item, place)
        hits = [(place, item) for item, place in firsts.items()]
    # The length of the list, not the number of items up to the depth, or values would depend on it.
    return min(len(recommendations), options.last), hits


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
    elif options.counting == "joined":
        found = found._replace(interacted=found.interacted + _repeated(coded))
    kind = _kind(options, coded)
    return Lists.of_hits(cells, kind, found.interacted, shown.lengths, found.owner, found.place + 1)


def _repeated(coded: CodedBatch) -> IntArray:
    """How often each list has an item of its interactions again."""
    shown, acts, lists = coded.recommendations, coded.interactions, len(coded)
    every = np.bincount(matches(shown, acts, every=True).owner, minlength=lists)
    return every - np.bincount(matches(shown, acts).owner, minlength=lists)


def _kind(options: HitsOptions, coded: CodedBatch) -> IntArray:
    refused = options.ids == "integer" and bool(coded.texts)
    return REFUSED * ((coded.interactions.lengths > 0) & refused).astype(np.int64)
