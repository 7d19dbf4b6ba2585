"""Finds the profile of one list and its interactions: the work per event."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, Literal, TypeAlias

import msgspec

from streameval.events import Id, Interactions
from streameval.statistics.lists import POSITIONED, REFUSED, GradedProfile, Profile

Repeats: TypeAlias = Literal["first", "every", "compact_before_cut", "compact_after_cut"]
"""An item that stands several times in a list counts at its first place, at every place, or the
list is closed up to its first places before or after it is cut."""

Relevant: TypeAlias = Literal["positive", "all"]
"""Items that count: those with a gain above 0, or all that have one."""

Counting: TypeAlias = Literal["distinct", "every"]
"""How an item that stands several times among the interactions is counted: once, or each time."""

_USUAL_LENGTH: Final = 200

ProfileOf: TypeAlias = Callable[[Sequence[Id], Interactions], Profile]


def first_places(depth: int) -> ProfileOf:
    """Profiles in which an item counts at its first place: the hot path of every event."""
    # Most lists of click traffic: the same object is found faster among those counted.
    untouched = [(0, 0, length) for length in range(min(depth, _USUAL_LENGTH) + 1)]

    def profile(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        length = len(recommendations)
        if length > depth:
            length = depth
            if interactions:
                recommendations = recommendations[:length]
        if not interactions:
            return untouched[length] if length < len(untouched) else (0, 0, length)
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
        return (0, len(wanted), length, *sorted(map(place, found)))

    return profile


def every_place(depth: int) -> ProfileOf:
    """Profiles in which an item counts at every place where it stands."""

    def profile(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        kept, wanted = recommendations[:depth], set(interactions)
        places = (place for place, item in enumerate(kept) if item in wanted)
        return (0, len(wanted), len(kept), *places)

    return profile


def compacted(rows: int | None, profile: ProfileOf) -> ProfileOf:
    """Profiles of lists whose first `rows` rows are closed up to the items' first places."""
    return lambda recommendations, interactions: profile(
        list(dict.fromkeys(recommendations[:rows])), interactions
    )


def without_relevant(profile: ProfileOf) -> ProfileOf:
    """Profiles where an id, whose gain is 1, is worth too little to be relevant."""
    return lambda recommendations, _: profile(recommendations, ())


def counting_every(profile: ProfileOf) -> ProfileOf:
    """Profiles whose number of items interacted with counts repeats among them."""

    def counted(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        head, _, *rest = profile(recommendations, interactions)
        return (head, len(interactions), *rest)

    return counted


def integers_only(profile: ProfileOf) -> ProfileOf:
    """Profiles that mark lists whose interactions are not all named by integers as refused."""

    def marked(recommendations: Sequence[Id], interactions: Interactions) -> Profile:
        kind, *rest = profile(recommendations, interactions)
        return (kind + REFUSED * _any_text(interactions), *rest)

    return marked


def _any_text(ids: Iterable[Id]) -> bool:
    return any(isinstance(item, str) for item in ids)


class HitsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a Hits statistic; unlike ones do not merge.

    Attributes:
        depth: ranks kept; None keeps the whole list.
        repeats: what an item that stands in a list several times is.
        rows: for "compact_after_cut", how many rows are kept before compacting.
        min_gain: smallest gain that is relevant, where `relevant` is "positive".
        relevant: which items with a gain count.
        counting: what an item that stands among the interactions several times is.
        ids: whether interactions without gains are refused unless integers name them all.
        type: the type of interactions that count; "" for all of them.
    """

    depth: int | None = None
    repeats: Repeats = "first"
    rows: int | None = None
    min_gain: float = 0.0
    relevant: Relevant = "positive"
    counting: Counting = "distinct"
    ids: Literal["any", "integer"] = "any"
    type: str = ""


def profile_of(options: HitsOptions) -> ProfileOf:
    """The way to a list's profile; its items stand at 1, 2, 3, ... and its gains are all 1."""
    depth = sys.maxsize if options.depth is None else options.depth
    profile = (every_place if options.repeats == "every" else first_places)(depth)
    if options.repeats.startswith("compact"):
        profile = compacted(options.rows, profile)
    if options.counting == "every":
        profile = counting_every(profile)
    if options.min_gain > 1 and options.relevant == "positive":
        profile = without_relevant(profile)
    return integers_only(profile) if options.ids == "integer" else profile


class Profiler:
    """Finds the profile of any list.

    Attributes:
        profile: of lists whose items stand at 1, 2, 3, ... and whose gains are all 1.
    """

    __slots__ = ("_depth", "_options", "profile")

    def __init__(self, options: HitsOptions) -> None:
        self._options = options
        self._depth = sys.maxsize if options.depth is None else options.depth
        self.profile = profile_of(options)

    def outcome(
        self,
        recommendations: Sequence[Id],
        interactions: Interactions,
        positions: Sequence[int] | None,
    ) -> Profile | GradedProfile:
        """Profile of any list: with gains, with ranks of its own, or both."""
        gains = self._relevant(interactions)
        length, hits = self._placed(recommendations, set(gains), positions)
        ungraded = not isinstance(interactions, Mapping)
        every = self._options.counting == "every" and ungraded
        interacted = len(interactions) if every and gains else len(gains)
        kind = POSITIONED if positions is not None else 0
        if self._options.ids == "integer" and ungraded and _any_text(interactions):
            kind += REFUSED
        head = (kind, interacted, length, *(rank - 1 for rank, _ in hits))
        if all(gain == 1 for gain in gains.values()):
            return head
        of_hits = tuple(gains[item] for _, item in hits)
        return head, of_hits, tuple(sorted(gains.values(), reverse=True))

    def ranks_shown(self, positions: Sequence[int]) -> Iterator[int]:
        """The ranks that are kept."""
        return (rank for rank in positions if rank <= self._depth)

    def _relevant(self, interactions: Interactions) -> dict[Id, float]:
        if not isinstance(interactions, Mapping):
            known = self._options.min_gain <= 1 or self._options.relevant == "all"
            return dict.fromkeys(interactions, 1.0) if known else {}
        gains = {item: float(gain) for item, gain in interactions.items()}
        if self._options.relevant == "all":
            return gains
        least = self._options.min_gain
        return {item: gain for item, gain in gains.items() if gain > 0 and gain >= least}

    @staticmethod
    def _first_placed(shown: Sequence[Id], wanted: set[Id]) -> tuple[int, list[tuple[int, Id]]]:
        found = [(shown.index(item) + 1, item) for item in wanted.intersection(shown)]
        return len(shown), sorted(found, key=itemgetter(0))

    def _placed(
        self, recommendations: Sequence[Id], wanted: set[Id], positions: Sequence[int] | None
    ) -> tuple[int, list[tuple[int, Id]]]:
        if positions is None:
            if self._options.repeats.startswith("compact"):
                recommendations = list(dict.fromkeys(recommendations[: self._options.rows]))
            if self._options.repeats != "every":
                return self._first_placed(recommendations[: self._depth], wanted)
            positions = range(1, len(recommendations) + 1)
        pairs = zip(positions, recommendations, strict=True)
        shown = [pair for pair in pairs if pair[0] <= self._depth]
        hits = sorted((pair for pair in shown if pair[1] in wanted), key=itemgetter(0))
        if self._options.repeats != "every":
            firsts: dict[Id, int] = {}
            for rank, item in hits:
                firsts.setdefault(item, rank)
            hits = [(rank, item) for item, rank in firsts.items()]
        # The list's own length, not what stands up to the depth: or a value would depend on it.
        return min(len(recommendations), self._depth), hits
