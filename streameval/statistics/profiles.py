"""Finds the profile of one list and its interactions: the hot path of each event."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, KeysView, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias

import msgspec

from streameval.events import Id, Interactions
from streameval.statistics.lists import POSITIONED, REFUSED, GradedProfile, Outcome, Profile

Repeats: TypeAlias = Literal["first", "every", "compact_before_cut", "compact_after_cut"]
"""A repeated item of a list counts at its first place, at every place, or repeats are removed
before or after the list is cut."""

Relevant: TypeAlias = Literal["positive", "all"]
"""Relevant items: those with a gain above 0, or all with a gain."""

Counting: TypeAlias = Literal["distinct", "every"]
"""How often a repeated item of the interactions counts: once, or each time."""

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
        min_gain: smallest relevant gain, if `relevant` is "positive".
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
        return self.min_gain > 1 and self.relevant == "positive"


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
    worthless = options.needs_gains

    def profile(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        kind = REFUSED if integers and _any_text(interactions) else 0
        if compact:
            recommendations = list(dict.fromkeys(recommendations[:rows]))
        shown = recommendations[:depth]
        if worthless or not interactions:
            return (kind, 0, len(shown))
        wanted = set(interactions)
        interacted = len(interactions) if repeating else len(wanted)
        if every:
            found = [place for place, item in enumerate(shown) if item in wanted]
        else:
            found = _first_places(shown, wanted.intersection(shown))
        return (kind, interacted, len(shown), *found)

    return profile


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
    length, hits = _placed(options, recommendations, gains.keys(), positions)
    head = (kind, interacted, length, *(place for place, _ in hits))
    if all(gain == 1 for gain in gains.values()):
        return head
    of_hits = tuple(gains[item] for _, item in hits)
    return head, of_hits, tuple(sorted(gains.values(), reverse=True))


def _relevant(options: HitsOptions, interactions: Mapping[Any, float]) -> dict[Id, float]:
    gains = {item: float(gain) for item, gain in interactions.items()}
    if options.relevant == "all":
        return gains
    least = options.min_gain
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
